"""What is suspected where a claim about training does not come out as said, and the experiments that look into it."""

from __future__ import annotations

from collections.abc import Sequence

from enlist._internal.statistics import Summary
from enlist.studies.claims import Further, shown
from enlist.studies.fedsuv.measures import objective
from enlist.studies.fedsuv.methods import ABLATIONS, FEDSUV, FORGETTING, FORMER, OURS, PRINTED, RANDOM, ZERO, title
from enlist.studies.fedsuv.paper import AVERAGING, YOGI
from enlist.studies.fedsuv.plan import changed
from enlist.studies.fedsuv.scores import completed, finals, speed_up, tasks
from enlist.studies.fedsuv.settings import SWEEP
from enlist.studies.further import nothing
from enlist.studies.results import Results
from enlist.studies.study import Experiment, Scale

COMPARED = (RANDOM, "oort", *FEDSUV)
SKEW = {"kind": "dirichlet-lognormal", "alpha": 0.3, "sigma": 1.2, "min_size": 2}


def ablated_task(results: Results) -> str:
    """task/averaging of the task in which parts of FedSUV were changed.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> ablated_task(example_results())
    'mlp/averaging'
    """
    first = next(iter(ABLATIONS))
    return next((start for start in tasks(results, AVERAGING) if f"{start}/{first}" in results), f"task/{AVERAGING}")


def deadlines(scale: Scale) -> list[Experiment]:
    """The ablated task with deadlines that fewer or more clients meet.

    >>> from enlist.studies.fedsuv.settings import SCALES
    >>> deadlines(SCALES["smoke"])[0].key
    'further/deadline-45/averaging/fedavg'
    """
    return [
        each
        for percent in SWEEP
        for each in changed(
            scale, f"deadline-{percent:g}", COMPARED, deadline={"kind": "percentile", "percentile": percent}
        )
    ]


def _final(results: Results, key: str) -> str:
    return shown(Summary.of(finals(results[key]).tolist()))


def _seeds(results: Results, key: str) -> str:
    return f"({len(results[key].seeds)} seeds)"


def _fastest(results: Results, start: str) -> str:
    """Speed-ups of all readings in a task, shortly."""
    parts = [f"{title(name)} {speed_up(results, start, name).shown()}" for name in (*FEDSUV, "oort")]
    return ", ".join(parts)


def _by_deadline(results: Results) -> str:
    parts = []
    for percent in SWEEP:
        start = f"further/deadline-{percent:g}/{AVERAGING}"
        parts.append(f"if {percent:g} % of the clients can meet it: {_fastest(results, start)}")
    seeds = _seeds(results, f"further/deadline-{SWEEP[0]:g}/{AVERAGING}/{RANDOM}")
    return f"rounds to the target against random selection {seeds}, {'; '.join(parts)}."


DEADLINE = Further(
    "the deadline decides how much there is to gain, and whether the printed rule gets stuck", deadlines, _by_deadline
)


def _with_yogi(scale: Scale) -> Sequence[Experiment]:
    return changed(scale, "limit", [RANDOM, "unlimited"], YOGI)


def _unlimited(results: Results) -> str:
    start = f"further/limit/{YOGI}"
    found, share = speed_up(results, start, "unlimited"), completed(results[f"{start}/unlimited"]).mean()
    return (
        f"with YoGi and elimination without a limit (ρ = 1) the speed-up is {found.shown()} "
        f"{_seeds(results, f'{start}/{RANDOM}')}, {share:.0%} of those "
        f"asked are in time, and the final accuracy is {_final(results, f'{start}/unlimited')} against "
        f"{_final(results, f'{start}/{RANDOM}')} of random selection."
    )


LIMIT = Further("elimination stops when 40 % of the clients are gone", _with_yogi, _unlimited)


def _forgetful(scale: Scale) -> Sequence[Experiment]:
    return changed(scale, FORGETTING, [RANDOM, ZERO, FORGETTING])


def _forgets(results: Results) -> str:
    start = f"further/{FORGETTING}/{AVERAGING}"
    parts = []
    for name in (ZERO, FORGETTING, RANDOM):
        group = results[f"{start}/{name}"]
        asked = float((group.column("selected") > 0).sum(axis=1).mean())
        parts.append(f"{title(name)}: {_final(results, group.key)}, {asked:.0f} different clients asked")
    seeds = _seeds(results, f"{start}/{RANDOM}")
    return f"final accuracy and how many clients were ever asked {seeds}, {'; '.join(parts)}."


FORGET = Further("rectangles only ever shrink, so the same few clients are selected to the end", _forgetful, _forgets)


def _telling(scale: Scale) -> Sequence[Experiment]:
    return changed(scale, "features", COMPARED, features={"speed": 1.0, "utility": 1.0})


def _with_features(results: Results) -> str:
    start = f"further/features/{AVERAGING}"
    seeds = _seeds(results, f"{start}/{RANDOM}")
    return f"with features that tell speed and utility exactly {seeds}: {_fastest(results, start)}."


FEATURES = Further("the features tell too little of speed and utility", _telling, _with_features)


def _skewed(scale: Scale) -> Sequence[Experiment]:
    task = scale.settings["tasks"][scale.settings["ablated"]]
    return changed(scale, "skewed", COMPARED, data={**task["data"], "partition": SKEW})


def _with_skew(results: Results) -> str:
    start = f"further/skewed/{AVERAGING}"
    parts = ", ".join(f"{title(name)} {_final(results, f'{start}/{name}')}" for name in COMPARED)
    seeds = _seeds(results, f"{start}/{RANDOM}")
    return f"with labels ten times and sizes half as much again as skewed {seeds}, final accuracies are {parts}."


SKEWNESS = Further("our clients are more alike than theirs", _skewed, _with_skew)


def _in_time(results: Results) -> str:
    start = ablated_task(results)
    names = (PRINTED, ZERO, "unlimited", "no-elimination", "multiplied", RANDOM)
    parts = [f"{title(name)} {completed(results[f'{start}/{name}']).mean():.0%}" for name in names]
    return f"share in time of those asked, all other things equal: {', '.join(parts)}."


STUCK = Further("a client that is late teaches the utility model nothing, so it is asked again", nothing, _in_time)


def _change_by_change(results: Results) -> str:
    start, parts = ablated_task(results), []
    for name in (PRINTED, ZERO, "multiplied", FORMER, OURS):
        group = results[f"process/0/{name}"]
        worth = Summary.of(objective(group).tolist())
        parts.append(f"{title(name)} {_final(results, f'{start}/{name}')} and {shown(worth, 2)}")
    return f"final accuracy of the MLP, and share of the best possible valid utility: {'; '.join(parts)}."


CHANGES = Further("only some of the changes help", nothing, _change_by_change)

TRAINING_CAUSES = (DEADLINE, LIMIT, FORGET, FEATURES, SKEWNESS, STUCK)
