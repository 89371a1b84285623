"""Models: shapes, sizes, initialisation, and the convolutional network against a plain formulation."""

from __future__ import annotations

import itertools
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from torch import Tensor, nn
from torch.nn import functional

from enlist.errors import InputError
from enlist.streams import Streams
from enlist.training.dense import DenseChain
from enlist.training.models import (
    CNN,
    MLP,
    MODELS,
    AnyModel,
    CNNDropout,
    Linear,
    Logistic,
    MobileNetV2,
    ModelOptions,
    PythonModel,
    ResNet18,
    ResNet34,
    ShuffleNetV2,
    Thesis,
    initialise,
)
from enlist.training.models.mobilenet import Bottleneck
from enlist.training.models.resnet import Block
from enlist.training.models.shufflenet import Unit
from enlist.training.workers import one_thread


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


DENSE: list[ModelOptions] = [Linear(), MLP(), MLP(hidden=()), MLP(hidden=(7, 5)), Thesis()]
IMAGES: list[ModelOptions] = [CNN(), CNNDropout(), ResNet18(), ResNet18(norm="group"), MobileNetV2(), ShuffleNetV2()]


def size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def shown(options: ModelOptions) -> str:
    return " ".join(str(value) for value in options.model_dump().values())


@pytest.mark.parametrize(
    ("options", "classes"),
    [(options, 10) for options in (*DENSE, *IMAGES)] + [(options, 0) for options in (*DENSE, CNN(), ShuffleNetV2())],
    ids=lambda value: shown(value) if isinstance(value, ModelOptions) else str(value),
)
def test_small_images_train(options: ModelOptions, classes: int) -> None:
    module = initialise(options, (1, 8, 8), classes, Streams(1))
    found = module.train()(torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(1)))
    assert found.shape == (4, classes or 1)
    gradients = torch.autograd.grad(found.square().sum(), list(module.parameters()))
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert sum(float(gradient.abs().sum()) > 0 for gradient in gradients) > 0.8 * len(gradients)


@pytest.mark.parametrize("options", IMAGES, ids=shown)
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)], ids=str)
def test_image_shapes(options: ModelOptions, shape: tuple[int, ...]) -> None:
    module = initialise(options, shape, 10, Streams(1)).eval()
    with torch.inference_mode():
        assert module(torch.zeros(2, *shape)).shape == (2, 10)


@pytest.mark.parametrize("options", IMAGES, ids=shown)
def test_memory_format_of_batches_and_weights_changes_no_result(options: ModelOptions) -> None:
    module = initialise(options, (3, 8, 8), 10, Streams(1)).eval()
    assert module.memory_format == torch.channels_last
    images = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        plain = module(images)
        module.to(memory_format=torch.channels_last)
        torch.testing.assert_close(module(images.to(memory_format=torch.channels_last)), plain, rtol=1e-4, atol=1e-5)


def test_dense_models_can_be_stacked() -> None:
    for options in (Linear(), Logistic(), MLP(), MLP(hidden=(3, 4))):
        assert DenseChain.of(options.build((1, 8, 8), 10)) is not None


def test_sizes_by_hand() -> None:
    assert size(Linear().build((30,), 0)) == 30 + 1
    assert size(Logistic().build((1, 28, 28), 10)) == 784 * 10 + 10
    assert size(MLP().build((1, 28, 28), 10)) == 784 * 200 + 200 + 200 * 10 + 10
    assert size(CNN().build((1, 28, 28), 10)) == 25 * 16 + 16 + 25 * 16 * 32 + 32 + 49 * 32 * 64 + 64 + 64 * 10 + 10
    assert size(CNN().build((3, 32, 32), 10)) == 1216 + 12_832 + 64 * 32 * 64 + 64 + 650
    assert size(CNN(padding=0).build((1, 28, 28), 10)) == 416 + 12_832 + 4 * 4 * 32 * 64 + 64 + 650
    assert size(CNNDropout().build((1, 28, 28), 10)) == 320 + 18_496 + 49 * 64 * 128 + 128 + 1290
    linear = 153 * 128 + 128 + 128 * 64 + 64 + 64 * 32 + 32 + 32 * 2 + 2
    assert size(Thesis().build((153,), 2)) == linear + 2 * (128 + 64 + 32)


