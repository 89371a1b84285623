"""The experiments of a scale: what is trained, what is played in the selection process, and what unclear claims add.

Keys are task/aggregation/method, process/noise/method, and further/... for what unclear claims call for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from enlist import selectors
from enlist._internal import files
from enlist.data.idx import has_fashion_mnist
from enlist.runs.checkpoints import CHECKPOINTS, written
from enlist.studies.experiments import simulation
from enlist.studies.fedsuv.methods import (
    ABLATIONS,
    EVERYBODY,
    PRINTED,
    READINGS,
    SAFA_PROTOCOL,
    Method,
)
from enlist.studies.fedsuv.paper import AVERAGING, YOGI
from enlist.studies.fedsuv.process import played
from enlist.studies.fedsuv.settings import FIRST_SEED, NOISES
from enlist.studies.fedsuv.square import OBSERVED
from enlist.studies.fedsuv.tasks import CIFAR, Task, images
from enlist.studies.study import Experiment, Scale, Settings, over_seeds

SERVERS = {AVERAGING: "fedavg", YOGI: "fedyogi"}
STAND_IN = "digits in place of Fashion-MNIST, which is not on this machine"
KEPT = ("round", "end", "accuracy", "loss", "asked", "completed", "late", "arrived", "selected", "status", "time")


def experiments(scale: Scale) -> Sequence[Experiment]:
    """All that a scale runs.

    >>> from enlist.studies.fedsuv.settings import SCALES
    >>> wanted = experiments(SCALES["smoke"])
    >>> wanted[0].key, wanted[-1].key
    ('mlp/averaging/fedavg', 'process/0.5/safa')
    """
    settings = scale.settings
    chosen = {**settings["tasks"], **(CIFAR if "cifar10" in scale.extras else {})}
    wanted = [each for name, task in chosen.items() for each in trained(scale, name, task)]
    wanted += ablations(scale)
    return [*wanted, *process(scale)]


def trained(scale: Scale, name: str, task: Task) -> list[Experiment]:
    """Every method of a task with both aggregations, seed by seed, so that methods share a population.

    >>> from enlist.studies.fedsuv.settings import SCALES
    >>> len(trained(SCALES["smoke"], "mlp", SCALES["smoke"].settings["tasks"]["mlp"]))
    24
    """
    return [
        training(f"{name}/{aggregation}", task, method, aggregation, seed)
        for aggregation in task["aggregations"]
        for seed in seeds(scale, -task["fewer"])
        for method in task["methods"]
    ]


def ablations(scale: Scale) -> list[Experiment]:
    """Ablations of FedSUV and our other selectors in one task, and SAFA's own protocol for a few rounds.

    >>> from enlist.studies.fedsuv.settings import SCALES
    >>> [each.key for each in ablations(SCALES["smoke"])][-1]
    'mlp/averaging/safa-protocol'
    """
    settings = scale.settings
    name, rounds = settings["ablated"], settings["protocol_rounds"]
    task = settings["tasks"][name]
    wanted = [
        training(f"{name}/{AVERAGING}", task, method, AVERAGING, seed)
        for seed in seeds(scale, -settings["fewer"])
        for method in (*ABLATIONS, *settings["others"])
    ]
    if rounds:
        short = {**task, "rounds": rounds, "seconds": [0.6 * rounds, 0.0]}
        fewest = list(seeds(scale, -settings["fewer"]))[:2]
        wanted += [training(f"{name}/{AVERAGING}", short, SAFA_PROTOCOL, AVERAGING, seed) for seed in fewest]
    return wanted


def process(scale: Scale) -> list[Experiment]:
    """The selection process: readings of FedSUV and every selector with each noise, ablations without noise.

    >>> from enlist.studies.fedsuv.settings import SCALES
    >>> len({each.key for each in process(SCALES["smoke"])})
    87
    """
    wanted: list[Experiment] = []
    for noise in NOISES:
        for name in (*READINGS, *(ABLATIONS if noise == 0 else ("added", "multiplied"))):
            more = scale.settings["process"]["more"]
            wanted += playing(scale, f"process/{noise:g}/{name}", EVERYBODY[name], noise, more)
        for name in selectors.BUILT_IN:
            if name != "fedsuv":
                fewer = -scale.settings["process"]["fewer"]
                wanted += playing(scale, f"process/{noise:g}/{name}", Method(name, name), noise, fewer)
    return wanted


def training(start: str, task: Task, name: str, aggregation: str, seed: int) -> Experiment:
    """One run of a task: `start` is the key without the method's name.

    >>> from enlist.studies.fedsuv.tasks import SMOKE
    >>> one = training("mlp/yogi", SMOKE["mlp"], "fedsuv-zero", "yogi", 3)
    >>> one.key, one.settings["selector"], one.settings["config"]["selector"]["settings"]
    ('mlp/yogi/fedsuv-zero', 'fedsuv:paper', {'late_utility': 0.0})
    """
    method, task = EVERYBODY[name], stood_in(task)
    selector, _, preset = method.selector.partition(":")
    config: dict[str, Any] = {
        "data": task["data"],
        "model": task["model"],
        "training": task["training"],
        "server": {"optimiser": {"kind": SERVERS[aggregation]}},
        "rounds": {"rounds": task["rounds"], "k": task["k"], "deadline": task["deadline"], **method.rounds},
        "evaluation": {"every": task["every"]},
        "selector": {"name": selector, "preset": preset or None, "settings": dict(method.settings)},
    }
    settings: dict[str, Any] = {"title": task["title"], "selector": method.selector, "config": config}
    if "features" in task:
        config["features"] = task["features"]
    if "device" in task:
        settings["device"] = task["device"]
    slow = method.selector.startswith("fedsuv")
    return Experiment(f"{start}/{name}", seed, settings, trained_run, task["seconds"][int(slow)])


def stood_in(task: Task) -> Task:
    """The task, with digits where Fashion-MNIST is wanted and missing; then its title says so.

    >>> from enlist.studies.fedsuv.tasks import SMOKE
    >>> stood_in(SMOKE["mlp"])["title"]
    'digits, MLP'
    """
    if task["data"]["dataset"] != "fashion-mnist" or has_fashion_mnist():
        return task
    return {**task, "title": f"{task['title']} ({STAND_IN})", "data": images("digits", 300)}


def playing(scale: Scale, key: str, method: Method, noise: float, more: int = 0) -> list[Experiment]:
    """A selector in the selection process; FedSUV is told how large a utility can be.

    >>> from enlist.studies.fedsuv.settings import SCALES
    >>> playing(SCALES["smoke"], "process/0/fedsuv", EVERYBODY["fedsuv"], 0.0)[0].settings["options"]
    {'full_utility': 0.22}
    """
    own = scale.settings["process"]
    ours = method.selector.startswith("fedsuv")
    settings = {
        "selector": method.selector,
        "options": {**method.settings, **({"full_utility": OBSERVED} if ours else {})},
        "noise": noise,
        "bounds": method == READINGS[PRINTED],
        **{name: own[name] for name in ("clients", "rounds", "k", "marks")},
    }
    return list(over_seeds(key, played, settings, seeds(scale, more), own["seconds"][int(ours)]))


def seeds(scale: Scale, more: int = 0) -> range:
    """The seeds of a scale, or some more or fewer, at least one.

    >>> from enlist.studies.fedsuv.settings import SCALES
    >>> seeds(SCALES["laptop"], -2)
    range(200, 203)
    """
    return range(FIRST_SEED, FIRST_SEED + max(scale.seeds + more, 1))


def trained_run(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """A simulation, of which only what the study needs is kept: a checkpoint of FedSUV has 8 n² bytes.

    >>> import tempfile
    >>> from enlist.studies.fedsuv.tasks import SMOKE
    >>> with tempfile.TemporaryDirectory() as place:
    ...     found = trained_run(training("mlp/yogi", SMOKE["mlp"], "oort", "yogi", 3).settings, 3, Path(place))
    >>> found["round"], int(found["selected"].sum())
    (array([1., 2., 3., 4., 5., 6.]), 24)
    """
    found = simulation(settings, seed, folder)
    for checkpoint in written(files.inside(folder, "run", CHECKPOINTS)):
        files.remove_folder(checkpoint)
    return {name: found[name] for name in KEPT}


def changed(
    scale: Scale, label: str, names: Sequence[str], aggregation: str = AVERAGING, **own: Any
) -> list[Experiment]:
    """The ablated task again with something changed, for further experiments.

    >>> from enlist.studies.fedsuv.settings import SCALES
    >>> [each.key for each in changed(SCALES["smoke"], "skewed", ["fedavg", "oort"])]
    ['further/skewed/averaging/fedavg', 'further/skewed/averaging/oort']
    """
    settings = scale.settings
    task = {**settings["tasks"][settings["ablated"]], **own}
    start = f"further/{label}/{aggregation}"
    few = seeds(scale, -settings["further_fewer"])
    return [training(start, task, method, aggregation, seed) for seed in few for method in names]
