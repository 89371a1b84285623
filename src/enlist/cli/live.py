"""What one sees while simulations run: a bar for a run, a bar per selector for a comparison; quiet in pipes."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from types import FrameType
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from enlist.cli.console import CELL, say
from enlist.runs.printing import duration, level, plural
from enlist.simulation.callbacks import Callback, Row
from enlist.simulation.comparison import Comparison
from enlist.simulation.config import Config
from enlist.simulation.simulation import Simulation
from enlist.text import printable

ENDED = ("finished", "abandoned")
"""Of runs that are over; the latter because nobody could be asked any more."""


class Bar(Callback):
    """A progress bar with accuracy and virtual time; quiet in pipes."""

    def __init__(self, console: Console, config: Config) -> None:
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=32),
            MofNCompleteColumn(),
            TextColumn("rounds"),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self.task = self.progress.add_task(printable(config.selector.title, CELL), total=config.rounds.rounds, state="")

    def __enter__(self) -> Bar:
        self.progress.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.progress.stop()

    def on_round(self, simulation: Simulation, row: Row, participations: Sequence[Row]) -> None:
        by = "accuracy" if simulation.population.classes else "loss"
        state = f"{by} {level(getattr(simulation, by), by)} · {duration(simulation.now)} virtual"
        self.progress.update(self.task, completed=simulation.round, state=state)


class Stoppable(Protocol):
    """What can be told to stop after the round: a simulation, or anything else that goes by rounds."""

    stopping: bool


class stopping_after_round:  # noqa: N801
    """Ctrl-C ends the run cleanly after the round; a second one ends it at once, and nothing is lost either."""

    def __init__(self, console: Console, simulation: Stoppable) -> None:
        self.console, self.simulation = console, simulation

    def __enter__(self) -> None:
        self.before = signal.signal(signal.SIGINT, self._stop)

    def __exit__(self, *failure: object) -> None:
        signal.signal(signal.SIGINT, self.before)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self.simulation.stopping:
            raise KeyboardInterrupt
        self.simulation.stopping = True
        say(self.console, "stopping after this round; Ctrl-C again stops at once.")


class View:
    """One bar per selector over the rounds of all its seeds; quiet in pipes."""

    def __init__(self, console: Console, comparison: Comparison) -> None:
        self.comparison = comparison
        self.progress = Progress(
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(bar_width=32),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        names = {name: printable(name, CELL) for name in comparison.labels}
        width = max(map(len, names.values()))
        total = comparison.seeds * comparison.config.rounds.rounds
        self.tasks = {
            name: self.progress.add_task(shorter.ljust(width), total=total, state="waiting")
            for name, shorter in names.items()
        }
        self.states: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in comparison.labels}

    def tick(self, selector: str, seed: int, state: dict[str, Any]) -> None:
        """Show how a run stands."""
        states = self.states[selector]
        states[seed] = state
        rounds = self.comparison.config.rounds.rounds
        done = sum(rounds if s["status"] in (*ENDED, "failed") else s["rounds"] for s in states.values())
        ended = sum(s["status"] in ENDED for s in states.values())
        failed = sum(s["status"] == "failed" for s in states.values())
        words = [f"{ended}/{plural(self.comparison.seeds, 'seed')}"]
        words += [f"[red]{failed} failed[/]"] if failed else []
        if state.get("accuracy") is not None:
            words += [f"accuracy {level(state['accuracy'])}", f"{duration(state['time'])} virtual"]
        self.progress.update(self.tasks[selector], completed=done, state=" · ".join(words))
