"""Which clients a table of a configuration applies to, and from which round on; for hostile clients and drift."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pydantic

from enlist._internal import checks
from enlist._internal.options import Options
from enlist._internal.typing import IntArray
from enlist.errors import InputError


class GroupOptions(Options):
    """Some clients, and the round from which on a table holds for them.

    >>> GroupOptions(share=0.3, from_round=5).from_round
    5
    """

    share: float | None = pydantic.Field(
        None, gt=0, le=1, description="Share of the clients that it applies to; the seed decides which."
    )
    clients: tuple[int, ...] | None = pydantic.Field(
        None, min_length=1, description="Positions of the clients that it applies to, instead of a share."
    )
    group: str = pydantic.Field(
        "", description="Tables of the same group apply to the same clients; one of them says which."
    )
    from_round: int = pydantic.Field(1, ge=1, description="The first round in which it applies.")

    @pydantic.model_validator(mode="after")
    def _who(self) -> GroupOptions:
        if self.share is not None and self.clients is not None:
            raise ValueError("share and clients both say which clients it applies to; give one of them.")
        if self.share is None and self.clients is None and not self.group:
            raise ValueError("neither share nor clients is given; give share, for example 0.3, or clients = [0, 1].")
        return self


def members(tables: Sequence[GroupOptions], count: int, generator: np.random.Generator, section: str) -> list[IntArray]:
    """The clients of every table: those listed, then shares, one after another in one random order.

    >>> members([GroupOptions(clients=[3])], 5, np.random.default_rng(1), "hostile")
    [array([3])]
    """
    names = [table.group or f"{section} table {number}" for number, table in enumerate(tables, start=1)]
    found: dict[str, IntArray] = {}
    for name, table in zip(names, tables, strict=True):
        if table.share is None and table.clients is None:
            continue
        if name in found:
            raise InputError(f"group '{name}' of [[{section}]] defines its clients twice; use one table for that.")
        listed = () if table.clients is None else table.clients
        found[name] = checks.positions(f"{section}.clients", list(listed), count)
    free = generator.permutation(count) if tables else np.zeros(0, dtype=int)
    free = free[~np.isin(free, np.concatenate([*found.values(), np.zeros(0, dtype=int)]))]
    for name, table in zip(names, tables, strict=True):
        if table.share is not None:
            wanted = int(table.share * count + 0.5)
            if wanted > len(free):
                raise InputError(
                    f"[[{section}]] wants {wanted} more of {count} clients, but {len(free)} are left; use "
                    "smaller shares, or the same group for tables about the same clients."
                )
            found[name], free = np.sort(free[:wanted]), free[wanted:]
    for name in names:
        if name not in found:
            raise InputError(f"group '{name}' of [[{section}]] has no clients; give share or clients in one table.")
    return [found[name] for name in names]
