"""Data sets, how their samples are spread over clients, and noise on them. Needs the extra `sim`."""

from __future__ import annotations

from enlist.data.base import DatasetOptions
from enlist.data.cifar import CIFAR10, CIFAR100
from enlist.data.dataset import Dataset, Samples
from enlist.data.describe import Description
from enlist.data.digits import Digits
from enlist.data.idx import MNIST, FashionMNIST
from enlist.data.leaf import FEMNIST
from enlist.data.memory import FromMemory
from enlist.data.noise import LabelNoise, noisy_labels
from enlist.data.own import FromFile, FromPython
from enlist.data.partitions import (
    IID,
    PARTITIONS,
    AnyPartition,
    Dirichlet,
    DirichletLogNormal,
    LabelShards,
    LogNormal,
    Natural,
    Partition,
    PowerLaw,
    Shards,
)
from enlist.data.registry import DATASETS, AnyDataset
from enlist.data.speech import SpeechCommands
from enlist.data.synthetic import FedProxSynthetic, LinearRegression
from enlist.data.telecom import Telecom

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "DATASETS",
    "FEMNIST",
    "IID",
    "MNIST",
    "PARTITIONS",
    "AnyDataset",
    "AnyPartition",
    "Dataset",
    "DatasetOptions",
    "Description",
    "Digits",
    "Dirichlet",
    "DirichletLogNormal",
    "FashionMNIST",
    "FedProxSynthetic",
    "FromFile",
    "FromMemory",
    "FromPython",
    "LabelNoise",
    "LabelShards",
    "LinearRegression",
    "LogNormal",
    "Natural",
    "Partition",
    "PowerLaw",
    "Samples",
    "Shards",
    "SpeechCommands",
    "Telecom",
    "noisy_labels",
]
