"""For each selector, a scenario in which it beats random on what it is built for, and one in which it does not.

Experiments as data. `python -m benchmarks.evidence` runs them and writes docs/selectors.md; the tests run a part.
"""

from __future__ import annotations

import dataclasses

from enlist._internal.statistics import Summary
from enlist.arena.compare import Tournament, compare, paired_difference, summarise

SMALLER_IS_BETTER = {
    "round_time",
    "share_error",
    "pseudo_regret",
    "hypervolume_regret",
    "front_regret",
    "late",
    "dropped",
    "model_loss",
    "update_error",
}


@dataclasses.dataclass(frozen=True)
class Trial:
    """A quantity in a scenario.

    >>> Trial("slow-minority", "round_time").smaller_is_better
    True
    """

    scenario: str
    quantity: str

    @property
    def smaller_is_better(self) -> bool:
        """Whether less of the quantity is better."""
        return self.quantity in SMALLER_IS_BETTER


@dataclasses.dataclass(frozen=True)
class Evidence:
    """When to use a selector, where it beats random, and where it does not.

    >>> EVIDENCE["cs-ucb"].wins.scenario
    'slow-minority'
    """

    use: str
    wins: Trial
    loses: Trial


@dataclasses.dataclass(frozen=True)
class Finding:
    """The outcome of a claim: means of the selector and of random, and the paired difference.

    >>> zero = Summary(0.0, -1.0, 1.0)
    >>> Finding(Trial("alike", "utility"), zero, zero, zero).better
    False
    """

    claim: Trial
    selector: Summary
    random: Summary
    difference: Summary

    @property
    def better(self) -> bool:
        """Whether the 95 % interval of the difference lies wholly on the good side."""
        return self.difference.high < 0 if self.claim.smaller_is_better else self.difference.low > 0


