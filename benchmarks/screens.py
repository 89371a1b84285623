"""Pictures of every view of the live page, at two widths and in two themes, to be looked at.

    python -m benchmarks.screens build/screens             all views; needs Chromium (Playwright) and the extra `ui`
    python -m benchmarks.screens build/screens run study   only these
    python -m benchmarks.screens --docs                    the two pictures of docs/ui.md

It simulates a comparison on the quickstart's federation, writes a folder of every other kind, serves them, and takes a
picture of each view as far as it goes down.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright

import enlist.ladder.known as known
from enlist.runs.personal_example import example_personal, write_personal
from enlist.simulation import compare
from enlist.simulation.config import load
from enlist.ui import create_app

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "examples" / "quickstart.toml"
METHODS = "random,tempo,oort"
SEEDS = 3
WIDTHS = (1280, 390)
THEMES = ("light", "dark")
COMPARED = "all/compared"
VIEWS = {
    "runs": "/",
    "run": f"/run/{COMPARED}/runs/tempo/0",
    "compare": f"/compare?of={COMPARED}",
    "client": f"/client/{COMPARED}/runs/tempo/0?client=7",
    "federation": "/federation/all/hospital",
    "ladder": "/ladder/all/ladder",
    "study": "/study/all/darts",
    "personal": "/personal/all/personal/2/0",
}
"""Name of a picture -> address."""
DOCUMENTED = {"ui-comparison": ("compare", "light", 1285), "ui-run": ("run", "dark", 0)}
"""Picture of docs/ -> view, theme, and the height that is shown; 0 is the part on the last choice."""
DRAWN = """() => [...document.querySelectorAll('.chart')].every(chart =>
    chart.closest('details:not([open])') || !chart.textContent.includes('Drawing'))"""
SECONDS = 180.0


def fill(place: Path) -> None:
    """A comparison, a recorded deployment, a ladder, a study and personalised learning."""
    compare(load(CONFIG), METHODS, seeds=SEEDS, folder=place / "compared")
    shutil.copytree(ROOT / "tests" / "ui" / "deployment", place / "hospital")
    shutil.copytree(ROOT / "docs" / "studies" / "darts", place / "darts")
    write_personal(example_personal(), place / "personal" / "2" / "0")
    (place / "ladder").mkdir()
    shutil.copy(known.FOLDER / "ladder.json", place / "ladder")
    shutil.copy(known.known_file(published=True), place / "ladder" / "results.csv")


@contextmanager
def served(place: Path) -> Iterator[str]:
    """A server of a folder on a free port; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        app = create_app([place], port=port)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                httpx.get(f"{address}/health", trust_env=False)
                break
            except httpx.HTTPError:
                time.sleep(0.1)
        try:
            yield address
        finally:
            server.should_exit = True
            thread.join(20)


def drawn(page: Page) -> None:
    """Scroll through a page until all its charts are drawn."""
    end = time.monotonic() + SECONDS
    while not page.evaluate("() => document.querySelector('#parts .part, table.runs tbody tr')"):
        if time.monotonic() > end:
            raise TimeoutError(f"{page.url} shows nothing after {SECONDS:.0f} s")
        page.wait_for_timeout(200)
    for top in range(0, page.evaluate("() => document.body.scrollHeight") + 4_000, 600):
        page.evaluate("top => scrollTo({top, behavior: 'instant'})", top)
        page.wait_for_timeout(60)
    while not page.evaluate(DRAWN) and time.monotonic() < end:
        page.wait_for_timeout(200)
    page.evaluate("() => scrollTo({top: 0, behavior: 'instant'})")
    page.wait_for_timeout(300)


@contextmanager
def opened(browser: Browser, address: str, width: int, theme: str) -> Iterator[Page]:
    """A page with everything drawn."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)  # type: ignore[arg-type]
    try:
        page = context.new_page()
        page.goto(address)
        drawn(page)
        yield page
    finally:
        context.close()


def pictures(browser: Browser, address: str, place: Path, views: Sequence[str]) -> None:
    """Every view, width and theme as a file in `place`."""
    place.mkdir(parents=True, exist_ok=True)
    for name in views:
        for width in WIDTHS:
            for theme in THEMES:
                with opened(browser, address + VIEWS[name], width, theme) as page:
                    path = place / f"{name}-{width}-{theme}.png"
                    page.screenshot(path=path, full_page=True)
                    over = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
                print(path, "wider than the window" if over else "", flush=True)


def documented(browser: Browser, address: str) -> None:
    """The two pictures of docs/ui.md."""
    for name, (view, theme, height) in DOCUMENTED.items():
        with opened(browser, address + VIEWS[view], 1280, theme) as page:
            clip = {"x": 0, "y": 0, "width": 1280, "height": height}
            if not height:  # from the heading of the last choice to where the next part begins
                box = page.evaluate(
                    """() => { const part = [...document.querySelectorAll('.part')].find(part =>
                      part.querySelector('h2').textContent.startsWith('Clients selected in round'));
                      const {top, height} = part.getBoundingClientRect(); return [top + scrollY, height]; }"""
                )
                clip = {"x": 0, "y": box[0], "width": 1280, "height": box[1] + 12}
            page.screenshot(path=ROOT / "docs" / f"{name}.png", full_page=True, clip=clip)  # type: ignore[arg-type]


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", type=Path, nargs="?", help="folder of the pictures")
    parser.add_argument("views", nargs="*", help=f"some of {', '.join(VIEWS)}; all by default")
    parser.add_argument("--docs", action="store_true", help="write the pictures of docs/ui.md")
    parser.add_argument("--folder", type=Path, help="keep what is shown here, and use it again")
    given = parser.parse_args()
    if unknown := [name for name in given.views if name not in VIEWS]:
        sys.exit(f"there is no view {unknown[0]}; there are {', '.join(VIEWS)}.")
    if given.place is None and not given.docs:
        sys.exit("name a folder for the pictures, or give --docs.")
    with tempfile.TemporaryDirectory() as scratch:
        root = (given.folder or Path(scratch)) / "all"
        if not root.exists():
            fill(root)
        with served(root) as address, sync_playwright() as playwright:
            path = shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            if given.place is not None:
                pictures(browser, address, given.place, given.views or list(VIEWS))
            if given.docs:
                documented(browser, address)
            browser.close()


if __name__ == "__main__":
    main()
