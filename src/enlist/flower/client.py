"""The client side: one call makes a reply with everything a selector learns from. NumPy and PyTorch.

    from enlist.flower import client

    @app.train()
    def train(message, context):
        with client.Stopwatch() as watch:
            losses = fit(model, data)  # of each sample in the first local epoch
        claims = {"losses": losses, "seconds": watch.seconds}
        return client.reply(message, model, num_examples=len(data), context=context, **claims)

What you leave out is not sent; a selector that needs it says so in the first round.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict

from enlist._internal.typing import AnyArray
from enlist.errors import InputError
from enlist.flower import keys


class Stopwatch:
    """Seconds that a block took, by this machine's monotonic clock.

    >>> with Stopwatch() as watch:
    ...     _ = sum(range(1000))
    >>> 0 < watch.seconds < 5
    True
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> Stopwatch:
        self._start = time.perf_counter()
        return self

    def __exit__(self, *failure: object) -> None:
        self.seconds = time.perf_counter() - self._start


def reply(
    message: Message,
    arrays: Any,
    *,
    num_examples: float,
    context: Context | None = None,
    client_id: str | int | None = None,
    losses: Any = None,
    loss: float | None = None,
    loss_rms: float | None = None,
    accuracy: float | None = None,
    accuracy_gain: float | None = None,
    energy: float | None = None,
    battery_left: float | None = None,
    seconds: float | None = None,
    metrics: Mapping[str, Any] | None = None,
    weighted_by_key: str = "num-examples",
) -> Message:
    """The reply to a train message.

    arrays         the trained model: a PyTorch module, its state_dict, a dict or list of arrays, or an ArrayRecord
    num_examples   samples trained on; FedAvg and similar strategies weight the reply by it
    context        the ClientApp's context, whose node_config names this client ("client-id", else "partition-id")
    client_id      this client's stable name, if it does not come from `context`
    losses         loss of every sample in the first local epoch, before each step: gives loss and loss_rms
    accuracy       accuracy in [0, 1] of the model that was sent, on this client's data
    accuracy_gain  accuracy after training minus before
    energy         joules that the client spent in the round, for selectors that save energy
    battery_left   joules left in its battery
    seconds        how long training took
    metrics        more entries for the MetricRecord; Flower requires the same keys there from every client

    >>> from enlist.flower.fake import instruction
    >>> made = reply(instruction(node=7), [np.ones(2)], num_examples=20, client_id="phone-3", losses=[0.0, 2.0])
    >>> dict(made.content["metrics"]), dict(made.content["enlist"])["loss-rms"]
    ({'num-examples': 20}, 1.4142135623730951)
    """
    if losses is not None:
        loss, loss_rms = _summary(losses, loss, loss_rms)
    claims = {
        "loss": loss,
        "loss_rms": loss_rms,
        "accuracy": accuracy,
        "accuracy_gain": accuracy_gain,
        "energy": energy,
        "num_examples": num_examples,
    }
    extra = _identity(context, client_id) | {keys.CLAIMS[name]: value for name, value in claims.items()}
    extra |= {keys.SECONDS: seconds, keys.BATTERY_LEFT: battery_left}
    counted = int(num_examples) if float(num_examples).is_integer() else float(num_examples)
    records: dict[str, ArrayRecord | MetricRecord | ConfigRecord] = {
        "arrays": as_arrays(arrays),
        "metrics": MetricRecord({weighted_by_key: counted, **_plain(metrics or {})}),
        keys.RECORD: ConfigRecord(_plain(extra)),
    }
    return Message(content=RecordDict(records), reply_to=message)


def work(message: Message) -> float:
    """The share of its local work, such as epochs or samples, that this client should do: 1 unless told less.

    >>> from enlist.flower.fake import instruction
    >>> work(instruction(node=7))
    1.0
    >>> work(instruction(node=7, content=RecordDict({"enlist": ConfigRecord({"work": 0.25})})))
    0.25
    """
    asked: Any = message.content.get(keys.RECORD, {})
    share = asked.get(keys.WORK, 1.0) if isinstance(asked, Mapping) else 1.0
    return float(share) if isinstance(share, int | float) and 0 < share <= 1 else 1.0


