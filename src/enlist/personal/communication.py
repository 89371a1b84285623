"""Communication in the thesis's units: every message between the server and a worker counts 1, whatever it carries.

one combination           2 members + 2       out, back, the aggregate to the target, its reward (a pair: 6)
all combinations          k + 3 expected      a worker is in with probability 1/2
Extreme Explore           2k + 2              all aggregates in one message; 2k + 2 arms if each has its own
  with delayed rewards    2k                  aggregates and rewards travel with the next round's models
federated averaging       2k
"""

from __future__ import annotations

from typing import Any, Literal

from enlist._internal import checks
from enlist.personal.arms import Arms
from enlist.personal.decision import Play

Kind = Literal["pairs", "all", "extreme", "extreme-delayed", "extreme-one-by-one", "fedavg"]
KINDS: tuple[Kind, ...] = ("pairs", "all", "extreme", "extreme-delayed", "extreme-one-by-one", "fedavg")


def combination_units(members: int) -> int:
    """Messages of a round that plays one combination of this many workers, including the target.

    >>> combination_units(2), combination_units(4)
    (6, 10)
    """
    return 2 * checks.whole("members", members, minimum=1) + 2


def extreme_units(workers: int, arms: int, *, delayed: bool = False, bundled: bool = True) -> int:
    """Messages of a round of Extreme Explore with this many training workers and evaluated arms.

    >>> extreme_units(6, 5, delayed=True), extreme_units(6, 5), extreme_units(6, 5, bundled=False)
    (12, 14, 22)
    """
    evaluations = 0 if delayed else 2 if bundled else 2 * checks.whole("arms", arms, minimum=1)
    return fedavg_units(workers) + evaluations


def fedavg_units(workers: int) -> int:
    """Messages of a round of federated averaging: a model to each worker and one back.

    >>> fedavg_units(6)
    12
    """
    return 2 * checks.whole("workers", workers, minimum=1)


def expected_units(kind: Kind, workers: int) -> int:
    """Expected messages per round of a way of playing; Extreme Explore plays pairs.

    >>> [expected_units(kind, 6) for kind in KINDS]
    [6, 9, 14, 12, 22, 12]
    """
    workers = checks.whole("workers", workers, minimum=2)
    checks.one_of("kind", kind, KINDS)
    if kind == "pairs":
        return combination_units(2)
    if kind == "all":
        return workers + 3
    if kind == "fedavg":
        return fedavg_units(workers)
    delayed, bundled = kind == "extreme-delayed", kind != "extreme-one-by-one"
    return extreme_units(workers, workers - 1, delayed=delayed, bundled=bundled)


def units(arms: Arms, play: Play, *, delayed: bool = False, bundled: bool = True, lost: int = 0) -> int:
    """Messages of a round that was actually played; `lost` is the number of workers that did not reply.

    In a round of Extreme Explore only workers of played arms train, so each removed or masked pair saves two messages.
    Without any arm the target trains alone.

    >>> arms = Arms.pairs(["1", "2", "3", "4"], "2")
    >>> units(arms, Play([0], extreme=False)), units(arms, Play([0, 1, 2], extreme=True), delayed=True)
    (6, 8)
    """
    members = arms.members[play.arms]
    workers = int(members.any(axis=0).sum())
    if play.extreme and len(play.arms):
        return extreme_units(workers, len(play.arms), delayed=delayed, bundled=bundled) - lost
    return combination_units(max(workers, 1)) - lost


def cost_table(workers: int) -> list[dict[str, Any]]:
    """The cost of a round and of an evaluated combination, for each way of playing.

    >>> cost_table(6)[0]
    {'kind': 'pairs', 'workers': 6, 'messages': 6, 'combinations': 1, 'messages_per_combination': 6.0}
    """
    rows = []
    for kind in KINDS:
        messages = expected_units(kind, workers)
        combinations = workers - 1 if kind.startswith("extreme") else 1
        each = messages / combinations
        row = {"kind": kind, "workers": workers, "messages": messages, "combinations": combinations}
        rows.append({**row, "messages_per_combination": each})
    return rows
