"""A second, real data set for the study: pictures that four workers see, or name, each in its own way."""

from __future__ import annotations

import numpy as np

from enlist._internal.typing import AnyArray, IntArray
from enlist.data import DATASETS, Dataset, Samples
from enlist.streams import Streams

WORKERS = {
    1: "sees pictures upside down",
    2: "the target: sees them as they are",
    3: "sees them moved by half a pixel",
    4: "names classes in reverse order: 9 for 0, 8 for 1, ...",
}


def shifted(
    streams: Streams, source: str = "digits", train: int = 40, validation: int = 160, test: int = 240
) -> Dataset:
    """Pictures of `source`, dealt to four workers at random; numbers of samples are per worker.

    Worker 3 is a natural partner for worker 2, worker 1 knows the classes from another angle, and worker 4 contradicts.

    >>> dataset = shifted(Streams(1))
    >>> len(dataset.train), dataset.shape, np.unique(dataset.train.users).tolist()
    (160, (1, 8, 8), [1, 2, 3, 4])
    """
    whole = DATASETS[source]().load(streams)
    x, y = (np.concatenate([getattr(part, name) for part in (whole.train, whole.test)]) for name in ("x", "y"))
    counts = {"train": train, "validation": validation, "test": test}
    each = sum(counts.values())
    order = streams.generator("data workers").permutation(len(y))[: each * len(WORKERS)]
    parts: dict[str, list[Samples]] = {name: [] for name in counts}
    for place, worker in enumerate(WORKERS):
        own = order[place * each : (place + 1) * each]
        seen, named = _seen(x[own], worker), _named(y[own], whole.classes, worker)
        begin = 0
        for name, count in counts.items():
            rows = slice(begin, begin + count)
            parts[name].append(Samples(seen[rows], named[rows], np.full(len(named[rows]), worker)))
            begin += count
    joined = {name: _joined(samples) for name, samples in parts.items()}
    names = whole.class_names
    return Dataset(f"{source}-shifted", classes=whole.classes, class_names=names, input_names=(), **joined)


def _seen(x: AnyArray, worker: int) -> AnyArray:
    if worker == 1:
        return x[..., ::-1, :]
    return (x + np.roll(x, 1, axis=-1)) / 2 if worker == 3 else x


def _named(y: IntArray, classes: int, worker: int) -> IntArray:
    return classes - 1 - y if worker == 4 else y


def _joined(pieces: list[Samples]) -> Samples:
    users = [piece.users for piece in pieces if piece.users is not None]
    x, y = np.concatenate([piece.x for piece in pieces]), np.concatenate([piece.y for piece in pieces])
    return Samples(x, y, np.concatenate(users))
