"""The sources of the documentation site:  python -m tools.site [--output build/docs]

Copies docs/, adds the pages that are made from code and measurements, turns links to files outside docs/ into pages,
and writes build/mkdocs.yml from mkdocs.yml with the generated pages in the navigation. `make docs` then builds the
site, and `python -m tools.site --finish build/site` makes it independent of the network.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from base64 import b64decode
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from tools import reference, selector_pages

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
DOCS = ROOT / "docs"
ABOUT = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
"""Pages of the repository's root that are part of the site."""
LANGUAGES = {".toml": "toml", ".sh": "bash", ".py": "python", ".yml": "yaml", ".json": "json", ".cff": "yaml"}
REMOTE_WORKER, OWN_WORKER = "https://unpkg.com/iframe-worker/shim", "offline-worker.js"
"""What the generator loads so that search works without a server, and what stands in the site for it."""
LINK = re.compile(r"(?<=\]\()([^)#\s]+)(#[^)\s]*)?(?=\))")


def assemble(output: Path) -> None:
    """Write all sources of the site into an empty folder."""
    shutil.rmtree(output, ignore_errors=True)
    shutil.copytree(DOCS, output, ignore=shutil.ignore_patterns("selectors.md", "*.ipynb"))
    for name in ABOUT:
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, output / name.lower().replace("_", "-"))
    for path in sorted((ROOT / "examples").rglob("*")):
        if path.is_file() and path.suffix in {".md", *LANGUAGES}:
            write(output / page_of(path), path.read_text(encoding="utf-8") if path.suffix == ".md" else listing(path))
    for path in sorted((DOCS / "notebooks").glob("*.ipynb")):
        write(output / "notebooks" / f"{path.stem}.md", notebook(path, output / "notebooks"))
    for name, text in selector_pages.pages(DOCS).items():
        write(output / "selectors" / name, linked(text))
    for name, text in reference.api(SOURCE).items():
        write(output / "reference" / "api" / name, text)
    write(output / "reference" / "command-line.md", linked(reference.command_line(), "../"))
    simulation = (DOCS / "simulation.md").read_text(encoding="utf-8")
    write(output / "reference" / "run-folder.md", reference.run_folder(SOURCE, simulation))
    for path in sorted(output.rglob("*.md")):
        relink(path, output)


