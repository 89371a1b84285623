"""Replies to one selection, until the round closes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from enlist._internal.typing import AnyArray, BoolArray
from enlist.errors import TellError
from enlist.records import FEEDBACK_COLUMNS, Feedback, Outcome, Selection
from enlist.rounds import PENDING


@dataclasses.dataclass(eq=False)
class Replies:
    """What has come back for one selection so far, in the order of its clients.

    >>> replies = Replies.of(Selection(1, np.array([3, 8])))
    >>> replies.note(Feedback(clients=[8], latency=[2.0], loss=[0.5]).resolved(replies.selection))
    >>> replies.feedback(waited=6.0).latency
    array([6., 2.])
    """

    selection: Selection
    outcome: AnyArray
    columns: dict[str, AnyArray]
    told: BoolArray

    @classmethod
    def of(cls, selection: Selection, told: AnyArray | None = None) -> Replies:
        """No replies yet, except from clients whose outcome in `told` the selector already knows."""
        outcome = np.full(len(selection), PENDING, dtype=np.int8) if told is None else told.copy()
        return cls(selection, outcome, {}, outcome != PENDING)

    def note(self, part: Feedback) -> None:
        """Record the replies of some clients; a second reply from the same client is an error."""
        assert part.clients is not None
        index = np.searchsorted(self.selection.clients, part.clients)
        if (self.outcome[index] != PENDING).any():
            twice = part.clients[self.outcome[index] != PENDING][0]
            raise TellError(f"client {twice} has already replied in round {self.selection.round}; each replies once.")
        outcome = part.outcome
        for name in ("latency", *FEEDBACK_COLUMNS, "update"):
            values = getattr(part, name)
            if values is not None:
                column = self.columns.setdefault(name, np.full((len(self.selection), *values.shape[1:]), np.nan))
                if column.shape[1:] != values.shape[1:]:
                    raise TellError(
                        f"sketches of {values.shape[1]} numbers came in round {self.selection.round}, in which others "
                        f"have {column.shape[1]}; make all of one length."
                    )
                column[index] = values
        self.outcome[index] = outcome

    def feedback(self, waited: float) -> Feedback:
        """Final outcomes if the server stops waiting now."""
        rest = ~self.told
        silent = (self.outcome == PENDING)[rest]
        columns: dict[str, Any] = {name: values[rest] for name, values in self.columns.items()}
        replied = self.outcome[rest] == Outcome.COMPLETED
        timed = "latency" in columns and not np.isnan(columns["latency"][replied]).any()
        if timed or not replied.any():
            columns["latency"] = np.where(silent, waited, columns.get("latency", np.nan))
        else:
            columns.pop("latency", None)  # some replies lack it: then none is told
        whole = "latency" not in columns and waited >= self.selection.deadline  # nothing else would tell it
        return Feedback(
            clients=self.selection.clients if rest.all() else self.selection.clients[rest],
            outcome=np.where(silent, np.int8(Outcome.LATE), self.outcome[rest]),
            censored=silent & (not whole),
            **columns,
        )
