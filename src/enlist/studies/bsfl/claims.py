"""What the paper claims, each with the rule that judges it; the words are in claims.toml."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from enlist.studies.bsfl.annealing import ALSA, CODE, DEGREES, ONE_SIDED, PRINTED, SA, SOLVED
from enlist.studies.bsfl.experiments import bold_cs_ucb, experiments, genies, train_key
from enlist.studies.bsfl.measures import (
    CONNECTED,
    DISTANCE,
    EXCESS,
    FASTEST,
    IDLE,
    JAIN,
    REMAINING,
    ROUND_TIME,
    degree,
    number,
    solver_time,
)
from enlist.studies.bsfl.rules import Bounded, InRange, RegretGrowth, WalkerRaces
from enlist.studies.bsfl.settings import (
    ALPHA,
    ALPHAS,
    CIFAR,
    EXISTING,
    IID,
    LARGE,
    METHODS,
    NON_IID,
    PAPERS,
    RIVALS,
    SMALL,
    TWO_SPEEDS,
)
from enlist.studies.claims import Claim, ClaimRule, FollowUp, QuotedClaims
from enlist.studies.further import looked_at, replicated
from enlist.studies.margins import ANY, HALF, NINE_TENTHS, PERCENT_5, POINT, TENTH, Margin
from enlist.studies.measures import FINAL_ACCURACY, FINAL_LOSS, SECONDS_TO_TARGET, Measure, Value
from enlist.studies.parts import AsPrinted, Parts
from enlist.studies.rules import Arm, Contrast, Limit

LOSS = Margin(0.02, "two hundredths of the loss, which go with about one point of accuracy")
NOISE = Margin(0.005, "two percent of the loss that the noise alone gives, 0.25")
WINS = Margin(0.983, "the paper's own share")
BOUND = Margin(1.0, "the paper's own bound, 4(K−m)")
RANGE = Margin(1.0, "the end of g's own range")
ALL = Margin(1.0, "every one of them")
SECOND = Margin(1.0, "one second, which no server would notice beside a round")
BOTH = (IID, NON_IID)
GRAPH = Arm("graph", "4 of 8 clients")


def our_bsfl(size: str) -> str:
    """What a sentence calls BSFL as printed.

    >>> our_bsfl(LARGE)
    'BSFL as printed (alpha = 10, our choice)'
    """
    return f"BSFL as printed (alpha = {ALPHA[size]:g}, our choice)"


def regret(world: str, scenario: str, method: str) -> Arm:
    """A method in the arena."""
    return Arm(f"regret/{world}/{scenario}/{method}", our_bsfl(world) if method == "bsfl" else METHODS[method].label)


def training(task: str, scenario: str, method: str) -> Arm:
    """A method in the simulator."""
    label = our_bsfl(SMALL if task == "linear" else LARGE) if method == "bsfl" else METHODS[method].label
    return Arm(train_key(task, scenario, method), label)


def beside(task: str, scenario: str) -> list[Arm]:
    """Our default, which stands beside the printed algorithm."""
    return [Arm(train_key(task, scenario, "bsfl-default"), "our default")]


def leads(task: str, scenario: str, measure: Measure, margin: float, existing: bool = False) -> AsPrinted:
    """BSFL as printed is the best at the end of the same virtual time: of the paper's methods, or of all existing."""
    others = [training(task, scenario, rival) for rival in (EXISTING if existing else RIVALS)[scenario]]
    rule = Contrast("leads", measure, training(task, scenario, "bsfl"), others, margin)
    return AsPrinted(rule, beside(task, scenario))


def best(task: str, scenarios: Sequence[str] = BOTH, existing: bool = False) -> Parts:
    """BSFL is the best in accuracy and in loss."""
    measures = {"accuracy": (FINAL_ACCURACY, POINT), "loss": (FINAL_LOSS, LOSS)}
    return Parts(
        {
            f"{scenario}, {name}": leads(task, scenario, measure, margin, existing)
            for scenario in scenarios
            for name, (measure, margin) in measures.items()
        }
    )


