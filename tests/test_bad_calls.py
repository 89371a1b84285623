"""Whatever a selector is called with: it works, or an EnlistError says what is wrong and nothing has changed."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import enlist
from enlist import errors, storage
from enlist._internal import checks, importing
from enlist.books import Books
from enlist.clients import Clients
from enlist.contract import Selector
from enlist.errors import EnlistError, InputError, StateFileError
from enlist.records import Feedback, Outcome, RoundMetrics, Selection
from enlist.testing import feedback, population

HUGE = 10**400
NASTY: list[Any] = [
    math.inf, -math.inf, math.nan, 0, -1, 1, 1e200, -1e200, 1e-320, 2**31, 2**63, -(2**63) - 1, HUGE, -HUGE, 10**5000,
    True, None, "", "x" * 10**5, b"x", [], {}, [[]], [[1], [2, 3]], [HUGE], ["x"], [None], [True], {1: 2}, (1, 2), 1j,
    np.float32(2.5), np.array(3), np.zeros((2, 2)), np.array([1.5, 2.5]), np.array([0, 1], dtype=object), object(),
    range(3),
    [0, 1], [1, 0], [0, 0], [-1], [10**6], [2**63], np.array([True, False]), slice(None), math.sin,
]  # fmt: skip
COLUMNS = ("outcome", "latency", "censored", "rounds_late", "clients", "num_examples", "loss", "loss_rms", "accuracy")


def calls(selector: Selector[Any, Any], rng: np.random.Generator) -> list[Callable[[], Any]]:
    """Every public call, each with one argument, or two, that cannot be foreseen."""

    def nasty() -> Any:
        return NASTY[int(rng.integers(len(NASTY)))]

    def made_up() -> Any:
        kinds = (
            lambda: Selection(nasty(), nasty(), nasty(), nasty()),
            lambda: Selection(1, nasty()),
            lambda: Selection(nasty(), np.array([0, 1])),
            lambda: Selection(1, np.array([0, 1]), terms=nasty()),
            nasty,
        )
        return kinds[int(rng.integers(len(kinds)))]()

    def told() -> Any:
        names = [COLUMNS[int(rng.integers(len(COLUMNS)))] for _ in range(2)]
        return Feedback(**{name: nasty() for name in names})

    last = next(iter(selector.openings.values())).selection if selector.openings else Selection(1, np.array([0]))
    books = Books(selector)
    return [
        lambda: selector.ask(nasty(), 3),
        lambda: selector.ask(k=nasty()),
        lambda: selector.ask(k=3, now=nasty()),
        lambda: selector.ask(k=3, deadline=nasty()),
        lambda: selector.ask(k=3, forecast=nasty()),
        lambda: selector.ask(k=3, busy=nasty()),
        lambda: selector.ask(k=3, fresh=nasty()),
        lambda: selector.ask(k=3, fresh=told()),
        lambda: selector.tell(made_up(), feedback(last)),
        lambda: selector.tell(last, nasty()),
        lambda: selector.tell(last, told()),
        lambda: selector.tell(last, feedback(last), nasty()),
        lambda: selector.tell(last, feedback(last), RoundMetrics(accuracy=nasty(), loss=nasty(), duration=nasty())),
        lambda: selector.observe(nasty(), nasty()),
        lambda: selector.observe(None, nasty()),
        lambda: selector.join(nasty()),
        lambda: selector.join(Clients(count=nasty())),
        lambda: selector.join(Clients(ids=nasty(), num_examples=nasty())),
        lambda: selector.join(Clients(features=nasty(), quality=nasty(), expected_latency=nasty())),
        lambda: selector.compact(nasty()),
        lambda: selector.accept(nasty(), nasty()),
        lambda: selector.candidates(nasty(), nasty()),
        lambda: selector.explain(made_up()),
        lambda: type(selector)(selector.clients, seed=nasty()),
        lambda: type(selector)(selector.clients, max_open=nasty()),
        lambda: type(selector)(nasty()),
        lambda: books.ask(nasty(), nasty()),
        lambda: books.reply(made_up(), nasty(), latency=nasty()),
        lambda: books.reply(last, nasty(), latency=nasty(), loss=nasty()),
        lambda: books.settle(made_up(), told()),
        lambda: books.close(made_up(), waited=nasty()),
        lambda: books.arrived(made_up(), nasty(), rounds_late=nasty()),
        lambda: books.accept(nasty(), nasty()),
    ]


def refusal(call: Callable[[], Any]) -> str:
    """What an EnlistError says, or nothing if there is none; whatever else is raised goes on."""
    try:
        call()
    except EnlistError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", enlist.names())
def test_every_call_works_or_says_what_is_wrong(name: str) -> None:
    rng = np.random.default_rng(enlist.names().index(name))
    selector = enlist.create(name, population(12), seed=1)
    for number in range(20):
        if not number % 10:
            selector = enlist.create(name, population(12), seed=1)
        picked = selector.ask(k=3, deadline=10.0)
        selector.explain(picked)
        for place in range(len(calls(selector, rng))):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                said = refusal(calls(selector, rng)[place])
            assert len(said) < 2000


@pytest.mark.parametrize("name", enlist.names())
def test_settings_are_refused_or_work(name: str) -> None:
    kind = enlist.selectors.get(name)
    for field in getattr(kind.Settings, "__dataclass_fields__", {}):
        for value in NASTY:
            if callable(value):
                continue  # code of the user's own may raise what it likes
            try:
                selector = enlist.create(name, population(12), seed=1, **{field: value})
                for _ in range(3):
                    picked = selector.ask(k=3, deadline=10.0)
                    selector.tell(picked, feedback(picked), RoundMetrics(accuracy=0.5))
            except EnlistError:
                pass


def test_metrics_are_numbers() -> None:
    for value in (True, np.bool_(True), HUGE, math.inf, "0.5", [0.5], 1j, np.array([1.0, 2.0])):
        with pytest.raises(InputError, match=r"RoundMetrics\.accuracy is"):
            RoundMetrics(accuracy=value)
    assert RoundMetrics(accuracy=np.float32(0.5)).accuracy == 0.5


def test_numbers_too_large_for_a_float_are_refused() -> None:
    selector = enlist.create("refl", Clients(count=3))
    for arguments in ({"now": HUGE}, {"forecast": [0.5, HUGE, 0.5]}, {"deadline": HUGE}, {"k": HUGE}):
        with pytest.raises(InputError):
            selector.ask(**{"k": 2, **arguments})
    assert selector.round == 0
    with pytest.raises(InputError, match="cannot be read"):
        Feedback(loss=[HUGE])


def test_a_made_up_selection_is_refused() -> None:
    selector = enlist.create("random", Clients(count=5))
    selector.ask(k=2)
    for made_up in (Selection(1, np.array([99])), Selection("one", np.array([0])), Selection(1, [[1], [2, 3]])):  # type: ignore[arg-type]
        with pytest.raises(EnlistError):
            selector.tell(made_up, Feedback(outcome=[Outcome.COMPLETED]))
        with pytest.raises(EnlistError):
            selector.explain(made_up)


def test_ragged_arrivals_are_refused() -> None:
    selector = enlist.create("safa", Clients(count=5))
    books = enlist.Books(selector)
    books.ask(k=5)
    for accept in (selector.accept, books.accept):
        with pytest.raises(InputError, match="arrivals"):
            accept([[1], [2, 3]], 2)


def saved(folder: Path) -> dict[str, Any]:
    selector = enlist.create("oort", population(6), seed=1)
    selector.ask(k=2, deadline=10.0)
    selector.save(folder)
    document: dict[str, Any] = json.loads((folder / "state.json").read_text())
    return document


def rewritten(folder: Path, document: dict[str, Any]) -> None:
    """With a digest that fits, so that only what it says can be wrong."""
    document.pop("digest", None)
    document["digest"] = storage._digest(document)
    (folder / "state.json").write_text(json.dumps(document))


def test_a_state_of_anything_loads_or_says_what_is_wrong(tmp_path: Path) -> None:
    fresh = saved(tmp_path)
    plain = [value for value in NASTY if value is None or isinstance(value, bool | float | int | str | list)]
    for place in ("content", "arrays"):
        for key in fresh[place]:
            for value in [*plain, {}, {"a": 1}]:
                if (isinstance(value, int) and value.bit_length() > 10_000) or (
                    isinstance(value, list) and HUGE in value
                ):
                    continue
                rewritten(tmp_path, {**fresh, place: {**fresh[place], key: value}})
                refusal(lambda: enlist.load(tmp_path).ask(k=2, deadline=10.0))
            rewritten(tmp_path, {**fresh, place: {name: value for name, value in fresh[place].items() if name != key}})
            refusal(lambda: enlist.load(tmp_path))


def test_a_state_that_names_a_pipe_a_device_or_a_folder_is_refused(tmp_path: Path) -> None:
    document = saved(tmp_path)
    for name in ("../secret", "/dev/zero", "arrays-0000000000000000.npz", "arrays-1111111111111111.npz", "state.json"):
        if name.startswith("arrays-0"):
            os.mkfifo(tmp_path / name)
        elif name.startswith("arrays-1"):
            (tmp_path / name).mkdir()
        rewritten(tmp_path, {**document, "arrays": {**document["arrays"], "file": name}})
        with pytest.raises(StateFileError):
            enlist.load(tmp_path)
    (tmp_path / "state.json").unlink()
    os.mkfifo(tmp_path / "state.json")
    with pytest.raises(StateFileError, match="not a plain file"):
        enlist.load(tmp_path)


def test_deeply_nested_json_and_long_numbers_are_refused(tmp_path: Path) -> None:
    for text in ("[" * 100_000, "9" * 10_000, '{"a": ' * 50_000):
        (tmp_path / "state.json").write_text(text)
        with pytest.raises(StateFileError):
            enlist.load(tmp_path)


@pytest.mark.parametrize(
    ("given", "hint"), [("foo", ""), ("xyz", ""), ("orot", "oort"), ("Oort", "oort"), ("REFL", "refl"), ("kk", "")]
)
def test_a_name_is_suggested_only_if_it_is_near(given: str, hint: str) -> None:
    with pytest.raises(errors.UnknownNameError) as refused:
        enlist.create(given, enlist.Clients(count=3))
    assert (f"Did you mean '{hint}'?" in str(refused.value)) if hint else ("Did you mean" not in str(refused.value))
    assert "Known: afl" in str(refused.value)


def test_every_refusal_judges_nearness_alike() -> None:
    from enlist.simulation import Config

    for refused in (
        lambda: checks.one_of("late", "foo", ("oort", "food court")),
        lambda: Config(foo=1),
        lambda: Config(availability="foo"),
        lambda: importing.imported("json:foo", "an example"),
    ):
        with pytest.raises(errors.EnlistError) as told:
            refused()
        assert "Did you mean" not in str(told.value)
    with pytest.raises(errors.InputError, match="Did you mean 'availability'"):
        Config(avalability="diurnal")
