"""For each claim, what may explain that it did not come out as said, and the experiment that tells."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np

from enlist.runs.printing import percent
from enlist.studies.claims import Further, shown
from enlist.studies.darts import plan, rules, scores
from enlist.studies.darts.profile_rules import LARGE, SEVERAL, SMALL, extremes
from enlist.studies.darts.profiles import pooled
from enlist.studies.darts.rules import in_points, times
from enlist.studies.darts.settings import BATCH, BONUSES, DEFAULT, DEFAULT_BONUS, INITIAL, METHODS, PRINTED, RANDOM, K
from enlist.studies.results import Results
from enlist.typing import FloatArray

ROTATION, AGAIN, OORT, NOISY = "further/rotation", "further/random-again", "further/oort", "further/noisy/"
LEAD = {1: 12.0, 20: 11.67}
"""Points by which the report's UCB leads at a round."""


def draws(results: Results) -> str:
    """What the draws of many populations are like, criterion by criterion.

    >>> from enlist.studies.darts.example import example_results
    >>> draws(example_results()).startswith("in 6 more populations 11.0 clients on average have a single class")
    True
    """
    found = [extremes(outcome) for outcome in results["further/data"].outcomes.values()]
    pure, least, most = np.array(found).T
    counts = [outcome["counts"] for outcome in results["further/data"].outcomes.values()]
    dominance = np.mean([(each.max(axis=1) / each.sum(axis=1)).mean() for each in counts])
    several, small, large = (percent(met.mean()) for met in (pure >= SEVERAL, least < SMALL, most > LARGE))
    return (
        f"in {len(found)} more populations {pure.mean():.1f} clients on average have a single class, {SEVERAL} or more "
        f"of them in {several}; the smallest client is below 2 % of all samples in {small}, the largest above 14 % in "
        f"{large}. A client's most frequent class makes up {percent(dominance)} of its samples on average."
    )


def per_sample(results: Results) -> str:
    """What a sample costs, rather than a mini-batch.

    >>> from enlist.studies.darts.example import example_results
    >>> per_sample(example_results()).startswith("from batch size 8 to 32 ")
    True
    """
    rows = pooled(list(results["profile"].outcomes.values())).rows
    first, last = rows[0], rows[-1]
    least, most = (percent(row.per_batch_std / row.per_batch) for row in (first, last))
    return (
        f"from batch size {first.batch} to {last.batch} a mini-batch goes from {1e3 * first.per_batch:.2f} to "
        f"{1e3 * last.per_batch:.2f} ms, while a sample goes from {1e6 * first.per_sample:.0f} to "
        f"{1e6 * last.per_sample:.0f} µs; the standard deviation goes from {least} to {most} of the mean."
    )


def linear_memory(results: Results) -> str:
    """Memory as a straight line over the batch size.

    >>> from enlist.studies.darts.example import example_results
    >>> "per further sample" in linear_memory(example_results())
    True
    """
    rows = pooled(list(results["profile"].outcomes.values())).rows
    steps = [
        f"{(right.memory - left.memory) / (right.batch - left.batch) / 1e3:.1f} ({left.batch} to {right.batch})"
        for left, right in itertools.pairwise(rows)
    ]
    doubling = (rows[-1].memory - rows[-2].memory) / (rows[1].memory - rows[0].memory)
    return (
        f"a step takes so many kB more per further sample: {', '.join(steps)}. Memory grows in proportion, or less, "
        "because small clients do not fill large mini-batches; as batch sizes double from tick to tick of the picture, "
        f"its last step is {doubling:.1f} times the first."
    )


