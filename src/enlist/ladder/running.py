"""Running the ladder: every method on every rung with every seed, on the engine of comparisons."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from enlist import selectors, storage
from enlist._internal import checks, files
from enlist.engine import AnyEngine, chosen
from enlist.errors import EnlistError, InputError
from enlist.ladder.known import known_results, own_rungs
from enlist.ladder.leaderboard import CEILING, Leaderboard
from enlist.ladder.results import results
from enlist.ladder.rung import DEVELOPMENT, PUBLISHED, VERSION, Rung, packaged, rungs
from enlist.methods import Method, split
from enlist.runs.columns import SCORED
from enlist.runs.scores import BASELINE
from enlist.runs.tables import RunTables, read_run
from enlist.simulation.comparison import Comparison
from enlist.simulation.header import read_table
from enlist.simulation.jobs import Job, JobResults, JobSettings, Tick
from enlist.simulation.plans import Plan

ALL = "all"
"""Means every registered selector."""


@dataclasses.dataclass(frozen=True)
class Ladder(Plan):
    """The methods, rungs and seeds of a ladder run.

    Parameters
    ----------
    methods : str, list or dict, default "all"
        Methods in any form; "all" is every registered selector, and random is always included.
    rungs : str or list, optional
        Rungs by name, or your own `Rung` objects; by default all.
    seeds : int, optional
        The number of seeds; by default 5, or 10 published ones.
    published : bool, default False
        Use the seeds for publication instead of those for tuning.

    >>> Ladder("oort", "silos", seeds=1).runs()
    [('silos', 'random', 0), ('silos', 'oort', 0)]
    """

    methods: tuple[Method[Any], ...]
    rungs: tuple[Rung, ...]
    seeds: tuple[int, ...]
    published: bool

    def __init__(
        self,
        methods: selectors.AnyMethods = ALL,
        rungs: str | Sequence[str | Rung] | None = None,
        seeds: int | None = None,
        published: bool = False,
    ) -> None:
        known = PUBLISHED if published else DEVELOPMENT
        count = len(known) if seeds is None else checks.whole("seeds", seeds, minimum=1)
        if count > len(known):
            kind = "published" if published else "development"
            raise InputError(f"seeds is {count}; version {VERSION} of the ladder has {len(known)} {kind} seeds.")
        object.__setattr__(self, "methods", tuple(everybody(methods)))
        object.__setattr__(self, "rungs", tuple(_rungs(rungs)))
        object.__setattr__(self, "seeds", tuple(known[:count]))
        object.__setattr__(self, "published", published)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the methods."""
        return tuple(method.label for method in self.methods)

    def comparisons(self) -> dict[str, Comparison]:
        """The comparison of every rung, by its name."""
        return {rung.name: Comparison(rung.config, self.methods, len(self.seeds), self.seeds[0]) for rung in self.rungs}

    def runs(self) -> list[tuple[str, str, int]]:
        """Every (rung, label, seed), by rung and seed, because the seed of a rung determines its population."""
        return [(rung.name, label, seed) for rung in self.rungs for seed in self.seeds for label in self.labels]

    def check(self) -> None:
        """Refuse unknown or unsuitable methods before anything runs."""
        for comparison in self.comparisons().values():
            comparison.check()

    def jobs(self, root: Path | None = None) -> list[Job]:
        """The runs, each in its folder below `root`, if given."""
        return [
            dataclasses.replace(job, key=(name, *job.key))
            for name, comparison in self.comparisons().items()
            for job in comparison.jobs(root and files.inside(root, name))
        ]

    def remember(self, root: Path, accept_changes: bool) -> None:
        """Record in the folder what it holds, a comparison per rung, or refuse one that holds something else."""
        self._remember(root)
        for name, comparison in self.comparisons().items():
            comparison.remember(files.inside(root, name), accept_changes)

    def headers(self, root: Path) -> list[Path]:
        """comparison.json of every rung, and ladder.json."""
        return [*(root / rung.name / "comparison.json" for rung in self.rungs), root / "ladder.json"]

    def _remember(self, path: Path) -> None:
        """Write ladder.json, or check that the folder holds the same version and kind of seeds."""
        header = {"version": VERSION, "seeds": "published" if self.published else "development"}
        try:
            path.mkdir(parents=True, exist_ok=True)
            known = read_table(path / "ladder.json") if files.has_file(path / "ladder.json") else None
            if known is None and any(path.iterdir()):
                raise InputError(f"{path} is not empty and holds no ladder; name a new folder.")
            for name, value in header.items():
                if known is not None and known.get(name) != value:
                    raise InputError(
                        f"{path} holds a ladder with {name} = {known.get(name)!r}, and {value!r} was asked for; "
                        "results of the two are not mixed: name a new folder."
                    )
            own = dict.fromkeys([*own_rungs(path), *(rung.name for rung in self.rungs if not packaged(rung))])
            said = {**header, **({"own": list(own)} if own else {})}
            storage.replace(path / "ladder.json", (json.dumps(said) + "\n").encode())
        except OSError as error:
            raise InputError(f"{path} cannot be written ({error.strerror}); name another folder.") from None

    def known(self) -> list[dict[str, Any]]:
        """Known results on the rungs, of methods that are not run here, and of random."""
        theirs = {rung.name for rung in self.rungs if packaged(rung)}
        return [
            row
            for row in known_results(self.published)
            if row["rung"] in theirs and (row["selector"] == BASELINE or row["selector"] not in self.labels)
        ]

    def leaderboard(
        self, ended: JobResults, root: str | PathLike[str] | None = None, *, known: bool = True
    ) -> Leaderboard:
        """The results, from memory or from the folder, together with known ones."""
        if not ended.finished:
            reasons = dict.fromkeys(ended.failed.values())
            raise EnlistError(f"every run failed: {'; '.join(reasons)}") from ended.first_error
        found: dict[str, list[RunTables]] = {rung.name: [] for rung in self.rungs}
        for job in self.jobs(None if root is None else Path(root)):
            if job.key in ended.runs:
                found[job.key[0]].append(ended.runs[job.key].tables)
            elif job.key in ended.finished and job.folder is not None:
                tables = read_run(job.folder, SCORED)
                found[job.key[0]].append(dataclasses.replace(tables, selector=job.key[1]))
        rows = [row for name, runs in found.items() for row in results(name, runs)]
        hard = {rung.name: rung.hard for rung in self.rungs}
        failed = {(str(key[0]), str(key[1]), int(key[2])): reason for key, reason in ended.failed.items()}
        others = self.known() if known else []
        return Leaderboard(rows, known=others, hard=hard, failed=failed, published=self.published)


