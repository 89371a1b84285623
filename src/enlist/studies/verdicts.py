"""Verdicts as people read them: a table for the terminal and the page, and the file verdict.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from enlist._internal.text import printable
from enlist.runs.printing import duration, plural
from enlist.studies.claims import KINDS, Claim, JudgedClaim
from enlist.studies.margins import reasons
from enlist.studies.setting import setting_rows
from enlist.studies.study import Figure, Study, Table

SMOKE = "smoke"
"""The scale that only shows that a study runs."""
UNJUDGED = "Smoke run: checks that everything works; no verdict"
NO_VERDICT = "no verdict"

JOINING = (
    "A claim of several parts is reproduced if all of them are, not reproduced if none is even partly, and partly "
    "otherwise; parts that are not testable here do not count."
)


def tally(judged: Sequence[JudgedClaim]) -> str:
    """How many claims came out how.

    >>> from enlist.studies.claims import NOT, Verdict
    >>> from enlist.studies.example import COINS
    >>> tally([JudgedClaim(COINS.claims[0], Verdict(NOT, "0", "no difference"))])
    '1 claim: 1 not reproduced'
    """
    counts = Counter(each.verdict.kind for each in judged)
    words = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind])
    return f"{len(judged)} claim{'s' if len(judged) != 1 else ''}: {words}"


def headline(judged: Sequence[JudgedClaim], scale: str) -> str:
    """How many claims came out how, if the scale is one at which that means anything.

    >>> headline([], "smoke")
    'Smoke run: checks that everything works; no verdict'
    """
    return UNJUDGED if scale == SMOKE else tally(judged)


def kind_of(judged: JudgedClaim, scale: str) -> str:
    """The verdict on a claim in a word.

    >>> from enlist.studies.claims import NOT, Verdict
    >>> from enlist.studies.example import COINS
    >>> judged = JudgedClaim(COINS.claims[0], Verdict(NOT, "0", "no difference"))
    >>> kind_of(judged, "laptop"), kind_of(judged, "smoke")
    ('not reproduced', 'no verdict')
    """
    return NO_VERDICT if scale == SMOKE else judged.verdict.kind


def verdict_rows(judged: Sequence[JudgedClaim], scale: str = "") -> list[list[str]]:
    """Header and one line per claim: what it says, the paper's number, ours, and the verdict.

    >>> from enlist.studies.claims import NOT, Verdict
    >>> from enlist.studies.example import COINS
    >>> verdict_rows([JudgedClaim(COINS.claims[0], Verdict(NOT, "0 heads more", "no difference"))])[1]
    ['The bent coin shows more heads', '60 % against 50 %', '0 heads more', 'not reproduced']
    """
    header = ["claim", "in the paper", "here, with its 95 % interval", "verdict"]
    ours = [each.verdict.brief or each.verdict.ours for each in judged]
    rows = (
        [each.claim.title, each.claim.paper, said, kind_of(each, scale)]
        for each, said in zip(judged, ours, strict=True)
    )
    return [header, *rows]


def verdict_text(
    study: Study,
    facts: Mapping[str, Any],
    judged: Sequence[JudgedClaim],
    figures: Sequence[Figure],
    tables: Sequence[Table],
) -> str:
    """The file verdict.md; `facts` are those of settings.json.

    >>> from enlist.studies.claims import NOT, Verdict
    >>> from enlist.studies.example import COINS
    >>> facts = {"scale": "laptop", "seeds": 10, "first_seed": 0, "wall_seconds": 75.0, "jobs": 2}
    >>> facts |= {"command": "reproduce coins", "experiments": {}}
    >>> text = verdict_text(COINS, facts, [JudgedClaim(COINS.claims[0], Verdict(NOT, "0", "no difference"))], [], [])
    >>> print("\\n".join(text.splitlines()[:5]))
    # Is the coin bent?
    <BLANKLINE>
    A thought experiment. Two coins are tossed.
    <BLANKLINE>
    Made by `reproduce coins`: scale laptop, 10 experiments per setting (seeds from 0) where nothing else is said, 1 ...
    """
    lines = [
        f"# {study.title}",
        f"{study.reference}. {study.about}",
        f"Made by `{facts['command']}`: scale {facts['scale']}, {plural(facts['seeds'], 'experiment')} per setting "
        f"(seeds from {facts['first_seed']}) where nothing else is said, "
        f"{duration(facts['wall_seconds'])} with {facts['jobs']} process{'es' if facts['jobs'] != 1 else ''}.",
    ]
    scale, rules = facts["scale"], facts.get("rules", {})
    if rules.get("at_start"):
        changed = plural(len(rules["changed"]), "rule")
        since = f"; {changed} changed since, where the claim says so" if rules["changed"] else ""
        lines.append(f"Digest of the rules before the first experiment: `{rules['at_start']}`{since}.")
    lines.append(f"**What was run.**\n\n{_markdown(setting_rows(facts['experiments'], study.paper))}")
    lines += [f"## {headline(judged, scale)}", _markdown(verdict_rows(judged, scale)), JOINING]
    lines += [_picture(each) for each in figures if each.highlight]
    for table in tables:
        if table.highlight:
            lines.append(f"**{table.title}.** {table.caption}".rstrip() + f"\n\n{_markdown(table_cells(table))}")
    if files := [f"[{table.title}](tables/{table.name}.csv)" for table in tables if table.on_page]:
        lines.append(f"Tables: {', '.join(files)}. All settings and seeds: [settings.json](settings.json).")
    lines.append("## Claim by claim")
    for each in judged:
        lines.append(f"### {each.claim.title}: {kind_of(each, scale)}")
        lines.append(
            f"{each.claim.text} ({each.claim.source})\n\n"
            f"- in the paper: {each.claim.paper}\n"
            f"- here: {each.verdict.ours}\n"
            f"- rule, {_written(each.claim, rules)}: "
            f"{each.claim.rule.words()}\n"
            + "".join(f"- margin of {reason}\n" for reason in reasons(each.claim.rule))
            + f"- why: {each.verdict.why}"
            + (f"\n- {further_text(each)}" if each.needs_further else "")
        )
    if more := [_picture(each) for each in figures if not each.highlight]:
        lines += ["## Appendix: more figures", *more]
    return "\n\n".join(lines) + "\n"


def _picture(figure: Figure) -> str:
    return f"![{figure.title}](figures/{figure.name}.png)\n\n{figure.title}. {figure.caption}".rstrip()


def _written(claim: Claim, rules: Mapping[str, Any]) -> str:
    if claim.key in rules.get("changed", ()):
        return "changed after the run began"
    return "added after the first run" if claim.added else "written before the run"


def further_text(judged: JudgedClaim) -> str:
    """What was suspected and what the further experiment says.

    >>> from enlist.studies.claims import NOT, Verdict
    >>> from enlist.studies.example import COINS
    >>> further_text(JudgedClaim(COINS.claims[0], Verdict(NOT, "0", "no difference"), "It shows 120 heads."))
    'one further experiment, on the suspicion "too few tosses": It shows 120 heads.'
    """
    what = "looked into with experiments of the plan" if judged.planned else "one further experiment"
    return f'{what}, on the suspicion "{judged.claim.further.cause}": {judged.reading}'


def table_cells(table: Table) -> list[list[str]]:
    """A table as text, header first.

    >>> table_cells(Table("scores", "Scores", [{"rule": "ucb", "auc": 0.71234, "seeds": 10, "note": None}]))
    [['rule', 'auc', 'seeds', 'note'], ['ucb', '0.7123', '10', '–']]
    """
    return [table.columns, *([_cell(row[name]) for name in table.columns] for row in table.rows)]


def _cell(value: Any) -> str:
    if value is None or value != value:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and 1000 <= abs(value) < 1e7:
        return f"{value:,.0f}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(printable(cell, None).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])
