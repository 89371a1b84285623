"""Each selector beats random where it should, and does not where nothing can be gained (fewer rounds than the docs)."""

from __future__ import annotations

import pytest

import enlist
from enlist.arena.evidence import EVIDENCE, Finding, gather

OFTEN = {"tempo"}
"""Those whose evidence is gathered with every `make test`; the others come with `make verify`."""
NOTHING = {
    "accuracy_gain": 0.00035,
    "completed": 0.012,
    "dropped": 0.025,
    "hypervolume_regret": 3.0,
    "model_loss": 0.005,
    "rare": 0.018,
    "round_time": 0.034,
    "share_error": 0.027,
    "utility": 0.2,
    "utility_per_second": 0.33,
}
"""Advantages over random that count as none: a tenth of what the worst of those gains that win by the same quantity
(docs/selectors.md), half of it for `rare`; of `model_loss`, by which nobody wins, a thirtieth of random's own."""


def advantage(outcome: Finding) -> float:
    """The largest advantage over random that the 95 % interval leaves open."""
    return -outcome.difference.low if outcome.claim.smaller_is_better else outcome.difference.high


def test_every_selector_but_random_has_evidence() -> None:
    assert {"random", *EVIDENCE} == set(enlist.names())
    assert set(EVIDENCE) >= OFTEN


@pytest.mark.parametrize(
    "selector", [pytest.param(name, marks=[] if name in OFTEN else pytest.mark.verify) for name in EVIDENCE]
)
def test_wins(selector: str) -> None:
    outcome = gather(selector, EVIDENCE[selector].wins, rounds=250, seeds=4)
    assert outcome.better, f"{outcome.claim}: {outcome.difference}"


@pytest.mark.verify
@pytest.mark.parametrize("selector", EVIDENCE)
def test_does_not_win(selector: str) -> None:
    outcome = gather(selector, EVIDENCE[selector].loses, rounds=250, seeds=8)
    assert not outcome.better, f"{outcome.claim}: {outcome.difference}"
    assert advantage(outcome) < NOTHING[outcome.claim.quantity], f"too few rounds to tell: {outcome.difference}"