def ladder(
    methods: selectors.AnyMethods = ALL,
    rungs: str | Sequence[str | Rung] | None = None,
    *,
    seeds: int | None = None,
    published: bool = False,
    folder: str | PathLike[str] | None = None,
    jobs: int = 1,
    engine: AnyEngine = None,
    known: bool = True,
    accept_changes: bool = False,
    tick: Tick | None = None,
) -> Leaderboard:
    """Measure methods on every rung of the ladder.

    Parameters
    ----------
    methods : str, list or dict, default "all"
        The methods to run, in any form; "all" is every registered selector. Named methods are run even if known, and
        so is random, because all are compared with it.
    rungs : str or list, optional
        Rungs by name, or your own `Rung` objects; by default all.
    seeds : int, optional
        The number of seeds; by default 5, or 10 published ones.
    published : bool, default False
        Use the seeds for publication instead of those for tuning.
    folder : path, optional
        Where to save the runs; runs that it already holds are not repeated. Without one they stay in memory.
    jobs : int, default 1
        Processes. The results do not depend on it.
    engine : str or Engine, default "local"
        Where to run: "local" processes, or a Ray cluster: "ray" or "ray://host:10001", where `jobs` limits how many
        runs are done at once if it is above one. The results are the same; see docs/scaling.md.
    known : bool, default True
        Whether the leaderboard also shows known results of methods that were not run: those on the same rungs and seeds
        that come with the package, marked.
    accept_changes : bool, default False
        Continue even if files of the folders were changed in the meantime.
    tick : callable, optional
        Called with rung, label, seed and the state of that run.

    Returns
    -------
    Leaderboard
        Standings, scores per rung, a page. Failed runs are named in `failed`.

    >>> from enlist.simulation import Config
    >>> tiny = Rung("tiny", "Nothing.", Config(data={"clients": 8}, rounds={"rounds": 6, "k": 3}))
    >>> board = ladder("oort", [tiny], seeds=1)
    >>> sorted(board.labels), board.rungs
    (['oort', 'random'], ['tiny'])
    """
    climbed = Ladder(methods, rungs, seeds, published)
    checks.whole("jobs", jobs, minimum=1)
    with chosen(engine, jobs) as where:
        ended = climbed.run(folder, jobs, tick, JobSettings(accept_changes=accept_changes), engine=where)
    board = climbed.leaderboard(ended, folder, known=known)
    if folder is not None:
        board.write(folder)
    return board


def everybody(given: selectors.AnyMethods) -> list[Method[Any]]:
    """Methods in any form, with "all" and "oracle" expanded, and random added.

    >>> [method.label for method in everybody("oort, mine = bsfl")]
    ['random', 'oort', 'mine']
    """
    if isinstance(given, str):
        given = split(given)
    if isinstance(given, Iterable) and not isinstance(given, Mapping | type):
        spelled: list[Any] = []
        for each in given:
            spelled += _spelled(each.strip()) if isinstance(each, str) else [each]
        given = spelled
    found = selectors.methods(given)
    base = [method for method in found if method.label == BASELINE] or [selectors.method(BASELINE)]
    return [*base, *(method for method in found if method.label != BASELINE)]


def _spelled(name: str) -> list[Any]:
    """Expand a word: "all" to every registered selector, "oracle" to the ceiling, which is not registered."""
    if name == ALL:
        return list(selectors.names())
    return [Method("enlist.simulation.oracle:Oracle", label=CEILING)] if name == CEILING else [name]


def _rungs(given: str | Sequence[str | Rung] | None) -> list[Rung]:
    if given is None or isinstance(given, str):
        return rungs(given)
    own = [rung for rung in given if isinstance(rung, Rung)]
    names = [rung for rung in given if isinstance(rung, str)]
    found = [*(rungs(names) if names else []), *own]
    twice = [rung.name for index, rung in enumerate(found) if rung.name in {each.name for each in found[:index]}]
    if twice or not found:
        raise InputError(f"two rungs are called '{twice[0]}'; rename one." if twice else "no rungs were given.")
    return found
