"""Every setting of every selector is documented: its type, its default, and what it means."""

from __future__ import annotations

import dataclasses
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import enlist
from benchmarks.evidence import parameters, settings
from enlist import selectors

KINDS = {"float": (float, int), "int": (int,), "bool": (bool,), "str": (str,)}


@pytest.mark.parametrize("name", selectors.BUILT_IN)
def test_every_setting_is_documented_as_it_is(name: str) -> None:
    kind = selectors.get(name)
    fields = {field.name: field.default for field in dataclasses.fields(kind.Settings)}
    documented = parameters(kind.Settings)
    assert [entry[0] for entry in documented] == list(fields)
    for parameter, what, default, meaning in documented:
        expected = fields[parameter]
        assert default == (json.dumps(expected) if isinstance(expected, str) else repr(expected)), parameter
        assert meaning.endswith(".")
        assert meaning[0].isupper() or meaning[0] in '"`'
        assert (expected is None) <= what.endswith("or None")
        if what.startswith("{"):
            allowed = json.loads(f"[{what[1:].partition('}')[0]}]")
            assert expected in allowed
            for value in allowed:
                extra: dict[str, Any] = {"rounds": 10} if value == "late" else {}
                kind.Settings(**{parameter: value}, **extra)
        elif expected is not None:
            assert isinstance(expected, KINDS[what.split()[0]]), parameter


@pytest.mark.parametrize("name", selectors.BUILT_IN)
def test_the_page_of_selectors_says_the_same(name: str) -> None:
    page = (Path(__file__).parents[1] / "docs" / "selectors.md").read_text(encoding="utf-8")
    assert settings(selectors.get(name)) in page


def test_a_notebook_completes_and_explains_settings() -> None:
    shown = inspect.signature(enlist.selectors.Oort.with_)
    assert shown.parameters["penalty"].default == 2.0
    assert {each.kind for each in shown.parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    assert "penalty : float, default 2.0" in (enlist.selectors.Oort.with_.__doc__ or "")


def test_a_class_of_ones_own_gets_the_same() -> None:
    @dataclasses.dataclass(frozen=True)
    class LuckSettings:
        """Settings of `luck`."""

        luck: float = 0.5

    class Lucky(enlist.Selector[LuckSettings, Any]):
        Settings = LuckSettings

    assert list(inspect.signature(Lucky.with_).parameters) == ["luck"]
    assert Lucky.with_(luck=0.1).settings == {"luck": 0.1}
    with pytest.raises(enlist.EnlistError, match="no parameter called 'lack'"):
        Lucky.with_(lack=0.1)
