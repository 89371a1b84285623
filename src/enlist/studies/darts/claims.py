"""What the report and the slides say, each with the rule that judges it; the words are in claims.toml.

Claims that came after the study's first run, and those whose rule or measurement was changed when its results were
known, say so there (`added`); all of them are judged on seeds it did not have.
"""

from __future__ import annotations

from enlist.studies.claims import FollowUp, QuotedClaims
from enlist.studies.darts import experiments
from enlist.studies.darts.experiments import server_arm
from enlist.studies.darts.measures import (
    AGREEMENT,
    CLEAN,
    JUMP,
    MEMORY,
    PER_SAMPLE,
    SAMPLES_TO_TARGET,
    SERVER,
    STEEPENING,
    TIME,
    TIME_DEVIATION,
    UNFAIR,
    VARIATION,
    accuracy_after,
)
from enlist.studies.darts.rules import JUST_ABOVE, LARGEST, ONE_CLASS, SMALLEST, Typical, takes_sixteen, weightings
from enlist.studies.darts.settings import (
    AGAIN,
    DEFAULT,
    NO_EPSILON,
    NO_START,
    NOISY,
    OORT,
    PRINTED,
    RANDOM,
    REPORTED,
    ROTATION,
    STRETCHED,
)
from enlist.studies.further import looked_at, nothing, replicated
from enlist.studies.margins import HALF, PERCENT_5, POINT, TENTH, Margin
from enlist.studies.measures import EVENNESS, FINAL_ACCURACY, ROUNDS_TO_TARGET, SECONDS_TO_TARGET, Measure
from enlist.studies.parts import AsPrinted, Parts
from enlist.studies.rules import Arm, Contrast, Share, Untestable

BALANCED, PLAIN_DRAWS = Arm("draws/balanced", "draws"), Arm("draws/plain", "draws without balancing")
PROFILE, POPULATIONS = Arm("profile", "on this machine"), Arm("profile", "populations")
SERVERS = {arm: server_arm(arm) for arm in (RANDOM, PRINTED, DEFAULT)}
TRAITS = {"largest": LARGEST, "smallest": SMALLEST, "one class": ONE_CLASS, "just above a twelfth": JUST_ABOVE}
NOBODY_BETTER = "under label skew no client is better than others by itself; here a third holds wrong labels only"
READINGS, WITH_ROTATION = (STRETCHED, DEFAULT), (STRETCHED, DEFAULT, ROTATION)

LEAD = REPORTED[PRINTED][20] - REPORTED[RANDOM][20]
"""What the report's UCB leads by after round 20, its last."""
POINTS = Margin(0.02, f"two points of accuracy, about a sixth of the {100 * LEAD:.1f} that the report's UCB leads by")
CORRELATED = Margin(0.2, "between a small (0.1) and a medium (0.3) correlation by Cohen's convention")
MILLISECOND = Margin(1.0, "one millisecond a round; less nobody would notice")


def _better(measure: Measure, margin: float, rival: Arm = RANDOM, of: Arm = PRINTED) -> Contrast:
    """One method is better than another; targets are random's."""
    return Contrast("greater", measure, of, [rival], margin, RANDOM)


def _printed(measure: Measure, margin: float, beside: tuple[Arm, ...] = READINGS, rival: Arm = RANDOM) -> AsPrinted:
    """The printed algorithm has to be better than a rival; the other reading and our default stand beside it."""
    return AsPrinted(_better(measure, margin, rival), beside)


def _leading(measure: Measure) -> AsPrinted:
    """The same, where the report has a number: the lead after its last round."""
    return AsPrinted(Contrast("greater", measure, PRINTED, [RANDOM], POINTS, RANDOM, LEAD), READINGS)


def _growing(measure: Measure) -> Contrast:
    """A ratio within the profile that has to be above 1."""
    return Contrast("greater", measure, PROFILE, [], TENTH)


def _typical(of: Arm) -> Parts:
    """All traits of the report's draw."""
    return Parts({name: Typical(trait, of) for name, trait in TRAITS.items()})


def _with_wrong_labels(measure: Measure, margin: float) -> FollowUp:
    """UCB as printed and our default against random where some clients are worse than others."""
    rules = {
        f"{arm.name} against random": Contrast("greater", measure, NOISY[arm], [NOISY[RANDOM]], margin)
        for arm in (PRINTED, DEFAULT)
    }
    return looked_at(NOBODY_BETTER, rules, experiments.noisy)


