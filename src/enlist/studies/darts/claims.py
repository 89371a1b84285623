"""What the report and the slides say, each with the rule that judges it.

Margins are those that were set before the first run of the study. Claims that came later, and those whose rule or
measurement was changed when its results were known, say so (`added`); all of them are judged on seeds it did not have.
"""

from __future__ import annotations

from enlist.studies.claims import Claim, Further
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
from enlist.studies.darts.rules import (
    JUST_ABOVE,
    LARGEST,
    ONE_CLASS,
    SMALLEST,
    Trait,
    Typical,
    takes_sixteen,
    weightings,
)
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
    SPREADS,
    STRETCHED,
)
from enlist.studies.further import looked_at, nothing, replicated
from enlist.studies.measures import EVENNESS, FINAL_ACCURACY, ROUNDS_TO_TARGET, SECONDS_TO_TARGET, Measure
from enlist.studies.rules import Arm, AsPrinted, Parts, Rule, Share, Untestable

REPORT, SLIDES = "report", "slides"
BALANCED, PLAIN_DRAWS = Arm("draws/balanced", "draws"), Arm("draws/plain", "draws without balancing")
PROFILE, POPULATIONS = Arm("profile", "on this machine"), Arm("profile", "populations")
SERVERS = {arm: server_arm(arm) for arm in (RANDOM, PRINTED, DEFAULT)}
TRAITS = {"largest": LARGEST, "smallest": SMALLEST, "one class": ONE_CLASS, "just above a twelfth": JUST_ABOVE}
NOBODY_BETTER = "under label skew no client is better than others by itself; here a third holds wrong labels only"

POINTS = 0.02
"""Least difference in accuracy that matters."""
TENTH = 0.1
"""Least saving or growth that matters."""
LEAD = REPORTED[PRINTED][20] - REPORTED[RANDOM][20]
"""What the report's UCB leads by after round 20, its last."""


def _printed(
    key: str,
    measure: Measure,
    margin: float,
    rival: Arm = RANDOM,
    beside: tuple[Arm, ...] = (STRETCHED, DEFAULT),
    claimed: float | None = None,
) -> AsPrinted:
    """The printed algorithm has to be better than a rival; the other reading and our default stand beside it."""
    rule = Rule("greater", measure, PRINTED, [rival], margin, RANDOM, claimed, SPREADS.get(key))
    return AsPrinted(rule, beside)


def _growing(key: str, measure: Measure) -> Rule:
    """A ratio within the profile that has to be above 1."""
    return Rule("greater", measure, PROFILE, [], TENTH, spread=SPREADS.get(key))


def _against(measure: Measure, one: Arm, other: Arm, margin: float) -> Rule:
    """A comparison that a further experiment makes; targets are random's."""
    return Rule("greater", measure, one, [other], margin, RANDOM)


def _typical(of: Arm, traits: dict[str, Trait]) -> Parts:
    """All traits of the report's draw."""
    return Parts({name: Typical(trait, of) for name, trait in traits.items()})


def _with_wrong_labels(measure: Measure, margin: float) -> Further:
    """UCB as printed and our default against random where some clients are worse than others."""
    rules = {
        f"{arm.name} against random": Rule("greater", measure, NOISY[arm], [NOISY[RANDOM]], margin)
        for arm in (PRINTED, DEFAULT)
    }
    return looked_at(NOBODY_BETTER, rules, experiments.noisy)


