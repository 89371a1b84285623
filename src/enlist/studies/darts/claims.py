"""What the report says: each benefit, each cost, and what it observes on data, mini-batches and curves."""

from __future__ import annotations

from enlist.studies.claims import Claim
from enlist.studies.darts import causes, profile_causes, profile_rules, rules

REPORT, SLIDES = "report", "slides"

DATA = Claim(
    "skew",
    "Labels and sizes are very unequal",
    "Shares drawn from a Dirichlet distribution with parameter 0.05 leave several clients with a single class, and "
    "sizes that span more than an order of magnitude.",
    f"{REPORT}, section 1 and Table 1",
    "clients of one class; from 240 to 7,513 of 50,000 samples (0.5 % to 15 %)",
    "share of the populations with at least 2 clients of one class (99 % of their samples), one client with less than "
    "2 % and one with more than 14 % of all samples: at least 0.9",
    profile_rules.skewed,
    profile_causes.MORE_POPULATIONS,
)
TIME = Claim(
    "time",
    "Larger mini-batches take longer, and vary more",
    "The time of a mini-batch and its standard deviation rise with the batch size.",
    f"{REPORT}, section 2.1, Figs. 3a and 5",
    "rising bars",
    "largest over smallest batch size, of the mean time and of its standard deviation, in each population: interval "
    "above 1, mean at least 1.1",
    profile_rules.slower_and_looser,
    profile_causes.PER_SAMPLE,
)
MEMORY = Claim(
    "memory",
    "Memory grows with the batch size, and ever more steeply",
    "Memory rises slowly at first and then more steeply as mini-batches grow.",
    f"{REPORT}, section 2.1, Fig. 3b",
    "rising bars, steeper to the right",
    "largest over smallest batch size, of memory, and of what a further sample takes (between the largest two sizes, "
    "between the smallest two), each: interval above 1, mean at least 1.1",
    profile_rules.hungrier,
    profile_causes.LINEAR,
)
SIXTEEN = Claim(
    "sixteen",
    "Batch size 16 is the best compromise",
    "Weighing time, memory and accuracy, 16 is the batch size to take.",
    f"{REPORT}, section 2.2",
    "16, by no stated rule",
    "share of the populations in which our rule (least mean of time per sample, memory and lack of accuracy on the "
    "client's own samples, each brought to 0..1 over the sizes offered) takes 16: at least 0.5",
    profile_rules.best_is_sixteen,
    profile_causes.WEIGHTS,
)
FASTER = Claim(
    "faster",
    "UCB converges faster than random selection",
    "Selection by UCB reaches a given accuracy in fewer rounds than random selection. Whether its rewards are the "
    "reason is the next claim.",
    f"{SLIDES}, benefits",
    "no number",
    "rounds until the mean of five evaluations reaches nine tenths of random's final accuracy on the same population, "
    "random's over UCB's, geometric mean: interval above 1, mean at least 1.1",
    rules.faster,
    causes.SAME_DRAWS,
)
REWARDS = Claim(
    "rewards",
    "It is the rewards that make it faster",
    "The gain in accuracy that is credited to clients finds those who are worth asking, and that, rather than turns, "
    "saves rounds.",
    f"{REPORT}, section 3",
    "no number; UCB is compared with random selection only",
    "rounds until the same target, those of a rotation (the printed algorithm with a bonus so wide that rewards have "
    "no say) over UCB's, geometric mean: interval above 1, mean at least 1.1, as in the other rules",
    rules.rewarding,
    causes.HARDLY_A_SAY,
    added=True,
)
THRIFTIER = Claim(
    "thriftier",
    "UCB uses resources more efficiently",
    "Selection by UCB reaches a given accuracy with less work of the clients, and in less time.",
    f"{SLIDES}, benefits",
    "no number",
    "samples trained on, and virtual seconds, until the same target, random's over UCB's, each: interval above 1, mean "
    "at least 1.1",
    rules.thriftier,
    causes.BLIND_TO_COST,
)
MORE_ACCURATE = Claim(
    "accuracy",
    "UCB ends with a higher accuracy",
    "The model that UCB trains is more accurate in the end than that of random selection.",
    f"{SLIDES}, benefits; {REPORT}, section 3",
    "at round 20, its last: 61.05 % against 49.38 %",
    "mean test accuracy over the last tenth of the rounds, UCB − random: interval above 0, mean at least 2 points",
    rules.more_accurate,
    causes.NOBODY_BETTER,
)
BETTER_DEFAULT = Claim(
    "default",
    "Our default is better than the printed rule",
    "A narrower bonus (c = 0.3) and gains stretched to 0..1, as our default has them, help.",
    "our own documentation",
    "not in the paper",
    "default against printed: mean test accuracy over the last tenth of the rounds, interval above 0, mean at least 2 "
    "points; rounds until the same target, printed over default, geometric mean, interval above 1, mean at least 1.1: "
    "the margins of the other rules",
    rules.default_is_better,
    causes.LITTLE_TO_LEARN,
    added=True,
)
ADAPTIVE = Claim(
    "adaptive",
    "UCB adapts its selection to what it learns",
    "From the rewards, UCB learns which clients are worth asking, and asks them more often.",
    f"{SLIDES}, benefits; {REPORT}, section 3",
    "no number",
    "after the initial rounds: coefficient of variation of how often clients are asked, UCB − random: interval above "
    "0, mean at least 0.1; and rank correlation with what clients were worth under random selection: interval above 0, "
    "mean at least 0.2",
    rules.adaptive,
    causes.NOBODY_TO_FIND,
)
STEADIER = Claim(
    "steadier",
    "Random selection fluctuates more",
    "The accuracy under random selection is less consistent from round to round than under UCB.",
    f"{REPORT}, Fig. 6",
    "two curves of 20 rounds",
    "mean change of the test accuracy from round to round, random − UCB: interval above 0, mean at least 1 point",
    rules.steadier,
    causes.A_ROTATION,
)
FIRST_ROUND = Claim(
    "round-1",
    "UCB leads after the first round",
    "After one round the model of UCB is far ahead of that of random selection.",
    f"{REPORT}, Table 2",
    "89.81 % against 77.81 %: +12.00 points",
    "test accuracy after round 1, UCB − random: interval above 0, mean at least 2 points",
    rules.ahead_at(1),
    causes.FIRST_DRAW,
)
TWENTIETH_ROUND = Claim(
    "round-20",
    "UCB leads after 20 rounds",
    "After a dip (53.00 % against 76.37 % at round 10), UCB is ahead again at round 20.",
    f"{REPORT}, Table 2",
    "61.05 % against 49.38 %: +11.67 points",
    "test accuracy after round 20, UCB − random: interval above 0, mean at least 2 points (the mean of five rounds "
    "stands beside it and does not decide)",
    rules.ahead_at(20),
    causes.LATER_DRAW,
)
SERVER = Claim(
    "server",
    "UCB gives the server more work",
    "Choosing, learning and evaluating the model for the reward cost the server time that random selection does not.",
    f"{SLIDES}, trade-offs",
    "no number",
    "milliseconds per round, UCB − random, 12 clients, one core: interval above 0, mean at least 1 ms",
    rules.dearer,
    causes.PARTS,
)
FAIRNESS = Claim(
    "fairness",
    "UCB is less fair to clients",
    "Clients that bring more are asked more often, and others are left out.",
    f"{SLIDES}, trade-offs",
    "no number (a table of the slides, which does not name the selection: 7 times, the next four twice each)",
    "Jain's index of how often clients are asked, random − UCB: interval above 0, mean at least 0.05",
    rules.less_fair,
    causes.TOO_WIDE,
)
CLAIMS = (
    DATA,
    TIME,
    MEMORY,
    SIXTEEN,
    FASTER,
    REWARDS,
    THRIFTIER,
    MORE_ACCURATE,
    ADAPTIVE,
    STEADIER,
    FIRST_ROUND,
    TWENTIETH_ROUND,
    SERVER,
    FAIRNESS,
    BETTER_DEFAULT,
)
