"""Generators of devices: options that draw a population of `Devices`, or read it from a trace file."""

from __future__ import annotations

import abc
from typing import Annotated, Literal

import numpy as np
import pydantic

from enlist._internal import checks
from enlist._internal.options import Options
from enlist._internal.typing import BoolArray, FloatArray
from enlist.devices.devices import Devices, DirectDevices
from enlist.devices.draws import blended, dealt, truncated_lognormal
from enlist.streams import Streams


class DeviceOptions(Options, abc.ABC):
    """Base of all generators of devices.

    >>> len(Phones().draw(5, Streams(1)))
    5
    """

    model_config = pydantic.ConfigDict(allow_inf_nan=False)

    @abc.abstractmethod
    def draw(self, count: int, streams: Streams) -> Devices:
        """The devices of `count` clients."""


class TimedOptions(DeviceOptions):
    """What generators share if latency follows from the work: noise from round to round, and the upload.

    >>> Phones(compute_noise=0.0).upload_ratio
    1.0
    """

    compute_noise: float = pydantic.Field(
        0.2, ge=0, le=3, description="Round noise: standard deviation of the logarithm of the factor on compute time."
    )
    bandwidth_noise: float = pydantic.Field(
        0.4, ge=0, le=3, description="Round noise: standard deviation of the logarithm of the factor on bandwidth."
    )
    upload_ratio: float = pydantic.Field(1.0, gt=0, description="Upload bandwidth divided by download bandwidth.")

    def _made(self, compute: FloatArray, bandwidth: FloatArray, streams: Streams) -> Devices:
        return Devices(compute, bandwidth, streams, self.compute_noise, self.bandwidth_noise, self.upload_ratio)


class Phones(TimedOptions):
    """Phones on WiFi: truncated lognormal compute and bandwidth, a Gaussian copula between their logarithms.

    The medians and spreads model FedScale's device file: bandwidth is solved from its median and its share below
    3 Mbit/s; of compute only the span is known, and its shape and the correlation are assumptions. The noise has the
    coefficients of variation that FLASH measured within users.

    >>> devices = Phones().draw(10_000, Streams(1))
    >>> np.quantile(devices.compute, [0.05, 0.5, 0.95]).round(), np.median(devices.bandwidth).round()
    (array([ 21.,  62., 163.]), np.float64(6199.0))
    """

    kind: Literal["phones"] = "phones"
    compute_median: float = pydantic.Field(
        65.0, gt=0, description="Median of inference, milliseconds per sample, before truncation."
    )
    compute_sigma: float = pydantic.Field(
        0.8, ge=0, le=5, description="Standard deviation of the logarithm of compute time, before truncation."
    )
    compute_low: float = pydantic.Field(15.0, gt=0, description="The fastest device, milliseconds per sample.")
    compute_high: float = pydantic.Field(200.0, gt=0, description="The slowest device, milliseconds per sample.")
    bandwidth_median: float = pydantic.Field(
        6100.0, gt=0, description="Median of download bandwidth, kbit/s, before truncation."
    )
    bandwidth_sigma: float = pydantic.Field(
        1.1, ge=0, le=5, description="Standard deviation of the logarithm of bandwidth, before truncation."
    )
    bandwidth_low: float = pydantic.Field(150.0, gt=0, description="The slowest link, kbit/s.")
    bandwidth_high: float = pydantic.Field(200_000.0, gt=0, description="The fastest link, kbit/s.")
    correlation: float = pydantic.Field(
        -0.2, ge=-1, le=1, description="Correlation of the copula between compute time and bandwidth."
    )

    @pydantic.model_validator(mode="after")
    def _ordered(self) -> Phones:
        for name in ("compute", "bandwidth"):
            low, high = getattr(self, f"{name}_low"), getattr(self, f"{name}_high")
            if low > high:
                raise ValueError(f"{name}_low is {low} and {name}_high is {high}; give low <= high.")
        return self

    def draw(self, count: int, streams: Streams) -> Devices:
        """The devices of `count` clients."""
        count = checks.whole("clients", count, minimum=1)
        first = streams.generator("device compute").standard_normal(count)
        second = blended(first, streams.generator("device bandwidth").standard_normal(count), self.correlation)
        compute = truncated_lognormal(
            first, self.compute_median, self.compute_sigma, self.compute_low, self.compute_high
        )
        bandwidth = truncated_lognormal(
            second, self.bandwidth_median, self.bandwidth_sigma, self.bandwidth_low, self.bandwidth_high
        )
        return self._made(compute, bandwidth, streams)


