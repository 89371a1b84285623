"""What tests share that work out rounds of a selector by hand."""

from __future__ import annotations

import math

from enlist import Feedback

LN2, LN3, LN4, LN5 = (math.log(number) for number in (2, 3, 4, 5))


def play(selector, available, k, *, deadline=math.inf, metrics=None, **columns):
    """Ask and tell at once; returns the clients."""
    picked = selector.ask(available, k=k, deadline=deadline)
    selector.tell(picked, Feedback(**columns), metrics)
    return picked.clients.tolist()
