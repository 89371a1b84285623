"""Evidence for every selector:  python -m benchmarks.evidence [--output docs] [--only NAMES]

Runs, for each selector, the scenario in which it should beat random and the one in which it should not (100 clients,
10 a round, 400 rounds, 10 seeds) and writes docs/selectors.md, its table included. What each selector is, its
defaults and how it differs from its paper come from its docstring, so that there is one source.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import enlist
from benchmarks.pages import between
from enlist.arena.evidence import EVIDENCE, Finding, gather
from enlist.selectors import get
from enlist.testing import population

FIRST_SEED = 1000
"""Scenarios and defaults were chosen while looking at seeds below 20; these were not looked at."""

INTRODUCTION = """# Selectors

Every selector has the same contract (`ask`, `tell`, `save`, `load`, `explain`; see the README) and is created by name
or from its class: `enlist.create("oort", clients, seed=7, penalty=1.0)`, `enlist.create(Oort.with_(penalty=1.0),
clients, seed=7)` after `from enlist.selectors import Oort`. A preset named "paper" restores the printed formula; the
default is what works at the scale of federated learning. `python -m benchmarks.evidence` writes this page.

The measurements use 100 clients, 10 per round, 400 rounds and 10 seeds. The selector and `random` run in the same
worlds with the same random events. Brackets are 95 % intervals; in the last column, of the paired difference.
`enlist list scenarios` lists the scenarios. Scenarios and some defaults (UCB-CS, Oort's exploration) were chosen on
seeds below 20; the numbers here come from seeds 1000 to 1009. In most scenarios in which a selector does not win, there
is simply nothing to gain.

<!-- selectors -->
<!-- /selectors -->

The times are milliseconds for one ask and one tell with a million clients, k = 100, one core, from
[benchmarks.md](benchmarks.md) (`make bench`).

## The exact max-min solver

BSFL, its genie and RBCS-F choose the k-subset S that maximises min(keys of S) + sum(values of S). Sort the clients by
key, best first. Let P(p) be the first p of them, T(p) the k largest values among these, and v(p) the p-th key plus the
sum of T(p). Then the best v(p) is the optimum, and T(p) attains it:

* every member of T(p) has a key of at least the p-th, so T(p) is worth at least v(p);
* if the last member of any S is at position p, the smallest key of S is the p-th and its values sum to at most those of
  T(p), so S is worth at most v(p).

This takes one sort. A key of +inf (a client never tried) is allowed; with k or more of them, the values alone decide.
"""


def paragraphs(kind: type[Any]) -> list[str]:
    """The docstring without its doctest; aligned lines become a code block."""
    text = re.sub(r"\n\s*>>> .*?(?=\n\n|\Z)", "", inspect.getdoc(kind) or "", flags=re.S)
    blocks = [block for block in text.split("\n\n") if block.strip()]
    return [f"```\n{block}\n```" if re.search(r"\S {3,}\S", block) else block for block in blocks]


def parameters(settings: type[Any]) -> list[tuple[str, str, str, str]]:
    """Name, type, default and meaning of every setting, from the numpydoc section "Parameters" of its class.

    >>> from enlist.selectors.ucb_cs import UCBCSSettings
    >>> parameters(UCBCSSettings)[1]
    ('bonus_scale', 'float', '0.3', 'Multiplies the confidence width; 1 is the printed formula.')
    """
    _, _, text = (inspect.getdoc(settings) or "").partition("Parameters\n----------\n")
    entry = re.compile(r"^(\w+) : (.+), default (.+)\n((?:    .+\n?)+)", flags=re.M)
    return [(*found.groups()[:3], " ".join(found[4].split())) for found in entry.finditer(text)]


def settings(kind: type[Any]) -> str:
    """Parameters and presets."""
    rows = [
        f"| `{name}` | {what} | `{default}` | {meaning} |" for name, what, default, meaning in parameters(kind.Settings)
    ]
    lines = [f"`enlist.selectors.{kind.__name__}` takes {'these' if rows else 'no'} settings{':' if rows else '.'}"]
    if rows:
        lines.append("\n".join(["| setting | type | default | meaning |", "|---|---|---|---|", *rows]))
    for name, values in kind.presets.items():
        changed = ", ".join(f"`{key}={_value(value)}`" for key, value in values.items()) or "as the defaults"
        lines.append(f"Preset `{name}`: {changed}.")
    return "\n\n".join(lines)


def _value(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


def row(label: str, outcome: Finding) -> str:
    """One line of the evidence table."""
    ours, base, gap = outcome.selector, outcome.random, outcome.difference
    unit = "smaller is better" if outcome.claim.smaller_is_better else "larger is better"
    cells = [
        label,
        f"`{outcome.claim.scenario}`",
        f"{outcome.claim.quantity.replace('_', ' ')} ({unit})",
        f"{ours.mean:.3g} [{ours.low:.3g}, {ours.high:.3g}]",
        f"{base.mean:.3g} [{base.low:.3g}, {base.high:.3g}]",
        f"{gap.mean:+.3g} [{gap.low:+.3g}, {gap.high:+.3g}]",
    ]
    return "| " + " | ".join(cells) + " |"


def section(name: str, outcomes: dict[str, Finding]) -> str:
    """The part of docs/selectors.md about one selector."""
    kind = get(name)
    parts = [f"## `{name}`", *paragraphs(kind), settings(kind)]
    if name in EVIDENCE:
        parts.append(f"Use it when {EVIDENCE[name].use}.")
        table = ["| | scenario | quantity | this selector | random | difference |", "|---|---|---|---|---|---|"]
        table += [row(label, outcome) for label, outcome in outcomes.items()]
        parts.append("\n".join(table))
    return "\n\n".join(parts)


def by_name(page: str) -> dict[str, str]:
    """The parts of docs/selectors.md, by selector.

    >>> by_name("# Selectors\\n\\n## `oort`\\n\\nFirst.\\n\\n## `refl`\\n\\nSecond.\\n")["oort"]
    '## `oort`\\n\\nFirst.'
    """
    parts = re.split(r"^(?=## `)", page, flags=re.M)[1:]
    return {part[4 : part.index("`", 4)]: part.strip() for part in parts}


def costs(page: Path) -> dict[str, str]:
    """Milliseconds per round at a million clients, as docs/benchmarks.md has them."""
    found = {}
    for line in page.read_text().splitlines() if page.exists() else []:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in enlist.names() and len(cells) == 6:
            found[cells[0]] = cells[4].split(" ")[0]
    return found


def table_of_selectors(milliseconds: dict[str, str]) -> str:
    """Every selector with its paper, what it needs and what it costs; part of docs/selectors.md."""
    lines = ["| selector | paper | needs | ms at 10^6 |", "|---|---|---|---|"]
    for name in enlist.names():
        kind = get(name)
        needs = ", ".join(sorted(kind(population(4)).needs)) or "nothing"
        lines.append(f"| [`{name}`](#{name}) | {kind.reference} | {needs} | {milliseconds.get(name, '')} |")
    return "\n".join(lines)


def renew_table(docs: Path) -> None:
    """Write the table of all selectors into docs/selectors.md."""
    between(docs / "selectors.md", "selectors", [table_of_selectors(costs(docs / "benchmarks.md"))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="the docs folder")
    parser.add_argument("--only", metavar="NAMES", help="renew the parts about these selectors, for example oort,refl")
    parser.add_argument("--table-only", action="store_true", help="measure nothing, renew the table of all selectors")
    options = parser.parse_args()
    only = set(options.only.split(",")) if options.only else set()
    if unknown := sorted(only - set(enlist.names())):
        parser.error(f"--only: {', '.join(unknown)} is no selector; known: {', '.join(enlist.names())}")
    if options.table_only:
        if not options.output:
            parser.error("--table-only needs --output, the docs folder whose selectors.md is renewed.")
        renew_table(options.output)
        return
    page = options.output and options.output / "selectors.md"
    kept = by_name(page.read_text()) if page and only else {}
    sections, wrong = [INTRODUCTION], []
    for name in enlist.names():
        if only and name not in only:
            sections.append(kept.get(name, ""))
            continue
        outcomes = {}
        if name in EVIDENCE:
            jobs = os.cpu_count() or 1
            outcomes = {
                "wins": gather(name, EVIDENCE[name].wins, jobs=jobs, first_seed=FIRST_SEED),
                "does not": gather(name, EVIDENCE[name].loses, jobs=jobs, first_seed=FIRST_SEED),
            }
            wrong += [f"{name}: {label}" for label, outcome in outcomes.items() if outcome.better != (label == "wins")]
            print(name, *(row(label, outcome) for label, outcome in outcomes.items()), sep="\n", flush=True)
        sections.append(section(name, outcomes))
    if page:
        page.write_text("\n\n".join(part.strip() for part in sections if part) + "\n")
        renew_table(options.output)
    sys.exit(f"not as stated: {', '.join(wrong)}" if wrong else 0)


if __name__ == "__main__":
    main()
