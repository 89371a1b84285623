"""The page: terms over time, and the table of clients, which can be sorted."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from enlist.report.page import write_page
from enlist.report.reasons import MOST_CLIENTS, reason_sections, term_rows
from enlist.report.runs import report_text
from enlist.runs.clients import by_client
from enlist.runs.example import example_run
from enlist.runs.tables import RunTables

if TYPE_CHECKING:
    from tests.browser import Browser


def tiny(**changes: object) -> RunTables:
    """Three clients in two rounds; client 5 was asked twice, late once, and its update arrived."""
    told = {
        "round": np.array([1, 1, 2, 2, 2]) * 1.0,
        "selected_in": np.array([1, 1, 2, 2, 1]) * 1.0,
        "client": np.array([4, 5, 5, 6, 5]) * 1.0,
        "outcome": np.array(["completed", "late", "completed", "dropped", "arrived"]),
        "loss": np.array([0.5, np.nan, 0.2, np.nan, 0.4]),
        "accuracy": np.full(5, np.nan),
        "latency": np.array([3.0, 9.0, 5.0, np.nan, 11.0]),
    }
    kept = {
        "round": np.array([1, 1, 2, 2]) * 1.0,
        "client": np.array([4, 5, 5, 6]) * 1.0,
        "mean": np.array([0.1, np.nan, 0.3, 0.7]),
    }
    run = example_run("oort", rounds=2)
    clients = {"client": np.array([4.0, 5.0, 6.0]), "num_examples": np.ones(3), "user": np.array(["<b>", "007", "9"])}
    return dataclasses.replace(run, participations=told, clients=clients, kept=kept, **changes)


def test_the_table_of_clients_by_hand() -> None:
    table = {name: values.tolist() for name, values in by_client(tiny()).items()}
    assert table["client"] == [4, 5, 6]
    assert table["selected"] == [1, 2, 1], "the update that arrived was asked for once"
    assert table["completed"] == [1, 1, 0]
    assert table["late"] == [0, 1, 0]
    np.testing.assert_allclose(table["loss"], [0.5, (0.2 + 0.4) / 2, np.nan])
    np.testing.assert_allclose(table["latency"], [3.0, (5.0 + 11.0) / 2, np.nan])  # 9 s is how long the server waited
    assert table["reward"] == [0.1, 0.3, 0.7], "the last that is known"
    assert "accuracy" not in table, "it was not measured"


def test_at_most_five_terms_and_120_points() -> None:
    rounds = np.repeat(np.arange(1.0, 1001.0), 2)
    terms = {f"t{number}": np.full(2000, float(number)) for number in range(7)}
    terms["t6"][::2] = 8.0
    run = dataclasses.replace(example_run("oort"), kept={"round": rounds, "client": rounds, **terms})
    rows = term_rows([run])
    assert list(dict.fromkeys(row["term"] for row in rows)) == ["t2", "t3", "t4", "t5", "t6"]
    assert {row["mean"] for row in rows if row["term"] == "t6"} == {7.0}, "the mean over those who were asked"
    assert len(rows) <= 5 * 120


def test_a_large_population_shows_those_asked_most() -> None:
    section, _ = reason_sections([example_run("random", clients=300, rounds=20, k=30)])[-1]
    assert len(section.table) == 1 + MOST_CLIENTS
    assert section.text.startswith("The 200 of 300 clients that were selected most often.")
    asked = [int(row[1]) for row in section.table[1:]]
    assert asked == sorted(asked, reverse=True)


def test_a_click_sorts(browser: Browser, tmp_path: Path) -> None:
    section, _ = reason_sections([tiny()])[-1]
    page = write_page(tmp_path / "page.html", "Title", "Lead", [section])

    def look(page: object) -> list[list[str]]:
        found = []
        for name in ("reward", "reward", "user", "mean latency (s)"):
            page.get_by_role("button", name=name).click()  # type: ignore[attr-defined]
            found.append(page.locator("td:nth-child(2)").all_inner_texts())  # type: ignore[attr-defined]
        return found

    visit = browser.visit(page, look)
    assert visit.quiet, visit
    assert visit.found[0] == ["9", "007", "<b>"], "the largest first"
    assert visit.found[1] == ["<b>", "007", "9"]
    assert visit.found[2] in (["<b>", "007", "9"], ["007", "9", "<b>"]), "as text: 007 before 9"
    assert visit.found[3] == ["007", "<b>", "9"], "what is not known is at the end"


def test_a_report_fits_a_phone(browser: Browser, tmp_path: Path) -> None:
    runs = [example_run(name, seed) for name in ("oort", "bsfl", "random") for seed in range(2)]
    page = tmp_path / "report.html"
    page.write_text(report_text(runs))
    visit = browser.visit(page, lambda page: page.evaluate("document.documentElement.scrollWidth"), width=390)
    assert visit.quiet, visit
    assert visit.charts > 6
    assert visit.found == 390