def test_residual_networks_have_the_published_sizes() -> None:
    # A block a -> b: 9ab + 9bb weights and 4b of two norms; where a != b, ab + 2b for the shortcut.
    def expected(depths: tuple[int, ...]) -> int:
        total, before = 9 * 3 * 64 + 2 * 64, 64
        for width, depth in zip((64, 128, 256, 512), depths, strict=True):
            for _ in range(depth):
                total += 9 * before * width + 9 * width * width + 4 * width
                total += before * width + 2 * width if before != width else 0
                before = width
        return total + 512 * 10 + 10

    assert size(ResNet18().build((3, 32, 32), 10)) == expected((2, 2, 2, 2)) == 11_173_962
    assert size(ResNet34().build((3, 32, 32), 10)) == expected((3, 4, 6, 3)) == 21_282_122
    assert size(ResNet18(norm="group").build((3, 32, 32), 10)) == 11_173_962


def test_mobilenet_has_the_published_size() -> None:
    # Published for 1000 classes: 3,504,872, of which the head has 1280 * 1000 + 1000; for 10 classes 990 * 1281 fewer.
    # A bottleneck a -> t a -> b: t a² + 2ta (if t > 1), 9ta + 2ta, tab + 2b.
    total, before = 27 * 32 + 64, 32
    for factor, width, depth in ((1, 16, 1), (6, 24, 2), (6, 32, 3), (6, 64, 4), (6, 96, 3), (6, 160, 3), (6, 320, 1)):
        for _ in range(depth):
            inner = factor * before
            total += (before * inner + 2 * inner if factor > 1 else 0) + 11 * inner + inner * width + 2 * width
            before = width
    total += 320 * 1280 + 2 * 1280 + 1280 * 10 + 10
    assert size(MobileNetV2().build((3, 32, 32), 10)) == total == 3_504_872 - 990 * 1281 == 2_236_682
    assert size(MobileNetV2().build((3, 32, 32), 1000)) == 3_504_872


def test_shufflenet_has_the_published_size() -> None:
    # Published for 1000 classes: 2,278,604, of which the head has 1024 * 1000 + 1000; for 10 classes 990 * 1025 fewer.
    # With h = width / 2, a unit has h² + 2h + 9h + 2h + h² + 2h; the first of a group, a -> width, has ah instead of
    # its first h², and 9a + 2a + ah + 2h for the branch that otherwise passes.
    total, before = 27 * 24 + 48, 24
    for width, depth in ((116, 4), (232, 8), (464, 4)):
        half = width // 2
        total += depth * (2 * half * half + 15 * half) - half * half + before * half
        total += 11 * before + before * half + 2 * half
        before = width
    total += 464 * 1024 + 2 * 1024 + 1024 * 10 + 10
    assert size(ShuffleNetV2().build((3, 32, 32), 10)) == total == 2_278_604 - 990 * 1025 == 1_263_854


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("sides", [(4, 4), (28, 28), (5, 7), (2, 9)], ids=str)
def test_pooling_before_relu_is_exact_even_with_ties(
    memory_format: torch.memory_format, sides: tuple[int, int]
) -> None:
    generator = torch.Generator().manual_seed(2)
    values = torch.randint(-2, 3, (3, 6, *sides), generator=generator).float()  # a few whole numbers: ties everywhere
    plain = values.clone().requires_grad_()
    ours = values.clone(memory_format=memory_format).requires_grad_()
    expected = nn.MaxPool2d(2)(functional.relu(plain))
    found = functional.relu_(functional.max_pool2d(ours, 2))
    assert torch.equal(found, expected)
    outer = torch.randint(-3, 4, expected.shape, generator=generator).float()
    assert torch.equal(torch.autograd.grad(found, ours, outer)[0], torch.autograd.grad(expected, plain, outer)[0])


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 9, 13)], ids=str)
def test_cnn_equals_a_plain_formulation(shape: tuple[int, int, int]) -> None:
    module = initialise(CNN(), shape, 10, Streams(3))
    assert isinstance(module.convolutions, nn.ModuleList)
    height, width = shape[1] // 2 // 2, shape[2] // 2 // 2
    first, second = module.convolutions
    weight = module.dense[0].weight.view(64, height, width, 32).permute(0, 3, 1, 2).flatten(1)

    def plain(values: Tensor) -> Tensor:
        for layer in (first, second):
            values = functional.max_pool2d(
                functional.relu(functional.conv2d(values, layer.weight, layer.bias, 1, 2)), 2
            )
        values = functional.relu(functional.linear(values.flatten(1), weight, module.dense[0].bias))
        return functional.linear(values, module.dense[1].weight, module.dense[1].bias)

    images = torch.randn(5, *shape, generator=torch.Generator().manual_seed(1))
    labels = torch.tensor([0, 1, 2, 3, 9])
    expected, found = plain(images), module(images)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    parameters = list(module.parameters())
    theirs = torch.autograd.grad(functional.cross_entropy(expected, labels), parameters)
    ours = torch.autograd.grad(functional.cross_entropy(found, labels), parameters)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_dropout_is_random_in_training_only() -> None:
    module = initialise(CNNDropout(), (1, 8, 8), 10, Streams(1))
    images = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        assert not torch.equal(module.train()(images), module(images))
    assert torch.equal(module.eval()(images), module(images))
    with pytest.raises(InputError, match=r"dropout: \[0.1, 1.0\] are not valid shares"):
        CNNDropout(dropout=(0.1, 1.0))


