"""A sweep: a comparison at each of several points, in memory or in a folder that can be continued."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enlist._internal import checks, files
from enlist.engine import AnyEngine, chosen
from enlist.errors import EnlistError, InputError, unknown
from enlist.runs.columns import SCORED
from enlist.runs.groups import Group, Values, compared_rows, group_rows, ordered, run_frame, write_rows
from enlist.runs.printing import as_html, as_text, comparison_table, plural, short_names, titled
from enlist.runs.tables import read_run
from enlist.selectors import AnyMethods
from enlist.simulation.comparison import LOGGER, METHODS, SEEDS, Comparison, result_of
from enlist.simulation.config import Config
from enlist.simulation.header import remember_sweep
from enlist.simulation.jobs import Job, JobResults, JobSettings, Tick
from enlist.simulation.plans import Plan
from enlist.simulation.points import AnyPoints, Point, points_of
from enlist.simulation.results import ComparisonResult, Run
from enlist.simulation.running import AnyConfig, configured

if TYPE_CHECKING:  # charts are slow to import, and no run draws one
    import altair as alt

TABLE = "sweep.csv"
"""One row per run, in the folder of a sweep."""


@dataclasses.dataclass(frozen=True)
class Sweep(Plan):
    """What is run: at every point, every method with every seed.

    Parameters
    ----------
    config : Config
        The federation.
    points : dict, list of dict, or path
        A grid, {"rounds.k": [5, 10, 20]}; a list of points, [{"rounds.k": 5}, {"rounds.k": 10}]; or a CSV file with a
        column for each key.
    methods : str, list or dict
        Methods, in any form that `Comparison` takes.
    seeds : int, default 5
        Runs per point and method.
    first_seed : int, default 0
        The first seed.

    >>> Sweep(Config(), {"rounds.k": [5, 10]}, "random, oort", seeds=1).runs()
    [('k = 5', 'random', 0), ('k = 5', 'oort', 0), ('k = 10', 'random', 0), ('k = 10', 'oort', 0)]
    """

    config: Config
    points: tuple[Point, ...]
    comparisons: tuple[Comparison, ...]

    def __init__(
        self, config: Config, points: AnyPoints, methods: AnyMethods, seeds: int = SEEDS, first_seed: int = 0
    ) -> None:
        found = points_of(config, points)
        object.__setattr__(self, "config", config)
        object.__setattr__(self, "points", found)
        compared = tuple(Comparison(point.config, methods, seeds, first_seed) for point in found)
        object.__setattr__(self, "comparisons", compared)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that are swept."""
        return tuple(self.points[0].values)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the methods."""
        return self.comparisons[0].labels

    @property
    def title(self) -> str:
        """The title: numbers of points, methods and seeds."""
        counts = ((self.points, "point"), (self.labels, "method"), (range(self.comparisons[0].seeds), "seed"))
        return ", ".join(plural(len(several), noun) for several, noun in counts)

    def runs(self) -> list[tuple[str, str, int]]:
        """Every (point, label, seed), point by point."""
        pairs = zip(self.points, self.comparisons, strict=True)
        return [(point.name, *key) for point, comparison in pairs for key in comparison.runs()]

    def check(self) -> None:
        """Refuse methods that do not fit a point, before anything runs; this imports the user's code."""
        for point, comparison in zip(self.points, self.comparisons, strict=True):
            try:
                comparison.check()
            except InputError as error:
                raise InputError(f"point {point.name}: {error}") from None

    def places(self, root: Path) -> list[Path]:
        """The folders of the points: each holds a comparison."""
        return [files.inside(root, "points", point.slug) for point in self.points]

    def jobs(self, root: Path | None = None) -> list[Job]:
        """The runs, each in its folder below `root`, if there is one."""
        places = [None] * len(self.points) if root is None else self.places(root)
        return [
            dataclasses.replace(job, key=(point.name, *job.key))
            for point, comparison, place in zip(self.points, self.comparisons, places, strict=True)
            for job in comparison.jobs(place)
        ]

    def remember(self, root: Path, accept_changes: bool) -> None:
        """Record in the folder what is swept, or refuse a folder that holds another sweep."""
        remember_sweep(self, root, accept_changes)

    def headers(self, root: Path) -> list[Path]:
        """comparison.json of every point, and sweep.json."""
        return [*(place / "comparison.json" for place in self.places(root)), root / "sweep.json"]

    def groups(self, root: Path, ended: JobResults) -> list[Group]:
        """The tables of the runs that are finished, point by point, from the folder."""
        found = [Group(point.written, []) for point in self.points]
        by_name = {point.name: group for point, group in zip(self.points, found, strict=True)}
        for job in self.jobs(root):
            if job.key in ended.finished and job.folder is not None:
                by_name[job.key[0]].runs.append(read_run(job.folder, SCORED))
        return [Group(group.values, ordered(group.runs)) for group in found if group.runs]


