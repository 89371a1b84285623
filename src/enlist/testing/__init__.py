"""The contract suite: what every selector, ours or yours, must pass.

    @pytest.mark.parametrize("check", enlist.testing.CHECKS)
    def test_my_selector(check):
        enlist.testing.run(check, MySelector)

Pass a selector as a class, or as a registered name. No test framework is needed: a check that fails raises
`AssertionError` with a sentence that says what was broken. Clients and replies carry every column, and asks carry the
context that the selector needs.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from enlist._internal.sending import packed
from enlist.errors import InputError, TellError
from enlist.records import FEEDBACK_COLUMNS, Feedback, Outcome, RoundMetrics
from enlist.selectors import get
from enlist.testing.extremes import one_absurd_client
from enlist.testing.selections import replaced_as_they_finish, weights_probabilities_and_work
from enlist.testing.world import SelectorType, ask, available, feedback, population, transcript

__all__ = ["CHECKS", "SelectorType", "feedback", "population", "run", "run_all", "transcript"]


def distinct_and_available(kind: SelectorType) -> None:
    """Selections are distinct, available, ascending, and as many as asked for.

    >>> distinct_and_available(get("random"))
    """
    selector = kind(population(30), seed=3)
    for number in range(1, 40):
        mask = available(30, number, 5)
        k = number % 9
        picked = ask(selector, mask, k, now=float(number), deadline=10.0)
        clients = picked.clients
        assert (np.diff(clients) > 0).all(), f"round {number}: clients {clients} are not distinct and ascending"
        assert mask[clients].all(), f"round {number}: clients {clients[~mask[clients]]} are not available"
        most = min(k, int(mask.sum()))
        assert len(clients) <= most, f"round {number}: {len(clients)} clients for k={k}"
        if not kind.may_choose_fewer:
            assert len(clients) == most, f"round {number}: {len(clients)} of {most} clients; set may_choose_fewer?"
        selector.tell(picked, feedback(picked), RoundMetrics(accuracy=0.5))


def more_wanted_than_available(kind: SelectorType) -> None:
    """If k is at least the number available, all of them are chosen and counted.

    >>> more_wanted_than_available(get("random"))
    """
    selector = kind(population(10), seed=1)
    picked = ask(selector, [2, 5, 7], 10, deadline=10.0)
    assert set(picked.clients) <= {2, 5, 7}, f"chose {picked.clients} of 2, 5, 7"
    if not kind.may_choose_fewer:
        assert picked.clients.tolist() == [2, 5, 7], f"chose {picked.clients}, not all of 2, 5, 7"
    assert selector.counts.selected.sum() == len(picked), "the selection was not counted"
    selector.tell(picked, feedback(picked), RoundMetrics(accuracy=0.5))


def enough_is_any_part_of_k(kind: SelectorType) -> None:
    """Any number of replies from 1 to k may end the round; the selection must obey the same rules.

    >>> enough_is_any_part_of_k(get("random"))
    """
    selector = kind(population(20), seed=6)
    for number in range(1, 25):
        k = 1 + number % 7
        picked = ask(selector, k=k, now=float(number), deadline=10.0, enough=1 + number % k)
        assert len(picked) == k or (kind.may_choose_fewer and len(picked) <= k), f"chose {len(picked)} of {k}"
        selector.tell(picked, feedback(picked), RoundMetrics(accuracy=0.5))
    for wrong in (0, 4, -1, 2.5):
        try:
            ask(selector, k=3, deadline=10.0, enough=wrong)
        except InputError:
            continue
        raise AssertionError(f"enough={wrong} was accepted for k=3")


def nobody_available(kind: SelectorType) -> None:
    """No client available, or none wanted: the selection is empty, and the selector carries on.

    >>> nobody_available(get("random"))
    """
    selector = kind(population(10), seed=1)
    for online, k in (([], 3), (None, 0), (np.zeros(10, bool), 2)):
        picked = ask(selector, online, k, deadline=10.0)
        assert len(picked) == 0, f"chose {picked.clients} of no clients"
        selector.tell(picked, Feedback(), RoundMetrics(accuracy=0.4))
    assert len(ask(selector, k=3, deadline=10.0)) > 0, "chose no clients after empty rounds"


def reproducible(kind: SelectorType) -> None:
    """The same seed gives the same selections, and the global generator is not touched.

    >>> reproducible(get("random"))
    """
    before = np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    first = transcript(kind(population(25), seed=11), 40)
    assert first == transcript(kind(population(25), seed=11), 40), "two runs with one seed differ"
    after = np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    assert before == after, "the selector drew from NumPy's global generator"


def same_in_another_process(kind: SelectorType) -> None:
    """A spawned process with another hash seed makes the same selections.

    >>> same_in_another_process(get("random"))
    """
    code = (
        "import json, pickle, sys, enlist.testing as t\n"
        "kind = pickle.load(sys.stdin.buffer)\n"
        "print(json.dumps(t.transcript(kind(t.population(25), seed=11), 30)))\n"
    )
    search = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONHASHSEED": "4242", "PYTHONPATH": search}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, input=packed(kind, [kind]), capture_output=True, env=environment, check=False)
    assert done.returncode == 0, f"the other process failed: {done.stderr.decode()[-500:]}"
    assert json.loads(done.stdout) == transcript(kind(population(25), seed=11), 30), "another process chose others"


def save_load_continue(kind: SelectorType) -> None:
    """Saved at any round and loaded, it continues bit-exactly, even with open selections.

    >>> save_load_continue(get("random"))
    """
    whole = transcript(kind(population(25), seed=5), 30)
    for stop in (0, 1, 7, 20, 25):
        selector = kind(population(25), seed=5)
        transcript(selector, stop)
        with tempfile.TemporaryDirectory() as folder:
            selector.save(folder)
            again = kind.load(folder)
        assert again.openings.keys() == selector.openings.keys(), "open selections were lost"
        for (path, ours), (_, theirs) in zip(selector.state.leaves(), again.state.leaves(), strict=True):
            assert np.array_equal(np.asarray(ours), np.asarray(theirs), equal_nan=_numeric(ours)), f"'{path}' changed"
        assert transcript(again, 30 - stop) == whole[stop:], f"saved after round {stop}, it continued differently"


def _numeric(value: Any) -> bool:
    return np.asarray(value).dtype.kind == "f"


def missing_values(kind: SelectorType) -> None:
    """Replies whose every optional value is NaN teach nothing and break nothing.

    >>> missing_values(get("random"))
    """
    selector = kind(population(12), seed=2)
    for number in range(1, 25):
        picked = ask(selector, k=4, deadline=10.0, now=float(number))
        nothing = np.full(len(picked), np.nan)
        empty: dict[str, Any] = dict.fromkeys(FEEDBACK_COLUMNS, nothing) | {"update": np.full((len(picked), 4), np.nan)}
        selector.tell(picked, Feedback(latency=np.ones(len(picked)), **empty), RoundMetrics(accuracy=0.5))
    for path, value in selector.state.leaves():
        if isinstance(value, float):
            assert not math.isnan(value), f"'{path}' became NaN"
    repr(selector)


def only_failures(kind: SelectorType) -> None:
    """If every client is always lost, it keeps choosing, and not the same few for ever.

    >>> only_failures(get("random"))
    """
    selector = kind(population(12), seed=2)
    for number in range(1, 60):
        picked = ask(selector, k=3, deadline=10.0, now=float(number))
        assert kind.may_choose_fewer or len(picked) == 3, f"round {number}: chose {len(picked)} of 3"
        lost = Feedback(outcome=np.full(len(picked), Outcome.DROPPED), latency=np.full(len(picked), np.nan))
        selector.tell(picked, lost, RoundMetrics(accuracy=0.5))
    assert selector.counts.observed.sum() == 0, "a lost client counts as observed"
    assert (selector.counts.selected > 0).mean() >= 0.5, "it keeps asking the same few clients, and none replies"


def never_told(kind: SelectorType) -> None:
    """Selections that are never told expire; the number of open ones stays bounded.

    >>> never_told(get("random"))
    """
    selector = kind(population(12), seed=2, max_open=5)
    first = ask(selector, k=3, deadline=10.0)
    for _ in range(20):
        ask(selector, k=3, deadline=10.0)
        assert len(selector.openings) <= 5, f"{len(selector.openings)} selections are open, max_open is 5"
    try:
        selector.tell(first, feedback(first), RoundMetrics(accuracy=0.5))
    except TellError:
        return
    raise AssertionError("an expired selection could be told")


def join_and_leave(kind: SelectorType) -> None:
    """Clients join and can be chosen; what was learned stays; compact forgets the others.

    >>> join_and_leave(get("random"))
    """
    selector = kind(population(15), seed=4)
    transcript(selector, 12)
    before = selector.counts.selected.copy()
    new = selector.join(population(10, first_id=100))
    assert new.tolist() == list(range(15, 25)), f"new positions are {new}"
    assert (selector.counts.selected[:15] == before).all(), "joining changed what was counted"
    picked = ask(selector, new, 3, deadline=10.0, now=500.0)
    assert set(picked.clients) <= set(new), "chose a client that was not available"
    selector.tell(picked, feedback(picked), RoundMetrics(accuracy=0.5))
    transcript(selector, 12)
    for opening in list(selector.openings.values()):
        lost = np.full(len(opening.pending), Outcome.DROPPED)
        if len(opening.pending):
            told = Feedback(clients=opening.pending, outcome=lost, latency=np.full(len(lost), np.nan))
            selector.tell(opening.selection, told, None if opening.metrics_told else RoundMetrics(accuracy=0.5))
    kept = selector.compact(np.arange(5, 20))
    assert kept.tolist() == list(range(5, 20)), f"compact kept {kept}"
    assert len(selector.clients) == 15, f"{len(selector.clients)} clients are left of 15"
    transcript(selector, 6)


def explained(kind: SelectorType) -> None:
    """Every selection can be explained, and the selector can be printed.

    >>> explained(get("random"))
    """
    selector = kind(population(30), seed=4)
    transcript(selector, 12)
    picked = ask(selector, k=4, deadline=10.0, now=900.0)
    for name, values in selector.explain(picked).items():
        assert len(values) == len(picked), f"term '{name}' has {len(values)} values for {len(picked)} clients"
    text = repr(selector)
    assert kind.__name__ in text, f"repr is {text!r}"
    assert "pulls" in text, f"repr shows no table: {text!r}"


def memory_constant(kind: SelectorType) -> None:
    """State does not grow with rounds.

    >>> memory_constant(get("random"))
    """
    selector = kind(population(20), seed=4, max_open=10)
    transcript(selector, 20)
    before = selector.state.nbytes
    transcript(selector, 150)
    assert selector.state.nbytes == before, f"state grew from {before} to {selector.state.nbytes} bytes"
    assert len(selector.openings) <= 10, f"{len(selector.openings)} open selections, max_open is 10"


def hundred_thousand_clients(kind: SelectorType) -> None:
    """A population of 100,000 works (unless the selector declares a smaller limit).

    >>> hundred_thousand_clients(get("random"))
    """
    count = 100_000
    if kind.max_clients is not None and kind.max_clients < count:
        return
    selector = kind(population(count), seed=4)
    for chosen in transcript(selector, 4, k=100):
        assert len(set(chosen)) == len(chosen) <= 100, "clients are not distinct"
    assert selector.state.nbytes <= 2_000 * count, f"{selector.state.nbytes / count:.0f} bytes of state per client"


CHECKS: dict[str, Callable[[SelectorType], None]] = {
    check.__name__: check
    for check in (
        distinct_and_available,
        more_wanted_than_available,
        enough_is_any_part_of_k,
        nobody_available,
        reproducible,
        same_in_another_process,
        save_load_continue,
        missing_values,
        only_failures,
        one_absurd_client,
        never_told,
        join_and_leave,
        explained,
        weights_probabilities_and_work,
        replaced_as_they_finish,
        memory_constant,
        hundred_thousand_clients,
    )
}
"""Every check, by name."""


def run(check: str, selector: str | SelectorType) -> None:
    """Run one check on a selector, given by class or by registered name.

    >>> run("nobody_available", "random")
    """
    CHECKS[check](get(selector) if isinstance(selector, str) else selector)


def run_all(selector: str | SelectorType) -> None:
    """Run every check on a selector.

    >>> run_all("random")
    """
    for check in CHECKS:
        run(check, selector)
