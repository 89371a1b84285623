"""Bare training steps, the fastest found for each model: gradients by hand, no autograd, no gradient buffers.

A kernel trains `group` clients for `steps` batches of 20 each, every client from the same initial weights; `train`
takes the rows of the data, (group, steps * 20). Images are kept as bytes, a quarter of the memory traffic of a gather.
Least CPU time per step when taking turns with the best loops that use autograd (autograd.grad and _foreach_add_), on
a busy machine: logistic regression 17 against 175 microseconds, MLP 190 against 432, CNN 4.4 against 4.8 milliseconds
(6.6 as one writes it first). Tried and slower: weights stored (in, out), one client at a time, more clients at a time
than `largest`, NumPy for the MLP, torch's bmm for the logistic regression, a Gram matrix instead of weights, pooling
by strided maxima, the first convolution by oneDNN.
"""

from __future__ import annotations

import abc

import numpy as np
import torch
from torch import nn

from benchmarks.peers.workload import BATCH, RATE, build

SCALE = -RATE / BATCH
clip_backward = torch.ops.aten.threshold_backward.grad_input
convolution_backward = torch.ops.aten.convolution_backward
pool = torch.ops.aten.max_pool2d_with_indices.out
pool_backward = torch.ops.aten.max_pool2d_with_indices_backward.grad_input