def weightings(results: Results) -> str:
    """Which batch sizes the rule takes if time, memory and accuracy weigh otherwise.

    >>> from enlist.studies.darts.example import example_results
    >>> "of 66 weightings" in weightings(example_results())
    True
    """
    from enlist.simulation.profile import choose

    rows = pooled(list(results["profile"].outcomes.values())).rows
    tenths = [(a, b, 10 - a - b) for a in range(11) for b in range(11 - a)]
    taken = Counter(choose(rows, weights) for weights in tenths)
    words = ", ".join(f"{size} in {count}" for size, count in sorted(taken.items()))
    finals = {BATCH: RANDOM, **{int(key.split("/")[1]): key for key in results.keys("batch/")}}
    learned = ", ".join(
        f"{size}: {100 * scores.mean(results, key, scores.final).mean:.1f}" for size, key in sorted(finals.items())
    )
    return (
        f"of {len(tenths)} weightings in steps of a tenth, batch size {words}. Random selection ends with these "
        f"accuracies in per cent: {learned}."
    )


def rotating(results: Results) -> str:
    """Whether the printed algorithm is more than a rotation.

    >>> from enlist.studies.darts.example import example_results
    >>> rotating(example_results()).endswith("1.33 times as often as the client it likes least.")
    True
    """
    most = [scores.picks(outcome) for outcome in results[PRINTED].outcomes.values()]
    ratio = np.mean([counts.max() / max(counts.min(), 1) for counts in most])
    accuracy = in_points(scores.gap(results, PRINTED, ROTATION, scores.final), rules.POINTS).ours
    rounds = times(scores.saving(results, ROTATION, "rounds"), rules.SPEED).ours
    jumps = in_points(scores.gap(results, RANDOM, ROTATION, scores.jump), rules.STEADY).ours
    return (
        f"to the target random takes {rounds} the rounds of a rotation, in which rewards have no say, and it jumps by "
        f"{jumps} more; the printed algorithm ends {accuracy} from the rotation, and asks its favourite {ratio:.2f} "
        "times as often as the client it likes least."
    )


def dear_clients(results: Results) -> str:
    """Whether a selector that is told what clients cost does better, and whom UCB asks.

    >>> from enlist.studies.darts.example import example_results
    >>> "of Oort" in dear_clients(example_results())
    True
    """
    seconds = times(scores.saving(results, OORT, "seconds"), rules.SPEED).ours
    samples = times(scores.saving(results, OORT, "samples"), rules.SPEED).ours
    own = {key: _per_round(results, key) for key in (RANDOM, PRINTED, DEFAULT)}
    return (
        f"to the same target random takes {seconds} the virtual time of Oort, which is told losses and times, and "
        f"{samples} its samples. A round of random trains on {own[RANDOM]:,.0f} samples, one of UCB as printed on "
        f"{own[PRINTED]:,.0f}, one of our default on {own[DEFAULT]:,.0f}."
    )


def wrong_labels(results: Results) -> str:
    """What UCB does where some clients are worse than others, whatever was asked before.

    >>> from enlist.studies.darts.example import example_results
    >>> wrong_labels(example_results()).startswith("with a third of the clients holding wrong labels only, UCB as pri")
    True
    """
    names = {"UCB as printed": "printed", "our default": "default"}
    found = []
    for label, name in names.items():
        shares = shown(scores.mean(results, f"{NOISY}{name}", scores.clean_share), 2)
        lead = in_points(scores.gap(results, f"{NOISY}{name}", f"{NOISY}random", scores.final), rules.POINTS).ours
        found.append(f"{label} gives {shares} of its picks to the others and leads random by {lead}")
    base = shown(scores.mean(results, f"{NOISY}random", scores.clean_share), 2)
    return f"with a third of the clients holding wrong labels only, {'; '.join(found)}; random gives them {base}."


