"""Whatever things are called: the terminal gets text, markup is printed as it stands, and nothing ends the process."""

from __future__ import annotations

import dataclasses
import io
import sys
import unicodedata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn

import enlist.cli
from enlist._internal.text import printable
from enlist.cli import listing
from enlist.cli.compare import finish
from enlist.cli.console import Terminal, as_rich, say, shown
from enlist.cli.describe import client_tables, described
from enlist.cli.live import ComparisonProgress
from enlist.cli.personal_live import PersonalBar
from enlist.cli.report import report, show_personal
from enlist.data import Dataset, Samples
from enlist.errors import InputError
from enlist.personal.config import PersonalConfig as PersonalConfig
from enlist.personal.workers import Workers
from enlist.runs.example import example_run, write_run
from enlist.runs.personal_example import example_personal, write_personal
from enlist.simulation.config import Config
from enlist.streams import Streams
from tests.hostile import CONTROLS, MARKUP, NAMES

ALL = [*NAMES, "lone \ud800"]
FORBIDDEN = set("".join(CONTROLS.values())) - set("ab\nc2Jtxt.exe[") | {"\ud800"}


@pytest.fixture(autouse=True)
def _no_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages have tests of their own."""
    for module, name in (("runs", "write_report"), ("personal", "write_personal_report")):
        monkeypatch.setattr(f"enlist.report.{module}.{name}", lambda *given: Path("page.html"))


def paper(width: int = 4_000) -> Any:
    return Terminal(file=io.StringIO(), emoji=False, width=width)


def written(console: Any) -> str:
    text: str = console.file.getvalue()
    assert not FORBIDDEN & set(text)
    return text


@pytest.mark.parametrize("name", CONTROLS.values(), ids=CONTROLS)
def test_control_characters_are_written_out(name: str) -> None:
    clean = printable(name)
    assert clean.startswith("a\\")
    assert clean.isprintable()
    assert printable(clean) == clean


def test_text_that_can_be_printed_stays_as_it_is() -> None:
    for text in ("Zürich", "naïve café", "東京", "שלום", "👩‍🔬 🚴", "nb\u00a0sp", "می‌خواهم", "e\u0301", ""):
        assert printable(text) == text


def test_no_character_of_unicode_that_moves_or_hides_gets_through() -> None:
    hidden = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    for code in range(sys.maxunicode + 1):
        letter = chr(code)
        if unicodedata.category(letter) in hidden and letter not in "\u200c\u200d":
            assert printable(letter).isascii(), hex(code)


@pytest.mark.parametrize("most", [1, 2, 3, 10, 200])
def test_no_text_is_longer_than_asked_for(most: int) -> None:
    for text in (*ALL, "\x07" * 1_000, "\U0010ffff" * 300):
        assert len(printable(text, most)) <= most
    assert len(printable("x" * 10**6, None)) == 10**6


def test_names_that_differ_look_different() -> None:
    names = [*CONTROLS.values(), "ab", "a b"]
    assert len({printable(name) for name in names}) == len(names)


def test_cells_headers_and_titles_are_no_markup() -> None:
    console = paper()
    console.print(as_rich([["selector", "[/x]"], *([name, "[bold]1"] for name in ALL)], "Title [/x] \x1b[2J"))
    text = written(console)
    for name in MARKUP:
        assert name in text
    assert "Title [/x] \\x1b[2J" in text
    assert text.count("[bold]1") == len(ALL)


def test_lines_are_no_markup() -> None:
    console = paper()
    for name in ALL:
        say(console, ("failed:", "bold red"), f" {name}")
    text = written(console)
    for name in MARKUP:
        assert f"failed: {name}\n" in text


def test_the_console_sends_no_control_character_whatever_is_printed() -> None:
    colourful: Any = Terminal(file=io.StringIO(), force_terminal=True, width=200, color_system="standard")
    colourful.print("ring\x07", "clear \x1b[2J", "[bold]still bold[/]", "\x9b2J", "\u202eturned")
    with Progress(TextColumn("{task.description}", markup=False), console=colourful) as bar:
        bar.add_task("[/x] \x1b[2J")
    text = colourful.file.getvalue()
    assert "\x1b[1mstill bold" in text
    assert "[/x] \\x1" in text
    for sent in ("\x07", "\x1b[2J", "\x9b", "\u202e"):
        assert sent not in text


def test_errors_are_printed_as_they_stand(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise InputError(f"no worker is called '{''.join(ALL)}'; see [/x].")

    monkeypatch.setattr("enlist.cli.app.app", fail)
    with pytest.raises(SystemExit) as end:
        enlist.cli.main()
    assert end.value.code == 2
    text = capsys.readouterr().err
    assert text.startswith("error: no worker is called '")
    assert "see [/x]." in text
    assert not FORBIDDEN & set(text)


def test_the_table_of_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, name in enumerate(NAMES):
        run = example_run("oort", clients=4, rounds=2, k=2)
        write_run(dataclasses.replace(run, config={**run.config, "selector": {"name": name}}), tmp_path / f"{number}")
    report([tmp_path], title="[/x]\x07")
    text = capsys.readouterr().out
    assert not FORBIDDEN & set(text)
    for name in MARKUP:
        assert name in text


def test_the_table_of_personalised_learning(tmp_path: Path) -> None:
    run, name = example_personal(), "[/x]\x1b[2J\u202e"
    arms = {
        key: {**table, "arm": np.array([label.replace("2", name) for label in table["arm"]])}
        for key, table in (("rounds", run.rounds), ("arms", run.arms))
    }
    workers = run.workers | {"worker": np.array(["1", name, "3", "4"])}
    run = dataclasses.replace(run, config={**run.config, "target": name}, workers=workers, **arms)
    console = paper()
    show_personal(console, [write_personal(run, tmp_path / "run")], tmp_path / "report", "[/x]")
    assert "For worker [/x]\\x1b[2J\\u202e the combination" in written(console)


def test_classes_of_clients() -> None:
    labels = np.array(ALL)[:24]
    people, columns, _ = described(Config(data={"clients": 3}, model="logistic"))
    counts = np.ones((3, len(labels)), dtype=np.int64)
    people = dataclasses.replace(people, class_names=tuple(map(str, labels)), counts=counts)
    for width in (10_000, 200, 60):
        console = paper(width)
        for part in client_tables(people, columns, width):
            console.print(part)
        written(console)


def test_failures_and_bars_of_a_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    console = paper()
    jobs = [SimpleNamespace(key=(name, 0), config=Config()) for name in ALL]
    comparison: Any = SimpleNamespace(runs=list, folder=lambda *given: Path(), jobs=lambda: jobs)
    ended: Any = SimpleNamespace(failed={(name, 0): f"{name} [/y]" for name in ALL}, finished={})
    with pytest.raises(BaseException, match="1"):
        finish(console, comparison, ended, Path(), None, "t")
    assert written(console).count("[/y]") == len(ALL)
    seen: Any = Terminal(file=io.StringIO(), force_terminal=True, width=200)
    view = ComparisonProgress(seen, comparison)
    with view.progress:
        for name in ALL:
            view.tick(name, 0, {"status": "running", "rounds": 1})
    text = seen.file.getvalue()
    assert "[/x]" in text
    assert "\x1b[2J" not in text
    assert "\x07" not in text


def test_the_bar_of_personalised_learning() -> None:
    console: Any = Terminal(file=io.StringIO(), force_terminal=True, width=200)
    bar = PersonalBar(console, PersonalConfig(), seeds=1)
    state: dict[str, Any] = {"target": "[/x]\x1b[2J", "stage": "local", "targets": 1, "ended": 0, "share": 0.5}
    state |= {"metric": "auc", "score": 0.5, "arm": "[/y]\x07+[/x]", "messages": 3}
    with bar.progress:
        bar.show(0, state)
    text = console.file.getvalue()
    assert "worker [/x]\\x1b[2J" in text
    assert "kept [/y]\\x07+[/x]" in text
    assert "\x07" not in text


def test_selectors_in_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    def unusable(name: str) -> Any:
        raise InputError(f"{name} [/x]")

    monkeypatch.setattr(listing, "names", lambda: ALL)
    monkeypatch.setattr(listing, "get", unusable)
    console = paper()
    console.print(listing.selectors())
    assert written(console).count("cannot be used") == len(ALL)


def test_a_worker_whose_name_no_table_can_hold_is_refused() -> None:
    for name in ("carriage\rreturn", "lone \ud800"):
        users = np.array(["a"] * 10 + [name] * 10)
        samples = Samples(np.zeros((20, 1)), np.tile([0, 1], 10), users)
        with pytest.raises(InputError, match=r"cannot be written into a table.*give it another"):
            Workers.of(Dataset("mine", samples, Samples(samples.x, samples.y), 2), Streams(1))


def test_shown_is_what_rich_prints() -> None:
    for name in (*MARKUP, *ALL):
        console = paper(20_000)
        console.print(shown(name, 100), highlight=False)
        assert written(console) == f"{printable(name, 100, keep=chr(10))}\n"
    assert isinstance(paper(), Console)
