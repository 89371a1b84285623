"""Results of simulations: `Run`, one simulation, and `ComparisonResult`, several methods over several seeds."""

from __future__ import annotations

import functools
import html
import math
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from enlist._internal.statistics import Summary, paired_difference
from enlist._internal.typing import AnyArray
from enlist.errors import InputError, unknown
from enlist.runs.clients import by_client
from enlist.runs.columns import USER, Participation, RoundRow
from enlist.runs.comparing import comparison_rows, speed_up
from enlist.runs.frames import columns_of, frame
from enlist.runs.groups import ordered
from enlist.runs.printing import as_html, as_text, comparison_table, duration, level, plural
from enlist.runs.reasons import MOST_ROWS, reason_table
from enlist.runs.scores import OUTCOMES, measure, run_scores, run_summary, time_to
from enlist.runs.tables import RunTables
from enlist.runs.why import ChoiceExplanation, why
from enlist.simulation.callbacks import Callback, Recordable, Result
from enlist.simulation.config import Config
from enlist.simulation.round.rows import RoundRecord

if TYPE_CHECKING:  # charts are slow to import, and no run draws one
    import altair as alt

TABLES = ("rounds", "participations", "clients", "reasons")
Weights = Mapping[str, AnyArray]
"""Name of a parameter or buffer -> its values."""


class Run:
    """One simulation: its tables as data frames, its model, its scores.

    `simulate` returns it, and `read` reads it from a folder.

    >>> from enlist.simulation import Config, simulate
    >>> run = simulate(Config(data={"clients": 10}, rounds={"rounds": 3, "k": 4}))
    >>> run.rounds["completed"].tolist(), run.participations["client"].dtype
    ([4, 4, 4], dtype('int64'))
    >>> run.summary["rounds"], type(run.model).__name__
    (3, 'Sequential')
    """

    def __init__(
        self, config: Config, tables: RunTables, load: Callable[[str], torch.nn.Module], accuracies: Callable[[], Any]
    ) -> None:
        self.config, self.tables, self._load, self._accuracies = config, tables, load, accuracies

    @property
    def label(self) -> str:
        """The method's label."""
        return self.tables.selector

    @property
    def seed(self) -> int:
        """The seed."""
        return self.tables.seed

    @property
    def folder(self) -> Path | None:
        """Its folder; None if it is in memory only."""
        return self.tables.folder

    @functools.cached_property
    def rounds(self) -> Any:
        """One row per round, as a data frame."""
        return frame(self.tables.rounds)

    @functools.cached_property
    def participations(self) -> Any:
        """One row per client and round in which it was selected, or its late update came, as a data frame."""
        return frame(self.tables.participations)

    @functools.cached_property
    def clients(self) -> Any:
        """One row per client: what it holds and how fast it is, as a data frame."""
        return frame(self.tables.clients)

    @functools.cached_property
    def model(self) -> torch.nn.Module:
        """The trained model, on the CPU and in evaluation mode."""
        return self._load("model")

    @functools.cached_property
    def best_model(self) -> torch.nn.Module:
        """The best model by `evaluation.watch`; it is kept if `evaluation.keep_best` is set."""
        if not self.config.evaluation.keep_best:
            raise InputError("no best model was kept; set evaluation.keep_best = true, and run it again.")
        return self._load("best")

    @functools.cached_property
    def client_accuracy(self) -> Any:
        """(clients,) accuracy of each on its own test samples in the last evaluation; NaN for one without any."""
        if not self.config.data.client_test:
            raise InputError("clients kept no samples for testing; set data.client_test, for example to 0.2.")
        return self._accuracies()

    def table(self, name: str, library: str | None = None) -> Any:
        """A table ("rounds", "participations", "clients" or "reasons") as a data frame of pandas, polars or arrays."""
        if name not in TABLES:
            raise unknown("table", name, TABLES, owner="a run")
        return frame(getattr(self.tables, name), library)

    @functools.cached_property
    def summary(self) -> dict[str, Any]:
        """How it ended: status, rounds, virtual seconds, accuracies, times to the target, shares of outcomes.

        `final` is the mean of the last three evaluations, `last` the last of them, `best` the best.
        """
        return run_summary(self.tables)

    def time_to(self, target: float, window: int = 1) -> float:
        """Virtual seconds until the test accuracy (in a regression, the loss) met `target`; infinite if never."""
        reached = time_to(self.tables, target, window, measure([self.tables]))
        return math.inf if reached is None else reached.seconds

    @functools.cached_property
    def by_client(self) -> Any:
        """One row per client: how often it was selected, completed and late, its mean loss, accuracy and latency, and
        the reward that the selector has learned, as far as they are known; as a data frame.

        >>> from enlist.simulation import Config, simulate
        >>> config = Config(data={"clients": 10}, rounds={"rounds": 3, "k": 4}, selector="ucb")
        >>> list(simulate(config).by_client)
        ['client', 'selected', 'completed', 'late', 'loss', 'accuracy', 'latency', 'reward']
        """
        return frame(by_client(self.tables))

    @functools.cached_property
    def reasons(self) -> Any:
        """One row per client and round in which it was selected: the terms of the choice, as a data frame."""
        return frame(self.tables.reasons)

    def why(self, round: int, client: int | str | None = None) -> ChoiceExplanation:
        """Why clients were selected in a round, or why one (position or user id) was or was not: a table and words.

        >>> from enlist.simulation import Config, simulate
        >>> config = Config(data={"clients": 10}, rounds={"rounds": 3, "k": 4}, selector="cs-ucb")
        >>> print(simulate(config).why(3, client=1).sentences[0])
        Round 3: cs-ucb selected 4 of 10 available clients.
        """
        return why(self.tables, round, client)

    def plot(self, along: str = "time") -> alt.TopLevelMixin:
        """Accuracy over virtual time, or over rounds (along="rounds"), as an Altair chart."""
        return _curves([self.tables], along, f"{self.label}, seed {self.seed}")

    def report(self, place: str | PathLike[str]) -> Path:
        """Write a page with tables and charts to a folder, or to a file that ends in .html; returns its path."""
        from enlist.report.runs import write_report

        return write_report([self.tables], Path(place), self.tables.name)

    def __repr__(self) -> str:
        found = self.summary
        value = (
            ""
            if math.isnan(found["final"])
            else f", {found['measure']} {level(round(found['final'], 4), found['measure'])}"
        )
        length = f"{plural(found['rounds'], 'round')}, {duration(found['time'])}"
        return f"Run({self.label!r}, seed={self.seed}, {length}{value})"

    def _repr_html_(self) -> str:
        return as_html([[str(key), _cell(value)] for key, value in self.summary.items()], header=False)