def write(path: Path, text: str) -> None:
    """Write a page, and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def page_of(path: Path) -> PurePosixPath:
    """Where a file of the repository stands in the site.

    >>> str(page_of(ROOT / "examples" / "quickstart.toml"))
    'examples/quickstart-toml.md'
    """
    place = PurePosixPath(path.relative_to(ROOT).as_posix())
    if place.suffix == ".md":
        return place
    return place.with_name(place.name.replace(".", "-") + ".md")


def listing(path: Path) -> str:
    """A page that shows one file."""
    name = path.relative_to(ROOT).as_posix()
    return f"# {name}\n\n````{LANGUAGES[path.suffix]}\n{path.read_text(encoding='utf-8')}````\n"


def notebook(path: Path, folder: Path) -> str:
    """A notebook with its outputs, as a page; pictures become files beside it."""
    parts = []
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [shown(output, folder / f"{path.stem}-{number}.png") for output in cell.get("outputs", [])]
    return "\n\n".join(parts) + "\n"


def shown(output: dict[str, Any], picture: Path) -> str:
    """One output of a cell: a picture if there is one, otherwise its text."""
    data = output.get("data", {})
    if "image/png" in data:
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(b64decode("".join(data["image/png"])))
        return f"![Output of the cell above]({picture.name})"
    text = "".join(output.get("text") or data.get("text/plain", ""))
    return f"```text\n{text.rstrip()}\n```"


def linked(text: str, up: str = "../") -> str:
    """Names of pages in docstrings, such as docs/tempo.md, become links.

    >>> linked("measured in docs/tempo.md.")
    'measured in [docs/tempo.md](../tempo.md).'
    """
    return re.sub(r"(?<![\w\[`/(])docs/([\w-]+)\.md", rf"[docs/\1.md]({up}\1.md)", text)


def relink(path: Path, output: Path) -> None:
    """Point links of a page at where things are in the site."""
    here = path.relative_to(output).parent
    origin = Path() if path.name in {name.lower().replace("_", "-") for name in ABOUT} else Path("docs") / here
    if here.parts[:1] == ("examples",):
        origin = here

    def target(found: re.Match[str]) -> str:
        link, anchor = found[1], found[2] or ""
        if "://" in link or link.startswith("mailto:"):
            return found[0]
        place = Path(os.path.normpath(origin / link))
        if place == Path("docs/selectors.md"):
            name = anchor.removeprefix("#")
            special = not (output / "selectors" / f"{name}.md").exists()
            place, anchor = (Path("selectors/index.md"), anchor) if special else (Path(f"selectors/{name}.md"), "")
        elif place.parts[:1] == ("docs",):
            place = Path(*place.parts[1:])
            place = place.with_suffix(".md") if place.suffix == ".ipynb" else place
        elif place.parts[:1] == ("examples",):
            place = Path(page_of(ROOT / place))
        elif place == Path("README.md"):
            place = Path("index.md")
        elif place.name in ABOUT:
            place = Path(place.name.lower().replace("_", "-"))
        else:
            return found[0]
        return Path(os.path.relpath(place, here)).as_posix() + anchor

    text = path.read_text(encoding="utf-8")
    pieces = re.split(r"(^(?:`{3,}).*?^`{3,}$)", text, flags=re.S | re.M)  # links in code are no links
    pieces[::2] = [drawn(LINK.sub(target, piece), path) for piece in pieces[::2]]
    path.write_text("".join(pieces), encoding="utf-8")


def drawn(text: str, page: Path) -> str:
    """Put drawings into the page itself, where they follow its light or dark theme."""

    def inline(found: re.Match[str]) -> str:
        source = (page.parent / found[2]).read_text(encoding="utf-8")
        source = re.sub(r"<\?xml.*?\?>\s*|\n\s*", lambda blank: "" if "xml" in blank[0] else " ", source)
        return f'<figure class="drawing">{source.strip()}</figure>'

    return re.sub(r"^!\[([^\]]*)\]\(([^)]*drawings/[\w-]+\.svg)\)$", inline, text, flags=re.M)


def configuration(output: Path) -> dict[str, Any]:
    """mkdocs.yml with the generated pages in its navigation: an entry "folder/*" stands for all pages of a folder."""
    settings: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    order = {f"{name}.md": place for place, name in enumerate(["index", *selector_pages.enlist.names()])}
    order |= {f"{name}.md": place for place, name in enumerate(reference.MODULES, start=1)}

    def expanded(entry: Any) -> list[Any]:
        if isinstance(entry, dict):
            ((title, below),) = entry.items()
            return [{title: below if isinstance(below, str) else [one for part in below for one in expanded(part)]}]
        if not entry.endswith("/*"):
            return [entry]
        folder = output / entry.removesuffix("/*")
        names = sorted(
            (path.name for path in folder.glob("*.md")), key=lambda name: (order.get(name, len(order)), name)
        )
        return [f"{entry.removesuffix('*')}{name}" for name in names]

    settings["nav"] = [one for entry in settings["nav"] for one in expanded(entry)]
    return settings


def unlisted(settings: dict[str, Any], output: Path) -> list[str]:
    """Pages that the navigation does not lead to; listings of examples are reached from the pages about them."""

    def walk(entry: Any) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        return [page for part in (entry.values() if isinstance(entry, dict) else entry) for page in walk(part)]

    there = {path.relative_to(output).as_posix() for path in output.rglob("*.md")}
    hidden = {page for page in there if page.startswith("examples/")}
    return sorted(there - hidden - set(walk(settings["nav"])))


def finish(site: Path) -> list[str]:
    """Let pages load nothing from the network; returns those that still would."""
    wrong = []
    for page in sorted(site.rglob("*.html")):
        own = Path(os.path.relpath(site / OWN_WORKER, page.parent)).as_posix()
        text = page.read_text(encoding="utf-8").replace(REMOTE_WORKER, own)
        page.write_text(text, encoding="utf-8")
        loaded = re.findall(
            r"""<(?:script|img|iframe)\b[^>]*\bsrc=["'](?:https?:)?//[^"']+|<link\b[^>]*stylesheet[^>]*https?://[^"']+""",
            text,
        )
        wrong += [f"{page.relative_to(site)}: {found}" for found in loaded]
    return wrong


def main() -> None:
    """Write the sources; complain about what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "docs")
    parser.add_argument("--finish", type=Path, metavar="SITE", help="mend a site that was built")
    options = parser.parse_args()
    if options.finish:
        wrong = [f"loaded from the network: {found}" for found in finish(options.finish)]
        sys.exit("\n".join(wrong) if wrong else 0)
    assemble(options.output)
    settings = configuration(options.output)
    text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    (options.output.parent / "mkdocs.yml").write_text(text, encoding="utf-8")
    wrong = [f"no docstring: {name}" for name in reference.undocumented(SOURCE)]
    wrong += [f"not in the navigation of mkdocs.yml: {page}" for page in unlisted(settings, options.output)]
    sys.exit("\n".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()
