"""What comparisons and sweeps have in common: runs that belong together, done once, in memory or in a folder."""

from __future__ import annotations

import abc
from collections.abc import Callable
from os import PathLike
from pathlib import Path

from enlist._internal import checks
from enlist.engine import Engine, local
from enlist.runs.failures import FAILURES, note_failures
from enlist.runs.starting import missing_folders, undo
from enlist.simulation.jobs import Job, JobResults, JobSettings, Tick, perform


class Plan(abc.ABC):
    """Runs that belong together."""

    @abc.abstractmethod
    def check(self) -> None:
        """Refuse what cannot run, before anything does."""

    @abc.abstractmethod
    def jobs(self, root: Path | None = None) -> list[Job]:
        """The runs, each in its folder below `root`, if there is one."""

    @abc.abstractmethod
    def remember(self, root: Path, accept_changes: bool) -> None:
        """Record in the folder what it holds, or refuse a folder that holds something else."""

    @abc.abstractmethod
    def headers(self, root: Path) -> list[Path]:
        """The files that `remember` writes, those of inner folders first."""

    def run(
        self,
        root: str | PathLike[str] | None = None,
        jobs: int = 1,
        tick: Tick | None = None,
        how: JobSettings | None = None,
        ready: Callable[[], None] | None = None,
        engine: Engine | None = None,
    ) -> JobResults:
        """Do the runs that are missing; in the folder `root`, if given.

        `ready` is called once all checks have passed, before the first run begins. `tick` is called with the parts of a
        run's key and the run's status. The results depend neither on `jobs` nor on `engine`, which is one of local
        processes by default.
        After an interruption, call it again with the same folder to continue.

        >>> from enlist.simulation import Comparison, Config
        >>> config = Config(data={"clients": 8}, rounds={"rounds": 2, "k": 3})
        >>> Comparison(config, "random", seeds=1).run().finished["random", 0]["rounds"]
        2
        """
        chosen = engine or local(checks.whole("jobs", jobs, minimum=1))
        self.check()
        begin = ready or (lambda: None)
        if root is None:
            begin()
            return perform(self.jobs(), chosen, tick, how)
        path = Path(root)
        new = {header: missing_folders(header.parent) for header in self.headers(path)}
        self.remember(path, bool(how and how.accept_changes))
        try:
            begin()
            ended = perform(self.jobs(path), chosen, tick, how)
            places = {job.key: job.folder for job in self.jobs(path)}
            reasons = {places[key]: reason for key, reason in ended.failed.items()}
            note_failures(path, {str(place and place.relative_to(path)): why for place, why in reasons.items()})
            return ended
        finally:
            for header, made in new.items():  # new folders that no run reached are removed
                if made:
                    undo(header.parent, [header.name, FAILURES], made)
