"""Rules on how regret grows, and where BSFL's matches are found."""

from __future__ import annotations

from enlist.statistics import Summary
from enlist.studies.bsfl.fits import doubling
from enlist.studies.bsfl.plan import regret_key
from enlist.studies.bsfl.settings import DEFAULT, PRINTED, own
from enlist.studies.claims import NOT, PARTLY, REPRODUCED, Verdict, shown
from enlist.studies.results import Group, Results

FLAT, LINEAR = 1.2, 1.8
"""Doublings: 1 is logarithmic, 1.41 a square root, 2 linear."""
NOTED = {PRINTED: 0.1, DEFAULT: 0.01}
"""Losses that are told apart from smaller ones: the printed bonus is ten times as wide."""
PRESETS = {PRINTED: "as printed", DEFAULT: "our default"}
DECIDES = "BSFL as printed decides; our default is judged by the same rule and shown beside"


def sizes(results: Results) -> list[str]:
    """Sizes at which regret was measured, the paper's first, as they are written in keys; at least one.

    >>> from enlist.studies.bsfl.example import example_results
    >>> sizes(example_results())
    ['20-5', '60-6']
    """
    found = dict.fromkeys(key.split("/")[1] for key in results.keys("regret/"))
    return list(found) or [results["regret"].key]


def larger(results: Results) -> list[str]:
    """Sizes beyond the paper's; at least one.

    >>> from enlist.studies.bsfl.example import example_results
    >>> larger(example_results())
    ['60-6']
    """
    return sizes(results)[1:] or [results["regret of a larger population"].key]


def read(size: str) -> str:
    """A size as people read it.

    >>> read("20-5")
    '5 of 20'
    """
    clients, _, k = size.partition("-")
    return f"{k} of {int(clients):,}"


def bsfl(results: Results, size: str, scenario: str, reward: str) -> Group:
    """BSFL's matches under the reward that it maximises.

    >>> from enlist.studies.bsfl.example import example_results
    >>> bsfl(example_results(), "20-5", "iid", PRINTED).key
    'regret/20-5/iid/printed/bsfl'
    """
    return results[regret_key(size, scenario, reward, own(reward))]


def noticeable(results: Results, size: str, scenario: str, reward: str) -> Summary:
    """Doubling of the regret of rounds that lost at least what NOTED says.

    >>> from enlist.studies.bsfl.example import example_results
    >>> noticeable(example_results(), "20-5", "iid", DEFAULT).mean > 0
    True
    """
    return doubling(bsfl(results, size, scenario, reward), f"noticeable/{NOTED[reward]:g}")


def logarithmic(growth: Summary) -> Verdict:
    """The claim is that regret grows as ln n; `growth` is its doubling.

    reproduced   the interval lies below 1.2
    not          the mean is 1.8 or more: no better than linear
    partly       anything else: it grows more slowly than linearly, and faster than a logarithm

    >>> [logarithmic(Summary(mean, mean - 0.1, mean + 0.1)).kind for mean in (1.0, 1.4, 2.0)]
    ['reproduced', 'partly', 'not']
    """
    ours = f"doubling {shown(growth, 2)}"
    if growth.high < FLAT:
        return Verdict(REPRODUCED, ours, f"the interval lies below {FLAT:g}")
    if growth.mean >= LINEAR:
        return Verdict(NOT, ours, "it grows linearly or faster")
    return Verdict(PARTLY, ours, f"it grows more slowly than linearly, but the interval reaches beyond {FLAT:g}")


def linear(growth: Summary) -> Verdict:
    """The claim is that regret grows linearly.

    reproduced   the interval lies above 1.8
    not          it lies below
    partly       it contains 1.8

    >>> [linear(Summary(mean, mean - 0.1, mean + 0.1)).kind for mean in (2.0, 1.8, 1.4)]
    ['reproduced', 'partly', 'not']
    """
    ours = f"doubling {shown(growth, 2)}"
    if growth.low > LINEAR:
        return Verdict(REPRODUCED, ours, f"the interval lies above {LINEAR:g}")
    if growth.high < LINEAR:
        return Verdict(NOT, ours, f"the interval lies below {LINEAR:g}")
    return Verdict(PARTLY, ours, f"the interval contains {LINEAR:g}")


def slower(first: Summary, second: Summary) -> str:
    """Whether a growth is slower than another, in words.

    >>> one, other = Summary(1.2, 1.1, 1.3), Summary(1.5, 1.4, 1.6)
    >>> slower(one, other), slower(other, one), slower(Summary(1.2, 1.0, 1.5), other)
    ('certainly slower', 'not slower', 'slower, but not certainly')
    """
    if first.mean >= second.mean:
        return "not slower"
    return "certainly slower" if first.high < second.low else "slower, but not certainly"
