"""Further experiments of the study, on causes that one suspects when a claim does not come out as the thesis has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from enlist.studies.claims import Further, Verdict, shown
from enlist.studies.further import replicated
from enlist.studies.mabfl.keys import ALL, ALONE, BEST, CODES, SECOND, held
from enlist.studies.mabfl.scores import by_mean, contrast, persistence, residuals, separations, straightness
from enlist.studies.mabfl.settings import ONE_DATA_SET, TELECOM, TRAINING, experiments, first, sessions, settings
from enlist.studies.results import Results
from enlist.studies.study import Experiment, Scale


def again(keys: Sequence[str], rule: Callable[[Results], Verdict]) -> Further:
    """The same settings with fresh seeds.

    >>> from enlist.studies.mabfl.settings import SCALES
    >>> further = again(["grid/explore"], lambda results: None)
    >>> [each.key for each in further.experiments(SCALES["smoke"])]
    ['again/grid/explore']
    """
    return replicated(_few, keys, rule)


def again_by_mean(keys: Sequence[str], rule: Callable[[Results], Verdict]) -> Further:
    """The same settings with fresh seeds, and judged by the mean score of all rounds instead of the highest.

    >>> again_by_mean(["grid/explore"], lambda results: None).cause
    'the luck of these seeds, or the highest score of an experiment, which forgives detours'
    """
    fresh = replicated(_few, keys, rule)

    def reading(results: Results) -> str:
        other = rule(by_mean(results))
        return (
            f"{fresh.reading(results)} Judged by the mean score of all rounds instead of the highest, the first "
            f"experiments give {other.ours}: {other.kind}."
        )

    cause = f"{fresh.cause}, or the highest score of an experiment, which forgives detours"
    return Further(cause, fresh.experiments, reading)


def _few(scale: Scale) -> Sequence[Experiment]:
    """What is run again: ten seeds of everything or, where it is only to be seen that it runs, one."""
    return [each for each in experiments(scale) if each.seed in _core(scale)]


def _core(scale: Scale) -> range:
    return first(1 if scale.settings["small"] else scale.seeds)


def _variants(own: dict[str, dict[str, Any]]) -> Callable[[Scale], Sequence[Experiment]]:
    """Sessions of several configurations; `dataset` and `training` of one change these parts only."""

    def wanted(scale: Scale) -> Sequence[Experiment]:
        found: list[Experiment] = []
        for key, changes in own.items():
            rest = {name: value for name, value in changes.items() if name not in ("dataset", "training")}
            made = settings(scale, **rest)
            made["workers"] = {"dataset": {**made["workers"]["dataset"], **changes.get("dataset", {})}}
            made["training"] = {**made["training"], **changes.get("training", {})}
            found += sessions(f"further/{key}", made, _core(scale))
        return found

    return wanted


def _peak(results: Results, first: str, second: str) -> str:
    return shown(results.difference(first, second, "peak"), sign=True)


def _fedavg(results: Results) -> str:
    early = results["further/likely-1111"].column("validation") - results["further/likely-1111"].column("local")
    gain = contrast(early[:, :5].mean(axis=1), 0 * early[:, 0])
    late = contrast(early[:, 10:].mean(axis=1), 0 * early[:, 0]) if early.shape[1] > 10 else gain
    return (
        f"with a worker 4 that is no enemy but a stranger (likeness 0.2), federated averaging gains "
        f"{shown(gain, sign=True)} in rounds 1 to 5 and {shown(late, sign=True)} from round 11 on, and the best pair "
        f"beats it by {_peak(results, 'further/likely-0110', 'further/likely-1111')}."
    )


STRANGER = Further(
    "worker 4 of the drawn data is too unlike the target",
    _variants(
        {
            f"likely-{code}": {"rule": held(code), "dataset": {"likeness": [*TELECOM["likeness"][:3], 0.2]}}  # type: ignore[index]
            for code in (BEST, ALL, ALONE)
        }
    ),
    _fedavg,
)
"""Other data: how much of what federated averaging loses is worker 4's doing."""


