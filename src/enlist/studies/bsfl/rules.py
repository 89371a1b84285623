"""The rules that compare no measure of two arms: how regret grows, Theorem 1's bound, races, targets."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from enlist._internal.statistics import Summary, bootstrap, share
from enlist._internal.typing import FloatArray
from enlist.studies.bsfl.annealing import TARGETS
from enlist.studies.bsfl.settings import COUNTED
from enlist.studies.claims import NOT, PARTLY, REPRODUCED, UNTESTABLE, Verdict, counted, shown
from enlist.studies.results import Replicates, Results
from enlist.studies.rules import Arm

FLAT, LINEAR = 1.2, 1.8
"""Doublings: 1 is logarithmic, 1.41 a square root, 2 linear."""
CURVES = {
    "pseudo": "the regret",
    "counted": f"the regret of rounds that lost at least {COUNTED:g}",
    "printed": "the regret as Eq. 7 prints it",
}
TIE = 1e-12


def at(group: Replicates, name: str, part: float) -> FloatArray:
    """(seeds,) a cumulated curve after this part of the rounds, between two points of it in proportion."""
    rounds = group.column("rounds")[0]
    return np.array([np.interp(part * rounds[-1], rounds, curve) for curve in group.column(name)])


def doubling(group: Replicates, name: str = "pseudo") -> Summary:
    """[R(n) - R(n/2)] / [R(n/2) - R(n/4)]: 1 if R grows as ln n, 1.41 as √n, 2 as n; with its interval over seeds.

    It is the ratio of means, resampled over seeds, so that a seed without regret in between does no harm. A regret that
    has come to a stop counts as 1.
    """
    quarter, half, whole = (at(group, name, part) for part in (0.25, 0.5, 1.0))

    def ratio(first: FloatArray, second: FloatArray) -> float:
        return float(second.mean() / first.mean()) if first.mean() > 0 else 1.0 if second.mean() <= 0 else math.inf

    return bootstrap(ratio, half - quarter, whole - half, resamples=500)


def horizon(clients: int, k: int, rounds: int, gap: float) -> float:
    """How many of so many rounds may lose `gap` or more by the proof of Theorem 1: K · 4(m+1) ln n / gap².

    If that is more than there are, the theorem says nothing about them.

    >>> round(horizon(20, 5, 20_000, 0.5)), f"{horizon(20, 5, 20_000, 1e-3):.0e}"
    (19015, '5e+09')
    """
    return clients * 4.0 * (k + 1) * math.log(rounds) / gap**2


def bound(clients: int, k: int, rounds: int, most: float, gap: float) -> float:
    """Theorem 1: most · (K · 4(m+1) ln n / gap² + K (1 + π²/3)), with the largest and the least loss of a round.

    >>> round(bound(20, 5, 1000, most=2.9, gap=0.1))
    961808
    """
    return most * (horizon(clients, k, rounds, gap) + clients * (1.0 + math.pi**2 / 3.0))


def least_loss(group: Replicates, curve: str) -> float:
    """The least loss of a round that a curve counts."""
    return COUNTED if curve == "counted" else float(group.column("least").min())


def size_of(group: Replicates) -> tuple[int, int, int]:
    """Clients, k and rounds of a match."""
    return group.settings["clients"], group.settings["k"], group.settings["rounds"]


@dataclasses.dataclass(frozen=True)
class RegretGrowth:
    """How a cumulated regret grows.

    within   judge only what Theorem 1 speaks of: else it is beyond the horizon, and not testable

    >>> RegretGrowth("as ln n", Arm("regret/small/iid/bsfl", "BSFL")).words().partition(": ")[2]
    'interval below 1.2; not from a mean of 1.8 on'
    """

    how: Literal["as ln n", "as n"]
    of: Arm
    curve: str = "pseudo"
    within: bool = False

    def words(self) -> str:
        said = (
            f"doubling of {CURVES[self.curve]}, [R(n) − R(n/2)] / [R(n/2) − R(n/4)] (1 for ln n, 1.41 for √n, 2 for "
            f"n), {self.of.name}: "
        )
        if self.how == "as n":
            return f"{said}interval above {LINEAR:g}; not if it lies below"
        limit = "; beyond the horizon, and not testable, if K·4(m+1) ln n/Δ² exceeds n (Δ: least loss counted)"
        return f"{said}interval below {FLAT:g}; not from a mean of {LINEAR:g} on{limit * self.within}"

    def __call__(self, results: Results) -> Verdict:
        group = results[self.of.key]
        growth = doubling(group, self.curve)
        ours = f"doubling {shown(growth, 2)}"
        gap = least_loss(group, self.curve)
        far = horizon(*size_of(group), gap)
        if self.within and far > group.settings["rounds"]:
            why = f"beyond the horizon: with losses of {gap:.2g} the proof allows {far:.2g} rounds to be lost"
            return Verdict(UNTESTABLE, ours, f"{why}, and {group.settings['rounds']:,} were played")
        return linear(growth, ours) if self.how == "as n" else logarithmic(growth, ours)


def logarithmic(growth: Summary, ours: str) -> Verdict:
    """Whether a doubling is that of a logarithm."""
    if growth.high < FLAT:
        return Verdict(REPRODUCED, ours, f"the interval lies below {FLAT:g}")
    if growth.mean >= LINEAR:
        return Verdict(NOT, ours, "it grows linearly or faster")
    return Verdict(PARTLY, ours, f"it grows more slowly than linearly, but the interval reaches beyond {FLAT:g}")


def linear(growth: Summary, ours: str) -> Verdict:
    """Whether a doubling is that of linear growth."""
    if growth.low > LINEAR:
        return Verdict(REPRODUCED, ours, f"the interval lies above {LINEAR:g}")
    if growth.high < LINEAR:
        return Verdict(NOT, ours, f"the interval lies below {LINEAR:g}")
    return Verdict(PARTLY, ours, f"the interval contains {LINEAR:g}")


@dataclasses.dataclass(frozen=True)
class Bounded:
    """Theorem 1's bound on the regret of rounds that lost a given amount or more.

    against   who learns nothing: a bound that holds of it as well says nothing of learning

    >>> Bounded(Arm("regret/two-speeds/iid/bsfl", "BSFL"), [Arm("regret/two-speeds/iid/random", "random")]).words()[:58]
    'Δmax·K·(4(m+1) ln n/Δ² + 1 + π²/3) and the regret of round'
    """

    of: Arm
    against: Sequence[Arm]
    curve: str = "counted"

    def words(self) -> str:
        idle = " and ".join(arm.name for arm in self.against)
        return (
            f"Δmax·K·(4(m+1) ln n/Δ² + 1 + π²/3) and {CURVES[self.curve]}, {self.of.name}: that of every seed lies "
            f"below it; not testable if that of {idle} selection, which learns nothing, does so too"
        )

    def __call__(self, results: Results) -> Verdict:
        group = results[self.of.key]
        regret, most = at(group, self.curve, 1.0), float(group.column("most").max())
        limit = bound(*size_of(group), most, least_loss(group, self.curve))
        idle = {arm.name: at(results[arm.key], self.curve, 1.0).max() for arm in self.against}
        ours = "; ".join(
            [
                f"at most {regret.max():.4g}",
                *(f"{name} {lost:.4g}" for name, lost in idle.items()),
                f"bound {limit:.4g}",
            ]
        )
        if (regret > limit).any():
            return Verdict(NOT, ours, "a seed lies above the bound")
        if max(idle.values()) <= limit:
            return Verdict(UNTESTABLE, ours, "beyond the horizon: who learns nothing keeps below the bound as well")
        return Verdict(REPRODUCED, ours, "every seed lies below the bound, and who learns nothing above it")


@dataclasses.dataclass(frozen=True)
class WalkerRaces:
    """How often a walker meets a higher energy than SA in as many steps, with ties and losses.

    >>> WalkerRaces(Arm("race/printed/alsa", "ALSA"), 0.98).words()
    'share of instances in which ALSA meets a higher energy than SA in as many steps (ties do not count): at least 0.98'
    """

    of: Arm
    least: float
    from_clients: int = 0

    def words(self) -> str:
        some = f", {self.from_clients} clients and more," if self.from_clients else ""
        return (
            f"share of instances{some} in which {self.of.name} meets a higher energy than SA in as many steps (ties do "
            f"not count): at least {self.least:g}"
        )

    def __call__(self, results: Results) -> Verdict:
        wins, ties, losses = score(results[self.of.key], self.from_clients)
        tried = wins + ties + losses
        verdict = counted(share(wins, tried), self.least, trials=tried)
        ours = f"{wins:,} wins, {ties:,} ties, {losses:,} losses of {tried:,}: {verdict.ours}"
        return verdict._replace(ours=ours)


def score(group: Replicates, from_clients: int = 0, to_clients: int | None = None) -> tuple[int, int, int]:
    """Wins, ties and losses of a walker against SA, over instances of some sizes."""
    clients = group.each("sizes")[0][:, 0]
    used = (clients >= from_clients) & (clients <= (clients.max() if to_clients is None else to_clients))
    lead = (group.column("walker") - group.column("sa"))[:, used]
    return int((lead > TIE).sum()), int((np.abs(lead) <= TIE).sum()), int((lead < -TIE).sum())


@dataclasses.dataclass(frozen=True)
class InRange:
    """Whether g stays within [−1, 1] and never rises, in Eq. 3 and in Eq. 4.

    >>> InRange(Arm("targets", "lognormal sizes")).words().partition(": ")[0]
    'largest |g| of Eq. 3, and of Eq. 4 in populations of lognormal sizes'
    """

    of: Arm

    def words(self) -> str:
        return (
            f"largest |g| of Eq. 3, and of Eq. 4 in populations of {self.of.name}: at most 1, and never rising; partly "
            "if only Eq. 4 exceeds it"
        )

    def __call__(self, results: Results) -> Verdict:
        group = results[self.of.key]
        steepest, falling = max(group.each("steepest")), all(group.each("falling"))
        largest = np.concatenate(group.each("largest"), axis=1)
        above = [share(int((row > 1.0).sum()), row.size) for row in largest]
        said = ", ".join(
            f"{shown(each, 2)} of populations with {k} of {clients}"
            for each, (clients, k) in zip(above, TARGETS, strict=True)
        )
        rising = "never rising" if falling else "rising somewhere"
        ours = f"Eq. 3: |g| up to {steepest:.2f}, {rising}; Eq. 4: above 1 in {said}, up to {largest.max():.1f}"
        if not falling or steepest > 1.0:
            return Verdict(NOT, ours, "Eq. 3 itself leaves [−1, 1] or rises")
        if largest.max() > 1.0:
            return Verdict(
                PARTLY, ours, "Eq. 3 keeps to it, Eq. 4 does not: who holds more than 1/m of the data exceeds 1"
            )
        return Verdict(REPRODUCED, ours, "both equations keep to it")
