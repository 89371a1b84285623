"""Partitions: how the samples of a data set are spread over clients, as options with a method that splits them.

`iid`, `lognormal` and `power-law` (quantity skew), `dirichlet` and `shards` (label skew), `dirichlet-lognormal` (both),
`natural` (by user). All work on whole arrays: 1,000,000 samples over 100,000 clients take seconds.
"""

from __future__ import annotations

from typing import Annotated

import pydantic

from enlist.data.partitions.base import BINS, Partition, label_bins
from enlist.data.partitions.both import DirichletLogNormal
from enlist.data.partitions.label_skew import Dirichlet, LabelShards
from enlist.data.partitions.natural import Natural
from enlist.data.partitions.quantity import IID, LogNormal, PowerLaw
from enlist.data.partitions.shards import Shards

PARTITIONS: dict[str, type[Partition]] = {
    "iid": IID,
    "dirichlet": Dirichlet,
    "shards": LabelShards,
    "lognormal": LogNormal,
    "power-law": PowerLaw,
    "dirichlet-lognormal": DirichletLogNormal,
    "natural": Natural,
}
"""Every partition by its `kind`."""

AnyPartition = Annotated[
    IID | Dirichlet | LabelShards | LogNormal | PowerLaw | DirichletLogNormal | Natural,
    pydantic.Field(discriminator="kind"),
]
"""The type of a configuration's partition, selected by its `kind`."""

__all__ = [
    "BINS",
    "IID",
    "PARTITIONS",
    "AnyPartition",
    "Dirichlet",
    "DirichletLogNormal",
    "LabelShards",
    "LogNormal",
    "Natural",
    "Partition",
    "PowerLaw",
    "Shards",
    "label_bins",
]
