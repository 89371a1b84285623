"""What a study leaves in its folder: tables, figures, the page, the verdicts, and all settings."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from enlist import storage
from enlist._internal import files
from enlist.errors import InputError
from enlist.report.charts import specification, unchecked
from enlist.report.library import VEGA_LITE
from enlist.report.page import Section, write_page
from enlist.runs.printing import duration, plural
from enlist.studies.claims import JudgedClaim
from enlist.studies.drawing import draw
from enlist.studies.running import Reproduction
from enlist.studies.setting import setting_rows
from enlist.studies.study import Experiment, Figure, Study, Table, rules_digest
from enlist.studies.verdicts import further_text, headline, kind_of, table_cells, verdict_text


def write(work: Reproduction, command: str, jobs: int) -> Path:
    """Write everything that a study says, from what its experiments gave; returns the page's path.

    tables/*.csv, figures/*.png and *.svg, report.html (interactive, opens offline), verdict.md, settings.json.

    >>> import tempfile
    >>> from enlist.studies.example import COINS
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Reproduction.open(COINS, COINS.scale("smoke"), folder) as work:
    ...         work.run()
    ...         page = write(work, "enlist reproduce coins --scale smoke", jobs=1)
    ...     sorted(path.name for path in page.parent.iterdir() if path.name in ("figures", "tables", "verdict.md"))
    ['figures', 'tables', 'verdict.md']
    """
    study, results = work.study, work.results()
    with unchecked():
        figures = study.figures(results)
        charts = {each.name: specification(each.chart) for each in figures}
    tables = study.tables(results)
    facts = settings_of(work, command, jobs)
    with work.folder.writing():
        for name in ("tables", "figures"):
            files.make_folder(work.root, name)
        for table in tables:
            storage.replace(work.root / "tables" / f"{table.name}.csv", csv_text(table).encode())
        draw([(chart, work.root / "figures" / name) for name, chart in charts.items()], VEGA_LITE, jobs)
        text = verdict_text(study, facts, work.judged, figures, tables)
        storage.replace(work.root / "verdict.md", text.encode())
        storage.replace(work.root / "settings.json", (json.dumps(facts, indent=1) + "\n").encode())
        sections = _sections(study, facts, work.judged, figures, charts, tables)
        return write_page(work.root / "report.html", study.title, f"{study.reference}. {study.about}", sections)


VERSIONS = ("python", "platform", "packages")
"""What of environment.json goes into settings.json, which says the command and the seeds itself."""


def settings_of(work: Reproduction, command: str, jobs: int) -> dict[str, Any]:
    """All settings and seeds, versions, duration and command: what is needed to do it again.

    >>> import tempfile
    >>> from enlist.studies.example import COINS
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Reproduction.open(COINS, COINS.scale("smoke"), folder) as work:
    ...         work.run()
    ...         settings_of(work, "enlist reproduce coins", 1)["experiments"]["bent"]
    {'settings': {'p': 0.6, 'tosses': 20}, 'seeds': [0, 1, 2]}
    """
    environment = json.loads(files.read(work.root / "environment.json"))
    return {
        "study": work.study.name,
        "title": work.study.title,
        "reference": work.study.reference,
        "command": command,
        "scale": work.scale.name,
        "seeds": work.scale.seeds,
        "first_seed": min(each.seed for each in work.experiments),
        "extras": list(work.scale.extras),
        "settings": dict(work.scale.settings),
        "jobs": jobs,
        "wall_seconds": round(work.wall(), 1),
        "computed_seconds": round(sum(output.seconds for output in work.outputs.values()), 1),
        **{name: environment[name] for name in VERSIONS if name in environment},
        "rules": _rules(work),
        "failed": {f"{key}/{seed}": reason for (key, seed), reason in work.failed.items()},
        "experiments": _by_key(work.experiments),
        "further": _by_key(work.further),
    }


def _rules(work: Reproduction) -> dict[str, Any]:
    """Digest of the rules that judged, of those before the first experiment, and the claims whose rule changed."""
    now, start = work.study.rules(), work.rules_at_start()
    changed = [] if start is None else [key for key in now if start.get(key) != now[key]]
    return {"digest": rules_digest(now), "at_start": start and rules_digest(start), "changed": changed}


def csv_text(table: Table) -> str:
    """A table as CSV; names keep their bytes, as in the tables of runs (`runs.tables` says why).

    >>> csv_text(Table("scores", "Scores", [{"rule": "ucb", "auc": 0.71234}, {"rule": "fixed", "auc": None}]))
    'rule,auc\\nucb,0.71234\\nfixed,\\n'
    """
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, table.columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table.rows)
    return buffer.getvalue()


def publish(root: str | PathLike[str], place: str | PathLike[str]) -> list[Path]:
    """Copy what belongs into documentation: verdict.md, settings.json, pictures and tables that verdict.md links to.

    `root` is the folder of a finished study; the copies go to a folder of its name (and of its extras: "bsfl-cifar10")
    in `place`, which they replace.

    >>> publish("no-such-study", "docs")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: no-such-study holds no finished study; run it to its end first.
    """
    source = Path(root)
    if not all(files.has_file(source / name) for name in ("verdict.md", "settings.json")):
        raise InputError(f"{source} holds no finished study; run it to its end first.")
    text = files.read(source / "verdict.md").decode(errors="replace")
    target = Path(place) / _published_name(source / "settings.json")
    found = [*sorted((source / "figures").glob("*.png")), *sorted((source / "tables").glob("*.csv"))]
    linked = [path for path in found if f"({path.parent.name}/{path.name})" in text]
    copies = [source / "verdict.md", source / "settings.json", *linked]
    for name in ("figures", "tables"):
        files.has_folder(source / name)
    written = []
    try:
        for name in ("figures", "tables"):
            files.remove_folder(target / name)
        for path in copies:
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            files.write(copy, files.read(path))
            written.append(copy)
    except OSError as error:
        raise InputError(f"{target} cannot be written ({error.strerror}); name another folder.") from None
    return written


def _published_name(path: Path) -> str:
    """The name of a study and its extras, as its settings tell them; it becomes the name of a folder."""
    try:
        facts = json.loads(files.read(path))
        name = "-".join([facts["study"], *facts["extras"]])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{path} is damaged; run the study to its end first.") from None
    if not re.fullmatch("[a-z0-9][a-z0-9.+=_-]*", name):
        raise InputError(
            f"{path} calls the study '{name}', which is not the name of one; run the study to its end first."
        )
    return name


def _sections(
    study: Study,
    facts: dict[str, Any],
    judged: Sequence[JudgedClaim],
    figures: Sequence[Figure],
    charts: Mapping[str, Mapping[str, Any]],
    tables: Sequence[Table],
) -> list[Section]:
    made = (
        f"Made by '{facts['command']}': scale {facts['scale']}, {plural(facts['seeds'], 'experiment')} per setting, "
        f"{duration(facts['wall_seconds'])}. Rules of judgement were written before the run, where a claim does not "
        "say otherwise; intervals are 95 % over experiments, paired where they share a seed."
    )
    scale = facts["scale"]
    rows = [["claim", "source", "verdict"], *([e.claim.title, e.claim.source, kind_of(e, scale)] for e in judged)]
    sections = [Section("Verdicts", f"{headline(judged, scale)}.", table=rows, note=made)]
    sections.append(Section("What was run", table=setting_rows(facts["experiments"], study.paper)))
    sections += [Section(each.title, charts=[charts[each.name]], note=each.caption) for each in figures]
    sections += [Section(each.title, table=table_cells(each), note=each.caption) for each in tables if each.on_page]
    for each in judged:
        paper = f"In the paper: {each.claim.paper}. Here: {each.verdict.ours}. Rule: {each.claim.rule.words()}."
        kind = kind_of(each, scale)
        why = f"{kind.capitalize()}: {each.verdict.why}."
        more = f" {further_text(each)[0].upper()}{further_text(each)[1:]}" if each.needs_further else ""
        heading = f"{each.claim.title}: {kind}"
        sections.append(Section(heading, f"{each.claim.text} {paper}", note=f"{why}{more}"))
    return sections


def _by_key(experiments: Sequence[Experiment]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in experiments:
        found.setdefault(each.key, {"settings": dict(each.settings), "seeds": []})["seeds"].append(each.seed)
    return found
