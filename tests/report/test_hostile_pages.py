"""Whatever things are called: every page shows it as text, in a real browser, and draws all its charts."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from enlist import arena
from enlist.arena import Tournament
from enlist.cli.arena import publish as publish_arena
from enlist.cli.describe import describe
from enlist.cli.profile import publish as publish_profile
from enlist.report.charts import save
from enlist.report.page import Section, write_page
from enlist.report.personal import write_personal_report
from enlist.report.regret import regret_chart
from enlist.report.runs import write_report
from enlist.runs.example import example_run, write_run
from enlist.runs.personal import read_personal
from enlist.runs.personal_example import example_personal, write_personal
from enlist.runs.tables import read_run
from enlist.simulation import Config
from enlist.simulation.profile import profile, scores
from enlist.studies.example import COINS
from enlist.studies.running import Reproduction
from enlist.studies.writing import write
from tests.browser import Browser, Visit
from tests.hostile import CONTROLS, NAMES, ODD, SCRIPTS, SET

SHOWN = f"<img src=x onerror={SET}>"


@pytest.fixture
def _no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures in files have a test of their own."""
    for module in ("charts", "page"):
        monkeypatch.setattr(f"enlist.report.{module}.save", lambda chart, stem, suffixes=(): [])


def seen(browser: Browser, path: Path, look: Any = None) -> Visit:
    """Open a page; nothing may have happened there but drawing."""
    visit = browser.visit(
        path, look or (lambda page: [page.evaluate("typeof window.__pwned"), page.inner_text("body")])
    )
    assert visit.quiet, visit
    assert visit.charts == path.read_text(encoding="utf-8").count(" data-chart=") > 0
    if look is None:
        assert visit.found[0] == "undefined"
        assert "cannot be drawn" not in visit.found[1]
    return visit


@pytest.mark.usefixtures("_no_files")
def test_a_comparison_whose_selectors_are_called_anything(browser: Browser, tmp_path: Path) -> None:
    runs = []
    for number, name in enumerate((SHOWN, SCRIPTS[0], "".join(SCRIPTS), "".join(CONTROLS.values()), *ODD)):
        run = example_run("oort", clients=6, rounds=4, k=2)
        reasons = np.resize(np.array(NAMES), len(run.participations["round"]))
        run = dataclasses.replace(
            run,
            config={**run.config, "selector": {"name": name}},
            participations=run.participations | {"reason": reasons},
        )
        runs.append(read_run(write_run(run, tmp_path / f"{number}")))
    assert len({run.selector for run in runs}) == len(runs)
    visit = seen(browser, write_report(runs, tmp_path / "report", SCRIPTS[0]))
    assert SHOWN in visit.found[1]
    assert "\x07" not in visit.found[1]


@pytest.mark.usefixtures("_no_files")
def test_names_joined_at_random_stay_text(browser: Browser, tmp_path: Path) -> None:
    """Two hundred names of dangerous pieces, as titles, texts, cells and series of one page."""
    luck = random.Random(20)
    pieces = [*SCRIPTS, *CONTROLS.values(), "</", "<!--", "-->", "script>", "'", '"', "\\", "&", ";", "}", "]]>", "\n"]
    names = ["".join(luck.choices(pieces, k=luck.randint(2, 6))) for _ in range(200)]
    rows = [{"selector": name, "round": at, "mean": at, "low": 0, "high": 2} for name in names[:20] for at in (0, 1)]
    sections = [
        Section(names[0], names[1], [[name, name] for name in names], [regret_chart(rows, names[2])], names[3]),
        *(Section(name, name, note=name) for name in names),
    ]
    page = write_page(tmp_path / "page.html", names[4], names[5], sections)
    seen(browser, page)


@pytest.mark.usefixtures("_no_files")
def test_a_federation_in_the_shadow(browser: Browser, tmp_path: Path) -> None:
    run = example_run("oort", clients=12)
    ids = np.resize(np.array(SCRIPTS), run.count)
    run = dataclasses.replace(
        run,
        config={"selector": SHOWN, "strategy": SCRIPTS[0], "seed": 0},
        clients=run.clients | {"id": ids, "node": run.clients["client"]},
    )
    folder = write_run(run, tmp_path / "run")
    lines = [f"{number},{client},1,{client % 2},completed,2.5" for number in (1, 2) for client in range(12)]
    (folder / "shadow.csv").write_text("\n".join(["round,client,asked,wanted,outcome,latency", *lines, ""]))
    visit = seen(browser, write_report([read_run(folder)], tmp_path / "report", "A federation"))
    assert f"{SHOWN} in shadow mode" in visit.found[1]


