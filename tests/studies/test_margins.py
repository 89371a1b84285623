"""Margins of all studies: each has a reason, and the sentence of a claim shows it."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence

import pytest

from enlist import studies
from enlist.studies.margins import Margin, reasons
from enlist.studies.spreads import rules_of
from enlist.studies.study import SPREADS

MARGINS = ("margin", "limit", "least")


def margins(rule: object) -> Iterator[float]:
    for name, value in vars(rule).items() if dataclasses.is_dataclass(rule) else ():
        if name in MARGINS:
            yield value
        elif isinstance(value, Mapping | Sequence) and not isinstance(value, str):
            for part in value.values() if isinstance(value, Mapping) else value:
                yield from margins(part)
        else:
            yield from margins(value)


@pytest.mark.parametrize("name", studies.names())
def test_every_margin_has_a_reason(name: str) -> None:
    for claim in studies.get(name).claims:
        found = list(margins(claim.rule))
        assert all(isinstance(each, Margin) for each in found), claim.key
        assert bool(found) <= bool(reasons(claim.rule)), claim.key


@pytest.mark.parametrize("name", studies.names())
def test_a_reason_that_names_times_gives_four_fifths_of_them(name: str) -> None:
    # Of a ratio the margin is what is added to 1: it once stood as "3.4 times: four fifths of the paper's 3 times".
    for claim in studies.get(name).claims:
        for reason in reasons(claim.rule):
            said = re.fullmatch(r"([\d.]+) times: four fifths of the paper's ([\d.]+)(?: times)?", reason)
            assert said is None or float(said[1]) == pytest.approx(0.8 * float(said[2]), rel=0.01), claim.key


def test_every_spread_belongs_to_a_comparison() -> None:
    for name, spreads in json.loads(SPREADS.read_text()).items():
        assert set(spreads) <= set(rules_of(studies.get(name))), name
