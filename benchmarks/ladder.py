"""The known results of the ladder, docs/ladder.md and choosing.md:  python -m benchmarks.ladder FOLDER... [--check]

Merges the results.csv of ladder folders into src/enlist/ladder/known, and writes the two pages, with their charts, from
the known results: of published seeds once `tempo` was run on them, till then of development seeds. Without a folder it
only writes the pages; with --check it only says whether they are what the known results give.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import choosing
from benchmarks.pictures import smaller
from enlist.errors import EnlistError, InputError
from enlist.ladder import Leaderboard, known, rungs
from enlist.ladder.charts import heat_map, profile_chart, rank_chart, standing_chart
from enlist.ladder.markdown import markdown
from enlist.ladder.results import read_results, write_results
from enlist.ladder.rung import DEVELOPMENT, FOLDER, NAMES, PUBLISHED, VERSION, Rung
from enlist.report.charts import save
from enlist.runs.scores import BASELINE

DOCS = Path(__file__).parents[1] / "docs"
CHARTS: dict[str, Callable[[Leaderboard], Any]] = {
    "standings": standing_chart,
    "heat-map": heat_map,
    "ranks": rank_chart,
    "profile": profile_chart,
}

Row = Mapping[str, Any]
Rows = list[Row]


def given(place: Path, version: int | None = None) -> Rows:
    """The rows of a ladder folder or of a results.csv, which must be of this version and of its rungs."""
    file = place if place.suffix == ".csv" else place / "results.csv"
    if not file.is_file():
        raise InputError(f"{place} holds no results.csv; name a folder that enlist ladder wrote.")
    said = known.version_of(file.parent)
    found = version if said is None else said
    if found is None:
        raise InputError(
            f"{file} has no ladder.json beside it that says of which version of the ladder it is; if it is of this "
            f"one, say so with --version {VERSION}."
        )
    if found != VERSION:
        raise InputError(
            f"{file} is of version {found} of the ladder, and the known results are of version {VERSION}; run it again."
        )
    rows: Rows = list(read_results(file))
    own = known.own_rungs(file.parent)
    for row in rows:
        name, seed = row["rung"], row["seed"]
        if name not in NAMES or name in own:
            raise InputError(f"{file} has results of {name}, which is no rung of the package; leave it out.")
        if row["data"] != (meant := Rung.read(FOLDER / f"{name}.toml").data):
            raise InputError(f"{file} has {name} with {row['data']} instead of {meant}; run it where {meant} is there.")
        if seed not in DEVELOPMENT and seed not in PUBLISHED:
            raise InputError(f"{file} has seed {seed}, which is neither one to develop on nor a published one.")
    return rows


def merge(before: Iterable[Row], more: Iterable[Row], replace: bool = False) -> Rows:
    """Known rows with some more; one of the same rung, method and seed gives way to the newer.

    Everybody is measured by random. If random has another result than before, it is refused; with `replace` all that
    was measured by the random of before is left out.
    """
    rows = {_key(row): row for row in before}
    newer = {_key(row): row for row in more}
    for key, row in newer.items():
        if row["selector"] != BASELINE or key not in rows or known.same_run(rows[key], row):
            continue
        if not replace:
            raise InputError(
                f"random has another result on {row['rung']} with seed {row['seed']} than the known one, by which "
                "others are measured; run them again, or leave them out with --replace."
            )
        rows = {other: kept for other, kept in rows.items() if (other[0], other[2]) != (key[0], key[2])}
    rows |= newer
    for (rung, selector, seed), row in rows.items():
        base = rows.get((rung, BASELINE, seed))
        if base is None or not math.isclose(row["target"], base["target"], rel_tol=known.TOLERANCE):
            raise InputError(f"{selector} on {rung} with seed {seed} was measured by another random, or by none.")
    return sorted(rows.values(), key=lambda row: (NAMES.index(row["rung"]), row["selector"], row["seed"]))


def _key(row: Row) -> tuple[str, str, int]:
    return row["rung"], row["selector"], row["seed"]


def add(places: Sequence[Path], folder: Path, replace: bool = False, version: int | None = None) -> list[str]:
    """Merge the results of some places into the known ones, and say what became of the files. All or nothing."""
    there = known.version_of(folder)
    if there not in (None, VERSION):
        raise InputError(f"{folder} is of version {there} of the ladder, not {VERSION}; empty it to begin anew.")
    before = {published: known.known_results(published, folder) for published in (False, True)}
    after: dict[bool, Rows] = {published: list(rows) for published, rows in before.items()}
    for place in places:
        rows = given(place, version)
        for published, seeds in ((False, DEVELOPMENT), (True, PUBLISHED)):
            after[published] = merge(after[published], [row for row in rows if row["seed"] in seeds], replace)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ladder.json").write_text(json.dumps({"version": VERSION}) + "\n")
    said = []
    for published, rows in after.items():
        file = write_results(rows, known.known_file(published, folder), digits=known.DIGITS)
        lost = {_key(row) for row in before[published]} - {_key(row) for row in rows}
        said.append(f"{file}: {len(rows)} runs" + (f", {len(lost)} left out" if lost else ""))
    return said


def board_of(folder: Path) -> Leaderboard | None:
    """The leaderboard of known results: of published seeds once ours was run on them, till then of the others."""
    hard = {rung.name: rung.hard for rung in rungs()}
    for published in (True, False):
        rows = known.known_results(published, folder)
        ready = any(row["selector"] == choosing.OURS for row in rows) or not known.known_results(False, folder)
        if rows and (ready or not published):
            return Leaderboard(rows, hard=hard, published=published)
    return None


def write(board: Leaderboard, docs: Path) -> Path:
    """Write the pages and their charts."""
    (docs / "ladder").mkdir(parents=True, exist_ok=True)
    for name, chart in CHARTS.items():
        [picture] = save(chart(board), docs / "ladder" / name, [".png"])
        picture.write_bytes(smaller(picture.read_bytes()))
    for name, text in pages(board).items():
        (docs / name).write_text(text, encoding="utf-8")
    return docs / "ladder.md"


def pages(board: Leaderboard) -> dict[str, str]:
    """The pages by file name; which selector to take is said once ours is among the results."""
    ours = {"choosing.md": choosing.page(board)} if choosing.OURS in board.labels else {}
    return {"ladder.md": markdown(board), **ours}


def stale(board: Leaderboard | None, docs: Path) -> str:
    """What is wrong with the page; empty if nothing is."""
    if board is None:
        page = docs / "ladder.md"
        return f"{page} is there, but no result is known" if page.exists() else ""
    for name, text in pages(board).items():
        if not (docs / name).exists() or (docs / name).read_text(encoding="utf-8") != text:
            return f"{docs / name} is not what the known results give"
    missing = [name for name in CHARTS if not (docs / "ladder" / f"{name}.png").exists()]
    return f"{docs / 'ladder' / missing[0]}.png is missing" if missing else ""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="ladder folders, or results.csv files")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page is not up to date")
    parser.add_argument("--replace", action="store_true", help="leave out what was measured by another random")
    parser.add_argument("--version", type=int, help="of results.csv files that have no ladder.json beside them")
    parser.add_argument("--known", type=Path, default=known.FOLDER, help="folder of the known results")
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder of the page")
    given_ = parser.parse_args(arguments)
    if given_.check and given_.folders:
        parser.error("--check merges nothing; name no folder with it.")
    try:
        if given_.folders:
            print(*add(given_.folders, given_.known, given_.replace, given_.version), sep="\n")
        board = board_of(given_.known)
        if given_.check:
            wrong = stale(board, given_.docs)
            print(f"{wrong}; write it with: python -m benchmarks.ladder" if wrong else "up to date")
            return int(bool(wrong))
        print(write(board, given_.docs) if board else "no result is known; no page was written.")
    except EnlistError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