def sweep(
    config: AnyConfig,
    points: AnyPoints,
    methods: AnyMethods = METHODS,
    *,
    seeds: int = SEEDS,
    first_seed: int = 0,
    baseline: str | None = None,
    target: float | None = None,
    folder: str | PathLike[str] | None = None,
    jobs: int = 1,
    engine: AnyEngine = None,
    workers: int = 0,
    device: str = "cpu",
    trackers: Sequence[str] = (),
    accept_changes: bool = False,
    tick: Tick | None = None,
) -> SweepResult:
    """Compare methods at several points of a configuration.

    Parameters
    ----------
    config : Config or path
        The federation: a `Config`, or the path of a TOML file.
    points : dict, list of dict, or path
        A grid of keys and their values, {"rounds.k": [5, 10, 20], "data.partition.alpha": [0.1, 1]}; a list of points,
        [{"rounds.k": 5}, {"rounds.k": 10, "data.partition.alpha": 1}]; or a CSV file with a column for each key. Keys
        that a point does not name keep the configuration's values.
    methods : str, list or dict, default "random,oort,bsfl,fedsuv"
        The methods to compare, as for `compare`.
    seeds : int, default 5
        Runs per point and method; at a point, every method runs on the same populations.
    first_seed : int, default 0
        The first seed.
    baseline : str, optional
        The label of the method that speed-ups are relative to; by default "random".
    target : float, optional
        Times to this accuracy are compared; by default the configuration's target, else what the baseline reaches at
        the point.
    folder : path, optional
        Where to keep the runs, with sweep.csv, one row per run; runs that it holds are not run again. Points, methods
        and seeds may be added later. Without a folder the runs stay in memory.
    jobs : int, default 1
        Processes. One means this process. The results are the same.
    engine : str or Engine, default "local"
        Where to execute the runs: "local" processes, or a Ray cluster: "ray" or "ray://host:10001", on which `jobs`,
        if above one, limits how many run at once. The results are the same; see docs/scaling.md.
    workers : int, default 0
        Processes that train each run.
    device : {"cpu", "cuda"}, default "cpu"
        Where to train.
    trackers : sequence of str
        Where to log as well: "tensorboard", "mlflow", "wandb".
    accept_changes : bool, default False
        Continue with folders whose files were changed in the meantime.
    tick : callable, optional
        Called with point, label, seed and status of that run, for a progress bar.

    Returns
    -------
    SweepResult
        One table, the comparison at every point, small multiples, a page, and every run.

    >>> config = Config(data={"clients": 10}, rounds={"rounds": 4, "k": 3})
    >>> result = sweep(config, {"rounds.k": [2, 4]}, "random, oort", seeds=2)
    >>> result.table[["rounds.k", "method"]].values.tolist()
    [[2, 'oort'], [2, 'random'], [4, 'oort'], [4, 'random']]
    """
    plan = Sweep(configured(config), points, methods, seeds, first_seed)
    if baseline is not None:
        checks.one_of("baseline", baseline, plan.labels)
    checks.whole("jobs", jobs, minimum=1)
    with chosen(engine, jobs, cpus=max(workers, 1)) as where:
        how = JobSettings(workers, device, tuple(trackers), accept_changes)
        ended = plan.run(folder, jobs, tick, how, engine=where)
    if not ended.finished:
        reasons = dict.fromkeys(ended.failed.values())
        raise EnlistError(f"every run failed: {'; '.join(reasons)}") from ended.first_error
    places = [None] * len(plan.points) if folder is None else plan.places(Path(folder))
    found = []
    for point, comparison, place in zip(plan.points, plan.comparisons, places, strict=True):
        own = ended.below(point.name)
        if own.finished:
            found.append((point.written, result_of(comparison, own, place, target, baseline)))
    failed = {(str(key[0]), str(key[1]), int(key[2])): reason for key, reason in ended.failed.items()}
    result = SweepResult(found, failed=failed, target=target, baseline=baseline, title=plan.title)
    if folder is not None:
        write_table(Path(folder), result.groups, target, baseline)
    for line in result.failures():
        LOGGER.warning(line)
    return result


