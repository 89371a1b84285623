"""A real browser for tests: opens a page as a reader does, and tells what happened there."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, Playwright, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
HINT = "no chromium was found, in which tests open pages: install it (on Debian: apt-get install chromium)."
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DRAWN = "[...document.querySelectorAll('[id^=chart]')].every(e => e.querySelector('svg') || e.textContent)"
SECONDS = 30


@dataclasses.dataclass
class Visit:
    """What happened while a page was open."""

    errors: list[str] = dataclasses.field(default_factory=list)
    """Errors in its console, those of scripts that were refused among them, and exceptions that nobody caught."""
    dialogs: list[str] = dataclasses.field(default_factory=list)
    """Dialogs and windows that it opened."""
    requests: list[str] = dataclasses.field(default_factory=list)
    """Addresses elsewhere that it asked for."""
    charts: int = 0
    """Charts that were drawn; of those that were not, `errors` tells."""
    found: Any = None
    """What `look` returned."""

    @property
    def quiet(self) -> bool:
        """Whether nothing happened that should not."""
        return not (self.errors or self.dialogs or self.requests)


class Browser:
    """Chromium, started once for many pages, in a thread of its own: Playwright occupies the loop of its thread."""

    def __init__(self) -> None:
        program = next(filter(None, map(shutil.which, NAMES)), None)
        if program is None:
            raise RuntimeError(HINT)
        self._thread = concurrent.futures.ThreadPoolExecutor(1)
        self._playwright, self._chromium = self._thread.submit(_start, program).result()

    def visit(
        self,
        page: Path | str,
        look: Callable[[Page], Any] | None = None,
        width: int = 1280,
        height: int = 900,
        *,
        wait: bool = True,
        dark: bool = False,
    ) -> Visit:
        """Open a file or an address, wait until its charts are drawn, and let `look` do what a reader would.

        Without `wait` it is `look` that waits. Then nothing is evaluated that a strict policy would refuse.
        """
        address = page.absolute().as_uri() if isinstance(page, Path) else page
        return self._thread.submit(_visit, self._chromium, address, look, (width, height), wait, dark).result()

    def close(self) -> None:
        self._thread.submit(self._chromium.close).result()
        self._thread.submit(self._playwright.stop).result()
        self._thread.shutdown()


def _start(program: str) -> tuple[Playwright, Chromium]:
    playwright = sync_playwright().start()
    return playwright, playwright.chromium.launch(executable_path=program, args=[*FLAGS])


def _visit(
    chromium: Chromium, address: str, look: Callable[[Page], Any] | None, size: tuple[int, int], wait: bool, dark: bool
) -> Visit:
    visit = Visit()
    scheme: Any = "dark" if dark else "light"
    context = chromium.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page = context.new_page()
    context.on("page", lambda other: visit.dialogs.append(f"window {other.url}"))
    page.on("dialog", lambda dialog: (visit.dialogs.append(f"{dialog.type} {dialog.message}"), dialog.dismiss()))
    page.on("console", lambda message: visit.errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: visit.errors.append(str(error)))
    page.on("request", lambda request: visit.requests.append(request.url) if _elsewhere(address, request.url) else None)
    try:
        page.goto(address)
        if wait:
            page.wait_for_function(DRAWN, timeout=1000 * SECONDS)
        visit.charts = page.locator("[id^=chart] svg.marks").count()
        visit.found = look(page) if look is not None else None
    finally:
        context.close()
    return visit


def _elsewhere(address: str, asked: str) -> bool:
    own, other = urlsplit(address), urlsplit(asked)
    if other.scheme in ("data", "blob"):
        return False
    return (own.scheme, own.netloc) != (other.scheme, other.netloc) or (own.scheme == "file" and own.path != other.path)
