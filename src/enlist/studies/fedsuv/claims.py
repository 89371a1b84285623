"""What the paper says, claim by claim, each with its rule and with the experiment that follows if it is unclear."""

from __future__ import annotations

from enlist.studies.claims import Claim
from enlist.studies.fedsuv import process_causes, process_rules, training_causes, training_rules
from enlist.studies.fedsuv.paper import AVERAGING, YOGI, gains, places, speed_ups

READ = (
    "The printed rule decides; partly also if late clients that count 0, on which the paper is silent, make it so. Our "
    "default, which is not the paper's, is said beside it."
)
SPEED_UP = (
    "speed-up in rounds, interval above 1, mean at least 1.05, in every task in which the reading was run; a seed that "
    "never gets there, while random selection does, rules it out (this last part was added after the first run)"
)
TARGET = (
    "target: 95 % of random selection's final accuracy, rounded down to a whole percent (the paper's own in its five "
    "tasks), met by the mean of three evaluations"
)

TRAINING = (
    Claim(
        key="rounds-averaging",
        title="Fewer rounds than random selection, averaging",
        text="With averaging, FedSUV reaches the target accuracy in fewer rounds than random selection.",
        source="section 6.2, Table 2",
        paper=speed_ups(AVERAGING),
        margin=f"{SPEED_UP}; {TARGET}. {READ}",
        rule=lambda results: training_rules.faster(results, AVERAGING),
        further=training_causes.DEADLINE,
    ),
    Claim(
        key="rounds-yogi",
        title="Fewer rounds than random selection, YoGi",
        text="With YoGi, FedSUV reaches the target accuracy in fewer rounds than random selection.",
        source="section 6.2, Table 2",
        paper=speed_ups(YOGI),
        margin=f"{SPEED_UP}; {TARGET}. {READ}",
        rule=lambda results: training_rules.faster(results, YOGI),
        further=training_causes.LIMIT,
    ),
    Claim(
        key="fastest",
        title="Fewest rounds of the five methods",
        text="FedSUV reaches the target accuracy before FedAvg, SAFA, Oort and REFL, with both aggregations.",
        source="section 6.2, Table 2",
        paper=f"averaging: {places(AVERAGING, 'rounds')}; YoGi: {places(YOGI, 'rounds')}",
        margin=(
            "logarithm of the whole run over the rounds to the target: the highest mean and a certain lead, in every "
            f"task; a rival that is certainly faster, by 5 % or more on average, refutes it; {TARGET}. {READ}"
        ),
        rule=training_rules.fastest,
        further=training_causes.FEATURES,
    ),
    Claim(
        key="how-fast",
        title="Up to 3.54 (averaging) and 2.92 (YoGi) times faster",
        text="The largest speed-up over random selection is 3.54 with averaging and 2.92 with YoGi.",
        source="sections 1 and 6.2, Table 2",
        paper="×3.54 and ×2.92, each on one of five tasks",
        margin=(
            "largest speed-up over tasks: at least 80 % of the paper's, and its interval above 1; partly from 1.5 on; "
            f"{TARGET}. {READ}"
        ),
        rule=training_rules.as_fast_as_said,
        further=training_causes.DEADLINE,
    ),
    Claim(
        key="accuracy-averaging",
        title="Highest final accuracy, averaging",
        text="With averaging, FedSUV ends with the highest accuracy of the five methods, consistently.",
        source="section 6.2, Table 3",
        paper=places(AVERAGING, "accuracy"),
        margin=(
            "mean of the last three evaluations: the highest mean and a certain lead, in every task; a rival that is "
            f"certainly better, by half a point or more on average, refutes it. {READ}"
        ),
        rule=lambda results: training_rules.most_accurate(results, AVERAGING),
        further=training_causes.FORGET,
    ),
    Claim(
        key="accuracy-yogi",
        title="Highest final accuracy, YoGi",
        text="With YoGi, FedSUV ends with the highest accuracy of the five methods, consistently.",
        source="section 6.2, Table 3",
        paper=f"{places(YOGI, 'accuracy')} (REFL is better on FEMNIST)",
        margin=(
            "mean of the last three evaluations: the highest mean and a certain lead, in every task; a rival that is "
            f"certainly better, by half a point or more on average, refutes it. {READ}"
        ),
        rule=lambda results: training_rules.most_accurate(results, YOGI),
        further=training_causes.LIMIT,
    ),
    Claim(
        key="gain",
        title="A clear gain over the worst method",
        text="FedSUV's final accuracy exceeds that of the worst of the other four by 2.6 to 30.5 %.",
        source="sections 1 and 6.2, Table 3",
        paper=gains(AVERAGING),
        margin=f"relative gain over the worst of the four: interval above 0, mean at least 2.6 %, every task. {READ}",
        rule=lambda results: training_rules.gains(results, None),
        further=training_causes.SKEWNESS,
    ),
    Claim(
        key="oort",
        title="More accurate than Oort, which couples",
        text="FedSUV is more accurate than Oort, because Oort multiplies validity and utility into one number.",
        source="section 6.2",
        paper="up to 28.31 % (relative), better in 10 of 10 columns",
        margin=f"relative gain over Oort, averaging: interval above 0, mean at least 0.5 %, in every task. {READ}",
        rule=lambda results: training_rules.gains(results, "oort"),
        further=training_causes.SKEWNESS,
    ),
    Claim(
        key="in-time",
        title="Fewer clients are asked in vain",
        text="FedSUV avoids clients that do not finish in time.",
        source="sections 4.4 and 5.1",
        paper="no number",
        margin=f"share in time minus that of random selection: interval above 0, mean at least 0.05. {READ}",
        rule=training_rules.in_time,
        further=training_causes.STUCK,
    ),
    Claim(
        key="decoupling",
        title="Decoupling beats one combined score",
        text="Adding or multiplying validity and utility into one score is worse than treating them apart.",
        source="abstract, sections 1 and 6.2",
        paper="no experiment; Oort and CU-CS are said to suffer from it",
        margin=(
            "printed rule minus the same models with one score, summed or multiplied: final accuracy (interval above "
            "0, mean at least half a point) and valid utility in the selection process (at least 2 % of the optimum)"
        ),
        rule=training_rules.decoupled,
        further=process_causes.RANKING,
    ),
    Claim(
        key="elimination",
        title="Elimination helps",
        text="Removing clients of low validity from the candidates improves the selection.",
        source="section 4.4",
        paper="no experiment",
        margin=(
            "printed rule minus the same without elimination: final accuracy (interval above 0, mean at least half a "
            "point) and valid utility (at least 2 % of the optimum)"
        ),
        rule=training_rules.elimination_helps,
        further=process_causes.RANKING,
    ),
    Claim(
        key="pareto",
        title="The Pareto step costs nothing",
        text="Clients that are classified as not Pareto-optimal need not be selected any more.",
        source="section 4.4, Theorem 5.2",
        paper="no experiment",
        margin=(
            "printed rule minus the same without the Pareto step: the interval lies above −half a point of accuracy, "
            "and above −2 % of the optimum of valid utility"
        ),
        rule=training_rules.pareto_is_free,
        further=process_causes.ON_FRONT,
    ),
    Claim(
        key="default",
        title="Our default is better than the printed rule",
        text="One score, late clients that count 0, narrower intervals and forgetting, as our default has them, help.",
        source="our own documentation",
        paper="not in the paper",
        margin="default minus printed: final accuracy by half a point in every task, valid utility by 2 % of the best",
        rule=training_rules.default_is_better,
        further=training_causes.CHANGES,
    ),
    Claim(
        key="one-score",
        title="One score is a better default than two criteria",
        text="With one score, validity times utility, and late clients that count 0, our FedSUV does better.",
        source="a finding of this study on other seeds (100 to 109), for which the default was changed",
        paper="not in the paper",
        margin="default minus former default: final accuracy by half a point, valid utility by 2 % of the best",
        rule=training_rules.one_score_is_better,
        further=training_causes.STUCK,
    ),
)

