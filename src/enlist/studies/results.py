"""Results of experiments: kept one by one in a folder, read back as columns over seeds."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from enlist import selectors, storage
from enlist._internal import files
from enlist._internal.aliases import present_config
from enlist._internal.settings import build_settings
from enlist._internal.statistics import Summary, paired_difference
from enlist._internal.typing import AnyArray, FloatArray
from enlist.errors import InputError, unknown

if TYPE_CHECKING:
    from enlist.studies.study import Experiment

EXPERIMENTS = "experiments"
"""Name of the folder of all experiments in a result folder."""


@dataclasses.dataclass(frozen=True, eq=False)
class Output:
    """What one experiment gave, and how long it took.

    >>> Output({"auc": 0.7}, {"curve": np.array([0.5, 0.7])}, seconds=1.5)["curve"]
    array([0.5, 0.7])
    """

    values: Mapping[str, Any]
    arrays: Mapping[str, AnyArray]
    seconds: float

    def __getitem__(self, name: str) -> Any:
        if name in self.arrays:
            return self.arrays[name]
        if name not in self.values:
            raise unknown("result", name, [*self.values, *self.arrays])
        return self.values[name]


def keep(root: Path, experiment: Experiment, found: Mapping[str, Any], seconds: float) -> None:
    """Write what an experiment gave, in one step: whoever is killed meanwhile leaves nothing that counts.

    >>> import tempfile
    >>> from enlist.studies.example import COINS
    >>> experiment = COINS.experiments(COINS.scale("smoke"))[0]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     keep(Path(folder), experiment, {"heads": 3, "tosses": np.array([1, 0])}, seconds=0.5)
    ...     kept(Path(folder), experiment)["tosses"]
    array([1, 0])
    """
    arrays = {name: value for name, value in found.items() if isinstance(value, np.ndarray)}
    values = {name: _plain(value) for name, value in found.items() if name not in arrays}
    header = {
        "key": experiment.key,
        "seed": experiment.seed,
        "settings": dict(experiment.settings),
        "selector": selector_settings(experiment.settings),
        "values": values,
        "seconds": seconds,
    }
    storage.write(files.inside(root, EXPERIMENTS, *experiment.place.parts), "experiment", header, arrays)


def kept(root: Path, experiment: Experiment) -> Output | None:
    """What an experiment gave earlier; None if it has not been run. Other settings than now are an error, and so are
    other defaults of the selector that it names.

    >>> from enlist.studies.example import COINS
    >>> kept(Path("no-such-folder"), COINS.experiments(COINS.scale("smoke"))[0]) is None
    True
    """
    place = files.inside(root, EXPERIMENTS, *experiment.place.parts)
    files.check_tree(place)
    if not files.has_file(place / "state.json"):
        return None
    header, arrays = storage.read(place, "experiment")
    saved, wanted = _present(header["settings"]), _present(json.loads(json.dumps(experiment.settings)))
    if saved != wanted:
        raise InputError(f"{place} was run with {_differing(saved, wanted)}; name a new folder.")
    means = selector_settings(experiment.settings)
    if header.get("selector", means) != means:
        then = f"'{experiment.settings['selector']}' meant {_differing(header['selector'], means)}"
        raise InputError(f"{place} was run when {then}; remove it to run it anew, or name a new folder for the study.")
    return Output(header["values"], arrays, header["seconds"])


def selector_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the selector that an experiment names means: the settings of its preset, defaults included; {} without one.

    >>> selector_settings({"selector": "darts-ucb:paper"})["epsilon"]
    0.1
    """
    given = settings.get("selector")
    method = selectors.method(given) if given else None
    if method is None or method.name not in selectors.names():
        return {}
    section = settings.get("config", {}).get("selector") or {}
    found = build_settings(selectors.get(method.name), method.preset or section.get("preset"), method.settings)
    values: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(found), default=repr))
    return values