class Kernel(abc.ABC):
    """The data, and buffers for one shape of work."""

    model: str
    largest: int  # how many clients at a time are fastest

    def __init__(self, data: tuple[torch.Tensor, torch.Tensor], group: int, steps: int, seed: int = 0) -> None:
        self.pixels, self.labels = data
        rows = group * steps * BATCH
        self.bytes = torch.empty(rows, self.pixels.shape[1], dtype=torch.uint8)
        self.flat_x, self.flat_y = torch.empty(rows, self.pixels.shape[1]), torch.empty(rows, 10)
        self.initial = [p.detach().clone() for p in build(self.model, seed).parameters()]

    @staticmethod
    def prepare(pixels: np.ndarray, labels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Images as rows of bytes, and one-hot labels."""
        rows = np.array(pixels.reshape(len(pixels), -1))
        return torch.from_numpy(rows), torch.from_numpy(np.eye(10, dtype=np.float32)[labels])

    def gather(self, rows: torch.Tensor) -> None:
        torch.index_select(self.pixels, 0, rows, out=self.bytes)
        self.flat_x.copy_(self.bytes).mul_(1 / 255)
        torch.index_select(self.labels, 0, rows, out=self.flat_y)

    @abc.abstractmethod
    def train(self, rows: torch.Tensor) -> None:
        """Train a group from the initial weights on these samples."""

    @abc.abstractmethod
    def weights(self, client: int) -> list[torch.Tensor]:
        """One client's weights after training, in the order and shape of the module's parameters."""


class Logistic(Kernel):
    """NumPy: its BLAS is faster than torch's on 784 x 10, and its calls are cheaper."""

    model = "logistic"
    largest = 12

    def __init__(self, data: tuple[torch.Tensor, torch.Tensor], group: int, steps: int, seed: int = 0) -> None:
        super().__init__(data, group, steps, seed)
        self.w0, self.b0 = (p.numpy() for p in self.initial)
        self.w, self.b = np.repeat(self.w0[None], group, 0), np.repeat(self.b0[None, None], group, 0)
        self.gradient = np.empty_like(self.w)
        self.z = np.empty((group, BATCH, 10), np.float32)
        x = self.flat_x.numpy().reshape(group, steps, BATCH, -1)
        y = self.flat_y.numpy().reshape(group, steps, BATCH, 10)
        self.batches = [(x[:, i], y[:, i]) for i in range(steps)]

    def train(self, rows: torch.Tensor) -> None:
        self.gather(rows)
        w, b, z, gradient = self.w, self.b, self.z, self.gradient
        forward, backward = w.transpose(0, 2, 1), z.transpose(0, 2, 1)
        w[:], b[:] = self.w0, self.b0
        for x, y in self.batches:
            np.matmul(x, forward, out=z)
            z += b
            z -= z.max(-1, keepdims=True)
            np.exp(z, out=z)
            z *= 1 / z.sum(-1, keepdims=True)
            z -= y
            z *= np.float32(SCALE)
            np.matmul(backward, x, out=gradient)
            w += gradient
            b += z.sum(1, keepdims=True)

    def weights(self, client: int) -> list[torch.Tensor]:
        return [torch.from_numpy(self.w[client]), torch.from_numpy(self.b[client, 0])]


class MLP(Kernel):
    """Batched matrix products over the clients; the update is part of the product that makes the gradient."""

    model = "mlp"
    largest = 6

    def __init__(self, data: tuple[torch.Tensor, torch.Tensor], group: int, steps: int, seed: int = 0) -> None:
        super().__init__(data, group, steps, seed)
        self.now = [p.repeat(group, 1, 1) for p in self.initial]
        self.h, self.dh = torch.empty(group, BATCH, 200), torch.empty(group, BATCH, 200)
        self.z, self.d = torch.empty(group, BATCH, 10), torch.empty(group, BATCH, 10)
        x, y = (flat.view(group, steps, BATCH, -1) for flat in (self.flat_x, self.flat_y))
        self.batches = [(x[:, i], y[:, i]) for i in range(steps)]

    def train(self, rows: torch.Tensor) -> None:
        self.gather(rows)
        w1, b1, w2, b2 = self.now
        h, dh, z, d = self.h, self.dh, self.z, self.d
        for now, start in zip(self.now, self.initial, strict=True):
            now.copy_(start)
        for x, y in self.batches:
            torch.bmm(x, w1.mT, out=h)
            h.add_(b1).clamp_min_(0)
            torch.baddbmm(b2, h, w2.mT, out=z)
            torch.softmax(z, 2, out=d)
            d.sub_(y)
            torch.bmm(d, w2, out=dh)
            clip_backward(dh, h, 0, grad_input=dh)
            w2.baddbmm_(d.mT, h, alpha=SCALE)
            b2.add_(d.sum(1, keepdim=True), alpha=SCALE)
            w1.baddbmm_(dh.mT, x, alpha=SCALE)
            b1.add_(dh.sum(1, keepdim=True), alpha=SCALE)

    def weights(self, client: int) -> list[torch.Tensor]:
        return [now[client].view_as(start) for now, start in zip(self.now, self.initial, strict=True)]


def channels_last(tensor: torch.Tensor) -> torch.Tensor:
    """A copy whose strides say channels-last outright, whatever the number of channels."""
    return tensor.permute(0, 2, 3, 1).clone(memory_format=torch.contiguous_format).permute(0, 3, 1, 2)


class Pool:
    """2x2 max-pooling and then ReLU (the same as ReLU and then pooling, on a quarter of the numbers)."""

    def __init__(self, channels: int, side: int) -> None:
        shape = (BATCH, channels, side, side)
        self.out, self.clipped = channels_last(torch.empty(shape)), channels_last(torch.empty(shape))
        self.winners = channels_last(torch.empty(shape, dtype=torch.int64))
        self.back = channels_last(torch.empty(BATCH, channels, 2 * side, 2 * side))

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        self.z = z
        pool(z, [2, 2], [2, 2], out=self.out, indices=self.winners)
        return self.out.clamp_min_(0)

    def backward(self, gradient: torch.Tensor) -> torch.Tensor:
        clip_backward(gradient, self.out, 0, grad_input=self.clipped)
        pool_backward(self.clipped, self.z, [2, 2], [2, 2], [0, 0], [1, 1], False, self.winners, grad_input=self.back)
        return self.back


class CNN(Kernel):
    """Channels-last. The first convolution is a matrix product with 25 shifted copies of the images and a row of ones
    for the bias; the dense layer reads the pixels in the order in which the second convolution leaves them."""

    model = "cnn"
    largest = 1

    def __init__(self, data: tuple[torch.Tensor, torch.Tensor], group: int, steps: int, seed: int = 0) -> None:
        super().__init__(data, group, steps, seed)
        k1, b1, k2, b2, w3, b3, w4, b4 = self.initial
        first = torch.cat([k1.view(16, 25).t(), b1[None]])
        dense = w3.view(64, 32, 7, 7).permute(0, 2, 3, 1).reshape(64, -1)
        self.start = [first, channels_last(k2), b2, dense, b3, w4, b4]
        self.now = [channels_last(p) if p.dim() == 4 else p.clone() for p in self.start]
        self.pools = Pool(16, 14), Pool(32, 7)
        self.columns = torch.ones(26, BATCH * 28 * 28)
        self.z1 = torch.empty(BATCH * 28 * 28, 16)
        self.h, self.dh, self.back = torch.empty(BATCH, 64), torch.empty(BATCH, 64), torch.empty(BATCH, 1568)
        self.z, self.d = torch.empty(BATCH, 10), torch.empty(BATCH, 10)
        x, y = (flat.view(group, steps, BATCH, -1) for flat in (self.flat_x, self.flat_y))
        shifts = ((5, 5, BATCH, 28, 28), (32, 1, 1024, 32, 1))
        windows = [[x[g, i].as_strided(*shifts, x[g, i].storage_offset()) for i in range(steps)] for g in range(group)]
        self.batches = [[(windows[g][i], y[g, i]) for i in range(steps)] for g in range(group)]

    @staticmethod
    def prepare(pixels: np.ndarray, labels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        return Kernel.prepare(np.pad(pixels, ((0, 0), (2, 2), (2, 2))), labels)

    def train(self, rows: torch.Tensor) -> None:
        self.gather(rows)
        for batches in self.batches:
            for now, start in zip(self.now, self.start, strict=True):
                now.copy_(start)
            for windows, y in batches:
                self.step(windows, y)

    def step(self, windows: torch.Tensor, y: torch.Tensor) -> None:
        first, k2, b2, w3, b3, w4, b4 = self.now
        (pool1, pool2), h, dh, z, d = self.pools, self.h, self.dh, self.z, self.d
        self.columns[:25].view(5, 5, BATCH, 28, 28).copy_(windows)
        torch.mm(self.columns.t(), first, out=self.z1)
        h1 = pool1.forward(self.z1.view(BATCH, 28, 28, 16).permute(0, 3, 1, 2))
        h2 = pool2.forward(nn.functional.conv2d(h1, k2, b2, padding=2))
        flat = h2.permute(0, 2, 3, 1).view(BATCH, -1)
        torch.addmm(b3, flat, w3.t(), out=h)
        h.clamp_min_(0)
        torch.addmm(b4, h, w4.t(), out=z)
        torch.softmax(z, 1, out=d)
        d.sub_(y)
        torch.mm(d, w4, out=dh)
        clip_backward(dh, h, 0, grad_input=dh)
        torch.mm(dh, w3, out=self.back)
        w4.addmm_(d.t(), h, alpha=SCALE)
        b4.add_(d.sum(0), alpha=SCALE)
        w3.addmm_(dh.t(), flat, alpha=SCALE)
        b3.add_(dh.sum(0), alpha=SCALE)
        gradient = pool2.backward(self.back.view(BATCH, 7, 7, 32).permute(0, 3, 1, 2))
        geometry = ([1, 1], [2, 2], [1, 1], False, [0, 0], 1)
        gradient, dk2, db2 = convolution_backward(gradient, h1, k2, [32], *geometry, [True, True, True])
        k2.add_(dk2, alpha=SCALE)
        b2.add_(db2, alpha=SCALE)
        first.addmm_(self.columns, pool1.backward(gradient).permute(0, 2, 3, 1).view(-1, 16), alpha=SCALE)

    def weights(self, client: int) -> list[torch.Tensor]:
        """Of the last client of the group only: the others' weights have been overwritten."""
        first, k2, b2, w3, *rest = self.now
        dense = w3.view(64, 7, 7, 32).permute(0, 3, 1, 2).reshape(64, -1)
        return [first[:25].t().reshape(16, 1, 5, 5), first[25], k2, b2, dense, *rest]


KERNELS: dict[str, type[Kernel]] = {kernel.model: kernel for kernel in (Logistic, MLP, CNN)}
