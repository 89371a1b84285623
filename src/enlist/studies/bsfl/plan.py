"""What the study runs.

Keys: `targets` of Eq. 4; `graph`, `degrees`, `energy`, `race`, `exact` on the problem of Eq. 13;
`regret/<clients>-<k>/<scenario>/<reward>/<method>` and `sensitivity/<preset>/<parameter>=<value>` in the arena;
`train/<task>/<scenario>/<method>` in the simulator, a task being "linear", "mlp", "cnn" or "cifar10". Scenarios are
"iid" and "non-iid"; further ones, and the keys of further.py, belong to unclear claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from enlist.studies.bsfl.generalisation import targets
from enlist.studies.bsfl.graphs import degrees, graph
from enlist.studies.bsfl.races import energy, exact, race
from enlist.studies.bsfl.regret import played
from enlist.studies.bsfl.settings import (
    CIFAR,
    DEFAULT,
    EXTRA_SEEDS,
    FEW,
    IID,
    METHODS,
    NON_IID,
    PRINTED,
    REGRET_RIVALS,
    REWARDS,
    SCENARIOS,
    SENSITIVITY,
    TRAINED,
    images_of,
    own,
    seeds_of,
)
from enlist.studies.bsfl.training import image_config, linear_config, settings_for, train
from enlist.studies.study import Experiment, Scale, Settings, over_seeds

SLOWER = {"bsfl-default": 1.3, "bsfl-printed": 1.2, "fedsuv": 1.8, "oort": 1.3, "random": 0.5, "size-proportional": 0.6}
"""How much longer a training takes than others: who avoids slow clients has more rounds in equal time, and FedSUV asks
clients with much data."""


def experiments(scale: Scale) -> Sequence[Experiment]:
    """Everything that a scale runs; trainings seed by seed, because a seed is a population that the next can use.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> keys = dict.fromkeys(each.key for each in experiments(SCALES["laptop"]))
    >>> list(keys)[:7]
    ['targets', 'graph', 'degrees', 'energy', 'race', 'exact', 'regret/20-5/iid/printed/bsfl']
    >>> [key for key in keys if key.startswith("train/cnn")][:2]
    ['train/cnn/non-iid/bsfl-printed', 'train/cnn/non-iid/bsfl-default']
    """
    return [*_solving(scale), *_regrets(scale), *_sensitivity(scale), *_trainings(scale)]


def regret_key(size: str, scenario: str, reward: str, method: str) -> str:
    """The key of a match: `size` is "clients-k", `method` a key of METHODS.

    >>> regret_key("20-5", IID, PRINTED, "bsfl-printed")
    'regret/20-5/iid/printed/bsfl'
    """
    return f"regret/{size}/{scenario}/{reward}/{plain(method)}"


def plain(method: str) -> str:
    """A method's key without its preset, which the reward tells.

    >>> plain("cs-ucb-printed"), plain("cs-ucb-q")
    ('cs-ucb', 'cs-ucb-q')
    """
    return method.removesuffix(f"-{PRINTED}").removesuffix(f"-{DEFAULT}")


def size_of(entry: Sequence[int]) -> str:
    """How a size is written in keys.

    >>> size_of([20, 5, 1000, 10])
    '20-5'
    """
    return f"{entry[0]}-{entry[1]}"


def train_key(task: str, scenario: str, method: str) -> str:
    """The key of a training.

    >>> train_key("mlp", IID, "oort")
    'train/mlp/iid/oort'
    """
    return f"train/{task}/{scenario}/{method}"


def _solving(scale: Scale) -> list[Experiment]:
    own_settings, seeds = scale.settings, seeds_of(scale)
    clients, k = own_settings["graph"]
    steps = own_settings["energy"]["steps"]
    states = own_settings["degrees"]["states"] * len(own_settings["degrees"]["sizes"])
    drawn = {**own_settings["race"], "source": "drawn"}
    return [
        *over_seeds("targets", targets, own_settings["targets"], seeds, 0.001 * own_settings["targets"]["populations"]),
        *over_seeds("graph", graph, {"clients": clients, "k": k}, seeds, 0.1),
        *over_seeds("degrees", degrees, own_settings["degrees"], seeds, 5e-5 * states),
        *over_seeds("energy", energy, own_settings["energy"], seeds, 4e-5 * steps),
        *over_seeds("race", race, drawn, seeds, race_seconds(drawn, 1.0)),
        *over_seeds("exact", exact, own_settings["exact"], seeds, 0.1),
    ]


def race_seconds(settings: Settings, factor: float) -> float:
    """How long a race should take on one core.

    >>> race_seconds({"steps": 100, "instances": 5, "sizes": [[8, 4]]}, 1.0)
    0.02
    """
    return factor * 4e-5 * float(settings["steps"] * settings["instances"] * len(settings["sizes"]))


def _regrets(scale: Scale) -> list[Experiment]:
    return [
        each
        for entry in scale.settings["regret"]
        for (scenario, reward), rivals in REGRET_RIVALS.items()
        for each in matches(scale, entry, scenario, reward, [own(reward), *rivals])
    ]


def matches(scale: Scale, entry: Sequence[int], scenario: str, reward: str, methods: Iterable[str]) -> list[Experiment]:
    """Matches in the arena; `entry` holds clients, k, rounds and the largest number of seeds.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> [each.key for each in matches(SCALES["smoke"], [20, 5, 100, 1], IID, PRINTED, ["bsfl-printed"])]
    ['regret/20-5/iid/printed/bsfl']
    """
    by_size = {"by_size": scenario == NON_IID}
    return [
        each
        for key in methods
        for each in match(
            regret_key(size_of(entry), scenario, reward, key),
            entry,
            seeds_of(scale, entry[3]),
            METHODS[key].selector,
            METHODS[key].settings(scenario),
            {**REWARDS[reward], **by_size},
            scenario,
        )
    ]


def match(
    key: str,
    entry: Sequence[int],
    seeds: range,
    selector: str,
    options: Mapping[str, Any],
    reward: Mapping[str, Any],
    scenario: str = IID,
) -> Sequence[Experiment]:
    """One selector in the arena; `entry` begins with clients, k and rounds.

    >>> match("late", [20, 5, 100], range(2), "random", {}, {})[1].seed
    1
    """
    clients, k, rounds = entry[:3]
    settings = {
        "scenario": SCENARIOS[scenario],
        "clients": clients,
        "k": k,
        "rounds": rounds,
        "reward": dict(reward),
        "selector": selector,
        "options": dict(options),
    }
    return over_seeds(key, played, settings, seeds, 0.03 + rounds * (6.5e-4 + 4e-7 * clients))


def _sensitivity(scale: Scale) -> list[Experiment]:
    return [
        each
        for preset, parameters in SENSITIVITY.items()
        for name, values in parameters.items()
        for value in values
        for each in setting(scale, preset, {name: value})
    ]


def setting(scale: Scale, preset: str, options: Mapping[str, float]) -> Sequence[Experiment]:
    """BSFL with some parameters other than in a preset.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> setting(SCALES["smoke"], PRINTED, {"bonus_scale": 0.1, "alpha": 3.0})[0].key
    'sensitivity/printed/bonus-scale=0.1+alpha=3'
    """
    part = scale.settings["sensitivity"]
    entry, seeds = [part[name] for name in ("clients", "k", "rounds")], seeds_of(scale, part["seeds"])
    return match(setting_key(preset, options), entry, seeds, METHODS[own(preset)].selector, options, REWARDS[preset])


def setting_key(preset: str, options: Mapping[str, float]) -> str:
    """The key of BSFL with some parameters other than in a preset.

    >>> setting_key(PRINTED, {"bonus_scale": 0.1})
    'sensitivity/printed/bonus-scale=0.1'
    """
    changed = "+".join(f"{name.replace('_', '-')}={value:g}" for name, value in options.items())
    return f"sensitivity/{preset}/{changed}"


def _trainings(scale: Scale) -> list[Experiment]:
    found: list[Experiment] = []
    for scenario in (IID, NON_IID):
        config = linear_config(scenario, scale.settings["linear"]["rounds"])
        found += lines(scale, scenario, scenario, TRAINED[scenario], config)
    for scenario in (IID, NON_IID):
        found += pictures(scale, "mlp", scenario, TRAINED[scenario])
    for scenario in (IID, NON_IID) if scale.name == "paper" else (NON_IID,):
        found += pictures(scale, "cnn", scenario, FEW[scenario])
    if CIFAR in scale.settings or CIFAR in scale.extras:
        for scenario in (IID, NON_IID):
            found += pictures(scale, CIFAR, scenario, FEW[scenario])
    return found


def lines(
    scale: Scale, scenario: str, base: str, methods: Iterable[str], config: Mapping[str, Any]
) -> list[Experiment]:
    """Trainings of linear regression; further scenarios name the `base` that methods are set up for.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> [each.key for each in lines(SCALES["smoke"], IID, IID, ["bsfl-printed"], linear_config(IID, 5))]
    ['train/linear/iid/bsfl-printed']
    """
    part = scale.settings["linear"]
    return trained(
        scale, "linear", scenario, base, methods, config, seeds_of(scale, part["seeds"]), 0.01 * part["rounds"]
    )


def pictures(
    scale: Scale,
    task: str,
    scenario: str,
    methods: Iterable[str],
    data: Mapping[str, Any] | None = None,
) -> list[Experiment]:
    """Trainings on pictures; further scenarios are the non-iid one with other `data`.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> [each.key for each in pictures(SCALES["smoke"], "mlp", IID, ["bsfl-printed"])]
    ['train/mlp/iid/bsfl-printed']
    """
    part = scale.settings.get(task) or {**scale.settings["cnn"], "seeds": EXTRA_SEEDS, "kernel": 3, "padding": 1}
    base = IID if scenario == IID else NON_IID
    config = image_config(part, CIFAR if task == CIFAR else images_of(scale), _model(task, part), base)
    config["data"] = {**config["data"], **(data or {})}
    costs = {"mlp": 4.8, "cnn": 80.0, CIFAR: 85.0}
    seconds = 0.1 + costs[task] * part["rounds"] / 50 * part["clients"] / 500
    return trained(scale, task, scenario, base, methods, config, seeds_of(scale, part["seeds"]), seconds)


def _model(task: str, part: Mapping[str, Any]) -> dict[str, Any]:
    """The paper's kind of CNN where no smaller one is asked for."""
    if task == "mlp":
        return {"name": "mlp", "hidden": [64]}
    if "channels" not in part:
        return {"name": "cnn-dropout"}
    return {"name": "cnn", **{name: part[name] for name in ("channels", "kernel", "padding") if name in part}}


def trained(
    scale: Scale,
    task: str,
    scenario: str,
    base: str,
    methods: Iterable[str],
    config: Mapping[str, Any],
    seeds: range,
    seconds: float,
) -> list[Experiment]:
    """Trainings of some methods, seed by seed.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> found = trained(SCALES["smoke"], "mlp", IID, IID, ["oort"], linear_config(IID, 5), range(2), 1.0)
    >>> [(each.key, each.seed) for each in found]
    [('train/mlp/iid/oort', 0), ('train/mlp/iid/oort', 1)]
    """
    device = scale.settings.get("device", "")
    chosen = list(methods)
    return [
        Experiment(
            train_key(task, scenario, key),
            seed,
            settings_for(METHODS[key], base, config, device),
            train,
            seconds * SLOWER.get(key, 1.0),
        )
        for seed in seeds
        for key in chosen
    ]
