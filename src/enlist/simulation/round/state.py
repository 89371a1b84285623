"""The state of a run between two rounds, saved and restored as a whole."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from enlist._internal.typing import AnyArray, FloatArray
from enlist.contract import Selector
from enlist.devices import BatteryLevels, Deadline
from enlist.runs.checkpoints import Checkpoint
from enlist.simulation.evaluation import BestModel
from enlist.simulation.hostile import HostileClients
from enlist.simulation.protocols.protocol import Memory
from enlist.simulation.round.clock import Queue
from enlist.simulation.round.exclusion import Exclusion
from enlist.simulation.round.models import Models
from enlist.simulation.round.server import Server, under

PARTS = ("parameters", "buffers", "counters")
Saved = tuple[dict[str, Any], dict[str, AnyArray], dict[str, dict[str, Any]]]
"""Header, arrays, and weights by file."""


@dataclasses.dataclass(eq=False)
class RunState:
    """All that the next round depends on besides the configuration.

    Parameters
    ----------
    selector : Selector
        With what it has learned; it saves itself, beside the rest.
    server : Server
        The global model, and the memories of optimiser, aggregation and bounds.
    models : Models
        Global models that clients still train from.
    memory : Memory
        What the protocol keeps.
    deadline : Deadline
        With what it has learned of latencies.
    exclusion : Exclusion
        Bad updates in a row, and who is not asked for a while.
    hostility : HostileClients
        With the updates that hostile clients replay.
    watch : BestModel
        The best evaluation so far.
    members : int
        Clients that have joined.
    round, now : int, float
        Rounds that have ended, and the virtual time.
    length : float
        Running mean of the durations of rounds; NaN before the first has ended.
    accuracy, loss : float
        Of the last evaluation; NaN before the first.
    reached_in, reached_at : int, float
        Round and time of the first evaluation that met the target; 0 and NaN before.
    abandoned : bool
        Whether no client could be selected any more.
    client_accuracy : array of shape (N,), optional
        Accuracy of each client on its own test samples, in the last evaluation.
    batteries : BatteryLevels, optional
        The remaining energy, if clients run on batteries.
    queue : Queue
        Pending events of clients of earlier rounds.

    >>> [field.name for field in dataclasses.fields(RunState)][:4]
    ['selector', 'server', 'models', 'memory']
    """

    selector: Selector[Any, Any]
    server: Server
    models: Models
    memory: Memory
    deadline: Deadline
    exclusion: Exclusion
    hostility: HostileClients
    watch: BestModel
    members: int
    round: int = 0
    now: float = 0.0
    length: float = math.nan
    accuracy: float = math.nan
    loss: float = math.nan
    reached_in: int = 0
    reached_at: float = math.nan
    abandoned: bool = False
    client_accuracy: FloatArray | None = None
    batteries: BatteryLevels | None = None
    queue: Queue = dataclasses.field(default_factory=Queue)

    def save(self) -> Saved:
        """The contents of a checkpoint besides the selector: copies, which may be written while the run continues."""
        bounds, tensors = self.server.state()
        tensors |= self.hostility.state()
        for version in self.models.slots:
            model = self.models[version]
            tensors |= {f"version/{version}/{part}": getattr(model, part) for part in PARTS}
        header = {
            "now": self.now,
            "length": None if math.isnan(self.length) else self.length,
            "accuracy": None if math.isnan(self.accuracy) else self.accuracy,
            "loss": self.loss if math.isfinite(self.loss) else None,
            "reached": [self.reached_in, self.reached_at if self.reached_in else None],
            "members": self.members,
            "deadline": self.deadline.state(),
            "abandoned": self.abandoned,
            "bounds": bounds,
            **self.watch.state(),
            "protocol": {},  # version 0.1 expects it
        }
        arrays = {f"queue/{name}": values for name, values in self.queue.arrays().items()} | self.exclusion.state()
        if self.client_accuracy is not None:
            arrays["client_accuracy"] = self.client_accuracy
        if self.batteries is not None:
            arrays |= self.batteries.state()
        own_arrays, own_tensors = self.memory.state()
        weights = {"model": self.server.layout.named(self.server.model), "tensors": tensors | own_tensors}
        if self.watch.model is not None:
            weights["best"] = self.server.layout.named(self.watch.model)
        own = {name: values.copy() for name, values in (arrays | own_arrays).items()}
        return copy.deepcopy(header), own, {file: _as_arrays(values) for file, values in weights.items()}

    def restore(self, checkpoint: Checkpoint, functions: Mapping[str, Any] | None = None) -> None:
        """Continue from a checkpoint; `functions` are settings of the selector that no file can hold."""
        header, arrays = checkpoint.header, checkpoint.arrays
        tensors, model = (_as_tensors(checkpoint.weights[file]) for file in ("tensors", "model"))
        self.selector = type(self.selector).load(checkpoint.folder / "selector", **(functions or {}))
        self.server.layout.load_named(model, self.server.model)
        self.server.restore(header.get("bounds", {}), tensors)
        self.hostility.restore(tensors)
        self.exclusion.restore(arrays)
        self.round, self.now = header["round"], header["now"]
        self.length, self.accuracy, self.loss = (
            math.nan if header[name] is None else header[name] for name in ("length", "accuracy", "loss")
        )
        self.reached_in, reached_at = header["reached"]
        self.reached_at = math.nan if reached_at is None else reached_at
        self.members, self.abandoned = header["members"], header["abandoned"]
        self.deadline.restore(header["deadline"])
        best = None
        if "best" in checkpoint.weights:
            best = self.server.model.clone()
            self.server.layout.load_named(_as_tensors(checkpoint.weights["best"]), best)
        self.watch.restore(header, best)
        self.client_accuracy = arrays.get("client_accuracy")
        if self.batteries is not None:
            self.batteries.restore(arrays)
        self.queue = Queue.of(under("queue/", arrays))
        self.models.clear()
        for version in sorted({int(name.split("/")[1]) for name in tensors if name.startswith("version/")}):
            old, saved = self.server.model.clone(), under(f"version/{version}/", tensors)
            for part in PARTS:
                getattr(old, part).copy_(saved[part])
            self.models.put(version, old)
        self.memory = self.memory.restored(arrays, tensors)


def _as_arrays(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    return {name: tensor.contiguous().numpy().copy() for name, tensor in tensors.items()}


def _as_tensors(arrays: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(values) for name, values in arrays.items()}
