"""Claims on the rules against each other: Figures 19 and 20."""

from __future__ import annotations

import numpy as np

from enlist._internal.statistics import Summary, bootstrap, share
from enlist._internal.typing import FloatArray
from enlist.studies.claims import (
    Claim,
    Verdict,
    alike,
    counted,
    greater,
    leads,
    no_worse,
    together,
)
from enlist.studies.mabfl.combinations import MATTERS
from enlist.studies.mabfl.further import BONUS, QUANTILE, TIES, again, again_by_mean
from enlist.studies.mabfl.keys import (
    ALL,
    BEST,
    EXPLORE,
    EXPLORE_BINARY,
    FINAL,
    SECOND,
    THRESHOLDS,
    UCB_BINARY,
    fixed,
    ucb,
)
from enlist.studies.mabfl.scores import contrast, peaks, rounds_to, shares
from enlist.studies.mabfl.tuning import SLIGHT
from enlist.studies.results import Results

CONTINUOUS = ucb(0.05, 0.75)


def _final(results: Results) -> dict[str, FloatArray]:
    return dict(zip(FINAL, peaks(results, list(FINAL.values())), strict=True))


def _lead(found: dict[str, FloatArray], name: str, sign: float = 1.0) -> Verdict:
    means = {other: float(sign * values.mean()) for other, values in found.items()}
    rivals = {other: contrast(sign * found[name], sign * values) for other, values in found.items() if other != name}
    return leads(name, means, rivals, SLIGHT)


def _explore_best(results: Results) -> Verdict:
    """Its twin with binary rewards is no rival: it is Extreme Explore, too."""
    found = {name: values for name, values in _final(results).items() if name != "Extreme Explore, binary"}
    return _lead(found, "Extreme Explore")


def _thompson_worst(results: Results) -> Verdict:
    verdict = _lead(_final(results), "Thompson", sign=-1.0)
    why = verdict.why.replace("better", "worse")
    return verdict._replace(ours=f"from the bottom: {verdict.ours}", why=f"from the bottom, {why}")


def _similar(results: Results) -> Verdict:
    rows = np.array([values for name, values in _final(results).items() if name != "Thompson"]).T
    return alike(bootstrap(lambda chosen: float(np.ptp(chosen.mean(axis=0))), rows), 0.02)


def _binary_ucb(results: Results) -> Verdict:
    return no_worse(results.difference(UCB_BINARY, CONTINUOUS, "peak"), SLIGHT)


def _continuous_explore(results: Results) -> Verdict:
    binary = [f"grid/explore-binary-t{threshold:g}" for threshold in THRESHOLDS]
    values = peaks(results, [EXPLORE, *binary])
    return greater(contrast(values[0], values[1:].mean(axis=0)), SLIGHT)


def _over_fedavg(results: Results) -> Verdict:
    return together(
        {name: greater(results.difference(key, fixed(ALL), "peak"), MATTERS) for name, key in FINAL.items()}
    )


def _binary_slower(results: Results) -> Verdict:
    pairs = {"UCB": (UCB_BINARY, CONTINUOUS), "Extreme Explore": (EXPLORE_BINARY, EXPLORE)}
    verdicts = {}
    for name, keys in pairs.items():
        binary, continuous = results.paired(keys, "validation")
        levels = np.minimum(binary.max(axis=1), continuous.max(axis=1)) - 0.01
        verdicts[name] = greater(contrast(rounds_to(binary, levels), rounds_to(continuous, levels)), 1.0, digits=1)
    return together(verdicts)


def _tries_second(results: Results) -> Verdict:
    rounds = [int(np.sum(adopted == SECOND)) for adopted in results[UCB_BINARY].each("adopted")]
    verdict = counted(share(sum(count >= 2 for count in rounds), len(rounds)), 0.9, "of experiments")
    return verdict._replace(ours=f"{verdict.ours}; {np.mean(rounds):.1f} rounds on average")


def _chooses_best(results: Results) -> Verdict:
    return counted(Summary.of(shares(results, EXPLORE, BEST).tolist()), 0.9, "of rounds")


def _mixing(results: Results) -> Verdict:
    return greater(results.difference(UCB_BINARY, fixed(BEST), "peak"), SLIGHT)


def _soon(results: Results) -> Verdict:
    right = []
    for outcome in results[EXPLORE].outcomes.values():
        at = min(3, len(outcome["estimates"])) - 1
        right.append(outcome["codes"][int(np.argmax(outcome["estimates"][at]))] == BEST)
    return counted(share(sum(right), len(right)), 0.8, "of experiments")


def _named(results: Results) -> Verdict:
    verdicts = {}
    for name, key in FINAL.items():
        codes = results[key].each("code")
        verdicts[name] = counted(share(sum(code == BEST for code in codes), len(codes)), 0.8)
    return together(verdicts)


