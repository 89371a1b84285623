"""Losses of a model moved by mixtures of the same few updates, for small dense models.

Most of the work of such a model is its first layer, and that is linear: its output for a mixture is the mixture of its
outputs for the updates. So the samples pass it once for every update, not once for every mixture.
"""

from __future__ import annotations

import torch
from torch import Tensor

from enlist.training.dense import DenseChain
from enlist.training.engine import SharedSamples, sample_losses

MOST = 256 * 2**20
"""Bytes that the first layer's outputs may take, for all updates together."""


class Mixtures:
    """The mean loss of  model + sum_i share_i update_i  on some samples.

    chain      the model's layers
    model      its parameters
    updates    (updates, parameters)

    >>> from torch import nn
    >>> import numpy as np
    >>> from enlist.data.dataset import Samples
    >>> data = SharedSamples.of(Samples(np.eye(4, 2, dtype=np.float32), np.array([0, 1, 0, 1])))
    >>> chain = DenseChain.of(nn.Linear(2, 2))
    >>> mixtures = Mixtures(chain, torch.zeros(32), torch.ones(3, 32), data, classes=2)
    >>> round(mixtures.loss(torch.tensor([0.5, 0.5, 0.0])), 4)
    0.6931
    """

    def __init__(self, chain: DenseChain, model: Tensor, updates: Tensor, data: SharedSamples, classes: int) -> None:
        self.model, self.updates, self.targets, self.classes = model, updates, data.y, classes
        (weight, bias), *self.layers = chain.layers
        inputs = data.inputs(slice(0, len(data))).flatten(1)
        with torch.inference_mode():
            self.before = torch.addmm(bias.view(model), inputs, weight.view(model).T)
            moved = [
                torch.addmm(bias.view(update), inputs, weight.view(update).T).flatten() for update in updates.unbind()
            ]
            self.moved = torch.stack(moved)

    @staticmethod
    def fits(chain: DenseChain, updates: int, samples: int) -> bool:
        """Whether the memory for this many updates is small enough.

        >>> from torch import nn
        >>> chain = DenseChain.of(nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10)))
        >>> Mixtures.fits(chain, updates=10, samples=1000), Mixtures.fits(chain, updates=1000, samples=10_000)
        (True, False)
        """
        return 4 * updates * samples * chain.layers[0][1].shape[0] <= MOST

    def loss(self, shares: Tensor) -> float:
        """The mean loss of one mixture."""
        with torch.inference_mode():
            values = self.before + (shares @ self.moved).view_as(self.before)
            for weight, bias in self.layers:
                turned = weight.view(self.model) + torch.tensordot(shares, weight.view(self.updates), 1)
                shift = bias.view(self.model) + torch.tensordot(shares, bias.view(self.updates), 1)
                values = torch.addmm(shift, values.relu_(), turned.T)
            return float(sample_losses(values, self.targets, self.classes).double().mean())