def ahead(measure: Measure, rival: str, margin: float) -> AsPrinted:
    """BSFL as printed is better than one rival: the MLP where data are not iid."""
    own, other = (training("mlp", NON_IID, each) for each in ("bsfl", rival))
    return AsPrinted(Contrast("greater", measure, own, [other], margin), beside("mlp", NON_IID))


def growing(world: str, curve: str, within: bool = True) -> Parts:
    """BSFL's regret grows as ln n, iid and not."""
    return Parts(
        {
            scenario: AsPrinted(
                RegretGrowth("as ln n", regret(world, scenario, "bsfl"), curve, within),
                [Arm(f"regret/{world}/{scenario}/bsfl-default", "our default")],
            )
            for scenario in BOTH
        }
    )


def bounded(world: str, curve: str) -> Parts:
    """BSFL's regret lies below Theorem 1's bound, iid and not."""
    idle = {IID: "random", NON_IID: "size-proportional"}
    return Parts(
        {
            scenario: Bounded(regret(world, scenario, "bsfl"), [regret(world, scenario, idle[scenario])], curve)
            for scenario in BOTH
        }
    )


def linear(world: str, said: str = "") -> dict[str, ClaimRule]:
    """The regret of the paper's rivals grows as n."""
    return {
        f"{said}{METHODS[rival].label}, {scenario}": RegretGrowth("as n", regret(world, scenario, rival))
        for scenario in BOTH
        for rival in RIVALS[scenario]
    }


QUOTED = QuotedClaims("enlist.studies.bsfl")


def claim(key: str, rule: ClaimRule, further: FollowUp | Sequence[tuple[str, str]]) -> Claim:
    """A claim; `further` may be trainings (task, scenario) that are repeated with fresh seeds."""
    if not isinstance(further, FollowUp):
        methods = dict.fromkeys(("bsfl-eq-3", *PAPERS[IID], *PAPERS[NON_IID], *EXISTING[IID], *EXISTING[NON_IID]))
        keys = [train_key(task, scenario, method) for task, scenario in further for method in methods]
        further = replicated(experiments, keys, rule)
    return QUOTED.claim(key, rule, further)


def energies(temperature: str, walker: str, measure: Callable[[Arm, Arm], ClaimRule]) -> ClaimRule:
    """A rule on a walker and on SA at the same temperature."""
    names = {ALSA: "ALSA", ONE_SIDED: "the one-sided ALSA of the code", SA: "SA"}
    arms = [Arm(f"energy/{temperature}/{each}", names[each]) for each in (walker, SA)]
    return measure(*arms)


def closer(walker: Arm, sa: Arm) -> Contrast:
    """A walker is closer to the optimum than SA."""
    return Contrast("greater", DISTANCE, walker, [sa], TENTH)


def there(walker: Arm, sa: Arm) -> Limit:
    """A walker has come to the optimum."""
    return Limit("at most", REMAINING, walker, PERCENT_5)


ONE_SIDED_ARM = Arm(f"race/{PRINTED}/{ONE_SIDED}", "the one-sided neighbourhood of the authors' code")
RACES_LOOKED_AT = looked_at(
    "the experiments were run with the one-sided neighbourhood of the code, not with the one that is printed",
    {
        "that neighbourhood at the printed temperature": WalkerRaces(ONE_SIDED_ARM, WINS),
        "the same, 100 clients and more": WalkerRaces(ONE_SIDED_ARM, WINS, from_clients=100),
        "that neighbourhood at the temperature of the code": WalkerRaces(Arm(f"race/{CODE}/{ONE_SIDED}", "it"), WINS),
        "Eq. 19 at the temperature of the code": WalkerRaces(Arm(f"race/{CODE}/{ALSA}", "ALSA"), WINS),
    },
)


