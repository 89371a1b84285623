"""Made-up results of the Darts study, for tests: nothing is trained."""

from __future__ import annotations

import functools

import numpy as np

from enlist.streams import Streams
from enlist.studies.darts import DARTS
from enlist.studies.darts.settings import CLIENTS, DEFAULT, INITIAL, PRINTED, RANDOM, SCALES, K
from enlist.studies.results import Output, Results

LEVELS = {RANDOM.key: 0.6, PRINTED.key: 0.62, DEFAULT.key: 0.65}


def output(**found) -> Output:
    """An output that holds this."""
    arrays = {name: value for name, value in found.items() if isinstance(value, np.ndarray)}
    return Output({name: value for name, value in found.items() if name not in arrays}, arrays, 0.1)


@functools.cache
def example_results(rounds: int = 20, seeds: int = 3) -> Results:
    """Results of every key of the scale "smoke", further ones included, as if UCB were a little better than random."""
    scale = SCALES["smoke"].chosen(seeds=seeds)
    further = [each for claim in DARTS.claims for each in claim.further.experiments(scale)]
    wanted = [*DARTS.experiments(scale), *further]
    outputs = {}
    for number, each in enumerate(wanted):
        rng = Streams(7).generator("example", number)
        alone = ALONE.get(each.key.removeprefix("again/").partition("/")[0])
        found = alone(each.settings, rng) if alone else run(each.key, rounds, rng)
        outputs[each.key, each.seed] = output(**found)
    return Results.of([(each.key, each.settings, each.seed) for each in wanted], outputs)


def run(key, rounds, rng):
    numbers = np.arange(rounds)
    who = np.array([rng.choice(CLIENTS, K, replace=False) for _ in numbers])
    if key == PRINTED.key:
        who[INITIAL:] = ((K * numbers[:, None] + np.arange(K)) % CLIENTS)[INITIAL:]
    counts = np.zeros((CLIENTS, 10), dtype=np.int64)
    counts[np.arange(CLIENTS), np.arange(CLIENTS) % 10] = 20 * np.arange(1, CLIENTS + 1)
    return {
        "accuracy": LEVELS.get(key, 0.6) - 0.3 * np.exp(-numbers / 4.0) + rng.normal(0, 0.02, rounds),
        "end": 30.0 * (numbers + 1.0),
        "who": who,
        "selected": np.bincount(who.ravel(), minlength=CLIENTS),
        "local_accuracy": np.full((rounds, K), 0.9),
        "local_loss": np.full((rounds, K), 0.4),
        "samples": counts.sum(axis=1),
        "quality": np.where(np.arange(CLIENTS) < 4, 0.0, 1.0),
        "counts": counts,
        "class_names": [str(label) for label in range(10)],
    }


def draws(settings, rng):
    return {"counts": rng.multinomial(50_000, np.full(CLIENTS * 10, 1 / 120), 40).reshape(40, CLIENTS, 10)}


def profile(settings, rng):
    """A step takes 1 ms and 10 µs per sample; 50 kB and 4 kB per sample; 16 is the most accurate."""
    sizes, samples = settings["sizes"], 20 * np.arange(1, CLIENTS + 1)
    rows = []
    for client, count in enumerate(samples.tolist()):
        for size in sizes:
            for passed in range(settings["passes"]):
                for step in range(-(-count // size)):
                    length = min(size, count - step * size)
                    seconds = (1e-3 + 1e-5 * length) * rng.uniform(0.9, 1.1)
                    rows.append((size, client, passed, step, length, seconds, min(step / 10, 1.0)))
    names = ("batch", "client", "passed", "step", "length", "seconds", "right")
    full = np.minimum(np.array(sizes)[:, None], samples)
    accuracy = np.repeat(0.95 - 0.001 * np.abs(np.array(sizes)[:, None] - 16), CLIENTS, axis=1)
    return dict(zip(names, np.array(rows).T, strict=True)) | {
        "memory": 50_000.0 + 4_000.0 * full,
        "accuracy": accuracy,
        "loss": 1 - accuracy,
        "samples": samples,
        "machine": "a machine",
    }


def server(settings, rng):
    return {
        "choosing": [0.1 * count**0.5 for count in settings["clients"]],
        "evaluation": 0.0 if settings["selector"] == "random" else 3.0 + rng.normal(0, 0.01),
    }


ALONE = {"draws": draws, "profile": profile, "server": server}
