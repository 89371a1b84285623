"""Devices: how long a participation takes, who is online when, and how long a round waits. Needs the extra `sim`."""

from __future__ import annotations

from typing import Annotated

import pydantic

from enlist.devices.availability import Always, Availability, AvailabilityOptions, Bernoulli, Everybody, Slots
from enlist.devices.deadlines import (
    AnyDeadline,
    AverageDeadline,
    Deadline,
    DeadlineOptions,
    Fixed,
    ModelScaled,
    MovingAverage,
    NoDeadline,
    Percentile,
)
from enlist.devices.described import Described
from enlist.devices.devices import Devices, DirectDevices, Latency
from enlist.devices.energy import Batteries, Energy, Power
from enlist.devices.features import FEATURES, FeatureKnobs, feature_table, matched_order
from enlist.devices.generators import DeviceOptions, Equal, Failures, Mixture, Phones, Tiers
from enlist.devices.intervals import Intervals
from enlist.devices.sessions import Diurnal, Markov
from enlist.devices.traces import AvailabilityTrace, DeviceTrace

AnyDevices = Annotated[Phones | Tiers | Mixture | Equal | Described | DeviceTrace, pydantic.Field(discriminator="kind")]
"""Any generator of devices, told apart by `kind`."""
AnyAvailability = Annotated[
    Always | Bernoulli | Markov | Diurnal | AvailabilityTrace, pydantic.Field(discriminator="kind")
]
"""Any kind of availability, told apart by `kind`."""

__all__ = [
    "FEATURES",
    "Always",
    "AnyAvailability",
    "AnyDeadline",
    "AnyDevices",
    "Availability",
    "AvailabilityOptions",
    "AvailabilityTrace",
    "AverageDeadline",
    "Batteries",
    "Bernoulli",
    "Deadline",
    "DeadlineOptions",
    "Described",
    "DeviceOptions",
    "DeviceTrace",
    "Devices",
    "DirectDevices",
    "Diurnal",
    "Energy",
    "Equal",
    "Everybody",
    "Failures",
    "FeatureKnobs",
    "Fixed",
    "Intervals",
    "Latency",
    "Markov",
    "Mixture",
    "ModelScaled",
    "MovingAverage",
    "NoDeadline",
    "Percentile",
    "Phones",
    "Power",
    "Slots",
    "Tiers",
    "feature_table",
    "matched_order",
]
