"""Every line of the contract in DESIGN.md, and every input that it refuses."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import enlist
from enlist import Choice, Clients, Feedback, Outcome, RoundMetrics, Selection, Selector, State, column
from enlist.errors import (
    ExpiredSelectionError,
    FinishedSelectionError,
    InputError,
    MissingColumnError,
    PopulationError,
    TellError,
    UnknownNameError,
    UnknownSelectionError,
)

NAN, INF = math.nan, math.inf
BUILT = [
    "random",
    "size-proportional",
    "darts-ucb",
    "epsilon-greedy",
    "ucb",
    "thompson",
    "discounted-thompson",
    "cs-ucb",
    "cs-ucb-q",
    "bsfl",
]


def frozen(value):
    """Something that == compares by content, NaN and dtype included."""
    return (str(value.dtype), value.shape, value.tobytes()) if isinstance(value, np.ndarray) else repr(value)


def snapshot(selector):
    """All that a selector remembers."""
    return {
        "state": {path: frozen(value) for path, value in selector.state.leaves()},
        "counts": {path: frozen(value) for path, value in selector.counts.leaves()},
        "round": selector.round,
        "rng": repr(selector.rng.bit_generator.state),
        "clients": {name: frozen(value) for name, value in selector.clients.columns().items()},
        "count": len(selector.clients),
        "open": {
            number: (
                frozen(opening.selection.clients),
                frozen(opening.outcome),
                frozen(opening.credited),
                opening.metrics_told,
            )
            for number, opening in selector.openings.items()
        },
    }


def population(count=6):
    return Clients(num_examples=np.arange(1.0, count + 1))


def full_feedback(selection, **changes):
    """Every column that any of these selectors needs."""
    clients = selection.clients
    values = {
        "latency": 1.0 + clients,
        "accuracy_gain": 0.01 * clients,
        "loss": 1.0 / (1.0 + clients),
    }
    return Feedback(**{**values, **changes})


def played(name, rounds=4, **arguments):
    """A selector in the middle of its work, with one round open."""
    selector = enlist.create(name, population(), seed=5, **arguments)
    for number in range(rounds):
        picked = selector.ask(k=2, deadline=10.0)
        selector.tell(picked, full_feedback(picked), RoundMetrics(accuracy=0.1 * number))
    return selector, selector.ask(k=3, deadline=10.0)


@dataclasses.dataclass
class SpyState(State):
    rows: np.ndarray = column(0.0)


class Spy(Selector[object, SpyState]):
    """Writes down what its hooks are given."""

    name = "spy"
    State = SpyState

    def initial_state(self):
        self.calls = []
        return super().initial_state()

    def choose(self, request):
        self.calls.append(("choose", request.k, request.available.tolist(), request.deadline, request.now))
        return Choice(request.available[: request.k][::-1], {"score": np.arange(request.k, dtype=float)})

    def watch(self, available, now):
        self.calls.append(("watch", available.tolist(), now))

    def chosen(self, selection):
        self.calls.append(("chosen", selection.clients.tolist()))

    def learn(self, told):
        names = [Outcome(code).name for code in told.outcome]
        self.calls.append(("learn", told.selection.round, dict(zip(told.clients.tolist(), names, strict=True))))
        return 100.0 + told.clients

    def amend(self, told):
        self.calls.append(("amend", told.selection.round, told.clients.tolist(), told.credited.tolist()))

    def learn_round(self, selection, completed, metrics):
        self.calls.append(("round", selection.round, completed.tolist(), metrics.accuracy))

    def of(self, kind):
        return [call[1:] for call in self.calls if call[0] == kind]


def spy(count=6, **arguments):
    return Spy(Clients(count=count), **arguments)


# --------------------------------------------------------------------------------------------------------------- ask


@pytest.mark.parametrize("name", BUILT)
def test_ask_gives_distinct_available_sorted_clients_at_most_k(name):
    selector = enlist.create(name, population(8), seed=3)
    draw = np.random.default_rng(0)
    for number in range(30):
        mask = draw.uniform(size=8) < 0.6
        k = int(draw.integers(3, 6))  # cs-ucb-q's default fractions always fit
        picked = selector.ask(mask, k=k, deadline=20.0)
        assert picked.round == number + 1
        assert picked.deadline == 20.0
        assert len(picked) == min(k, mask.sum())
        assert mask[picked.clients].all()
        assert (np.diff(picked.clients) > 0).all()
        selector.tell(picked, full_feedback(picked), RoundMetrics(accuracy=0.5))


@pytest.mark.parametrize("name", BUILT)
def test_mask_positions_and_none_mean_the_same(name):
    mask = np.array([True, False, True, True, False, True])
    by_mask, by_position = enlist.create(name, population(), seed=1), enlist.create(name, population(), seed=1)
    assert by_mask.ask(mask, k=2).clients.tolist() == by_position.ask([5, 0, 3, 2], k=2).clients.tolist()
    everybody, nobody_named = enlist.create(name, population(), seed=2), enlist.create(name, population(), seed=2)
    assert everybody.ask(np.ones(6, bool), k=3).clients.tolist() == nobody_named.ask(None, k=3).clients.tolist()


def test_the_request_is_checked_and_handed_on():
    selector = spy()
    selector.ask([4, 1, 2], k=2, now=7.5, deadline=3.0)
    assert selector.of("choose") == [(2, [1, 2, 4], 3.0, 7.5)]
    assert selector.of("watch") == [([1, 2, 4], 7.5)]


def test_without_a_clock_time_is_counted_in_rounds():
    selector = spy()
    selector.ask(k=1)
    selector.ask(k=1)
    assert [call[3] for call in selector.of("choose")] == [1.0, 2.0]


def test_selection_is_sorted_together_with_its_terms():
    picked = spy().ask([1, 3, 5], k=2)  # the spy chooses 3, 1 with scores 0, 1
    assert picked.clients.tolist() == [1, 3]
    assert picked.terms["score"].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("name", BUILT)
@pytest.mark.parametrize("available", [[], np.zeros(6, bool)], ids=["positions", "mask"])
def test_nobody_available_gives_an_empty_selection_and_the_round_counts(name, available):
    selector = enlist.create(name, population(), seed=1)
    picked = selector.ask(available, k=3)
    assert len(picked) == 0
    assert picked.clients.dtype.kind == "i"
    assert selector.round == 1
    selector.tell(picked, Feedback())
    assert not selector.openings
    with pytest.raises(FinishedSelectionError, match="round 1 is finished"):
        selector.tell(picked, Feedback())


@pytest.mark.parametrize("name", BUILT)
def test_k_zero_gives_an_empty_selection(name):
    selector = enlist.create(name, population(), seed=1)
    assert len(selector.ask(k=0)) == 0
    assert selector.counts.selected.sum() == 0
    assert len(selector.ask(k=2)) == 2


def test_fewer_available_than_wanted_all_are_taken_and_counted():
    selector = spy()
    assert selector.ask([2, 4], k=5).clients.tolist() == [2, 4]
    assert selector.of("choose") == []  # no real choice
    assert selector.counts.selected.tolist() == [0, 0, 1, 0, 1, 0]


def test_numpy_integers_are_whole_numbers():
    assert len(spy().ask(np.array([1, 2, 3], dtype=np.uint8), k=np.int16(2))) == 2


def test_observe_tells_of_availability_without_asking():
    selector = spy()
    selector.observe([3, 1], now=4.0)
    assert selector.of("watch") == [([1, 3], 4.0)]
    assert selector.round == 0
    assert selector.openings == {}


def test_the_same_seed_gives_the_same_selections_and_another_seed_others():
    def run(seed):
        selector = enlist.create("random", population(40), seed=seed)
        return [selector.ask(k=5).clients.tolist() for _ in range(5)]

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_the_global_generator_is_neither_used_nor_moved():
    np.random.seed(1)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    for name in BUILT:
        played(name)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


# -------------------------------------------------------------------------------------------------------------- tell


def test_partial_and_out_of_order_tells():
    selector = spy()
    first, second = selector.ask([0, 1, 2], k=3), selector.ask([3, 4, 5], k=3)
    selector.tell(second, Feedback(clients=[5, 3]))
    selector.tell(first, Feedback(clients=[2], outcome=[Outcome.FAILED]))
    selector.tell(first, Feedback(clients=[1, 0], outcome=[Outcome.COMPLETED, Outcome.DROPPED]))
    assert list(selector.openings) == [2]
    selector.tell(second, Feedback(clients=[4]))
    assert selector.openings == {}
    assert selector.of("learn") == [
        (2, {5: "COMPLETED", 3: "COMPLETED"}),
        (1, {2: "FAILED"}),
        (1, {1: "COMPLETED", 0: "DROPPED"}),
        (2, {4: "COMPLETED"}),
    ]
    assert selector.counts.observed.tolist() == [0, 1, 0, 1, 1, 1]


def test_partial_values_go_to_the_clients_that_are_named():
    selector = enlist.create("bsfl", Clients(count=4), seed=1)
    picked = selector.ask(k=4, deadline=10.0)
    selector.tell(picked, Feedback(clients=[3, 1], latency=[4.0, 2.0]))
    selector.tell(picked, Feedback(clients=[0, 2], latency=[1.0, 5.0]))
    assert selector.state.inverse_latency.tolist() == [1.0, 0.5, 0.2, 0.25]


@pytest.mark.parametrize("name", ["cs-ucb", "cs-ucb-q", "bsfl"])
def test_telling_in_parts_is_telling_at_once(name):
    whole, parts = (enlist.create(name, population(), seed=1) for _ in range(2))
    for _ in range(5):
        picked, twin = whole.ask(k=3, deadline=10.0), parts.ask(k=3, deadline=10.0)
        latency = 1.0 + picked.clients
        whole.tell(picked, Feedback(latency=latency))
        for index in (2, 0, 1):
            parts.tell(twin, Feedback(clients=picked.clients[[index]], latency=latency[[index]]))
    assert snapshot(whole) == snapshot(parts)


def test_an_empty_partial_tell_changes_no_outcome():
    selector = spy()
    picked = selector.ask(k=2)
    selector.tell(picked, Feedback(clients=[]))
    assert selector.of("learn") == []
    assert selector.openings[1].pending.tolist() == picked.clients.tolist()


def test_late_is_amended_once_by_arrived():
    selector = spy()
    picked = selector.ask(k=2)
    selector.tell(picked, Feedback(outcome=[Outcome.COMPLETED, Outcome.LATE], latency=[1.0, 5.0]))
    assert list(selector.openings) == [1]
    assert selector.counts.observed.tolist()[:2] == [1, 0]
    selector.tell(picked, Feedback(clients=[1], outcome=[Outcome.ARRIVED], latency=[8.0], rounds_late=[1]))
    assert selector.of("amend") == [(1, [1], [101.0])]  # what learn returned comes back
    assert selector.of("learn") == [(1, {0: "COMPLETED", 1: "LATE"})]
    assert selector.counts.observed.tolist()[:2] == [1, 1]
    assert selector.openings == {}
    with pytest.raises(FinishedSelectionError, match="round 1 is finished"):
        selector.tell(picked, Feedback(clients=[1], outcome=[Outcome.ARRIVED], latency=[8.0]))


def test_one_tell_may_hold_first_outcomes_and_amendments():
    selector = spy()
    picked = selector.ask(k=3)
    selector.tell(picked, Feedback(clients=[2], outcome=[Outcome.LATE], latency=[5.0]))
    outcome = [Outcome.ARRIVED, Outcome.DROPPED, Outcome.COMPLETED]
    selector.tell(picked, Feedback(clients=[2, 0, 1], outcome=outcome, latency=[6.0, NAN, 2.0]))
    assert selector.of("learn") == [(1, {2: "LATE"}), (1, {0: "DROPPED", 1: "COMPLETED"})]
    assert selector.of("amend") == [(1, [2], [102.0])]
    assert selector.openings == {}


@pytest.mark.parametrize("before", [Outcome.COMPLETED, Outcome.DROPPED, Outcome.FAILED, Outcome.LATE])
@pytest.mark.parametrize("after", list(Outcome))
def test_anything_else_repeated_is_refused_and_names_the_round(before, after):
    selector = spy()
    selector.ask(k=1)
    picked = selector.ask(k=2)
    selector.tell(picked, Feedback(clients=[0], outcome=[before], latency=[3.0]))
    again = Feedback(clients=[0], outcome=[after], latency=[4.0])
    if (before, after) == (Outcome.LATE, Outcome.ARRIVED):
        selector.tell(picked, again)
        return
    memory = snapshot(selector)
    with pytest.raises(TellError, match=rf"client 0 of round 2 has outcome {before.name} and cannot become"):
        selector.tell(picked, again)
    assert snapshot(selector) == memory


def test_arrived_without_late_is_refused():
    selector = spy()
    picked = selector.ask(k=1)
    memory = snapshot(selector)
    with pytest.raises(TellError, match="client 0 of round 1 has no outcome yet and cannot become ARRIVED"):
        selector.tell(picked, Feedback(outcome=[Outcome.ARRIVED], latency=[1.0]))
    assert snapshot(selector) == memory


def test_one_wrong_client_spoils_the_whole_tell_and_nothing_is_learned():
    selector, picked = played("cs-ucb")
    selector.tell(picked, Feedback(clients=picked.clients[:1], latency=[2.0]))
    memory = snapshot(selector)
    with pytest.raises(TellError, match="round 5"):
        selector.tell(picked, Feedback(latency=[2.0, 3.0, 4.0]))
    assert snapshot(selector) == memory


def test_round_metrics_are_told_once():
    selector = spy()
    picked = selector.ask(k=2)
    selector.tell(picked, Feedback(clients=[0]), RoundMetrics(accuracy=0.5))
    memory = snapshot(selector)
    with pytest.raises(TellError, match="round 1 already has its RoundMetrics"):
        selector.tell(picked, Feedback(clients=[1]), RoundMetrics(accuracy=0.6))
    assert snapshot(selector) == memory
    selector.tell(picked, Feedback(clients=[1]))
    assert selector.of("round") == [(1, [0], 0.5)]


def test_learn_round_names_those_who_completed_or_arrived():
    selector = spy()
    picked = selector.ask(k=4)
    late, lost = Outcome.LATE, Outcome.DROPPED
    selector.tell(picked, Feedback(clients=[0, 1, 2], outcome=[late, 0, lost], latency=[9.0, 1.0, NAN]))
    outcome = [Outcome.ARRIVED, Outcome.COMPLETED]
    selector.tell(picked, Feedback(clients=[0, 3], outcome=outcome, latency=[9.0, 1.0]), RoundMetrics(accuracy=0.7))
    assert selector.of("round") == [(1, [0, 1, 3], 0.7)]


# ------------------------------------------------------------------------------------------------- expiry, counters


def test_a_selection_never_told_expires_after_max_open_rounds_and_counts_as_dropped():
    selector = spy(max_open=3)
    first = selector.ask([0, 1], k=2)
    selector.tell(first, Feedback(clients=[1]))
    for _ in range(2):
        selector.ask([5], k=1)
    assert list(selector.openings) == [1, 2, 3]
    selector.ask([5], k=1)  # round 4: round 1 is 3 rounds old
    assert list(selector.openings) == [2, 3, 4]
    assert selector.of("learn") == [(1, {1: "COMPLETED"}), (1, {0: "DROPPED"})]
    memory = snapshot(selector)
    with pytest.raises(ExpiredSelectionError, match="round 1 expired: it is 3 rounds old, max_open=3"):
        selector.tell(first, Feedback(clients=[0]))
    assert snapshot(selector) == memory


def test_an_expired_client_is_scored_at_the_deadline():
    selector = enlist.create("cs-ucb", Clients(count=3), seed=1, max_open=1)
    picked = selector.ask([0], k=1, deadline=10.0)
    selector.tell(picked, Feedback(latency=[2.0]))  # reward 0.8
    selector.ask([0], k=1, deadline=10.0)
    selector.ask([1], k=1, deadline=10.0)  # the second selection expires: reward 0
    assert selector.rewards()[0] == pytest.approx(0.4)
    assert selector.counts.observed[0] == 1
    assert selector.counts.selected[0] == 2


def test_a_late_client_that_never_arrives_is_not_dropped_as_well():
    selector = spy(max_open=2)
    picked = selector.ask([0], k=1)
    selector.tell(picked, Feedback(outcome=[Outcome.LATE], latency=[5.0]))
    for _ in range(4):
        selector.ask([1], k=1)
    assert selector.of("learn")[0] == (1, {0: "LATE"})
    assert all(0 not in outcomes for _, outcomes in selector.of("learn")[1:])


def test_two_counters():
    selector = enlist.create("cs-ucb", Clients(count=4), seed=1)
    picked = selector.ask(k=4, deadline=10.0)
    assert selector.counts.selected.tolist() == [1, 1, 1, 1]
    assert selector.counts.observed.tolist() == [0, 0, 0, 0]
    outcome = [Outcome.COMPLETED, Outcome.LATE, Outcome.DROPPED, Outcome.FAILED]
    selector.tell(picked, Feedback(outcome=outcome, latency=[1.0, 10.0, NAN, NAN]))
    assert selector.counts.selected.tolist() == [1, 1, 1, 1]
    assert selector.counts.observed.tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("name", BUILT)
def test_memory_does_not_grow_with_rounds(name):
    selector = enlist.create(name, population(), seed=1, max_open=20)
    sizes, most_open = set(), 0
    for number in range(600):
        picked = selector.ask(k=2, deadline=10.0)
        if number % 3 == 0:  # the others are never told, or stay late for ever
            selector.tell(picked, full_feedback(picked), RoundMetrics(accuracy=0.001 * (number % 50)))
        elif number % 3 == 1:
            selector.tell(picked, Feedback(outcome=[1, 1], latency=[10.0, 10.0]), RoundMetrics(accuracy=0.1))
        most_open = max(most_open, len(selector.openings))
        sizes.add(selector.state.nbytes + selector.counts.nbytes)
    assert len(sizes) == 1
    assert 0 < most_open <= 20


# ------------------------------------------------------------------------------------------------------ join, compact


def test_join_appends_positions_and_keeps_what_was_learned():
    selector = enlist.create("cs-ucb", Clients(ids=["a", "b"]), seed=1)
    picked = selector.ask(k=2, deadline=10.0)
    selector.tell(picked, Feedback(latency=[1.0, 4.0]))
    assert selector.join(Clients(ids=["c", "d", "e"])).tolist() == [2, 3, 4]
    assert selector.rewards().tolist() == pytest.approx([0.9, 0.6, 0.0, 0.0, 0.0])
    assert selector.counts.selected.tolist() == [1, 1, 0, 0, 0]
    assert selector.clients.ids.tolist() == ["a", "b", "c", "d", "e"]
    assert selector.ask(k=3, deadline=10.0).clients.tolist() == [2, 3, 4]  # never tried: they come first


@pytest.mark.parametrize("name", BUILT)
def test_join_is_as_if_the_newcomers_had_been_there_but_unavailable(name):
    """Leaving is not being available; so is not having come yet. Memory of the newcomers must be that of strangers."""
    grown, whole = enlist.create(name, population(3), seed=1), enlist.create(name, population(6), seed=1)
    joined = Clients(num_examples=[4.0, 5.0, 6.0])
    for selector in (grown, whole):
        picked = selector.ask([0, 1, 2], k=3, deadline=10.0)
        selector.tell(picked, full_feedback(picked), RoundMetrics(accuracy=0.2))
    grown.join(joined)
    stranger = {path: value[3:] for path, value in whole.state.leaves() if len(np.atleast_1d(value)) == 6}
    for path, value in grown.state.leaves():
        if path in stranger and path != "joined_after":  # when they came is all that may differ
            np.testing.assert_array_equal(value[3:], stranger[path], err_msg=path)


def test_join_while_a_selection_is_open():
    selector = spy(2)
    picked = selector.ask(k=2)
    selector.join(Clients(count=2))
    selector.tell(picked, Feedback())
    assert selector.counts.observed.tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (Clients(count=2), "match them"),
        (Clients(num_examples=[1.0], ids=["z"]), "match them"),
    ],
)
def test_join_refuses_other_columns(more, message):
    selector, _ = played("cs-ucb")
    memory = snapshot(selector)
    with pytest.raises(InputError, match=message):
        selector.join(more)
    assert snapshot(selector) == memory


def test_join_refuses_a_known_id():
    selector = enlist.create("random", Clients(ids=[7, 8]))
    memory = snapshot(selector)
    with pytest.raises(InputError, match="repeats"):
        selector.join(Clients(ids=[9, 8]))
    assert snapshot(selector) == memory


def test_join_refuses_more_than_the_selector_serves():
    class Few(Spy):
        name = "few"
        max_clients = 3

    selector = Few(Clients(count=2))
    memory = snapshot(selector)
    with pytest.raises(PopulationError, match="at most 3 clients, not 4"):
        selector.join(Clients(count=2))
    assert snapshot(selector) == memory
    with pytest.raises(PopulationError, match="at most 3 clients, not 5"):
        Few(Clients(count=5))


def test_compact_forgets_everybody_else():
    selector = enlist.create("bsfl", Clients(count=4), seed=1)
    picked = selector.ask(k=4, deadline=10.0)
    selector.tell(picked, Feedback(latency=[1.0, 2.0, 4.0, 5.0]))
    assert selector.compact([3, 1]).tolist() == [1, 3]
    assert selector.state.inverse_latency.tolist() == [0.5, 0.2]
    assert selector.counts.selected.tolist() == [1, 1]
    assert selector.clients.names(np.array([0, 1])).tolist() == [1, 3]  # old positions live on as ids
    assert selector.clients.positions([3]).tolist() == [1]
    assert len(selector.ask(k=5)) == 2


@pytest.mark.parametrize("name", BUILT)
def test_every_selector_goes_on_after_join_and_compact(name):
    selector = enlist.create(name, Clients(num_examples=np.arange(1.0, 7), ids=np.arange(6)), seed=2)
    for number in range(12):
        if number == 4:
            selector.join(Clients(num_examples=[3.0, 3.0], ids=[6, 7]))
        if number == 8:
            selector.compact(np.array([True, False] * 4))
        picked = selector.ask(k=2, deadline=20.0)
        selector.tell(picked, full_feedback(picked), RoundMetrics(accuracy=0.1))
    assert len(selector.clients) == 4
    assert selector.counts.selected.shape == (4,)


def test_compact_refuses_while_outcomes_are_due_and_names_the_rounds():
    selector, _ = played("cs-ucb")
    memory = snapshot(selector)
    with pytest.raises(TellError, match=r"rounds \[5\] still wait"):
        selector.compact([0, 1])
    assert snapshot(selector) == memory


def test_compact_refuses_to_forget_everybody():
    selector = spy()
    memory = snapshot(selector)
    with pytest.raises(InputError, match="keep at least one"):
        selector.compact([])
    assert snapshot(selector) == memory


# ------------------------------------------------------------------------------------------------- explain and repr


def test_explain_gives_the_terms_of_the_score():
    selector = enlist.create("cs-ucb", Clients(ids=["a", "b", "c"]), seed=1)
    picked = selector.ask(k=3, deadline=10.0)
    selector.tell(picked, Feedback(latency=[1.0, 5.0, 9.0]))
    picked = selector.ask(k=2, deadline=10.0)
    why = selector.explain(picked)
    assert why["client"].tolist() == ["a", "b"]
    assert why["selected"].tolist() == [2, 2]
    assert why["observed"].tolist() == [1, 1]
    assert why["mean"].tolist() == pytest.approx([0.9, 0.5])
    assert why["bonus"].tolist() == pytest.approx([0.1 * math.sqrt(3 * math.log(2))] * 2)


@pytest.mark.parametrize("name", [name for name in BUILT if name != "random"])
def test_explain_has_terms_for_every_selector(name):
    selector, _ = played(name, **({"epsilon": 0.0, "initial_rounds": 1} if name == "darts-ucb" else {}))
    picked = selector.ask(k=2, deadline=10.0)
    why = selector.explain(picked)
    terms = set(why) - {"client", "selected", "observed"}
    assert terms
    assert all(
        len(values) == len(picked) and np.isfinite(why[term]).all() for term, values in why.items() if term in terms
    )


@pytest.mark.parametrize("name", ["darts-ucb", "ucb", "cs-ucb"])
def test_repr_is_a_table_of_pulls_mean_bonus(name):
    selector = enlist.create(name, population(9), seed=1)
    assert repr(selector).endswith(f"({name!r}, clients=9, round=0)")
    for number in range(6):
        picked = selector.ask([0, 1, 2, 3, 4, 5, 6], k=3, deadline=10.0)
        selector.tell(picked, full_feedback(picked), RoundMetrics(accuracy=0.1 * number))
    lines = repr(selector).splitlines()
    assert lines[0].endswith("clients=9, round=6)")
    assert lines[1].split() == ["client", "pulls", "mean", "bonus"]
    assert len(lines) == 7
    assert len({len(line) for line in lines[1:]}) == 1
    pulls = [int(line.split()[1]) for line in lines[2:]]
    assert pulls == sorted(selector.counts.selected.tolist(), reverse=True)[:5]


@pytest.mark.parametrize("name", BUILT)
def test_repr_works_for_every_selector(name):
    selector, _ = played(name)
    assert "pulls" in repr(selector)


# ----------------------------------------------------------------------------------------------- presets and settings


@pytest.mark.parametrize("name", [name for name in BUILT if name not in ("random", "size-proportional")])
def test_every_paper_algorithm_has_a_paper_preset(name):
    paper = enlist.create(name, population(), preset="paper").settings
    kind = type(enlist.create(name, population()))
    for setting, value in kind.presets["paper"].items():
        assert getattr(paper, setting) == value


def test_what_is_given_wins_over_the_preset():
    settings = enlist.create("darts-ucb", population(), preset="paper", c=2.0).settings
    assert (settings.c, settings.reward) == (2.0, "shift")


def test_unknown_selector_lists_known_and_nearest():
    with pytest.raises(UnknownNameError, match=r"no selector is called 'bsfk'\. Did you mean 'bsfl'\? Known: .*random"):
        enlist.create("bsfk", population())


def test_unknown_parameter_lists_known_and_nearest():
    with pytest.raises(
        UnknownNameError, match=r"'bsfl' has no parameter called 'alfa'. Did you mean 'alpha'\? Known: .*solver"
    ):
        enlist.create("bsfl", population(), alfa=1.0)


def test_unknown_preset_lists_known_and_nearest():
    with pytest.raises(
        UnknownNameError, match=r"'ucb' has no preset called 'papr'. Did you mean 'paper'\? Known: paper"
    ):
        enlist.create("ucb", population(), preset="papr")
    with pytest.raises(UnknownNameError, match="Known: none"):
        enlist.create("random", population(), preset="paper")


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("darts-ucb", {"epsilon": 1.5}, "'darts-ucb': epsilon is 1.5; it must be a number from 0.0 to 1.0"),
        ("darts-ucb", {"c": NAN}, "c is nan"),
        ("darts-ucb", {"c": "wide"}, "c is 'wide'; it must be a number"),
        ("darts-ucb", {"initial_rounds": -1}, "initial_rounds is -1"),
        ("darts-ucb", {"reward": "shfit"}, "Did you mean 'shift'"),
        ("ucb", {"step": 0.0}, "step is 0.0"),
        ("ucb", {"reward": "speeed"}, "Did you mean 'speed'"),
        ("thompson", {"scale": "raw"}, "raw"),
        ("thompson", {"alpha": 0.0}, "alpha is 0.0; it must be a finite number"),
        ("discounted-thompson", {"gamma": 1.1}, "gamma is 1.1"),
        ("cs-ucb-q", {"fractions": [0.5, 1.5]}, "fractions goes from 0.5 to 1.5"),
        ("cs-ucb-q", {"fractions": [0.1] * 7}, "7 values for 6 clients"),
        ("bsfl", {"solver": "exakt"}, "Did you mean 'exact'"),
        ("bsfl", {"alpha": -1.0}, "alpha is -1.0"),
        ("bsfl", {"shortest": 0.0}, "shortest is 0.0"),
        ("random", {"seed": -1}, "seed is -1"),
        ("random", {"max_open": 0}, "max_open is 0"),
    ],
)
def test_settings_are_checked(name, settings, message):
    with pytest.raises(InputError, match=message):
        enlist.create(name, population(), **settings)


@pytest.mark.parametrize("fractions", [[[0.1], [0.2]], ["a", "b"]], ids=["2-D", "strings"])
def test_fractions_of_the_wrong_kind_have_a_clear_error(fractions):
    with pytest.raises(InputError, match="fractions"):
        enlist.create("cs-ucb-q", population(), fractions=fractions)


@pytest.mark.parametrize("name", ["epsilon-greedy", "ucb"])
def test_the_initial_value_must_be_a_number(name):
    with pytest.raises(InputError, match="initial"):
        enlist.create(name, population(), initial=NAN)


# -------------------------------------------------------------------------------------------------------------- needs


def test_needs_of_clients_are_checked_at_construction():
    with pytest.raises(
        MissingColumnError, match=r"'size-proportional' needs clients.num_examples; pass Clients\(num_ex"
    ):
        enlist.create("size-proportional", Clients(count=3))
    with pytest.raises(MissingColumnError, match=r"clients\.num_examples"):
        enlist.create("bsfl", Clients(count=3), generalisation="size-quality")


@pytest.mark.parametrize(
    ("name", "settings", "column"),
    [
        ("cs-ucb", {}, "latency"),
        ("bsfl", {}, "latency"),
        ("bsfl", {"generalisation": "loss"}, "loss"),
        ("ucb", {}, "accuracy_gain"),
        ("ucb", {"reward": "speed"}, "latency"),
        ("thompson", {"reward": "loss_rms"}, "loss_rms"),
    ],
)
def test_needs_of_feedback_are_checked_at_the_first_tell(name, settings, column):
    selector = enlist.create(name, population(), seed=1, **settings)
    picked = selector.ask(k=2, deadline=10.0)
    memory = snapshot(selector)
    given = {"latency": [1.0, 2.0], "loss": [1.0, 2.0], "accuracy_gain": [0.1, 0.2]}
    given.pop(column, None)
    with pytest.raises(MissingColumnError, match=rf"'{name}' needs {column}; pass Feedback\({column}="):
        selector.tell(picked, Feedback(**given))
    assert snapshot(selector) == memory
    selector.tell(picked, Feedback(**given, **{column: [1.0, 2.0]}))


def test_needs_of_the_round_are_checked_with_the_last_outcome():
    selector = enlist.create("darts-ucb", population(), seed=1)
    picked = selector.ask(k=2)
    selector.tell(picked, Feedback(clients=picked.clients[:1]))  # the round is not over yet
    memory = snapshot(selector)
    last = Feedback(clients=picked.clients[1:])
    with pytest.raises(MissingColumnError, match=r"needs round.accuracy; pass round=RoundMetrics\(accuracy="):
        selector.tell(picked, last)
    for nonsense in ("x", 0.9, {"accuracy": 0.3}):
        with pytest.raises(InputError, match=r"pass enlist\.RoundMetrics"):
            selector.tell(picked, last, nonsense)
    assert snapshot(selector) == memory
    selector.tell(picked, last, RoundMetrics(accuracy=0.3))
    # Not evaluated this round: said explicitly, it is fine.
    selector.tell(selector.ask(k=1), Feedback(), RoundMetrics(duration=3.0))
    assert selector.state.accuracy == 0.3


def test_nothing_is_needed_of_clients_that_were_lost():
    selector = enlist.create("ucb", population(), seed=1)
    picked = selector.ask(k=2)
    selector.tell(picked, Feedback(outcome=[Outcome.DROPPED, Outcome.FAILED]))
    assert selector.openings == {}


def test_a_missing_value_is_no_missing_column():
    selector = enlist.create("ucb", population(), seed=1, scale="raw")
    picked = selector.ask(k=2)
    selector.tell(picked, Feedback(accuracy_gain=[NAN, 0.1]))
    assert selector.rule.values()[picked.clients].tolist() == pytest.approx(
        [0.1, 0.1]
    )  # as others, as nothing is known


# ---------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": -1}, "k is -1; it must be a whole number of at least 0"),
        ({"k": 1.5}, "k is 1.5; it must be a whole number"),
        ({"k": True}, "k is True; it must be a whole number"),
        ({"k": "2"}, "k is '2'"),
        ({"k": None}, "k is None"),
        ({"available": [0, 6]}, "available holds position 6; with 6 clients, 0 to 5 are allowed"),
        ({"available": [-1, 2]}, "available holds position -1"),
        ({"available": [3, 1, 3]}, "available repeats position 3"),
        ({"available": [0.0, 1.0]}, "available is float64 of shape"),
        ({"available": [[0, 1], [2, 3]]}, r"available is int64 of shape \(2, 2\)"),
        ({"available": [[0, 1], [2]]}, "available is ragged"),
        ({"available": ["a"]}, "available is <U1"),
        ({"available": 3}, r"available is int64 of shape \(\)"),
        ({"available": [True, False]}, r"mask of shape \(2,\); it needs one value for each of 6 clients"),
        ({"available": np.ones((6, 1), bool)}, r"mask of shape \(6, 1\)"),
        ({"now": NAN}, "now is nan"),
        ({"now": INF}, "now is inf"),
        ({"now": "noon"}, "now is 'noon'"),
        ({"deadline": 0}, "deadline is 0; it must be above 0"),
        ({"deadline": -3.0}, "deadline is -3.0; it must be above 0"),
        ({"deadline": NAN}, "deadline is nan; it must be above 0"),
        ({"deadline": None}, "deadline is None; it must be a number"),
        ({"forecast": [0.5] * 5}, r"forecast has shape \(5,\)"),
        ({"forecast": [0.5] * 5 + [1.5]}, "forecast goes from 0.5 to 1.5"),
        ({"forecast": [0.5] * 5 + [-0.1]}, "forecast goes from -0.1 to 0.5"),
        ({"forecast": ["high"] * 6}, "forecast"),
        ({"fresh": Feedback(loss=[1.0])}, "fresh names no clients"),
        ({"fresh": Feedback(clients=[9], loss=[1.0])}, "fresh.clients holds position 9"),
        ({"fresh": Feedback(clients=[1, 2], loss=[1.0])}, "loss has shape"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("name", ["cs-ucb", "darts-ucb", "bsfl"])
def test_ask_refuses_and_nothing_changes(name, arguments, message):
    selector, _ = played(name)
    memory = snapshot(selector)
    with pytest.raises(InputError, match=message):
        selector.ask(**{"k": 2, **arguments})
    assert snapshot(selector) == memory


def test_a_forecast_may_hold_unknown_values():
    assert len(spy().ask(k=2, forecast=[0.0, 1.0, NAN, 0.5, 0.5, 0.5])) == 2


def test_fractions_that_k_cannot_serve_are_refused_before_anything_changes():
    selector = enlist.create("cs-ucb-q", Clients(count=3), fractions=[0.9, 0.9, 0.9])
    memory = snapshot(selector)
    with pytest.raises(InputError, match=r"fractions sum to 2\.7, more than k=2"):
        selector.ask(k=2)
    assert snapshot(selector) == memory


def test_too_many_sets_for_the_exhaustive_solver_are_refused_before_anything_changes():
    selector = enlist.create("bsfl", Clients(count=60), solver="exhaustive")
    memory = snapshot(selector)
    with pytest.raises(PopulationError, match="solver='exact' finds the same optimum"):
        selector.ask(k=20)
    assert snapshot(selector) == memory


@pytest.mark.parametrize("targets", [np.zeros(2), np.full(6, NAN)], ids=["length", "NaN"])
def test_a_generalisation_that_returns_nonsense_changes_nothing(targets):
    selector = enlist.create("bsfl", population(), generalisation=lambda selector, k: targets)
    memory = snapshot(selector)
    with pytest.raises(InputError, match="one finite target per client"):
        selector.ask(k=2)
    assert snapshot(selector) == memory


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"latency": [1.0, NAN, 2.0]}, r"latency\[1\] is nan for a client that is COMPLETED"),
        ({"latency": [1.0, INF, 2.0]}, r"latency\[1\] is inf"),
        ({"latency": [1.0, -1.0, 2.0]}, r"latency\[1\] is -1.0; it cannot be negative"),
        ({"latency": [1.0, 2.0]}, r"latency has shape \(2,\); it needs one for each of 3"),
        ({"latency": [[1.0], [2.0], [3.0]]}, r"latency has shape \(3, 1\)"),
        ({"latency": 1.0}, r"latency has shape \(\)"),
        ({"outcome": [0, 0]}, r"outcome has shape \(2,\)"),
        ({"outcome": [0, 0, 7]}, "outcome holds .*7.*; allowed are COMPLETED=0, LATE=1"),
        ({"outcome": [0, 0, -1]}, "outcome holds"),
        ({"outcome": [0, 0, 0.5]}, "outcome holds"),
        ({"outcome": [0, 0, NAN]}, "outcome"),
        ({"outcome": ["LATE", "LATE", "LATE"]}, "outcome"),
        ({"outcome": [None, 0, 0]}, "outcome"),
        ({"outcome": [0, 1, 0], "latency": [1.0, NAN, 1.0]}, r"latency\[1\] is nan for a client that is LATE"),
        ({"outcome": [0, 2, 0], "latency": [1.0, INF, 1.0]}, r"latency\[1\] is inf for a client that is DROPPED"),
        ({"censored": [True, False]}, r"censored has shape \(2,\)"),
        ({"censored": [True, False, False]}, "censored marks a client that replied"),
        ({"loss": [1.0, 2.0]}, r"loss has shape \(2,\)"),
        ({"loss": [1.0, INF, 2.0]}, r"loss\[1\] is inf; allowed are finite numbers, or NaN"),
        ({"num_examples": [1.0, -2.0, 2.0]}, r"num_examples\[1\] is -2.0; it cannot be negative"),
        ({"upload_latency": [1.0, -2.0, 2.0]}, "upload_latency"),
        ({"rounds_late": [1.0, -2.0, 2.0]}, "rounds_late"),
        ({"rounds_late": [1.0]}, r"rounds_late has shape \(1,\)"),
        ({"clients": [0, 1, 99], "latency": [1.0, 2.0, 3.0]}, "was not selected in round 5"),
        ({"clients": "same"}, "clients"),
        ({"clients": [0.0, 1.0]}, "clients is float64"),
        ({"clients": [[0, 1]]}, r"clients is int64 of shape \(1, 2\)"),
    ],
    ids=lambda value: str(value)[:50] if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("name", ["cs-ucb", "ucb", "bsfl"])
def test_tell_refuses_and_nothing_changes(name, columns, message):
    selector, picked = played(name)
    memory = snapshot(selector)
    with pytest.raises(InputError, match=message):
        selector.tell(picked, full_feedback(picked, **columns))
    assert snapshot(selector) == memory


def test_a_client_named_twice_is_refused():
    selector, picked = played("cs-ucb")
    memory = snapshot(selector)
    first = int(picked.clients[0])
    with pytest.raises(InputError, match="repeats a position in round 5"):
        selector.tell(picked, Feedback(clients=[first, first], latency=[1.0, 2.0]))
    assert snapshot(selector) == memory


@pytest.mark.parametrize("name", ["latency", "loss", "num_examples", "accuracy_gain", "rounds_late"])
def test_strings_in_numeric_columns_of_feedback(name):
    with pytest.raises(InputError, match=rf"Feedback.{name} cannot be read as an array of float"):
        Feedback(**{name: ["fast", "slow"]})


def test_telling_what_was_never_asked():
    selector, picked = played("cs-ucb")
    memory = snapshot(selector)
    feedback = full_feedback(picked)
    for number in (0, -1, 6):
        stranger = Selection(number, picked.clients)
        with pytest.raises(UnknownSelectionError, match=f"round {number} was never asked; this selector is at round 5"):
            selector.tell(stranger, feedback)
    with pytest.raises(InputError, match="tell got list; pass the Selection that ask returned"):
        selector.tell([0, 1], feedback)
    assert snapshot(selector) == memory


def test_telling_another_selectors_selection():
    selector, picked = played("cs-ucb")
    other = enlist.create("random", population(), seed=1)
    for _ in range(4):
        other.ask(k=1)
    foreign = other.ask(k=2)
    assert foreign.round == picked.round
    memory = snapshot(selector)
    with pytest.raises(UnknownSelectionError, match="round 5 belongs to another selector"):
        selector.tell(foreign, Feedback(latency=[1.0, 2.0]))
    assert snapshot(selector) == memory


def test_telling_a_finished_selection():
    selector, picked = played("cs-ucb")
    selector.tell(picked, full_feedback(picked))
    memory = snapshot(selector)
    with pytest.raises(FinishedSelectionError, match="round 5 is finished"):
        selector.tell(picked, full_feedback(picked))
    assert snapshot(selector) == memory


def test_telling_something_else_than_feedback():
    selector, picked = played("random")
    memory = snapshot(selector)
    with pytest.raises(InputError, match="Feedback"):
        selector.tell(picked, {"latency": [1.0, 2.0, 3.0]})
    assert snapshot(selector) == memory


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "neither columns nor count"),
        ({"count": 0}, "count=0; give at least one client"),
        ({"count": -2}, "count=-2"),
        ({"count": 2.0}, "count=2.0; it must be a whole number"),
        ({"count": True}, "count=True"),
        ({"num_examples": []}, "give at least one client"),
        ({"num_examples": ["many"]}, "num_examples cannot be read as an array of float"),
        ({"num_examples": [1.0, NAN]}, r"num_examples\[1\] is nan"),
        ({"num_examples": [1.0, -1.0]}, r"num_examples\[1\] is -1.0; it cannot be negative"),
        ({"num_examples": [1.0, 2.0], "quality": [0.5]}, r"quality has shape \(1,\)"),
        ({"quality": [0.5, 1.2]}, r"must lie in \[0, 1\]"),
        ({"count": 3, "expected_latency": [1.0]}, "expected_latency has shape"),
        ({"ids": ["a", "a"]}, "repeats .*'a'"),
        ({"ids": [1.5, 2.5]}, "distinct int or str ids"),
        ({"features": [1.0, 2.0]}, r"needs \(2, number of features\)"),
        ({"features": [[1.0], [NAN]]}, "NaN or infinity"),
        ({"features": [[1.0], [2.0]], "feature_names": ["a", "b"]}, "2 feature_names for 1 features"),
        ({"count": 2, "feature_names": ["a"]}, "feature_names but no features"),
        ({"num_examples": 5}, "num_examples"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_clients_are_checked(columns, message):
    with pytest.raises(InputError, match=message):
        Clients(**columns)


def test_clients_must_be_clients():
    with pytest.raises(InputError, match=r"got int as clients; pass enlist.Clients"):
        enlist.create("random", 5)
    selector = spy()
    with pytest.raises(InputError, match="Clients"):
        selector.join(3)


def test_ids_map_to_positions_and_back():
    clients = Clients(ids=["cid", "ann", "bob"])
    assert clients.positions(["bob", "cid"]).tolist() == [2, 0]
    assert clients.names(np.array([1, 0])).tolist() == ["ann", "cid"]
    with pytest.raises(InputError, match=r"no client has the id .*'dan'"):
        clients.positions(["ann", "dan"])
    with pytest.raises(InputError, match=r"no client has the id .*3"):
        Clients(count=3).positions([0, 3])


@pytest.mark.parametrize("value", [NAN, INF, "high"])
def test_round_metrics_are_finite(value):
    with pytest.raises(InputError, match=r"RoundMetrics\.accuracy is"):
        RoundMetrics(accuracy=value)


def test_accept_and_candidates_by_default():
    selector = spy()
    assert selector.candidates(k=3).tolist() == []
    with pytest.raises(InputError, match="chooses before training"):
        selector.accept([1, 2], 1)


def test_what_was_handed_out_cannot_be_changed():
    sizes = np.full(6, 10.0)
    selector = enlist.create("bsfl", Clients(num_examples=sizes), seed=1)
    sizes[:] = -5
    assert selector.clients.num_examples.tolist() == [10.0] * 6
    picked = selector.ask(k=3)
    with pytest.raises(ValueError, match="read-only"):
        picked.clients[0] = 5
    with pytest.raises(ValueError, match="read-only"):
        picked.terms["speed"][0] = 5
    with pytest.raises(ValueError, match="read-only"):
        selector.clients.num_examples[0] = 5


def test_a_choice_that_breaks_the_rules_is_named():
    class Wrong(enlist.Selector):
        name = "wrong"

        def choose(self, request):
            return self.answer(request)

    answers = {
        "return request.pick": lambda request: request.available[:2],
        "at most 2 distinct": lambda request: enlist.Choice(np.array([1, 1])),
        "out of request.available": lambda request: enlist.Choice(np.array([0, 4])),
    }
    for message, answer in answers.items():
        selector = Wrong(Clients(count=5))
        selector.answer = answer
        with pytest.raises(enlist.EnlistError, match=message):
            selector.ask([0, 1, 2], k=2)
