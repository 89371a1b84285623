"""The ServerApp."""

from __future__ import annotations

import numpy as np
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from enlist.flower import with_selector

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """BSFL chooses two; its weight of fair shares is high, so that who was lost is soon tried again."""
    config = context.run_config
    buffered = {"mode": "buffered", "concurrency": 2, "buffer": 1, "max_staleness": 5}
    strategy = with_selector(
        FedAvg(fraction_evaluate=0.0),
        "bsfl",
        settings={"alpha": 3.0},
        k=2,
        deadline=float(config["deadline"]),
        folder=str(config["folder"]),
        **(buffered if config["mode"] == "buffered" else {}),
    )
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord([np.array([float(config["first"])])]),
        num_rounds=int(config["num-server-rounds"]),
        evaluate_fn=lambda _, arrays: MetricRecord({"loss": float(arrays.to_numpy_ndarrays()[0][0])}),
    )
