"""What the paper prints: the tasks of Table 1, rounds (Table 2), accuracies (Table 3), and whether they agree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

METHODS = ("FedAvg", "SAFA", "Oort", "REFL", "FedSUV")
"""In the order of the tables."""
AVERAGING, YOGI = "averaging", "yogi"
DELTA = 0.1
"""Chance that an interval may miss; the paper gives no number, so this is the selector's default."""


class Task(NamedTuple):
    """One column of the tables: model and data, local training, target, rounds to it and final accuracy (percent).

    >>> TASKS["cifar100-shufflenet"].speed_up(AVERAGING)
    3.54
    """

    model: str
    dataset: str
    lr: float
    epochs: int
    batch: int
    clients: int
    target: float
    rounds: Mapping[str, tuple[int, ...]]
    accuracy: Mapping[str, tuple[float, ...]]

    def speed_up(self, aggregation: str, method: str = "FedSUV") -> float:
        """Rounds of FedAvg over those of a method, as Table 2 rounds it."""
        rounds = self.rounds[aggregation]
        return round(rounds[0] / rounds[METHODS.index(method)], 2)


TASKS = {
    "cifar10-resnet18": Task(
        "ResNet-18",
        "CIFAR-10",
        *(0.01, 1, 10, 3500, 45.0),
        {AVERAGING: (500, 580, 660, 550, 430), YOGI: (380, 290, 160, 290, 130)},
        {AVERAGING: (47.82, 48.69, 46.69, 48.05, 49.22), YOGI: (54.96, 55.19, 59.51, 54.80, 60.82)},
    ),
    "cifar10-mobilenet": Task(
        "MobileNet",
        "CIFAR-10",
        *(0.01, 1, 10, 3500, 28.0),
        {AVERAGING: (880, 500, 440, 410, 390), YOGI: (310, 430, 300, 270, 170)},
        {AVERAGING: (28.50, 30.90, 31.01, 31.12, 33.94), YOGI: (36.73, 35.25, 35.75, 36.06, 39.43)},
    ),
    "cifar100-shufflenet": Task(
        "ShuffleNet",
        "CIFAR-100",
        *(0.04, 1, 20, 3500, 15.0),
        {AVERAGING: (460, 220, 510, 320, 130), YOGI: (240, 320, 330, 220, 170)},
        {AVERAGING: (18.99, 24.75, 19.32, 22.00, 24.79), YOGI: (22.42, 19.13, 22.49, 22.08, 23.51)},
    ),
    "femnist-resnet18": Task(
        "ResNet-18",
        "FEMNIST",
        *(0.05, 5, 20, 3500, 70.0),
        {AVERAGING: (200, 210, 270, 240, 200), YOGI: (1000, 600, 720, 590, 570)},
        {AVERAGING: (77.23, 76.06, 76.70, 77.66, 78.04), YOGI: (68.87, 72.87, 71.27, 73.60, 73.01)},
    ),
    "speech-resnet34": Task(
        "ResNet-34",
        "GoogleSpeech",
        *(0.04, 1, 16, 2618, 50.0),
        {AVERAGING: (570, 500, 320, 310, 270), YOGI: (600, 530, 720, 570, 450)},
        {AVERAGING: (56.88, 60.19, 60.12, 58.88, 60.28), YOGI: (55.71, 53.64, 54.14, 54.90, 56.00)},
    ),
}
"""Tables 1 to 3. The target stands in the text for three tasks (15 %, 70 %, 45 %), in Table 2 for all."""


def speed_ups(aggregation: str) -> str:
    """FedSUV's speed-ups in rounds over FedAvg: their span, and their geometric mean.

    >>> speed_ups(AVERAGING)
    '×1.00 to ×3.54, ×1.81 in the geometric mean of five tasks'
    """
    ratios = [task.speed_up(aggregation) for task in TASKS.values()]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return f"×{min(ratios):.2f} to ×{max(ratios):.2f}, ×{mean:.2f} in the geometric mean of five tasks"


def places(aggregation: str, better: str) -> str:
    """How often FedSUV is alone at the top of Table 2 (fewest "rounds") or Table 3 (highest "accuracy").

    >>> places(AVERAGING, "rounds"), places(YOGI, "accuracy")
    ('first in 4 of 5 tasks, shared in 1', 'first in 4 of 5 tasks')
    """
    alone = shared = 0
    for task in TASKS.values():
        values = [-number for number in task.rounds[aggregation]] if better == "rounds" else task.accuracy[aggregation]
        leads = values[-1] >= max(values)
        alone += leads and list(values).count(values[-1]) == 1
        shared += leads and list(values).count(values[-1]) > 1
    return f"first in {alone} of {len(TASKS)} tasks" + (f", shared in {shared}" if shared else "")


