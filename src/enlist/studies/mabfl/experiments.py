"""What the study runs.

Keys: `counts` messages and overlaps, without training; `drawn/CODE-EPOCHS` combinations held fixed, each seed with data
of its own, and `one/CODE-EPOCHS` all seeds with one data set, as in the thesis; `grid/...` Table 3; `more/...` what it
argues about beyond; `sweep/xAMOUNT-CODE` more training data; `pictures/...` a second, real data set; `further/...` what
unclear claims call for.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from enlist._internal.typing import AnyArray
from enlist.data import DATASETS, Dataset, Samples
from enlist.streams import Streams
from enlist.studies.mabfl.settings import (
    ALL,
    ALONE,
    AMOUNTS,
    BEST,
    CODES,
    EPOCHS,
    FINAL,
    FIRST_SEED,
    FURTHER,
    GRID,
    MODEL,
    MORE,
    MOST_SHARE,
    ONE_DATA_SET,
    TARGET,
    TELECOM,
    TRAINING,
    fixed,
    further_seeds,
    held,
    seeds_of,
)
from enlist.studies.study import Experiment, Scale, Settings, over_seeds

if TYPE_CHECKING:
    from enlist.personal import Workers

Row = Mapping[str, Any]
SIZES = {"digits": (30, 160, 240), "fashion-mnist": (100, 2000, 4000)}
"""Pictures per worker to train, validate and test with."""


def experiments(scale: Scale) -> Sequence[Experiment]:
    """All experiments of a scale, those of one seed together, because they share data.

    >>> from enlist.studies.mabfl.settings import SCALES
    >>> len({experiment.key for experiment in experiments(SCALES["laptop"])})
    95
    """
    return sorted(_all(scale), key=lambda each: each.seed)


def _all(scale: Scale) -> Iterator[Experiment]:
    seeds, core = seeds_of(scale), seeds_of(scale, core=True)
    compared = {arm.key for arm in FINAL}
    yield Experiment("counts", FIRST_SEED, {"workers": list(range(3, 13))}, counts, 0.1)
    for epochs, code in itertools.product((4, EPOCHS), CODES):
        own = {"rule": held(code), "epochs": epochs}
        yield from _sessions(scale, fixed(code, epochs, "one").key, {**own, "data_seed": ONE_DATA_SET}, seeds)
        yield from _sessions(scale, fixed(code, epochs).key, own, core if epochs == EPOCHS else seeds)
    for key, own in GRID.items():
        yield from _sessions(scale, key, own, core if key in compared else seeds)
    for key, own in MORE.items():
        yield from _sessions(scale, key, own, core)
    for amount, code in itertools.product(AMOUNTS, (BEST, ALONE, ALL)):
        # A model that has more to train on is at its peak after fewer rounds.
        own = {"rule": held(code), "amount": amount, "rounds": min(1.0, 5.0 / amount)}
        yield from _sessions(scale, f"sweep/x{amount:g}-{code}", own, seeds)
    pictures: dict[str, dict[str, Any]] = {f"pictures/{code}": {"rule": held(code)} for code in CODES}
    pictures |= {arm.key.replace("grid/", "pictures/"): GRID[arm.key] for arm in FINAL}
    for key, own in pictures.items():
        yield from _sessions(scale, key, {**own, "pictures": scale.settings["pictures"]}, core)


def further(*starts: str) -> Callable[[Scale], Sequence[Experiment]]:
    """What unclear claims call for: the experiments of `FURTHER` whose keys begin so.

    >>> from enlist.studies.mabfl.settings import SCALES
    >>> [each.key for each in further("further/long")(SCALES["smoke"])]
    ['further/long-1100']
    """

    def wanted(scale: Scale) -> Sequence[Experiment]:
        keys = [key for key in FURTHER if key.startswith(starts)]
        return [each for key in keys for each in _sessions(scale, key, FURTHER[key], further_seeds(scale))]

    return wanted


def settings(
    scale: Scale,
    rule: Mapping[str, Any],
    epochs: int = EPOCHS,
    amount: float = 1.0,
    rounds: float = 1.0,
    dataset: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    pictures: str | None = None,
    **others: Any,
) -> dict[str, Any]:
    """A personalisation's configuration without its seed; `amount` and `rounds` are factors on those of the scale.

    >>> from enlist.studies.mabfl.settings import SCALES
    >>> settings(SCALES["laptop"], held("0110"), epochs=4)["rounds"]
    {'rounds': 20, 'epochs': 4, 'pretrain': 4}
    """
    own = scale.settings
    share = min(own["share"] * amount, MOST_SHARE)
    data = {**TELECOM, **(dataset or {}), "rows": own["rows"], "train_share": share}
    if pictures:
        sizes = dict(zip(("train", "validation", "test"), SIZES[pictures], strict=True))
        factory = f"{__name__}:shifted"
        data = {"name": "python", "factory": factory, "arguments": {"source": pictures, **sizes}}
    return {
        "workers": {"dataset": data},
        "target": TARGET,
        "model": MODEL,
        "training": {**TRAINING, **(training or {})},
        "rounds": {"rounds": max(round(own["rounds"] * rounds), 2), "epochs": epochs, "pretrain": epochs},
        "rule": rule,
        **others,
    }


def _sessions(scale: Scale, key: str, own: Mapping[str, Any], seeds: Sequence[int]) -> tuple[Experiment, ...]:
    """Sessions of one setting, with how long each should take, measured on one core."""
    made = settings(scale, **own)
    data, rounds = made["workers"]["dataset"], made["rounds"]
    train = data["rows"] / 4 * data["train_share"] if "rows" in data else data["arguments"]["train"]
    explored = "explore" in own["rule"]["kind"]
    steps = rounds["epochs"] * max(train / TRAINING["batch"], 1.0)
    seconds = rounds["rounds"] * (0.02 + 7e-4 * steps) * (1.6 if explored else 1.0)
    return over_seeds(key, session, made, seeds, seconds)


def session(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """Train for one target; `settings` are a personalisation's configuration without its seed.

    Arrays, one row per round: validation, test and local (the target's own model) scores; `adopted`, the code of the
    combination whose model was kept; `messages`, cumulated; and, with a column for each of `codes`, estimates.

    >>> data = {"name": "telecom", "rows": 2000, "train_share": 0.04}
    >>> found = session({"workers": {"dataset": data}, "rounds": {"rounds": 3}, "rule": "ucb"}, 1, Path())
    >>> found["codes"], found["test"].shape, found["estimates"].shape, bool(found["peak"] == found["test"].max())
    (['1100', '0110', '0101'], (3,), (3, 3), True)
    """
    from enlist.personal import Personalisation, parse
    from enlist.training.workers import one_thread

    config = parse({**settings, "seed": seed, "after": {"baselines": False}}, "settings")
    data_seed = seed if config.data_seed is None else config.data_seed
    own = {name: settings[name] for name in ("workers", "poison") if name in settings}
    run = Personalisation(config, workers=_workers(json.dumps(own, sort_keys=True), data_seed))
    steps = []
    with one_thread():
        while not run.finished:
            steps.append(run.step())
    return {**columns([each.row for each in steps], [each.arms for each in steps]), "code": run.result()["code"]}


def columns(rounds: Sequence[Row], arms: Sequence[Sequence[Row]]) -> dict[str, Any]:
    """Rows of rounds.csv and arms.csv as columns, with the scores that the study compares.

    peak     highest test score, as the thesis's box plots have it, reached after `peak_round` rounds
    kept     test score of the model that was best in validation: what one would really use
    mean     mean test score over all rounds, which forgives no detour

    >>> row = {"validation": 0.6, "test": 0.5, "local": 0.55, "code": "0110", "cumulative_communication": 6}
    >>> arm = {"code": "0110", "estimate": 0.05}
    >>> found = columns([row, {**row, "test": 0.7}], [[arm], [arm]])
    >>> found["peak"], found["peak_round"], found["kept"], found["adopted"].tolist()
    (0.7, 2, 0.5, ['0110', '0110'])
    """
    curves = {name: np.array([row[name] for row in rounds], dtype=float) for name in ("validation", "test", "local")}
    test, codes = curves["test"], list(dict.fromkeys(row["code"] for rows in arms for row in rows))
    estimates: AnyArray = np.full((len(arms), len(codes)), np.nan)
    for place, row in ((place, row) for place, rows in enumerate(arms) for row in rows):
        if row["estimate"] is not None:
            estimates[place, codes.index(row["code"])] = row["estimate"]
    return {
        **curves,
        "adopted": np.array([row["code"] for row in rounds]),
        "messages": np.array([row["cumulative_communication"] for row in rounds]),
        "codes": codes,
        "estimates": estimates,
        "peak": float(test.max()),
        "peak_round": int(test.argmax()) + 1,
        "kept": float(test[curves["validation"].argmax()]),
        "mean": float(test.mean()),
    }


@functools.lru_cache(maxsize=4)
def _workers(own: str, seed: int) -> Workers:
    """Workers with their data, kept for the next sessions that use the same."""
    from enlist.personal import parse

    return parse({**json.loads(own), "seed": seed}, "settings").load_workers()


def counts(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """Messages of a round for each way of playing with so many workers, and the overlap of two combinations.

    >>> found = counts({"workers": [6]}, 0, Path())
    >>> found["rows"][0]["messages"], round(found["overlaps"][0], 4)
    (6, 0.3333)
    """
    from enlist.personal.communication import cost_table

    rows = [row for workers in settings["workers"] for row in cost_table(workers)]
    return {"rows": rows, "overlaps": [overlap(others) for others in range(2, 7)]}


def overlap(others: int) -> float:
    """Mean number of workers, apart from the target, that two different combinations share; by enumeration.

    >>> overlap(1), round(overlap(3), 4)
    (0.0, 0.6429)
    """
    pairs = list(itertools.permutations(itertools.product((0, 1), repeat=others), 2))
    shared = sum(one & other for first, second in pairs for one, other in zip(first, second, strict=True))
    return shared / len(pairs)


def shifted(
    streams: Streams, source: str = "digits", train: int = 40, validation: int = 160, test: int = 240
) -> Dataset:
    """Pictures of `source`, dealt to four workers at random; numbers of samples are per worker.

    Worker 1 sees them upside down, worker 2, the target, as they are, worker 3 moved by half a pixel, and worker 4
    names classes in reverse order (9 for 0, 8 for 1, ...).

    >>> dataset = shifted(Streams(1))
    >>> len(dataset.train), dataset.shape, np.unique(dataset.train.users).tolist()
    (160, (1, 8, 8), [1, 2, 3, 4])
    """
    whole = DATASETS[source]().load(streams)
    x, y = (np.concatenate([getattr(part, name) for part in (whole.train, whole.test)]) for name in ("x", "y"))
    sizes = {"train": train, "validation": validation, "test": test}
    order = streams.generator("data workers").permutation(len(y))[: 4 * sum(sizes.values())]
    parts: dict[str, list[Samples]] = {name: [] for name in sizes}
    for worker, own in enumerate(np.split(order, 4), start=1):
        seen = {1: x[own][..., ::-1, :], 3: (x[own] + np.roll(x[own], 1, axis=-1)) / 2}.get(worker, x[own])
        named = whole.classes - 1 - y[own] if worker == 4 else y[own]
        ends = np.cumsum([0, *sizes.values()])
        for name, rows in zip(sizes, itertools.pairwise(ends), strict=True):
            samples = Samples(seen[slice(*rows)], named[slice(*rows)], np.full(rows[1] - rows[0], worker))
            parts[name].append(samples)
    joined = {name: _joined(samples) for name, samples in parts.items()}
    return Dataset(f"{source}-shifted", classes=whole.classes, class_names=whole.class_names, input_names=(), **joined)


def _joined(pieces: Sequence[Samples]) -> Samples:
    users = [piece.users for piece in pieces if piece.users is not None]
    x, y = np.concatenate([piece.x for piece in pieces]), np.concatenate([piece.y for piece in pieces])
    return Samples(x, y, np.concatenate(users))