class Tiers(TimedOptions):
    """A few kinds of device, each with its share of the clients.

    By default the thirds of `phones`: the medians of its slow, middle and fast third.

    >>> devices = Tiers(shares=(1, 1, 2)).draw(8, Streams(1))
    >>> np.unique(devices.compute, return_counts=True)
    (array([ 31.,  62., 118.]), array([4, 2, 2]))
    """

    kind: Literal["tiers"] = "tiers"
    shares: tuple[Annotated[float, pydantic.Field(gt=0)], ...] = pydantic.Field(
        (1.0, 1.0, 1.0), min_length=1, description="Relative share of each tier."
    )
    compute: tuple[Annotated[float, pydantic.Field(gt=0)], ...] = pydantic.Field(
        (118.0, 62.0, 31.0), description="Inference of each tier, milliseconds per sample."
    )
    bandwidth: tuple[Annotated[float, pydantic.Field(gt=0)], ...] = pydantic.Field(
        (2100.0, 6100.0, 17_600.0), description="Download bandwidth of each tier, kbit/s."
    )

    @pydantic.model_validator(mode="after")
    def _aligned(self) -> Tiers:
        if not len(self.shares) == len(self.compute) == len(self.bandwidth):
            raise ValueError(
                f"{len(self.shares)} shares, {len(self.compute)} compute times and {len(self.bandwidth)} bandwidths "
                "were given; give one of each per tier."
            )
        return self

    def draw(self, count: int, streams: Streams) -> Devices:
        """The devices of `count` clients."""
        count = checks.whole("clients", count, minimum=1)
        tier = dealt(self.shares, count, streams.generator("device tier"))
        return self._made(np.array(self.compute)[tier], np.array(self.bandwidth)[tier], streams)


class Mixture(DeviceOptions):
    """A slow minority, as in BSFL's experiments: latency / scale ~ clip(N(mean_i, sd_i), floor, 1).

    Latency is drawn as a whole, whatever the samples and the model; all of it counts as compute.

    >>> devices = Mixture(scale=100.0).draw(20, Streams(1))
    >>> (devices.expected(np.ones(20), 0).total > 80).sum()
    np.int64(2)
    """

    kind: Literal["mixture"] = "mixture"
    scale: float = pydantic.Field(100.0, gt=0, description="The longest latency, seconds.")
    slow_share: float = pydantic.Field(0.1, ge=0, le=1, description="Share of the slow clients.")
    slow: tuple[float, float] = pydantic.Field(
        (0.85, 0.9), description="Range of a slow client's mean latency, in units of scale."
    )
    fast: tuple[float, float] = pydantic.Field(
        (0.05, 0.1), description="Range of a fast client's mean latency, in units of scale."
    )
    spread: float = pydantic.Field(
        0.05, ge=0, le=1, description="Largest standard deviation of a client's latency, in units of scale."
    )
    floor: float = pydantic.Field(0.05, gt=0, le=1, description="The shortest latency, in units of scale.")

    @pydantic.model_validator(mode="after")
    def _ranges(self) -> Mixture:
        for name in ("slow", "fast"):
            low, high = getattr(self, name)
            if not 0 < low <= high <= 1:
                raise ValueError(f"{name} is ({low}, {high}); give 0 < low <= high <= 1.")
        return self

    def draw(self, count: int, streams: Streams) -> DirectDevices:
        """The devices of `count` clients."""
        count = checks.whole("clients", count, minimum=1)
        groups = dealt((self.slow_share, 1.0 - self.slow_share), count, streams.generator("device tier"))
        low, high = np.array([self.slow, self.fast]).T
        mean = low[groups] + (high - low)[groups] * streams.generator("device latency").uniform(size=count)
        spread = self.spread * streams.generator("device spread").uniform(size=count)
        return DirectDevices(mean, spread, self.floor, self.scale, streams)


class EqualDevices(TimedOptions):
    """All clients have the same device.

    >>> EqualDevices(compute=10.0).draw(2, Streams(1)).compute
    array([10., 10.])
    """

    kind: Literal["equal"] = "equal"
    compute: float = pydantic.Field(65.0, gt=0, description="Inference, milliseconds per sample.")
    bandwidth: float = pydantic.Field(6100.0, gt=0, description="Download bandwidth, kbit/s.")
    compute_noise: float = pydantic.Field(
        0.0, ge=0, le=3, description="Round noise: standard deviation of the logarithm of the factor on compute time."
    )
    bandwidth_noise: float = pydantic.Field(
        0.0, ge=0, le=3, description="Round noise: standard deviation of the logarithm of the factor on bandwidth."
    )

    def draw(self, count: int, streams: Streams) -> Devices:
        """The devices of `count` clients."""
        count = checks.whole("clients", count, minimum=1)
        return self._made(np.full(count, self.compute), np.full(count, self.bandwidth), streams)


class DeviceFailures(Options):
    """Crashes: each participation fails with the same chance, after a uniform fraction of its work.

    >>> crashed, fraction = DeviceFailures(crash=0.5).crashes(1, Streams(1), 4)
    >>> crashed, fraction.round(2)
    (array([ True, False, False,  True]), array([0.13, 1.  , 1.  , 0.68]))
    """

    crash: float = pydantic.Field(0.0, ge=0, le=1, description="Chance that a participation crashes.")

    def crashes(self, round: int, streams: Streams, count: int) -> tuple[BoolArray, FloatArray]:
        """Which of `count` clients crash in this round, and after which fraction of their work (1 for the others)."""
        if self.crash == 0.0:
            return np.zeros(count, dtype=bool), np.ones(count)
        crashed = streams.rewound("crash", round).uniform(size=count) < self.crash
        fraction = streams.rewound("crash fraction", round).uniform(size=count)
        return crashed, np.where(crashed, fraction, 1.0)