class ComparisonResult:
    """Methods x seeds: the table with intervals, curves, pairs, and every run.

    `compare` returns it.

    >>> from enlist.simulation import Config, compare
    >>> result = compare(Config(data={"clients": 10}, rounds={"rounds": 4, "k": 3}), "random, oort", seeds=2)
    >>> [run.label for run in result.runs], list(result.table["method"])
    (['oort', 'oort', 'random', 'random'], ['oort', 'random'])
    """

    def __init__(
        self,
        runs: Sequence[Run],
        *,
        failed: Mapping[tuple[str, int], str] | None = None,
        target: float | None = None,
        baseline: str | None = None,
        title: str = "Comparison",
    ) -> None:
        by_tables = {id(run.tables): run for run in runs}
        self.runs = [by_tables[id(tables)] for tables in ordered([run.tables for run in runs])]
        self.failed = dict(failed or {})
        """(label, seed) -> why that run failed."""
        self.target, self.baseline, self.title = target, baseline, title
        self._rows: dict[tuple[float | None, str | None], list[dict[str, Any]]] = {}

    @property
    def labels(self) -> list[str]:
        """The methods, in the order of the table."""
        return list(dict.fromkeys(run.label for run in self.runs))

    def run(self, method: str, seed: int) -> Run:
        """The run of a method with a seed."""
        found = [run for run in self.runs if (run.label, run.seed) == (method, seed)]
        if not found:
            known = [f"{run.label}, seed {run.seed}" for run in self.runs]
            raise unknown("run", f"{method}, seed {seed}", known, owner="the comparison")
        return found[0]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dict per method: every score with its interval; `enlist.runs.comparing.comparison_rows` explains them."""
        key = (self.target, self.baseline)  # which may be set to something else
        if key not in self._rows:
            self._rows[key] = self._scored()
        return self._rows[key]

    def _scored(self) -> list[dict[str, Any]]:
        tables = self._tables()
        if self.baseline not in (None, *self.labels):
            reasons = [reason for (label, _), reason in self.failed.items() if label == self.baseline]
            raise InputError(
                f"the baseline '{self.baseline}' has no finished run{f' ({reasons[0]})' if reasons else ''}; set "
                f"`baseline` of the result to another method: {', '.join(self.labels)}."
            )
        return comparison_rows(tables, self.target, baseline=self.baseline)

    @property
    def table(self) -> Any:
        """One row per method, as a data frame: scores with 95 % intervals over seeds, and the speed-up."""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        columns = columns_of(self.rows, names)
        renamed = {"method" if name == "selector" else name: values for name, values in columns.items()}
        return frame(renamed, shares=OUTCOMES)

    def curves(self, along: str = "time") -> Any:
        """Mean test accuracy with its 95 % interval over seeds, at times or rounds, as a data frame."""
        from enlist.report.training import curve_rows

        rows = curve_rows(self._tables(), along, self._measure)
        columns = columns_of(rows, ["selector", "at", "mean", "low", "high"])
        return frame({"method": columns.pop("selector"), **columns})

    def pairs(self, method: str, other: str) -> dict[str, Summary]:
        """Two methods, paired by seed: how many times as fast the first is, and how much more accurate at the end.

        `speed_up` is the ratio of the virtual times to the target (geometric mean, Student's t on logarithms), `final`
        the difference of the final accuracies (of a regression, losses).
        """
        own, base = self._of(method), self._of(other)
        target = self.rows[0]["target"]
        found = speed_up(base, own, target, by=self._measure)
        shared = [seed for seed in own if seed in base]
        finals = [[run_scores(runs[seed], self._measure)["final"] for seed in shared] for runs in (own, base)]
        ratio = Summary(found["speed_up"], found["speed_up_low"], found["speed_up_high"])
        return {"speed_up": ratio, "final": paired_difference(*finals)}

    def plot(self, along: str = "time") -> alt.TopLevelMixin:
        """Accuracy over virtual time, or over rounds, with bands over seeds, as an Altair chart."""
        return _curves(self._tables(), along, self.title)

    def report(self, place: str | PathLike[str]) -> Path:
        """Write a page with tables and charts to a folder, or to a file that ends in .html; returns its path."""
        from enlist.report.runs import write_report

        place, tables = Path(place), self._tables()
        return write_report(tables, place, self.title, self.target, baseline=self.baseline, rows=self.rows)

    def _tables(self) -> list[RunTables]:
        if not self.runs:
            raise InputError(f"no run was finished; {'; '.join(self.failed.values()) or 'nothing was run'}.")
        return [run.tables for run in self.runs]

    @property
    def _measure(self) -> str:
        return measure(self._tables())

    def _of(self, method: str) -> dict[int, RunTables]:
        found = {run.seed: run.tables for run in self.runs if run.label == method}
        if not found:
            raise unknown("method", method, self.labels, owner="the comparison")
        return found

    def __repr__(self) -> str:
        return "\n".join([as_text(comparison_table(self.rows)), *self.failures()])

    def failures(self) -> list[str]:
        """One sentence per method and reason for which some of its runs failed."""
        seeds: dict[tuple[str, str], list[str]] = {}
        for (label, seed), reason in self.failed.items():
            seeds.setdefault((label, reason), []).append(str(seed))
        return [f"{label} failed with seed {', '.join(found)}: {reason}" for (label, reason), found in seeds.items()]

    def _repr_html_(self) -> str:
        failures = "".join(f"<p>{html.escape(line)}</p>" for line in self.failures())
        return as_html(comparison_table(self.rows)) + failures


class InMemory(Callback[Recordable, RoundRecord]):
    """Keeps the rows of a run in memory, for a run without a folder.

    >>> from enlist.simulation import Simulation
    >>> memory = InMemory()
    >>> _ = Simulation(Config(data={"clients": 8}, rounds={"rounds": 2, "k": 3}), callbacks=[memory]).run()
    >>> [row["selected"] for row in memory.rounds], memory.result["status"]
    ([3, 3], 'finished')
    """

    def __init__(self) -> None:
        self.rounds: list[RoundRow] = []
        self.participations: list[Participation] = []
        self.reasons: list[Mapping[str, Any]] = []
        self.result: Result | None = None

    def on_round(self, simulation: Recordable, record: RoundRecord) -> None:
        """Keep the rows."""
        self.rounds.append(record.row)
        self.participations += record.participations
        if len(self.reasons) < MOST_ROWS:
            self.reasons += record.tables().get("reasons.csv", ())

    def on_finish(self, simulation: Recordable, result: Result) -> None:
        """Keep the result."""
        self.result = result

    def tables(self, label: str, config: Config, clients: Mapping[str, AnyArray]) -> RunTables:
        """The tables, as they would be read from a folder."""
        columns = config.tables()
        named = (*columns["participations.csv"], USER) if USER in clients else columns["participations.csv"]
        participations = columns_of(self.participations, named)
        return RunTables(
            label,
            config.seed,
            config.model_dump(mode="json"),
            {name: _number(values) for name, values in columns_of(self.rounds, columns["rounds.csv"]).items()},
            {name: _number(values) for name, values in participations.items()},
            {name: _number(np.asarray(values)) for name, values in clients.items()},
            self.result,
            kept=reason_table(self.reasons),
        )


def _number(values: AnyArray) -> AnyArray:
    """As tables are read from CSV files: numbers as float64, text as text."""
    return values if values.dtype.kind in "UO" else values.astype(float)


def _curves(runs: Sequence[RunTables], along: str, title: str) -> alt.TopLevelMixin:
    from enlist.report.charts import styled
    from enlist.report.training import curve_chart, curve_rows

    by = measure(runs)
    rows = curve_rows(runs, along, by)
    if not rows:
        raise InputError("nothing was evaluated yet; there is no curve to draw.")
    return styled(curve_chart(rows, title, along, by))


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
