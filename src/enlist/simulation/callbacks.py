"""Callbacks observe a run, a simulation or a personalisation. Three hooks: start, round, finish."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol

import pydantic
from typing_extensions import TypeVar

from enlist._internal import checks
from enlist._internal.typing import AnyArray
from enlist.errors import EnlistError, MissingExtraError, StateFileError
from enlist.runs.folder import Checkpoint, RunFolder, Saves

if TYPE_CHECKING:
    from enlist.simulation.round.rows import RoundRecord
    from enlist.simulation.simulation import Simulation

Row = Mapping[str, Any]
Result = Mapping[str, Any]
"""The contents of result.json."""
TRACKERS = ("mlflow", "tensorboard", "wandb")


class Record(Protocol):
    """The record of a round, in any kind of run; that of a simulation is a `RoundRecord`.

    >>> from enlist.simulation import RoundRecord
    >>> RoundRecord(None, {"round": 1}).tables()
    {'participations.csv': (), 'rounds.csv': [{'round': 1}]}
    """

    @property
    def row(self) -> Row:
        """Its row of rounds.csv."""

    def tables(self) -> Mapping[str, Sequence[Row]]:
        """Table -> the rows that this round adds to it."""


class Recordable(Protocol):
    """A run that callbacks can observe: a `Simulation` or a `Personalisation`.

    >>> from enlist.simulation import Config, Simulation
    >>> Simulation(Config(data={"clients": 8})).round
    0
    """

    stopping: bool

    @property
    def round(self) -> int:
        """Number of completed rounds."""

    @property
    def config(self) -> pydantic.BaseModel:
        """The configuration of the run."""

    def columns(self) -> Mapping[str, AnyArray]:
        """The columns of clients.csv."""

    def saved(self) -> tuple[dict[str, Any], dict[str, Any], dict[str, dict[str, Any]]]:
        """The contents of a checkpoint: header, arrays, and weights by file; all unaffected when the run continues."""

    def parts(self) -> Mapping[str, Saves]:
        """The parts that save themselves into a checkpoint, by name, in their current state."""

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint."""

    def meanwhile(self, errand: Callable[[], None]) -> None:
        """Do something that no later round depends on, now or while clients train; errands run in order."""

    def take_back_evaluation(self, rows: Callable[[], Sequence[Mapping[str, str]]]) -> Sequence[str]:
        """Drop the evaluation of a round that is no longer the last; returns its columns of rounds.csv."""


RunT = TypeVar("RunT", contravariant=True, default="Simulation")
RecordT = TypeVar("RecordT", contravariant=True, default="RoundRecord")


class Callback(Generic[RunT, RecordT]):
    """Override what you need. It observes a `Simulation`, unless it is a `Callback[Kind of run, its record]`.

    >>> class Shout(Callback):
    ...     def on_round(self, simulation, record):
    ...         print(record.row["round"], record.selection.clients)
    >>> from enlist.simulation import Config, Simulation
    >>> _ = Simulation(Config(data={"clients": 8}, rounds={"rounds": 1, "k": 3}), callbacks=[Shout()]).run()
    1 [2 4 7]
    """

    def on_start(self, simulation: RunT) -> None:
        """Called before the first round, also when a run is resumed."""

    def on_round(self, simulation: RunT, record: RecordT) -> None:
        """Called after every round with its record; `simulation.stopping = True` makes this round the last."""

    def on_finish(self, simulation: RunT, result: Result) -> None:
        """Called after the last round; `result` says whether the run is finished or was stopped."""

    def close(self) -> None:
        """Called at the very end, also after a failure; calling it twice does no harm."""


class Progress(Callback):
    """Calls a function after every round, for example for a progress bar.

    >>> from enlist.simulation import Config, Simulation
    >>> shown = Progress(lambda simulation, record: print(record.row["round"]))
    >>> _ = Simulation(Config(data={"clients": 8}, rounds={"rounds": 2, "k": 3}), callbacks=[shown]).run()
    1
    2
    """

    def __init__(self, tick: Callable[[Simulation, RoundRecord], None]) -> None:
        self.tick = tick

    def on_round(self, simulation: Simulation, record: RoundRecord) -> None:
        """Tick."""
        self.tick(simulation, record)