_FINAL_KEYS = list(FINAL.values())

RULES = (
    Claim(
        "explore-best",
        "Extreme Explore is the best rule",
        "Of all rules with their best settings, Extreme Explore performs best, as it sees the most.",
        "section 8.5, Figure 19",
        "among the two best",
        f"highest mean of the highest test AUC, lead over the next certain; not: another is better by {SLIGHT}",
        _explore_best,
        again_by_mean(_FINAL_KEYS, _explore_best),
    ),
    Claim(
        "thompson-worst",
        "Thompson sampling is the worst rule",
        "Of all rules with their best settings, (discounted) Thompson sampling performs worst.",
        "sections 8.5 and 9, Figure 19",
        "worst",
        f"lowest mean of the highest test AUC, distance certain; not: another is worse by {SLIGHT}",
        _thompson_worst,
        QUANTILE,
    ),
    Claim(
        "binary-ucb",
        "Binary UCB is at least as good as continuous UCB",
        "UCB with binary rewards performs, surprisingly, better than with continuous ones.",
        "section 8.5, Figure 19",
        "better",
        f"highest test AUC, binary − continuous: interval above −{SLIGHT}",
        _binary_ucb,
        BONUS,
    ),
    Claim(
        "continuous-explore",
        "Elsewhere continuous rewards are better",
        "Continuous rewards are mostly better than binary ones; here for Extreme Explore, over the three thresholds.",
        "section 9",
        "mostly better",
        f"highest test AUC, continuous − mean of binary: interval above 0, mean at least {SLIGHT}",
        _continuous_explore,
        TIES,
    ),
    Claim(
        "rules-similar",
        "Apart from Thompson sampling, rules are similar",
        "Most rules perform very similarly.",
        "section 9, Figure 19",
        "very similar",
        "range of the means of the highest test AUC, without Thompson sampling: interval within ± 0.02",
        _similar,
        again_by_mean(_FINAL_KEYS, _similar),
    ),
    Claim(
        "rules-over-fedavg",
        "Every rule beats federated averaging",
        "All rules reach higher performances than federated averaging.",
        "Figure 19",
        "all above 0.63",
        f"highest test AUC, rule − FedAvg: interval above 0 and mean at least {MATTERS}, for every rule",
        _over_fedavg,
        again_by_mean([*_FINAL_KEYS, fixed(ALL)], _over_fedavg),
    ),
    Claim(
        "binary-slower",
        "Binary rewards need more rounds",
        "Binary rewards seem to make training take more time.",
        "Figure 19",
        "more time",
        "rounds until within 0.01 of the lower of both peaks, binary − continuous: interval above 0, mean at least 1",
        _binary_slower,
        again([UCB_BINARY, CONTINUOUS, EXPLORE_BINARY, EXPLORE], _binary_slower),
    ),
    Claim(
        "tries-second",
        "Binary UCB plays 1100 for a while in every experiment",
        "UCB with binary rewards plays the second-best pair for some rounds in all experiments.",
        "Figure 20",
        "10 of 10",
        "share of experiments with at least two rounds of 1100: at least 0.9",
        _tries_second,
        BONUS,
    ),
    Claim(
        "chooses-best",
        "Extreme Explore keeps 0110 in over 90 % of rounds",
        "Extreme Explore chooses the best combination nearly always.",
        "section 8.5",
        "over 90 %",
        "mean share of rounds: at least 0.9",
        _chooses_best,
        again([EXPLORE], _chooses_best),
    ),
    Claim(
        "mixing-helps",
        "A while with another pair helps",
        "Binary UCB reaches very high performances although it plays 1100 for a while; other combinations may help out "
        "of local minima.",
        "section 8.5, Figure 20",
        "beneficial",
        f"highest test AUC, binary UCB − 0110 fixed: interval above 0, mean at least {SLIGHT}",
        _mixing,
        again_by_mean([UCB_BINARY, fixed(BEST)], _mixing),
    ),
    Claim(
        "soon-clear",
        "The best pair is clear within the first rounds",
        "Within the first few rounds one can already see which combination is the best.",
        "section 9",
        "first few rounds",
        "share of Extreme Explore's experiments whose highest estimate after round 3 is 0110: at least 0.8",
        _soon,
        again([EXPLORE], _soon),
    ),
    Claim(
        "right-pair-named",
        "In the end every rule names the best pair",
        "The rule learns which combination helps the target the most.",
        "sections 8.1 and 8.5",
        "yes",
        "share of experiments that name 0110: at least 0.8, for every rule",
        _named,
        again(_FINAL_KEYS, _named),
    ),
)
"""Claims on rules."""