SERVER_RULE = Contrast("greater", SERVER, SERVERS[PRINTED], [SERVERS[RANDOM]], MILLISECOND)
COSTS = {"samples": SAMPLES_TO_TARGET, "time": SECONDS_TO_TARGET}
claim = QuotedClaims("enlist.studies.darts").claim
CLAIMS = (
    claim(
        "skew",
        _typical(BALANCED),
        looked_at("the partition is not balanced", {"without balancing": _typical(PLAIN_DRAWS)}),
    ),
    claim(
        "time",
        Parts({"time": _growing(TIME), "deviation": _growing(TIME_DEVIATION)}),
        looked_at("what is constant per mini-batch hides what grows with it", {"per sample": _growing(PER_SAMPLE)}),
    ),
    claim(
        "memory",
        Parts({"memory": _growing(MEMORY), "steeper": _growing(STEEPENING)}),
        looked_at(
            "memory grows in proportion, and batch sizes double from bar to bar",
            {"memory, largest over smallest": _growing(MEMORY), "of a further sample": _growing(STEEPENING)},
        ),
    ),
    claim(
        "sixteen",
        Share("our rule takes 16", takes_sixteen, POPULATIONS, HALF),
        FollowUp("the choice hangs on what time, memory and accuracy weigh", nothing, weightings),
    ),
    claim(
        "faster",
        _printed(ROUNDS_TO_TARGET, TENTH, WITH_ROTATION),
        looked_at(
            "the luck of the draws is as large",
            {"random with other draws, its rounds to random's target": _better(ROUNDS_TO_TARGET, TENTH, of=AGAIN)},
            experiments.random_again,
        ),
    ),
    claim(
        "rewards",
        _printed(ROUNDS_TO_TARGET, TENTH, rival=ROTATION),
        looked_at(
            "the printed bonus is so wide that rewards hardly have a say",
            {
                "evenness, the rotation − UCB as printed": _better(UNFAIR, PERCENT_5, ROTATION),
                "final accuracy, UCB as printed − the rotation": _better(FINAL_ACCURACY, POINTS, ROTATION),
            },
        ),
    ),
    claim(
        "thriftier",
        Parts({name: _printed(measure, TENTH, WITH_ROTATION) for name, measure in COSTS.items()}),
        looked_at(
            "the reward does not know what a client costs",
            {
                f"{name} of Oort, which is told losses and times, against random": _better(measure, TENTH, of=OORT)
                for name, measure in COSTS.items()
            },
            experiments.oort,
        ),
    ),
    claim("accuracy", _leading(FINAL_ACCURACY), _with_wrong_labels(FINAL_ACCURACY, POINTS)),
    claim(
        "adaptive",
        Parts(
            {
                "uneven": _printed(VARIATION, TENTH),
                "right": AsPrinted(Contrast("greater", AGREEMENT, PRINTED, [], CORRELATED, RANDOM), READINGS),
            }
        ),
        _with_wrong_labels(CLEAN, PERCENT_5),
    ),
    claim(
        "exploration",
        Parts({arm.name: _better(FINAL_ACCURACY, POINTS, arm) for arm in (NO_EPSILON, NO_START)}),
        looked_at(
            "the printed bonus explores enough by itself",
            {
                f"evenness, {arm.name} − UCB as printed": _better(EVENNESS, PERCENT_5, PRINTED, of=arm)
                for arm in (NO_EPSILON, NO_START)
            },
        ),
    ),
    claim(
        "steadier",
        _printed(JUMP, POINT, WITH_ROTATION),
        looked_at(
            "the printed bonus drowns the rewards and leaves a rotation",
            {"jumps, the rotation's − UCB's as printed": _better(JUMP, POINT, ROTATION)},
        ),
    ),
    claim(
        "round-1",
        Untestable(
            "the first 5 rounds of UCB are random as well, so that with the same draws the difference is 0 by "
            "construction, and with others it is luck; 'The first rounds' shows how far populations are apart"
        ),
        FollowUp("luck", nothing, lambda results: ""),
    ),
    claim(
        "round-20",
        _leading(accuracy_after(20)),
        looked_at(
            "a single round of a single run decides nothing",
            {"random with other draws − random": _better(accuracy_after(20), POINTS, of=AGAIN)},
            experiments.random_again,
        ),
    ),
    claim(
        "server",
        AsPrinted(SERVER_RULE, (SERVERS[DEFAULT],)),
        replicated(experiments.experiments, [arm.key for arm in SERVERS.values()], SERVER_RULE),
    ),
    claim(
        "fairness",
        _printed(UNFAIR, PERCENT_5),
        looked_at(
            "the printed bonus is so wide that everybody is asked in turn",
            {"evenness, the rotation's − UCB's as printed": _better(UNFAIR, PERCENT_5, ROTATION)},
        ),
    ),
    claim(
        "default",
        Parts(
            {
                "final accuracy": _better(FINAL_ACCURACY, POINTS, PRINTED, of=DEFAULT),
                "rounds to the target": _better(ROUNDS_TO_TARGET, TENTH, PRINTED, of=DEFAULT),
            }
        ),
        looked_at(
            NOBODY_BETTER,
            {
                "final accuracy, our default − UCB as printed": Contrast(
                    "greater", FINAL_ACCURACY, NOISY[DEFAULT], [NOISY[PRINTED]], POINTS
                )
            },
            experiments.noisy,
        ),
    ),
)