def gains(aggregation: str) -> str:
    """FedSUV's final accuracy relative to the worst of the others, in percent: its span over tasks.

    >>> gains(AVERAGING), gains(YOGI)
    ('+2.6 % to +30.5 % over the worst method', '+4.4 % to +22.9 % over the worst method')
    """
    ratios = [100.0 * (values[-1] / min(values[:-1]) - 1.0) for values in _accuracies(aggregation)]
    return f"+{min(ratios):.1f} % to +{max(ratios):.1f} % over the worst method"


def _accuracies(aggregation: str) -> list[tuple[float, ...]]:
    return [task.accuracy[aggregation] for task in TASKS.values()]


def numbers() -> list[dict[str, Any]]:
    """Tables 2 and 3 as rows: one per task, aggregation and method.

    >>> list(numbers()[4].values())[2:]
    ['FedSUV', 45.0, 430, 1.16, 49.22]
    """
    return [
        {
            "task": f"{task.dataset}, {task.model}",
            "aggregation": aggregation,
            "method": method,
            "target": task.target,
            "rounds": task.rounds[aggregation][place],
            "speed_up, from the rounds": task.speed_up(aggregation, method),
            "accuracy": task.accuracy[aggregation][place],
        }
        for aggregation in (AVERAGING, YOGI)
        for task in TASKS.values()
        for place, method in enumerate(METHODS)
    ]


def checks() -> list[dict[str, Any]]:
    """What the text says of the tables, and whether the tables say so, too.

    >>> [(row["statement"], row["agrees"]) for row in checks() if not row["agrees"]]
    [('FedSUV consistently has the highest final accuracy', False), ('every method reaches the target', False), \
('speed-ups of Oort and REFL on CIFAR-10, ResNet-18: 0.75 and 0.90', False)]
    """
    shuffle, femnist = TASKS["cifar100-shufflenet"], TASKS["femnist-resnet18"]
    best = {agg: max(task.speed_up(agg) for task in TASKS.values()) for agg in (AVERAGING, YOGI)}
    gain = {agg: max(100 * (v[-1] / min(v[:-1]) - 1) for v in _accuracies(agg)) for agg in (AVERAGING, YOGI)}
    oort = max(100 * (v[-1] / v[2] - 1) for agg in (AVERAGING, YOGI) for v in _accuracies(agg))
    lower = [
        f"{task.dataset}, {agg}: {METHODS[place]} {value} against FedSUV {values[-1]}"
        for agg in (AVERAGING, YOGI)
        for task in TASKS.values()
        for values in [task.accuracy[agg]]
        for place, value in enumerate(values)
        if value > values[-1]
    ]
    unreached = [
        f"{task.dataset}, {agg}: {METHODS[place]} ends at {value} but reaches {task.target:g} in round "
        f"{task.rounds[agg][place]}"
        for agg in (AVERAGING, YOGI)
        for task in TASKS.values()
        for place, value in enumerate(task.accuracy[agg])
        if value < task.target
    ]
    found = [
        ("up to 3.54 times faster with averaging", f"{best[AVERAGING]}", best[AVERAGING] == 3.54),
        ("up to 2.92 times faster with YoGi", f"{best[YOGI]}", best[YOGI] == 2.92),
        ("up to 30.54 % more accurate with averaging (relative, against the worst)", *_percent(gain[AVERAGING], 30.54)),
        ("up to 22.90 % more accurate with YoGi (relative, against the worst)", *_percent(gain[YOGI], 22.90)),
        ("up to 28.31 % more accurate than Oort (relative)", *_percent(oort, 28.31)),
        ("15 % on CIFAR-100 90 rounds before the next", *_lead(shuffle.rounds[AVERAGING], 90)),
        ("70 % on FEMNIST with YoGi 20 rounds before the next", *_lead(femnist.rounds[YOGI], 20)),
        ("FedSUV consistently has the highest final accuracy", "; ".join(lower), not lower),
        ("every method reaches the target", "; ".join(unreached), not unreached),
        ("speed-ups of Oort and REFL on CIFAR-10, ResNet-18: 0.75 and 0.90", *_rounded()),
    ]
    return [{"statement": text, "in the tables": seen, "agrees": agrees} for text, seen, agrees in found]


def _rounded() -> tuple[str, bool]:
    found = [TASKS["cifar10-resnet18"].speed_up(AVERAGING, method) for method in ("Oort", "REFL")]
    return " and ".join(f"{each:.2f}" for each in found), found == [0.75, 0.90]


def _percent(value: float, printed: float) -> tuple[str, bool]:
    return f"{value:.2f} %", abs(value - printed) < 0.005


def _lead(rounds: tuple[int, ...], printed: int) -> tuple[str, bool]:
    lead = min(rounds[:-1]) - rounds[-1]
    return f"{lead} rounds", lead == printed
