"""The precision of training: float32, or products in bf16 where the processor has instructions for them.

In bf16 (8 bits of mantissa, the exponent of float32) only convolutions and products of the forward and backward pass
are computed; weights, losses, steps, updates and sums stay float32, and so do evaluations.
"""

from __future__ import annotations

import contextlib
import platform
from typing import Literal

import torch

from enlist.errors import InputError

Precision = Literal["float32", "bf16"]
Context = contextlib.AbstractContextManager[object]


def has_bf16(device: str = "cpu") -> bool:
    """Whether a device computes in bf16, rather than imitating it with float32."""
    if torch.device(device).type == "cuda":
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    if platform.machine().lower() in ("aarch64", "arm64"):
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    found = (getattr(torch.cpu, f"_is_{name}_supported", None) for name in ("avx512_bf16", "amx_tile"))
    return any(test is not None and test() for test in found)


def check_precision(precision: Precision, device: str, together: bool) -> None:
    """Refuse bf16 where it would be slower than float32: without such instructions, and for small dense models.

    together    whether the model is trained for many clients at once

    >>> check_precision("bf16", "cpu", together=True)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: training.precision is 'bf16', which does not make small dense models faster: ...
    """
    if precision == "float32":
        return
    if together:
        raise InputError(
            f"training.precision is {precision!r}, which does not make small dense models faster: they are trained for "
            "many clients at once. Use 'float32' for them, or another model, such as 'cnn'."
        )
    if not has_bf16(device):
        raise InputError(
            f"training.precision is {precision!r}, and this {device} has no instructions for it (AVX-512 BF16 or AMX "
            "on x86), so it would be slower than float32; use 'float32', or another machine."
        )


def lowered(precision: Precision, device: str) -> Context:
    """A context in which a model computes in this precision; one forward pass, because weights are converted once.

    >>> with lowered("bf16", "cpu"):
    ...     torch.nn.Linear(2, 2)(torch.zeros(1, 2)).dtype
    torch.bfloat16
    """
    if precision == "float32":
        return contextlib.nullcontext()
    return torch.autocast(torch.device(device).type, torch.bfloat16)
