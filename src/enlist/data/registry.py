"""All data sets by name."""

from __future__ import annotations

from typing import Annotated

import pydantic

from enlist.data.base import DatasetOptions
from enlist.data.cifar import CIFAR10, CIFAR100
from enlist.data.digits import Digits
from enlist.data.idx import MNIST, FashionMNIST
from enlist.data.leaf import FEMNIST
from enlist.data.memory import FromMemory
from enlist.data.own import FromFile, FromPython
from enlist.data.speech import SpeechCommands
from enlist.data.synthetic import FedProxSynthetic, LinearRegression
from enlist.data.telecom import Telecom

AnyDataset = Annotated[
    Digits
    | FashionMNIST
    | MNIST
    | CIFAR10
    | CIFAR100
    | FEMNIST
    | SpeechCommands
    | LinearRegression
    | FedProxSynthetic
    | Telecom
    | FromFile
    | FromPython
    | FromMemory,
    pydantic.Field(discriminator="name"),
]
"""Type of a field that holds any data set's options."""

DATASETS: dict[str, type[DatasetOptions]] = {
    "digits": Digits,
    "fashion-mnist": FashionMNIST,
    "mnist": MNIST,
    "cifar10": CIFAR10,
    "cifar100": CIFAR100,
    "femnist": FEMNIST,
    "speech-commands": SpeechCommands,
    "linear-regression": LinearRegression,
    "fedprox-synthetic": FedProxSynthetic,
    "telecom": Telecom,
    "file": FromFile,
    "python": FromPython,
    "memory": FromMemory,
}
"""Name in a configuration -> options class."""