class Recorder(Callback[Recordable, Record]):
    """Writes the run folder; checkpoints take at most a twentieth of the time, and there is one at the end.

    Rows and checkpoints of a round are written while workers train the next one, in the same order as without workers.

    >>> import tempfile
    >>> from enlist.simulation import Config, Simulation
    >>> config = Config(data={"clients": 8}, rounds={"rounds": 2, "k": 3})
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with RunFolder.open(Path(place) / "run", {}, resume=False) as folder:
    ...         _ = Simulation(config, callbacks=[Recorder(folder)]).run()
    ...     sorted(path.name for path in folder.path.glob("*.csv"))
    ['clients.csv', 'participations.csv', 'rounds.csv', 'wall.csv']
    """

    SHARE = 0.05

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.saved, self.cost = time.perf_counter(), 0.0
        self.began = self.saved
        self.saved_round = -1

    def restore(self, simulation: Recordable) -> bool:
        """Continue from the last checkpoint; False if there is none."""
        checkpoint = self.folder.load()
        if checkpoint is not None:
            try:
                simulation.restore(checkpoint)
            except EnlistError:
                raise
            except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
                raise StateFileError(
                    f"{checkpoint.folder} does not fit this run ({type(error).__name__}: {error}); restore it from a "
                    "copy, or name a new folder."
                ) from error
            if not self.folder.accepted:  # accepted changes are recorded by a checkpoint at the end
                self.saved_round = simulation.round
        emptied = simulation.take_back_evaluation(lambda: self.folder.rows("rounds.csv")) if checkpoint else ()
        self.folder.extend()
        if emptied:  # the former last round was evaluated only because it was the last
            self.folder.revise("rounds.csv", dict.fromkeys(emptied))
            self.checkpoint(simulation)()
        return checkpoint is not None

    def on_start(self, simulation: Recordable) -> None:
        """Describe the clients."""
        self.folder.write_clients(simulation.columns())
        self.began = time.perf_counter()

    def on_round(self, simulation: Recordable, record: Record) -> None:
        """Append to the tables; save a checkpoint if enough time has passed since the last one."""
        now = time.perf_counter()
        seconds, self.began = now - self.began, now
        simulation.meanwhile(lambda: self._append(record, seconds))
        if now - self.saved >= self.cost / self.SHARE:
            simulation.meanwhile(self.checkpoint(simulation))

    def on_finish(self, simulation: Recordable, result: Result) -> None:
        """Save the final state, and mark it as final."""
        if self.saved_round != simulation.round:
            self.checkpoint(simulation)()
        if result["status"] != "stopped":
            self.folder.write_result(result)

    def checkpoint(self, simulation: Recordable) -> Callable[[], None]:
        """Take a checkpoint now; calling the returned function writes it."""
        start = time.perf_counter()
        self.saved_round = simulation.round
        content = (simulation.round, *simulation.saved(), simulation.parts())
        taken = time.perf_counter() - start

        def write() -> None:
            start = time.perf_counter()
            self.folder.save(*content)
            self.saved = time.perf_counter()
            self.cost = taken + self.saved - start

        return write

    def _append(self, record: Record, seconds: float) -> None:
        for table, rows in record.tables().items():
            self.folder.append(table, rows)
        self.folder.note_wall(record.row["round"], seconds, getattr(record, "selecting", math.nan))


class Timing(Callback):
    """Records in timing.csv where the time of each round went; see `enlist.runs.timing.PARTS`.

    It must be the last callback: the time that the others take counts as writing.

    >>> import tempfile
    >>> from enlist.runs.timing import read_timing
    >>> from enlist.simulation import Config, Simulation
    >>> config = Config(data={"clients": 8}, rounds={"rounds": 2, "k": 3})
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = RunFolder.open(Path(place) / "run", {}, resume=False)
    ...     _ = Simulation(config, callbacks=[Recorder(folder), Timing(folder)]).run()
    ...     folder.close()
    ...     read_timing(folder.path)["train"].shape
    (2,)
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder, self.began = folder, 0.0

    def on_start(self, simulation: Simulation) -> None:
        """Begin."""
        self.began = time.perf_counter()

    def on_round(self, simulation: Simulation, record: RoundRecord) -> None:
        """Record a round; time that it did not take itself was spent in callbacks."""
        write = max(time.perf_counter() - self.began - record.spent.total, 0.0)
        self.folder.note_timing(record.row["round"], dataclasses.asdict(record.spent) | {"write": write})
        self.began = time.perf_counter()


class TensorBoard(Callback[Recordable, Record]):
    """Curves over rounds for TensorBoard. Needs the extra `tensorboard`.

    >>> import tempfile
    >>> from enlist.simulation import Config, Simulation
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     config = Config(data={"clients": 8}, rounds={"rounds": 2, "k": 3})
    ...     _ = Simulation(config, callbacks=[TensorBoard(folder)]).run()
    ...     [path.name.split(".")[0] for path in Path(folder).iterdir()]
    ['events']
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtraError("--tensorboard", "tensorboard") from None
        self.folder, self.kind = str(folder), SummaryWriter
        self.writer: Any = None

    def on_start(self, simulation: Recordable) -> None:
        """Open the file."""
        self.writer = self.kind(self.folder)

    def on_round(self, simulation: Recordable, record: Record) -> None:
        """Log every known quantity as a point."""
        for name, value in _numbers(record.row).items():
            self.writer.add_scalar(name, value, record.row["round"])

    def close(self) -> None:
        """Write out what is left and close the file."""
        if self.writer is not None:
            self.writer.close()


