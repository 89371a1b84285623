"""The page in a real Chromium: it follows a comparison to its end, shows every view, and nothing else happens."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from enlist.report.charts import DARK, NEUTRAL
from enlist.runs.comparing import comparison_rows
from enlist.runs.example import example_run, write_run
from enlist.runs.printing import comparison_table
from enlist.runs.tables import find_runs, read_run
from tests.hostile import SCRIPTS
from tests.ui.ui_helpers import SECONDS, Server, everything, table_of, until, whole

COMPARE = """
import sys, time
from pathlib import Path
from enlist.simulation import Config, compare
config = Config(data={"clients": 12}, rounds={"rounds": 40, "k": 4}, model="logistic")

def pace(*told):  # it waits for the browser, which may be slow to come, and then goes on slowly enough to be watched
    told_of.append(told)
    time.sleep(0.1)
    while len(told_of) > 10 and not Path(sys.argv[2]).exists():
        time.sleep(0.1)

told_of = []
compare(config, "oort,random", seeds=1, folder=sys.argv[1], tick=pace)
"""
VIEWS = (
    "/",
    "/run/all/single?round=5",
    "/compare?of=all/compared",
    "/client/all/single?client=19&round=5",
    "/federation/all/clinic",
    "/ladder/all/ladder",
    "/study/all/study",
    "/personal/all/personal/2/0",
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = everything(tmp_path_factory.mktemp("ui") / "all")
    import enlist.ladder.known as known

    (place / "ladder").mkdir()
    (place / "ladder" / "ladder.json").write_text((known.FOLDER / "ladder.json").read_text())
    (place / "ladder" / "results.csv").write_text((known.FOLDER / "development.csv").read_text())
    return place


@pytest.fixture(scope="module")
def server(folders):
    with Server(folders) as client:
        yield client


def test_it_follows_a_comparison_to_its_end(browser, tmp_path):
    place = tmp_path / "runs"
    place.mkdir()
    watched, seen = tmp_path / "watched", list[str]()

    def look(page):
        with subprocess.Popen([sys.executable, "-c", COMPARE, str(place / "compared"), str(watched)]) as running:
            page.get_by_role("link", name="runs/compared").first.click(timeout=3 * 1000 * SECONDS)
            until(page, "() => document.querySelector('[aria-label=Runs] tbody tr')")
            page.evaluate("() => { window.same = true; }")
            watched.touch()
            deadline = time.monotonic() + 2 * SECONDS
            while time.monotonic() < deadline:
                state = page.locator(".state").inner_text()
                listed = page.evaluate(
                    "() => [...document.querySelectorAll('[aria-label=Runs] tbody tr')].map(e => e.textContent).join()"
                )
                seen.append(f"{state.split()[-1] if state else ''} {listed}")
                if "2 of 2 finished" in page.locator("dl.figures").inner_text():
                    break
                page.wait_for_timeout(200)
            assert running.wait(SECONDS) == 0
        until(page, "() => document.querySelector('.state .chip')?.classList.contains('finished')")
        whole(page)
        return page.evaluate("() => window.same"), table_of(page, "Results"), page.locator(".chart svg").count()

    with Server(place) as client:
        visit = browser.visit(f"{client.base_url}/", look, wait=False)
    same, shown, charts = visit.found
    assert visit.quiet, visit
    assert same  # it was never loaded again
    assert len(set(seen)) > 3, set(seen)  # and showed the runs grow
    assert charts >= 6
    runs = [read_run(folder) for folder in find_runs([place])]
    assert shown == comparison_table(comparison_rows(runs))


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_drawn_and_nothing_else_happens(browser, server, view):
    def look(page):
        whole(page)
        return page.evaluate(
            """() => ({
            title: document.querySelector('h1').textContent, headings: document.querySelectorAll('h1').length,
            text: document.body.innerText, over: document.documentElement.scrollWidth - innerWidth,
            drawn: document.querySelectorAll('.chart svg').length,
            nameless: [...document.querySelectorAll('input, select, button, img, [role=img]')].filter(node =>
              !(node.getAttribute('aria-label') || node.getAttribute('alt') || node.labels?.length ||
                node.textContent.trim())).length,
            loose: [...document.querySelectorAll('thead th')].filter(cell => !cell.scope).length,
            skipped: document.querySelector('a.skip').getAttribute('href'),
            })"""
        )

    visit = browser.visit(f"{server.base_url}{view}", look, wait=False)
    assert visit.quiet, visit
    found = visit.found
    assert found["title"] not in ("…", "Not found")
    assert found["headings"] == 1
    assert "cannot be drawn" not in found["text"]
    assert "damaged" not in found["text"]
    assert found["drawn"] >= (0 if view == "/" or "study" in view else 1)
    assert (found["over"], found["nameless"], found["loose"]) == (0, 0, 0)
    assert found["skipped"] == "#main"


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_cut_off_on_a_phone_in_the_dark(browser, server, view):
    def look(page):
        whole(page)
        return page.evaluate(
            """() => [document.documentElement.scrollWidth - innerWidth,
            getComputedStyle(document.body).backgroundColor,
            [...document.querySelectorAll('.chart svg')].filter(svg =>
              svg.getBoundingClientRect().right > innerWidth + 1).length]"""
        )

    visit = browser.visit(f"{server.base_url}{view}", look, width=390, height=844, wait=False, dark=True)
    assert visit.quiet, visit
    assert visit.found == [0, "rgb(23, 28, 34)", 0]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_method_has_one_colour_in_overview_and_charts(browser, server, dark):
    def overview(page):
        until(page, "() => document.querySelectorAll('table.runs tbody tr .spark').length > 4")
        return page.evaluate(
            """() => Object.fromEntries([...document.querySelectorAll('table.runs tbody tr')].filter(row =>
              row.querySelector('.dot [fill]') && row.querySelector('.spark')).map(row =>
              [row.querySelector('[data-title=method]').textContent,
               [row.querySelector('.dot [fill]').getAttribute('fill'),
                row.querySelector('.spark').firstChild.getAttribute('stroke')]]))"""
        )

    def lines(page):
        until(page, "() => document.querySelector('[data-chart=accuracy-rounds] .mark-line path')")
        return page.evaluate(
            """() => [...document.querySelectorAll('[data-chart=accuracy-rounds] .mark-line path')].map(e =>
              e.getAttribute('stroke'))"""
        )

    shown = browser.visit(f"{server.base_url}/", overview, wait=False, dark=dark).found
    assert shown["random"] == [DARK[NEUTRAL["random"]] if dark else NEUTRAL["random"]] * 2
    for dot, spark in shown.values():
        assert dot == spark
        assert dot in (DARK.values() if dark else DARK.keys())
    drawn = browser.visit(f"{server.base_url}/compare?of=all/compared", lines, wait=False, dark=dark).found
    assert set(drawn) == {shown["oort"][0], shown["random"][0]}


def test_numbers_on_the_page_are_those_of_the_tables(browser, server, folders):
    def look(page):
        until(page, "() => document.querySelector('dl.figures div')")
        figures = page.evaluate(
            """() => Object.fromEntries([...document.querySelectorAll('dl.figures div')].map(e =>
              [e.children[0].textContent, e.children[1].textContent]))"""
        )
        return figures, table_of(page, "Rounds")

    figures, rounds = browser.visit(f"{server.base_url}/run/all/single", look, wait=False).found
    run = read_run(folders / "single")
    known = run.rounds["accuracy"][run.rounds["accuracy"] == run.rounds["accuracy"]]
    assert figures["last accuracy"] == f"{100 * known[-1]:.1f} %"
    assert figures["rounds"] == "12 of 12"
    assert rounds[1][0] == "12"
    column = rounds[0].index("completed")
    assert [int(row[column]) for row in rounds[1:]] == run.rounds["completed"].astype(int).tolist()[::-1]


def test_it_can_be_used_without_a_mouse(browser, server):
    def look(page):
        until(page, "() => document.querySelectorAll('table.runs tbody tr').length > 5")
        page.keyboard.press("/")
        page.keyboard.type("oort compared")
        until(page, "() => document.querySelectorAll('table.runs tbody tr').length === 2")
        page.get_by_label("Choose all/compared/runs/oort/0").focus()
        page.keyboard.press("Space")
        page.get_by_label("Choose all/compared/runs/oort/1").focus()
        page.keyboard.press("Space")
        address = page.evaluate("() => location.href")
        page.get_by_role("button", name="method").focus()
        page.keyboard.press("Enter")
        until(page, "() => document.querySelector('[aria-sort=ascending]').textContent === 'method'")
        page.get_by_role("button", name="Compare 2 chosen").focus()
        page.keyboard.press("Enter")
        until(page, "() => document.querySelector('h1')?.textContent.includes('and 1 more')")
        before = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        page.get_by_role("button", name="Switch between light and dark").focus()
        page.keyboard.press("Enter")
        after = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        page.reload()
        kept = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        return address, before, after, kept

    visit = browser.visit(f"{server.base_url}/", look, wait=False)
    assert visit.quiet, visit
    address, before, after, kept = visit.found
    assert "q=oort+compared" in address
    assert address.count("of=all") == 2
    assert before != after == kept


def test_parts_have_addresses_and_counts_are_filters(browser, server):
    def look(page):
        until(page, "() => document.querySelector('#counts [data-state=stalled]')")
        page.locator("#counts [data-state=stalled]").click()
        until(page, "() => document.querySelectorAll('table.runs tbody tr').length === 1")
        filtered = page.url, page.locator("#counts [data-state=stalled]").get_attribute("aria-pressed")
        page.goto(f"{server.base_url}/run/all/single#configuration")
        until(page, "() => document.querySelector('details#configuration')?.open")
        page.get_by_role("link", name="Rounds", exact=True).click()
        until(page, "() => Math.abs(document.getElementById('rounds').getBoundingClientRect().top - 60) < 20")
        names = page.evaluate("() => [...document.querySelectorAll('#parts > *')].map(each => each.id)")
        return filtered, page.url, names, page.locator("nav.contents a").count()

    visit = browser.visit(f"{server.base_url}/", look, wait=False)
    assert visit.quiet, visit
    (address, pressed), part, names, links = visit.found
    assert address.endswith("/?state=stalled")
    assert pressed == "true"
    assert part.endswith("/run/all/single#rounds")
    assert len(set(names)) == len(names) == links
    assert {"choice", "clients", "population"} < set(names)


def test_one_can_ask_why(browser, server):
    def look(page):
        until(page, "() => document.querySelector('form.question')")
        page.get_by_label("Why was client").fill("19")
        page.get_by_label("(not) chosen in round").fill("5")
        page.get_by_role("button", name="Ask").click()
        until(page, "() => document.body.innerText.includes('Client 19 was')")
        page.get_by_role("button", name="Next round").click()
        until(page, "() => document.body.innerText.includes('Round 6: bsfl selected')")
        later = page.url
        page.go_back()
        until(page, "() => document.body.innerText.includes('Round 5: bsfl selected')")
        return later

    visit = browser.visit(f"{server.base_url}/run/all/single", look, wait=False)
    assert visit.quiet, visit
    assert visit.found.endswith("/client/all/single?client=19&round=6")


def test_charts_tables_and_reports_can_be_kept(browser, server, tmp_path):
    def look(page):
        whole(page)
        page.evaluate("() => scrollTo(0, 0)")
        found = {}
        figure = page.locator("[data-chart=accuracy-time]")
        for name, button in (
            ("png", figure.get_by_role("button", name="PNG")),
            ("svg", figure.get_by_role("button", name="SVG")),
        ):
            with page.expect_download() as download:
                button.click()
            found[name] = download.value.path()
        for name, label in (("csv", "CSV: rounds"), ("html", "Make a report")):
            with page.expect_download(timeout=1000 * SECONDS) as download:
                page.get_by_role("link", name=label).click()
            found[name] = download.value.path()
        return {name: Path(path).read_bytes() for name, path in found.items()}

    visit = browser.visit(f"{server.base_url}/run/all/single", look, wait=False)
    assert visit.quiet, visit
    assert visit.found["png"].startswith(b"\x89PNG")
    assert b"<svg" in visit.found["svg"][:200]
    assert visit.found["csv"].startswith(b"round,")
    assert b"vegaEmbed" in visit.found["html"]


def test_hostile_names_do_nothing(browser, tmp_path):
    for number, name in enumerate(SCRIPTS):
        folder = write_run(example_run("oort", number, rounds=3), tmp_path / "all" / "runs" / str(number) / "0")
        config = json.loads((folder / "config.json").read_text())
        config["selector"] = {"name": "oort", "label": name}
        config["data"] = {"dataset": name}
        config[name] = name
        (folder / "config.json").write_text(json.dumps(config))
        clients = (folder / "clients.csv").read_text().splitlines()
        lines = [f"{clients[0]},user", *('{},"{}"'.format(line, name.replace('"', '""')) for line in clients[1:])]
        (folder / "clients.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "all" / "comparison.json").write_text("{}")

    def look(page):
        whole(page)
        return page.evaluate("() => [window.__pwned, document.body.innerText.length]")

    with Server(tmp_path / "all") as client:
        for view in ("/", "/compare?of=all", "/run/all/runs/0/0", "/client/all/runs/3/0?client=0"):
            visit = browser.visit(f"{client.base_url}{view}", look, wait=False)
            assert visit.quiet, (view, visit)
            assert visit.found[0] is None, view
            assert visit.found[1] > 200
