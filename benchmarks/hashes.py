"""Do runs still give the same bits?   python -m benchmarks.hashes [--base REV] [--output docs/hashes.md]

Every shipped example is run for a few rounds with the code of an older commit and with that of HEAD, and what the two
leave behind is compared by SHA-256: each column of each table, each tensor, each array of the selector. Renamed columns
count as the same. The code of HEAD runs with two workers as well. The exit code is 1 if something differs that no
commit of `INTENDED` explains. `--only quickstart` runs those cases alone whose name has that word.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from benchmarks.simulations import Part
from enlist._internal.aliases import present_columns

ROOT = Path(__file__).parents[1]
BASE = "fe8f0cc"
"""The last commit before the round was rebuilt."""
BROUGHT_ASYNCHRONY = "25d4a17"
"""Before it there were no asynchronous protocols to compare with."""
PARTS = ("rounds", "participations", "clients", "model", "selector")
WORKERS = 2
CALLS = """
import json, os, sys
from enlist.cli import main
for folder, arguments in json.loads(sys.argv[1]):
    os.chdir(folder)
    sys.argv = ["enlist", *arguments]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise SystemExit(f"enlist {' '.join(arguments)} has ended with {ended.code}")
"""
"""What runs in a process of its own: commands one after the other, each in its folder."""
Digests = Mapping[str, Mapping[str, str]]
"""Part -> name of a column, tensor or array -> its SHA-256."""


@dataclass(frozen=True)
class Case:
    """A short run of an example.

    example    its configuration, below examples/
    name       what is particular to the run; the example's own selector and settings otherwise
    changes    keys of the configuration, as `--set` takes them
    rounds     how many of its rounds are run
    base       the commit to compare with, if not that of all
    before     a script beside the configuration that is run first
    """

    example: str
    name: str = "as shipped"
    changes: tuple[str, ...] = ()
    rounds: int = 8
    base: str | None = None
    before: str | None = None

    @property
    def title(self) -> str:
        return f"{self.example}, {self.name}"

    @property
    def personal(self) -> bool:
        return self.example.startswith("personal/")


def _with(name: str, *more: str) -> tuple[str, ...]:
    return (f"selector.name={name}", *more)


HOSTILE = (
    'hostile=[{kind="sign-flip", share=0.2}, {kind="replay", share=0.1, from_round=2}, {kind="collude", share=0.2}, '
    '{kind="lie", about="latency", share=0.2}]'
)
LATE = ("rounds.late=use", "rounds.over_commit=1.3", "rounds.max_lateness=3")
"""`use` is the former word for `merge`; both commits know it."""
ASYNCHRONOUS = ("rounds.protocol=buffered", "rounds.concurrency=12", "rounds.buffer=4")
CASES = (
    Case("quickstart.toml"),
    Case("quickstart.toml", "random", _with("random")),
    Case("quickstart.toml", "safa", _with("safa", "rounds.protocol=safa", "rounds.deadline=20")),
    Case("quickstart.toml", "refl, late updates merged", _with("refl", *LATE, "rounds.deadline=10")),
    Case("quickstart.toml", "power-of-choice", _with("power-of-choice")),
    Case("quickstart.toml", "random, hostile clients", _with("random", HOSTILE)),
    Case("quickstart.toml", "random, buffered", _with("random", *ASYNCHRONOUS), base=BROUGHT_ASYNCHRONY),
    Case(
        "quickstart.toml", "oort, buffered, hostile clients", _with("oort", *ASYNCHRONOUS, HOSTILE),
        base=BROUGHT_ASYNCHRONY,
    ),
    Case(
        "quickstart.toml", "power-of-choice, async", _with("power-of-choice", "rounds.protocol=async"),
        base=BROUGHT_ASYNCHRONY,
    ),
    Case("selection-matters.toml", "random", _with("random")),
    Case("selection-matters.toml", "oort", _with("oort")),
    Case("selection-matters.toml", "bsfl", _with("bsfl")),
    Case("selection-matters.toml", "refl, late updates merged", _with("refl", *LATE)),
    Case("selection-matters.toml", "tempo", _with("tempo")),
    Case("selection-matters.toml", "fedsuv", _with("fedsuv")),
    Case("own_data/activity.toml"),
    Case("fashion-500.toml", rounds=3),
    Case("personal/telecom.toml"),
    Case("personal/own-workers/offices.toml", before="offices.py"),
)  # fmt: skip
TEMPO = ("c48f026", "100a159", "98cb8d4")
INTENDED: Mapping[str, tuple[str, ...]] = {
    "quickstart.toml, as shipped": TEMPO,
    "selection-matters.toml, bsfl": ("9937950",),
    "selection-matters.toml, tempo": TEMPO,
    "selection-matters.toml, fedsuv": ("96208bf", "c3bf75f"),
}
"""Title of a case -> the commits that changed what its selector does, on purpose."""


def extract(revision: str, place: Path) -> Path:
    """The code and the examples of a commit, in a folder of their own."""
    command = ["git", "-C", str(ROOT), "archive", revision, "src", "examples"]
    packed = subprocess.run(command, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(place, filter="data")
    return place


def run(cases: Sequence[Case], tree: Path, place: Path, workers: int = 0) -> dict[Case, Digests]:
    """Run cases with the code and the examples of a tree, all in one process, which imports PyTorch but once."""
    examples = place / "examples"
    shutil.copytree(tree / "examples", examples)
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    calls, outputs = [], {}
    for number, case in enumerate(cases):
        config, outputs[case] = examples / case.example, place / str(number)
        if case.before:
            subprocess.run([sys.executable, case.before], check=True, cwd=config.parent, env=environment)
        arguments = ["personalise", "--seeds", "1"] if case.personal else ["run", "--workers", str(workers)]
        for change in (f"rounds.rounds={case.rounds}", *case.changes):
            arguments += ["--set", change]
        calls.append((str(config.parent), [*arguments, config.name, "--quiet", "--output", str(outputs[case])]))
    subprocess.run([sys.executable, "-c", CALLS, json.dumps(calls)], check=True, env=environment)
    return {case: digests(output) for case, output in outputs.items()}


def digests(folder: Path) -> Digests:
    """What a run has left behind: tables, models and selectors, of the runs inside it as well."""
    found: dict[str, dict[str, str]] = {part: {} for part in PARTS}
    for path in sorted(folder.rglob("*")):
        if {"report", "state"} & {*path.relative_to(folder).parts} or not path.is_file():
            continue  # `state` is compared by what the next rounds would be made of: model, selector, tables
        name = str(path.relative_to(folder).with_suffix(""))
        if path.suffix == ".csv" and path.stem not in ("wall", "reasons"):
            part = path.stem if path.stem in PARTS else "participations"
            found[part] |= {f"{name}: {column}": value for column, value in _table(path)}
        elif path.suffix == ".safetensors":
            tensors = load_file(path)
            found["model"] |= {f"{name}: {key}": _array(value) for key, value in tensors.items()}
        elif path.name == "state.json":
            inside = str(path.parent.relative_to(folder))
            found["selector"] |= {f"{inside}: {key}": value for key, value in _state(path)}
    return {part: values for part, values in found.items() if values}


def _table(path: Path) -> Iterator[tuple[str, str]]:
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    for name, column in zip(present_columns(path.name, header), zip(*rows, strict=True), strict=True):
        yield name, _text("\n".join(column))


def _state(path: Path) -> Iterator[tuple[str, str]]:
    header = json.loads(path.read_text())
    for key, value in header["content"].items():
        for inner, deeper in value.items() if key == "scalars" else [("", value)]:
            yield f"{key}/{inner}".strip("/"), _text(json.dumps(deeper, sort_keys=True))
    with np.load(path.parent / header["arrays"]["file"]) as arrays:
        for key in arrays.files:
            yield key, _array(arrays[key])


def _array(values: np.ndarray) -> str:
    return _text(f"{values.dtype} {values.shape} ") + hashlib.sha256(values.tobytes()).hexdigest()


def _text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def short(values: Mapping[str, str]) -> str:
    """One digest for all columns or arrays of a part."""
    return _text("".join(f"{name}{value}" for name, value in sorted(values.items())))[:8]


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What of a part is not as it was; what came in addition does not count.

    >>> differences({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "4", "d": "5"})
    ['b', 'c']
    """
    return [name for name, value in before.items() if after.get(name) != value]


