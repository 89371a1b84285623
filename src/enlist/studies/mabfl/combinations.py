"""Claims on combinations held fixed: who helps, with how much data, and when to stop."""

from __future__ import annotations

import numpy as np

from enlist._internal.statistics import Summary
from enlist._internal.typing import FloatArray
from enlist.studies.claims import Claim, Verdict, greater, leads, no_worse, together
from enlist.studies.mabfl.further import CLOSER, LONGER, MORE_DATA, STRANGER, again
from enlist.studies.mabfl.keys import ALL, ALONE, BEST, CODES, SECOND, fixed
from enlist.studies.mabfl.scores import (
    contrast,
    increases,
    separations,
)
from enlist.studies.results import Results

MATTERS = 0.01
"""A difference in AUC between two models that is worth having."""


def _pays(results: Results) -> Verdict:
    rivals = {"FedAvg": fixed(ALL), "local only": fixed(ALONE)}
    return together(
        {name: greater(results.difference(fixed(BEST), key, "peak"), MATTERS) for name, key in rivals.items()}
    )


def _order(results: Results) -> Verdict:
    means = {code: results[fixed(code)].summary("peak").mean for code in CODES}
    gaps = {code: results.difference(fixed(BEST), fixed(code), "peak") for code in CODES if code != BEST}
    return leads(BEST, means, gaps, MATTERS)


def _second(results: Results) -> Verdict:
    rest = [code for code in CODES if code not in (BEST, SECOND)]
    means = {code: results[fixed(code)].summary("peak").mean for code in (SECOND, *rest)}
    return leads(
        SECOND, means, {code: results.difference(fixed(SECOND), fixed(code), "peak") for code in rest}, MATTERS
    )


def _sweep(results: Results) -> list[tuple[float, Summary, Summary]]:
    """Share of data -> lead of the best pair over the target alone, and over federated averaging."""
    shares = sorted({float(key.removeprefix("sweep/").rpartition("-")[0]) for key in results.keys("sweep/")})
    return [
        (
            share,
            results.difference(f"sweep/{share:g}-{BEST}", f"sweep/{share:g}-{ALONE}", "peak"),
            results.difference(f"sweep/{share:g}-{BEST}", f"sweep/{share:g}-{ALL}", "peak"),
        )
        for share in shares
    ]


def _more_data(results: Results) -> Verdict:
    share, alone, _ = _sweep(results)[-1]
    reverse = Summary(-alone.mean, -alone.high, -alone.low)
    verdict = no_worse(reverse, MATTERS)
    return verdict._replace(ours=f"target alone − best pair with {share:.0%} of the data: {verdict.ours}")


def _shrinks(results: Results) -> Verdict:
    first, last = (results.keys("sweep/")[0], results.keys("sweep/")[-1])
    small, large = (key.removeprefix("sweep/").rpartition("-")[0] for key in (first, last))
    keys = [f"sweep/{share}-{code}" for share in (small, large) for code in (BEST, ALONE)]
    pair, alone, late_pair, late_alone = results.paired(keys, "peak")
    return greater(contrast(pair - alone, late_pair - late_alone), MATTERS)


def _early(results: Results, code: str) -> FloatArray:
    found: FloatArray = increases(results, code, 6, "drawn")[:, :5].mean(axis=1)
    return found


