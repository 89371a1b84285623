"""Flower 1.41, its simulation on Ray:  python -m benchmarks.peers.flower_peer --model mlp

Run it with the Python of the environment that `benchmarks.peers.install` makes. One Ray worker per core, one CPU and
`--threads` threads of torch each; FedAvg samples 25 of the 500 nodes. A round is timed on the server's side, from the
sampling of its clients to the sampling of the next ones.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from typing import Any

from benchmarks.peers.workload import CLIENTS, COHORT, Channel, arguments, build

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


def extend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="workers of Ray")
    parser.add_argument("--allocator", choices=("default", "keep"), default="keep", help="keep: glibc keeps memory")


def simulate(options: argparse.Namespace, channel: Channel) -> None:
    from flwr.app import ArrayRecord, ConfigRecord, Context
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    from benchmarks.peers.flower_client_app import app as client_app

    times: list[float] = []

    class Timed(FedAvg):
        def configure_train(self, *given: Any, **named: Any) -> Any:
            times.append(time.perf_counter())
            return super().configure_train(*given, **named)

        def aggregate_evaluate(self, *given: Any, **named: Any) -> Any:
            told = super().aggregate_evaluate(*given, **named)
            self.finished = time.perf_counter()
            return told

    server_app = ServerApp()

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        random.seed(options.seed)
        strategy = Timed(
            fraction_train=COHORT / CLIENTS,
            fraction_evaluate=0.0,
            min_train_nodes=COHORT,
            min_available_nodes=CLIENTS,
        )
        parameters = build(options.model, options.seed).parameters()
        arrays = ArrayRecord([parameter.detach().numpy() for parameter in parameters])
        config = {name: getattr(options, name) for name in ("model", "sizes", "seed", "threads", "precision")}

        def run(count: int) -> list[float]:
            nonlocal arrays
            times.clear()
            result = strategy.start(grid, arrays, num_rounds=count, train_config=ConfigRecord(config))
            if len(result.train_metrics_clientapp) != count:
                raise RuntimeError("a round of Flower's came back without results; its log says why")
            arrays = result.arrays
            ends = [*times[1:], strategy.finished]
            return [end - start for start, end in zip(times, ends, strict=True)]

        channel.serve(run)

    resources = {"num_cpus": 1, "num_gpus": 0.0}
    backend = {"client_resources": resources, "init_args": {"num_cpus": options.processes}}
    run_simulation(server_app, client_app, CLIENTS, backend_config=backend)


def main() -> None:
    options = arguments("flower_peer", extend)
    os.environ.update(QUIET, PEER_ALLOCATOR=options.allocator)
    channel = Channel("flower", options)
    with tempfile.TemporaryDirectory() as home:
        os.environ["FLWR_HOME"] = home
        simulate(options, channel)


if __name__ == "__main__":
    main()
