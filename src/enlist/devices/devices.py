"""Devices: how fast every client computes and transfers, and how long a participation in a round takes it.

Duration of a participation (FedScale's model): compute = 3 · samples · compute_ms / 1000 seconds, since a backward pass
costs about two forward passes; one transfer = model_bytes · 8 / 1000 / kbit/s. The server itself takes no time.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import FloatArray, IntArray
from enlist.devices.draws import Recent, mean_one
from enlist.errors import InputError
from enlist.streams import Streams

TRAINING = 3.0
"""Passes that training a sample costs, in units of an inference."""


@dataclasses.dataclass(frozen=True, eq=False)
class Latency:
    """Seconds of download, compute and upload, aligned with the requested clients.

    >>> Latency(np.array([1.0]), np.array([5.0]), np.array([2.0])).total
    array([8.])
    """

    download: FloatArray
    compute: FloatArray
    upload: FloatArray

    @property
    def total(self) -> FloatArray:
        """Seconds from selection to the end of the upload."""
        return self.download + self.compute + self.upload


class Devices:
    """The devices of N clients; their noise belongs to (round, client), whatever the order of queries.

    compute           milliseconds per sample for an inference, (N,); training costs 3 times that
    bandwidth         download in kbit/s, (N,); upload is `upload_ratio` times that
    compute_noise     standard deviation of the logarithm of a round's factor on compute time (the factor's mean is 1)
    bandwidth_noise   the same for the factor on bandwidth, which download and upload share

    >>> devices = Devices(np.array([50.0, 100.0]), np.array([8000.0, 4000.0]), Streams(1))
    >>> devices.latency(1, np.array([1]), np.array([20.0]), model_bytes=1_000_000)
    Latency(download=array([2.]), compute=array([6.]), upload=array([2.]))
    """

    def __init__(
        self,
        compute: FloatArray,
        bandwidth: FloatArray,
        streams: Streams,
        compute_noise: float = 0.0,
        bandwidth_noise: float = 0.0,
        upload_ratio: float = 1.0,
    ) -> None:
        if compute.ndim != 1 or compute.shape != bandwidth.shape or not len(compute):
            raise InputError(
                f"Devices got compute of shape {compute.shape} and bandwidth of shape {bandwidth.shape}; "
                "give one number per client in both."
            )
        for name, values in (("compute", compute), ("bandwidth", bandwidth)):
            if not (values > 0).all():
                where = int(np.flatnonzero(~(values > 0))[0])
                raise InputError(f"Devices.{name}[{where}] is {values[where]}; it must be above 0.")
        self.compute = compute
        self.bandwidth = bandwidth
        self.streams = streams
        self.compute_noise = checks.finite("compute_noise", compute_noise, 0.0)
        self.bandwidth_noise = checks.finite("bandwidth_noise", bandwidth_noise, 0.0)
        self.upload_ratio = checks.above_zero("upload_ratio", upload_ratio)
        self.described: tuple[FloatArray, tuple[str, ...]] | None = None
        """(N, columns) and their names, where durations follow from a table that selectors see."""
        self._compute_factors, self._bandwidth_factors = Recent(4), Recent(4)

    def __len__(self) -> int:
        return len(self.compute)

    @property
    def speed(self) -> FloatArray:
        """1 / compute time, (N,): the truth that feature tables hint at."""
        return 1.0 / self.compute

    def latency(self, round: int, clients: IntArray, samples: FloatArray, model_bytes: int) -> Latency:
        """The time these clients need in this round to fetch the model, train on `samples` samples and send it back."""
        clients, samples = self._asked(round, clients, samples)
        compute, bandwidth = self.compute[clients], self.bandwidth[clients]
        if self.compute_noise:
            compute = compute * self._compute_factors.get(round, self._compute_factor)[clients]
        if self.bandwidth_noise:
            bandwidth = bandwidth * self._bandwidth_factors.get(round, self._bandwidth_factor)[clients]
        return self._durations(compute, bandwidth, samples, model_bytes)

    def expected(self, samples: FloatArray, model_bytes: int) -> Latency:
        """The same for all clients and without noise; `samples` is (N,)."""
        _, samples = self._asked(0, np.arange(len(self)), samples)
        return self._durations(self.compute, self.bandwidth, samples, model_bytes)

    def matched(self, order: IntArray) -> Devices:
        """The same devices dealt out again: client i gets the device that client order[i] had. Noise stays in place."""
        order = self._dealing(order)
        dealt = Devices(
            self.compute[order],
            self.bandwidth[order],
            self.streams,
            self.compute_noise,
            self.bandwidth_noise,
            self.upload_ratio,
        )
        if self.described is not None:
            dealt.described = self.described[0][order], self.described[1]
        return dealt

    def _durations(self, compute: FloatArray, bandwidth: FloatArray, samples: FloatArray, model_bytes: int) -> Latency:
        transfer = checks.whole("model_bytes", model_bytes, minimum=0) * 8.0 / 1000.0 / bandwidth
        return Latency(transfer, TRAINING * samples * compute / 1000.0, transfer / self.upload_ratio)

    def _compute_factor(self, round: int) -> FloatArray:
        normal = self.streams.rewound("compute noise", round).standard_normal(len(self))
        return mean_one(normal, self.compute_noise)

    def _bandwidth_factor(self, round: int) -> FloatArray:
        normal = self.streams.rewound("bandwidth noise", round).standard_normal(len(self))
        return mean_one(normal, self.bandwidth_noise)

    def _asked(self, round: int, clients: IntArray, samples: FloatArray) -> tuple[IntArray, FloatArray]:
        checks.whole("round", round, minimum=0)
        clients, samples = np.asarray(clients, dtype=np.int64), np.asarray(samples, dtype=float)
        if clients.shape != samples.shape:
            raise InputError(f"samples has shape {samples.shape}; it needs one number for each of {clients.shape}.")
        if len(clients) and (clients.min() < 0 or clients.max() >= len(self)):
            raise InputError(f"clients go from {clients.min()} to {clients.max()}; allowed are 0 to {len(self) - 1}.")
        if not (samples >= 0).all():
            raise InputError(f"samples go down to {samples.min()}; give the samples that each client processes.")
        return clients, samples

    def _dealing(self, order: IntArray) -> IntArray:
        order = np.asarray(order)
        if order.shape != (len(self),) or (np.sort(order) != np.arange(len(self))).any():
            raise InputError(
                f"order of shape {order.shape} is not a permutation; name each of {len(self)} devices once."
            )
        return order.astype(np.int64)


class DirectDevices(Devices):
    """Devices whose whole latency is drawn: scale · clip(mean + sd·z, floor, 1) seconds, whatever the work.

    All of it counts as compute; transfers take no time (`bandwidth` is infinite). `compute` holds the milliseconds of
    a mean participation, so that `speed` still tells the fast from the slow.

    >>> devices = DirectDevices(np.array([0.1, 0.9]), np.array([0.0, 0.0]), 0.05, 10.0, Streams(1))
    >>> devices.latency(1, np.array([1]), np.array([20.0]), model_bytes=1_000_000).total
    array([9.])
    """

    def __init__(self, mean: FloatArray, spread: FloatArray, floor: float, scale: float, streams: Streams) -> None:
        super().__init__(np.maximum(mean, floor) * scale * 1000.0, np.full(len(mean), np.inf), streams)
        self.mean, self.spread, self.floor, self.scale = mean, spread, floor, scale
        self._latencies = Recent(4)

    def latency(self, round: int, clients: IntArray, samples: FloatArray, model_bytes: int) -> Latency:
        """The time these clients need in this round; neither `samples` nor `model_bytes` matters."""
        clients, _ = self._asked(round, clients, samples)
        seconds = self._latencies.get(round, self._latency)[clients]
        return Latency(np.zeros(len(clients)), seconds, np.zeros(len(clients)))

    def expected(self, samples: FloatArray, model_bytes: int) -> Latency:
        """The mean of the draws before clipping, at least the floor, for all clients."""
        self._asked(0, np.arange(len(self)), samples)
        return Latency(np.zeros(len(self)), self.compute / 1000.0, np.zeros(len(self)))

    def matched(self, order: IntArray) -> DirectDevices:
        """The same devices dealt out again: client i gets the device that client order[i] had."""
        order = self._dealing(order)
        return DirectDevices(self.mean[order], self.spread[order], self.floor, self.scale, self.streams)

    def _latency(self, round: int) -> FloatArray:
        normal = self.streams.rewound("compute noise", round).standard_normal(len(self))
        return np.asarray(self.scale * np.clip(self.mean + self.spread * normal, self.floor, 1.0))