PROCESS = (
    Claim(
        key="thirty-rounds",
        title="Low validity leaves after about 30 rounds",
        text="Clients with validity below 0.4 are candidates in about 30 of the first 100 rounds only.",
        source="section 6.3, Fig. 6(a)",
        paper="about 30 of 100 rounds",
        margin=(
            "rounds as a candidate, without noise: interval within 20 to 40 (partly if it lies lower, or reaches "
            "beyond), others at least 1.5 times that"
        ),
        rule=process_rules.leave_early,
        further=process_causes.LEAVING,
    ),
    Claim(
        key="excluded",
        title="Low validity is excluded",
        text="Elimination systematically excludes clients of low validity.",
        source="sections 5 and 6.3",
        paper="no number; the left of Fig. 6(a) is dark",
        margin="share of the clients with validity below 0.4 that are gone by the last round, at least 95 %",
        rule=process_rules.low_are_excluded,
        further=process_causes.STAYING,
    ),
    Claim(
        key="upper-right",
        title="The upper right corner is selected",
        text="FedSUV mostly selects clients whose validity and utility are both high.",
        source="section 6.3, Fig. 6(b)",
        paper="the upper right corner of Fig. 6(b) is bright",
        margin="mean validity and mean utility of those selected, each at least 0.75",
        rule=process_rules.upper_right,
        further=process_causes.CORNER,
    ),
    Claim(
        key="objective",
        title="Most valid utility of all selectors",
        text="FedSUV maximises cumulated utility of valid clients, its own objective, better than other selectors.",
        source="section 3 (OPT)",
        paper="no comparison",
        margin=f"share of the best possible: highest mean and certain lead over all our selectors; 2 % matter. {READ}",
        rule=process_rules.most_valid_utility,
        further=process_causes.RANKING,
    ),
    Claim(
        key="theorem-5-1",
        title="Theorem 5.1: clearly less valid clients are eliminated",
        text="A client whose validity is lower by twice both widths is eliminated with probability 1 − δ/2.",
        source="Theorem 5.1",
        paper="at least 95 % for δ = 0.1",
        margin="of the clients that meet the condition in a round, the share that is gone after it, at least 95 %",
        rule=process_rules.eliminated,
        further=process_causes.CAPPED,
    ),
    Claim(
        key="wrongly",
        title="Nobody is eliminated wrongly",
        text="Who is eliminated is less valid than the client it was compared with.",
        source="section 5.1",
        paper="at most 5 % for δ = 0.1",
        margin="share of the eliminated that are less valid than that client, at least 95 %",
        rule=process_rules.rightly_eliminated,
        further=process_causes.WRONGLY,
    ),
    Claim(
        key="theorem-5-2",
        title="Theorem 5.2: who is pruned is dominated",
        text="A client that is classified as not Pareto-optimal is dominated by another one.",
        source="Theorem 5.2",
        paper="always, if the rectangles hold the truth",
        margin="share of the pruned that are truly dominated, at least 90 %",
        rule=process_rules.rightly_pruned,
        further=process_causes.ON_FRONT,
    ),
    Claim(
        key="theorem-5-3",
        title="Theorem 5.3: rectangles hold the truth",
        text="With probability 1 − δ, the true pair of every client lies in its rectangle in every round.",
        source="Theorem 5.3",
        paper="at least 90 % of the runs for δ = 0.1",
        margin="share of the runs without noise in which that is so, at least 90 %",
        rule=process_rules.covered,
        further=process_causes.PRIOR,
    ),
    Claim(
        key="theorem-5-4",
        title="Theorem 5.4: the widest rectangle stays below its bound",
        text="The largest diagonal decreases, and is at most the root of (d α² C_T + β_T γ_T C) / T.",
        source="Theorem 5.4",
        paper="a bound of order 1/√T up to logarithms",
        margin=(
            "never above the bound, which must be below the diagonal of the unit square to say anything (else partly); "
            "it does not grow in 99 % of the rounds (as rectangles are intersected, it hardly can)"
        ),
        rule=process_rules.narrow,
        further=process_causes.LONGER,
    ),
    Claim(
        key="theorem-5-5",
        title="Theorem 5.5: little regret",
        text="Regret against the Pareto front is at most 4 K (α² d C_T + β_T γ_T C) / ε², hence sublinear.",
        source="Theorem 5.5",
        paper="polylogarithmic in T",
        margin=(
            "never above the bound, which must be below one per round to say anything (else partly); exponent of "
            "growth in the second half below 0.9"
        ),
        rule=process_rules.little_regret,
        further=process_causes.GAP,
    ),
)

CLAIMS = (*TRAINING, *PROCESS)
