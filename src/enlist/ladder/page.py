"""The leaderboard as a page that opens offline."""

from __future__ import annotations

from pathlib import Path

from enlist.ladder.charts import heat_map, profile_chart, rank_chart, standing_chart
from enlist.ladder.leaderboard import CEILING, Leaderboard
from enlist.ladder.printing import difference, ratio
from enlist.report.charts import unchecked
from enlist.report.page import Section, publish
from enlist.report.runs import Charts
from enlist.runs.printing import UNKNOWN, percent
from enlist.runs.scores import BASELINE

RULES = (
    "The target of a rung and seed is 97 % of the final accuracy of random, reached by the first three evaluations in "
    "a row whose mean meets it. The speed-up is the virtual time of random to the target over the method's, paired by "
    "seed; a run that never reaches it counts with the whole budget of the rung. Over rungs it is the geometric mean, "
    "with a 95 % interval over seeds (Student's t on logarithms)."
)
COLUMNS = (
    "'Reached' is the share of runs that reached the target; 'accuracy' the final accuracy minus that of random, in "
    "points, on average over rungs, and 'at worst' on its worst rung; 'wasted' the share of selected clients whose "
    "update was never merged; 'server ms' the processor time of the selector per round."
)

HEAT = "Blue is faster than random, red slower."
RANKS = "Methods whose bars of mean ranks do not overlap differ significantly (Nemenyi, 5 %)."
PROFILE = "The profile shows on what share of the rungs a method is within a given factor of the best one."


@unchecked()
def write_report(board: Leaderboard, place: Path) -> Path:
    """Write the page, and next to it charts/ (PNG and SVG); returns the page's path.

    >>> import tempfile
    >>> from enlist.ladder.charts import example
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(example(), Path(folder))
    ...     page.name, "Heat map" in page.read_text()
    ('report.html', True)
    """
    sections, charts = report_sections(board)
    return publish(place, board.title, sentence(board), sections, charts)


def report_sections(board: Leaderboard) -> tuple[list[Section], Charts]:
    """The sections of the page, and its charts by name.

    >>> from enlist.ladder.charts import example
    >>> [section.heading for section in report_sections(example())[0]]
    ['Standings', 'Heat map', 'Ranks and profile', 'silos']
    """
    charts: Charts = {
        "standings": standing_chart(board),
        "heat-map": heat_map(board),
        "ranks": rank_chart(board),
        "profile": profile_chart(board),
    }
    failed = "; ".join(f"{rung}, {label}, seed {seed}: {why}" for (rung, label, seed), why in board.failed.items())
    sections = [
        Section(
            "Standings",
            board.notice,
            board.lines(),
            charts=[charts["standings"]],
            note=f"{board.footnote} {RULES} {COLUMNS}".strip(),
        ),
        Section("Heat map", charts=[charts["heat-map"]], note=f"{HEAT} {board.footnote}".strip()),
        Section(
            "Ranks and profile",
            charts=[charts["ranks"], charts["profile"]],
            note=f"{RANKS} {PROFILE}",
        ),
        *(Section(rung, board.hard.get(rung, ""), rung_lines(board, rung)) for rung in board.rungs),
    ]
    if failed:
        sections.insert(1, Section("Failed runs", failed))
    return sections, charts


def sentence(board: Leaderboard) -> str:
    """The leading method, with its interval.

    >>> from enlist.ladder.charts import example
    >>> sentence(example())
    'oort is first: 1.50 times as fast as random in the geometric mean, 1.50 on its worst rung (silos).'
    """
    first = board.standings[0]
    if first["selector"] == BASELINE:
        return "No method is faster than random in the geometric mean."
    name = first["selector"] + (" (known)" if first["known"] else "")
    return (
        f"{name} is first: {ratio(first, 'speed_up')} times as fast as random in the geometric mean, "
        f"{first['worst']:.2f} on its worst rung ({first['worst_rung']})."
    )


def rung_lines(board: Leaderboard, rung: str) -> list[list[str]]:
    """The scores of one rung with a header, best first and the oracle last.

    >>> from enlist.ladder.charts import example
    >>> [line[:2] for line in rung_lines(example(), "silos")]
    [['selector', 'speed-up'], ['oort', '1.50'], ['random', '1.00']]
    """
    own = sorted(
        (row for row in board.rows if row["rung"] == rung),
        key=lambda row: (row["selector"] == CEILING, -row["speed_up"]),
    )
    measured = any(row["worst_tenth"] == row["worst_tenth"] for row in own)
    head = ["selector", "speed-up", "in rounds", "reached", "final accuracy", "over random", "wasted"]
    head += [*(["worst tenth"] if measured else []), "server ms"]
    return [
        head,
        *(
            [
                board.name(row["selector"]),
                ratio(row, "speed_up"),
                ratio(row, "speed_up_rounds"),
                f"{row['reached']}/{row['seeds']}",
                percent(row["final"], digits=1),
                difference(row),
                percent(row["wasted"]),
                *([percent(row["worst_tenth"], digits=1)] if measured else []),
                UNKNOWN if row["server_ms"] != row["server_ms"] else f"{row['server_ms']:.2f}",
            ]
            for row in own
        ),
    ]
