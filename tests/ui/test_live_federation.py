"""The page in a real Chromium beside Flower: a federation that grows, Flower's own engine, a recorded deployment."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from enlist.runs.tables import read_run
from tests.ui.ui_helpers import SECONDS, Server, figures_of, table_of, until, whole

pytest.importorskip("flwr")
from tests.flower.deployment.live import fake_federation, flower_simulation

DEPLOYMENT = Path(__file__).parent / "deployment"
"""What `pytest -m verify tests/flower/deployment/test_buffered.py` left: a SuperLink and three SuperNodes, buffered."""
COUNTED = ("selected", "completed", "late", "dropped", "failed", "arrived")

FIRST_ROUND = """() => [...document.querySelectorAll('.part')].some(part =>
    part.querySelector('h2')?.textContent === 'Rounds' && part.querySelectorAll('tbody tr').length)"""


def followed(browser, folder, rounds=3, seconds=SECONDS):
    """Watch a federation until the page, which is never loaded again, has shown some rounds come; what it showed."""

    def look(page):
        until(page, FIRST_ROUND, seconds)
        page.evaluate("() => { window.same = true; }")
        shown, end = {}, time.monotonic() + seconds
        while len(shown) < rounds and time.monotonic() < end:
            lines = table_of(page, "Rounds")
            shown[int(lines[1][0])] = dict(zip(lines[0], lines[1], strict=True))
            page.wait_for_timeout(100)
        return shown, page.evaluate("() => window.same"), page.locator(".state .chip").inner_text(), figures_of(page)

    with Server(folder.parent) as client:
        visit = browser.visit(f"{client.base_url}/federation/{folder.parent.name}/{folder.name}", look, wait=False)
    assert visit.quiet, visit
    return visit.found


def check(folder, found, rounds=3):
    shown, same, state, figures = found
    assert same
    assert len(shown) >= rounds
    assert "running" in state
    assert {"nodes online", "selected", "late", "still busy", "lost", "refused", "doubted", "waited"} <= figures.keys()
    table = read_run(folder).rounds
    for number, row in shown.items():
        place = table["round"].tolist().index(number)
        assert {name: row[name] for name in COUNTED} == {name: f"{table[name][place]:.0f}" for name in COUNTED}


def test_it_follows_a_federation(browser, tmp_path):
    with fake_federation(tmp_path / "lab" / "clinic", rounds=10_000, seconds=0.6) as folder:
        found = followed(browser, folder)
    check(folder, found)


@pytest.mark.verify
def test_it_follows_flowers_own_engine(browser, tmp_path):
    with flower_simulation(tmp_path / "work", tmp_path / "lab" / "run", rounds=500) as folder:
        found = followed(browser, folder, seconds=300)
    check(folder, found)


def test_what_is_typed_stays_while_rounds_end(browser, tmp_path):
    def look(page):
        until(page, "() => document.querySelector('form.question')")
        page.get_by_label("Why was client").press_sequentially("clinic-1")
        first = figures_of(page)["rounds finished"]
        until(page, f"() => document.querySelector('dl.figures dd').textContent !== '{first}'")
        page.wait_for_timeout(300)
        page.keyboard.type("12")
        typed = page.get_by_label("Why was client").input_value()
        page.get_by_label("(not) chosen in round").fill("1")
        page.keyboard.press("Enter")
        until(page, "() => document.body.innerText.includes('(clinic-112) was ')")
        return typed, page.url

    with (
        fake_federation(tmp_path / "lab" / "clinic", rounds=10_000, seconds=0.6) as folder,
        Server(folder.parent) as page,
    ):
        visit = browser.visit(f"{page.base_url}/federation/lab/clinic", look, wait=False)
    assert visit.quiet, visit
    assert visit.found[0] == "clinic-112"
    assert visit.found[1].endswith("/client/lab/clinic?client=clinic-112&round=1")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_a_recorded_deployment_is_shown(browser, tmp_path, width, dark):
    shutil.copytree(DEPLOYMENT, tmp_path / "lab" / "hospital")
    run = read_run(tmp_path / "lab" / "hospital")

    def look(page):
        whole(page)
        lost = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
        return figures_of(page), table_of(page, "Rounds"), table_of(page, "Nodes"), page.inner_text("main"), lost

    with Server(tmp_path / "lab") as client:
        address = f"{client.base_url}/federation/lab/hospital"
        visit = browser.visit(address, look, width=width, wait=False, dark=dark)
        why = client.get("/data/client/lab/hospital?client=user:2&round=2").json()
        told = client.get("/metrics").text
    assert visit.quiet, visit
    figures, rounds, nodes, text, lost = visit.found
    assert (figures["rounds finished"], figures["nodes online"]) == ("5", "3")
    assert [int(row[0]) for row in rounds[1:]] == run.rounds["round"].astype(int).tolist()[::-1]
    assert sum(int(row[nodes[0].index("completed")]) for row in nodes[1:]) == run.rounds["completed"].sum()
    assert "It is finished after 5 rounds." in text
    assert "cannot be drawn" not in text
    assert lost == 0
    assert "Client 0 (2) was chosen" in why["parts"][0]["text"][1]
    assert 'enlist_rounds_total{run="lab/hospital",kind="federation",method="bsfl+alpha=3.0",seed="0"} 5' in told
