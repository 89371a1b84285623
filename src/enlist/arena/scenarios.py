"""Named scenarios: experiments as data."""

from __future__ import annotations

from enlist.arena.worlds import Scenario
from enlist.errors import unknown

SCENARIOS: dict[str, Scenario] = {
    "slow-minority": Scenario(),
    "slow-minority-by-size": Scenario(sizes="lognormal"),
    "uneven": Scenario(latency="lognormal", sizes="lognormal", reliability=(0.7, 1.0)),
    "profiled": Scenario(latency="lognormal", sizes="lognormal", profiled=True),
    "useful-are-slow": Scenario(latency="lognormal", speed_utility=-0.9),
    "useful-are-fast": Scenario(latency="lognormal", speed_utility=0.9),
    "unreliable": Scenario(latency="lognormal", reliability=(0.2, 1.0)),
    "useful": Scenario(latency="equal", noise=0.1, utility_noise=0.05),
    "alike": Scenario(latency="equal", utility="equal"),
    "alike-but-size": Scenario(latency="equal", utility="equal", sizes="lognormal"),
    "changing": Scenario(latency="lognormal", changes=9),
    "diurnal": Scenario(latency="lognormal", availability="diurnal", sizes="lognormal"),
    "flickering": Scenario(latency="lognormal", availability="markov"),
    "blind-features": Scenario(latency="lognormal", reliability=(0.2, 1.0), features=0.0),
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
