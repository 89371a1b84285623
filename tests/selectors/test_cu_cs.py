"""CU-CS: the validity model worked out by hand, plus data volume.

Two clients with one feature at 1 and 3 stand at z = -1 and 1; with the intercept their rows are (-1, 1) and (1, 1), of
length sqrt 2. These are orthogonal, so each client is a regression of its own: after m outcomes with s successes the
mean is 2s/(r+2m) and the width sqrt(2/(r+2m)) with ridge r. Most tests take r = 2: s/(1+m) and 1/sqrt(1+m).
a = 1 + sqrt(ln(4/.1)/2) = 2.35810.
"""

from __future__ import annotations

import numpy as np
import pytest

import enlist
from enlist import Clients, Feedback, Outcome
from enlist.errors import InputError, MissingColumnError

A = 2.35810


def make(sizes=(10, 30), **settings):
    clients = Clients(features=[[1.0], [3.0]], feature_names=["age"], num_examples=sizes)
    return enlist.create("cu-cs", clients, seed=1, **{"ridge": 2.0, **settings})


def play(selector, who, outcome, times=1):
    for _ in range(times):
        picked = selector.ask([who], k=1, deadline=10.0)
        selector.tell(picked, Feedback(outcome=[outcome]))


def test_before_anything_is_known_data_volume_decides():
    # both: 0 + a * 1; sizes 10/30 and 1
    picked = make().ask(k=1)
    assert picked.clients.tolist() == [1]
    assert picked.terms["mean"].tolist() == [0.0]
    assert picked.terms["bonus"].tolist() == pytest.approx([A], abs=1e-4)
    assert picked.terms["size"].tolist() == [1.0]
    assert make((30, 10)).ask(k=1).clients.tolist() == [0]


def test_a_client_that_fails_gives_way():
    # Client 1 fails three times: 0 + a/2 + 1 = 2.179, client 0: 0 + a + 1/3 = 2.691.
    selector = make()
    play(selector, 1, Outcome.DROPPED, 3)
    picked = selector.ask(k=1)
    assert picked.clients.tolist() == [0]
    assert picked.terms["bonus"].tolist() == pytest.approx([A], abs=1e-4)
    assert picked.terms["size"].tolist() == pytest.approx([1 / 3])
    # With the volume counted twice: a/2 + 2 = 3.179 against a + 2/3 = 3.025.
    selector = make(size_weight=2.0)
    play(selector, 1, Outcome.DROPPED, 3)
    picked = selector.ask(k=1)
    assert picked.clients.tolist() == [1]
    assert picked.terms["bonus"].tolist() == pytest.approx([A / 2], abs=1e-4)


def test_a_client_that_finishes_is_kept():
    # Three in time: 3/4 + a/2 + 1 = 2.929 against 2.691; without the volume 1.929 against a = 2.358.
    for weight, expected in ((1.0, 1), (0.0, 0)):
        selector = make(size_weight=weight)
        play(selector, 1, Outcome.COMPLETED, 3)
        assert selector.ask(k=1).clients.tolist() == [expected]
    selector = make(size_weight=1.0)
    play(selector, 1, Outcome.COMPLETED, 3)
    assert selector.ask(k=1).terms["mean"].tolist() == pytest.approx([0.75])


def test_the_ridge():
    # ridge 1, the default: sqrt 2 before anything is known; after one success the mean is 2/3, the width sqrt(2/3).
    selector = make(ridge=1.0)
    assert enlist.create("cu-cs", selector.clients).settings.ridge == 1.0
    assert selector.ask(k=1).terms["bonus"].tolist() == pytest.approx([A * np.sqrt(2)], abs=1e-4)
    play(selector, 1, Outcome.COMPLETED)
    picked = selector.ask(k=1)  # 2/3 + .816 a + 1 = 3.592 against 1.414 a + 1/3 = 3.668
    assert picked.clients.tolist() == [0]
    mean, bonus = selector.state.validity.interval(selector.rows[1:], 0.1)
    assert mean.tolist() == pytest.approx([2 / 3])
    assert bonus.tolist() == pytest.approx([A * np.sqrt(2 / 3)], abs=1e-4)
    # ridge 8: after one success the mean is 2/10 and the width 1/sqrt 5; before, 1/2
    selector = make(ridge=8.0)
    assert selector.ask(k=1).terms["bonus"].tolist() == pytest.approx([A / 2], abs=1e-4)
    play(selector, 1, Outcome.COMPLETED)
    picked = selector.ask(k=1)  # .2 + a/sqrt 5 + 1 = 2.2546 against a/2 + 1/3 = 1.5124
    assert picked.terms["mean"].tolist() == pytest.approx([0.2])
    assert picked.terms["bonus"].tolist() == pytest.approx([A / np.sqrt(5)], abs=1e-4)


@pytest.mark.parametrize(("delta", "a"), [(0.1, 2.36), (0.05, 2.48), (0.01, 2.73)])
def test_the_width_follows_delta(delta, a):
    assert make(delta=delta).ask(k=1).terms["bonus"].tolist() == pytest.approx([a], abs=0.005)


def test_sizes_are_relative_to_the_whole_population():
    clients = Clients(features=[[1.0], [3.0], [3.0]], num_examples=[10, 20, 40])
    picked = enlist.create("cu-cs", clients, seed=1).ask([0, 1], k=1)
    assert picked.terms["size"].tolist() == [{0: 0.25, 1: 0.5}[picked.clients[0]]]


