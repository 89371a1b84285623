"""The ClientApp."""

from __future__ import annotations

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from enlist.flower import client

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Halfway to the number of this node's partition."""
    own = float(context.node_config["partition-id"])
    with client.Stopwatch() as watch:
        model = message.content.array_records["arrays"].to_numpy_ndarrays()[0]
        trained = (model + own) / 2.0
    return client.reply(
        message, [trained], num_examples=1, context=context, losses=np.square(model - own), seconds=watch.seconds
    )