def _second(results: Results) -> str:
    difference = _peak(results, "further/closer-1100", "drawn/0100-6")
    return (
        f"with a worker 1 that is more like the target (likeness 0.85 instead of 0.7), 1100 beats 0100 by {difference}."
    )


CLOSER = Further(
    "worker 1 of the drawn data is not alike enough",
    _variants({"closer-1100": {"rule": held(SECOND), "dataset": {"likeness": [0.85, 1.0, 0.95, -0.5]}}}),
    _second,
)
"""Other data: with a likelier worker 1, the second-best pair may pay."""


def _epochs(results: Results) -> str:
    parts = []
    for epochs in (2, 4, 6, 12):
        group = "one" if epochs in (4, 6) else "further/one"
        curves = results[f"{group}/{BEST}-{epochs}"].column("validation")
        apart = separations(results, epochs, group).mean()
        straight, steady = straightness(residuals(curves)), persistence(curves)
        parts.append(
            f"{epochs} epochs: separation {apart:.2f}, QQ correlation {straight:.3f}, persistence {steady:.2f}"
        )
    return f"the whole range, on one data set: {'; '.join(parts)}."


def _more_epochs(scale: Scale) -> Sequence[Experiment]:
    return [
        each
        for epochs in (2, 12)
        for code in CODES
        if code != ALONE
        for each in sessions(
            f"further/one/{code}-{epochs}",
            settings(scale, rule=held(code), epochs=epochs, data_seed=ONE_DATA_SET),
            first(scale.seeds),
        )
    ]


EPOCHS = Further("4 and 6 epochs are too close to each other", _more_epochs, _epochs)
"""2 and 12 epochs beside 4 and 6: is there a trend at all?"""

_SLOW = {**TRAINING, "lr": 0.02}


def _slow(results: Results) -> str:
    recent, plain = "further/slow-a0.75", "further/slow-stationary"
    return f"with a fifth of the learning rate, α = 0.75 beats plain means by {_peak(results, recent, plain)} (UCB)."


SLOW = Further(
    "training is so quick that estimates hardly matter",
    _variants(
        {
            "slow-a0.75": {"rule": {"kind": "ucb", "c": 0.05, "step": 0.75}, "training": _SLOW},
            "slow-stationary": {"rule": {"kind": "ucb", "c": 0.05, "stationary": True}, "training": _SLOW},
        }
    ),
    _slow,
)
"""A lower learning rate: more rounds until the peak, more time for estimates to matter."""


def _quantile(results: Results) -> str:
    fitted, fixed_ = "further/thompson-median", "grid/thompson-t0.025-g0.75"
    score = results[fitted].summary("peak")
    every = shown(results.difference(fitted, fixed_, "mean"), sign=True)
    return (
        f"with the running median of all increases as threshold, discounted Thompson sampling reaches {shown(score)}, "
        f"{_peak(results, fitted, fixed_)} against the threshold 0.025 ({every} in the mean over all rounds), and "
        f"{_peak(results, fitted, 'grid/ucb-c0.05-a0.75')} against UCB."
    )


QUANTILE = Further(
    "fixed thresholds do not fit the size of increases here",
    _variants(
        {
            "thompson-median": {
                "rule": {"kind": "discounted-thompson", "gamma": 0.75},
                "reward": {"kind": "quantile", "q": 0.5, "minimum": 1},
            },
        }
    ),
    _quantile,
)
"""A threshold that follows the increases, as the thesis's discussion proposes."""


def _bonus(results: Results) -> str:
    parts = [
        f"c = {c:g}: {_peak(results, f'further/ucb-binary-c{c:g}', 'grid/ucb-c0.05-a0.75')}" for c in (0.2, 0.5, 1.0)
    ]
    return f"binary UCB with larger bonuses against continuous UCB: {', '.join(parts)}."


BONUS = Further(
    "c = 0.05 is next to nothing for rewards of 0 and 1",
    _variants(
        {
            f"ucb-binary-c{c:g}": {
                "rule": {"kind": "ucb", "c": c, "step": 0.75},
                "reward": {"kind": "binary", "threshold": 0.025},
            }
            for c in (0.2, 0.5, 1.0)
        }
    ),
    _bonus,
)
"""Bonuses that suit binary rewards."""


