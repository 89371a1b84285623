"""A population: who holds which samples, on which device, online when. The same seed gives the same population to
every selector, so differences between runs belong to the selector."""

from __future__ import annotations

import dataclasses

import numpy as np

from enlist._internal.text import printable
from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.clients import Clients
from enlist.data import Dataset, Samples, Shards
from enlist.data.base import divided
from enlist.data.describe import class_counts, distance, label_entropy
from enlist.data.noise import noisy_labels, quality
from enlist.data.partitions.natural import Natural
from enlist.devices import Availability, Devices, feature_table, matched_order
from enlist.errors import InputError
from enlist.runs.columns import USER
from enlist.simulation.config import Config
from enlist.simulation.drift import Drift
from enlist.simulation.hostile import HostileClients, Spoiled
from enlist.streams import Streams


@dataclasses.dataclass(eq=False)
class Population:
    """Everything that is true of the clients. Selectors see `clients` only.

    samples       by part: train (client after client: client i holds offsets[i]..offsets[i+1]), test, and validation,
                  which the server keeps; they may be left out where they are in shared memory already
    shape         of one sample
    counts        (N, C) samples of each class that each client holds, as labelled
    utility       (N,) how much there is to learn from a client: samples x quality x (1 + label entropy)
    work          (N,) samples that a client processes in a round
    hostile       (N,) hostile behaviour of each client, empty for honest ones; None if all are honest
    drift         (N,) how each client changes during the run, empty for those that do not; None if none does
    spoiled       where the spoiled samples of hostile clients lie, after all other training samples
    users         (N,) user id of each client; None if the partition is not by user
    input_names   names of the numbers of a sample, in order, or ()
    held_out      (N + 1,) where the test samples of each client begin in the part "clients"; None if they keep none

    >>> from enlist.simulation.config import Config
    >>> population = build(Config(data={"clients": 20, "partition": "iid"}))
    >>> len(population), population.clients.feature_names[:2]
    (20, ('cpu flops', 'cpu cores'))
    """

    name: str
    shape: tuple[int, ...]
    classes: int
    class_names: tuple[str, ...]
    samples: dict[str, Samples]
    offsets: IntArray
    counts: IntArray
    quality: FloatArray
    utility: FloatArray
    work: FloatArray
    devices: Devices
    availability: Availability
    clients: Clients
    hostile: AnyArray | None = None
    drift: AnyArray | None = None
    spoiled: Spoiled = dataclasses.field(default_factory=dict)
    users: AnyArray | None = None
    input_names: tuple[str, ...] = ()
    held_out: IntArray | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> IntArray:
        """Samples that each client holds, (N,)."""
        return np.diff(self.offsets)

    def span(self, client: int, round: int) -> tuple[int, int]:
        """The span of the samples that a client trains on if selected in this round."""
        start, stop = self.offsets[client : client + 2].tolist()
        for since, place in self.spoiled.get(client, ()):
            if round >= since:
                start, stop = place, place + stop - start
        return start, stop

    def spans(self, clients: IntArray, round: int) -> list[tuple[int, int]]:
        """The same for several clients."""
        if self.spoiled:
            return [self.span(client, round) for client in clients.tolist()]
        return list(zip(self.offsets[clients].tolist(), self.offsets[clients + 1].tolist(), strict=True))

    def columns(self, model_bytes: int) -> dict[str, AnyArray]:
        """The columns of clients.csv."""
        described: dict[str, AnyArray] = {
            "client": np.arange(len(self)),
            "num_examples": self.sizes,
            "quality": self.quality,
            "entropy": label_entropy(self.counts),
            "distance": distance(self.counts),
            "compute_ms": self.devices.compute,
            "bandwidth_kbps": self.devices.bandwidth,
            "expected_latency": self.devices.expected(self.work, model_bytes).total,
            "uptime": self.availability.uptime,
        }
        if self.counts.shape[1] <= 100:
            described |= {f"class_{name}": self.counts[:, label] for label, name in enumerate(self._class_titles())}
        kinds = {"hostile": self.hostile, "drift": self.drift, USER: self.users}
        return described | {name: values for name, values in kinds.items() if values is not None}

    def _class_titles(self) -> list[str]:
        """Names of the classes, else their numbers; for a regression, numbers of tenths."""
        names = [printable(name) for name in self.class_names]
        return names if len(set(names)) == self.counts.shape[1] else [*map(str, range(self.counts.shape[1]))]


