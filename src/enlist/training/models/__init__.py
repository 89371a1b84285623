"""Models by name, as options that build PyTorch modules."""

from __future__ import annotations

from typing import Annotated

import pydantic

from enlist.training.models.base import ModelOptions, initialise
from enlist.training.models.convolutional import CNN, CNNDropout
from enlist.training.models.dense import MLP, Linear, Logistic, Thesis
from enlist.training.models.mobilenet import MobileNetV2
from enlist.training.models.own import PythonModel
from enlist.training.models.resnet import ResNet18, ResNet34
from enlist.training.models.shufflenet import ShuffleNetV2

AnyModel = Annotated[
    Linear
    | Logistic
    | MLP
    | CNN
    | CNNDropout
    | Thesis
    | ResNet18
    | ResNet34
    | MobileNetV2
    | ShuffleNetV2
    | PythonModel,
    pydantic.Field(discriminator="name"),
]
"""Type of a field that holds any model's options."""

MODELS: dict[str, type[ModelOptions]] = {
    "linear": Linear,
    "logistic": Logistic,
    "mlp": MLP,
    "cnn": CNN,
    "cnn-dropout": CNNDropout,
    "thesis": Thesis,
    "resnet18": ResNet18,
    "resnet34": ResNet34,
    "mobilenet-v2": MobileNetV2,
    "shufflenet-v2": ShuffleNetV2,
    "python": PythonModel,
}
"""Name in a configuration -> options class."""

__all__ = [
    "CNN",
    "MLP",
    "MODELS",
    "AnyModel",
    "CNNDropout",
    "Linear",
    "Logistic",
    "MobileNetV2",
    "ModelOptions",
    "PythonModel",
    "ResNet18",
    "ResNet34",
    "ShuffleNetV2",
    "Thesis",
    "initialise",
]
