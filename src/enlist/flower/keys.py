"""The names under which replies carry what a selector learns from. Documented in docs/flower.md."""

from __future__ import annotations

RECORD = "enlist"
"""The ConfigRecord of a reply with Enlist's keys: outside the MetricRecord, which must be alike in all replies."""

CLIENT_ID = "client-id"
PARTITION_ID = "partition-id"
FEATURES = "features"
FEATURE_NAMES = "feature-names"
SECONDS = "seconds"

CLAIMS = {
    "num_examples": "num-examples",
    "loss": "loss",
    "loss_rms": "loss-rms",
    "accuracy": "accuracy",
    "accuracy_gain": "accuracy-gain",
}
"""Column of `Feedback` -> key of the reply."""

INTRODUCTION = "query.enlist"
"""Type of the message by which the server asks a node who it is; a ClientApp answers it with `@app.query("enlist")`."""

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
"""Keys under which evaluations are looked for, in this order."""
