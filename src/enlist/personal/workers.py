"""Workers: their names, and each worker's own samples for training, validation and testing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from enlist._internal.text import printable
from enlist._internal.typing import AnyArray, IntArray
from enlist.data import Dataset, Samples
from enlist.data.base import divided
from enlist.data.partitions import Partition
from enlist.errors import InputError, unknown
from enlist.personal.poison import PoisonOptions
from enlist.streams import Streams
from enlist.training.engine import SharedSamples

PARTS = ("train", "validation", "test")


@dataclasses.dataclass(frozen=True, eq=False)
class Workers:
    """The samples of all workers as tensors, worker after worker in each part.

    names      names of the workers, which are positions 0..W-1 everywhere else
    shape      shape of one sample
    classes    number of classes; 0 for a regression
    data       samples by part: train, validation, test
    offsets    by part: worker w holds offsets[w]..offsets[w+1]

    >>> from enlist.data import Telecom
    >>> workers = Workers.of(Telecom(rows=4000).load(Streams(1)), Streams(1))
    >>> workers.names, workers.sizes, workers.span("validation", 1)
    (('1', '2', '3', '4'), array([10, 10, 10, 10]), (400, 800))
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    classes: int
    data: Mapping[str, SharedSamples]
    offsets: Mapping[str, IntArray]

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        streams: Streams,
        *,
        most: int = 0,
        validation: float = 0.4,
        test: float = 0.3,
        poison: Sequence[PoisonOptions] = (),
    ) -> Workers:
        """The users of a data set as workers, in the order of their names; the first `most` of them, or all.

        Parts with users stay as they are. For a part that is missing or has no users, each worker gets a share of its
        own training samples: first `test`, then `validation`, label by label.
        """
        if dataset.train.users is None:
            raise InputError(
                f"data set '{dataset.name}' does not say which user holds a sample; give files, one for each worker, "
                "or a number of workers over which the samples are spread (workers.count)."
            )
        users = np.unique(dataset.train.users)[: most or None]
        given = {name: part for name, part in dataset.parts.items() if part.users is not None}
        held = {name: [_of_user(part, user) for user in users] for name, part in given.items()}
        for part, share in (("test", test), ("validation", validation)):
            if part not in held:
                pairs = [
                    _split(samples, share, dataset.classes, streams.generator(f"worker {part}", worker))
                    for worker, samples in enumerate(held["train"])
                ]
                held["train"], held[part] = [rest for rest, _ in pairs], [taken for _, taken in pairs]
        return cls.put_together([str(user) for user in users], dataset.classes, held, streams, poison)

    @classmethod
    def spread(
        cls,
        dataset: Dataset,
        count: int,
        partition: Partition,
        streams: Streams,
        *,
        validation: float = 0.4,
        test: float = 0.3,
        poison: Sequence[PoisonOptions] = (),
    ) -> Workers:
        """All samples of a data set, spread over `count` workers "1", "2", ...; each worker's are then split."""
        parts = list(dataset.parts.values())
        pool = Samples(np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts]))
        shards = partition.split(pool, dataset.classes, count, streams)
        # Numbers of equal width sort in numerical order.
        names = np.array([str(worker + 1).zfill(len(str(count))) for worker in range(len(shards))])
        owned = Samples(pool.x[shards.order], pool.y[shards.order], names[shards.owner])
        whole = Dataset(dataset.name, owned, owned, dataset.classes)
        bare = dataclasses.replace(whole, test=Samples(owned.x, owned.y))
        return cls.of(bare, streams, validation=validation, test=test, poison=poison)

    @classmethod
    def files(
        cls,
        datasets: Mapping[str, Dataset],
        streams: Streams,
        *,
        validation: float = 0.4,
        poison: Sequence[PoisonOptions] = (),
    ) -> Workers:
        """One data set per worker, by name; missing validation parts are split from the training part."""
        first = next(iter(datasets.values()))
        for name, dataset in datasets.items():
            if dataset.shape != first.shape or bool(dataset.classes) != bool(first.classes):
                raise InputError(
                    f"worker '{name}' has samples of shape {dataset.shape} and {dataset.classes} classes, another one "
                    f"{first.shape} and {first.classes}; all workers need the same inputs and the same kind of labels."
                )
        recoded = _same_labels(datasets)
        held: dict[str, list[Samples]] = {part: [] for part in PARTS}
        for worker, dataset in enumerate(recoded.values()):
            train, kept = dataset.train, dataset.validation
            if kept is None:
                rng = streams.generator("worker validation", worker)
                train, kept = _split(train, validation, dataset.classes, rng)
            for part, samples in zip(PARTS, (train, kept, dataset.test), strict=True):
                held[part].append(samples)
        classes = max(dataset.classes for dataset in recoded.values())
        return cls.put_together(list(datasets), classes, held, streams, poison)

    @classmethod
    def put_together(
        cls,
        names: Sequence[str],
        classes: int,
        held: Mapping[str, Sequence[Samples]],
        streams: Streams,
        poison: Sequence[PoisonOptions] = (),
    ) -> Workers:
        """Workers from their samples by part; poison spoils training samples."""
        if len(names) < 2:
            raise InputError(f"there is {len(names)} worker; personalised learning needs the target and one other.")
        for name in names:
            if "\r" in name or any("\ud800" <= letter <= "\udfff" for letter in name):
                raise InputError(
                    f"worker '{printable(name)}' cannot be written into a table: its name holds a carriage return or "
                    "half of a pair of surrogates; give it another one."
                )
        train = list(held["train"])
        for kind in poison:
            for name in kind.workers:
                if name not in names:
                    raise unknown("worker", name, names, owner=f"poison '{kind.kind}'")
                worker = list(names).index(name)
                train[worker] = kind.spoil(train[worker], worker, classes, streams)
        data, offsets = {}, {}
        for part in PARTS:
            pieces = train if part == "train" else held[part]
            empty = [name for name, samples in zip(names, pieces, strict=True) if not len(samples)]
            if empty:
                raise InputError(f"worker '{empty[0]}' has no {part} samples; give it some, or leave it out.")
            whole = Samples(
                np.concatenate([piece.x for piece in pieces]), np.concatenate([piece.y for piece in pieces])
            )
            data[part] = SharedSamples.of(whole)
            offsets[part] = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])])
        return cls(tuple(names), tuple(train[0].x.shape[1:]), classes, data, offsets)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def sizes(self) -> IntArray:
        """Training samples of each worker, (W,)."""
        return np.diff(self.offsets["train"])

    def span(self, part: str, worker: int) -> tuple[int, int]:
        """The slice of a worker's samples in a part."""
        return int(self.offsets[part][worker]), int(self.offsets[part][worker + 1])

    def position(self, name: str) -> int:
        """The position of the worker of this name."""
        if name not in self.names:
            raise unknown("worker", name, self.names)
        return self.names.index(name)

    def columns(self, poison: Sequence[PoisonOptions] = ()) -> dict[str, AnyArray]:
        """The columns of clients.csv."""
        kinds = {name: kind.kind for kind in poison for name in kind.workers}
        counts = {part: np.diff(self.offsets[part]) for part in PARTS}
        return {
            "worker": np.array(self.names),
            "num_examples": counts["train"],
            "validation": counts["validation"],
            "test": counts["test"],
            "poison": np.array([kinds.get(name, "") for name in self.names]),
        }


