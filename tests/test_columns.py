"""Columns beyond losses and latencies: label counts, energy, sketches, context; weights, probabilities and work."""

from __future__ import annotations

import numpy as np
import pytest

import enlist
from enlist import Clients, Feedback, Outcome, Selector
from enlist.books import replay
from enlist.contract import Choice, Request
from enlist.errors import EnlistError, InputError, MissingColumnError, TellError
from enlist.privacy import COLUMNS, Privacy, privacy_of
from enlist.records import ALIGNED, FEEDBACK_COLUMNS, Selection
from enlist.rounds import Observation


class Everything(Selector):
    """Draws in proportion to battery, weighs by 1/p, asks for half the work, and keeps what it is told."""

    needs = frozenset({"context.battery", "clients.label_counts", "update"})

    def initial_state(self):
        self.heard = []
        return super().initial_state()

    def choose(self, request: Request) -> Choice:
        battery = request.of(request.context["battery"])
        index = np.argsort(-battery)[: request.k]
        share = battery / battery.sum()
        half = np.full(len(battery), 0.5)
        return request.pick(index, weights=1.0 / share, probabilities=share, work=half, battery=battery)

    def learn(self, told: Observation) -> None:
        self.heard.append(told.feedback)


def everybody(**more):
    return Clients(label_counts=[[5, 0], [3, 2], [0, 7], [1, 1]], **more)


def test_label_counts_and_energy_are_columns_of_clients():
    clients = everybody(energy_per_sample=[1, 2, 3, 4], energy_per_byte=[0.1] * 4, battery=[10, 20, 30, 40])
    assert clients.label_counts.shape == (4, 2)
    assert set(clients.columns()) == {"label_counts", "energy_per_sample", "energy_per_byte", "battery"}
    both = clients.joined(clients)
    assert both.label_counts.shape == (8, 2)
    assert clients.kept(np.array([2, 0])).label_counts.tolist() == [[0, 7], [5, 0]]
    with pytest.raises(ValueError, match="read-only"):
        clients.label_counts[0, 0] = 9


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([[1, 2]], r"Clients.label_counts has shape \(1, 2\); it needs \(4, number of classes\)"),
        ([1, 2, 3, 4], r"shape \(4,\)"),
        ([[-1, 2]] * 4, "Clients.label_counts"),
        ([[np.nan, 2]] * 4, "NaN or infinity; give 0 for a class"),
    ],
)
def test_label_counts_that_make_no_sense_are_refused(given, said):
    with pytest.raises(InputError, match=said):
        Clients(count=4, label_counts=given)


def test_weights_probabilities_and_work_are_aligned_with_the_sorted_selection():
    selector = Everything(everybody(), seed=1)
    picked = selector.ask(k=2, context={"battery": [1.0, 4.0, 2.0, 3.0]})
    assert picked.clients.tolist() == [1, 3]
    np.testing.assert_allclose(picked.probabilities, [0.4, 0.3])
    np.testing.assert_allclose(picked.weights, [2.5, 10 / 3])
    assert picked.work.tolist() == [0.5, 0.5]
    assert set(selector.explain(picked)) >= {"battery", *ALIGNED}
    for name in ALIGNED:
        with pytest.raises(ValueError, match="read-only"):
            getattr(picked, name)[0] = 1.0


def test_others_leave_them_out():
    picked = enlist.create("random", Clients(count=4), seed=1).ask(k=2)
    assert [getattr(picked, name) for name in ALIGNED] == [None, None, None]


