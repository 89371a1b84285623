"""One page for each selector: formula, settings, differences from the paper, evidence, place on the ladder.

The words come from docstrings, the measurements from docs/selectors.md, docs/ladder.md and docs/benchmarks.md, so that
every number has one home and one command that renews it.
"""

from __future__ import annotations

import re
from pathlib import Path

import enlist
from benchmarks.evidence import by_name, costs, paragraphs, settings
from enlist.arena.evidence import EVIDENCE
from enlist.privacy import Privacy
from enlist.selectors import get
from enlist.testing import population

DIFFERENCES = "Differs from the paper"
SEES = {
    Privacy.OUTCOME: "who was selected, who replied and when",
    Privacy.AGGREGATE: "the sum of updates or the new model; it works under secure aggregation",
    Privacy.INDIVIDUAL: "values of single clients, which secure aggregation hides",
}

STUDIES = {"bsfl": "bsfl", "darts-ucb": "darts", "fedsuv": "fedsuv", "power-of-choice": "power-of-choice"}
"""Selectors whose papers have a study of their own, and its folder in docs/studies."""


def pages(docs: Path) -> dict[str, str]:
    """The pages of the folder selectors/, by file name; index.md is the overview."""
    kept = by_name((docs / "selectors.md").read_text(encoding="utf-8"))
    ladder = (docs / "ladder.md").read_text(encoding="utf-8")
    milliseconds = costs(docs / "benchmarks.md")
    found = {
        f"{name}.md": page(name, kept.get(name, ""), ladder, milliseconds.get(name, "")) for name in enlist.names()
    }
    introduction = (docs / "selectors.md").read_text(encoding="utf-8").partition("## `")[0]
    return {"index.md": overview(introduction, ladder, milliseconds), **found}


def page(name: str, kept: str, ladder: str, milliseconds: str) -> str:
    """The page of one selector."""
    kind = get(name)
    words = [formulas(text) for text in paragraphs(kind)]
    differing = next((at for at, text in enumerate(words) if text.startswith(DIFFERENCES)), len(words))
    reference = next((at for at, text in enumerate(words[:differing]) if text.startswith("Reference:")), differing)
    told = EVIDENCE[name].use if name in EVIDENCE else ""
    selector = kind(population(4))
    needs = ", ".join(f"`{need}`" for need in sorted(selector.needs)) or "nothing"
    paper, words[reference:differing] = cited(words[reference:differing], kind.reference)
    differing = next((at for at, text in enumerate(words) if text.startswith(DIFFERENCES)), len(words))
    facts = [f"* **Paper:** {paper}", f"* **Needs:** {needs}"]
    if name in STUDIES:
        facts.append(f"* **[Study](../studies/{STUDIES[name]}/verdict.md):** the claims of the paper, tried and judged")
    facts.append(f"* **[Privacy](../privacy.md):** it sees {SEES[selector.privacy]}")
    if milliseconds:
        facts.append(f"* **[Speed](../benchmarks.md):** {milliseconds} ms per round with a million clients")
    parts = [f"# {name}", *([f"Use it when {told}."] if told else []), "\n".join(facts)]
    parts += ["## What it computes", *map(wrapping, words[:differing])]
    if differing < len(words):
        parts += ["## Differences from the paper", differences(words[differing]), *words[differing + 1 :]]
    parts += [
        "## Settings",
        settings(kind),
        "## Evidence",
        *evidence(kept),
        "## On the ladder",
        *standing(name, ladder),
    ]
    parts += [
        "## In code",
        f'`enlist.create("{name}", clients)` makes one. Its source is `src/{kind.__module__.replace(".", "/")}.py`.',
        f"::: enlist.selectors.{kind.__name__}\n    options:\n      show_docstring_description: false\n"
        "      show_source: true",
    ]
    return "\n\n".join(parts) + "\n"


def cited(words: list[str], short: str) -> tuple[str, list[str]]:
    """The full reference, and what a docstring says after it.

    >>> cited(["Reference: A and B, On Clients,\\n2021 (long version).\\nNeeds latency."], "A and B 2021")
    ('A and B, On Clients, 2021 (long version)', ['Needs latency.'])
    """
    if not words:
        return short, []
    found = re.fullmatch(r"Reference: (.*?)\.?(?:\s+((?:Needs|Reward r).*))?", words[0], flags=re.S)
    if found is None:
        raise SystemExit(f"This reference is not followed by what the selector needs: {words[0]}")
    return " ".join(found[1].split()), [*filter(None, [found[2]]), *words[1:]]


def differences(text: str) -> str:
    """What differs from the paper, as sentences; a remark on presets comes last.

    >>> differences('Differs from the paper (preset "paper" restores it): draws are sorted.')
    'Draws are sorted. Preset "paper" restores it.'
    """
    rest = text.removeprefix(DIFFERENCES).strip()
    preset = ""
    if found := re.match(r"\((preset [^)]*)\)", rest):
        preset, rest = f" P{found[1][1:]}.", rest[found.end() :]
    rest = rest.lstrip(" :")
    return rest[:1].upper() + rest[1:] + preset


