"""Claims on the settings of the rules: the grid of Table 3, Figures 16 to 18 and 23 to 28."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from enlist._internal.statistics import Summary, bootstrap, share
from enlist._internal.typing import FloatArray
from enlist.studies.claims import Claim, Verdict, alike, counted, greater, leads, together
from enlist.studies.mabfl.further import OPTIMISM, QUANTILE, SLOW, again, again_by_mean
from enlist.studies.mabfl.keys import BONUSES, DISCOUNTS, EPSILONS, PAIRS, STEPS, THRESHOLDS, greedy, thompson, ucb
from enlist.studies.mabfl.scores import contrast, gaps, oscillation, peaks
from enlist.studies.results import Results

SLIGHT = 0.005
"""A difference in AUC between two settings of a rule that is worth tuning for."""
RECENT = tuple(step for step in STEPS if step is not None)
GREEDY = [greedy(epsilon, step) for epsilon in EPSILONS for step in STEPS]
UCB = [ucb(c, step) for c in BONUSES for step in STEPS]
THOMPSON = [thompson(threshold, gamma) for threshold in THRESHOLDS for gamma in DISCOUNTS]


def _mean(results: Results, keys: Sequence[str]) -> FloatArray:
    """(seeds,) highest test score, averaged over settings."""
    found: FloatArray = peaks(results, keys).mean(axis=0)
    return found


def _gap(results: Results, keys: Sequence[str]) -> FloatArray:
    """(seeds,) lead of the best pair in the estimates, averaged over settings."""
    found: FloatArray = np.mean([gaps(results, key) for key in keys], axis=0)
    return found


def _move(results: Results, keys: Sequence[str]) -> FloatArray:
    """(seeds,) change of the test score per round, averaged over settings."""
    found: FloatArray = np.mean([oscillation(results[key].column("test")) for key in keys], axis=0)
    return found


def _best_setting(results: Results, named: str, keys: dict[str, str]) -> Verdict:
    found = dict(zip(keys, peaks(results, list(keys.values())), strict=True))
    means = {name: float(values.mean()) for name, values in found.items()}
    return leads(
        named, means, {name: contrast(found[named], own) for name, own in found.items() if name != named}, SLIGHT
    )


def _greedy_recent(results: Results) -> Verdict:
    return greater(results.difference(greedy(0.2, 0.75), greedy(0.2, None), "peak"), SLIGHT)


def _greedy_best(results: Results) -> Verdict:
    return _best_setting(
        results,
        "ε=0.2 α=0.75",
        {f"ε={e:g} {_name(step)}": greedy(e, step) for e in EPSILONS for step in STEPS},
    )


def _ucb_best(results: Results) -> Verdict:
    return _best_setting(
        results, "c=0.05 α=0.75", {f"c={c:g} {_name(step)}": ucb(c, step) for c in BONUSES for step in STEPS}
    )


def _thompson_best(results: Results) -> Verdict:
    return _best_setting(
        results,
        "threshold=0.025 γ=0.75",
        {f"threshold={t:g} γ={g:g}": thompson(t, g) for t in THRESHOLDS for g in DISCOUNTS},
    )


def _recency_best(results: Results) -> Verdict:
    shared = results.common([*GREEDY, *UCB])
    found = {
        _name(step): _mean(shared, [*(greedy(e, step) for e in EPSILONS), *(ucb(c, step) for c in BONUSES)])
        for step in STEPS
    }
    means = {name: float(values.mean()) for name, values in found.items()}
    rivals = {name: contrast(found["α=0.75"], values) for name, values in found.items() if name != "α=0.75"}
    return leads("α=0.75", means, rivals, SLIGHT)


def _little_effect(results: Results) -> Verdict:
    def effect(key: Callable[[float, float | None], str], values: Sequence[float]) -> Summary:
        recent = [key(value, step) for value in values for step in RECENT]
        plain = [key(value, None) for value in values]
        shared = results.common([*recent, *plain])
        return contrast(_mean(shared, recent), _mean(shared, plain))

    return together(
        {
            "ε-greedy, ε=0.1 and 0.5": alike(effect(greedy, (0.1, 0.5)), 0.01),
            "UCB, c=0.01 and 0.1": alike(effect(ucb, (0.01, 0.1)), 0.01),
        }
    )


def _stationary_spread(results: Results) -> Verdict:
    """Spread of peaks around the mean of all settings of the same seed, because data sets differ by seed."""
    shared = results.common(GREEDY)
    columns = np.array([peaks(shared, [greedy(e, step) for e in EPSILONS]) for step in (None, *RECENT)])

    def ratio(values: FloatArray) -> float:
        centred = values - values.mean(axis=(1, 2), keepdims=True)
        spreads = centred.std(axis=(0, 2)) + 1e-9
        return float(np.log(spreads[0]) - np.log(spreads[1:].mean()))

    return greater(bootstrap(ratio, columns.transpose(2, 0, 1)), 0.1, digits=2)


def _ranges(results: Results, first: Sequence[Sequence[str]], second: Sequence[Sequence[str]]) -> Summary:
    """Range of means over one parameter − over another, each averaged over the other one."""
    keys = [key for group in first for key in group]
    values = dict(zip(keys, peaks(results, keys), strict=True))
    stacked = np.array([values[key] for key in keys]).T

    def spread(rows: FloatArray, groups: Sequence[Sequence[str]]) -> float:
        means = [rows[:, [keys.index(key) for key in group]].mean() for group in groups]
        return float(max(means) - min(means))

    return bootstrap(lambda rows: spread(rows, first) - spread(rows, second), stacked)


def _c_matters(results: Results) -> Verdict:
    by_c = [[ucb(c, step) for step in STEPS] for c in BONUSES]
    by_step = [[ucb(c, step) for c in BONUSES] for step in STEPS]
    return greater(_ranges(results, by_c, by_step), 0.002)


def _threshold_little(results: Results) -> Verdict:
    keys = [[thompson(threshold, gamma) for gamma in DISCOUNTS] for threshold in THRESHOLDS]
    shared = results.common(THOMPSON)
    means = np.array([_mean(shared, group) for group in keys]).T
    return alike(bootstrap(lambda rows: float(np.ptp(rows.mean(axis=0))), means), 0.01)


def _discount_blurs(results: Results) -> Verdict:
    shared = results.common(THOMPSON)
    plain = _gap(shared, [thompson(t, 1.0) for t in THRESHOLDS])
    blurred = _gap(shared, [thompson(t, g) for t in THRESHOLDS for g in (0.5, 0.75)])
    return greater(contrast(plain, blurred), 0.05)


def _high_threshold(results: Results) -> Verdict:
    shared = results.common(THOMPSON)
    high, low = (_gap(shared, [thompson(t, g) for g in DISCOUNTS]) for t in (0.05, 0.01))
    return greater(contrast(high, low), 0.05)


def _recency_shows(results: Results) -> Verdict:
    shared = results.common([*GREEDY, *UCB])
    high, low = (
        _gap(shared, [*(greedy(e, step) for e in EPSILONS), *(ucb(c, step) for c in BONUSES)]) for step in (0.75, 0.25)
    )
    return greater(contrast(high, low), SLIGHT)


def _more_exploring(results: Results) -> Verdict:
    shared = results.common([*GREEDY, *UCB])
    by_epsilon = (_move(shared, [greedy(epsilon, step) for step in STEPS]) for epsilon in (0.5, 0.1))
    by_bonus = (_move(shared, [ucb(c, step) for step in STEPS]) for c in (0.1, 0.01))
    return together(
        {
            "ε, 0.5 − 0.1": greater(contrast(*by_epsilon), 0.002, digits=4),
            "c, 0.1 − 0.01": greater(contrast(*by_bonus), 0.002, digits=4),
        }
    )


def _settles(results: Results) -> Verdict:
    curves = np.array(results.paired([ucb(0.01, step) for step in STEPS], "test"))
    moves = np.abs(np.diff(curves, axis=2)).mean(axis=0)
    early = min(4, moves.shape[1] // 2)
    return greater(contrast(moves[:, :early].mean(axis=1), moves[:, early:].mean(axis=1)), 0.002, digits=4)


def _calmer(results: Results, calm: Sequence[str], lively: Sequence[str]) -> Verdict:
    shared = results.common([*calm, *lively])
    return greater(contrast(_move(shared, lively), _move(shared, calm)), 0.001, digits=4)


def _plain_calmer(results: Results) -> Verdict:
    plain = [thompson(t, 1.0) for t in THRESHOLDS]
    return _calmer(results, plain, [thompson(t, g) for t in THRESHOLDS for g in (0.5, 0.75)])


def _small_calmer(results: Results) -> Verdict:
    return _calmer(results, *([greedy(e, step) for e in (0.1, 0.2)] for step in (0.25, 0.75)))


def _all_tried(results: Results) -> Verdict:
    tried = [len(set(map(str, adopted))) == len(PAIRS) for adopted in results[greedy(0.2, 0.75)].each("adopted")]
    return counted(share(sum(tried), len(tried)), 0.95, "of experiments")


def _name(step: float | None) -> str:
    return "stationary" if step is None else f"α={step:g}"


_LEADS = f"highest mean of the highest test AUC, lead over the next certain; not: another is better by {SLIGHT}"

TUNING = (
    Claim(
        "greedy-recency",
        "ε-greedy with ε = 0.2 gains from recency",
        "With ε = 0.2, assuming non-stationary rewards gives higher performances.",
        "Figure 16",
        "α = 0.75 above stationary",
        f"highest test AUC at ε = 0.2, α = 0.75 − stationary: interval above 0, mean at least {SLIGHT}",
        _greedy_recent,
        again_by_mean([greedy(0.2, 0.75), greedy(0.2, None)], _greedy_recent),
    ),
    Claim(
        "greedy-setting",
        "ε = 0.2 with α = 0.75 is ε-greedy's best setting",
        "Of the 12 settings of ε-greedy, ε = 0.2 with α = 0.75 reaches the highest performances.",
        "Figures 16, 19",
        "ε = 0.2, α = 0.75",
        _LEADS,
        _greedy_best,
        again_by_mean(GREEDY, _greedy_best),
    ),
    Claim(
        "ucb-setting",
        "c = 0.05 with α = 0.75 is UCB's best setting",
        "Of the 12 settings of UCB, c = 0.05 with α = 0.75 seems to be optimal.",
        "Figures 17, 19",
        "c = 0.05, α = 0.75",
        _LEADS,
        _ucb_best,
        again_by_mean(UCB, _ucb_best),
    ),
    Claim(
        "recency-best",
        "Recency 0.75 is best",
        "Over all settings of ε-greedy and UCB, estimates that give the latest reward a weight of 0.75 serve best.",
        "Figures 16, 17, 19",
        "α = 0.75",
        _LEADS,
        _recency_best,
        SLOW,
    ),
    Claim(
        "stationarity-little",
        "Otherwise stationarity does not matter",
        "Except for ε = 0.2 and somewhat for c = 0.05, it often makes no difference whether rewards are assumed "
        "stationary.",
        "section 8.5",
        "often no difference",
        "highest test AUC, mean over α − stationary: interval within ± 0.01, for ε-greedy and for UCB",
        _little_effect,
        SLOW,
    ),
    Claim(
        "stationary-spread",
        "Stationary estimates spread more (ε-greedy)",
        "When rewards are assumed stationary, best performances vary more between experiments.",
        "Figure 16",
        "larger boxes",
        "log ratio of standard deviations, stationary over recent: interval above 0, mean at least 0.1",
        _stationary_spread,
        again_by_mean(GREEDY, _stationary_spread),
    ),
    Claim(
        "c-over-alpha",
        "c matters more than α (UCB)",
        "The bonus has a stronger effect on the best performance than the recency weight.",
        "Figure 17",
        "c has the stronger effect",
        "range of means over c − over α: interval above 0, mean at least 0.002",
        _c_matters,
        again_by_mean(UCB, _c_matters),
    ),
    Claim(
        "thompson-setting",
        "γ = 0.75 with threshold 0.025 is Thompson's best setting",
        "Of the 9 settings of Thompson sampling, γ = 0.75 with a threshold of 0.025 has the highest median.",
        "Figures 18, 19",
        "γ = 0.75, threshold 0.025",
        _LEADS,
        _thompson_best,
        QUANTILE,
    ),
    Claim(
        "threshold-little",
        "The threshold matters little (Thompson)",
        "Box plots are rather similar for the three thresholds.",
        "Figure 18",
        "rather similar",
        "range of means over thresholds: interval within ± 0.01",
        _threshold_little,
        QUANTILE,
    ),
    Claim(
        "discount-blurs",
        "Discounting blurs the best combination (Thompson)",
        "Under discounted Thompson sampling the estimates hardly tell the best combination from the others.",
        "section 8.5, Figure 28",
        "hardly told apart",
        "estimate of 0110 − highest other, γ = 1 − γ below 1: interval above 0, mean at least 0.05",
        _discount_blurs,
        again(THOMPSON, _discount_blurs),
    ),
    Claim(
        "high-threshold",
        "A high threshold tells combinations apart (Thompson)",
        "With a threshold of 0.05 the best combination is easy to tell in the estimates.",
        "Figure 28",
        "0.05 is easy to tell",
        "estimate of 0110 − highest other, threshold 0.05 − 0.01: interval above 0, mean at least 0.05",
        _high_threshold,
        QUANTILE,
    ),
    Claim(
        "recency-shows",
        "α = 0.75 shows the best combination more clearly",
        "Estimates are all very close with α = 0.25 and the most distinguishable with 0.5 or 0.75.",
        "Figures 24, 26",
        "0.75 above 0.25",
        f"estimate of 0110 − highest other, α = 0.75 − 0.25: interval above 0, mean at least {SLIGHT}",
        _recency_shows,
        again([*GREEDY, *UCB], _recency_shows),
    ),
    Claim(
        "exploring-oscillates",
        "More exploration makes scores oscillate more",
        "With higher ε and with higher c, scores change more from round to round.",
        "Figures 23, 25",
        "more oscillation",
        "mean absolute change of the test AUC per round: interval above 0, mean at least 0.002, for ε and for c",
        _more_exploring,
        again([*GREEDY, *UCB], _more_exploring),
    ),
    Claim(
        "ucb-settles",
        "With c = 0.01 oscillation stops after 5 rounds",
        "UCB with the smallest bonus settles on one combination early.",
        "Figure 25",
        "stops after 5 rounds",
        "change per round, rounds 2 to 5 − later (c = 0.01): interval above 0, mean at least 0.002",
        _settles,
        again([ucb(0.01, step) for step in STEPS], _settles),
    ),
    Claim(
        "plain-calmer",
        "Plain Thompson sampling varies less than discounted",
        "γ = 1 seems to give less variance.",
        "Figure 27",
        "less variance",
        "change of the test AUC per round, γ below 1 − γ = 1: interval above 0, mean at least 0.001",
        _plain_calmer,
        again(THOMPSON, _plain_calmer),
    ),
    Claim(
        "small-alpha-calmer",
        "A small α gives less variance (ε-greedy)",
        "For ε = 0.1 and 0.2 variance shrinks as α becomes smaller.",
        "Figure 23",
        "less variance",
        "change of the test AUC per round, α = 0.75 − α = 0.25: interval above 0, mean at least 0.001",
        _small_calmer,
        again([greedy(e, step) for e in (0.1, 0.2) for step in (0.25, 0.75)], _small_calmer),
    ),
    Claim(
        "optimism-tries-all",
        "Initial values of 0.05 make a rule try every pair",
        "High initial values make sure that every combination is evaluated at least once.",
        "Figure 24",
        "each at least once",
        "share of ε-greedy's experiments (ε = 0.2, α = 0.75) in which every pair was played: at least 0.95",
        _all_tried,
        OPTIMISM,
    ),
)
"""Claims on the settings of rules."""
