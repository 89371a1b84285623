"""Claims on training within the same virtual time: linear regression, pictures, and who else is better."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from enlist.statistics import Summary, paired_difference
from enlist.studies.bsfl.further import (
    PLENTY_OF_DATA,
    SLOW_HOLD_MOST,
    WEIGHTED,
    by_loss,
    plenty,
    slow_hold_most,
    weighted,
    weighted_linear,
    without_g,
)
from enlist.studies.bsfl.plan import train_key
from enlist.studies.bsfl.settings import CIFAR, IID, METHODS, NON_IID, OURS, RIVALS
from enlist.studies.claims import Claim, Further, Verdict, greater, leads, shown, together
from enlist.studies.results import Results

MARGINS = {"accuracy": 0.01, "loss": 0.02}
LINEAR_MARGIN = 0.005
OTHERS = ("oort", "fedsuv")


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
    results: Results, task: str, scenario: str, own: str, rivals: Sequence[str], name: str, margin: float
) -> Verdict:
    """Whether BSFL leads its rivals at the end of the time.

    >>> from enlist.studies.bsfl.example import example_results
    >>> ahead(example_results(), "mlp", IID, "bsfl-default", ["random"], "accuracy", 0.01).kind
    'reproduced'
    """
    sign = -1.0 if name == "loss" else 1.0
    keys = (own, *rivals)
    means = {
        METHODS[key].label: sign * results[train_key(task, scenario, key)].summary(f"end_{name}").mean for key in keys
    }
    gaps = {METHODS[key].label: better(results, task, scenario, own, key, name) for key in rivals}
    return leads(METHODS[own].label, means, gaps, margin)


def _linear(scenario: str) -> Callable[[Results], Verdict]:
    def rule(results: Results) -> Verdict:
        rivals = RIVALS[scenario]
        return together(
            {
                own.removeprefix("bsfl-"): ahead(results, "linear", scenario, own, rivals, "loss", LINEAR_MARGIN)
                for own in OURS
            }
        )

    return rule


def _pictures(task: str, scenarios: Sequence[str], others: Sequence[str] = ()) -> Callable[[Results], Verdict]:
    def rule(results: Results) -> Verdict:
        parts = {}
        for scenario in scenarios:
            for own in OURS:
                for name, margin in MARGINS.items():
                    said = ", ".join([*([scenario] if len(scenarios) > 1 else []), name, own.removeprefix("bsfl-")])
                    parts[said] = ahead(results, task, scenario, own, others or RIVALS[scenario], name, margin)
        return together(parts)

    return rule


def _speed_only(results: Results) -> Verdict:
    gap = better(results, "mlp", NON_IID, "bsfl-default", "cs-ucb", "accuracy")
    return greater(gap, MARGINS["accuracy"])


def _differences(results: Results, task: str, scenario: str, own: str, rivals: Sequence[str], name: str) -> str:
    said = [
        f"{shown(better(results, task, scenario, own, key, name), sign=True)} against {METHODS[key].label}"
        for key in rivals
    ]
    return f"{METHODS[own].label} {', '.join(said)}"


def _plenty(results: Results) -> str:
    said = "; ".join(_differences(results, "linear", PLENTY_OF_DATA, own, RIVALS[IID], "loss") for own in OURS)
    return f"with twenty times the samples, gain in loss: {said}."


def _weighted_linear(results: Results) -> str:
    said = "; ".join(_differences(results, "linear", WEIGHTED, own, RIVALS[NON_IID], "loss") for own in OURS)
    return f"with updates weighted by samples, gain in loss: {said}."


def _without_g(results: Results) -> str:
    gain = _differences(results, "mlp", IID, "bsfl-default", ["alpha-0"], "accuracy")
    first = results[train_key("mlp", IID, "cs-ucb")].summary("rounds").mean
    base = results[train_key("mlp", IID, "random")].summary("rounds").mean
    return (
        f"in iid data the slow hold nothing that others lack, and g has nothing to gain: accuracy, {gain}. What "
        f"counts is the number of rounds: {first:.0f} of CS-UCB in the time of {base:.0f} of random."
    )


def _slow(results: Results) -> str:
    rivals = ("cs-ucb-q", "size-proportional", "cs-ucb")
    said = "; ".join(_differences(results, "mlp", SLOW_HOLD_MOST, own, rivals, "accuracy") for own in OURS)
    return f"where the slow clients hold the most samples, accuracy: {said}."


def _weighted(results: Results) -> str:
    said = "; ".join(_differences(results, "mlp", WEIGHTED, own, RIVALS[NON_IID], "accuracy") for own in OURS)
    return f"the MLP with updates weighted by samples, accuracy: {said}."


def _by_loss(results: Results) -> str:
    said = [
        f"{scenario}: {_differences(results, 'mlp', scenario, 'loss', ['bsfl-default', *OTHERS], 'accuracy')}"
        for scenario in (IID, NON_IID)
    ]
    return f"with g by local loss, accuracy, {'; '.join(said)}."


AHEAD = (
    "at the end of the same virtual time, for BSFL as printed and as our default, in accuracy and in loss: highest "
    "place, and a certain lead over the nearest rival; partly if none is certainly better by 0.01 in accuracy or 0.02 "
    "in loss"
)
LEAST_LOSS = (
    "test loss at the end of the same virtual time, for BSFL as printed and as our default: first place and a certain "
    "lead over the nearest rival; partly if none is certainly better by 0.005 (the noise alone gives 0.25)"
)
SAME_DATA = "the slow hold nothing that the others lack"

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
        margin=AHEAD,
        rule=_pictures("mlp", [IID]),
        further=Further(SAME_DATA, without_g, _without_g),
    ),
    Claim(
        key="pictures-non-iid",
        title="Fashion-MNIST, non-iid: BSFL is best",
        text="At equal latency BSFL outperforms CS-UCB-Q and size-proportional selection in test loss and accuracy.",
        source="Fig. 9, with an MLP in place of its CNN",
        paper="the best curves",
        margin=AHEAD,
        rule=_pictures("mlp", [NON_IID]),
        further=Further(SAME_DATA, slow_hold_most, _slow),
    ),
    Claim(
        key="cnn-non-iid",
        title="Fashion-MNIST with a CNN, non-iid: BSFL is best",
        text="At equal latency BSFL outperforms CS-UCB-Q and size-proportional selection in test loss and accuracy.",
        source="Fig. 9",
        paper="the best curves",
        margin=AHEAD,
        rule=_pictures("cnn", [NON_IID]),
        further=Further("how updates are weighted", weighted, _weighted),
    ),
    Claim(
        key="cifar10",
        title="CIFAR-10: BSFL is best",
        text="At equal latency BSFL outperforms CS-UCB and random (iid), CS-UCB-Q and size-proportional selection "
        "(non-iid).",
        source="Figs. 7 and 10",
        paper="the best curves",
        margin=AHEAD + "; needs --with cifar10",
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
        margin="accuracy of BSFL (our default) minus CS-UCB, MLP, non-iid: interval above 0, mean at least 0.01",
        rule=_speed_only,
        further=Further(SAME_DATA, slow_hold_most, _slow),
    ),
    Claim(
        key="superior",
        title="BSFL is superior to existing methods",
        text="All simulations show BSFL superior to existing methods; Oort and FedSUV are not among them.",
        source="abstract, Section I-B",
        paper="superior, without these two",
        margin=AHEAD + "; rivals are Oort and FedSUV",
        rule=_pictures("mlp", [IID, NON_IID], OTHERS),
        further=Further("they go by what a client's data are worth to the model", by_loss, _by_loss),
    ),
)