def test_blocks_reduce_to_their_shortcuts() -> None:
    values = torch.rand(2, 8, 4, 4, generator=torch.Generator().manual_seed(1))
    residual, bottleneck = Block(8, 8, 1, nn.BatchNorm2d).eval(), Bottleneck(8, 8, 6, 1).eval()
    nn.init.zeros_(residual.second.weight)
    nn.init.zeros_(bottleneck.layers[-2].weight)
    assert torch.equal(residual(values), values)  # not negative, so that ReLU keeps them
    assert torch.equal(bottleneck(values), values)


def test_shuffling_alternates_the_branches() -> None:
    unit = Unit(8, 8, 1).eval()
    values = torch.rand(2, 8, 4, 4, generator=torch.Generator().manual_seed(1))
    found = unit(values)
    assert torch.equal(found[:, 0::2], values[:, :4])
    assert torch.equal(found[:, 1::2], unit.filtered(values[:, 4:]))
    assert found.is_contiguous(memory_format=torch.channels_last)


def test_thesis_network_starts_from_a_normal_distribution() -> None:
    module = initialise(Thesis(deviation=0.2), (153,), 2, Streams(1))
    assert isinstance(module, nn.Sequential)
    kinds = [type(layer).__name__ for layer in module]
    assert kinds == ["Flatten", *["Linear", "BatchNorm1d", "ReLU"] * 3, "Linear"]
    weights = module[1].weight
    assert float(weights.detach().std()) == pytest.approx(0.2, rel=0.02)
    assert float(weights.detach().abs().max()) > 0.6  # beyond what a uniform one of this deviation reaches


@pytest.mark.parametrize("options", [MLP(), CNN(), Thesis(), ShuffleNetV2()], ids=shown)
def test_weights_come_from_the_stream_alone(options: ModelOptions) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = initialise(options, (1, 8, 8), 10, Streams(1)).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    second = initialise(options, (1, 8, 8), 10, Streams(1)).state_dict()
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())
    other = initialise(options, (1, 8, 8), 10, Streams(2)).state_dict()
    assert any(not torch.equal(tensor, other[name]) for name, tensor in first.items())


@pytest.mark.parametrize("options", [*DENSE, *IMAGES], ids=shown)
def test_modules_can_be_sent_to_workers(options: ModelOptions) -> None:
    module = initialise(options, (1, 8, 8), 10, Streams(1)).eval()
    again = pickle.loads(pickle.dumps(module))
    images = torch.zeros(2, 1, 8, 8)
    with torch.inference_mode():
        assert torch.equal(module(images), again(images))


