"""Does the model still learn? Rounds without an update, and deadlines that nobody can meet, are said aloud."""

from __future__ import annotations

import collections
import math

from enlist.errors import EnlistError
from enlist.flower.round import Round
from enlist.flower.state import LOGGER
from enlist.records import Outcome

LONGEST_QUOTE = 80


class NoUpdateError(EnlistError, RuntimeError):
    """The model has not been updated for as many rounds as were agreed.

    >>> issubclass(NoUpdateError, EnlistError)
    True
    """


class Progress:
    """Looks at every round that is over.

    warn_after   rounds in a row without an update after which the log warns, and again after as many more
    stop_after   rounds in a row without an update after which the run is to end; None for never

    >>> Progress(warn_after=3, stop_after=None).idle
    0
    """

    def __init__(self, warn_after: int, stop_after: int | None) -> None:
        self.warn_after, self.stop_after = warn_after, stop_after
        self.idle = 0
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.reasons: collections.Counter[str] = collections.Counter()
        self.met = False
        self.quickest = math.inf
        self.said: set[str] = set()

    def note(self, current: Round) -> None:
        """A round is over."""
        if current.updated:
            self.idle = 0
            self.outcomes.clear()
            self.reasons.clear()
        else:
            self.idle += 1
            self._count(current)
            if self.idle % self.warn_after == 0:
                LOGGER.warning("enlist: %s", self._sentence())
        if not current.watching:
            self._look_at_deadline(current)

    def _count(self, current: Round) -> None:
        self.outcomes.update(report.said.outcome.name.lower() for report in current.reports)
        self.outcomes["late"] += len(current.selection) - len(current.reports)
        told = [report.said.reason for report in current.reports if report.said.reason]
        self.reasons.update(reason[:LONGEST_QUOTE] for reason in told)
        while len(self.reasons) > 100:
            self.reasons.popitem()

    def _sentence(self) -> str:
        """What has become of requests since the last update."""
        rounds = "round" if self.idle == 1 else f"{self.idle} rounds"
        parts = [f"{count} {name}" for name, count in sorted(self.outcomes.items()) if count]
        text = f"no update of the model in the last {rounds}; of {self.outcomes.total()} requests: "
        text += ", ".join(parts) or "none"
        quoted = "".join(f" (most often: {reason})" for reason, _ in self.reasons.most_common(1))
        return f"{text}{quoted}"

    def _look_at_deadline(self, current: Round) -> None:
        deadline = current.selection.deadline
        self.met = self.met or any(report.said.outcome == Outcome.COMPLETED for report in current.reports)
        late = [report.latency for _, report, _ in current.late if report.said.outcome == Outcome.COMPLETED]
        self.quickest = min([self.quickest, *late])
        if self.met:
            return
        if self.quickest < math.inf and self.quickest > deadline:
            text = "the deadline of %.4g s is shorter than any training so far, the quickest of which took %.4g s"
            self._say("shorter", text, deadline, self.quickest)
        elif len(current.selection) and not current.reports:
            text = "none of %d nodes has replied within the deadline of %.4g s"
            self._say("nobody", text, len(current.selection), deadline)

    def _say(self, kind: str, text: str, *values: float) -> None:
        """Warn, each thing once."""
        if kind not in self.said:
            self.said.add(kind)
            LOGGER.warning(f"enlist: {text}", *values)

    @property
    def over(self) -> bool:
        """Whether the run is to end."""
        return self.stop_after is not None and self.idle >= self.stop_after

    def end(self) -> None:
        """Raise if the run is to end."""
        if self.over:
            raise NoUpdateError(
                f"{self._sentence()}; stop_without_update={self.stop_after} ends the run. Give rounds a longer "
                "deadline, look at the clients' logs, or leave it out."
            )
