"""Server optimisers against closed forms by hand and against Flower's strategies."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, Message, Metadata, MetricRecord, RecordDict
from flwr.serverapp import strategy as flower
from pydantic import TypeAdapter

from enlist.errors import InputError
from enlist.training.server import SERVERS, AnyServer, FedAdagrad, FedAdam, FedAvg, FedAvgM, FedYogi, ServerOptions

SIZE = 40
ENVELOPE = Metadata(
    run_id=1,
    message_id="",
    src_node_id=2,
    dst_node_id=1,
    reply_to_message_id="",
    group_id="",
    created_at=0.0,
    ttl=60.0,
    message_type="train",
)


def walked(options: ServerOptions, deltas: list[list[float]], start: list[float]) -> list[float]:
    weights = torch.tensor(start, dtype=torch.float32)
    optimiser = options.start(len(start))
    for delta in deltas:
        given = torch.tensor(delta, dtype=torch.float32)
        optimiser.step(weights, given)
        assert given.tolist() == torch.tensor(delta, dtype=torch.float32).tolist()  # not changed
    return weights.tolist()


def test_fedavg_by_hand() -> None:
    assert walked(FedAvg(), [[1, -2], [3, 5]], [10, 20]) == [14, 23]
    assert walked(FedAvg(lr=0.5), [[1, -2], [3, 5]], [10, 20]) == [12, 21.5]


def test_fedavgm_by_hand() -> None:
    # b = 1, then 0.9 + 3 = 3.9; w = 10 + 0.5 (1 + 3.9)
    assert walked(FedAvgM(lr=0.5), [[1], [3]], [10]) == pytest.approx([12.45])
    assert FedAvgM().momentum == 0.9


def test_fedadagrad_by_hand() -> None:
    # v = 0.01 + 1 = 1.01, then 10.01; m = delta, as beta1 = 0
    first, second = 0.1 * 1 / (math.sqrt(1.01) + 0.1), 0.1 * -3 / (math.sqrt(10.01) + 0.1)
    assert walked(FedAdagrad(tau=0.1), [[1], [-3]], [10]) == pytest.approx([10 + first + second], rel=1e-6)
    # beta1 = 0.5: m = 0.5, then 0.25 - 1.5 = -1.25
    first, second = 0.1 * 0.5 / (math.sqrt(1.01) + 0.1), 0.1 * -1.25 / (math.sqrt(10.01) + 0.1)
    assert walked(FedAdagrad(tau=0.1, beta1=0.5), [[1], [-3]], [10]) == pytest.approx([10 + first + second], rel=1e-6)


def test_fedadam_by_hand() -> None:
    # m = 0.1, then 0.09 - 0.3 = -0.21; v = 0.99 * 0.01 + 0.01 = 0.0199, then 0.99 * 0.0199 + 0.09 = 0.109701
    first, second = 0.1 / (math.sqrt(0.0199) + 0.1), -0.21 / (math.sqrt(0.109701) + 0.1)
    assert walked(FedAdam(lr=1.0, tau=0.1), [[1], [-3]], [10]) == pytest.approx([10 + first + second], rel=1e-6)
    first *= math.sqrt(1 - 0.99) / (1 - 0.9)
    second *= math.sqrt(1 - 0.99**2) / (1 - 0.9**2)
    corrected = FedAdam(lr=1.0, tau=0.1, bias_correction=True)
    assert walked(corrected, [[1], [-3]], [10]) == pytest.approx([10 + first + second], rel=1e-6)


def test_bias_correction_of_a_constant_update_takes_whole_steps() -> None:
    # with v0 = 0, corrected moments of a constant delta are delta and delta**2: every step is lr * sgn(delta)
    options = FedAdam(lr=0.1, tau=1e-12, v0=0.0, bias_correction=True)
    assert walked(options, [[5.0, -0.02]] * 3, [0, 0]) == pytest.approx([0.3, -0.3], rel=1e-4)


def test_fedyogi_by_hand() -> None:
    # delta**2 = 1 > v0 = 0.04: v = 0.04 + 0.01; then delta**2 = 0.0001 < v: v = 0.05 - 0.000001; m = 0.1, 0.09 + 0.001
    first, second = 0.1 / (math.sqrt(0.05) + 0.2), 0.091 / (math.sqrt(0.049999) + 0.2)
    assert walked(FedYogi(lr=1.0, tau=0.2), [[1], [0.01]], [10]) == pytest.approx([10 + first + second], rel=1e-6)
    # delta**2 = v: the sign is 0 and v stays
    optimiser = FedYogi(tau=0.5).start(1)
    optimiser.step(torch.zeros(1), torch.tensor([0.5]))
    assert optimiser.state()["second"].item() == 0.25


def test_defaults_to_ship() -> None:
    assert FedAvg().lr == 1
    assert [options().lr for options in (FedAdam, FedYogi, FedAdagrad)] == [0.01, 0.01, 0.1]
    for options in (FedAdam(), FedYogi()):
        assert (options.beta1, options.beta2, options.tau) == (0.9, 0.99, 1e-3)
    assert FedAdagrad().beta1 == 0
    assert not FedAdam().bias_correction
    assert FedAdam().start(2).state()["second"].tolist() == pytest.approx([1e-6, 1e-6])


def flower_walk(
    strategy: flower.FedOpt | flower.FedAvgM, deltas: np.ndarray, start: np.ndarray, first_round: int
) -> np.ndarray:
    """Flower's weights after all rounds; each round one client answers with weights + delta."""
    weights = start
    for number, delta in enumerate(deltas, start=first_round):
        present = {"w": weights}
        if isinstance(strategy, flower.FedAvgM):
            strategy.current_arrays = ArrayRecord({name: Array(value) for name, value in present.items()})
        else:
            strategy.current_arrays = present
        answer = RecordDict(
            {"arrays": ArrayRecord({"w": Array(weights + delta)}), "metrics": MetricRecord({"num-examples": 7})}
        )
        arrays, _ = strategy.aggregate_train(number, [Message(answer, metadata=ENVELOPE)])
        assert arrays is not None
        weights = arrays["w"].numpy()
    return weights


