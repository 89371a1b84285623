"""Claims on what the thesis argues about beyond its grid: delays, costs, other rewards and weights, poison."""

from __future__ import annotations

import numpy as np

from enlist._internal.statistics import share
from enlist.studies.claims import UNTESTABLE, Claim, Further, Verdict, alike, counted, greater, leads, together
from enlist.studies.mabfl.combinations import MATTERS
from enlist.studies.mabfl.further import POISON, WEIGHTS, again, again_by_mean
from enlist.studies.mabfl.keys import BEST, EXPLORE, fixed
from enlist.studies.mabfl.rules import CONTINUOUS
from enlist.studies.mabfl.scores import contrast, rounds_to
from enlist.studies.mabfl.tuning import SLIGHT
from enlist.studies.results import Results


def _retraining(results: Results) -> Verdict:
    return greater(results.difference(fixed(BEST), CONTINUOUS, "peak"), SLIGHT)


def _cheaper(results: Results) -> Verdict:
    keys = [CONTINUOUS, "more/explore-delayed", fixed(BEST)]
    shared = results.common(keys)
    levels = shared[fixed(BEST)].column("peak") - 0.02
    costs, reached = [], []
    for key in keys[:2]:
        curves, messages = shared[key].column("test"), shared[key].column("messages")
        rounds = rounds_to(curves, levels)
        reached.append(int((rounds <= curves.shape[1]).sum()))
        last = np.minimum(rounds, curves.shape[1]).astype(int) - 1  # who never gets there pays for all rounds
        costs.append(messages[np.arange(len(last)), last])
    verdict = greater(contrast(*costs), 6.0, digits=0)
    level = f"the level is reached in {reached[0]} and {reached[1]} of {len(levels)}"
    return verdict._replace(ours=f"{verdict.ours} messages; {level}")


def _delay(results: Results) -> Verdict:
    return alike(results.difference("more/explore-delayed", EXPLORE, "peak"), MATTERS)


def _relative(results: Results) -> Verdict:
    return greater(results.difference(CONTINUOUS, "more/ucb-relative", "peak"), SLIGHT)


def _previous(results: Results) -> Verdict:
    return greater(results.difference(CONTINUOUS, "more/ucb-previous", "peak"), SLIGHT)


def _seventy(results: Results) -> Verdict:
    return greater(results.difference("more/pair-70-30", fixed(BEST), "peak"), SLIGHT)


def _poison(results: Results) -> Verdict:
    verdicts = {}
    for name in ("ucb", "explore"):
        codes = results[f"more/poison-{name}"].each("code")
        verdicts[name] = counted(share(sum(code[2] == "0" for code in codes), len(codes)), 0.9, "without worker 3")
    return together(verdicts)


def _symmetry(results: Results) -> Verdict:
    keys = {code: f"more/target-3-{code}" for code in (BEST, "1010", "0011")}
    means = {code: results[key].summary("peak").mean for code, key in keys.items()}
    rivals = {code: results.difference(keys[BEST], keys[code], "peak") for code in keys if code != BEST}
    return leads(BEST, means, rivals, MATTERS)


def _other_methods(results: Results) -> Verdict:
    return Verdict(UNTESTABLE, "–", "personalisation layers and meta-learning are not implemented here")


_NOTHING = Further("none", lambda scale: (), lambda results: "none.")

IDEAS = (
    Claim(
        "retraining",
        "Training anew with the best pair fixed is better",
        "If the best combination is best in all rounds, a model trained with it alone should perform better.",
        "section 8.1",
        "it should",
        f"highest test AUC, 0110 fixed − UCB: interval above 0, mean at least {SLIGHT}",
        _retraining,
        again_by_mean([fixed(BEST), CONTINUOUS], _retraining),
    ),
    Claim(
        "explore-cheaper",
        "Extreme Explore can be cheaper in the end",
        "Extreme Explore needs more messages per round, but is likely to reach a good model after fewer rounds.",
        "section 8.3.2",
        "likely",
        "messages until within 0.02 of the peak of 0110 fixed, UCB − delayed Extreme Explore: interval above 0, mean "
        "at least 6 (one round of a pair)",
        _cheaper,
        again(["more/explore-delayed", CONTINUOUS, fixed(BEST)], _cheaper),
    ),
    Claim(
        "delay-harmless",
        "Delayed rewards do little harm",
        "Choosing by the estimates of the round before should not be much of a problem.",
        "section 8.3.2",
        "not much of a problem",
        f"highest test AUC, delayed − not delayed: interval within ± {MATTERS}",
        _delay,
        again_by_mean(["more/explore-delayed", EXPLORE], _delay),
    ),
    Claim(
        "relative-worse",
        "Relative gains are a worse reward",
        "Dividing increases by the score of the target's own model gives worse results, as it favours early rounds.",
        "section 8.4",
        "worse results",
        f"highest test AUC of UCB, increments − relative gains: interval above 0, mean at least {SLIGHT}",
        _relative,
        again_by_mean([CONTINUOUS, "more/ucb-relative"], _relative),
    ),
    Claim(
        "previous-worse",
        "Rewards against the last round are worse",
        "How increases are measured is of utmost importance: against the target's own model of the same round.",
        "section 9",
        "of utmost importance",
        f"highest test AUC of UCB, against local − against the round before: interval above 0, mean at least {SLIGHT}",
        _previous,
        again_by_mean([CONTINUOUS, "more/ucb-previous"], _previous),
    ),
    Claim(
        "target-weight",
        "A weight of 70 % for the target helps",
        "It might be a good idea to give the target's own model a larger weight, such as 70 %.",
        "section 10 (not tried)",
        "might",
        f"highest test AUC of 0110, 70/30 − equal weights: interval above 0, mean at least {SLIGHT}",
        _seventy,
        WEIGHTS,
    ),
    Claim(
        "poison-avoided",
        "Poisonous workers are avoided",
        "A rule that finds the best combination also leaves out poisonous workers; here the labels of worker 3, else "
        "the best partner, are flipped.",
        "abstract, section 2 (not shown)",
        "avoided",
        "share of experiments whose combination leaves worker 3 out: at least 0.9, for UCB and Extreme Explore",
        _poison,
        POISON,
    ),
    Claim(
        "symmetry",
        "What helps a helps b",
        "If a with b is best for a, it may be good for b too: for target 3, the pair with worker 2.",
        "section 10 (not tried)",
        "may be",
        f"target 3: highest mean of 0110 among its pairs, lead certain; not: another is better by {MATTERS}",
        _symmetry,
        again([f"more/target-3-{code}" for code in (BEST, "1010", "0011")], _symmetry),
    ),
    Claim(
        "other-methods",
        "Cheaper than personalising all workers at once",
        "Methods that personalise for all workers at once need more messages, and do worse with little data.",
        "section 9 (not shown)",
        "–",
        "needs other methods of personalisation",
        _other_methods,
        _NOTHING,
    ),
)
"""Claims beyond the grid."""