def wrapping(text: str) -> str:
    """Aligned lines as a table of symbols and meanings; what is no such list breaks long lines instead of being cut.

    >>> print(wrapping("```\\nn_i   samples of the\\n      client\\nk     clients a round\\n```"))
    | symbol | meaning |
    |---|---|
    | `n_i` | samples of the client |
    | `k` | clients a round |
    """
    if not text.startswith("```\n"):
        return text
    rows: list[list[str]] = []
    for line in text.splitlines()[1:-1]:
        found = re.fullmatch(r"(\S.*?) {3,}(\S.*)", line)
        if found:
            rows.append([part.replace("|", r"\|") for part in found.groups()])
        elif line[:1] == " " and rows:
            rows[-1][1] += f" {line.strip()}".replace("|", r"\|")
        else:
            return text.replace("```\n", "``` { .text .formula }\n", 1)
    lines = [f"| `{symbol}` | {meaning.replace('*', chr(92) + '*')} |" for symbol, meaning in rows]
    return "\n".join(["| symbol | meaning |", "|---|---|", *lines])


def formulas(text: str) -> str:
    """Formulas, which docstrings set off by two blanks, as code.

    >>> formulas("The largest  mean + c / n_i,  n_i its count.")
    'The largest `mean + c / n_i`, n_i its count.'
    """
    if text.startswith("```") or "  " not in text:
        return text
    pieces = re.split(r" {2,}", text)
    for at, piece in enumerate(pieces):
        found = re.fullmatch(r"(.*?)([,;.:]?)(\n?)", piece, flags=re.S)
        words = re.search(r"[a-z]{2,} [a-z]{2,} [a-z]{2,}|`|\n", found[1]) if found else None
        if found and not words and re.search(r"[=^/+]|sqrt|sum", piece) and at:
            pieces[at] = f"`{found[1]}`{found[2]}{found[3]}"
    return " ".join(pieces)


def evidence(kept: str) -> list[str]:
    """The measured table of docs/selectors.md."""
    table = [line for line in kept.splitlines() if line.startswith(("| | scenario", "| wins", "| does not"))]
    table = [line.replace("| | scenario", "| against random | scenario") for line in table]
    if not table:
        return ["Not measured in the [arena](index.md) yet."]
    said = (
        "In worlds with known truth, without training: 100 clients, 10 a round, 400 rounds, 10 seeds, 95 % intervals. "
        "`python -m benchmarks.evidence` measures it; `enlist list scenarios` describes the worlds."
    )
    return [said, "\n".join([table[0], "|---|---|---|---|---|---|", *table[1:]])]


def rows(text: str, heading: str) -> tuple[list[str], dict[str, list[str]]]:
    """The first table below a heading: the names of its columns, and its rows by their first cell.

    >>> rows("## A\\n\\n| selector | x |\\n|---|---|\\n| oort | 1 |\\n", "## A")
    (['x'], {'oort': ['1']})
    """
    below = text.partition(f"{heading}\n")[2].partition("\n## ")[0]
    table = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in below.splitlines() if line[:1] == "|"]
    return (table[0][1:], {row[0]: row[1:] for row in table[2:]}) if table else ([], {})


def standing(name: str, ladder: str) -> list[str]:
    """Where it stands, and its speed-up on every rung."""
    names, table = rows(ladder, "## Standings")
    if name not in table:
        return [
            "Not on the [ladder](../ladder.md) yet. `enlist ladder --selectors " + name + "` puts it there for you."
        ]
    place = list(table).index(name) + 1
    methods = sum(not other.startswith("oracle") for other in table)
    value = dict(zip(names, table[name], strict=False))
    together = re.search(r"(\d+) published seeds", ladder)  # a column of its own where methods differ
    seeds = value.get("seeds") or (together[1] if together else "the published")
    said = (
        f"Place {place} of {methods}: {value['speed-up']} times as fast as random in the geometric mean over the rungs "
        f"of the [ladder](../ladder.md), {value['worst rung'].replace(' ', ' (', 1)}) on its worst one. "
        f"Measured on {seeds} seeds."
    )
    rungs, speeds = rows(ladder, "## Speed-up on each rung")
    lines = ["| rung | speed-up over random | 95 % interval |", "|---|---|---|"]
    for rung, cell in zip(rungs, speeds.get(name, []), strict=False):
        speed, _, interval = cell.partition("<br>")
        lines.append(f"| {rung} | {speed} | {interval} |")
    return [said, "\n".join(lines)]


def overview(introduction: str, ladder: str, milliseconds: dict[str, str]) -> str:
    """All selectors in one table, with what they need and where they stand."""
    names, table = rows(ladder, "## Standings")
    lines = [
        "| selector | paper | needs | speed-up on the ladder | ms a round, 10^6 clients |",
        "|---|---|---|---|---|",
    ]
    for name in enlist.names():
        kind = get(name)
        needs = ", ".join(sorted(kind(population(4)).needs)) or "nothing"
        speed = dict(zip(names, table.get(name, []), strict=False)).get("speed-up", "–")
        lines.append(f"| [{name}]({name}.md) | {kind.reference} | {needs} | {speed} | {milliseconds.get(name, '–')} |")
    head, _, rest = introduction.partition("\n\n")
    rest = re.sub(r"<!-- selectors -->.*?(?=\n## )", "", rest, flags=re.S)  # the table above says more
    solver = rest.partition("## The exact max-min solver")
    text = re.sub(r"\]\((?!http|#)", "](../", solver[0])
    return "\n\n".join(
        [
            head,
            "[Which selector should I use?](../choosing.md) answers with one sentence and the numbers behind it. "
            "[Privacy](../privacy.md) says which of them work under secure aggregation.",
            "\n".join(lines),
            "## How they are documented",
            text.strip(),
            "## The exact max-min solver",
            solver[2].strip() + "\n",
        ]
    )