# Where formulas differ: Flower starts v at 0 (v0 = 0 here), and its FedAdam always corrects the bias, with the exponent
# round + 1 where Kingma & Ba have the number of the step: counting its rounds from 0 makes them equal.
@pytest.mark.parametrize(
    ("ours", "theirs", "first_round"),
    [
        (FedAvgM(lr=0.7, momentum=0.9), lambda: flower.FedAvgM(server_learning_rate=0.7, server_momentum=0.9), 1),
        (FedAvg(lr=0.7), lambda: flower.FedAvgM(server_learning_rate=0.7, server_momentum=0.0), 1),
        (FedAdagrad(lr=0.1, tau=1e-3, v0=0.0), lambda: flower.FedAdagrad(eta=0.1, tau=1e-3), 1),
        (FedAdam(lr=0.1, v0=0.0, bias_correction=True), lambda: flower.FedAdam(eta=0.1, tau=1e-3), 0),
        (FedYogi(lr=0.01, tau=1e-3, v0=0.0), lambda: flower.FedYogi(eta=0.01, tau=1e-3), 1),
    ],
    ids=["fedavgm", "fedavg", "fedadagrad", "fedadam", "fedyogi"],
)
def test_equals_flower(
    ours: ServerOptions, theirs: Callable[[], flower.FedOpt | flower.FedAvgM], first_round: int
) -> None:
    generator = np.random.default_rng(5)
    start = generator.normal(size=SIZE)
    deltas = generator.normal(scale=0.1, size=(6, SIZE))
    expected = flower_walk(theirs(), deltas, start, first_round)
    found = np.array(walked(ours, deltas.tolist(), start.tolist()))
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)
    assert np.abs(found - start).max() > 0.01


def test_default_fedadam_is_flowers_without_its_correction() -> None:
    generator = np.random.default_rng(6)
    start, delta = generator.normal(size=SIZE), generator.normal(scale=0.1, size=(1, SIZE))
    factor = math.sqrt(1 - 0.99**2) / (1 - 0.9**2)  # Flower's in round 1
    expected = flower_walk(flower.FedAdam(eta=0.1 / factor), delta, start, first_round=1)
    found = walked(FedAdam(lr=0.1, v0=0.0), delta.tolist(), start.tolist())
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", SERVERS)
def test_restored_goes_on_bit_for_bit(kind: str) -> None:
    options = TypeAdapter(AnyServer).validate_python({"kind": kind})
    assert options == SERVERS[kind]()
    deltas = torch.from_numpy(np.random.default_rng(7).normal(size=(6, SIZE)).astype(np.float32))
    weights, optimiser = torch.zeros(SIZE), options.start(SIZE)
    for delta in deltas[:3]:
        optimiser.step(weights, delta)
    state, middle = optimiser.state(), weights.clone()
    for delta in deltas[3:]:
        optimiser.step(weights, delta)
    again = options.start(SIZE)
    again.restore(state)
    for tensor in state.values():
        tensor.zero_()  # neither state nor restore keep hold of the caller's tensors
    for delta in deltas[3:]:
        again.step(middle, delta)
    assert torch.equal(weights, middle)
    assert all(torch.equal(tensor, again.state()[name]) for name, tensor in optimiser.state().items())


def test_state_of_something_else_is_refused_and_changes_nothing() -> None:
    optimiser = FedAdam().start(3)
    for state in (FedYogi().start(3).state(), FedAdam().start(4).state(), {}):
        with pytest.raises(InputError, match=r"server optimiser 'fedadam' needs first \[3\], second \[3\], steps \[\]"):
            optimiser.restore(state)
    assert optimiser.state()["first"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("values", [{"lr": 0}, {"beta1": 1.0}, {"tau": 0}, {"v0": -1.0}, {"beta2": 1.5}, {"eta": 0.1}])
def test_options_out_of_bounds(values: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(values))):
        FedAdam(**values)


def test_gaps_of_a_flat_vector_stay_zero() -> None:
    for options in SERVERS.values():
        weights = torch.zeros(2)
        optimiser = options().start(2)
        for _ in range(3):
            optimiser.step(weights, torch.tensor([1.0, 0.0]))
        assert weights[1].item() == 0