SKEW = Claim(
    "skew",
    "Labels and sizes are as unequal as in Table 1",
    "Shares drawn from a Dirichlet distribution with parameter 0.05 leave several clients with a single class, and "
    "sizes from 240 to 7,513 of 50,000 samples. The table is one draw; the question is how typical it is of them.",
    f"{REPORT}, section 1 and Table 1",
    "clients of one class; 0.5 % to 15 % of the samples; four of the six clients listed just above a twelfth",
    "",
    _typical(BALANCED, TRAITS),
    looked_at("the partition is not balanced", {"without balancing": _typical(PLAIN_DRAWS, TRAITS)}),
    added=True,
)
SLOWER = Claim(
    "time",
    "Larger mini-batches take longer, and vary more",
    "The time of a mini-batch and its standard deviation rise with the batch size.",
    f"{REPORT}, section 2.1, Figs. 3a and 5",
    "rising bars",
    "",
    Parts({"time": _growing("time/time", TIME), "deviation": _growing("time/deviation", TIME_DEVIATION)}),
    looked_at("what is constant per mini-batch hides what grows with it", {"per sample": _growing("", PER_SAMPLE)}),
    added=True,
)
HUNGRIER = Claim(
    "memory",
    "Memory grows with the batch size, and ever more steeply",
    "Memory rises slowly at first and then more steeply as mini-batches grow.",
    f"{REPORT}, section 2.1, Fig. 3b",
    "rising bars, steeper to the right",
    "",
    Parts({"memory": _growing("memory/memory", MEMORY), "steeper": _growing("memory/steeper", STEEPENING)}),
    looked_at(
        "memory grows in proportion, and batch sizes double from bar to bar",
        {"memory, largest over smallest": _growing("", MEMORY), "of a further sample": _growing("", STEEPENING)},
    ),
    added=True,
)
SIXTEEN = Claim(
    "sixteen",
    "Batch size 16 is the best compromise",
    "Weighing time, memory and accuracy, 16 is the batch size to take. The report states no rule; ours takes the least "
    "mean of time per sample, memory and lack of accuracy on the client's own samples, each brought to 0..1 over the "
    "sizes offered.",
    f"{REPORT}, section 2.2",
    "16, by no stated rule",
    "",
    Share("our rule takes 16", takes_sixteen, POPULATIONS, 0.5),
    Further("the choice hangs on what time, memory and accuracy weigh", nothing, weightings),
    added=True,
)
FASTER = Claim(
    "faster",
    "UCB converges faster than random selection",
    "Selection by UCB reaches a given accuracy in fewer rounds than random selection. Whether its rewards are the "
    "reason is the next claim.",
    f"{SLIDES}, benefits",
    "no number",
    "",
    _printed("faster", ROUNDS_TO_TARGET, TENTH, beside=(STRETCHED, DEFAULT, ROTATION)),
    looked_at(
        "the luck of the draws is as large",
        {"random with other draws, its rounds to random's target": _against(ROUNDS_TO_TARGET, AGAIN, RANDOM, TENTH)},
        experiments.random_again,
    ),
)
REWARDS = Claim(
    "rewards",
    "It is the rewards that make it faster",
    "The gain in accuracy that is credited to clients finds those who are worth asking, and that, rather than turns, "
    "saves rounds.",
    f"{REPORT}, section 3",
    "no number; UCB is compared with random selection only",
    "",
    _printed("rewards", ROUNDS_TO_TARGET, TENTH, rival=ROTATION),
    looked_at(
        "the printed bonus is so wide that rewards hardly have a say",
        {
            "evenness, the rotation − UCB as printed": _against(UNFAIR, PRINTED, ROTATION, 0.05),
            "final accuracy, UCB as printed − the rotation": _against(FINAL_ACCURACY, PRINTED, ROTATION, POINTS),
        },
    ),
    added=True,
)
THRIFTIER = Claim(
    "thriftier",
    "UCB uses resources more efficiently",
    "Selection by UCB reaches a given accuracy with less work of the clients, and in less time.",
    f"{SLIDES}, benefits",
    "no number",
    "",
    Parts(
        {
            name: _printed(f"thriftier/{name}", measure, TENTH, beside=(STRETCHED, DEFAULT, ROTATION))
            for name, measure in {"samples": SAMPLES_TO_TARGET, "time": SECONDS_TO_TARGET}.items()
        }
    ),
    looked_at(
        "the reward does not know what a client costs",
        {
            f"{name} of Oort, which is told losses and times, against random": _against(measure, OORT, RANDOM, TENTH)
            for name, measure in {"samples": SAMPLES_TO_TARGET, "virtual time": SECONDS_TO_TARGET}.items()
        },
        experiments.oort,
    ),
)
MORE_ACCURATE = Claim(
    "accuracy",
    "UCB ends with a higher accuracy",
    "The model that UCB trains is more accurate in the end than that of random selection.",
    f"{SLIDES}, benefits; {REPORT}, section 3",
    "at round 20, its last: 61.05 % against 49.38 %",
    "",
    _printed("accuracy", FINAL_ACCURACY, POINTS, claimed=LEAD),
    _with_wrong_labels(FINAL_ACCURACY, POINTS),
)
ADAPTIVE = Claim(
    "adaptive",
    "UCB adapts its selection to what it learns",
    "From the rewards, UCB learns which clients are worth asking, and asks them more often.",
    f"{SLIDES}, benefits; {REPORT}, section 3",
    "no number",
    "",
    Parts(
        {
            "uneven": _printed("adaptive/uneven", VARIATION, 0.1),
            "right": AsPrinted(
                Rule("greater", AGREEMENT, PRINTED, [], 0.2, RANDOM, spread=SPREADS.get("adaptive/right")),
                (STRETCHED, DEFAULT),
            ),
        }
    ),
    _with_wrong_labels(CLEAN, 0.05),
)
EXPLORATION = Claim(
    "exploration",
    "Random rounds are worth it",
    "The rounds that are random with probability ε, and those at the start, ensure sufficient exploration.",
    f"{REPORT}, appendix",
    "no number; ε = 0.1, 5 rounds at the start",
    "",
    Parts(
        {
            arm.name: Rule(
                "greater", FINAL_ACCURACY, PRINTED, [arm], POINTS, spread=SPREADS.get(f"exploration/{arm.name}")
            )
            for arm in (NO_EPSILON, NO_START)
        }
    ),
    looked_at(
        "the printed bonus explores enough by itself",
        {
            f"evenness, {arm.name} − UCB as printed": Rule("greater", EVENNESS, arm, [PRINTED], 0.05)
            for arm in (NO_EPSILON, NO_START)
        },
    ),
    added=True,
)
STEADIER = Claim(
    "steadier",
    "Random selection fluctuates more",
    "The accuracy under random selection is less consistent from round to round than under UCB.",
    f"{REPORT}, Fig. 6",
    "two curves of 20 rounds",
    "",
    _printed("steadier", JUMP, 0.01, beside=(STRETCHED, DEFAULT, ROTATION)),
    looked_at(
        "the printed bonus drowns the rewards and leaves a rotation",
        {"jumps, the rotation's − UCB's as printed": _against(JUMP, PRINTED, ROTATION, 0.01)},
    ),
)
FIRST_ROUND = Claim(
    "round-1",
    "UCB leads after the first round",
    "After one round the model of UCB is far ahead of that of random selection.",
    f"{REPORT}, Table 2",
    "89.81 % against 77.81 %: +12.00 points",
    "",
    Untestable(
        "the first 5 rounds of UCB are random as well, so that with the same draws the difference is 0 by "
        "construction, and with others it is luck; 'The first rounds' shows how far populations are apart"
    ),
    Further("luck", nothing, lambda results: ""),
    added=True,
)
TWENTIETH_ROUND = Claim(
    "round-20",
    "UCB leads after 20 rounds",
    "After a dip (53.00 % against 76.37 % at round 10), UCB is ahead again at round 20.",
    f"{REPORT}, Table 2",
    "61.05 % against 49.38 %: +11.67 points",
    "",
    _printed("round-20", accuracy_after(20), POINTS, claimed=LEAD),
    looked_at(
        "a single round of a single run decides nothing",
        {"random with other draws − random": _against(accuracy_after(20), AGAIN, RANDOM, POINTS)},
        experiments.random_again,
    ),
)
DEARER = Claim(
    "server",
    "UCB gives the server more work",
    "Choosing, learning and evaluating the model for the reward cost the server time that random selection does not.",
    f"{SLIDES}, trade-offs",
    "no number",
    "",
    AsPrinted(
        Rule("greater", SERVER, SERVERS[PRINTED], [SERVERS[RANDOM]], 1.0, spread=SPREADS.get("server")),
        (SERVERS[DEFAULT],),
    ),
    replicated(
        experiments.experiments,
        [arm.key for arm in SERVERS.values()],
        Rule("greater", SERVER, SERVERS[PRINTED], [SERVERS[RANDOM]], 1.0),
    ),
)
FAIRNESS = Claim(
    "fairness",
    "UCB is less fair to clients",
    "Clients that bring more are asked more often, and others are left out.",
    f"{SLIDES}, trade-offs",
    "no number (a table of the slides, which does not name the selection: 7 times, the next four twice each)",
    "",
    _printed("fairness", UNFAIR, 0.05),
    looked_at(
        "the printed bonus is so wide that everybody is asked in turn",
        {"evenness, the rotation's − UCB's as printed": _against(UNFAIR, PRINTED, ROTATION, 0.05)},
    ),
)
BETTER_DEFAULT = Claim(
    "default",
    "Our default is better than the printed rule",
    "A narrower bonus (c = 0.3) and gains stretched between their 5 % and 95 % quantiles, as our default has them, "
    "help.",
    "our own documentation",
    "not in the paper",
    "",
    Parts(
        {
            name: Rule("greater", measure, DEFAULT, [PRINTED], margin, RANDOM, spread=SPREADS.get(f"default/{name}"))
            for name, measure, margin in (
                ("final accuracy", FINAL_ACCURACY, POINTS),
                ("rounds to the target", ROUNDS_TO_TARGET, TENTH),
            )
        }
    ),
    looked_at(
        NOBODY_BETTER,
        {
            "final accuracy, our default − UCB as printed": Rule(
                "greater", FINAL_ACCURACY, NOISY[DEFAULT], [NOISY[PRINTED]], POINTS
            )
        },
        experiments.noisy,
    ),
    added=True,
)
CLAIMS = (
    SKEW,
    SLOWER,
    HUNGRIER,
    SIXTEEN,
    FASTER,
    REWARDS,
    THRIFTIER,
    MORE_ACCURATE,
    ADAPTIVE,
    EXPLORATION,
    STEADIER,
    FIRST_ROUND,
    TWENTIETH_ROUND,
    DEARER,
    FAIRNESS,
    BETTER_DEFAULT,
)