def intended(case: Case, base: str) -> list[str]:
    """The commits since the base that changed a case on purpose, each with its subject."""
    since = [commit for commit in INTENDED.get(case.title, ()) if not _holds(base, commit)]
    return [_git("log", "-1", "--format=`%h` (%s)", commit).strip() for commit in since]


def _holds(revision: str, commit: str) -> bool:
    """Whether a revision has a commit in its history."""
    return _git("rev-list", "--count", f"{revision}..{commit}").strip() == "0"


def _git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True).stdout


SHOWN = 3
"""Columns or arrays that a note names; the others are counted."""


def compared(before: Digests, after: Digests) -> tuple[list[str], list[str]]:
    """A cell for each part, and what differs.

    >>> compared({"model": {"w": "1"}, "rounds": {"a": "2"}}, {"model": {"w": "1", "b": "3"}, "rounds": {"a": "4"}})
    (['differs', '', '', '`60c5590f`, 1 new', ''], ['rounds: a'])
    """
    cells, wrong = [], []
    for part in PARTS:
        old, new = before.get(part, {}), after.get(part, {})
        changed, added = differences(old, new), sorted(set(new) - set(old))
        if not old:
            cells.append("")
        elif changed:
            cells.append("differs")
            more = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
            wrong.append(f"{part}: {', '.join(changed[:SHOWN])}{more}")
        else:
            cells.append(f"`{short(old)}`" + (f", {len(added)} new" if added else ""))
    return cells, wrong