@pytest.mark.usefixtures("_no_files")
def test_data_whose_classes_are_called_anything(
    browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = np.array([*SCRIPTS, "".join(CONTROLS.values()), "lone \ud800", "[/x]", "[bold]"])
    y = np.tile(labels, 30)
    np.savez(tmp_path / "data.npz", x=np.zeros((len(y), 2)), y=y)
    config = tmp_path / "a.toml"
    config.write_text(
        f'[data]\nclients = 4\npartition = {{kind = "dirichlet", alpha = 0.05}}\n'
        f'dataset = {{name = "file", path = "{tmp_path}/data.npz"}}\n'
        '[model]\nname = "logistic"\n'
    )
    describe(config, None, tmp_path / "out")
    assert SET in seen(browser, tmp_path / "out" / "report.html").found[1]
    assert not set("\x07\x1b\x00\x9b\u202e") & set(capsys.readouterr().out)


@pytest.mark.usefixtures("_no_files")
def test_workers_who_are_called_anything(browser: Browser, tmp_path: Path) -> None:
    names = {"1": SCRIPTS[0], "2": SHOWN, "3": SCRIPTS[2], "4": "bell\x07"}
    runs = []
    for target in ("2", "3"):
        run = example_personal()
        called = lambda label: "+".join(names[part] for part in label.split("+"))  # noqa: E731
        run = dataclasses.replace(
            run,
            config={**run.config, "target": names[target]},
            rounds=run.rounds | {"arm": np.array([called(label) for label in run.rounds["arm"]])},
            arms=run.arms | {"arm": np.array([called(label) for label in run.arms["arm"]])},
            workers=run.workers | {"worker": np.array(list(names.values())), "poison": np.array(["", "", "", SHOWN])},
            result={**(run.result or {}), "metric": SHOWN},
        )
        runs.append(read_personal(write_personal(run, tmp_path / target)))
    visit = seen(browser, write_personal_report(runs, tmp_path / "report", SCRIPTS[1]))
    assert f"Worker {SHOWN}:" in visit.found[1]


@pytest.mark.usefixtures("_no_files")
def test_an_arena_whose_selectors_are_called_anything(browser: Browser, tmp_path: Path) -> None:
    called = dict(zip(SCRIPTS, ("random", "genie", "oort"), strict=False))
    settings = Tournament(called, "alike", clients=6, k=2, rounds=4, seeds=2)
    seen(browser, publish_arena(tmp_path / "arena", SCRIPTS[3], [(settings, arena.compare(settings))]))


@pytest.mark.usefixtures("_no_files")
def test_a_profile_of_anything(browser: Browser, tmp_path: Path) -> None:
    config = Config(data={"clients": 3}, model="logistic")
    measured = dataclasses.replace(profile(config, [8, 32], rounds=1), machine=SHOWN)
    (tmp_path / "profile").mkdir()
    page = publish_profile(tmp_path / "profile", config, measured, scores(measured.rows), SCRIPTS[0])
    assert SHOWN in seen(browser, page).found[1]


def test_a_study_that_says_anything(browser: Browser, tmp_path: Path) -> None:
    claim = dataclasses.replace(COINS.claims[0], title=SHOWN, text=SCRIPTS[0], paper=SCRIPTS[2])
    study = dataclasses.replace(COINS, title=SCRIPTS[0], reference=SHOWN, about=SCRIPTS[4], claims=(claim,))
    with Reproduction.open(study, study.scale("smoke"), tmp_path / "study") as work:
        work.run()
        page = write(work, SCRIPTS[0], jobs=1)
    assert SHOWN in seen(browser, page).found[1]


def rows(names: Any) -> list[dict[str, Any]]:
    return [
        {
            "selector": name,
            "round": step,
            "mean": float(step + place),
            "low": step + place - 0.1,
            "high": step + place + 0.1,
        }
        for place, name in enumerate(names)
        for step in (1, 2, 3)
    ]


def test_tooltips_show_names_as_text_and_the_legend_singles_out(browser: Browser, tmp_path: Path) -> None:
    page = write_page(
        tmp_path / "page.html", "T", "L", [Section("S", charts=[regret_chart(rows([SHOWN, "b"]), "Regret")])]
    )

    def look(page: Page) -> Any:
        middle = page.locator("g.mark-line path").first.evaluate(
            "e => { const p = e.getPointAtLength(e.getTotalLength() / 2).matrixTransform(e.getScreenCTM());"
            " return [p.x, p.y]; }"
        )
        page.mouse.move(*middle)
        page.wait_for_selector("#vg-tooltip-element.visible")
        tooltip = page.inner_text("#vg-tooltip-element")
        images = page.locator("#vg-tooltip-element img").count()
        before = page.locator("g.mark-line path").nth(1).get_attribute("opacity")
        page.locator("g.role-legend-symbol path").first.click()
        page.wait_for_selector("g.mark-line path[opacity='0.08']")
        after = page.locator("g.mark-line path").nth(1).get_attribute("opacity")
        return tooltip, images, page.evaluate("typeof window.__pwned"), before, after

    tooltip, images, pwned, before, after = seen(browser, page, look).found
    assert SHOWN in tooltip
    assert (images, pwned) == (0, "undefined")
    assert (before, after) == ("1", "0.08")


def test_the_policy_stops_what_gets_in_all_the_same(browser: Browser, tmp_path: Path) -> None:
    page = write_page(tmp_path / "page.html", "T", "L", [Section("S", charts=[regret_chart(rows("ab"), "Regret")])])

    def look(page: Page) -> Any:
        page.evaluate(
            f"""() => {{
            document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="{SET}"><iframe src="https://a.example">');
            const script = document.createElement('script');
            script.textContent = '{SET}';
            document.body.append(script);
            fetch('https://b.example').catch(() => 0);
        }}"""
        )
        page.wait_for_timeout(200)
        return page.evaluate("typeof window.__pwned")

    visit = browser.visit(page, look)
    assert visit.found == "undefined"
    assert len([error for error in visit.errors if "Content Security Policy" in error]) >= 4
    assert [asked for asked in visit.requests if "example" in asked] == []


def test_pictures_of_charts_whose_series_are_called_anything(browser: Browser, tmp_path: Path) -> None:
    chart = regret_chart(rows([*NAMES, "lone \ud800"]), SCRIPTS[0])
    paths = save(chart, tmp_path / "a.b")
    assert [path.name for path in paths] == ["a.b.png", "a.b.svg", "a.b.html"]
    seen(browser, paths[-1])