def luck(results: Results) -> str:
    """How far two runs of random selection are apart, and what accuracies of single clients look like.

    >>> from enlist.studies.darts.example import example_results
    >>> "after rounds 1, 10, 20 those who took part have 90 %, 90 %, 90 % there" in luck(example_results())
    True
    """
    rounds = len(results[RANDOM].each("accuracy")[0])
    parts = []
    for number, lead in LEAD.items():
        at = scores.accuracy_at(min(number, rounds))
        gaps = np.array([100 * (at(one) - at(other)) for one, other in scores.pairs(results, AGAIN, RANDOM)])
        parts.append(
            f"at round {min(number, rounds)} by {np.abs(gaps).mean():.1f} points on average (by the report's {lead:g} "
            f"or more in {percent((np.abs(gaps) >= lead).mean())} of the populations)"
        )
    numbers = sorted({min(number, rounds) for number in (1, 10, 20)})
    world, local = (
        ", ".join(f"{100 * scores.mean(results, RANDOM, score(number)).mean:.0f} %" for number in numbers)
        for score in (scores.accuracy_at, scores.local_at)
    )
    return (
        f"the first {INITIAL} rounds of UCB are random too, here with the same draws. With other draws, random "
        f"selection differs from itself {', and '.join(parts)}. The report's 89.81 % and 77.81 % after one round may "
        "be accuracies of clients on their own samples: after rounds "
        f"{', '.join(map(str, numbers))} those who took part have {local} there, and the common model has {world} on "
        "the test set."
    )


def cost_parts(results: Results) -> str:
    """Which part of the server's work costs what, and with how many clients.

    >>> from enlist.studies.darts.example import example_results
    >>> cost_parts(example_results()).startswith("with 12 clients UCB takes ")
    True
    """
    group = results["server"]
    counts = group.settings["clients"]
    taken = {
        key: np.mean([outcome["choosing"][METHODS[key]] for outcome in group.outcomes.values()], axis=0)
        for key in (RANDOM, PRINTED)
    }
    words = "; ".join(
        f"with {count:,} clients UCB takes {taken[PRINTED][at]:.2f} ms to choose and learn, "
        f"random {taken[RANDOM][at]:.2f}"
        for at, count in enumerate(counts)
    )
    return f"{words}; the evaluation that gives the reward takes {group.summary('evaluation').mean:.2f} ms."


def by_width(results: Results) -> str:
    """Evenness and accuracy for several widths of the bonus.

    >>> from enlist.studies.darts.example import example_results
    >>> by_width(example_results()).count("Jain")
    5
    """
    keys = {f"c = {c:g}": DEFAULT if c == DEFAULT_BONUS else f"bonus/c={c:g}" for c in BONUSES}
    keys["as printed (c = 1.41, rewards not scaled)"] = PRINTED
    words = [
        f"{label}: Jain {scores.mean(results, key, scores.evenness).mean:.2f}, "
        f"{100 * scores.mean(results, key, scores.final).mean:.1f} %"
        for label, key in keys.items()
    ]
    return f"evenness and final accuracy by the width of the bonus: {'; '.join(words)}."


def _per_round(results: Results, key: str) -> float:
    samples: list[FloatArray] = [
        outcome["samples"] * outcome["selected"] / max(outcome["selected"].sum() / K, 1)
        for outcome in results[key].outcomes.values()
    ]
    return float(np.mean([row.sum() for row in samples]))


MORE_POPULATIONS = Further(
    "most clients keep a few samples of other classes, and a single class is luck", plan.populations, draws
)
PER_SAMPLE = Further("what is constant per mini-batch hides what grows with it", lambda scale: (), per_sample)
LINEAR = Further("memory grows in proportion to the samples of a mini-batch", lambda scale: (), linear_memory)
WEIGHTS = Further("the choice hangs on what time, memory and accuracy weigh", lambda scale: (), weightings)
A_ROTATION = Further("the printed bonus drowns the rewards and leaves a rotation", plan.rotation, rotating)
BLIND_TO_COST = Further("the reward does not know what a client costs", plan.oort, dear_clients)
NOBODY_BETTER = Further("under label skew no client is better than others by itself", plan.noisy, wrong_labels)
ONE_RUN = Further("a single run decides nothing, and these are accuracies of clients", plan.random_again, luck)
PARTS = Further("choosing among few clients costs next to nothing", lambda scale: (), cost_parts)
TOO_WIDE = Further("the printed bonus is so wide that everybody is asked in turn", plan.widths, by_width)