def test_nobody_has_data():
    picked = make((0, 0)).ask(k=1)
    assert picked.terms["size"].tolist() == [0.0]


def test_every_way_not_to_finish_counts_as_zero():
    for outcome, latency in ((Outcome.LATE, 12.0), (Outcome.DROPPED, np.nan), (Outcome.FAILED, 2.0)):
        selector = make()
        picked = selector.ask([1], k=1, deadline=10.0)
        selector.tell(picked, Feedback(outcome=[outcome], latency=[latency]))
        np.testing.assert_allclose(selector.state.validity.model.precision, [[3, 1], [1, 3]])
        np.testing.assert_array_equal(selector.state.validity.model.moment, [0.0, 0.0])


@pytest.mark.parametrize(("latency", "valid"), [(9.0, 1.0), (10.0, 1.0), (12.0, 0.0)])
def test_a_client_cut_off_teaches_nothing_until_it_arrives(latency, valid):
    selector = make()
    picked = selector.ask([1], k=1, deadline=10.0)
    selector.tell(picked, Feedback(outcome=[Outcome.LATE], latency=[4.0], censored=[True]))
    np.testing.assert_array_equal(selector.state.validity.model.precision, 2 * np.eye(2))
    selector.tell(picked, Feedback(outcome=[Outcome.ARRIVED], latency=[latency]))
    np.testing.assert_allclose(selector.state.validity.model.precision, [[3, 1], [1, 3]])
    np.testing.assert_allclose(selector.state.validity.model.moment, np.full(2, valid))


@pytest.mark.parametrize("censored", [True, False])
def test_a_client_past_the_deadline_counts_once_even_if_it_arrives(censored):
    # One selection is one outcome: H = 2 I + x x', b = 0, whether the server waited out the deadline or saw 12 s.
    selector = make()
    picked = selector.ask([1], k=1, deadline=10.0)
    waited = 10.0 if censored else 12.0
    selector.tell(picked, Feedback(outcome=[Outcome.LATE], latency=[waited], censored=[censored]))
    selector.tell(picked, Feedback(outcome=[Outcome.ARRIVED], latency=[12.0]))
    np.testing.assert_array_equal(selector.state.validity.model.moment, [0.0, 0.0])
    np.testing.assert_allclose(selector.state.validity.model.precision, [[3, 1], [1, 3]])


def test_joining_clients_are_measured_by_the_first_population():
    # A feature of 5 is z = 3: row (3, 1) of length sqrt 10, so at first its bonus is a sqrt(10/2).
    selector = make()
    play(selector, 1, Outcome.COMPLETED)
    assert selector.join(Clients(features=[[5.0]], feature_names=["age"], num_examples=[60])).tolist() == [2]
    # H = 2 I + (1, 1)(1, 1)', theta = (1, 1)/4: mean (3 + 1)/4 = 1; |x|^2 in H^-1 is (10 - 4^2/4)/2 = 3
    picked = selector.ask(k=1)
    assert picked.clients.tolist() == [2]
    assert picked.terms["mean"].tolist() == pytest.approx([1.0])
    assert picked.terms["bonus"].tolist() == pytest.approx([A * np.sqrt(3)], abs=1e-4)
    assert picked.terms["size"].tolist() == [1.0]


def test_compacting_keeps_the_scale():
    selector = make()
    play(selector, 1, Outcome.COMPLETED, 3)
    selector.join(Clients(features=[[5.0]], feature_names=["age"], num_examples=[0]))
    selector.compact([1, 2])
    # The one that joined: x.x1/2 = 2, so mean 2 * .75 and width sqrt(5 - 4 * 3/4) = sqrt 2; 4.83 against .75 + a/2 + 1
    picked = selector.ask(k=1)
    assert picked.clients.tolist() == [1]
    assert picked.terms["mean"].tolist() == pytest.approx([1.5])
    assert picked.terms["bonus"].tolist() == pytest.approx([A * np.sqrt(2)], abs=1e-4)


@pytest.mark.parametrize("change", ["join", "compact"])
def test_saved_after_the_population_changed(tmp_path, change):
    selector = make()
    play(selector, 1, Outcome.COMPLETED)
    selector.join(Clients(features=[[5.0], [9.0]], feature_names=["age"], num_examples=[60, 20]))
    if change == "compact":
        selector.compact([1, 2])
    selector.save(tmp_path)
    again = enlist.load(tmp_path)
    picked, repeated = selector.ask(k=1), again.ask(k=1)
    assert picked.clients.tolist() == repeated.clients.tolist()
    for term in ("mean", "bonus"):
        assert picked.terms[term].tolist() == repeated.terms[term].tolist()


def test_needs():
    with pytest.raises(MissingColumnError, match="features"):
        enlist.create("cu-cs", Clients(num_examples=[1, 2]))
    with pytest.raises(MissingColumnError, match="num_examples"):
        enlist.create("cu-cs", Clients(features=[[1.0], [2.0]]))


@pytest.mark.parametrize("wrong", [{"delta": 0.0}, {"ridge": 0.0}, {"size_weight": -1.0}])
def test_settings_are_checked(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        make(**wrong)
