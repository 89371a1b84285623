"""AFL: values and weights by hand, the draw by statistics."""

from __future__ import annotations

import numpy as np
import pytest

import enlist
from enlist import Clients, Feedback, Outcome
from enlist.errors import InputError, MissingColumnError

NAN = float("nan")


def told(losses: list[float], sizes: list[float] | None = None, **settings: float) -> enlist.Selector:
    clients = Clients(count=len(losses)) if sizes is None else Clients(num_examples=sizes)
    selector = enlist.create("afl", clients, **settings)
    selector.tell(selector.ask(k=len(losses)), Feedback(loss=losses))
    return selector


def test_hand_computed_values_and_weights() -> None:
    # v = sqrt(n) * loss: 10 * 2 = 20, 20 * 3 = 60, 5 * 8 = 40, 1 * 1 = 1
    selector = told([2.0, 3.0, 8.0, 1.0], [100, 400, 25, 1], alpha1=0.5, alpha2=0.05, alpha3=0.0)
    assert selector.state.value.tolist() == [20.0, 60.0, 40.0, 1.0]
    # the lower half (20 and 1) is dropped; weights exp(.05 * 0) = 1 and exp(.05 * -20) = 0.36787944
    picked = selector.ask(k=2)
    assert picked.clients.tolist() == [1, 2]
    assert picked.terms["weight"].round(8).tolist() == [1.0, 0.36787944]
    assert picked.terms["value"].tolist() == [60.0, 40.0]


def test_draws_follow_the_weights() -> None:
    # among values 60 and 40 with weights 1 and e^-1, the first is drawn with 1 / (1 + e^-1) = 0.7310586
    selector = told([2.0, 3.0, 8.0, 1.0], [100, 400, 25, 1], alpha1=0.5, alpha2=0.05, alpha3=0.0)
    drawn = np.bincount([selector.ask(k=1).clients[0] for _ in range(4000)], minlength=4) / 4000
    assert drawn[0] == drawn[3] == 0
    assert abs(drawn[1] - 0.7310586) < 4 * np.sqrt(0.731 * 0.269 / 4000)


def test_defaults_drop_three_quarters_and_explore_a_tenth() -> None:
    selector = told(np.arange(1.0, 41.0).tolist())
    for _ in range(50):
        picked = selector.ask(k=10)
        # the 10 best of 40 are 30..39: nine by weight; one uniform from the 31 others, one of which is among the best
        assert len(picked) == 10
        assert (picked.clients >= 30).sum() in (9, 10)
        assert (picked.terms["weight"] > 0).sum() >= 9


def test_a_fractional_share_is_kept_on_average() -> None:
    # k = 1: a tenth of the rounds draws uniformly, of which 3/4 fall outside the single best of four
    selector = told([1.0, 2.0, 3.0, 4.0], alpha1=0.75)
    others = np.mean([selector.ask(k=1).clients[0] != 3 for _ in range(4000)])
    assert abs(others - 0.075) < 4 * np.sqrt(0.075 * 0.925 / 4000)


def test_nobody_has_a_value_yet() -> None:
    firsts = {enlist.create("afl", Clients(count=30), seed=seed).ask(k=1).clients[0] for seed in range(30)}
    assert len(firsts) > 10


def test_too_few_values_are_filled_uniformly() -> None:
    selector = enlist.create("afl", Clients(count=10), alpha3=0.0)
    picked = selector.ask([3, 4], k=2)
    selector.tell(picked, Feedback(loss=[1.0, 1.0]))
    seen = np.zeros(10)
    for _ in range(300):
        picked = selector.ask(k=5)
        assert len(picked) == 5
        seen[picked.clients] += 1
    assert seen[3] == seen[4] == 300  # a quarter of ten, rounded up, keeps three: both valued ones
    assert seen[[0, 1, 2, 5, 6, 7, 8, 9]].min() > 60  # 3 of 8 each time: 112 on average


def test_alpha1_of_one_is_uniform() -> None:
    selector = told([1.0, 1.0, 1.0, 500.0], alpha1=1.0, alpha2=1.0)
    drawn = np.bincount([selector.ask(k=1).clients[0] for _ in range(2000)], minlength=4) / 2000
    assert np.abs(drawn - 0.25).max() < 4 * np.sqrt(0.25 * 0.75 / 2000)


def test_huge_values_do_not_overflow() -> None:
    selector = told([1e6, 1e6 + 1.0, 2e6, 1e-3], [1e6] * 4, alpha1=0.0)
    assert len(selector.ask(k=3)) == 3


def test_unknown_late_and_lost_keep_their_value() -> None:
    selector = told([1.0, 2.0, 3.0, 4.0, NAN])
    assert np.isnan(selector.state.value[4])
    outcome = [Outcome.COMPLETED, Outcome.LATE, Outcome.DROPPED, Outcome.COMPLETED, Outcome.FAILED]
    selector.tell(selector.ask(k=5), Feedback(outcome=outcome, loss=[NAN, 9.0, 9.0, 9.0, 9.0]))
    assert selector.state.value[:4].tolist() == [1.0, 2.0, 3.0, 9.0]
    assert np.isnan(selector.state.value[4])


def test_amendment_brings_the_value_unless_a_newer_one_is_known() -> None:
    selector = enlist.create("afl", Clients(count=2))
    first = selector.ask(k=2)
    selector.tell(first, Feedback(outcome=[Outcome.LATE, Outcome.LATE]))
    assert np.isnan(selector.state.value).all()
    selector.tell(selector.ask([1], k=1), Feedback(loss=[7.0]))
    selector.tell(first, Feedback(outcome=[Outcome.ARRIVED, Outcome.ARRIVED], loss=[5.0, 6.0]))
    assert selector.state.value.tolist() == [5.0, 7.0]


def test_rounds_told_out_of_order() -> None:
    selector = enlist.create("afl", Clients(count=1))
    first, second = selector.ask(k=1), selector.ask(k=1)
    selector.tell(second, Feedback(loss=[2.0]))
    selector.tell(first, Feedback(loss=[1.0]))
    assert selector.state.value.tolist() == [2.0]


def test_joined_clients_have_no_value() -> None:
    selector = told([1.0, 2.0], [1.0, 1.0])
    selector.join(Clients(num_examples=[4.0]))
    assert np.isnan(selector.state.value[2])
    selector.tell(selector.ask([2], k=1), Feedback(loss=[3.0]))
    assert selector.state.value[2] == 6.0


def test_loss_is_needed() -> None:
    selector = enlist.create("afl", Clients(count=2))
    with pytest.raises(MissingColumnError, match="loss"):
        selector.tell(selector.ask(k=1), Feedback())


@pytest.mark.parametrize("wrong", [{"alpha1": 1.1}, {"alpha2": -1.0}, {"alpha3": -0.1}])
def test_settings_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        enlist.create("afl", Clients(count=2), **wrong)
