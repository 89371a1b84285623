"""The sources of the documentation site: complete, with links that lead somewhere, and with code that runs."""

from __future__ import annotations

import doctest
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("yaml", reason="the site is made with PyYAML, which the extra docs brings")

from typer.testing import CliRunner

import enlist
from enlist.cli.app import app
from tools import reference, selector_pages, site

START = ("install.md", "first-comparison.md", "first-selector.md", "asynchronous.md")


@pytest.mark.parametrize("module", [reference, selector_pages, site])
def test_examples_of_the_tools(module: ModuleType) -> None:
    assert doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed == 0


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site") / "docs"
    site.assemble(place)
    return place


def test_every_selector_has_a_page_with_all_its_parts(sources: Path) -> None:
    for name in enlist.names():
        text = (sources / "selectors" / f"{name}.md").read_text(encoding="utf-8")
        parts = re.findall(r"^## (.*)$", text, flags=re.M)
        assert [part for part in parts if part != "Differences from the paper"] == [
            "What it computes",
            "Settings",
            "Evidence",
            "On the ladder",
            "In code",
        ], name
        kind = enlist.selectors.get(name)
        for setting in getattr(kind.Settings, "__dataclass_fields__", {}):
            assert f"| `{setting}` |" in text, f"{name}: {setting}"
        for preset in kind.presets:
            assert f"Preset `{preset}`" in text, f"{name}: {preset}"
        paper = re.search(r"^\* \*\*Paper:\*\* (.*)$", text, flags=re.M)
        assert paper is not None, name
        assert name == "tempo" or re.search(r", .*\b20\d\d\b", paper[1]), f"{name}: authors, title and year"
        assert "paper\n\n(" not in text, f"{name}: a section begins within brackets"


def test_the_page_of_a_selector_quotes_the_measurements(sources: Path) -> None:
    """The numbers of Oort, found by hand in the pages that the benchmarks write."""
    text = (sources / "selectors" / "oort.md").read_text(encoding="utf-8")
    ladder = (site.DOCS / "ladder.md").read_text(encoding="utf-8")
    standing = re.search(r"^\| oort \| (\S+ \[[^\]]+\]) \|", ladder, flags=re.M)
    assert standing is not None
    assert f"{standing[1]} times as fast as random" in text
    assert text.count("| wins |") >= 1
    assert text.count("| does not |") >= 1
    assert "sqrt(0.1 ln t / last_i)" in text


def test_links_lead_to_pages_and_headings(sources: Path) -> None:
    broken = []
    for page in sorted(sources.rglob("*.md")):
        text = re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
        for link, _ in re.findall(r"\]\(([^)#\s]*)(#[^)\s]+)?\)", re.sub(r"`[^`\n]*`", "", text)):
            if "://" in link or link.startswith("mailto:"):
                continue
            target = (page.parent / link).resolve() if link else page
            if not target.exists():
                broken.append(f"{page.relative_to(sources)}: {link}")
    assert not broken


def test_the_navigation_leads_to_every_page(sources: Path) -> None:
    settings = site.configuration(sources)
    assert site.unlisted(settings, sources) == []
    listed = re.findall(r"'([\w/.-]+\.md)'", repr(settings["nav"]))
    assert [page for page in listed if not (sources / page).exists()] == []
    (sources / "forgotten.md").write_text("# Forgotten\n", encoding="utf-8")
    try:
        assert site.unlisted(settings, sources) == ["forgotten.md"]
    finally:
        (sources / "forgotten.md").unlink()


def test_every_public_name_is_documented(tmp_path: Path) -> None:
    assert reference.undocumented(site.SOURCE) == []
    module = tmp_path / "enlist" / "bandits" / "__init__.py"
    module.parent.mkdir(parents=True)
    module.write_text('"""Bandits."""\n\ndef silent(): pass\n', encoding="utf-8")
    assert reference.undocumented(tmp_path) == ["enlist.bandits.silent"]


def test_the_reference_lists_every_command_and_option(sources: Path) -> None:
    text = (sources / "reference" / "command-line.md").read_text(encoding="utf-8")
    for command in app.registered_commands:
        name = command.name or command.callback.__name__  # type: ignore[union-attr]
        assert f"## enlist {name}\n" in text
    assert "`--seeds`" in text
    assert not re.search(r"Sentinel|--help` \||\[/|\|  \|$", text, flags=re.M), "marks of a terminal, or no meaning"
    folder = (sources / "reference" / "run-folder.md").read_text(encoding="utf-8")
    for column in ("accuracy", "latency", "outcome"):
        assert f"| `{column}` |" in folder


def test_a_page_that_loads_from_the_network_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "good.html").write_text('<a href="https://example.org">x</a><script src="own.js"></script>')
    (tmp_path / "a" / "search.html").write_text(f'<script src="{site.REMOTE_WORKER}"></script>')
    assert site.finish(tmp_path) == []
    assert 'src="../offline-worker.js"' in (tmp_path / "a" / "search.html").read_text()
    (tmp_path / "bad.html").write_text('<script src="https://example.org/x.js"></script>')
    assert [found.partition(":")[0] for found in site.finish(tmp_path)] == ["bad.html"]


@pytest.mark.parametrize("page", START)
def test_code_of_the_first_pages_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands there, only shorter: one seed, few rounds."""
    text = (site.DOCS / page).read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("enlist.report.runs.write_report", lambda runs, place, *rest, **more: place)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    codes = re.findall(r"```python\n(.*?)```", text, flags=re.S)
    assert codes or page == "first-comparison.md"
    if page == "first-selector.md":
        (tmp_path / "mine.py").write_text(codes[0], encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "mine", raising=False)
    for code in codes:
        exec(code.replace("seeds=5", "seeds=2").replace('"rounds": 30', '"rounds": 2'), namespace)
    if page == "first-selector.md":
        assert set(namespace["result"].pairs("mine", "oort")) == {"speed_up", "final"}


@pytest.mark.parametrize("words", [["--version"], ["list", "selectors"]])
def test_commands_of_the_page_on_installing_run(words: list[str]) -> None:
    """tests/test_pages.py checks the arguments of all others."""
    assert f"\nenlist {' '.join(words)}\n" in (site.DOCS / "install.md").read_text(encoding="utf-8")
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
