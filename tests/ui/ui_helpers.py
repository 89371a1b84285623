"""What tests of the page share: folders of every kind, written in a moment."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import threading
import time
from pathlib import Path

import httpx
import uvicorn
from playwright.sync_api import Error

from enlist.runs.example import example_run, write_run
from enlist.runs.personal_example import example_personal, write_personal
from enlist.ui import create_app
from enlist.ui.server import listen

SECONDS = 60
DRAWN = """() => [...document.querySelectorAll('.chart')].every(chart =>
    chart.closest('details:not([open])') || !chart.textContent.includes('Drawing'))"""
SAVED = Path(__file__).parents[1] / "saved" / "0.1"


def comparison(place: Path, methods=("oort", "random"), seeds=2, **settings) -> Path:
    """A finished comparison, as `enlist compare` leaves it."""
    for method in methods:
        for seed in range(seeds):
            write_run(example_run(method, seed, **settings), place / "runs" / method / str(seed))
    header = {"selectors": list(methods), "first_seed": 0, "seeds": seeds, "methods": {}, "config": {}}
    (place / "comparison.json").write_text(json.dumps(header))
    return place


def unfinished(folder: Path, method: str = "oort", seed: int = 0, rounds: int = 8, of: int = 8, **settings) -> Path:
    """A run of which only the first rounds were written."""
    run = example_run(method, seed, rounds=of, **settings)
    told = run.participations["round"] <= rounds
    part = dataclasses.replace(
        run,
        rounds={name: column[:rounds] for name, column in run.rounds.items()},
        participations={name: column[told] for name, column in run.participations.items()},
        kept=None if run.kept is None else {name: column[told] for name, column in run.kept.items()},
        result=None,
        config={**run.config, "rounds": {"rounds": of}},
    )
    return write_run(part, folder)


def federation(place: Path) -> Path:
    """A federation that a version before this one has recorded, with events and a start added."""
    shutil.copytree(SAVED / "federation", place)
    (place / "events.csv").write_text(
        "round,time,kind,node,client,text\n"
        "2,3.5,refused,13,2,its reply holds no model\n"
        '3,6.1,doubted,14,3,"claims 1,000 samples after 10"\n'
    )
    (place / "starts.csv").write_text("date,time,round,what\n2026-11-17 03:00:00,0.0,0,started\n")
    return place


def everything(place: Path) -> Path:
    """One folder of each kind."""
    comparison(place / "compared")
    write_run(example_run("bsfl", 7, clients=30, rounds=12), place / "single")
    federation(place / "clinic")
    write_personal(example_personal(), place / "personal" / "2" / "0")
    shutil.copytree(SAVED / "study", place / "study")
    return place


class Server(httpx.Client):
    """A real server on a free port of this machine, and a client that asks it."""

    def __init__(self, *roots: Path, host: str = "127.0.0.1", **settings) -> None:
        self.socket = listen("127.0.0.1", 0)
        self.port = self.socket.getsockname()[1]
        self.app = create_app(roots, host=host, port=self.port, **settings)
        config = uvicorn.Config(
            self.app, log_level="warning", access_log=False, ws="none", timeout_graceful_shutdown=1, server_header=False
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()
        super().__init__(base_url=f"http://127.0.0.1:{self.port}", timeout=60, trust_env=False)

    @property
    def application(self):
        return self.app.state.application

    def health(self):
        return self.get("/health").json()

    def close(self) -> None:
        super().close()
        self.server.should_exit = True
        self.thread.join(20)
        self.socket.close()

    def __exit__(self, *failure) -> None:
        super().__exit__(*failure)
        self.close()


def until(page, expression, seconds=SECONDS):
    """Wait until a function of the page is true; in a way that its policy allows."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(Error):  # the page may be about to become another
            if page.evaluate(expression):
                return
        page.wait_for_timeout(100)
    raise AssertionError(f"{expression} is not true after {seconds} s")


def whole(page):
    """Scroll through the page, so that every chart is drawn."""
    until(page, "() => document.querySelector('#parts .part, table.runs tbody tr')")
    for _ in range(40):
        bottom = page.evaluate(
            """() => { scrollBy({top: 700, behavior: 'instant'});
            return scrollY + innerHeight >= document.body.scrollHeight - 2; }"""
        )
        page.wait_for_timeout(60)
        if bottom:
            break
    until(page, DRAWN)


def table_of(page, heading):
    return page.evaluate(
        """heading => {
        const part = [...document.querySelectorAll('.part')].find(part =>
          part.querySelector('h2').textContent === heading);
        return [...part.querySelectorAll('tr')].map(row => [...row.cells].map(cell => cell.textContent)); }""",
        heading,
    )


def figures_of(page):
    """Names and values of the figures that stand first."""
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll('dl.figures div')].map(e =>
          [e.children[0].textContent, e.children[1].textContent]))"""
    )
