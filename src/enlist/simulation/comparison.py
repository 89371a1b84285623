"""A comparison: methods x seeds on the same populations, in memory or in a folder that can be continued."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from enlist import selectors
from enlist._internal import checks, files
from enlist.engine import AnyEngine, chosen
from enlist.errors import EnlistError, InputError
from enlist.methods import Method
from enlist.runs.printing import plural
from enlist.runs.scores import BASELINE
from enlist.simulation.config import Config
from enlist.simulation.header import remember
from enlist.simulation.jobs import Job, JobResults, JobSettings, Tick
from enlist.simulation.plans import Plan
from enlist.simulation.points import UNSAFE
from enlist.simulation.results import ComparisonResult
from enlist.simulation.running import AnyConfig, configured, read

LOGGER = logging.getLogger("enlist")
METHODS = "random,oort,bsfl,fedsuv"
"""The methods that are compared by default."""
SEEDS = 5
MOST_SEEDS = 100_000


@dataclasses.dataclass(frozen=True)
class Comparison(Plan):
    """What is compared: every method with every seed, on the same populations.

    Parameters
    ----------
    config : Config
        The federation.
    methods : str, list or dict
        Methods: "random,oort+penalty=1", a list of any forms, or a dict of label to method.
    seeds : int, default 5
        Runs per method.
    first_seed : int, default 0
        The first seed.
    protocols : str or list of str, default ""
        Protocols, such as "synchronous,buffered,async": every method runs under each of them, with the same number of
        updates. By default, only the configuration's.

    >>> Comparison(Config(), "random, oort", seeds=2).runs()
    [('random', 0), ('oort', 0), ('random', 1), ('oort', 1)]
    >>> Comparison(Config(), "random, oort", protocols="synchronous,buffered").labels[1:3]
    ('oort (synchronous)', 'random (buffered)')
    """

    config: Config
    methods: tuple[Method, ...]  # type: ignore[type-arg]
    seeds: int = SEEDS
    first_seed: int = 0
    configs: Mapping[str, Config] = dataclasses.field(default_factory=dict)
    """Label -> configuration, where methods run under several protocols."""

    def __init__(
        self,
        config: Config,
        methods: selectors.AnyMethods,
        seeds: int = SEEDS,
        first_seed: int = 0,
        protocols: str | Sequence[str] = (),
    ) -> None:
        object.__setattr__(self, "config", config)
        found, configs = tuple(selectors.methods(methods)), {}
        named = [part.strip() for part in protocols.split(",")] if isinstance(protocols, str) else list(protocols)
        if wanted := [name for name in named if name]:
            changed = {name: config.with_protocol(name) for name in dict.fromkeys(wanted)}
            both = [(method.named(f"{method.label} ({name})"), name) for name in changed for method in found]
            found = tuple(method for method, _ in both)
            configs = {method.label: changed[name] for method, name in both}
        object.__setattr__(self, "methods", found)
        object.__setattr__(self, "configs", configs)
        object.__setattr__(self, "seeds", checks.whole("seeds", seeds, minimum=1, maximum=MOST_SEEDS))
        object.__setattr__(self, "first_seed", checks.whole("first_seed", first_seed, minimum=0))

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the methods."""
        return tuple(method.label for method in self.methods)

    @property
    def reference(self) -> str | None:
        """The default baseline of speed-ups if several protocols are compared: random under the first of them."""
        if not self.configs:
            return None
        own = [label for label in self.labels if label.startswith(f"{BASELINE} (")]
        return (own or self.labels)[0]

    def configured(self, method: Method[Any], seed: int | None = None) -> Config:
        """The configuration of a method's run."""
        return self.configs.get(method.label, self.config).with_method(method, seed)

    def runs(self) -> list[tuple[str, int]]:
        """Every (label, seed), seed by seed, because a seed is a population."""
        seeds = range(self.first_seed, self.first_seed + self.seeds)
        return [(method.label, seed) for seed in seeds for method in self.methods]

    def check(self) -> None:
        """Refuse methods that do not exist or do not fit, before anything runs; this imports the user's code."""
        names: dict[str, str] = {}
        for method in self.methods:
            self.configured(method, self.first_seed).selector.kind()
            taken = names.setdefault(_slug(method.label), method.label)
            if taken != method.label:
                raise InputError(
                    f"the labels '{taken}' and '{method.label}' give folders with the same name; rename one of them."
                )

    def jobs(self, root: Path | None = None) -> list[Job]:
        """The runs, each in its folder below `root`, if there is one."""
        by_label = {method.label: method for method in self.methods}
        return [
            Job((label, seed), self.configured(by_label[label], seed), root and self.folder(root, (label, seed)))
            for label, seed in self.runs()
        ]

    def folder(self, root: Path, key: tuple[str, int]) -> Path:
        """The folder of a run."""
        label, seed = key
        return files.inside(root, "runs", _slug(label), str(seed))

    def remember(self, root: Path, accept_changes: bool) -> None:
        """Record in the folder what it compares, or refuse a folder that holds another comparison."""
        remember(self, root, accept_changes)
        files.inside(root, "runs")

    def headers(self, root: Path) -> list[Path]:
        """comparison.json."""
        return [root / "comparison.json"]