def _present(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Settings of an experiment in the words of today: those of a folder are in the words of its time."""
    config = settings.get("config")
    return {**settings, "config": present_config(config)} if isinstance(config, Mapping) else settings


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _differing(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    names = [name for name in {**then, **now} if then.get(name) != now.get(name)]
    return ", ".join(f"{name} = {then.get(name)!r}, and is asked for with {now.get(name)!r}" for name in names)


class Replicates:
    """The outputs of one key, by seed.

    >>> group = Replicates("coins", {}, {4: Output({"heads": 3}, {}, 1.0), 2: Output({"heads": 5}, {}, 1.0)})
    >>> group.seeds, group.column("heads")
    ((2, 4), array([5., 3.]))
    """

    def __init__(self, key: str, settings: Mapping[str, Any], outputs: Mapping[int, Output]) -> None:
        self.key, self.settings = key, settings
        self.outputs = dict(sorted(outputs.items()))

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds that were run, in rising order."""
        return tuple(self.outputs)

    def each(self, name: str) -> list[Any]:
        """A result of every seed, as it was returned."""
        return [output[name] for output in self.outputs.values()]

    def column(self, name: str) -> FloatArray:
        """A result of every seed as numbers: (seeds,) or, of arrays of equal shape, (seeds, ...)."""
        return np.array(self.each(name), dtype=float)

    def summary(self, name: str) -> Summary:
        """Mean of a number over seeds with its 95 % interval."""
        return Summary.of(self.column(name).tolist())


class Results:
    """All outputs of a study so far, by key.

    >>> outputs = {("fair", 0): Output({"heads": 5}, {}, 1.0), ("bent", 0): Output({"heads": 8}, {}, 1.0)}
    >>> results = Results.of([("fair", {}, 0), ("bent", {}, 0)], outputs)
    >>> results.keys(), results.difference("bent", "fair", "heads").mean
    (['fair', 'bent'], 3.0)
    >>> results["fare"]
    Traceback (most recent call last):
    ...
    enlist.errors.UnknownNameError: no finished experiment is called 'fare'. Did you mean 'fair'? Known: bent, fair.
    """

    def __init__(self, groups: Mapping[str, Replicates]) -> None:
        self.groups = dict(groups)

    @classmethod
    def of(
        cls, wanted: Iterable[tuple[str, Mapping[str, Any], int]], outputs: Mapping[tuple[str, int], Output]
    ) -> Results:
        """Results from (key, settings, seed) of experiments; those without an output are left out."""
        settings: dict[str, Mapping[str, Any]] = {}
        found: dict[str, dict[int, Output]] = {}
        for key, own, seed in wanted:
            if (key, seed) in outputs:
                settings[key] = own
                found.setdefault(key, {})[seed] = outputs[key, seed]
        return cls({key: Replicates(key, settings[key], values) for key, values in found.items()})

    def __contains__(self, key: str) -> bool:
        return key in self.groups

    def __getitem__(self, key: str) -> Replicates:
        if key not in self.groups:
            raise unknown("finished experiment", key, self.groups)
        return self.groups[key]

    def keys(self, start: str = "") -> list[str]:
        """Keys that begin with `start`, in the order of the experiments."""
        return [key for key in self.groups if key.startswith(start)]

    def below(self, start: str) -> Results:
        """Results whose keys begin with `start`, under what follows it."""
        return Results({key.removeprefix(start): self.groups[key] for key in self.keys(start)})

    def common(self, keys: Sequence[str]) -> Results:
        """Only these keys, and of each only the seeds that all of them have."""
        seeds = set.intersection(*(set(self[key].seeds) for key in keys))
        return Results(
            {
                key: Replicates(key, self[key].settings, {seed: self[key].outputs[seed] for seed in seeds})
                for key in keys
            }
        )

    def outputs(self, keys: Sequence[str]) -> dict[int, Output]:
        """Outputs by seed; of several keys one output per common seed, in which each result is a list over them.

        >>> heads = {"a": Output({"heads": 3}, {}, 1.0), "b": Output({"heads": 5}, {}, 1.0)}
        >>> results = Results({key: Replicates(key, {}, {0: output}) for key, output in heads.items()})
        >>> results.outputs(["a"])[0]["heads"], results.outputs(["a", "b"])[0]["heads"]
        (3, [3, 5])
        """
        shared = self.common(keys)
        runs = {seed: [shared[key].outputs[seed] for key in keys] for seed in shared[keys[0]].seeds}
        return {seed: _joined(each) if len(each) > 1 else each[0] for seed, each in runs.items()}

    def paired(self, keys: Sequence[str], name: str) -> list[FloatArray]:
        """A result of several keys at the seeds that all of them have."""
        shared = self.common(keys)
        return [shared[key].column(name) for key in keys]

    def difference(self, first: str, second: str, name: str) -> Summary:
        """Mean of first − second over common seeds with its 95 % interval."""
        one, other = self.paired([first, second], name)
        return paired_difference(one.tolist(), other.tolist())


def _joined(outputs: Sequence[Output]) -> Output:
    known = [
        name
        for name in (*outputs[0].values, *outputs[0].arrays)
        if all(name in each.values or name in each.arrays for each in outputs)
    ]
    values = {name: [each[name] for each in outputs] for name in known}
    return Output(values, {}, sum(each.seconds for each in outputs))
