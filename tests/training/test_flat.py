"""Models as flat vectors."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import nn

from enlist.errors import InputError
from enlist.training.flat import ALIGNMENT, FlatModule, Layout, TensorPlace, Vectors


def network(channels_last: bool = False) -> nn.Module:
    torch.manual_seed(3)
    module = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 4 * 4, 5))
    if channels_last:
        module.memory_format = torch.channels_last
    return module


def test_every_tensor_begins_aligned_and_none_overlap() -> None:
    layout = Layout.of(network())
    for places, size in ((layout.parameters, layout.size), (layout.buffers, layout.buffer_size)):
        ends = 0
        for place in places:
            assert place.start % ALIGNMENT == 0
            assert place.start >= ends
            ends = place.start + math.prod(place.shape)
        assert ends <= size
        assert size % ALIGNMENT == 0
    assert [place.name for place in layout.parameters] == [name for name, _ in network().named_parameters()]
    assert [place.name for place in layout.counters] == ["1.num_batches_tracked"]
    # 2*3*9 + 3 + 3 + 3 + 48*5 + 5 parameters and 3 + 3 statistics; the counter is not sent
    assert layout.numbers == 54 + 3 + 6 + 240 + 5 + 6


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.integers(1, 5), min_size=0, max_size=4), min_size=1, max_size=6))
def test_writing_one_tensor_leaves_the_others_alone(shapes: list[list[int]]) -> None:
    module = nn.Module()
    for index, shape in enumerate(shapes):
        module.register_parameter(f"p{index}", nn.Parameter(torch.full(shape, float(index))))
    flat = FlatModule(module)
    for index, place in enumerate(flat.layout.parameters):
        place.view(flat.vectors.parameters).fill_(100.0 + index)
        for other, parameter in enumerate(module.parameters()):
            expected = 100.0 + other if other <= index else float(other)
            assert (parameter == expected).all()


@pytest.mark.parametrize("channels_last", [False, True])
def test_the_module_computes_the_same_and_lives_in_the_vectors(channels_last: bool) -> None:
    x = torch.randn(4, 2, 6, 6)
    plain = network(channels_last).eval()
    expected = plain(x)
    flat = FlatModule(network(channels_last).eval())
    torch.testing.assert_close(flat.module(x), expected)
    with torch.no_grad():
        flat.vectors.parameters.zero_()
        assert float(flat.module(x).abs().sum()) == 0.0
    flat.vectors.buffers.fill_(2.0)
    assert flat.module[1].running_mean.tolist() == [2.0] * 3


@pytest.mark.parametrize("channels_last", [False, True])
def test_named_tensors_load_into_plain_pytorch_and_back(channels_last: bool) -> None:
    source = network(channels_last)
    flat = FlatModule(network(channels_last))
    state = flat.layout.named(flat.vectors)
    assert state.keys() == source.state_dict().keys()
    for name, tensor in source.state_dict().items():
        assert torch.equal(state[name], tensor)
        assert state[name].is_contiguous()
    nn.Sequential(*network()).load_state_dict(state)
    empty = Vectors.zeros(flat.layout)
    flat.layout.load_named(state, empty)
    assert torch.equal(empty.parameters, flat.vectors.parameters)
    assert torch.equal(empty.buffers, flat.vectors.buffers)
    assert torch.equal(empty.counters, flat.vectors.counters)


def test_channels_last_view_is_the_same_tensor_in_another_order() -> None:
    plain, last = TensorPlace("w", (2, 3, 4, 5), 0), TensorPlace("w", (2, 3, 4, 5), 0, channels_last=True)
    values = torch.randn(2, 3, 4, 5)
    vector, stacked = torch.zeros(120), torch.zeros(3, 120)
    last.view(vector).copy_(values)
    assert torch.equal(last.view(vector), values)
    assert torch.equal(vector.view(2, 4, 5, 3).permute(0, 3, 1, 2), values)
    last.view(stacked)[1] = values
    assert torch.equal(stacked[1], vector)
    assert not torch.equal(plain.view(vector), values)


def test_missing_misshapen_and_double_tensors_are_refused() -> None:
    flat = FlatModule(network())
    state = flat.layout.named(flat.vectors)
    with pytest.raises(InputError, match=r"nothing as '4\.weight'; this model needs \(5, 48\)"):
        flat.layout.load_named({name: value for name, value in state.items() if name != "4.weight"}, flat.vectors)
    with pytest.raises(InputError, match=r"\(5,\) as '4\.weight'"):
        flat.layout.load_named({**state, "4.weight": torch.zeros(5)}, flat.vectors)
    with pytest.raises(InputError, match=r"'weight' is torch\.float64; parameters must be float32"):
        Layout.of(nn.Linear(2, 2).double())


def test_stacks_index_into_shared_rows_and_clones_share_nothing() -> None:
    layout = Layout.of(network())
    stack = Vectors.zeros(layout, 3)
    one = Vectors.zeros(layout)
    one.parameters.fill_(1.0)
    one.counters.fill_(4)
    stack[1].copy_(one)
    assert stack.parameters.sum(dim=1).tolist() == [0.0, layout.size, 0.0]
    assert stack.counters[1].tolist() == [4] * layout.counter_size
    copy = stack[1].clone()
    copy.parameters.zero_()
    assert stack.parameters[1].sum() == layout.size
    assert Vectors.zeros(layout, 2, shared=True).parameters.is_shared()


def test_tied_weights_are_one_tensor() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    module[1].weight = module[0].weight
    flat = FlatModule(module)
    assert len(flat.layout.parameters) == 3
    with torch.no_grad():
        flat.layout.parameters[0].view(flat.vectors.parameters).fill_(7.0)
    assert (module[1].weight == 7.0).all()


def test_a_module_without_buffers_has_empty_vectors() -> None:
    vectors = FlatModule(nn.Linear(2, 1)).vectors
    assert vectors.buffers.shape == vectors.counters.shape == (0,)
    assert vectors.parameters.shape == (2 * ALIGNMENT,)


def test_gaps_are_cleared_and_nothing_else() -> None:
    layout = Layout.of(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
    vectors = Vectors.zeros(layout)
    for tensor in (vectors.parameters, vectors.buffers, vectors.counters):
        tensor.fill_(1)
    layout.clear_gaps(vectors)
    assert all((tensor == 1).all() for tensor in layout.named(vectors).values())
    assert int(vectors.parameters.sum()) == 3 * 2 + 2 + 2 + 2
    assert int(vectors.buffers.sum()) == 4
    assert int(vectors.counters.sum()) == 1
