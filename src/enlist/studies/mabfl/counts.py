"""Claims that need no training: how many messages a round takes, and how much two combinations overlap."""

from __future__ import annotations

import itertools

from enlist.studies.claims import NOT, PARTLY, REPRODUCED, Claim, Further, Verdict
from enlist.studies.mabfl.keys import UCB_BINARY
from enlist.studies.results import Results

PRINTED = {"pairs": "6", "all": "k + 3", "extreme-delayed": "2k"}


def units(kind: str, workers: int) -> int:
    """Messages per round that the thesis prints for a way of playing.

    >>> units("pairs", 4), units("all", 6), units("extreme-delayed", 6)
    (6, 9, 12)
    """
    return {"pairs": 6, "all": workers + 3, "extreme-delayed": 2 * workers}[kind]


def overlap(others: int) -> float:
    """Mean number of workers, apart from the target, that two different combinations share; by enumeration.

    >>> overlap(1), round(overlap(3), 4)
    (0.0, 0.6429)
    """
    combinations = list(itertools.product((0, 1), repeat=others))
    pairs = list(itertools.permutations(combinations, 2))
    shared = sum(one & other for first, second in pairs for one, other in zip(first, second, strict=True))
    return shared / len(pairs)


def printed_overlap(others: int) -> float:
    """The thesis's formula (12) for the same, with k − 1 = `others`: (k−1)/4 − 4^−(k−1).

    >>> printed_overlap(3)
    0.734375
    """
    return float(others / 4 - 4.0**-others)


def right_overlap(others: int) -> float:
    """The formula that conditions on the two being different: (n/4 − n/2^(n+1)) / (1 − 2^−n).

    >>> round(right_overlap(3), 4)
    0.6429
    """
    return float((others / 4 - others / 2.0 ** (others + 1)) / (1 - 2.0**-others))


def _messages(results: Results) -> Verdict:
    counted = results["counts/messages"].each("rows")[0]
    rows = [(row["kind"], row["workers"], row["messages"]) for row in counted if row["kind"] in PRINTED]
    wrong = [
        f"{kind} with {k} workers: {ours} for {units(kind, k)}" for kind, k, ours in rows if units(kind, k) != ours
    ]
    ours = f"{len(rows) - len(wrong)} of {len(rows)} counts agree (k = 3 to 12)"
    if not wrong:
        return Verdict(REPRODUCED, ours, "counted message by message")
    return Verdict(NOT if len(wrong) == len(rows) else PARTLY, ours, "; ".join(wrong))


def _played(results: Results) -> Verdict:
    """Messages that sessions really counted, per round after the first."""
    found = {}
    for name, key, printed in (("pairs", UCB_BINARY, 6), ("Extreme Explore, delayed", "more/explore-delayed", 8)):
        messages = results[key].column("messages")
        found[name] = (float((messages[:, 1:] - messages[:, :-1]).mean()), printed)
    same = all(counted == printed for counted, printed in found.values())
    ours = "; ".join(f"{name} {counted:g}" for name, (counted, _) in found.items())
    return Verdict(REPRODUCED if same else NOT, ours, "mean over all rounds of all sessions")


def _five_more(results: Results) -> Verdict:
    return Verdict(
        PARTLY,
        "4 more, five times as many",
        "with 6 workers a round of Extreme Explore evaluates 5 pairs instead of 1: five times as many, but 4 more",
    )


def _overlap(results: Results) -> Verdict:
    found = {k: (printed_overlap(k - 1), overlap(k - 1)) for k in range(3, 8)}
    ours = "; ".join(f"k = {k}: {exact:.3f} ({printed:.3f} printed)" for k, (printed, exact) in found.items())
    worst = max(abs(printed - exact) for printed, exact in found.values())
    if worst < 0.005:
        return Verdict(REPRODUCED, ours, "the formula agrees with an enumeration")
    return Verdict(
        NOT, ours, f"the formula is off by up to {worst:.2f}: it subtracts one event instead of conditioning"
    )


def _right(results: Results) -> str:
    worst = max(abs(right_overlap(others) - overlap(others)) for others in range(1, 8))
    return (
        "conditioning on different combinations gives (n/4 − n/2^(n+1)) / (1 − 2^−n) with n = k − 1, which differs "
        f"from the enumeration by at most {worst:.0e}; the limit of 1/4 per worker, and so the argument, stay."
    )


_NONE = Further(
    "the count itself", lambda scale: (), lambda results: "the table of messages per round shows each count."
)

COUNTS = (
    Claim(
        "messages",
        "6, k + 3 and 2k messages per round",
        "A round takes 6 messages with pairs, k + 3 on average with all combinations, and 2k with Extreme Explore and "
        "delayed rewards.",
        "section 8.3.2",
        "6, k + 3, 2k",
        "equality for k = 3 to 12",
        _messages,
        _NONE,
    ),
    Claim(
        "messages-played",
        "That is what sessions count",
        "With 4 workers, 6 messages per round for pairs and 8 for Extreme Explore with delayed rewards.",
        "section 8.3.2",
        "6 and 8",
        "equality over all rounds",
        _played,
        _NONE,
    ),
    Claim(
        "five-more",
        "With 6 workers Extreme Explore evaluates 5 more pairs",
        "For twice the messages Extreme Explore evaluates 5 more combinations, five times as many.",
        "section 8.3.2",
        "5 more, five times",
        "count",
        _five_more,
        _NONE,
    ),
    Claim(
        "overlap",
        "Two random combinations share (k−1)/4 − 4^−(k−1) workers",
        "The expected overlap of two different random combinations, the target not counted.",
        "section 8.3.1, equation 12",
        "(k−1)/4 − 4^−(k−1)",
        "formula against enumeration, k = 3 to 7: at most 0.005 apart",
        _overlap,
        Further("the derivation", lambda scale: (), _right),
    ),
)
"""Claims that can be counted."""