def _of_user(part: Samples, user: AnyArray) -> Samples:
    return part.take(np.flatnonzero(part.users == user))


def _split(samples: Samples, share: float, classes: int, rng: np.random.Generator) -> tuple[Samples, Samples]:
    groups = samples.y if classes else np.zeros(len(samples))
    rest, taken = divided(groups, share, rng, "samples of a worker")
    return samples.take(rest), samples.take(taken)


def _same_labels(datasets: Mapping[str, Dataset]) -> dict[str, Dataset]:
    """Give textual labels the same numbers in all data sets; files number only the labels that they hold."""
    if not any(dataset.class_names for dataset in datasets.values()):
        return dict(datasets)
    without = [name for name, dataset in datasets.items() if not dataset.class_names]
    if without:
        raise InputError(f"the labels of worker '{without[0]}' are numbers, those of others text; use one kind.")
    names = sorted({name for dataset in datasets.values() for name in dataset.class_names})
    found = {}
    for worker, dataset in datasets.items():
        codes = np.array([names.index(name) for name in dataset.class_names])
        parts = {part: Samples(some.x, codes[some.y], some.users) for part, some in dataset.parts.items()}
        inputs = dataset.input_names
        found[worker] = Dataset(dataset.name, classes=len(names), class_names=tuple(names), input_names=inputs, **parts)
    return found
