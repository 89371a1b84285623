"""Named scenarios: experiments as data."""

from __future__ import annotations

from enlist.arena.worlds import Scenario
from enlist.errors import unknown

SCENARIOS: dict[str, Scenario] = {
    "slow-minority": Scenario(
        about="one client in ten is ten times slower; otherwise only their utilities differ (BSFL's setting)"
    ),
    "slow-minority-by-size": Scenario(
        about="the same, and the numbers of examples are uneven (lognormal)", sizes="lognormal"
    ),
    "two-speeds": Scenario(
        about="one client in ten is fifteen times slower; all others are equally fast", latency="two-speeds"
    ),
    "two-speeds-by-size": Scenario(
        about="the same, and the numbers of examples are uneven (lognormal)", latency="two-speeds", sizes="lognormal"
    ),
    "uneven": Scenario(
        about="speeds and sizes are lognormal, and up to three replies in ten are lost",
        latency="lognormal",
        sizes="lognormal",
        reliability=(0.7, 1.0),
    ),
    "profiled": Scenario(
        about="speeds and sizes are lognormal, and the mean latencies are known up front",
        latency="lognormal",
        sizes="lognormal",
        profiled=True,
    ),
    "useful-are-slow": Scenario(
        about="speeds are lognormal, and slower clients have a higher utility",
        latency="lognormal",
        speed_utility=-0.9,
    ),
    "useful-are-fast": Scenario(
        about="speeds are lognormal, and faster clients have a higher utility",
        latency="lognormal",
        speed_utility=0.9,
    ),
    "unreliable": Scenario(
        about="speeds are lognormal, and clients drop out with a probability of up to four in five",
        latency="lognormal",
        reliability=(0.2, 1.0),
    ),
    "useful": Scenario(
        about="all are equally fast, and differ in utility", latency="equal", noise=0.1, utility_noise=0.05
    ),
    "alike": Scenario(
        about="nothing to learn: all are equally fast and have the same utility", latency="equal", utility="equal"
    ),
    "alike-but-size": Scenario(
        about="all are equally fast and have the same utility, but hold uneven numbers of examples",
        latency="equal",
        utility="equal",
        sizes="lognormal",
    ),
    "changing": Scenario(
        about="speeds are lognormal; nine times during the run, speeds and utilities are reshuffled",
        latency="lognormal",
        changes=9,
    ),
    "diurnal": Scenario(
        about="speeds and sizes are lognormal; every client keeps its own hours",
        latency="lognormal",
        availability="diurnal",
        sizes="lognormal",
    ),
    "flickering": Scenario(
        about="speeds are lognormal; clients come and go in sessions of about ten rounds",
        latency="lognormal",
        availability="markov",
    ),
    "blind-features": Scenario(
        about="as unreliable, but the features are uninformative",
        latency="lognormal",
        reliability=(0.2, 1.0),
        features=0.0,
    ),
    "kinds": Scenario(
        about="clients hold one of ten kinds of data, some of them rare; sizes are uneven, and one in ten is slow",
        utility="equal",
        utility_noise=0.02,
        sizes="lognormal",
        kinds=10,
    ),
    "one-kind": Scenario(
        about="nothing to learn: all hold the same kind and amount of data, and are equally fast",
        latency="equal",
        utility="equal",
        kinds=1,
    ),
    "batteries": Scenario(
        about="speeds are lognormal; clients run on batteries, and one that runs out of power is lost in that round",
        latency="lognormal",
        battery=5.0,
    ),
    "long-lived-batteries": Scenario(
        about="as batteries, but none runs out",
        latency="lognormal",
        battery=1000.0,
    ),
}
"""Every named scenario. The first is that of the BSFL experiments: 10 % of the clients are ten times slower."""


def scenario(name: str) -> Scenario:
    """The scenario called `name`.

    >>> scenario("changing").changes
    9
    """
    if name not in SCENARIOS:
        raise unknown("scenario", name, SCENARIOS)
    return SCENARIOS[name]
