"""Each selector beats random where it should, and does not where nothing can be gained (fewer rounds than the docs)."""

from __future__ import annotations

import pytest

import enlist
from enlist.arena.evidence import EVIDENCE, gather

OFTEN = {"tempo"}
"""Those whose evidence is gathered with every `make test`; the others come with `make verify`."""


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
    outcome = gather(selector, EVIDENCE[selector].loses, rounds=250, seeds=4)
    assert not outcome.better, f"{outcome.claim}: {outcome.difference}"