def introduction(
    message: Message,
    context: Context | None = None,
    *,
    client_id: str | int | None = None,
    num_examples: float | None = None,
    features: Mapping[str, float] | None = None,
    label_counts: Any = None,
    energy_per_sample: float | None = None,
    energy_per_byte: float | None = None,
    battery: float | None = None,
) -> Message:
    """The answer to "who are you?", which a server may ask a node that it has not seen before.

    `features`, by name, are what selectors such as FedSUV and CU-CS learn from; all clients send the same names.
    `label_counts` holds the samples of each class, the same classes for all clients. Joules per sample and per byte and
    the battery are for selectors that save energy. What you leave out is not sent.

    >>> from enlist.flower.fake import instruction
    >>> answer = introduction(instruction(node=7, kind="query.enlist"), client_id="phone-3", features={"cores": 8})
    >>> dict(answer.content["enlist"])
    {'client-id': 'phone-3', 'features': [8.0], 'feature-names': ['cores']}
    """
    content: dict[str, Any] = {**_identity(context, client_id), keys.CLAIMS["num_examples"]: num_examples}
    if features:
        content[keys.FEATURES] = [float(value) for value in features.values()]
        content[keys.FEATURE_NAMES] = [str(name) for name in features]
    if label_counts is not None:
        content[keys.LABEL_COUNTS] = [float(count) for count in label_counts]
    content |= {
        keys.ENERGY[name]: value
        for name, value in (
            ("energy_per_sample", energy_per_sample),
            ("energy_per_byte", energy_per_byte),
            ("battery", battery),
        )
    }
    return Message(content=RecordDict({keys.RECORD: ConfigRecord(_plain(content))}), reply_to=message)


def as_arrays(model: Any) -> ArrayRecord:
    """Convert a PyTorch module, a state_dict, or a dict or list of arrays or tensors into Flower's ArrayRecord.

    >>> list(as_arrays({"weight": np.ones((2, 2)), "bias": [0.0, 1.0]}))
    ['weight', 'bias']
    """
    if isinstance(model, ArrayRecord):
        return model
    if callable(getattr(model, "state_dict", None)):
        model = model.state_dict()
    if isinstance(model, Mapping):
        return ArrayRecord({str(name): Array(_array(value)) for name, value in model.items()})
    if isinstance(model, list | tuple):
        return ArrayRecord([_array(value) for value in model])
    raise InputError(
        f"the model to send is {type(model).__name__}; pass a PyTorch module, a state_dict, a dict or list of arrays, "
        "or an ArrayRecord."
    )


def _array(value: Any) -> AnyArray:
    if hasattr(value, "detach"):  # a PyTorch tensor, without importing torch for it
        value = value.detach().cpu().numpy()
    return np.asarray(value)


def _identity(context: Context | None, client_id: str | int | None) -> dict[str, Any]:
    if client_id is not None:
        return {keys.CLIENT_ID: client_id}
    config = {} if context is None else context.node_config
    for key in (keys.CLIENT_ID, keys.PARTITION_ID):
        if key in config:
            return {keys.CLIENT_ID: config[key]}
    return {}


def _summary(losses: Any, loss: float | None, loss_rms: float | None) -> tuple[float | None, float | None]:
    parts = losses if isinstance(losses, list | tuple) else [losses]
    each = np.concatenate([np.atleast_1d(_array(part)).ravel() for part in parts] or [np.zeros(0)]).astype(float)
    if not len(each):
        return loss, loss_rms
    mean, square = float(each.mean()), float(np.square(each).mean())
    return mean if loss is None else loss, math.sqrt(square) if loss_rms is None else loss_rms


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert numbers of NumPy or PyTorch to Python's own, which records take; drop None."""
    unwrapped = {name: value.item() if hasattr(value, "item") else value for name, value in values.items()}
    return {name: value for name, value in unwrapped.items() if value is not None}
