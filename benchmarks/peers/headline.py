"""The workload that pfl-research is compared by in its own paper:  python -m benchmarks.peers.headline --model cnn ...

CIFAR-10, iid: 1,000 clients with 50 images each, 50 of them a round, one epoch of SGD with batches of 10 and a rate of
0.1, a CNN of two convolutions, and an evaluation on the 10,000 test images every 10 rounds, which is part of the time.
`--simulator` says who does it, with the same module in both. `--data` is a folder with cifar-10-batches-bin.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.peers.workload import Channel, arguments, keep_memory

CLIENTS, HELD, COHORT, BATCH, RATE, EVERY = 1000, 50, 50, 10, 0.1, 10


def network() -> nn.Module:
    """Two 3x3 convolutions, one pooling, a dense layer of 128, dropout after both parts: 1.6 million weights."""
    parts = [nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25)]
    head = [nn.Linear(64 * 14 * 14, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10)]
    return nn.Sequential(*parts, nn.Flatten(), *head)


def read(folder: Path, files: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 3, 32, 32), about -1 to 1, and labels."""
    found = np.concatenate([np.fromfile(folder / "cifar-10-batches-bin" / name, np.uint8) for name in files])
    rows = found.reshape(-1, 1 + 3 * 32 * 32)
    return (rows[:, 1:].reshape(-1, 3, 32, 32) / 127.5 - 1.0).astype(np.float32), rows[:, 0].astype(np.int64)


def parts(folder: Path) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Training and test samples."""
    return read(folder, [f"data_batch_{number}.bin" for number in range(1, 6)]), read(folder, ["test_batch.bin"])


class Enlist:
    """Our simulator, with one worker per core."""

    def __init__(self, options: argparse.Namespace) -> None:
        from enlist.data import Dataset, Samples
        from enlist.simulation import Config, Simulation, build
        from enlist.training.workers import one_thread

        train, test = (Samples(*part) for part in parts(options.data))
        config = Config(
            data={"clients": CLIENTS, "validation": 0.0, "partition": "iid"},
            model={"name": "python", "factory": "benchmarks.peers.headline:network"},
            training={"batch": BATCH, "lr": RATE, "precision": options.precision},
            rounds={"rounds": 10**9, "k": COHORT},
            evaluation={"every": EVERY},
            seed=options.seed,
        )
        population = build(config, Dataset("cifar-10", train, test, classes=10))
        self.simulation = Simulation(config, workers=os.cpu_count() or 1, population=population)
        self.one_thread = one_thread

    def run(self, count: int) -> list[float]:
        seconds = []
        with self.one_thread():
            for _ in range(count):
                start = time.perf_counter()
                self.simulation.step()
                seconds.append(time.perf_counter() - start)
        return seconds


class Pfl:
    """pfl-research as its benchmarks use it."""

    def __init__(self, options: argparse.Namespace) -> None:
        from pfl.aggregate.simulate import SimulatedBackend
        from pfl.aggregate.weighting import WeightByDatapoints
        from pfl.data.federated_dataset import FederatedDataset
        from pfl.data.pytorch import PyTorchTensorDataset
        from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
        from pfl.metrics import Weighted
        from pfl.model.pytorch import PyTorchModel

        torch.set_num_threads(options.threads)
        torch.manual_seed(options.seed)
        (x, y), (test_x, test_y) = parts(options.data)
        x, y = torch.from_numpy(x), torch.from_numpy(y)
        self.test = PyTorchTensorDataset((torch.from_numpy(test_x), torch.from_numpy(test_y)))
        rng = np.random.default_rng(options.seed)
        order = torch.from_numpy(rng.permutation(CLIENTS * HELD)).view(CLIENTS, HELD)
        data = [(x[rows], y[rows]) for rows in order]

        class Module(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.network = network()

            def loss(self, x: Any, y: Any, eval: bool = False) -> Any:
                self.train(not eval)
                return nn.functional.cross_entropy(self.network(x), y)

            @torch.no_grad()
            def metrics(self, x: Any, y: Any, eval: bool = True) -> dict[str, Any]:
                self.train(not eval)
                outputs = self.network(x)
                loss = nn.functional.cross_entropy(outputs, y, reduction="sum").item()
                right = (outputs.argmax(1) == y).sum().item()
                return {"loss": Weighted(loss, len(y)), "accuracy": Weighted(right, len(y))}

        module = Module()
        self.model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
        chosen = (int(client) for _ in iter(int, 1) for client in rng.choice(CLIENTS, COHORT, replace=False))
        dataset = FederatedDataset(lambda client: PyTorchTensorDataset(data[client], user_id=client), chosen.__next__)
        self.backend = SimulatedBackend(dataset, dataset, [WeightByDatapoints()])
        self.local = NNTrainHyperParams(local_batch_size=BATCH, local_num_epochs=1, local_learning_rate=RATE)
        self.judged = NNEvalHyperParams(local_batch_size=500)

    def run(self, count: int) -> list[float]:
        """`count` central iterations as a block, whose evaluations are before the first and after every tenth."""
        from pfl.algorithm.base import NNAlgorithmParams
        from pfl.algorithm.federated_averaging import FederatedAveraging
        from pfl.callback.central_evaluation import CentralEvaluationCallback

        limits = NNAlgorithmParams(
            central_num_iterations=count, evaluation_frequency=1 << 30, train_cohort_size=COHORT, val_cohort_size=0
        )
        watch = CentralEvaluationCallback(self.test, model_eval_params=self.judged, frequency=EVERY)
        algorithm = FederatedAveraging()  # one that has run before would evaluate twice in its first iteration
        start = time.perf_counter()
        algorithm.run(limits, self.backend, self.model, self.local, callbacks=[watch], send_metrics_to_platform=False)
        return [(time.perf_counter() - start) / count] * count


def extend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder with cifar-10-batches-bin")
    parser.add_argument("--simulator", choices=("enlist", "pfl"), required=True)


def main() -> None:
    options = arguments("headline", extend)
    keep_memory()
    channel = Channel(options.simulator, options)
    peer = Enlist(options) if options.simulator == "enlist" else Pfl(options)
    channel.serve(peer.run)


if __name__ == "__main__":
    main()
