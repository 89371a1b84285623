"""Verdicts: every kind of rule on both sides of its margin, with and without an interval."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enlist._internal.statistics import Summary
from enlist.studies.claims import (
    KINDS,
    NOT,
    PARTLY,
    REPRODUCED,
    UNTESTABLE,
    Verdict,
    alike,
    counted,
    greater,
    judge,
    leads,
    no_worse,
    read_further,
    shown,
    together,
)
from enlist.studies.example import COINS
from enlist.studies.results import Results

ALONE = Summary(0.05, math.nan, math.nan)


@pytest.mark.parametrize(
    ("mean", "low", "high", "kind"),
    [
        (0.03, 0.01, 0.05, REPRODUCED),
        (0.02, 0.001, 0.039, REPRODUCED),
        (0.015, 0.010, 0.019, PARTLY),  # certain, but too small to matter
        (0.03, -0.01, 0.07, PARTLY),  # neither 0 nor the margin is excluded
        (0.005, -0.003, 0.013, NOT),  # the margin is excluded
        (-0.001, -0.05, 0.05, NOT),
        (-0.03, -0.05, -0.01, NOT),
    ],
)
def test_greater(mean: float, low: float, high: float, kind: str) -> None:
    assert greater(Summary(mean, low, high), 0.02).kind == kind


@pytest.mark.parametrize(
    ("low", "high", "kind"),
    [(-0.01, 0.01, REPRODUCED), (-0.03, 0.01, PARTLY), (0.01, 0.05, PARTLY), (0.021, 0.05, NOT), (-0.05, -0.03, NOT)],
)
def test_alike(low: float, high: float, kind: str) -> None:
    assert alike(Summary((low + high) / 2, low, high), 0.02).kind == kind


@pytest.mark.parametrize(
    ("mean", "half", "kind"), [(0.0, 0.01, REPRODUCED), (-0.015, 0.01, PARTLY), (-0.025, 0.01, NOT)]
)
def test_no_worse(mean: float, half: float, kind: str) -> None:
    assert no_worse(Summary(mean, mean - half, mean + half), 0.02).kind == kind


@pytest.mark.parametrize(
    ("own", "lead", "kind"),
    [
        (0.75, Summary(0.05, 0.01, 0.09), REPRODUCED),
        (0.75, Summary(0.05, -0.01, 0.11), PARTLY),
        (0.68, Summary(-0.02, -0.05, 0.01), PARTLY),
        (0.69, Summary(-0.01, -0.015, -0.005), PARTLY),  # certainly worse, but by less than what matters
        (0.65, Summary(-0.05, -0.09, -0.01), NOT),
    ],
)
def test_leads(own: float, lead: Summary, kind: str) -> None:
    verdict = leads("it", {"it": own, "rival": 0.7, "last": 0.5}, {"rival": lead, "last": Summary(0.2, 0.1, 0.3)}, 0.02)
    assert verdict.kind == kind
    assert "against rival" in verdict.ours
    assert verdict.ours.startswith("1st of 3" if own > 0.7 else "2nd of 3")


def test_counted() -> None:
    kinds = [counted(Summary(mean, mean - 0.2, mean + 0.2), 0.9).kind for mean in (0.9, 0.8, 0.5)]
    assert kinds == [PARTLY, NOT, NOT]


def test_without_an_interval_nothing_is_certain() -> None:
    assert greater(ALONE, 0.01).kind == PARTLY
    assert alike(ALONE, 0.1).kind == PARTLY
    assert no_worse(ALONE, 0.1).kind == PARTLY
    assert leads("a", {"a": 0.7, "b": 0.65}, {"b": ALONE}, 0.01).kind == PARTLY
    assert "[" not in shown(ALONE)


def test_parts_of_a_claim() -> None:
    good, half, bad = (Verdict(kind, kind, "") for kind in (REPRODUCED, PARTLY, NOT))
    assert together({"a": good, "b": good}).kind == REPRODUCED
    assert together({"a": bad, "b": bad}).kind == NOT
    assert together({"a": good, "b": bad}).kind == together({"a": half, "b": bad}).kind == PARTLY


@pytest.mark.parametrize("kind", [REPRODUCED, PARTLY, NOT])
def test_parts_that_are_not_testable_do_not_count_and_are_named(kind: str) -> None:
    verdict = together({"a": Verdict(kind, "1", "so"), "b": Verdict(UNTESTABLE, "2", "too few seeds")})
    assert verdict.kind == kind
    assert verdict.why == "a: so; b (does not count: not testable here): too few seeds"
    assert verdict.brief == "a: 1; b (does not count: not testable here): 2"
    none = together({name: Verdict(UNTESTABLE, "2", "too few seeds") for name in "ab"})
    assert (none.kind, none.why) == (UNTESTABLE, "a, b: too few seeds")


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0.001, 0.5))
def test_rules_never_contradict_each_other(mean: float, half: float, margin: float) -> None:
    summary = Summary(mean, mean - half, mean + half)
    kinds = [rule(summary, margin).kind for rule in (greater, alike, no_worse)]
    assert set(kinds) <= set(KINDS)
    if kinds[0] == REPRODUCED:
        assert kinds[2] == REPRODUCED
    if kinds[1] == REPRODUCED:
        assert kinds[2] == REPRODUCED
    if kinds[2] == NOT:
        assert kinds[0] == NOT


def test_a_missing_experiment_makes_a_claim_untestable() -> None:
    judged = judge(COINS.claims[0], Results({}))
    assert judged.verdict.kind == UNTESTABLE
    assert "'bent'" in judged.verdict.why
    assert not judged.needs_further
    assert read_further(judged, Results({})).reading.startswith("The further experiment is missing")