def table(cases: Sequence[Case] = CASES, base: str = BASE) -> Part:
    """The table, what differs below it, and whether all of that was intended."""
    heads = ["example, selector", "rounds", "base", *PARTS, f"{WORKERS} workers"]
    lines, notes, holds = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"], list[str](), True
    used = {case: _git("rev-parse", "--short", _later(base, case.base)).strip() for case in cases}
    before: dict[Case, Digests] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for revision in sorted(set(used.values())):
            those = [case for case in cases if used[case] == revision]
            before |= run(those, extract(revision, place / revision), place / f"runs-{revision}")
        head = extract("HEAD", place / "HEAD")
        after = run(cases, head, place / "after")
        spread = run([case for case in cases if not case.personal], head, place / "workers", WORKERS)
    for case in cases:
        cells, wrong = compared(before[case], after[case])
        same = spread.get(case, after[case]) == after[case]
        workers = "one process" if case.personal else "equal" if same else "differs"
        lines.append(f"| {case.title} | {case.rounds} | `{used[case]}` | {' | '.join(cells)} | {workers} |")
        why = intended(case, used[case])
        holds &= same and (not wrong or bool(why))
        if wrong:
            notes.append(f"- {case.title}: {', '.join(why) or 'NOT INTENDED'}. Differs: {'; '.join(wrong)}.")
    return [*lines, "", *notes], holds


def _later(base: str, brought: str | None) -> str:
    """The base of a case: that of all, unless what it runs came later."""
    return base if brought is None or _holds(base, brought) else brought


LATER = """
Asynchronous protocols did not exist at `{base}`: they are compared with the commit that introduced them.
"""
PAGE = """# The same bits

A refactoring changes no bit of any run. This command ran every shipped example for a few rounds on one machine, at a
commit before the code of a round was rebuilt and at `{head}`:

```
{command}
```

A cell holds the first digits of a SHA-256 that both commits share: of every column of the tables (renamed columns count
as the same), every tensor of the checkpoint, and every array and number of the selector's state. "3 new" means that
three columns or arrays were added. The last column compares `{head}` with itself, in one process and with {workers}
worker processes. Digests depend on the processor and on PyTorch. On another machine their values mean nothing; what
matters is that they are equal.
{later}
{table}

{verdict}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default=BASE, help=f"commit to compare with (default {BASE})")
    parser.add_argument("--only", default="", help="run the cases whose name has this word")
    parser.add_argument("--output", type=Path, help="write the page here")
    given = parser.parse_args()
    cases = [case for case in CASES if given.only in case.title]
    lines, holds = table(cases, given.base)
    head = _git("rev-parse", "--short", "HEAD").strip()
    verdict = "Every difference is intended." if holds else "SOMETHING DIFFERS THAT NOBODY INTENDED."
    command = " ".join(["python -m benchmarks.hashes", *sys.argv[1:]])
    later = "" if _holds(given.base, BROUGHT_ASYNCHRONY) else LATER.format(base=given.base)
    page = PAGE.format(
        head=head, command=command, workers=WORKERS, later=later, table="\n".join(lines), verdict=verdict
    )
    if given.output:
        given.output.write_text(page)
    print(verdict if given.output else page)
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
