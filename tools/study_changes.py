"""Tables of studies in the documentation, from what docs/studies holds.

    python -m tools.study_changes

writes docs/studies/changes.md, which compares the verdicts with those before them (tools/former_verdicts.json) and
says why the rules changed (tools/study_changes.toml), the tables of docs/studies/README.md, the sentence in README.md,
and a notice on top of every verdict that was not run again. Run it whenever a study was published.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from enlist.runs.printing import duration, plural
from enlist.studies.claims import KINDS

ROOT = Path(__file__).resolve().parents[1]
FORMER = ROOT / "tools" / "former_verdicts.json"
WORDS = ROOT / "tools" / "study_changes.toml"
WAITING = "not run again yet; the verdicts shown are older than the repairs"
BEFORE = (
    "**Older than the repairs.** This study was repaired after these verdicts and has not been run again since: they "
    "rest on the former settings, rules and seeds. [What changed, and why](../changes.md)."
)
NOTICE = re.compile(r"\A(# [^\n]*\n\n)(?:> [^\n]*\n(?:>\n)?)+\n")
"""What stands between the title of a verdict.md and the rest, if this program put something there."""
COUNTS = ["study", "claims", "reproduced", "partly", "not reproduced", "not testable here", "made by"]
RUNS = ["study", "what it reproduces", "run here", "verdicts"]


def verdicts(text: str) -> dict[str, str]:
    """Title of a claim -> its verdict, from a verdict.md.

    >>> verdicts("### It is fast: not\\n### It is fair: it says: partly")
    {'It is fast': 'not reproduced', 'It is fair: it says': 'partly'}
    """
    kinds = "|".join(sorted(KINDS, key=len, reverse=True))
    found = re.findall(rf"^### (.*): ({kinds}|not)$", text, re.MULTILINE)
    return {title: "not reproduced" if kind == "not" else kind for title, kind in found}


def digest(text: str) -> str:
    """What tells one verdict.md from another, its notices aside.

    >>> digest("a") == digest("b"), digest("# A\\n\\nb") == digest(with_notices("# A\\n\\nb", ["not run again"]))
    (False, True)
    """
    return hashlib.sha256(NOTICE.sub(r"\1", text).encode()).hexdigest()[:16]


def from_before(name: str, text: str, former: dict[str, Any]) -> bool:
    """Whether a verdict.md is the former one: by its digest, or because it does not begin with what was run.

    >>> text = "# A\\n\\n**What was run.**"
    >>> from_before("coins", "# A", {"coins": {}}), from_before("coins", text, {"coins": {}})
    (True, False)
    >>> from_before("coins", text, {"coins": {"digest": digest(text)}})
    True
    """
    known = former.get(name)
    if known is None:
        return False
    return "**What was run.**" not in text.partition("\n## ")[0] or known.get("digest") == digest(text)


def with_notices(text: str, notices: Sequence[str]) -> str:
    """A verdict.md with these notices below its title, in place of those that it has.

    >>> print(with_notices(with_notices("# A\\n\\nb", ["old"]), ["one", "two"]))
    # A
    <BLANKLINE>
    > one
    >
    > two
    <BLANKLINE>
    b
    """
    title, _, rest = NOTICE.sub(r"\1", text).partition("\n\n")
    said = "\n>\n".join(f"> {notice}" for notice in notices)
    return "\n\n".join(filter(None, [title, said, rest]))


def notices(name: str, text: str, former: dict[str, Any], words: dict[str, Any]) -> list[str]:
    """What a published verdict.md must say: that it is older than the repairs, and what is noted for just this text.

    >>> notices("coins", "# A", {"coins": {}}, {"notes": {}})[0].partition(" ")[0]
    '**Older'
    >>> words = {"notes": {"coins": {"digest": digest("# A"), "say": ["by a former rule"]}}}
    >>> notices("coins", "# A", {}, words), notices("coins", "# B", {}, words)
    (['by a former rule'], [])
    """
    own = digest(text)
    said = [BEFORE] if from_before(name, text, former) else []
    noted = words.get("notes", {}).get(name, {})
    return said + (list(noted["say"]) if noted.get("digest") == own else [])


def counts(found: dict[str, str]) -> list[int]:
    """Claims in all, and how many came out how.

    >>> counts({"a": "partly", "b": "reproduced"})
    [2, 1, 1, 0, 0]
    """
    tally = Counter(found.values())
    return [len(found), *(tally[kind] for kind in KINDS)]


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown.

    >>> print(table(["a", "b"], [[1, 2]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in [header, *rows]]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])


def changed(before: dict[str, str], now: dict[str, str], renamed: dict[str, str]) -> list[list[str]]:
    """Claims whose verdict is another one: title, before, now; those that are new or gone among them.

    renamed   title now -> title before

    >>> changed({"old": "partly", "same": "partly"}, {"new": "reproduced", "same": "partly"}, {"new": "old"})
    [['new', 'partly', 'reproduced']]
    >>> changed({"a": "partly"}, {"b": "partly"}, {})
    [['b', '–', 'partly'], ['a', 'partly', '–']]
    """
    titles = {title: renamed.get(title, title) for title in now}
    rows = [[title, before.get(old, "–"), now[title]] for title, old in titles.items()]
    gone = [[title, kind, "–"] for title, kind in before.items() if title not in titles.values()]
    return [row for row in rows if row[1] != row[2]] + gone


def changes(folder: Path, former: dict[str, Any], words: dict[str, Any]) -> str:
    """The page: what changed since the last verdicts, and why.

    >>> "## Everywhere" in changes(ROOT / "docs" / "studies", json.loads(FORMER.read_text()), read_words())
    True
    """
    parts = ["# What changed since the last verdicts, and why", words["about"]]
    parts += ["## Everywhere", "\n".join(f"- {reason}" for reason in words["everywhere"])]
    for name, own in words["studies"].items():
        parts.append(f"## {own['title']}")
        parts.append("\n".join(f"- {reason}" for reason in own["why"]))
        for each in (name, *own.get("with", [])):
            parts.append(_compared(folder, each, former.get(each), own.get("renamed", {})))
    return "\n\n".join(parts) + "\n"


def _compared(folder: Path, name: str, former: dict[str, Any] | None, renamed: dict[str, str]) -> str:
    """One published folder against what it was."""
    path = folder / name / "verdict.md"
    if not path.exists():
        return f"`{name}`: not run yet; its verdicts will stand in `docs/studies/{name}/verdict.md`."
    text = path.read_text()
    now, link = verdicts(text), f"[{name}]({name}/verdict.md)"
    if former is None:
        return f"{link}: new. {_tally(now)}."
    if from_before(name, text, {name: former}):
        return f"{link}: {WAITING}. {_tally(now)}."
    rows = changed(former["verdicts"], now, renamed)
    said = f"{link}: before, {_tally(former['verdicts'])}; now, {_tally(now)}. {len(rows)} differ, are new or are gone:"
    return f"{said}\n\n{table(['claim', 'before', 'now'], rows)}" if rows else said


def _tally(found: dict[str, str]) -> str:
    every, *each = counts(found)
    told = ", ".join(f"{count} {kind}" for count, kind in zip(each, KINDS, strict=True) if count)
    return f"{plural(every, 'claim')}: {told}"


def tables(folder: Path, former: dict[str, Any], words: dict[str, Any]) -> tuple[str, str]:
    """What docs/studies/README.md shows of what is published: verdicts counted, and how each study was run.

    >>> [text.splitlines()[0][:10] for text in tables(ROOT / "docs" / "studies", {}, read_words())]
    ['| study | ', '| study | ']
    """
    counted, runs = [], []
    for name, own in words["studies"].items():
        for each in (name, *own.get("with", [])):
            if not (folder / each / "verdict.md").exists():
                continue
            facts = json.loads((folder / each / "settings.json").read_text())
            command = re.sub(r" --seeds \d+", "", facts["command"])
            title = own["title"] if each == name else f"{own['title']}, with {' and '.join(facts['extras'])}"
            text = (folder / each / "verdict.md").read_text()
            title += " (older)" if from_before(each, text, former) else ""
            found = counts(verdicts(text))
            counted.append([f"[{title}]({each}/verdict.md)", *found, f"`{command}`"])
            spent = f"{plural(facts['seeds'], 'seed')}, {duration(facts['wall_seconds'], units=1)}"
            words_of = " ".join(["`" + name, *(f"--with {extra}" for extra in facts["extras"])]) + "`"
            runs.append([words_of, facts["reference"], spent, f"[{each}/verdict.md]({each}/verdict.md)"])
    return table(COUNTS, counted), table(RUNS, runs)


def put(text: str, made: str) -> str:
    """The text with this table in place of the one that has the same header.

    >>> put("A\\n\\n| x |\\n|---|\\n| 1 |\\n\\nB", "| x |\\n|---|\\n| 2 |")
    'A\\n\\n| x |\\n|---|\\n| 2 |\\n\\nB'
    """
    header = made.splitlines()[0]
    before, found, after = text.partition(header + "\n")
    if not found:
        raise ValueError(f"there is no table that begins with {header}")
    rest = after.splitlines(keepends=True)
    length = next((number for number, line in enumerate(rest) if not line.startswith("|")), len(rest))
    return f"{before}{made}\n{''.join(rest[length:])}" if rest[length:] else f"{before}{made}"


def tally(folder: Path, former: dict[str, Any], words: dict[str, Any]) -> str:
    """All studies that were judged by the present rules in a sentence, without extras such as CIFAR-10.

    >>> former = json.loads(FORMER.read_text())
    >>> tally(ROOT / "docs" / "studies", former, read_words())  # doctest: +ELLIPSIS
    '... studies test ... claims by stated rules... reproduced, ... partly, ... (`enlist reproduce darts`, ...'
    """
    texts = {name: path.read_text() for name in words["studies"] if (path := folder / name / "verdict.md").exists()}
    fresh = {name: text for name, text in texts.items() if not from_before(name, text, former)}
    found = [counts(verdicts(text)) for text in fresh.values()]
    every, *each = (sum(column) for column in zip(*found, strict=True))
    told = ", ".join(f"{count} {kind}" for count, kind in zip(each, KINDS, strict=True))
    names = "`, `".join(fresh)
    older = len(texts) - len(fresh)
    left_out = f", not counting {older} with older verdicts" if older else ""
    return f"{len(found)} studies test {every} claims by stated rules{left_out}: {told} (`enlist reproduce {names}`"


def put_tally(text: str, sentence: str) -> str:
    """The text with this sentence in place of the one of before; its paragraph is wrapped anew.

    >>> put_tally("* 1 studies test 2 claims by stated\\n  rules (`x`; y).\\n", "3 studies test 4 claims (`z`")
    '* 3 studies test 4 claims (`z`; y).\\n'
    """
    item = re.search(r"^\* [^\n]*\d+ studies\s+test\s.*?(?=^\*|^$|\Z)", text, flags=re.M | re.S)
    if item is None:
        raise ValueError("README.md has no item with '<number> studies test ...'")
    own = re.sub(r"\d+ studies test [^;]*", sentence, " ".join(item[0].split()))
    return text.replace(item[0], fill(own, 120, subsequent_indent="  ", break_on_hyphens=False) + "\n")


def read_words() -> dict[str, Any]:
    """What is written by hand: titles, reasons, claims that were renamed.

    >>> sorted(read_words())
    ['about', 'everywhere', 'notes', 'studies']
    """
    return tomllib.loads(WORDS.read_text())


def pages() -> dict[Path, str]:
    """All that is written: path -> text.

    >>> sorted({path.name for path in pages()})
    ['README.md', 'changes.md', 'verdict.md']
    """
    folder, words, former = ROOT / "docs" / "studies", read_words(), json.loads(FORMER.read_text())
    counted, runs = tables(folder, former, words)
    published = {path: path.read_text() for path in sorted(folder.glob("*/verdict.md"))}
    visitors = ROOT / "README.md"
    return {
        folder / "changes.md": changes(folder, former, words),
        folder / "README.md": put(put((folder / "README.md").read_text(), counted), runs),
        visitors: put_tally(visitors.read_text(), tally(folder, former, words)),
        **{
            path: with_notices(text, notices(path.parent.name, text, former, words)) for path, text in published.items()
        },
    }


def main() -> None:
    """The command line: see above."""
    argparse.ArgumentParser(prog="python -m tools.study_changes", description=str(__doc__).splitlines()[0]).parse_args()
    for path, text in pages().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
