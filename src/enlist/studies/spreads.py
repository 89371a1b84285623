"""Power before a run: how much the paired differences of a study's rules spread over development seeds.

    python -m enlist.studies.spreads darts --scale laptop --seeds 5 --output runs/darts-development

runs what the rules need on seeds from 100 on, which no verdict rests on, and prints the spread of each comparison, the
smallest effect that the scale's seeds would show with it, and the effect that the rule asks for. With `--keep` they go
into spreads.json, from where the rules take them; commit that before the run that they judge. The folder keeps what was
run, and the same command goes on. `--claims quality part-time` measures these alone, and keeps what is known of others.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from enlist.engine import local
from enlist.errors import UnknownNameError, unknown
from enlist.studies.parts import arms_of, simple_rules
from enlist.studies.results import Results, kept
from enlist.studies.rules import Contrast
from enlist.studies.running import performed
from enlist.studies.study import SPREADS, Experiment, Scale, Study

DEVELOPMENT = 100
"""First of the seeds on which settings are chosen and spreads measured."""


def rules_of(study: Study, claims: Sequence[str] = ()) -> dict[str, Contrast]:
    """The comparisons of all claims, or of some, by claim and part.

    >>> from enlist.studies import get
    >>> list(rules_of(get("power-of-choice")))[:2], list(rules_of(get("power-of-choice"), ["skew"]))
    (['faster/mild skew, d = 6', 'faster/mild skew, d = 9'], ['skew'])
    """
    known = {claim.key: simple_rules(claim.rule, claim.key) for claim in study.claims}
    for key in claims:
        if key not in known:
            raise unknown("claim", key, known)
    return {name: rule for key in claims or known for name, rule in known[key].items()}


def development(study: Study, scale: Scale, claims: Sequence[str] = ()) -> list[Experiment]:
    """The experiments that the comparisons need, on development seeds.

    >>> from enlist.studies import get
    >>> study = get("power-of-choice")
    >>> sorted({each.seed for each in development(study, study.scale("smoke"))})
    [100, 101]
    """
    keys = {key for rule in rules_of(study, claims).values() for arm in arms_of(rule) for key in arm.keys}
    wanted = [each for each in study.experiments(scale) if each.key in keys]
    # A study has at most a hundred seeds, from 0 on or from a multiple of a hundred.
    return [dataclasses.replace(each, seed=DEVELOPMENT + each.seed % 100) for each in wanted]


def spreads(study: Study, results: Results, seeds: int, claims: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Of every comparison: its spread in these results, what so many seeds would show with it, and what is wanted.

    >>> from enlist.studies import get
    >>> spreads(get("power-of-choice"), Results({}), seeds=10)
    []
    """
    rows = []
    for name, rule in rules_of(study, claims).items():
        try:
            spread = rule.spread_in(results)
        except UnknownNameError:  # its experiments failed, or were not asked for
            continue
        known = dataclasses.replace(rule, spread=spread)
        rows.append({"claim": name, "spread": spread, "visible": known.visible(seeds), "wanted": known.wanted()})
    return rows


def keep(study: str, found: Mapping[str, float], path: Path = SPREADS, *, others: bool = False) -> None:
    """Put the spreads of a study into the file, in place of what it had; with `others`, of its other claims it stays.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "spreads.json")
    ...     _ = path.write_text('{"b": {"old": 1.0}, "c": {}}')
    ...     keep("b", {"faster": 0.2}, path)
    ...     json.loads(path.read_text())
    {'b': {'faster': 0.2}, 'c': {}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "spreads.json")
    ...     _ = path.write_text('{"b": {"old": 1.0, "faster/a": 3.0}}')
    ...     keep("b", {"faster/b": 0.2}, path, others=True)
    ...     json.loads(path.read_text())
    {'b': {'faster/b': 0.2, 'old': 1.0}}
    """
    # A spread that is not a number (too few runs got there) says nothing of the seeds that are needed.
    known = json.loads(path.read_text())
    claims = {name.partition("/")[0] for name in found}
    stays = {
        name: each for name, each in known.get(study, {}).items() if others and name.partition("/")[0] not in claims
    }
    known[study] = stays | {name: each for name, each in found.items() if math.isfinite(each)}
    path.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line: see above.

    >>> main(["dart", "--output", "runs"])
    Traceback (most recent call last):
    ...
    enlist.errors.UnknownNameError: no study is called 'dart'. Did you mean 'darts'? Known: ...
    """
    from enlist import studies

    parser = argparse.ArgumentParser(prog="python -m enlist.studies.spreads", description=str(__doc__).splitlines()[0])
    parser.add_argument("study")
    parser.add_argument("--scale", default="laptop")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--claims", nargs="+", default=[], help="keys of the claims to measure; all without")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--keep", action="store_true", help="write the spreads to spreads.json")
    given = parser.parse_args(arguments)
    study = studies.get(given.study)
    wanted = development(study, study.scale(given.scale, given.seeds), given.claims)
    for each, reason in performed(
        [one for one in wanted if kept(given.output, one) is None], given.output, local(given.jobs)
    ):
        print(f"{each.key}, seed {each.seed}: {reason or 'done'}", flush=True)
    found = {(each.key, each.seed): output for each in wanted if (output := kept(given.output, each)) is not None}
    results = Results.of([(each.key, each.settings, each.seed) for each in wanted], found)
    rows = spreads(study, results, study.scale(given.scale).seeds, given.claims)
    for row in rows:
        print(f"{row['claim']}: spread {row['spread']:.3g}, visible {row['visible']:.3g}, wanted {row['wanted']:.3g}")
    if given.keep:
        keep(study.name, {row["claim"]: float(f"{row['spread']:.3g}") for row in rows}, others=bool(given.claims))


if __name__ == "__main__":
    main()