def _late(results: Results, code: str) -> FloatArray:
    rises = increases(results, code, 6, "drawn")
    found: FloatArray = rises[:, min(10, rises.shape[1] // 2) :].mean(axis=1)
    return found


def _bad_start(results: Results) -> Verdict:
    early, late = _early(results, ALL), _late(results, ALL)
    return together(
        {
            "loss in rounds 1 to 5": greater(contrast(0 * early, early), 0.005),
            "gain from round 11 on": greater(contrast(late, 0 * late), 0.0),
        }
    )


def _good_start(results: Results) -> Verdict:
    early = _early(results, BEST)
    return greater(contrast(early, 0 * early), MATTERS)


def _moving(results: Results) -> Verdict:
    return greater(contrast(_early(results, BEST), _late(results, BEST)), MATTERS)


def _overfit(results: Results) -> Verdict:
    run = results[fixed(SECOND)]
    return greater(contrast(run.column("kept"), run.column("test")[:, -1]), MATTERS)


def _separable(results: Results) -> Verdict:
    found = separations(results, 6, "drawn")
    verdict = greater(contrast(found, np.full(len(found), 0.5)), 0.25, digits=2)
    return verdict._replace(ours=f"0.50 {verdict.ours}")


def _split(results: Results) -> Verdict:
    return together(
        {
            name: greater(results.difference(f"split/{BEST}", f"split/{code}", "peak"), MATTERS)
            for name, code in (("FedAvg", ALL), ("local only", ALONE))
        }
    )


_FIXED = [fixed(code) for code in CODES]

COMBINATIONS = (
    Claim(
        "personalisation-pays",
        "The best pair beats FedAvg and local-only",
        "With 1 % of the data to train on, the target and its best partner reach a better model for the target than "
        "federated averaging and than the target alone.",
        "section 9, Figure 8",
        "0.72 against 0.63 (FedAvg)",
        f"highest test AUC, paired over seeds: interval above 0 and mean at least {MATTERS}, for both rivals",
        _pays,
        STRANGER,
    ),
    Claim(
        "best-pair",
        "0110 is the best combination",
        "Of all combinations held fixed, worker 2 with worker 3 is the best. (The drawn data were made so that "
        "worker 3 is the most like the target; whether that shows with 100 samples is the question.)",
        "section 8.2.1, Figure 8",
        "0110 on top",
        f"highest mean of the highest test AUC, lead over the next certain; not: another is better by {MATTERS}",
        _order,
        again(_FIXED, _order),
    ),
    Claim(
        "second-pair",
        "1100 is the second best",
        "Worker 2 with worker 1 comes second, before the target alone, 0101 and federated averaging.",
        "Figure 20",
        "1100 second",
        f"highest mean among the other four, lead certain; not: another is better by {MATTERS}",
        _second,
        CLOSER,
    ),
    Claim(
        "more-data",
        "With more data the target alone is as good",
        "When the share of data to train on is raised, personalisation no longer succeeds: the model of the target "
        "alone is then the best.",
        "section 9 (the experiments are not shown)",
        "the target alone is best",
        f"largest share of the sweep, target alone − best pair: interval above −{MATTERS}",
        _more_data,
        MORE_DATA,
    ),
    Claim(
        "lead-shrinks",
        "The lead of the pair shrinks with more data",
        "The need for help is the greatest when the target has little data.",
        "section 9",
        "yes",
        f"lead over the target alone, smallest − largest share: interval above 0, mean at least {MATTERS}",
        _shrinks,
        MORE_DATA,
    ),
    Claim(
        "fedavg-bad-start",
        "Federated averaging starts badly and recovers",
        "Federated averaging is the only combination that is worse than the target's own model for a while (around "
        "round 5); later it is better.",
        "Figure 9",
        "below 0 early, above 0 late",
        "its mean increase: below 0 by at least 0.005 in rounds 1 to 5, above 0 from round 11 on",
        _bad_start,
        STRANGER,
    ),
    Claim(
        "best-from-start",
        "The best pair gains from the start",
        "0110 is better than the target's own model from the first rounds on.",
        "Figure 9",
        "above 0 from the start",
        f"mean increase in rounds 1 to 5: interval above 0, mean at least {MATTERS}",
        _good_start,
        again([fixed(BEST)], _good_start),
    ),
    Claim(
        "told-apart",
        "Pairs can be told apart in few rounds",
        "The effects of combinations differ significantly for several rounds.",
        "sections 8.2.2 and 9, Figure 13",
        "significant for several rounds",
        "chance that an increase of 0110 is the larger one − 0.5: interval above 0, mean at least 0.25",
        _separable,
        again(_FIXED, _separable),
    ),
    Claim(
        "non-stationary",
        "Rewards are not stationary",
        "What a combination brings changes in the course of training.",
        "sections 8.4 and 9",
        "signs of non-stationarity",
        f"increase of 0110, rounds 1 to 5 − from round 11 on: interval above 0, mean at least {MATTERS}",
        _moving,
        again([fixed(BEST)], _moving),
    ),
    Claim(
        "overfitting",
        "Past its peak the score falls",
        "After the round with the best performance the score goes down instead of settling (shown for 1100).",
        "section 8.3, Figure 14",
        "goes down",
        f"test AUC of 1100 at the best round (by validation) − at the last: interval above 0, mean at least {MATTERS}",
        _overfit,
        LONGER,
    ),
    Claim(
        "second-data-set",
        "It pays on a second, real data set too",
        "The thesis asks for more data sets: pictures that four workers see or name in ways of their own.",
        "section 9 (asked for, not done)",
        "–",
        f"highest test accuracy of 0110 − rival: interval above 0 and mean at least {MATTERS}, for both rivals",
        _split,
        again([f"split/{code}" for code in CODES], _split),
    ),
)
"""Claims on fixed combinations."""
