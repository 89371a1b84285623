"""Claims on training within the same virtual time: linear regression, pictures, and who else is better."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from enlist.statistics import Summary, paired_difference
from enlist.studies.bsfl.further import (
    PLENTY_OF_DATA,
    SLOW_HOLD_MOST,
    WEIGHTED,
    by_loss,
    plenty,
    slow_hold_most,
    weighted_linear,
    without_g,
)
from enlist.studies.bsfl.growth import DECIDES, PRESETS
from enlist.studies.bsfl.plan import experiments, train_key
from enlist.studies.bsfl.settings import CIFAR, IID, METHODS, NON_IID, OTHERS, OURS, RIVALS, own
from enlist.studies.claims import Claim, Further, Verdict, as_printed, greater, leads, shown, together
from enlist.studies.further import AGAIN, replicated
from enlist.studies.results import Group, Results

MARGINS = {"accuracy": 0.01, "loss": 0.02}
LINEAR_MARGIN = 0.005
REPEATED = tuple(train_key("cnn", NON_IID, method) for method in (*OURS, *RIVALS[NON_IID]))
"""Trainings that are repeated with fresh seeds where three may be too few."""


def better(results: Results, task: str, scenario: str, first: str, second: str, name: str) -> Summary:
    """Paired difference at the end of the time, so that more is better: accuracy, or loss with its sign turned.

    >>> from enlist.studies.bsfl.example import example_results
    >>> better(example_results(), "mlp", IID, "bsfl-default", "random", "loss").mean > 0
    True
    """
    one, other = results.paired([train_key(task, scenario, key) for key in (first, second)], f"end_{name}")
    worse, best = (one, other) if name == "loss" else (other, one)
    return paired_difference(best.tolist(), worse.tolist())


def ahead(
    results: Results, task: str, scenario: str, method: str, rivals: Sequence[str], name: str, margin: float
) -> Verdict:
    """Whether BSFL leads its rivals at the end of the time.

    >>> from enlist.studies.bsfl.example import example_results
    >>> ahead(example_results(), "mlp", IID, "bsfl-default", ["random"], "accuracy", 0.01).kind
    'reproduced'
    """
    sign = -1.0 if name == "loss" else 1.0
    keys = (method, *rivals)
    means = {
        METHODS[key].label: sign * results[train_key(task, scenario, key)].summary(f"end_{name}").mean for key in keys
    }
    gaps = {METHODS[key].label: better(results, task, scenario, method, key, name) for key in rivals}
    return leads(METHODS[method].label, means, gaps, margin)


def _linear(scenario: str) -> Callable[[Results], Verdict]:
    def rule(results: Results) -> Verdict:
        return as_printed(
            {
                said: ahead(results, "linear", scenario, own(preset), RIVALS[scenario], "loss", LINEAR_MARGIN)
                for preset, said in PRESETS.items()
            }
        )

    return rule


def _pictures(
    task: str, scenarios: Sequence[str], rivals: Mapping[str, Sequence[str]] = RIVALS
) -> Callable[[Results], Verdict]:
    def one(results: Results, method: str) -> Verdict:
        parts = {}
        for scenario in scenarios:
            for name, margin in MARGINS.items():
                said = f"{scenario}, {name}" if len(scenarios) > 1 else name
                parts[said] = ahead(results, task, scenario, method, rivals[scenario], name, margin)
        return together(parts)

    return lambda results: as_printed({said: one(results, own(preset)) for preset, said in PRESETS.items()})


def _speed_only(results: Results) -> Verdict:
    pairs = {"as printed": ("bsfl-printed", "cs-ucb-printed"), "our defaults": ("bsfl-default", "cs-ucb")}
    return as_printed(
        {
            said: greater(better(results, "mlp", NON_IID, *pair, "accuracy"), MARGINS["accuracy"])
            for said, pair in pairs.items()
        }
    )


def pooled(results: Results) -> Results:
    """Results in which trainings that were repeated with fresh seeds are joined with the first ones.

    >>> from enlist.studies.bsfl.example import example_results
    >>> results = example_results()
    >>> [len(each["train/cnn/non-iid/cs-ucb-q"].seeds) for each in (results, pooled(results))]
    [2, 4]
    """
    again = results.below(AGAIN)
    joined = {
        key: Group(key, group.settings, {**results[key].outcomes, **group.outcomes})
        for key, group in again.groups.items()
    }
    return Results({**results.groups, **joined})


def _all_seeds(results: Results) -> str:
    fresh, joined = results[f"{AGAIN}{REPEATED[0]}"].seeds, pooled(results)
    verdict = _CNN(joined)
    return (
        f"with {len(fresh)} fresh seeds, {len(joined[REPEATED[0]].seeds)} in all, {verdict.ours}; by the same rule: "
        f"{verdict.kind}."
    )


def _differences(results: Results, task: str, scenario: str, method: str, rivals: Sequence[str], name: str) -> str:
    said = [
        f"{shown(better(results, task, scenario, method, key, name), sign=True)} against {METHODS[key].label}"
        for key in rivals
    ]
    return f"{METHODS[method].label} {', '.join(said)}"


def _plenty(results: Results) -> str:
    said = "; ".join(_differences(results, "linear", PLENTY_OF_DATA, one, RIVALS[IID], "loss") for one in OURS)
    return f"with twenty times the samples, gain in loss: {said}."


def _weighted_linear(results: Results) -> str:
    said = "; ".join(_differences(results, "linear", WEIGHTED, one, RIVALS[NON_IID], "loss") for one in OURS)
    return f"with updates weighted by samples, gain in loss: {said}."


def _without_g(results: Results) -> str:
    gain = _differences(results, "mlp", IID, "bsfl-default", ["alpha-0"], "accuracy")
    first = results[train_key("mlp", IID, "cs-ucb")].summary("rounds").mean
    base = results[train_key("mlp", IID, "random")].summary("rounds").mean
    return (
        f"in iid data the slow hold nothing that others lack, and g has nothing to gain: accuracy, {gain}. What "
        f"counts is the number of rounds: {first:.0f} of CS-UCB, our default, in the time of {base:.0f} of random."
    )


def _slow(results: Results) -> str:
    rivals = (*RIVALS[NON_IID], "cs-ucb-printed", "cs-ucb")
    said = "; ".join(_differences(results, "mlp", SLOW_HOLD_MOST, one, rivals, "accuracy") for one in OURS)
    return f"where the slow clients hold the most samples, accuracy: {said}."


def _by_loss(results: Results) -> str:
    said = [
        f"{scenario}: {_differences(results, 'mlp', scenario, 'loss', (*OURS, *OTHERS[scenario]), 'accuracy')}"
        for scenario in (IID, NON_IID)
    ]
    return f"with a tenth of the bonus and g by local loss, accuracy, {'; '.join(said)}."


PAPERS = "rivals are the paper's, as printed"
AHEAD = (
    "at the end of the same virtual time, in accuracy and in loss: highest place, and a certain lead over the nearest "
    f"rival; each part is partly if none is certainly better, by 0.01 in accuracy or 0.02 in loss on average. {DECIDES}"
)
LEAST_LOSS = (
    "test loss at the end of the same virtual time: first place and a certain lead over the nearest rival; partly if "
    f"none is certainly better, by 0.005 or more on average (the noise alone gives 0.25). {DECIDES}; {PAPERS}"
)
SAME_DATA = "the slow hold nothing that the others lack"

_CNN = _pictures("cnn", [NON_IID])

TRAINING = (
    Claim(
        key="linear-iid",
        title="Linear regression, iid: BSFL has the least loss",
        text="At equal latency BSFL has the smallest test loss, against CS-UCB and random.",
        source="Fig. 5 right",
        paper="the lowest curve",
        margin=LEAST_LOSS,
        rule=_linear(IID),
        further=Further("a few clients hold too few samples here", plenty, _plenty),
    ),
    Claim(
        key="linear-non-iid",
        title="Linear regression, non-iid: BSFL has the least loss",
        text="At equal latency BSFL has the smallest test loss, against CS-UCB-Q and size-proportional selection.",
        source="Fig. 8 right",
        paper="the lowest curve",
        margin=LEAST_LOSS,
        rule=_linear(NON_IID),
        further=Further("how updates are weighted", weighted_linear, _weighted_linear),
    ),
    Claim(
        key="pictures-iid",
        title="Fashion-MNIST, iid: BSFL is best",
        text="At equal latency BSFL significantly outperforms CS-UCB and random in test loss and accuracy, 25 of 500 "
        "clients.",
        source="Fig. 6, with an MLP in place of its CNN",
        paper="the best curves",
        margin=f"{AHEAD}; {PAPERS}",
        rule=_pictures("mlp", [IID]),
        further=Further(SAME_DATA, without_g, _without_g),
    ),
    Claim(
        key="pictures-non-iid",
        title="Fashion-MNIST, non-iid: BSFL is best",
        text="At equal latency BSFL outperforms CS-UCB-Q and size-proportional selection in test loss and accuracy.",
        source="Fig. 9, with an MLP in place of its CNN",
        paper="the best curves",
        margin=f"{AHEAD}; {PAPERS}",
        rule=_pictures("mlp", [NON_IID]),
        further=Further(SAME_DATA, slow_hold_most, _slow),
    ),
    Claim(
        key="cnn-non-iid",
        title="Fashion-MNIST with a CNN, non-iid: BSFL is best",
        text="At equal latency BSFL outperforms CS-UCB-Q and size-proportional selection in test loss and accuracy.",
        source="Fig. 9",
        paper="the best curves",
        margin=f"{AHEAD}; {PAPERS}",
        rule=_CNN,
        further=dataclasses.replace(replicated(experiments, REPEATED, _CNN, "too few seeds"), reading=_all_seeds),
    ),
    Claim(
        key="cifar10",
        title="CIFAR-10: BSFL is best",
        text="At equal latency BSFL outperforms CS-UCB and random (iid), CS-UCB-Q and size-proportional selection "
        "(non-iid).",
        source="Figs. 7 and 10",
        paper="the best curves",
        margin=f"{AHEAD}; {PAPERS}; needs --with cifar10",
        rule=_pictures(CIFAR, [IID, NON_IID]),
        further=Further(SAME_DATA, slow_hold_most, _slow),
    ),
    Claim(
        key="overfitting",
        title="Selecting for speed alone costs accuracy",
        text="Methods that select the quickest clients overfit to their data: BSFL ends above CS-UCB where data are "
        "not iid.",
        source="Sections I-A and III-A",
        paper="stated, not measured",
        margin="accuracy of BSFL as printed minus CS-UCB as printed, MLP, non-iid: interval above 0, mean at least "
        "0.01. These decide; our defaults of both are judged by the same rule and shown beside",
        rule=_speed_only,
        further=Further(SAME_DATA, slow_hold_most, _slow),
    ),
    Claim(
        key="superior",
        title="BSFL is superior to existing methods",
        text="All simulations show BSFL superior to existing methods; neither Oort nor FedSUV is among them, and "
        "CS-UCB has the full bonus.",
        source="abstract, Section I-B",
        paper="superior, without these",
        margin=f"{AHEAD}; rivals are CS-UCB, CS-UCB-Q (where sizes differ), Oort and FedSUV with our defaults (that of "
        "CS-UCB-Q is the printed formula)",
        rule=_pictures("mlp", [IID, NON_IID], OTHERS),
        further=Further(
            "others have less of the bonus, or go by what a client's data are worth to the model", by_loss, _by_loss
        ),
    ),
)
