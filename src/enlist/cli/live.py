"""The display while simulations run: a bar for a single run, a bar per method or point for many; quiet in pipes."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from enlist._internal.text import printable
from enlist.cli.console import CELL, say
from enlist.runs.printing import duration, level, plural
from enlist.simulation.callbacks import Callback
from enlist.simulation.config import Config
from enlist.simulation.jobs import Key
from enlist.simulation.plans import Plan
from enlist.simulation.round.rows import RoundRecord
from enlist.simulation.simulation import Simulation

ENDED = ("finished", "abandoned")
"""States of ended runs; the latter ended because no client was available any more."""
BARS = 12
"""Most bars; a terminal has few lines."""


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

    def on_round(self, simulation: Simulation, record: RoundRecord) -> None:
        by = "accuracy" if simulation.population.classes else "loss"
        state = f"{by} {level(getattr(simulation, by), by)} · {duration(simulation.now)} virtual"
        self.progress.update(self.task, completed=simulation.round, state=state)


class Stoppable(Protocol):
    """Anything that can be told to stop after the round, such as a simulation."""

    stopping: bool


class stopping_after_round:  # noqa: N801
    """Ctrl-C ends the run cleanly after the round; a second one ends it at once, also without loss."""

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


class ComparisonProgress:
    """One bar per method of a comparison, or per point of a sweep, over the rounds of all its runs; quiet in pipes.

    If there are many points, only those under way are shown, below a bar for all of them.
    """

    def __init__(self, console: Console, plan: Plan, noun: str = "seeds") -> None:
        self.noun = noun
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
        self.rounds: dict[str, dict[Key, int]] = {}
        for job in plan.jobs():
            self.rounds.setdefault(job.key[0], {})[job.key] = job.config.rounds.rounds
        self.states: dict[str, dict[Key, dict[str, Any]]] = {name: {} for name in self.rounds}
        names = {name: printable(name, CELL) for name in self.rounds}
        width, self.few = max(map(len, names.values()), default=0), len(names) <= BARS
        self.whole: TaskID | None = None
        if not self.few:
            total = sum(sum(own.values()) for own in self.rounds.values())
            self.whole = self.progress.add_task("all".ljust(width), total=total, state="waiting")
        self.tasks = {
            name: self.progress.add_task(
                shorter.ljust(width), total=sum(self.rounds[name].values()), state="waiting", visible=self.few
            )
            for name, shorter in names.items()
        }

    def tick(self, *news: Any) -> None:
        """Show the progress of a run, from the parts of its key and its state."""
        *parts, state = news
        name, key = parts[0], tuple(parts)
        states, rounds = self.states[name], self.rounds[name]
        states[key] = state
        done = sum(rounds[key] if own["status"] in (*ENDED, "failed") else own["rounds"] for key, own in states.items())
        ended = sum(own["status"] in ENDED for own in states.values())
        failed = sum(own["status"] == "failed" for own in states.values())
        words = [f"{ended}/{plural(len(rounds), self.noun)}"]
        words += [f"[red]{failed} failed[/]"] if failed else []
        if state.get("accuracy") is not None:
            words += [f"accuracy {level(state['accuracy'])}", f"{duration(state['time'])} virtual"]
        under_way = self.few or ended + failed < len(rounds)
        self.progress.update(self.tasks[name], completed=done, state=" · ".join(words), visible=under_way)
        if self.whole is not None:
            over = sum(own["status"] in ENDED for every in self.states.values() for own in every.values())
            whole = sum(task.completed for task in self.progress.tasks if task.id != self.whole)
            runs = sum(map(len, self.rounds.values()))
            self.progress.update(self.whole, completed=whole, state=f"{over}/{runs} {self.noun}")
