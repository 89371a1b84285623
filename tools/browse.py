"""Opens the built site from disk in Chromium, and searches it:  python -m tools.browse build/site

Fails if a page asks for anything on the network, if its console has an error, or if a search finds nothing.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
PAGES = ("index.html", "selectors/oort.html", "layers.html", "reference/command-line.html")
SEARCH = {"deadline": "simulation", "pacer": "oort"}
"""What is typed, and a part of an address that must be among the results."""
RESULTS = ".md-search-result__link"
SECONDS = 60


def main(site: Path) -> None:
    """Open, look, search."""
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        raise SystemExit("No chromium was found. Install it (on Debian: apt-get install chromium).")
    wrong: list[str] = []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = chromium.new_page()
        page.set_default_timeout(SECONDS * 1000)
        page.on("request", lambda sent: wrong.append(f"asks for {sent.url}") if sent.url.startswith("http") else None)
        page.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        for name in PAGES:
            page.goto((site / name).resolve().as_uri())
        for words, expected in SEARCH.items():
            page.goto((site / "index.html").resolve().as_uri())
            page.locator("[data-md-component=search-query]").click()
            page.keyboard.type(words, delay=50)
            page.wait_for_selector(RESULTS)
            found = page.eval_on_selector_all(RESULTS, "links => links.map(link => link.href)")
            if not any(expected in address for address in found):
                wrong.append(f"a search for {words} finds {len(found)} places, none of them in {expected}")
        chromium.close()
    if wrong:
        raise SystemExit("\n".join(wrong))
    print(f"{len(PAGES)} pages open from disk, and search works")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
