"""The display while personalised learning runs: one bar over all seeds, targets and stages; quiet in pipes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from enlist._internal.text import printable
from enlist.cli.console import CELL
from enlist.personal.config import PersonalConfig
from enlist.personal.personalisation import PersonalCallback, Personalisation
from enlist.personal.seeds import standing
from enlist.personal.tables import PersonalRecord
from enlist.simulation.callbacks import Result


class PersonalBar:
    """One bar, with the score, the combination kept and the messages so far. Setting `stopping` ends the round."""

    def __init__(self, console: Console, settings: PersonalConfig, seeds: int) -> None:
        after = settings.after
        self.stages = 1 + 2 * after.baselines + after.retrain + bool(after.fine_tune)
        self.seeds, self.number, self.targets, self.done = seeds, 0, 1, 0
        self.shares: dict[int, float] = {}
        self.run: Personalisation | None = None
        self._stopping = False
        self.progress = Progress(
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(bar_width=32),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[state]}", markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self.task = self.progress.add_task("reading data", total=1.0, state="")

    def begin(self, number: int, targets: int) -> None:
        """Start the next seed."""
        self.shares |= dict.fromkeys(range(number), 1.0)
        self.number, self.targets, self.done = number, targets, 0

    @property
    def stopping(self) -> bool:
        """Whether to stop after the round."""
        return self._stopping

    @stopping.setter
    def stopping(self, wanted: bool) -> None:
        self._stopping = wanted
        if self.run is not None:
            self.run.stopping = wanted

    def companions(self, target: str, stage: str) -> Sequence[PersonalCallback]:
        """The callbacks of a stage."""
        return (Stage(self, target, stage),)

    def show(self, number: int, state: dict[str, Any]) -> None:
        """Show the progress of one seed after a round; several may run at once."""
        each = state["targets"] * self.stages
        self.shares[number] = (min(state["ended"], each - 1) + state["share"]) / each
        words = [f"{state['metric']} {state['score']:.3f}", f"kept {state['arm'] or 'nothing'}"]
        words.append(f"{state['messages']:,} messages")
        stage = state["stage"].replace("_", "-")
        title = f"seed {number + 1}/{self.seeds} · worker {printable(state['target'], CELL)} · {stage}"
        self.progress.update(self.task, description=title, state=printable(" · ".join(words), CELL))
        self._advance()

    def end(self, number: int) -> None:
        """Record that a seed has ended."""
        self.shares[number] = 1.0
        self._advance()

    def _advance(self) -> None:
        self.progress.update(self.task, completed=min(sum(self.shares.values()) / self.seeds, 1.0))


class Stage(PersonalCallback):
    """Updates the bar during one stage of one target."""

    def __init__(self, bar: PersonalBar, target: str, stage: str) -> None:
        self.bar, self.target, self.stage = bar, target, stage

    def on_start(self, simulation: Personalisation) -> None:
        self.bar.run, simulation.stopping = simulation, self.bar.stopping

    def on_round(self, simulation: Personalisation, record: PersonalRecord) -> None:
        bar = self.bar
        bar.show(bar.number, standing(self.target, self.stage, bar.targets, bar.done, record, simulation))

    def on_finish(self, simulation: Personalisation, result: Result) -> None:
        self.bar.done += 1