def _ties(results: Results) -> str:
    binary, continuous = "further/delayed-binary", "more/explore-delayed"
    return (
        "with delayed rewards, where the model is chosen by estimates and not by this round's rewards, continuous "
        f"rewards beat binary ones (threshold 0.05) by {_peak(results, continuous, binary)}."
    )


TIES = Further(
    "only ties of this round's binary rewards are left to the estimates",
    _variants(
        {
            "delayed-binary": {
                "rule": {"kind": "extreme-explore", "delayed": True},
                "reward": {"kind": "binary", "threshold": 0.05},
            }
        }
    ),
    _ties,
)
"""Extreme Explore where binary rewards make a difference."""


def _weights(results: Results) -> str:
    parts = [f"{share:.0%}: {_peak(results, f'further/weight-{share:g}', 'drawn/0110-6')}" for share in (0.6, 0.8, 0.9)]
    return f"other weights of the target against equal ones: {', '.join(parts)}."


WEIGHTS = Further(
    "70 % is not the right weight",
    _variants(
        {
            f"weight-{share:g}": {"rule": held(BEST), "weights": {"kind": "target", "share": share}}
            for share in (0.6, 0.8, 0.9)
        }
    ),
    _weights,
)
"""Other weights for the target's own model."""


def _optimism(results: Results) -> str:
    tried = [len(set(map(str, adopted))) == 3 for adopted in results["further/optimistic"].each("adopted")]
    return (
        f"with initial values of 0.25 instead of 0.05, {sum(tried)} of {len(tried)} experiments try every pair, and "
        f"the peak changes by {_peak(results, 'further/optimistic', 'grid/greedy-e0.2-a0.75')}."
    )


OPTIMISM = Further(
    "initial values of 0.05 are not optimistic enough",
    _variants({"optimistic": {"rule": {"kind": "epsilon-greedy", "epsilon": 0.2, "step": 0.75, "initial": 0.25}}}),
    _optimism,
)
"""Higher initial values, which the thesis suspects to be needed."""


def _poison(results: Results) -> str:
    parts = []
    for name in ("sign-flip", "noise"):
        codes = results[f"further/poison-{name}"].each("code")
        parts.append(f"{name}: {sum(code[0] == '0' for code in codes)} of {len(codes)} leave the poisonous worker out")
    return f"other poisons in worker 1 (UCB): {', '.join(parts)}."


POISON = Further(
    "flipped labels are a special poison",
    _variants(
        {
            "poison-sign-flip": {"rule": {"kind": "ucb"}, "poison": [{"kind": "sign-flip", "workers": ["1"]}]},
            "poison-noise": {"rule": {"kind": "ucb"}, "poison": [{"kind": "noise-features", "workers": ["1"]}]},
        },
    ),
    _poison,
)
"""Other kinds of poison, in another worker."""


def _late(results: Results) -> str:
    rest = results["further/long-1100"].column("test")
    lost = contrast(rest.max(axis=1), rest[:, -1])
    return f"trained for twice as many rounds, 1100 ends {shown(lost)} below its highest score."


LONGER = Further(
    "training ends before the peak is passed",
    lambda scale: sessions(
        "further/long-1100",
        {
            **settings(scale, rule=held(SECOND)),
            "rounds": {"rounds": 2 * scale.settings["rounds"], "epochs": 6, "pretrain": 6},
        },
        first(scale.seeds),
    ),
    _late,
)
"""Twice the rounds: does the score fall after the peak?"""


def _half(results: Results) -> str:
    lead = results.difference("further/share-0.4-0100", "further/share-0.4-0110", "peak")
    return f"with 40 % of the data to train on, the target alone is ahead of the best pair by {shown(lead, sign=True)}."


MORE_DATA = Further(
    "the sweep ends before the target has enough of its own",
    lambda scale: [
        each
        for code in (BEST, ALONE)
        for each in sessions(
            f"further/share-0.4-{code}",
            settings(scale, rule=held(code), share=0.4),
            first(max(scale.seeds // 3, 2)),
        )
    ],
    _half,
)
"""Even more training data."""