def test_they_are_saved_with_open_selections(tmp_path):
    selector = Everything(everybody(), seed=1)
    picked = selector.ask(k=2, context={"battery": [1.0, 4.0, 2.0, 3.0]})
    selector.save(tmp_path)
    again = Everything.load(tmp_path)
    kept = again.openings[1].selection
    for name in ALIGNED:
        np.testing.assert_array_equal(getattr(kept, name), getattr(picked, name))
    assert again.clients.label_counts.tolist() == selector.clients.label_counts.tolist()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"weights": np.array([-1.0, 1.0])}, "weights of a choice go from -1.0 to 1.0; they must be finite"),
        ({"probabilities": np.array([0.0, 1.0])}, "above 0 and at most 1"),
        ({"work": np.array([0.5, 1.5])}, "above 0 and at most 1"),
        ({"work": np.array([0.5])}, r"a choice of 2 clients has work of shape \(1,\)"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(given, said):
    with pytest.raises(EnlistError, match=said):
        Choice(np.array([0, 1]), **given)


def test_context_is_checked_and_asked_for():
    selector = Everything(everybody(), seed=1)
    with pytest.raises(MissingColumnError, match=r"needs context.battery; pass ask\(context=\{'battery': ...\}\)"):
        selector.ask(k=2)
    with pytest.raises(InputError, match=r"context.battery has shape \(2,\); it needs one number for each of 4"):
        selector.ask(k=2, context={"battery": [1.0, 2.0]})
    assert selector.round == 0
    with pytest.raises(MissingColumnError, match=r"needs clients\.label_counts"):
        Everything(Clients(count=4), seed=1)


def test_sketches_are_told_and_parted():
    selector = Everything(everybody(), seed=1)
    picked = selector.ask(k=3, context={"battery": [1.0, 4.0, 2.0, 3.0]})
    sketch = np.arange(6.0).reshape(3, 2)
    outcome = [Outcome.COMPLETED, Outcome.LATE, Outcome.COMPLETED]
    told = Feedback(outcome=outcome, update=sketch, update_norm=[1, 2, 3], energy=[5, 5, 5], contribution=[0, -1, 2])
    selector.tell(picked, told)
    np.testing.assert_array_equal(selector.heard[0].update, sketch)
    selector.tell(picked, Feedback(clients=picked.clients[1:2], outcome=[Outcome.ARRIVED], update=[[7.0, 8.0]]))
    other = selector.ask(k=1, context={"battery": [1.0, 4.0, 2.0, 3.0]})
    with pytest.raises(MissingColumnError, match="needs update"):
        selector.tell(other, Feedback())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"update": [[1.0, 2.0]]}, r"Feedback.update has shape \(1, 2\); it needs \(2, numbers of a sketch\)"),
        ({"update": [1.0, 2.0]}, "Feedback.update has shape"),
        ({"update": [[np.inf], [1.0]]}, "holds infinity; give NaN"),
        ({"energy": [-1.0, 2.0]}, "Feedback.energy"),
        ({"update_norm": [-1.0, 2.0]}, "Feedback.update_norm"),
    ],
)
def test_feedback_that_makes_no_sense_is_refused(given, said):
    with pytest.raises(InputError, match=said):
        Feedback(**given).resolved(Selection(1, np.array([0, 1])))


def test_huge_numbers_of_a_sketch_are_cut_as_others_are():
    resolved = Feedback(update=[[1e300, np.nan]]).resolved(Selection(1, np.array([0])))
    assert resolved.update[0, 0] == 1e15


def test_every_column_has_a_privacy_class():
    assert set(FEEDBACK_COLUMNS) | {"latency", "update"} <= set(COLUMNS)
    assert privacy_of("clients.features") == privacy_of("context.battery") == Privacy.INDIVIDUAL


@pytest.mark.parametrize(
    ("name", "needed"),
    [("random", "outcome"), ("tempo", "outcome"), ("darts-ucb", "aggregate"), ("oort", "individual")],
)
def test_selectors_say_what_they_must_see(name, needed):
    clients = Clients(num_examples=np.ones(4), features=np.ones((4, 1)))
    assert str(enlist.create(name, clients).privacy) == needed


def test_books_carry_sketches_and_context_and_the_log_gives_the_same_again(tmp_path):
    log = tmp_path / "log.jsonl"
    books = enlist.Books(Everything(everybody(), seed=1), late="learn", log=log)
    picked = books.ask(k=3, now=0.0, context={"battery": [1.0, 4.0, 2.0, 3.0]})
    books.reply(picked, picked.clients[:1], latency=[1.0], update=[[1.0, 2.0]], energy=[3.0])
    with pytest.raises(TellError, match="sketches of 3 numbers came in round 1, in which others have 2"):
        books.reply(picked, picked.clients[1:2], latency=[2.0], update=[[1.0, 2.0, 3.0]])
    books.reply(picked, picked.clients[1:2], latency=[2.0], update=[[3.0, 4.0]])
    told = books.close(picked, waited=4.0)
    np.testing.assert_array_equal(told.update, [[1.0, 2.0], [3.0, 4.0], [np.nan, np.nan]])
    np.testing.assert_array_equal(told.energy, [3.0, np.nan, np.nan])
    books.arrived(picked, picked.clients[2:], rounds_late=1.0, latency=[9.0], update=[[5.0, 6.0]])
    again = Everything(everybody(), seed=1)
    assert [(one.clients == other).all() for one, other in replay(log, again)] == [True]
    np.testing.assert_array_equal(again.heard[0].update, told.update)
