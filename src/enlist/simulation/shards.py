"""A part of a plan: every n-th group of its runs, for job arrays whose jobs know nothing of each other.

All parts write into the same folder: headers describe the whole, and each part does its own runs. Runs that share
their clients stay together, so that no part builds clients for a single run that another part builds as well.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
from pathlib import Path

from enlist.errors import InputError
from enlist.simulation.jobs import Job
from enlist.simulation.plans import Plan

TRIES, BETWEEN = 10, 0.2
"""How often, and after how many seconds, a part retries its header while other parts write theirs."""


@dataclasses.dataclass(frozen=True)
class Shard(Plan):
    """The `number`-th of `count` parts of a plan; the parts are disjoint, and together they are the plan.

    >>> from enlist.simulation import Comparison, Config
    >>> whole = Comparison(Config(), "random,oort", seeds=3)
    >>> [job.key for job in part(whole, "2/2").jobs()]
    [('random', 1), ('oort', 1)]
    """

    plan: Plan
    number: int
    count: int

    def check(self) -> None:
        """Refuse what cannot run in the whole plan."""
        self.plan.check()

    def jobs(self, root: Path | None = None) -> list[Job]:
        """The runs of this part."""
        jobs = self.plan.jobs(root)
        groups = {people: place for place, people in enumerate(dict.fromkeys(job.people for job in jobs))}
        if len(groups) >= self.count:
            return [job for job in jobs if groups[job.people] % self.count == self.number - 1]
        return jobs[self.number - 1 :: self.count]  # fewer groups than parts: no part stays idle

    def remember(self, root: Path, accept_changes: bool) -> None:
        """Record what the whole is, as every other part does, perhaps at this very moment."""
        for _ in range(TRIES):
            with contextlib.suppress(InputError):
                return self.plan.remember(root, accept_changes)
            time.sleep(BETWEEN)
        return self.plan.remember(root, accept_changes)

    def headers(self, root: Path) -> list[Path]:
        """None: a part must not remove headers that other parts need."""
        return []


def part(plan: Plan, given: str) -> Shard:
    """A part by its number: "3/16" is the third of sixteen.

    >>> from enlist.simulation import Comparison, Config
    >>> part(Comparison(Config(), "random"), "0/4")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: --shard is '0/4'; give a part and the number of parts, such as 3/16: from 1/16 to 16/16.
    """
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", given)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise InputError(
            f"--shard is {given!r}; give a part and the number of parts, such as 3/16: from 1/16 to 16/16."
        )
    return Shard(plan, int(found[1]), int(found[2]))
