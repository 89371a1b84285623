"""The page stays true when what it watches is killed and resumed, and when it is killed itself."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from enlist.runs.example import example_run, write_run
from enlist.runs.tables import read_run
from tests.simulation.simulation_helpers import assert_same
from tests.ui.ui_helpers import SECONDS, Server, table_of, until

RUN = """
import json, sys, time
from enlist.simulation import Callback, Config, simulate

class Pace(Callback):
    def on_round(self, simulation, record):
        time.sleep(pause if record.row["round"] < 5 else 60 * pause)

if __name__ == "__main__":
    pause = float(sys.argv[4])
    simulate(Config(**json.loads(sys.argv[1])), folder=sys.argv[2], resume=True, workers=int(sys.argv[3]),
             callbacks=[Pace()])
"""
SERVE = """
import sys
from pathlib import Path
from enlist.ui import serve
serve([Path(sys.argv[1])], port=int(sys.argv[2]))
"""
WORLD = (
    '"data": {"clients": 24, "partition": "dirichlet"}, "model": "logistic", "selector": "oort", "devices": "phones",'
    '"availability": {"kind": "diurnal", "sessions_per_day": 1000, "session_median": 20, "night_median": 0},'
    '"failures": {"crash": 0.15}, "training": {"steps": 3}, "evaluation": {"every": 3, "target": 0.2}'
)
ROUNDS = 24
PROTOCOLS = {
    "late feedback": '"k": 3, "over_commit": 2.0, "late": "merge", "max_lateness": 3, '
    '"deadline": {"kind": "moving-average", "factor": 1.5}',
    "buffered": '"protocol": "buffered", "concurrency": 6, "buffer": 2',
    "async": '"protocol": "async", "concurrency": 4',
}
COUNTED = ("selected", "completed", "late", "dropped", "failed", "arrived")


def started(terms: str, folder: Path, workers: int, pause: float) -> subprocess.Popen:
    """A run; with a pause it waits so long after its first rounds that it is not over before the page is there."""
    config = f'{{{WORLD}, "rounds": {{"rounds": {ROUNDS}, {terms}}}}}'
    return subprocess.Popen([sys.executable, "-c", RUN, config, str(folder), str(workers), str(pause)])


def rounds_in(folder: Path) -> int:
    try:
        return max((folder / "rounds.csv").read_bytes().count(b"\n") - 1, 0)
    except OSError:
        return 0


@pytest.mark.verify
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_run_that_is_killed_and_resumed_with_other_workers_is_followed(browser, tmp_path, protocol):
    terms, folder = PROTOCOLS[protocol], tmp_path / "lab" / "run"
    first = started(terms, folder, 0, 0.3)
    later: list[subprocess.Popen] = []

    def begun():
        end = time.monotonic() + 2 * SECONDS
        while rounds_in(folder) < 3:
            assert first.poll() is None
            assert time.monotonic() < end
            time.sleep(0.1)

    def look(page):
        chip = "() => document.querySelector('.state .chip')?.textContent ?? ''"
        until(page, f"() => ({chip})().includes('running')")
        page.evaluate("() => { window.same = true; }")
        first.kill()
        first.wait(60)
        until(page, f"() => ({chip})().includes('stalled')")
        stalled = page.locator(".state").inner_text()
        later.append(started(terms, folder, 2, 0.0))
        until(page, f"() => ({chip})().includes('finished')", 3 * SECONDS)
        until(page, f"() => document.querySelector('dl.figures dd').textContent === '{ROUNDS} of {ROUNDS}'")
        return stalled, table_of(page, "Rounds"), page.evaluate("() => window.same"), page.inner_text("main")

    try:
        begun()
        with Server(folder.parent) as client:
            visit = browser.visit(f"{client.base_url}/run/lab/run", look, wait=False)
            why = client.get(f"/data/run/lab/run?round={ROUNDS // 2}").json()
    finally:
        for process in (first, *later):
            process.kill()
            process.wait(60)
    assert visit.quiet, visit
    stalled, rounds, same, text = visit.found
    assert "no process is running it" in stalled
    assert same
    assert "cannot be drawn" not in text
    table = read_run(folder).rounds
    for row in rounds[1:]:
        place = table["round"].tolist().index(int(row[0]))
        shown = dict(zip(rounds[0], row, strict=True))
        assert {name: shown[name] for name in COUNTED} == {name: f"{table[name][place]:.0f}" for name in COUNTED}
    choice = next(part for part in why["parts"] if "and why" in part["heading"])
    assert f"Round {ROUNDS // 2}: oort selected " in choice["text"][0]
    whole = started(terms, tmp_path / "whole", 0, 0.0)
    assert whole.wait(3 * SECONDS) == 0
    assert_same(folder, tmp_path / "whole")


@pytest.mark.verify
def test_a_page_whose_server_was_killed_goes_on_when_there_is_one_again(browser, tmp_path):
    """The server is a process of its own that is killed; a new one takes its port, and the page its run again."""
    place = tmp_path / "lab"
    write_run(example_run("oort", 1, rounds=6), place / "first")
    with Server(place) as free:
        port = free.port
    command = [sys.executable, "-c", SERVE, str(place), str(port)]
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]
    address = f"http://127.0.0.1:{port}"

    def look(page):
        live = "() => document.getElementById('live').textContent"
        until(page, f"() => ({live})() === 'live'")
        running[0].kill()
        running[0].wait(60)
        until(page, f"() => ({live})() === 'not connected'")
        kept = page.inner_text("table.runs")
        write_run(example_run("bsfl", 2, rounds=6), place / "second")
        running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        until(page, f"() => ({live})() === 'live'")
        until(page, "() => document.querySelector('table.runs').innerText.includes('lab/second')")
        return kept

    try:
        end = time.monotonic() + SECONDS
        while True:
            try:
                httpx.get(f"{address}/health", trust_env=False)
                break
            except httpx.TransportError:
                assert time.monotonic() < end
                time.sleep(0.2)
        visit = browser.visit(address, look, wait=False)
    finally:
        for process in running:
            process.kill()
            process.wait(60)
    assert "lab/first" in visit.found
    assert not visit.requests
    assert all("Failed to load resource" in error for error in visit.errors), visit.errors
