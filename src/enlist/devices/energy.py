"""Energy: the power that devices draw while they receive, compute and send, and the batteries that it drains."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import pydantic

from enlist._internal.options import Options
from enlist._internal.typing import AnyArray, BoolArray, FloatArray, IntArray
from enlist.devices.devices import TRAINING, Devices, Latency
from enlist.devices.draws import mean_one
from enlist.streams import Streams

WATTS = {"phones": (3.0, 1.0, 1.5), "trace": (3.0, 1.0, 1.5), "tiers": (10.0, 1.0, 1.5)}
"""Watts of computing, receiving and sending by kind of device; others count as phones. Assumptions: set your own."""

PHONE = 40_000.0
"""Joules of a phone's battery."""
ENERGETIC = frozenset(
    {"clients.energy_per_sample", "clients.energy_per_byte", "clients.battery", "context.battery", "energy"}
)
"""Energy values that a selector may need."""


class Energy(Options):
    """What a participation costs in joules: watts times the seconds of compute, download and upload.

    The defaults are assumptions of the right order, not measurements; comparisons of methods use seconds alone.

    >>> Energy().watts("phones")
    (3.0, 1.0, 1.5)
    """

    model_config = pydantic.ConfigDict(allow_inf_nan=False)

    compute_watts: float | None = pydantic.Field(
        None, ge=0, description="While computing; if not given, what the kind of device draws."
    )
    download_watts: float | None = pydantic.Field(
        None, ge=0, description="While receiving; if not given, what the kind of device draws."
    )
    upload_watts: float | None = pydantic.Field(
        None, ge=0, description="While sending; if not given, what the kind of device draws."
    )
    spread: float = pydantic.Field(
        0.3, ge=0, le=3, description="Standard deviation of the logarithm of a client's factor on all three."
    )
    battery: float | None = pydantic.Field(
        None, gt=0, description="Joules of a full battery, a phone's about 40000; if not given, no client runs on one."
    )
    charged: float = pydantic.Field(0.5, ge=0, le=1, description="Least share of its battery a client begins with.")
    charge_watts: float = pydantic.Field(1.0, ge=0, description="Mean power at which batteries are charged.")

    def watts(self, kind: str) -> tuple[float, float, float]:
        """Of computing, receiving and sending, for a kind of devices."""
        given = (self.compute_watts, self.download_watts, self.upload_watts)
        usual = WATTS.get(kind, WATTS["phones"])
        return tuple(often if own is None else own for own, often in zip(given, usual, strict=True))  # type: ignore[return-value]

    def draw(self, kind: str, count: int, streams: Streams) -> Power:
        """The power of each of `count` clients."""
        factor = mean_one(streams.generator("power").standard_normal(count), self.spread)
        return Power(*(watts * factor for watts in self.watts(kind)))

    def batteries(self, count: int, streams: Streams) -> BatteryLevels | None:
        """The batteries at the start; None if clients do not run on batteries."""
        if self.battery is None:
            return None
        share = streams.generator("battery").uniform(self.charged, 1.0, count)
        return BatteryLevels(self.battery, self.charge_watts, self.battery * share, np.zeros(count))


@dataclasses.dataclass(frozen=True, eq=False)
class Power:
    """Watts of each client while it computes, receives and sends, (N,).

    >>> power = Power(np.array([3.0]), np.array([1.0]), np.array([2.0]))
    >>> latency = Latency(np.array([2.0]), np.array([10.0]), np.array([1.0]))
    >>> power.joules(np.array([0]), latency), power.joules(np.array([0]), latency, np.array([4.0]))
    (array([34.]), array([8.]))
    >>> power.lasts(np.array([0]), latency, np.array([8.0]))
    array([4.])
    """

    compute: FloatArray
    download: FloatArray
    upload: FloatArray

    def joules(self, clients: IntArray, latency: Latency, until: FloatArray | None = None) -> FloatArray:
        """The energy that clients spend until this many seconds after selection; until they are done by default."""
        total = latency.total if until is None else np.minimum(until, latency.total)
        received = np.minimum(total, latency.download)
        computed = np.clip(total - latency.download, 0.0, latency.compute)
        sent = np.clip(total - latency.download - latency.compute, 0.0, latency.upload)
        spent = self.download[clients] * received + self.compute[clients] * computed + self.upload[clients] * sent
        return np.asarray(spent)

    def lasts(self, clients: IntArray, latency: Latency, left: FloatArray) -> FloatArray:
        """Seconds after which clients with this many joules left run out of power; infinite if they do not."""
        seconds, rest = np.zeros(len(clients)), left.astype(float)
        out = np.zeros(len(clients), dtype=bool)
        for watts, part in (
            (self.download[clients], latency.download),
            (self.compute[clients], latency.compute),
            (self.upload[clients], latency.upload),
        ):
            able = np.where(watts > 0, rest / np.where(watts > 0, watts, 1.0), np.inf)
            short = ~out & (able < part)
            seconds += np.where(out, 0.0, np.minimum(able, part))
            out |= short
            rest = np.maximum(rest - watts * part, 0.0)
        return np.where(out, seconds, np.inf)

    def columns(self, devices: Devices) -> dict[str, FloatArray]:
        """Joules per sample and per byte, as `Clients` holds them; a byte is the mean of one received and one sent."""
        per_byte = 8.0 / 1000.0 / devices.bandwidth
        both = 0.5 * (self.download * per_byte + self.upload * per_byte / devices.upload_ratio)
        return {"energy_per_sample": self.compute * TRAINING * devices.compute / 1000.0, "energy_per_byte": both}


@dataclasses.dataclass(eq=False)
class BatteryLevels:
    """The joules left to each client, the time of its last spending, and its joules just before that.

    >>> batteries = BatteryLevels(100.0, 1.0, np.array([50.0, 90.0]), np.zeros(2))
    >>> batteries.spend(np.array([0]), np.array([30.0]), now=0.0)
    >>> batteries.at(20.0)
    array([ 40., 100.])
    """

    full: float
    charge_watts: float
    left: FloatArray
    since: FloatArray
    before: FloatArray = dataclasses.field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if not len(self.before):
            self.before = self.left.copy()

    def at(self, now: float) -> FloatArray:
        """The joules left to each client at this time, charging meanwhile."""
        idle = np.maximum(now - self.since, 0.0)
        return np.asarray(np.minimum(self.left + self.charge_watts * idle, self.full))

    def charging(self, now: float) -> BoolArray:
        """Which batteries are charged at this time: all that are not full, if there is any charging."""
        return np.asarray((self.at(now) < self.full) & (self.charge_watts > 0))

    def spend(self, clients: IntArray, joules: FloatArray, now: float) -> None:
        """Let these clients spend these joules on what they begin now."""
        left = self.at(now)[clients]
        self.left[clients] = np.maximum(left - joules, 0.0)
        self.since[clients], self.before[clients] = now, left

    def state(self) -> dict[str, AnyArray]:
        """The contents of a checkpoint."""
        return {"battery/left": self.left, "battery/since": self.since, "battery/before": self.before}

    def restore(self, arrays: Mapping[str, AnyArray]) -> None:
        """Continue from a checkpoint."""
        self.left, self.since = arrays["battery/left"].copy(), arrays["battery/since"].copy()
        self.before = arrays.get("battery/before", self.left).copy()  # only asynchronous runs use it
