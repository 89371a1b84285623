"""Opens the built site from disk in Chromium, and searches it:  python -m tools.browse build/site [--screens DIR]

Fails if a page asks for anything on the network, if its console has an error, or if a search finds nothing. With
--screens, every page of the site must also fit into a phone's width, and pictures of some pages are written to look at:
on a desktop and on a phone, light and dark.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
PAGES = ("index.html", "selectors/oort.html", "layers.html", "reference/command-line.html")
SCREENS = (
    "index.html",
    "operating.html",
    "selectors/bsfl.html",
    "studies/bsfl/verdict.html",
    "reference/api/enlist.selectors.html",
    "ladder.html",
)
"""Pages of which pictures are taken: the start page, a guide, a selector, a verdict, the API and the ladder."""
WIDTHS = {"desktop": 1280, "phone": 390}
HEIGHT, TALLEST = 900, 2600
"""Of the window, and of a picture, in pixels."""
SEARCH = {"deadline": "simulation", "pacer": "oort"}
"""What is typed, and a part of an address that must be among the results."""
RESULTS = ".md-search-result__link"
SECONDS = 60
TOO_WIDE = """() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return null;
    const scrolls = element =>
        element && (getComputedStyle(element).overflowX !== "visible" || scrolls(element.parentElement));
    const wide = [...document.querySelectorAll("article *")].find(
        element => element.getBoundingClientRect().right > width + 1 && !scrolls(element.parentElement));
    return wide ? wide.outerHTML.slice(0, 120) : "something outside of the article";
}"""


def main() -> None:
    """Open, look, search."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path, help="the built site")
    parser.add_argument("--screens", type=Path, metavar="DIR", help="a folder for pictures of pages")
    given = parser.parse_args()
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        raise SystemExit("No chromium was found. Install it (on Debian: apt-get install chromium).")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        wrong = searched(chromium, given.site)
        if given.screens:
            wrong += overflowing(chromium, given.site) + pictured(chromium, given.site, given.screens)
        chromium.close()
    if wrong:
        raise SystemExit("\n".join(wrong))
    print(f"{len(PAGES)} pages open from disk, and search works")
    if given.screens:
        print(f"all pages fit into {WIDTHS['phone']} pixels; look at the pictures in {given.screens}")


def searched(chromium: Browser, site: Path) -> list[str]:
    """What is wrong with a few pages, and with searches."""
    wrong: list[str] = []
    page = chromium.new_page()
    page.set_default_timeout(SECONDS * 1000)
    page.on("request", lambda sent: wrong.append(f"asks for {sent.url}") if sent.url.startswith("http") else None)
    page.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    for name in PAGES:
        show(page, site, name)
    for words, expected in SEARCH.items():
        show(page, site, "index.html")
        page.locator("[data-md-component=search-query]").click()
        page.keyboard.type(words, delay=50)
        page.wait_for_selector(RESULTS)
        found = page.eval_on_selector_all(RESULTS, "links => links.map(link => link.href)")
        if not any(expected in address for address in found):
            wrong.append(f"a search for {words} finds {len(found)} places, none of them in {expected}")
    page.close()
    return wrong


def show(page: Page, site: Path, name: str) -> None:
    """Open a page from disk."""
    page.goto((site / name).resolve().as_uri())


def overflowing(chromium: Browser, site: Path) -> list[str]:
    """Pages that are wider than a phone, with what makes them so."""
    page = chromium.new_page(viewport={"width": WIDTHS["phone"], "height": HEIGHT})
    page.set_default_timeout(SECONDS * 1000)
    wrong = []
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site).as_posix()
        show(page, site, name)
        if found := page.evaluate(TOO_WIDE):
            wrong.append(f"{name} is wider than {WIDTHS['phone']} pixels: {found}")
    page.close()
    return wrong


def pictured(chromium: Browser, site: Path, folder: Path) -> list[str]:
    """Write the pictures, as NAME-desktop-light.png; returns pages that are not there."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [f"there is no {name} in {site}" for name in SCREENS if not (site / name).exists()]
    for size, width in WIDTHS.items():
        for scheme in ("light", "dark"):
            page = chromium.new_page(viewport={"width": width, "height": HEIGHT}, color_scheme=scheme)
            page.set_default_timeout(SECONDS * 1000)
            for name in SCREENS:
                if (site / name).exists():
                    show(page, site, name)
                    page.wait_for_load_state("networkidle")
                    tall = min(TALLEST, page.evaluate("document.documentElement.scrollHeight"))
                    picture = folder / f"{name.removesuffix('.html').replace('/', '-')}-{size}-{scheme}.png"
                    clip = {"x": 0, "y": 0, "width": width, "height": tall}
                    page.screenshot(path=picture, full_page=True, clip=clip, animations="disabled")  # type: ignore[arg-type]
            page.close()
    return missing


if __name__ == "__main__":
    main()
