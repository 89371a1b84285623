"""SecAgg+ in Flower's simulation, with a selector:  secagg.py FOLDER SELECTOR [seconds]"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from flwr.client import ClientApp, NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.common import ndarrays_to_parameters
from flwr.server import LegacyContext, ServerApp, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.simulation import run_simulation

from enlist.flower import with_selector

FOLDER, SELECTOR, REPORTS = sys.argv[1], sys.argv[2], sys.argv[3:] == ["seconds"]
BACKEND: Any = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 1}}


class Client(NumPyClient):
    """Adds a quarter of its number."""

    def __init__(self, number: int) -> None:
        self.number = number

    def fit(self, parameters: Any, config: Any) -> Any:
        metrics: dict[str, Any] = {"partition-id": self.number, **({"seconds": 1.0 + self.number} if REPORTS else {})}
        return [values + 0.25 * (1 + self.number) for values in parameters], 10, metrics


client = ClientApp(
    client_fn=lambda context: Client(int(context.node_config["partition-id"])).to_client(), mods=[secaggplus_mod]
)
server = ServerApp()


@server.main()
def main(grid: Any, context: Any) -> None:
    inner = FedAvg(
        fraction_evaluate=0.0, min_available_clients=6, initial_parameters=ndarrays_to_parameters([np.zeros(2)])
    )
    strategy: Any = with_selector(inner, SELECTOR, k=4, seed=1, folder=FOLDER)  # type: ignore[arg-type]
    legacy = LegacyContext(context=context, config=ServerConfig(num_rounds=3), strategy=strategy)
    DefaultWorkflow(fit_workflow=SecAggPlusWorkflow(num_shares=3, reconstruction_threshold=2))(grid, legacy)
    strategy.close()


run_simulation(server, client, num_supernodes=6, backend_config=BACKEND)