def neighbours(n: int, k: int, which: str = "mean") -> Limit:
    """ALSA has no more neighbours than the paper's bound."""
    return Limit("at most", degree(n, k, which), Arm(f"degrees/{n}-{k}", "ALSA"), BOUND)


def traded(preset: str) -> Parts:
    """With much alpha rounds are longer, and selection is more even."""
    none, much = (
        Arm(f"alpha/{preset}/{each:g}", f"alpha = {each:g}") for each in (min(ALPHAS[preset]), max(ALPHAS[preset]))
    )
    return Parts(
        {
            "length of rounds": Contrast("greater", ROUND_TIME, much, [none], PERCENT_5),
            "evenness": Contrast("greater", JAIN, much, [none], PERCENT_5),
        }
    )


PROBLEM = (
    claim(
        "generalisation",
        InRange(Arm("targets", "lognormal sizes")),
        looked_at(
            "a client with more than 1/m of the data",
            {
                "largest target with water-filling, as in our default": Limit(
                    "at most",
                    Measure("largest target", lambda output, base: Value(float(np.max(output["capped"])))),
                    Arm("targets", "water-filling"),
                    RANGE,
                )
            },
        ),
    ),
    claim(
        "infeasible",
        Limit("at least", solver_time(0), Arm("exact", "25 of 500 clients"), SECOND),
        looked_at(
            "a minimum plus a sum is solved by one sort and one sweep",
            {
                f"{k:,} of {clients:,} clients": Limit(
                    "at least", solver_time(place), Arm("exact", "the sweep"), SECOND
                )
                for place, (clients, k) in enumerate(SOLVED)
            },
        ),
    ),
)

ANNEALING = (
    claim(
        "degrees",
        Parts({f"{k} of {n}": neighbours(n, k) for n, k in DEGREES}),
        looked_at(
            "states differ widely in their degree",
            {
                f"largest, {k} of {n}": Limit(
                    "at most", degree(n, k, "largest"), Arm(f"degrees/{n}-{k}", "ALSA"), BOUND
                )
                for n, k in DEGREES
            },
        ),
    ),
    claim(
        "edges",
        Parts(
            {
                "a majority": Limit("at least", IDLE, GRAPH, HALF),
                "more than among the others": Limit("at least", EXCESS, GRAPH, ANY),
            }
        ),
        looked_at(
            "the same holds of any edge",
            {
                f"{which} energy alone, {what}": Limit("at least", number(f"{which}_{column}", what), GRAPH, HALF)
                for which in ("low", "similar")
                for column, what in (("extra", "edges left out"), ("kept", "edges kept"))
            },
        ),
    ),
    claim(
        "alsa-wins",
        AsPrinted(
            WalkerRaces(Arm(f"race/{PRINTED}/{ALSA}", "ALSA (Eq. 19, temperature of Theorem 2)"), WINS), [ONE_SIDED_ARM]
        ),
        RACES_LOOKED_AT,
    ),
    claim(
        "alsa-faster",
        energies(PRINTED, ALSA, closer),
        looked_at(
            "at the printed temperature both walk at random, and the code has another neighbourhood",
            {
                "the code's one-sided neighbourhood at the printed temperature": energies(PRINTED, ONE_SIDED, closer),
                "Eq. 19 at the temperature of the code": energies(CODE, ALSA, closer),
                "the code's one-sided neighbourhood at its temperature": energies(CODE, ONE_SIDED, closer),
            },
        ),
    ),
    claim(
        "theorem-2",
        Parts(
            {
                "the graph is connected": Limit("at least", CONNECTED, Arm("graph", "ALSA's, 4 of 8 clients"), ALL),
                "within the steps of Fig. 4": energies(PRINTED, ALSA, there),
            }
        ),
        looked_at(
            "the temperature falls too slowly for any run that ends",
            {
                "4 of 8 clients, as many steps": Limit(
                    "at most", REMAINING, Arm("energy/small/alsa", "ALSA"), PERCENT_5
                ),
                "the temperature of the code": energies(CODE, ALSA, there),
                "the same, one-sided": energies(CODE, ONE_SIDED, there),
            },
        ),
    ),
)