def write_table(root: Path, groups: Sequence[Group], target: float | None, baseline: str | None) -> Path:
    """Write sweep.csv: one row per run with its folder, method, seed, the swept keys, and scores.

    >>> import tempfile
    >>> from enlist.runs.example import example_run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table(Path(folder), [Group({"rounds.k": 4}, [example_run()])], 0.7, None).read_text()[:36]
    'folder,method,seed,rounds.k,status,m'
    """
    folders = [run.folder for group in groups for run in group.runs]
    places = ["" if folder is None else folder.relative_to(root.absolute()).as_posix() for folder in folders]
    rows = compared_rows(groups, target, baseline)
    write_rows(root / TABLE, [{"folder": place, **row} for place, row in zip(places, rows, strict=True)])
    return root / TABLE


class SweepResult:
    """Points x methods x seeds: one table, the comparison at every point, small multiples, and every run.

    `sweep` returns it.

    >>> config = Config(data={"clients": 10}, rounds={"rounds": 2, "k": 3})
    >>> result = sweep(config, {"rounds.k": [2, 4], "data.partition": ["iid"]}, "random", seeds=1)
    >>> result.at(k=4).runs[0].rounds["selected"].tolist()
    [4, 4]
    """

    def __init__(
        self,
        results: Sequence[tuple[Values, ComparisonResult]],
        *,
        failed: dict[tuple[str, str, int], str] | None = None,
        target: float | None = None,
        baseline: str | None = None,
        title: str = "Sweep",
    ) -> None:
        self.results = list(results)
        """The points, each with its comparison."""
        self.failed = failed or {}
        """(point, label, seed) -> why that run failed."""
        self.target, self.baseline, self.title = target, baseline, title

    @property
    def points(self) -> list[dict[str, Any]]:
        """The points, as dicts of key and value."""
        return [dict(values) for values, _ in self.results]

    @property
    def runs(self) -> list[Run]:
        """Every run, point by point."""
        return [run for _, result in self.results for run in result.runs]

    @property
    def groups(self) -> list[Group]:
        """The tables of the runs, point by point."""
        return [Group(values, [run.tables for run in result.runs]) for values, result in self.results]

    def at(self, point: Values | None = None, /, **values: Any) -> ComparisonResult:
        """The comparison at a point: result.at(k=20, alpha=0.1), or result.at({"rounds.k": 20}).

        Keys may be shortened where they stay unambiguous; name as many as it takes to single out one point.
        """
        given, keys = {**(point or {}), **values}, list(self.results[0][0])
        full = {**{short: key for key, short in short_names(keys).items()}, **{key: key for key in keys}}
        for name in given:
            if name not in full:
                raise unknown("key", name, full, owner="the sweep")
        wanted = {full[name]: value for name, value in given.items()}
        found = [pair for pair in self.results if all(pair[0][key] == value for key, value in wanted.items())]
        if len(found) != 1:
            known = "; ".join(titled(values) for values, _ in (found or self.results)[:8])
            several = f"{len(found)} points have" if found else "no point of the sweep has"
            raise InputError(f"{several} {titled(wanted) or 'any values'}; name one of: {known}.")
        return found[0][1]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dict per point and method; `enlist.runs.comparing.comparison_rows` explains the scores."""
        return group_rows(self.groups, self.target, baseline=self.baseline)

    @property
    def table(self) -> Any:
        """One row per point and method, as a data frame: a column for every swept key, scores with 95 % intervals over
        seeds, and the speed-up over the baseline at the same point."""
        return run_frame([{"method" if name == "selector" else name: row[name] for name in row} for row in self.rows])

    def frame(self, library: str | None = None) -> Any:
        """One row per run, as a data frame: method, seed, a column for every swept key, and scores."""
        return run_frame(compared_rows(self.groups, self.target, self.baseline), library)

    def plot(self, along: str = "time") -> alt.TopLevelMixin:
        """Accuracy over virtual time, or over rounds, a panel per point, as an Altair chart."""
        from enlist.report.charts import styled
        from enlist.report.group_charts import group_curves

        chart = group_curves(self.groups, self.rows, along, self.title)
        if chart is None:
            raise InputError("nothing was evaluated yet; there is no curve to draw.")
        return styled(chart)

    def report(self, place: str | PathLike[str]) -> Path:
        """Write a page with tables and charts to a folder, or to a file that ends in .html; returns its path."""
        from enlist.report.groups import write_groups

        return write_groups(self.groups, Path(place), self.title, self.target, baseline=self.baseline)

    def failures(self) -> list[str]:
        """One sentence for each run that failed."""
        return [f"{point}: {label} failed with seed {seed}: {why}" for (point, label, seed), why in self.failed.items()]

    def __repr__(self) -> str:
        return "\n".join([as_text(comparison_table(self.rows, list(self.results[0][0]))), *self.failures()])

    def _repr_html_(self) -> str:
        failures = "".join(f"<p>{html.escape(line)}</p>" for line in self.failures())
        return as_html(comparison_table(self.rows, list(self.results[0][0]))) + failures
