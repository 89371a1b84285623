"""pfl-research 0.6, its own simulation loop:  python -m benchmarks.peers.pfl_peer --model mlp

Run it with the Python of the environment that `benchmarks.peers.install` makes. Unless told otherwise, the cohort is
split over as many processes as the threads leave cores for, pfl's own way of using several (`PFL_WORKER_ADDRESSES`);
`--processes 1` is pfl as it comes.
"""

from __future__ import annotations

import argparse
import itertools
import os
import socket
import subprocess
import sys
import time
from typing import Any

from benchmarks.peers.workload import (
    BATCH,
    COHORT,
    RATE,
    Channel,
    arguments,
    autocast,
    build,
    cohorts,
    deal,
    inputs,
    keep_memory,
    read_images,
)

NEVER = 1 << 30


def extend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--processes", type=int, default=0, help="0: as many as give every core one thread")
    parser.add_argument("--plain", action="store_true", help="the CNN as one writes it first")
    parser.add_argument("--allocator", choices=("default", "keep"), default="keep", help="keep: glibc keeps memory")


class Pfl:
    """A federated average of pfl, built as its documentation shows."""

    def __init__(self, options: argparse.Namespace) -> None:
        # pfl joins its group of processes when it is imported: the environment has to be ready by then.
        import torch
        from pfl.aggregate.simulate import SimulatedBackend
        from pfl.aggregate.weighting import WeightByDatapoints
        from pfl.algorithm.federated_averaging import FederatedAveraging
        from pfl.data.federated_dataset import FederatedDataset
        from pfl.data.pytorch import PyTorchTensorDataset
        from pfl.hyperparam import NNTrainHyperParams
        from pfl.metrics import Weighted
        from pfl.model.pytorch import PyTorchModel

        torch.set_num_threads(options.threads)
        pixels, labels = read_images()
        x, y = inputs(options.model, pixels), torch.from_numpy(labels)
        shares = deal(len(labels), options.sizes, options.seed)
        data = [(x[shares.samples(i)], y[shares.samples(i)]) for i in range(len(shares.sizes))]
        network = build(options.model, options.seed, options.plain)

        class Module(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.network = network

            def loss(self, x: Any, y: Any) -> Any:
                with autocast(options.precision):
                    outputs = self.network(x)
                return torch.nn.functional.cross_entropy(outputs.float(), y)

            def metrics(self, x: Any, y: Any) -> dict[str, Any]:
                return {"loss": Weighted(self.loss(x, y).item() * len(y), len(y))}

        module = Module()
        self.model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
        # With several processes and an odd cohort pfl's ranks read on from different places of this stream: the number
        # of clients per round is right, but two rounds may share one.
        chosen = (int(client) for cohort in cohorts(options.seed) for client in cohort)
        weights = {i: int(size) for i, size in enumerate(shares.sizes)} if options.sizes == "lognormal" else None
        dataset = FederatedDataset(
            lambda client: PyTorchTensorDataset(data[client], user_id=client), chosen.__next__, weights
        )
        self.backend = SimulatedBackend(dataset, dataset, [WeightByDatapoints()])
        self.local = NNTrainHyperParams(local_batch_size=BATCH, local_num_epochs=1, local_learning_rate=RATE)
        self.algorithm = FederatedAveraging()
        self.done = 0

    def run(self, count: int) -> list[float]:
        """`count` central iterations, timed by a callback of pfl's."""
        from pfl.algorithm.base import NNAlgorithmParams
        from pfl.callback.base import TrainingProcessCallback

        times = [time.perf_counter()]

        class Stopwatch(TrainingProcessCallback):
            def after_central_iteration(self, *_: Any, **__: Any) -> tuple[bool, Any]:
                from pfl.metrics import Metrics

                times.append(time.perf_counter())
                return False, Metrics()

        self.done += count
        limits = NNAlgorithmParams(
            central_num_iterations=self.done, evaluation_frequency=NEVER, train_cohort_size=COHORT, val_cohort_size=0
        )
        self.algorithm.run(
            limits, self.backend, self.model, self.local, callbacks=[Stopwatch()], send_metrics_to_platform=False
        )
        return [end - start for start, end in itertools.pairwise(times)]


def helpers(count: int) -> list[subprocess.Popen[bytes]]:
    """Starts the other processes of pfl's group and makes this one its first."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    os.environ.update(PFL_WORKER_ADDRESSES=",".join([address] * count), GLOO_SOCKET_IFNAME="lo")
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.peers.pfl_peer", *sys.argv[1:]],
            env={**os.environ, "PFL_WORKER_RANK": str(rank)},
            stdin=subprocess.DEVNULL,
        )
        for rank in range(1, count)
    ]
    os.environ["PFL_WORKER_RANK"] = "0"
    return started


def main() -> None:
    options = arguments("pfl_peer", extend)
    if options.allocator == "keep":
        keep_memory()
    options.processes = options.processes or max(1, (os.cpu_count() or 1) // options.threads)
    if options.processes == 1:
        channel = Channel("pfl", options)
        channel.serve(Pfl(options).run)
        return
    if "PFL_WORKER_RANK" in os.environ:
        peer = Pfl(options)
        while count := agree(0):
            peer.run(count)
        return
    started = helpers(options.processes)
    channel = Channel("pfl", options)
    peer = Pfl(options)
    channel.serve(lambda count: peer.run(agree(count)))
    agree(0)
    for process in started:
        process.wait()


def agree(count: int) -> int:
    """The first process's number of rounds, in every process."""
    import torch

    told = torch.tensor([count])
    torch.distributed.broadcast(told, 0)
    return int(told)


if __name__ == "__main__":
    main()