EVIDENCE: dict[str, Evidence] = {
    "tempo": Evidence(
        "you want a default: it needs only latency, rounds are short, and no client is left out",
        Trial("useful-are-slow", "utility_per_second"),
        Trial("alike", "utility_per_second"),
    ),
    "size-proportional": Evidence(
        "sizes are very uneven and the aggregation is an unweighted mean",
        Trial("alike-but-size", "share_error"),
        Trial("alike", "share_error"),
    ),
    "darts-ucb": Evidence(
        "there are few clients (tens), the server can evaluate every round, and clients differ in what they contribute",
        Trial("useful", "accuracy_gain"),
        Trial("alike", "accuracy_gain"),
    ),
    "epsilon-greedy": Evidence(
        "you want the simplest learner on one reply value, with a fixed share of exploration",
        Trial("useful", "utility"),
        Trial("alike", "utility"),
    ),
    "ucb": Evidence(
        "clients differ steadily in one reply value and every one of them can be tried once",
        Trial("useful", "utility"),
        Trial("alike", "utility"),
    ),
    "thompson": Evidence(
        "replies are noisy or delayed: its exploration is random, so several rounds in flight do not repeat each other",
        Trial("useful", "utility"),
        Trial("alike", "utility"),
    ),
    "discounted-thompson": Evidence(
        "the value of clients changes during the run",
        Trial("changing", "utility"),
        Trial("alike", "utility"),
    ),
    "cs-ucb": Evidence(
        "only the length of rounds matters and data are iid and balanced",
        Trial("slow-minority", "round_time"),
        Trial("alike", "round_time"),
    ),
    "cs-ucb-q": Evidence(
        "rounds should be short, but each client must take part in a given fraction of them",
        Trial("slow-minority-by-size", "share_error"),
        Trial("alike", "round_time"),
    ),
    "bsfl": Evidence(
        "rounds should be short and no client may be left out: one objective balances the two",
        Trial("slow-minority", "pseudo_regret"),
        Trial("alike", "round_time"),
    ),
    "rbcs-f": Evidence(
        "speed can be predicted from device features, and a minimum share per client is wanted",
        Trial("slow-minority", "round_time"),
        Trial("alike", "round_time"),
    ),
    "e3cs": Evidence(
        "clients drop out, perhaps adversarially, and all you know is which clients replied",
        Trial("unreliable", "completed"),
        Trial("alike", "completed"),
    ),
    "power-of-choice": Evidence(
        "label skew is strong and clients can report their loss on the current model",
        Trial("useful", "utility"),
        Trial("alike", "utility"),
    ),
    "ucb-cs": Evidence(
        "power-of-choice would suit, but not its extra messages: it uses discounted losses of past rounds",
        Trial("useful", "utility"),
        Trial("alike", "utility"),
    ),
    "fedcs": Evidence(
        "durations are known from a profile and as many clients as possible should fit a deadline",
        Trial("profiled", "round_time"),
        Trial("alike", "round_time"),
    ),
    "tifl": Evidence(
        "devices fall into speed classes; rounds mix clients of one class only",
        Trial("profiled", "round_time"),
        Trial("alike", "round_time"),
    ),
    "afl": Evidence(
        "label skew is strong and a soft preference for high loss is enough",
        Trial("useful", "utility"),
        Trial("alike", "utility"),
    ),
    "fedsuv": Evidence(
        "device features are known, many clients miss the deadline, and utility depends on features",
        Trial("useful-are-fast", "hypervolume_regret"),
        Trial("alike", "hypervolume_regret"),
    ),
    "cu-cs": Evidence(
        "device features show which clients finish in time and more data is simply better",
        Trial("unreliable", "completed"),
        Trial("alike", "completed"),
    ),
    "pisces": Evidence(
        "rounds are asynchronous, losses show which clients are worth selecting, and some clients may be corrupted",
        Trial("useful", "utility"),
        Trial("alike", "utility"),
    ),
    "oort": Evidence(
        "thousands of clients differ in both loss and speed: the usual first choice at scale",
        Trial("useful-are-fast", "utility_per_second"),
        Trial("alike", "utility_per_second"),
    ),
    "refl": Evidence(
        "clients come and go by the hour, and those that are rarely online must take part",
        Trial("diurnal", "rare"),
        Trial("slow-minority", "rare"),
    ),
    "safa": Evidence(
        "every client may train all the time and the server takes what arrives first",
        Trial("uneven", "round_time"),
        Trial("uneven", "completed"),
    ),
    "fedcor": Evidence(
        "there are hundreds of clients, data are skewed, and all clients can report their loss now and then",
        Trial("kinds", "update_error"),
        Trial("one-kind", "model_loss"),
    ),
    "clustered": Evidence(
        "sizes are uneven, the expected aggregate must be that of all clients, and nothing else is known of them",
        Trial("kinds", "update_error"),
        Trial("one-kind", "model_loss"),
    ),
    "divfl": Evidence(
        "updates of single clients may be seen, and the aggregate should be as if all had taken part",
        Trial("kinds", "update_error"),
        Trial("one-kind", "model_loss"),
    ),
    "haccs": Evidence(
        "clients may reveal their label counts, and rounds should be short but include all kinds of clients",
        Trial("kinds", "round_time"),
        Trial("one-kind", "round_time"),
    ),
    "fedlecc": Evidence(
        "clients may reveal their label counts, and a round should include several kinds of clients",
        Trial("kinds", "update_error"),
        Trial("kinds", "model_loss"),
    ),
    "eafl": Evidence(
        "clients run on batteries, report their charge, and should not run out of power",
        Trial("batteries", "dropped"),
        Trial("long-lived-batteries", "dropped"),
    ),
    "optimal-sampling": Evidence(
        "updates differ a lot in length, and the expected aggregate must be that of all clients",
        Trial("kinds", "update_error"),
        Trial("one-kind", "model_loss"),
    ),
    "greedyfed": Evidence(
        "there are few rounds, the server has validation data, and some clients contribute much more than others",
        Trial("useful", "utility"),
        Trial("alike", "utility"),
    ),
    "pyramidfl": Evidence(
        "Oort would suit, and fast clients could do several times the work of slow ones while the round waits",
        Trial("useful-are-fast", "utility_per_second"),
        Trial("alike", "utility_per_second"),
    ),
}
"""Every registered selector except random, which is their baseline."""


def gather(
    selector: str, claim: Trial, rounds: int = 400, seeds: int = 10, jobs: int = 1, first_seed: int = 0
) -> Finding:
    """Run one claim: 100 clients, 10 a round, the same worlds for the selector and for random.

    >>> gather("cs-ucb", EVIDENCE["cs-ucb"].wins, rounds=100, seeds=3).better
    True
    """
    players = (selector, "random")
    settings = Tournament(players, claim.scenario, 100, 10, rounds, seeds=seeds, first_seed=first_seed)
    results = compare(settings, jobs)
    means = summarise(results, claim.quantity)
    return Finding(claim, means[selector], means["random"], paired_difference(results, claim.quantity, selector))
