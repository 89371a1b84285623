"""The keys of a reply from which a selector learns. Documented in docs/flower.md."""

from __future__ import annotations

RECORD = "enlist"
"""The ConfigRecord with Enlist's keys; not in the MetricRecord, whose keys must be the same in all replies."""

CLIENT_ID = "client-id"
PARTITION_ID = "partition-id"
FEATURES = "features"
FEATURE_NAMES = "feature-names"
SECONDS = "seconds"
BATTERY_LEFT = "battery-left"
"""In a reply: the joules that the client has left; selectors see them as `context.battery`."""
WORK = "work"
"""In a message to a node: the share of its local work that it should do."""
LABEL_COUNTS = "label-counts"
ENERGY = {
    "energy_per_sample": "energy-per-sample",
    "energy_per_byte": "energy-per-byte",
    "battery": "battery",
}
"""Column of `Clients` -> key of an introduction."""

CLAIMS = {
    "num_examples": "num-examples",
    "loss": "loss",
    "loss_rms": "loss-rms",
    "accuracy": "accuracy",
    "accuracy_gain": "accuracy-gain",
    "energy": "energy",
}
"""Column of `Feedback` -> key of the reply."""

INTRODUCTION = "query.enlist"
"""Type of the message that asks a node who it is; a ClientApp answers it with `@app.query("enlist")`."""

ACCURACIES = (
    "accuracy",
    "eval_acc",
    "eval-acc",
    "eval_accuracy",
    "eval-accuracy",
    "acc",
    "test_accuracy",
    "test-accuracy",
)
LOSSES = ("loss", "eval_loss", "eval-loss", "test_loss", "test-loss")
"""Keys under which evaluations are looked up, in this order."""


def way_to_send(need: str) -> str:
    """How a client sends what a selector needs.

    >>> way_to_send("loss")[:49]
    "send 'loss' in the ConfigRecord 'enlist', as enli"
    """
    return (
        f"send '{CLAIMS[need]}' in the ConfigRecord '{RECORD}', as enlist.flower.client.reply(..., "
        f"{need}=...) does, or name the app's own key: with_selector(..., keys={{'{need}': '...'}})"
    )
