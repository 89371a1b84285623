"""Devices: how long a participation takes, who is online when, and how long a round waits. Needs the extra `sim`."""

from __future__ import annotations

from typing import Annotated

import pydantic

from enlist._internal import aliases
from enlist.devices.availability import Always, AlwaysOnline, Availability, AvailabilityOptions, Bernoulli, Slots
from enlist.devices.deadlines import (
    AnyDeadline,
    AverageDeadline,
    Deadline,
    DeadlineOptions,
    Fixed,
    ModelScaled,
    MovingAverageOptions,
    NoDeadline,
    PercentileOptions,
)
from enlist.devices.described import FeatureDevices
from enlist.devices.devices import Devices, DirectDevices, Latency
from enlist.devices.energy import BatteryLevels, Energy, Power
from enlist.devices.features import FEATURES, FeatureKnobs, feature_table, matched_order
from enlist.devices.generators import DeviceFailures, DeviceOptions, EqualDevices, Mixture, Phones, Tiers
from enlist.devices.intervals import Intervals
from enlist.devices.sessions import Diurnal, Markov
from enlist.devices.traces import AvailabilityTrace, DeviceTrace

AnyDevices = Annotated[
    Phones | Tiers | Mixture | EqualDevices | FeatureDevices | DeviceTrace, pydantic.Field(discriminator="kind")
]
"""Any generator of devices, told apart by `kind`."""
AnyAvailability = Annotated[
    Always | Bernoulli | Markov | Diurnal | AvailabilityTrace, pydantic.Field(discriminator="kind")
]
"""Any kind of availability, told apart by `kind`."""

__all__ = [
    "FEATURES",
    "Always",
    "AlwaysOnline",
    "AnyAvailability",
    "AnyDeadline",
    "AnyDevices",
    "Availability",
    "AvailabilityOptions",
    "AvailabilityTrace",
    "AverageDeadline",
    "BatteryLevels",
    "Bernoulli",
    "Deadline",
    "DeadlineOptions",
    "DeviceFailures",
    "DeviceOptions",
    "DeviceTrace",
    "Devices",
    "DirectDevices",
    "Diurnal",
    "Energy",
    "EqualDevices",
    "FeatureDevices",
    "FeatureKnobs",
    "Fixed",
    "Intervals",
    "Latency",
    "Markov",
    "Mixture",
    "ModelScaled",
    "MovingAverageOptions",
    "NoDeadline",
    "PercentileOptions",
    "Phones",
    "Power",
    "Slots",
    "Tiers",
    "feature_table",
    "matched_order",
]

__getattr__ = aliases.former_names(__name__)