def compare(
    config: AnyConfig,
    methods: selectors.AnyMethods = METHODS,
    *,
    seeds: int = SEEDS,
    first_seed: int = 0,
    protocols: str | Sequence[str] = (),
    baseline: str | None = None,
    target: float | None = None,
    folder: str | PathLike[str] | None = None,
    jobs: int = 1,
    engine: AnyEngine = None,
    workers: int = 0,
    device: str = "cpu",
    trackers: Sequence[str] = (),
    trust: bool = False,
    accept_changes: bool = False,
    tick: Tick | None = None,
) -> ComparisonResult:
    """Compare methods on the same populations.

    Parameters
    ----------
    config : Config or path
        The federation: a `Config`, or the path of a TOML file.
    methods : str, list or dict, default "random,oort,bsfl,fedsuv"
        The methods to compare: "random,oort+penalty=1", a list of names, classes and methods, or a dict of label to
        any of them.
    seeds : int, default 5
        Runs per method; every method runs on the same populations.
    first_seed : int, default 0
        The first seed.
    protocols : str or list of str, default ()
        Protocols, such as "synchronous,buffered,async": every method runs under each of them, with the same number of
        updates; a label is then "oort (buffered)". By default, only the configuration's protocol.
    baseline : str, optional
        The label of the method that speed-ups are relative to; by default "random", under the first protocol.
    target : float, optional
        Times to this accuracy are compared; by default the configuration's target, else what the baseline reaches.
    folder : path, optional
        Where to keep the runs; those that it holds already are not run again. Without a folder they stay in memory.
    jobs : int, default 1
        Processes. One means this process, so classes defined in a notebook work as they are; with more, a class that
        cannot be imported there is sent to them. The results are the same.
    engine : str or Engine, default "local"
        Where to execute the runs: "local" processes, or a Ray cluster: "ray" or "ray://host:10001", on which `jobs`,
        if above one, limits how many run at once. The results are the same; see docs/scaling.md.
    workers : int, default 0
        Processes that train each run.
    device : {"cpu", "cuda"}, default "cpu"
        Where to train.
    trackers : sequence of str
        Where to log as well: "tensorboard", "mlflow", "wandb".
    trust : bool, default False
        Run the code that a received folder's config.json names; see docs/trust.md.
    accept_changes : bool, default False
        Continue with folders whose files were changed in the meantime.
    tick : callable, optional
        Called with label, seed and status of that run, for a progress bar.

    Returns
    -------
    ComparisonResult
        The table with intervals, curves, pairs, a page, and every run. Runs that failed are named in `failed`.

    >>> config = Config(data={"clients": 10}, rounds={"rounds": 4, "k": 3})
    >>> result = compare(config, {"plain": "oort", "mild": "oort+penalty=1"}, seeds=2, baseline="plain")
    >>> [row["selector"] for row in result.rows]
    ['plain', 'mild']
    """
    settings = configured(config, trust)
    comparison = Comparison(settings, methods, seeds, first_seed, protocols)
    baseline = comparison.reference if baseline is None else checks.one_of("baseline", baseline, comparison.labels)
    checks.whole("jobs", jobs, minimum=1)
    with chosen(engine, jobs, cpus=max(workers, 1)) as where:
        how = JobSettings(workers, device, tuple(trackers), accept_changes)
        ended = comparison.run(folder, jobs, tick, how, engine=where)
    result = result_of(comparison, ended, folder, target, baseline)
    for line in result.failures():
        LOGGER.warning(line)
    return result


def result_of(
    comparison: Comparison,
    ended: JobResults,
    folder: str | PathLike[str] | None,
    target: float | None = None,
    baseline: str | None = None,
) -> ComparisonResult:
    """The result of a comparison, from memory or from its folder.

    >>> config = Config(data={"clients": 8}, rounds={"rounds": 2, "k": 3})
    >>> comparison = Comparison(config, "random", seeds=1)
    >>> result_of(comparison, comparison.run(), None).labels
    ['random']
    """
    if not ended.finished:
        reasons = dict.fromkeys(ended.failed.values())
        raise EnlistError(f"every run failed: {'; '.join(reasons)}") from ended.first_error
    found = []
    for job in comparison.jobs(None if folder is None else Path(folder)):
        if job.key in ended.runs:
            found.append(ended.runs[job.key])
        elif job.key in ended.finished and job.folder is not None:
            found.append(read(job.folder, job.config))
    labels = len(comparison.labels)
    title = f"{plural(labels, 'method')}, {plural(comparison.seeds, 'seed')}"
    failed = {(str(key[0]), int(key[1])): reason for key, reason in ended.failed.items()}
    return ComparisonResult(found, failed=failed, target=target, baseline=baseline, title=title)


def _slug(label: str) -> str:
    return UNSAFE.sub("-", label)


__all__ = ["Comparison", "JobResults", "compare", "remember", "result_of"]
