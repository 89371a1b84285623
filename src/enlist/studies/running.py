"""Running a study: experiments in parallel processes, each kept as soon as it is done, claims judged in the end.

Whoever is killed loses at most the experiments under way; the same call goes on with the others. A process that dies
is replaced twice, and begins its experiment anew.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from enlist import storage
from enlist._internal import checks, files
from enlist._internal.aliases import present_config
from enlist.engine import AnyEngine, Engine, chosen, keep_freed_memory, one_core, temporary_folder
from enlist.errors import EnlistError, InputError
from enlist.runs.digests import accepting_changes, first_difference
from enlist.runs.elsewhere import Contents, TaskFolder, contents, signed, write_back
from enlist.runs.folder import RunFolder
from enlist.studies.claims import JudgedClaim, judge, read_further
from enlist.studies.results import EXPERIMENTS, Output, Results, keep, kept
from enlist.studies.study import Experiment, Scale, Study

ADVICE = "what is finished is kept: continue with --resume, and if memory is short with fewer --jobs"
RULES = "rules.json"
"""File of the rules that a study began with."""
Tick = Callable[[Experiment, str], None]
"""Called with an experiment and its state: "kept" (from an earlier run), "finished" or "failed"."""


class Reproduction:
    """A study at one scale in one folder. `open` it, `run` it, and `judged` says what came out.

    >>> import tempfile
    >>> from enlist.studies.example import COINS
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Reproduction.open(COINS, COINS.scale("laptop"), folder) as work:
    ...         work.run(engine="local")
    ...         [(judged.claim.key, judged.verdict.kind) for judged in work.judged]
    [('more-heads', 'reproduced')]
    """

    def __init__(self, study: Study, scale: Scale, folder: RunFolder) -> None:
        self.study, self.scale, self.folder, self.root = study, scale, folder, folder.path
        self.experiments = _once(study.experiments(scale))
        self.further: list[Experiment] = []
        self.outputs: dict[tuple[str, int], Output] = {}
        self.failed: dict[tuple[str, int], str] = {}
        self.judged: list[JudgedClaim] = []
        self._noted = time.monotonic()
        self._read(self.experiments)
        self._note_rules()

    @classmethod
    def open(
        cls,
        study: Study,
        scale: Scale,
        root: str | PathLike[str],
        *,
        resume: bool = False,
        accept_changes: bool = False,
    ) -> Reproduction:
        """A new folder or, with `resume`, one that holds this study at this scale; seeds and extras may be added.

        `accept_changes` goes on with runs of experiments whose files somebody changed in the meantime.
        """
        config = {"study": study.name, "scale": scale.name, **scale.settings}
        if resume:
            _check_version(Path(root), config)
        folder = RunFolder.open(root, config, resume=resume, tables={}, accept_changes=accept_changes)
        try:
            return cls(study, scale, folder)
        except BaseException as failure:
            folder.__exit__(failure)
            raise

    def __enter__(self) -> Reproduction:
        return self

    def __exit__(self, *failure: object) -> None:
        self.folder.__exit__(*failure)

    def missing(self) -> list[Experiment]:
        """Experiments that have not been run yet."""
        return [each for each in (*self.experiments, *self.further) if (each.key, each.seed) not in self.outputs]

    def estimate(self, jobs: int, unclear: bool = False) -> float:
        """Seconds that the missing experiments will take in so many processes; with `unclear`, those that all claims
        may add among them.

        Where some of a key have been run already, the others are taken to last as long; else the study says.
        """
        spent: dict[str, list[float]] = {}
        for (key, _), output in self.outputs.items():
            spent.setdefault(key, []).append(output.seconds)
        wanted = self.missing()
        if unclear:
            more = (each for claim in self.study.claims for each in claim.further.experiments(self.scale))
            wanted = _once([*wanted, *(each for each in more if each not in self.experiments)])
        lengths = [
            sum(spent[each.key]) / len(spent[each.key]) if each.key in spent else each.seconds for each in wanted
        ]
        return max(sum(lengths) / max(min(jobs, len(lengths)), 1), max(lengths, default=0.0))

    def run(self, jobs: int = 1, tick: Tick | None = None, engine: AnyEngine = None) -> None:
        """Run what is missing, judge the claims, run what unclear ones call for, and read it.

        Experiments are done by an `engine`: "local" processes, as many as `jobs` says, or a Ray cluster: "ray" or
        "ray://host:10001", where `jobs` bounds how many are done at once.
        """
        with chosen(engine, checks.whole("jobs", jobs, minimum=1)) as where:
            self._run(where, tick or (lambda experiment, state: None))

    def _run(self, engine: Engine, tick: Tick) -> None:
        self._noted = time.monotonic()
        try:
            self._perform(self.experiments, engine, tick)
            found = [judge(claim, self.results()) for claim in self.study.claims]
            unclear = [judged.claim.further for judged in found if judged.needs_further]
            wanted = _once([each for further in unclear for each in further.experiments(self.scale)])
            self.further = [each for each in wanted if each not in self.experiments]
            self._read(self.further)
            self._perform(self.further, engine, tick)
            results = self.results()
            self.judged = [
                read_further(judged, results, planned=not judged.claim.further.experiments(self.scale))
                if judged.needs_further
                else judged
                for judged in found
            ]
        finally:
            self._note_wall()

    def results(self) -> Results:
        """The outputs so far."""
        wanted = [(each.key, each.settings, each.seed) for each in (*self.experiments, *self.further)]
        return Results.of(wanted, self.outputs)

    def wall(self) -> float:
        """Seconds that all calls of `run` in this folder have taken together."""
        rows = files.read(self.root / "wall.csv").decode(errors="replace").splitlines()[1:]
        return math.fsum(_seconds([*row.split(","), ""][1]) for row in rows)

    def rules_at_start(self) -> dict[str, str] | None:
        """The rules that the study had before its first experiment; None if nobody noted them."""
        if not files.has_file(self.root / RULES):
            return None
        try:
            return {str(key): str(said) for key, said in json.loads(files.read(self.root / RULES)).items()}
        except (ValueError, AttributeError, RecursionError):
            raise InputError(f"{self.root / RULES} is damaged; name a new folder for the study.") from None

    def _note_rules(self) -> None:
        """Note the rules before there is a result, so that it can be seen later whether they were changed."""
        if not self.outputs and not files.has_file(self.root / RULES):
            storage.replace(self.root / RULES, (json.dumps(self.study.rules(), indent=1) + "\n").encode())

    def _note_wall(self) -> None:
        """Note the time since the last note; after every experiment, so that a kill loses little of it."""
        now = time.monotonic()
        self.folder.note_wall(len(self.outputs), now - self._noted)
        self._noted = now

    def _read(self, experiments: Sequence[Experiment]) -> None:
        for each in experiments:
            if (found := kept(self.root, each)) is not None:
                self.outputs[each.key, each.seed] = found

    def _perform(self, experiments: Sequence[Experiment], engine: Engine, tick: Tick) -> None:
        waiting = []
        for each in experiments:
            if (each.key, each.seed) in self.outputs:
                tick(each, "kept")
            else:
                waiting.append(each)
        with contextlib.closing(
            performed(waiting, self.root, engine, self.study.preload, self.folder.accept_changes)
        ) as ends:
            for each, reason in ends:
                if reason:
                    self.failed[each.key, each.seed] = reason
                else:
                    self._read([each])
                self._note_wall()
                tick(each, "failed" if reason else "finished")


def _check_version(root: Path, config: Mapping[str, Any]) -> None:
    """Refuse a folder of the same study and scale whose settings were others: no option of today would bring them back.

    What is no folder of it at all is left to the folder itself to refuse.
    """
    try:
        saved = present_config(json.loads(files.read(root / "config.json")))
        same = all(saved[name] == config[name] for name in ("study", "scale"))
    except (EnlistError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return
    found = first_difference(saved, present_config(json.loads(json.dumps(config)))) if same else None
    if found is not None:
        raise InputError(
            f"{root} holds study '{config['study']}' as another version of Enlist had it ({found.key} = "
            f"{found.before!r}, now {found.now!r}); run it in a new folder, or go on with the version that began it "
            "(environment.json names it)."
        )


def performed(
    experiments: Sequence[Experiment],
    root: Path,
    engine: Engine,
    preload: str | None = None,
    accept_changes: bool = False,
) -> Generator[tuple[Experiment, str], None, None]:
    """Run experiments and keep what they give; yields each as it ends, with the reason if it failed.

    >>> import tempfile
    >>> from enlist.engine import local
    >>> from enlist.studies.example import COINS
    >>> coins = COINS.experiments(COINS.scale("smoke"))[:1]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [(each.key, reason) for each, reason in performed(coins, folder, local())]
    [('fair', '')]
    """
    if not experiments:
        return
    with contextlib.ExitStack() as stack:
        places: list[TaskFolder | None] = [None] * len(experiments)
        if not engine.shares_memory:
            folders = [Path(os.path.abspath(root), EXPERIMENTS, each.place) for each in experiments]
            sign, content = stack.enter_context(signed(folders))
            places = [TaskFolder(folder, sign, content, contents(folder)) for folder in folders]
            root = Path(os.path.abspath(root))
        tasks = [(each, root, accept_changes, place) for each, place in zip(experiments, places, strict=True)]
        role = "a process that ran an experiment"
        found = engine.map(_performed, tasks, role=role, advice=ADVICE, preload=preload, begin=_begin)
        for number, (reason, sent) in stack.enter_context(contextlib.closing(found)):
            place = places[number]
            if place is not None and sent:
                write_back(place.folder, sent)
            yield experiments[number], reason


def _performed(
    experiment: Experiment, root: str | PathLike[str], accept_changes: bool, place: TaskFolder | None
) -> tuple[str, Contents]:
    """Run one experiment; on a machine that does not see the folder, in another one, whose files are sent back."""
    if place is None or place.visible:
        return perform(experiment, root, accept_changes), {}
    with temporary_folder("experiment") as scratch:
        own = Path(scratch, EXPERIMENTS, experiment.place)
        if place.held:
            write_back(own, place.held)
        reason = perform(experiment, scratch, accept_changes)
        return reason, contents(own)


def perform(experiment: Experiment, root: str | PathLike[str], accept_changes: bool = False) -> str:
    """Run one experiment and keep what it gives; returns why it failed, or nothing.

    The traceback of a failure is left in error.txt in the experiment's folder.

    >>> import tempfile
    >>> broken = Experiment("broken", 0, {}, run=lambda settings, seed, folder: {"quotient": 1 / seed})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     perform(broken, folder)
    'ZeroDivisionError: division by zero (see experiments/broken/0/error.txt)'
    """
    try:
        place = files.make_folder(Path(root), EXPERIMENTS, *experiment.place.parts)
        files.check_tree(place)
    except (OSError, EnlistError) as error:
        return str(error)
    report = place / "error.txt"
    begun = time.perf_counter()
    try:
        with one_core(), accepting_changes(accept_changes):
            found = experiment.run(experiment.settings, experiment.seed, place)
        keep(Path(root), experiment, found, time.perf_counter() - begun)
        report.unlink(missing_ok=True)
    except Exception as error:  # whatever an experiment raises, the others go on
        with contextlib.suppress(OSError):
            files.write(report, traceback.format_exc().encode(errors="replace"))
        reason = str(error) if isinstance(error, EnlistError) else f"{type(error).__name__}: {error}"
        return f"{reason} (see {report.relative_to(root).as_posix()})"
    return ""


def _seconds(cell: str) -> float:
    """A reading of wall.csv; a torn or damaged one counts as nothing, as it is only told, not computed with."""
    try:
        return float(cell) if math.isfinite(float(cell)) else 0.0
    except ValueError:
        return 0.0


def _begin() -> None:
    keep_freed_memory()
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


def _once(experiments: Sequence[Experiment]) -> list[Experiment]:
    """Experiments without repetitions; two of the same key and seed must be the same."""
    found: dict[tuple[str, int], Experiment] = {}
    for each in experiments:
        known = found.setdefault((each.key, each.seed), each)
        if known.settings != each.settings:
            raise InputError(f"two experiments are called '{each.key}', and their settings differ; name them apart.")
    return list(found.values())
