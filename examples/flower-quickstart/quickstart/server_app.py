"""The ServerApp: federated averaging over the nodes that Enlist chooses."""

from __future__ import annotations

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from enlist.flower import with_selector
from quickstart import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for a number of rounds, or finish a run that was interrupted."""
    config = context.run_config
    strategy = with_selector(
        FedAvg(fraction_evaluate=0.0),
        str(config["selector"]),
        k=int(config["k"]),
        deadline=float(config["deadline"]),
        folder=str(config["folder"]),
    )
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(task.network().state_dict()),
        num_rounds=int(config["num-server-rounds"]),
        evaluate_fn=evaluate,
    )


def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    """The model on digits that no client holds."""
    loss, accuracy = task.evaluate(task.network(arrays), *task.held_out())
    return MetricRecord({"loss": loss, "accuracy": accuracy})
