"""Flower's ClientApp of the benchmark.

It is a module of its own so that Ray's workers import it: what it keeps at module level (data, model) then stays in a
worker from message to message, instead of being sent or loaded anew.
"""

from __future__ import annotations

import functools
import os

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn

from benchmarks.peers.workload import BATCH, RATE, autocast, build, deal, inputs, keep_memory, read_images

app = ClientApp()


class Trainer:
    """All clients' data and one model that every client in turn trains."""

    def __init__(self, model: str, sizes: str, seed: int, precision: str) -> None:
        self.precision = precision
        pixels, labels = read_images()
        shares = deal(len(labels), sizes, seed)
        x, y = inputs(model, pixels[shares.order]), torch.from_numpy(labels[shares.order])
        ends = shares.sizes.tolist()
        self.data = list(zip(x.split(ends), y.split(ends), strict=True))
        self.model = build(model, seed)
        self.generator = torch.Generator().manual_seed(seed)

    def train(self, client: int, arrays: list[np.ndarray]) -> tuple[list[np.ndarray], int, float]:
        parameters = list(self.model.parameters())
        with torch.no_grad():
            for parameter, array in zip(parameters, arrays, strict=True):
                parameter.copy_(torch.from_numpy(array))
        x, y = self.data[client]
        order = torch.randperm(len(y), generator=self.generator)
        optimizer = torch.optim.SGD(parameters, lr=RATE)
        for batch in order.split(BATCH):
            with autocast(self.precision):
                outputs = self.model(x[batch])
            loss = nn.functional.cross_entropy(outputs.float(), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return [parameter.detach().numpy() for parameter in parameters], len(y), float(loss.detach())


@functools.cache
def trainer(model: str, sizes: str, seed: int, threads: int, precision: str) -> Trainer:
    torch.set_num_threads(threads)
    if os.environ.get("PEER_ALLOCATOR") == "keep":
        keep_memory()
    return Trainer(model, sizes, seed, precision)


@app.train()
def train(message: Message, context: Context) -> Message:
    config = message.content["config"]
    here = trainer(config["model"], config["sizes"], config["seed"], config["threads"], config["precision"])
    client = int(context.node_config["partition-id"])
    arrays, count, loss = here.train(client, message.content["arrays"].to_numpy_ndarrays())
    content = RecordDict(
        {"arrays": ArrayRecord(arrays), "metrics": MetricRecord({"num-examples": count, "train-loss": loss})}
    )
    return Message(content=content, reply_to=message)
