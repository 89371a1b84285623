"""Claims on epochs per round, on the residuals of learning curves, and on how an increase is measured."""

from __future__ import annotations

import numpy as np

from enlist._internal.statistics import bootstrap
from enlist._internal.typing import FloatArray
from enlist.studies.claims import UNTESTABLE, Claim, Verdict, alike, greater, no_worse
from enlist.studies.mabfl.combinations import MATTERS
from enlist.studies.mabfl.further import EPOCHS, again
from enlist.studies.mabfl.keys import ALL, BEST, CODES, PAIRS, fixed
from enlist.studies.mabfl.scores import (
    contrast,
    increases,
    outliers,
    persistence,
    residuals,
    rounds_to,
    separations,
    straightness,
)
from enlist.studies.results import Results


def _same_best(results: Results) -> Verdict:
    return alike(results.difference(fixed(BEST, 6), fixed(BEST, 4), "peak"), MATTERS)


def _sooner(results: Results) -> Verdict:
    four, six = results.paired([fixed(BEST, 4), fixed(BEST, 6)], "validation")
    levels = np.minimum(four.max(axis=1), six.max(axis=1)) - 0.01
    return greater(contrast(rounds_to(four, levels), rounds_to(six, levels)), 1.0, digits=1)


def _apart(results: Results) -> Verdict:
    shared = results.common([fixed(code, epochs) for epochs in (4, 6) for code in CODES])
    return greater(contrast(separations(shared, 6, "drawn"), separations(shared, 4, "drawn")), 0.02)


_TOO_FEW = Verdict(UNTESTABLE, "–", "a single experiment per setting has no residuals")


def _spread(results: Results) -> Verdict:
    columns = results.paired([fixed(code, epochs, "one") for epochs in (4, 6) for code in CODES], "validation")
    if len(columns[0]) < 2:
        return _TOO_FEW
    half = len(CODES)

    def fall(*curves: FloatArray) -> float:
        deviations = [residuals(curve).std() for curve in curves]
        return float(np.mean(np.log(deviations[:half]) - np.log(deviations[half:])))

    verdict = no_worse(bootstrap(fall, *columns, resamples=500), 0.1)
    narrower = sum(
        residuals(six).std() <= residuals(four).std() for four, six in zip(columns[:half], columns[half:], strict=True)
    )
    return verdict._replace(ours=f"{narrower} of {half} are not wider; mean log ratio (4 over 6) {verdict.ours}")


def _normal(results: Results) -> Verdict:
    columns = results.paired([fixed(code, epochs, "one") for code in CODES for epochs in (6, 4)], "validation")
    if len(columns[0]) < 2:
        return _TOO_FEW

    def gain(*curves: FloatArray) -> float:
        fits = [straightness(residuals(curve)) for curve in curves]
        return float(np.mean(fits[0::2]) - np.mean(fits[1::2]))

    return greater(bootstrap(gain, *columns, resamples=500), 0.005)


def _paths(results: Results) -> Verdict:
    columns = results.paired([fixed(code, epochs, "one") for code in CODES for epochs in (4, 6)], "validation")
    if len(columns[0]) < 2:
        return _TOO_FEW

    def loss(*curves: FloatArray) -> float:
        found = [persistence(curve) for curve in curves]
        return float(np.mean(found[0::2]) - np.mean(found[1::2]))

    return greater(bootstrap(loss, *columns, resamples=500), 0.1)


def _local(results: Results) -> Verdict:
    verdict = greater(
        contrast(separations(results, 6, "drawn"), separations(results, 6, "drawn", "previous")), 0.05, digits=2
    )
    both = [separations(results, 6, "drawn", against).mean() for against in ("local", "previous")]
    return verdict._replace(ours=f"{both[0]:.2f} against {both[1]:.2f}: {verdict.ours}")


def _outliers(results: Results) -> Verdict:
    shared = results.common([fixed(code, 6, "one") for code in (*PAIRS, ALL)])
    found = {
        against: np.mean([outliers(increases(shared, code, 6, "one", against)) for code in (*PAIRS, ALL)], axis=0)
        for against in ("local", "previous")
    }
    return greater(contrast(found["previous"], found["local"]), 0.01)


EPOCH_CLAIMS = (
    Claim(
        "epochs-same-peak",
        "4 and 6 epochs reach the same peak",
        "The best performances are very similar for 4 and 6 epochs per round.",
        "section 8.2.1, Figure 8",
        "very similar",
        f"highest test AUC of 0110, 6 − 4 epochs: interval within ± {MATTERS}",
        _same_best,
        EPOCHS,
    ),
    Claim(
        "epochs-sooner",
        "6 epochs need fewer rounds",
        "With more epochs per round, training is finished after fewer rounds, which saves communication.",
        "section 8.2.1, Figure 8",
        "fewer rounds",
        "rounds until 0110 is within 0.01 of the lower of both peaks, 4 − 6: interval above 0, mean at least 1",
        _sooner,
        EPOCHS,
    ),
    Claim(
        "epochs-separate",
        "6 epochs separate combinations better than 4",
        "The increases of the best combination stand out more from those of the others with 6 epochs per round.",
        "section 8.2.1, Figure 9",
        "a wider gap",
        "chance that an increase of 0110 is the larger one, 6 − 4 epochs: interval above 0, mean at least 0.02",
        _apart,
        EPOCHS,
    ),
    Claim(
        "epochs-spread",
        "More epochs do not widen the residuals",
        "The standard deviation of learning curves around their mean is the same or smaller with 6 epochs than with 4, "
        "for all combinations but one.",
        "Table 2",
        "0.013–0.020 against 0.013–0.023; 4 of 5",
        "mean log ratio of standard deviations, 4 over 6 epochs, one data set: interval above −0.1",
        _spread,
        EPOCHS,
    ),
    Claim(
        "residuals-normal",
        "Residuals are normal with 6 epochs, not with 4",
        "QQ plots of the residuals are straight with 6 epochs per round and not with 4.",
        "Figures 10, 11, 21, 22",
        "reasonable with 6, not with 4",
        "correlation of the QQ plot, 6 − 4 epochs: interval above 0, mean at least 0.005",
        _normal,
        EPOCHS,
    ),
    Claim(
        "residual-paths",
        "Residuals form paths with 4 epochs, noise with 6",
        "With 4 epochs single experiments stay above or below the mean for many rounds; with 6 they look like noise.",
        "Figures 10, 11",
        "paths with 4, noise with 6",
        "correlation between residuals of consecutive rounds, 4 − 6 epochs: interval above 0, mean at least 0.1",
        _paths,
        EPOCHS,
    ),
    Claim(
        "against-local",
        "Comparing with the local model separates better",
        "Increases measured against the target's own model of the same round tell combinations apart better than those "
        "measured against the round before.",
        "section 8.2.2, Figure 13",
        "much more distinguishable",
        "chance that an increase of 0110 is the larger one, local − previous: interval above 0, mean at least 0.05",
        _local,
        again([fixed(code) for code in CODES], _local),
    ),
    Claim(
        "fewer-outliers",
        "Comparing with the local model gives fewer outliers",
        "Measured against the round before, increases have many outliers.",
        "section 8.2.2, Figure 13",
        "fewer outliers",
        "share beyond 1.5 interquartile ranges, previous − local: interval above 0, mean at least 0.01",
        _outliers,
        again([fixed(code, 6, "one") for code in CODES], _outliers),
    ),
)
"""Claims on epochs and increases."""