class MLflow(Callback[Recordable, Record]):
    """Configuration and curves for MLflow. Needs the extra `mlflow`.

    >>> from unittest.mock import MagicMock
    >>> from enlist.simulation import Config, Simulation
    >>> client = MagicMock()
    >>> config = Config(data={"clients": 8}, rounds={"rounds": 2, "k": 3})
    >>> _ = Simulation(config, callbacks=[MLflow(client=client)]).run()
    >>> client.log_metrics.call_count, client.end_run.call_args
    (2, call(status='FINISHED'))
    """

    def __init__(self, experiment: str = "enlist", client: Any = None) -> None:
        if client is None:
            try:
                import mlflow
            except ImportError:
                raise MissingExtraError("--mlflow", "mlflow") from None
            client = mlflow
        self.client, self.experiment, self.status = client, experiment, ""

    def on_start(self, simulation: Recordable) -> None:
        """Open a run with the configuration as parameters."""
        self.client.set_experiment(self.experiment)
        self.client.start_run()
        self.status = "FAILED"
        sections = simulation.config.model_dump(mode="json")
        flat = {
            f"{section}.{name}" if isinstance(values, dict) else section: value
            for section, values in sections.items()
            for name, value in (values.items() if isinstance(values, dict) else [("", values)])
        }
        self.client.log_params(flat)

    def on_round(self, simulation: Recordable, record: Record) -> None:
        """Log every known quantity as a point."""
        self.client.log_metrics(_numbers(record.row), step=record.row["round"])

    def on_finish(self, simulation: Recordable, result: Result) -> None:
        """Remember how it ended."""
        self.status = "KILLED" if result["status"] == "stopped" else "FINISHED"

    def close(self) -> None:
        """Close the run."""
        if self.status:
            self.client.end_run(status=self.status)
        self.status = ""


class WandB(Callback[Recordable, Record]):
    """Configuration and curves for Weights & Biases. Needs the extra `wandb`.

    >>> from unittest.mock import MagicMock
    >>> from enlist.simulation import Config, Simulation
    >>> client = MagicMock()
    >>> config = Config(data={"clients": 8}, rounds={"rounds": 2, "k": 3})
    >>> _ = Simulation(config, callbacks=[WandB(client=client)]).run()
    >>> client.init.return_value.log.call_count, client.init.return_value.finish.call_args
    (2, call(exit_code=0))
    """

    def __init__(self, project: str = "enlist", name: str | None = None, client: Any = None) -> None:
        if client is None:
            try:
                import wandb
            except ImportError:
                raise MissingExtraError("--wandb", "wandb") from None
            client = wandb
        self.client, self.project, self.name = client, project, name
        self.run: Any = None
        self.failed = True

    def on_start(self, simulation: Recordable) -> None:
        """Open a run with the configuration."""
        settings = simulation.config.model_dump(mode="json")
        self.run = self.client.init(project=self.project, name=self.name, config=settings, reinit="finish_previous")

    def on_round(self, simulation: Recordable, record: Record) -> None:
        """Log every known quantity as a point."""
        self.run.log(_numbers(record.row), step=record.row["round"])

    def on_finish(self, simulation: Recordable, result: Result) -> None:
        """Remember that it ended well."""
        self.failed = False

    def close(self) -> None:
        """Close the run."""
        if self.run is not None:
            self.run.finish(exit_code=int(self.failed))
        self.run = None


def tracker(name: str, folder: Path | None, label: str) -> Callback[Recordable, Record]:
    """The callback of a tracker by name, for commands: "tensorboard", "mlflow" or "wandb".

    >>> tracker("clearml", None, "oort")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: tracker is 'clearml'. Allowed: mlflow, tensorboard, wandb.
    """
    checks.one_of("tracker", name, TRACKERS)
    if name == "mlflow":
        return MLflow()
    if name == "wandb":
        return WandB(name=label)
    return TensorBoard(Path("tensorboard") / label if folder is None else folder / "tensorboard")


def _numbers(row: Row) -> dict[str, float]:
    numbers = {name: float(value) for name, value in row.items() if isinstance(value, int | float)}
    return {name: value for name, value in numbers.items() if name != "round" and abs(value) < float("inf")}


__all__ = [
    "Callback", "Checkpoint", "MLflow", "Progress", "Record", "Recordable", "Recorder", "Result", "TensorBoard",
    "Timing", "WandB", "tracker",
]  # fmt: skip
