"""A ladder: its leaderboard from the finished runs, also while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import altair as alt

from enlist.errors import EnlistError, MissingExtraError
from enlist.report.charts import Look, coloured, looks
from enlist.report.page import page_text
from enlist.runs.tables import RunTables
from enlist.ui.groups import GroupStatus, comparison_status
from enlist.ui.index import Item
from enlist.ui.status import RunSummary
from enlist.ui.views.model import Chart, NotFoundError, Part, View, address_of, columns_of, figure, link
from enlist.ui.views.run import state_of

if TYPE_CHECKING:
    from enlist.ladder.leaderboard import Leaderboard

LookUp = Callable[[Sequence[str]], Mapping[str, Look]]


def ladder_view(
    item: Item,
    rungs: Sequence[Item],
    runs: Mapping[str, Sequence[tuple[RunSummary, RunTables | None]]],
    now: GroupStatus | None = None,
    look: LookUp = lambda methods: dict(zip(methods, looks(methods), strict=True)),
) -> View:
    """A ladder; `runs` holds those of each rung, by the rung's id, with tables once they are finished.

    `now` is its status, by default computed from the runs. `look` gives methods the style that they have on other
    pages.
    """
    board, trouble = leaderboard(item, rungs, runs)
    summaries = [summary for each in runs.values() for summary, _ in each]
    now = now or comparison_status(item, rungs, summaries)
    charts: dict[str, Chart] = {}
    if board is not None:
        from enlist.ladder.charts import heat_map, rank_chart

        charts = {
            "heat-map": lambda: heat_map(board),
            "ranks": lambda: rank_chart(board),
            "profile": lambda: _as_elsewhere(board, look),
        }
    return View(
        "ladder",
        board.title if board is not None else item.name,
        "" if board is None else _sentence(board),
        state=state_of(now),
        figures=lambda: [
            figure("rungs", f"{len(rungs) or len(board.rungs if board is not None else ()):,}"),
            *([figure("runs", f"{now.done:,} of {now.total:,} finished")] if now.total else []),
            *([figure("failed", f"{now.failed:,}", "failed")] if now.failed else []),
        ],
        parts=lambda: [*_parts(board, trouble), *([_rungs(rungs, runs)] if rungs else [])],
        charts=charts,
        tables={
            "standings": lambda: columns_of(board.standings) if board is not None else {"selector": []},
            "rungs": lambda: columns_of(board.rows) if board is not None else {"rung": []},
            "results": lambda: columns_of(board.results) if board is not None else {"rung": []},
        },
        data={"id": item.id},
    )


def _as_elsewhere(board: Leaderboard, look: LookUp) -> alt.LayerChart:
    """The profile; methods have the style of other pages, though their names carry marks here."""
    from enlist.ladder.charts import profile_chart

    known = look(board.labels)
    with coloured({board.name(label): known[label] for label in board.labels if label in known}):
        return profile_chart(board)


def ladder_report(
    item: Item, rungs: Sequence[Item], runs: Mapping[str, Sequence[tuple[RunSummary, RunTables | None]]]
) -> str:
    """A leaderboard page that opens offline."""
    board, trouble = leaderboard(item, rungs, runs)
    if board is None:
        raise NotFoundError(trouble)
    from enlist.ladder.page import report_sections, sentence

    return page_text(board.title, sentence(board), report_sections(board)[0])


def leaderboard(
    item: Item, rungs: Sequence[Item], runs: Mapping[str, Sequence[tuple[RunSummary, RunTables | None]]]
) -> tuple[Leaderboard | None, str]:
    """The leaderboard, or why there is none yet."""
    try:
        from enlist.ladder.leaderboard import Leaderboard, read
        from enlist.ladder.results import results
    except ImportError:
        return None, str(MissingExtraError("the leaderboard", "sim"))
    try:
        if (item.folder / "results.csv").is_file():
            return read(item.folder), ""
        rows: list[dict[str, Any]] = []
        for rung in rungs:
            rows += results(rung.name, [run for _, run in runs.get(rung.id, ()) if run is not None])
        return (Leaderboard(rows), "") if rows else (None, "The baseline, random, has no finished run yet.")
    except (EnlistError, LookupError, ValueError) as error:
        return None, str(error).replace(str(item.folder), item.id)


def _sentence(board: Leaderboard) -> str:
    from enlist.ladder.page import sentence

    return sentence(board)


def _parts(board: Leaderboard | None, trouble: str) -> list[Part]:
    if board is None:
        return [Part("Standings", [trouble])]
    from enlist.ladder.page import COLUMNS, HEAT, PROFILE, RANKS, RULES, rung_lines

    note = f"{board.footnote} {RULES} {COLUMNS}".strip()
    return [
        Part("Standings", [board.notice], board.lines(), "standings", note=note),
        Part("Heat map", charts=["heat-map"], note=HEAT),
        Part("Ranks and profile", charts=["ranks", "profile"], note=f"{RANKS} {PROFILE}"),
        *(
            Part(rung, [board.hard.get(rung, "")], rung_lines(board, rung), "rungs", folded=True)
            for rung in board.rungs
        ),
    ]


def _rungs(rungs: Sequence[Item], runs: Mapping[str, Sequence[tuple[RunSummary, RunTables | None]]]) -> Part:
    rows: list[list[Any]] = [["rung", "finished", "running", "other"]]
    for rung in rungs:
        states = [summary.status.state for summary, _ in runs.get(rung.id, ())]
        done, going = states.count("finished"), states.count("running")
        rows.append([link(rung.name, address_of(rung)), str(done), str(going), str(len(states) - done - going)])
    return Part("Rungs", table=rows if len(rows) > 1 else (), name="progress of rungs")