def build(config: Config, dataset: Dataset | None = None) -> Population:
    """The population of a configuration; `dataset` replaces the one that it names.

    >>> from enlist.simulation.config import Config
    >>> build(Config(data={"clients": 10}, seed=3)).sizes.sum() == build(Config(data={"clients": 10})).sizes.sum()
    np.True_
    """
    streams = Streams(config.seed)
    data = config.data.dataset.load(streams) if dataset is None else dataset
    train, validation = data.train, data.validation
    if validation is None and config.data.validation:
        groups = train.y if data.classes else np.zeros(len(train))
        rest, kept = divided(groups, config.data.validation, streams.generator("validation"))
        train, validation = train.take(rest), train.take(kept)
    shards = config.data.partition.split(train, data.classes, config.data.clients, streams)
    if (empty := shards.sizes == 0).any():
        raise InputError(
            f"{int(empty.sum())} of {len(shards)} clients would hold no samples; use fewer, or another partition."
        )
    own_test: Shards | None = None
    if config.data.client_test:
        if not data.classes:
            raise InputError("data.client_test measures accuracies of clients, but a regression has none; set it to 0.")
        shards, own_test = shards.held_out(config.data.client_test, streams.generator("client test"))
    rates = config.data.label_noise.rates(len(shards), streams)
    labels = noisy_labels(train.y, shards, rates, data.classes, streams) if rates.any() else train.y
    held = Samples(train.x[shards.order], labels[shards.order])
    inner = Shards(order=np.arange(len(held)), offsets=shards.offsets)
    counts = class_counts(held.y, inner, data.classes)
    good = quality(rates)
    utility = shards.sizes * good * (1.0 + np.nan_to_num(label_entropy(counts)))
    devices = config.devices.draw(len(shards), streams)
    if config.data.speed_correlation:
        devices = devices.matched(
            matched_order(devices.speed, shards.sizes.astype(float), config.data.speed_correlation, streams)
        )
    if config.data.slow_classes:
        held_share = _share_of(config.data.slow_classes, counts)
        devices = devices.matched(matched_order(devices.speed, held_share, -1.0, streams))
    features, names = _features(devices, utility, shards.sizes.astype(float), config, streams)
    if config.membership.joining >= len(shards):
        raise InputError(f"{config.membership.joining} clients join later, but there are {len(shards)}; use fewer.")
    users: AnyArray | None = None
    if isinstance(config.data.partition, Natural) and train.users is not None:
        users = np.array([printable(user) for user in train.users[shards.order[shards.offsets[:-1]]].tolist()])
    hostility = HostileClients(config.hostile, len(shards), streams)
    held, spoiled = hostility.spoil(held, shards.offsets, data.classes)
    parts = {"train": held, "test": data.test} | ({} if validation is None else {"validation": validation})
    if own_test is not None:  # labels as they are, without noise
        parts["clients"] = Samples(train.x[own_test.order], train.y[own_test.order])
    return Population(
        name=data.name,
        shape=data.shape,
        classes=data.classes,
        class_names=data.class_names,
        samples=parts,
        offsets=shards.offsets,
        counts=counts,
        quality=good,
        utility=utility,
        work=config.training.work(shards.sizes).astype(float),
        devices=devices,
        availability=config.availability.draw(len(shards), streams),
        clients=Clients(
            num_examples=hostility.told("num_examples", shards.sizes, np.arange(len(shards)), 1)
            if hostility
            else shards.sizes,
            quality=good,
            features=features,
            feature_names=names,
        ),
        hostile=hostility.kinds() if hostility else None,
        drift=Drift(config.drift, len(shards), streams).kinds() if config.drift else None,
        spoiled=spoiled,
        users=users,
        input_names=data.input_names,
        held_out=None if own_test is None else own_test.offsets,
    )


def _features(
    devices: Devices, utility: FloatArray, sizes: FloatArray, config: Config, streams: Streams
) -> tuple[FloatArray, tuple[str, ...]]:
    """What selectors see of devices: the feature table that determines durations, if there is one, else hints."""
    if devices.described is None:
        return feature_table(devices.speed, utility, sizes, devices.bandwidth, config.features, streams)
    table, names = devices.described
    return np.column_stack([table, sizes]), (*names, "data size")


def _share_of(labels: tuple[int, ...], counts: IntArray) -> FloatArray:
    """Each client's share of samples of these classes."""
    for label in labels:
        if not 0 <= label < counts.shape[1]:
            raise InputError(f"data.slow_classes names class {label}; the data set has {counts.shape[1]}, from 0 up.")
    return np.asarray(counts[:, list(labels)].sum(axis=1) / counts.sum(axis=1))