def test_names() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(AnyModel)
    for name, options in MODELS.items():
        values = {"name": name} | ({"factory": "torch.nn:Linear"} if name == "python" else {})
        assert type(adapter.validate_python(values)) is options
    assert MODELS.keys() == {options.model_fields["name"].default for options in MODELS.values()}
    for options in MODELS.values():
        assert all(field.description for name, field in options.model_fields.items() if name != "name")


@pytest.mark.parametrize(
    ("options", "shape", "message"),
    [
        (ResNet18(), (153,), r"'resnet18' needs images .* samples have shape \(153,\); use 'mlp' or 'logistic'"),
        (CNN(channels=(4, 4, 4, 4)), (1, 8, 8), "leaves no pixel of 8 x 8 images after convolution 4"),
        (CNN(padding=0), (1, 8, 8), "raise padding .now 0., lower kernel .now 5."),
    ],
)
def test_images_that_do_not_fit(options: ModelOptions, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        options.build(shape, 10)


def test_wrong_options() -> None:
    for make, message in (
        (lambda: MLP(hidden=(0,)), "hidden"),
        (lambda: CNN(channels=()), "channels"),
        (lambda: Thesis(hidden=(1, 2)), "hidden"),
        (lambda: ResNet18(norm="layer"), "norm"),
        (lambda: PythonModel(factory="no colon"), "factory"),
    ):
        with pytest.raises(InputError, match=message):
            make()


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to run in; what the test imports from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


NUMBER = itertools.count()


def own(folder: Path, code: str, name: str = "Net", **options: Any) -> PythonModel:
    module = f"own_models_{next(NUMBER)}"
    (folder / f"{module}.py").write_text(f"import torch\nfrom torch import nn\n{code}\n")
    return PythonModel(factory=f"{module}:{name}", options=options)


CLASS = """
class Net(nn.Module):
    def __init__(self, width, outputs=10):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.Tanh(), nn.Linear(width, outputs))
    def forward(self, x):
        return self.layers(x)
"""


def test_own_class_from_the_current_folder(own_folder: Path) -> None:
    options = own(own_folder, CLASS, width=6)
    module = initialise(options, (1, 8, 8), 10, Streams(1))
    assert size(module) == 64 * 6 + 6 + 6 * 10 + 10
    assert module.training
    assert pickle.loads(pickle.dumps(module))(torch.zeros(2, 1, 8, 8)).shape == (2, 10)
    again = initialise(options, (1, 8, 8), 10, Streams(1))
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), again.parameters(), strict=True))


def test_own_function_and_own_regression(own_folder: Path) -> None:
    code = "def Net():\n    return nn.Sequential(nn.Linear(3, 1), nn.Flatten(0))"
    assert size(own(own_folder, code).build((3,), 0)) == 4
    assert size(own(own_folder, "def Net():\n    return nn.LazyLinear(1)").build((3,), 0)) == 4


@pytest.mark.parametrize(
    ("code", "name", "options", "message"),
    [
        (CLASS, "Nett", {"width": 6}, "has no class or function 'Nett'. Did you mean 'Net'?"),
        (CLASS, "Net", {"wide": 6}, r"cannot be called with \(wide=6\): .*'width'"),
        ("class Net:\n    pass", "Net", {}, "gives a Net; it must be, or return, an nn.Module"),
        (CLASS, "Net", {"width": 6, "outputs": 3}, r"returns \(2, 3\) for a batch of 2; 10 classes need \(2, 10\)"),
        ("def Net():\n    return nn.Linear(5, 10)", "Net", {}, r"fails on a batch of shape \(2, 1, 8, 8\)"),
    ],
)
def test_own_model_that_cannot_be_used(
    own_folder: Path, code: str, name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        own(own_folder, code, name, **options).build((1, 8, 8), 10)


def test_own_module_that_is_missing_or_broken(own_folder: Path) -> None:
    with pytest.raises(InputError, match="there is no module 'no_such_models', neither in"):
        PythonModel(factory="no_such_models:Net").build((3,), 2)
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        own(own_folder, "import no_such_dependency").build((3,), 2)
