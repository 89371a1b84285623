"""The ClientApp: trains on the digits that its node holds."""

from __future__ import annotations

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from enlist.flower import client
from quickstart import task

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model that was sent; the reply carries it, and what Enlist learns from."""
    config = context.run_config
    with client.Stopwatch() as watch:
        images, labels = task.partition(context.node_config)
        network = task.network(message.content.array_records["arrays"])
        losses = task.train(network, images, labels, int(config["local-epochs"]), float(config["learning-rate"]))
    return client.reply(
        message, network, num_examples=len(labels), context=context, losses=losses, seconds=watch.seconds
    )


@app.query("enlist")
def introduce(message: Message, context: Context) -> Message:
    """Say who this is, to a server that has not seen this node before."""
    return client.introduction(message, context, num_examples=len(task.partition(context.node_config)[1]))
