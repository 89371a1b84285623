"""Whatever happens, in whatever order: every node that was asked has exactly one outcome, and nothing piles up."""

from __future__ import annotations

import collections
import tempfile
from pathlib import Path
from typing import Any

from flwr.app import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enlist.contract import Selector
from enlist.flower import NoNodesError, replay
from enlist.flower.fake import FakeGrid, FakeReply
from enlist.records import Outcome
from enlist.runs.tables import read_table
from tests.flower.flower_helpers import behaving, model, node_of, reply, selecting

NODES = list(range(11, 21))
FATE = st.one_of(
    st.tuples(st.just("ok"), st.floats(0.0, 60.0), st.integers(1, 3)),
    st.tuples(st.just("error"), st.floats(0.0, 60.0), st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 8])),
    st.tuples(st.just("silent"), st.just(0.0), st.just(0)),
    st.tuples(st.just("foreign"), st.floats(0.0, 60.0), st.just(0)),
    st.tuples(st.just("spoilt"), st.floats(0.0, 60.0), st.just(0)),
)
PLAN = st.fixed_dictionaries(
    {
        "fates": st.lists(FATE, min_size=1, max_size=40),
        "online": st.lists(st.sets(st.sampled_from(NODES), min_size=1), min_size=1, max_size=8),
        "rounds": st.integers(1, 8),
        "k": st.integers(1, 6),
        "over_commit": st.sampled_from([1.0, 1.5, 2.0]),
        "deadline": st.sampled_from([1.0, 10.0, 30.0]),
        "late": st.sampled_from(["drop", "learn", "merge"]),
        "selector": st.sampled_from(["random", "oort", "bsfl", "cs-ucb"]),
    }
)


class Watched:
    """Counts what a selector is told of each client of each round."""

    def __init__(self) -> None:
        self.final: collections.Counter[tuple[int, int]] = collections.Counter()
        self.amended: collections.Counter[tuple[int, int]] = collections.Counter()

    def tell(self, selector: Selector[Any, Any], selection: Any, feedback: Any, metrics: Any = None) -> None:
        resolved = feedback.resolved(selection)
        for client, outcome in zip(resolved.clients.tolist(), resolved.outcome.tolist(), strict=True):
            counter = self.amended if outcome == Outcome.ARRIVED else self.final
            counter[selection.round, client] += 1
        type(selector).tell(selector, selection, feedback, metrics)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PLAN)
def test_everybody_who_was_asked_has_exactly_one_outcome(plan: dict[str, Any]) -> None:
    fates = iter(plan["fates"] * 100)

    def train(message: Message) -> FakeReply:
        kind, seconds, number = next(fates)
        if kind == "silent":
            return FakeReply(None)
        if kind == "error":
            return FakeReply(seconds, error=(number, "as fate has it"))
        if kind == "foreign":
            return FakeReply(seconds, reply(message, loss_rms=1.0), source=99)
        value = float("nan") if kind == "spoilt" else None
        content = reply(message, value, loss_rms=1.0, client_id=f"phone-{node_of(message)}")
        return FakeReply(seconds, content, copies=max(number, 1))

    grid = FakeGrid(sorted(plan["online"][0]), behaving(train))
    watched = Watched()
    with tempfile.TemporaryDirectory() as place:
        wrapped = selecting(
            grid,
            plan["selector"],
            k=plan["k"],
            over_commit=plan["over_commit"],
            deadline=plan["deadline"],
            late=plan["late"],
            patience=100.0,
            folder=Path(place) / "run",
            save_every=100,
        )
        asked: collections.Counter[tuple[int, int]] = collections.Counter()

        def between(number: int, arrays: Any) -> None:
            grid.nodes = sorted(plan["online"][number % len(plan["online"])])
            if number == 0:
                return
            assert wrapped.current is not None
            asked.update((number, client) for client in wrapped.current.selection.clients.tolist())
            selector = wrapped.selector
            selector.tell = lambda *told: watched.tell(selector, *told)  # type: ignore[method-assign]
            assert len(wrapped.training.messenger.open) <= len(NODES)
            assert len(wrapped.late_replies.models) <= 6
            assert len(wrapped.late_replies.asked) <= len(NODES) + 1

        try:
            wrapped.start(grid=grid, initial_arrays=model(), num_rounds=plan["rounds"], evaluate_fn=between)
        except NoNodesError:  # everybody who is there is silent: the rounds so far count
            asked = collections.Counter({key: count for key, count in asked.items() if key[0] <= wrapped.round})
        assert watched.final == asked
        assert all(count == 1 for count in watched.final.values())
        assert all(count == 1 for count in watched.amended.values())
        assert set(watched.amended) <= set(watched.final)
        if plan["late"] == "drop":
            assert not watched.amended
        if not asked:
            return
        table = read_table(Path(place) / "run" / "participations.csv")
        first = table["round"] == table["selected_in"]
        assert first.sum() == len(asked)
        assert len(replay(Path(place) / "run")) >= wrapped.round
