"""Personalised learning: the combination learned for a target, how certain it is, and which arms were played."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from enlist.report.page import Section
from enlist.report.personal import Charts, by_target, lead, personal_sections
from enlist.runs.personal import PersonalTables
from enlist.runs.printing import score
from enlist.ui.index import Item
from enlist.ui.status import RunSummary
from enlist.ui.views.model import Chart, Part, View, figure
from enlist.ui.views.run import state_of


def personal_view(item: Item, summary: RunSummary, run: PersonalTables) -> View:
    """One target and seed."""

    @functools.cache
    def sections() -> Sequence[tuple[Section, Charts]]:
        return personal_sections([run]) if by_target([run]) else []

    def chart(name: str) -> Chart:
        def made() -> Any:
            return next((charts[name] for _, charts in sections() if name in charts), None)

        return made

    def parts() -> list[Part]:
        if not sections():
            return [Part("What was learned", ["No round is finished yet."])]
        return [
            Part(section.heading, [section.text], section.table, charts=list(charts), note=section.note)
            for section, charts in sections()
        ]

    names = ("increases", "estimates", "rounds", "messages", "actions", "journey", "partners")
    now, metric = summary.status, "AUC" if run.metric == "auc" else run.metric
    return View(
        "personal",
        f"Worker {run.target}, seed {run.seed}",
        lead([run]) if by_target([run]) else "",
        state=state_of(summary.status),
        figures=lambda: [
            figure("rounds", f"{now.rounds:,} of {now.of:,}" if now.of else f"{now.rounds:,}"),
            figure(f"last test {metric}", score(summary.last, run.metric)),
        ],
        parts=parts,
        charts={name: chart(name) for name in names},
        tables={"rounds": lambda: run.rounds, "arms": lambda: run.arms, "workers": lambda: run.workers},
        data={"id": item.id},
    )