REGRET = (
    claim(
        "theorem-1",
        growing(TWO_SPEEDS, "counted"),
        looked_at("losses of every size", {"all losses": growing(TWO_SPEEDS, "pseudo", within=False)}),
    ),
    claim(
        "logarithmic",
        growing(SMALL, "pseudo"),
        looked_at("small losses", {"large losses": growing(SMALL, "counted", within=False)}),
    ),
    claim(
        "logarithmic-large",
        growing(LARGE, "pseudo"),
        looked_at("small losses", {"large losses": growing(LARGE, "counted", within=False)}),
    ),
    claim(
        "rivals-linear",
        Parts(linear(SMALL)),
        looked_at("speeds differ little among the fast", linear(TWO_SPEEDS, "two speeds, ")),
    ),
    claim(
        "bound",
        bounded(TWO_SPEEDS, "counted"),
        looked_at("the bound holds of large losses only", {"all losses": bounded(TWO_SPEEDS, "pseudo")}),
    ),
    claim(
        "printed-regret",
        RegretGrowth("as ln n", regret(SMALL, IID, "bsfl"), "printed"),
        looked_at(
            "Eq. 7 compares a mean of minima with a minimum of means",
            {
                "regret of the genie itself": RegretGrowth(
                    "as ln n", Arm(f"regret/{SMALL}/{IID}/genie", "the genie"), "printed"
                )
            },
            genies,
        ),
    ),
)

SELECTED = (
    claim(
        "fastest-only",
        AsPrinted(
            Limit("at least", FASTEST, Arm(f"regret/{SMALL}/{IID}/cs-ucb", "CS-UCB"), NINE_TENTHS),
            [Arm(f"regret/{SMALL}/{IID}/cs-ucb-default", "our default of CS-UCB")],
        ),
        looked_at(
            "fast clients differ by less than the bonus",
            {
                "with a hundredth of the bonus": Limit(
                    "at least", FASTEST, Arm(f"regret/{SMALL}/{IID}/cs-ucb-bold", "CS-UCB"), NINE_TENTHS
                )
            },
            bold_cs_ucb,
        ),
    ),
    claim("alpha", traded("printed"), looked_at("g is small beside the bonus", {"our default": traded("default")})),
)

TRAINING = (
    *(
        claim(f"linear-{scenario}", leads("linear", scenario, FINAL_LOSS, NOISE), [("linear", scenario)])
        for scenario in BOTH
    ),
    *(claim(f"pictures-{scenario}", best("mlp", [scenario]), [("mlp", scenario)]) for scenario in BOTH),
    claim("cnn", best("cnn", [NON_IID]), [("cnn", NON_IID)]),
    claim("cnn-dropout", best("cnn-dropout", [NON_IID]), [("cnn-dropout", NON_IID)]),
    claim("cifar10", best(CIFAR), [(CIFAR, IID), (CIFAR, NON_IID)]),
    claim(
        "quality",
        Contrast(
            "greater",
            FINAL_ACCURACY,
            Arm(train_key("quality", IID, "bsfl"), "BSFL with Eq. 4"),
            [Arm(train_key("quality", IID, "bsfl-eq-3"), "BSFL with Eq. 3")],
            POINT,
        ),
        [("quality", IID)],
    ),
    claim("part-time", best("part-time", [NON_IID]), [("part-time", NON_IID)]),
    claim("overfitting", ahead(FINAL_ACCURACY, "cs-ucb", POINT), [("mlp", NON_IID)]),
    claim("sooner", ahead(SECONDS_TO_TARGET, "size-proportional", TENTH), [("mlp", NON_IID)]),
    claim("superior", best("mlp", BOTH, existing=True), [("mlp", IID), ("mlp", NON_IID)]),
)
CLAIMS = (*PROBLEM, *ANNEALING, *REGRET, *SELECTED, *TRAINING)
