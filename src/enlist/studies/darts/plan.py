"""What the study runs.

Keys: `data`, `profile`, `minibatches`, `server`; `select/...` for selectors at batch size 16; `batch/...` for random
selection at other batch sizes; `bonus/...` for other widths of the bonus, and `tuning/...` for the same on seeds of
their own, by which one would choose a width; `further/...` for what unclear claims call for, of which the rotation is
always run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from enlist.studies.darts.federations import federation
from enlist.studies.darts.profiles import minibatches, population, profiled
from enlist.studies.darts.server_cost import server
from enlist.studies.darts.settings import (
    BATCH,
    BONUSES,
    CIFAR,
    DEFAULT_BONUS,
    DROWNING,
    METHODS,
    NOISY,
    PRINTED,
    ROTATION,
    SOURCES,
    TUNING,
    K,
    seeds_of,
    source_of,
)
from enlist.studies.further import FRESH
from enlist.studies.study import Experiment, Run, Scale, Settings

AGAIN = "further/random-again"
MEASURED = ("select/", "batch/", AGAIN)
"""Whose clients report their own accuracy even where that takes long: two more passes over their samples."""
UNMEASURED = 0.56
"""What a round takes without these passes, as a share of one with them."""


def experiments(scale: Scale) -> Sequence[Experiment]:
    """Everything that a scale runs, seed by seed, because a seed is a population that the next run can use.

    >>> from enlist.studies.darts.settings import SCALES
    >>> keys = {each.key for each in experiments(SCALES["laptop"])}
    >>> sorted(key for key in keys if key.startswith(("select", "batch")))
    ['batch/128', 'batch/32', 'batch/64', 'batch/8', 'select/default', 'select/printed', 'select/random']
    """
    own: Settings = scale.settings
    found: list[Experiment] = []
    for seed in seeds_of(scale):
        found += _alone(scale, seed)
        for key, selector in METHODS.items():
            found.append(_federation(scale, key, seed, selector))
        found.append(_rotation(scale, seed))
        if not _is_long(scale):
            found += _widths(scale, seed)
        if seed < (1 if _is_long(scale) else own["batch_seeds"]):
            found += [
                _federation(scale, f"batch/{size}", seed, "random", batch=size)
                for size in own["sizes"]
                if size != BATCH
            ]
    if not _is_long(scale):
        tuning = range(TUNING, TUNING + own["tuning_seeds"])
        found += [_bonus(scale, "tuning", c, seed) for seed in tuning for c in BONUSES]
        found += [_federation(scale, "tuning/printed", seed, METHODS[PRINTED]) for seed in tuning]
    return found


def populations(scale: Scale) -> Sequence[Experiment]:
    """Further: three times as many populations as the scale has, on seeds of their own.

    >>> from enlist.studies.darts.settings import SCALES
    >>> [each.seed for each in populations(SCALES["smoke"])]
    [500, 501, 502, 503, 504, 505]
    """
    config = source_of(scale).config(scale.settings["rounds"])
    seeds = range(FRESH, FRESH + 3 * len(seeds_of(scale)))
    return [_run("further/data", seed, population, {"config": config}) for seed in seeds]


def widths(scale: Scale) -> Sequence[Experiment]:
    """Further: other widths of the bonus, where they are not run anyway.

    >>> from enlist.studies.darts.settings import SCALES
    >>> sorted({each.key for each in widths(SCALES["laptop"].chosen(extras=["cifar10"]))}), widths(SCALES["laptop"])
    (['bonus/c=0.03', 'bonus/c=0.1', 'bonus/c=1'], [])
    """
    return [each for seed in seeds_of(scale) for each in _widths(scale, seed)] if _is_long(scale) else []


def random_again(scale: Scale) -> Sequence[Experiment]:
    """Further: random selection on the same populations with other draws.

    The selector is UCB's with epsilon = 1, all of whose rounds are random, but drawn after one more random number.

    >>> from enlist.studies.darts.settings import SCALES
    >>> random_again(SCALES["smoke"])[0].key
    'further/random-again'
    """
    chosen = {"name": "darts-ucb", "settings": {"epsilon": 1.0, "initial_rounds": 0}}
    return [_federation(scale, AGAIN, seed, "darts-ucb", selector=chosen) for seed in seeds_of(scale)]


def noisy(scale: Scale) -> Sequence[Experiment]:
    """Further: a third of the clients have nothing but wrong labels, so that some clients are worse than others.

    >>> from enlist.studies.darts.settings import SCALES
    >>> sorted({each.key for each in noisy(SCALES["smoke"])})
    ['further/noisy/default', 'further/noisy/printed', 'further/noisy/random']
    """
    noise = {"label_noise": {"share": NOISY, "low": 1.0, "high": 1.0}}
    return [
        _federation(scale, key.replace("select", "further/noisy"), seed, selector, data=noise)
        for seed in seeds_of(scale)
        for key, selector in METHODS.items()
    ]


def oort(scale: Scale) -> Sequence[Experiment]:
    """Further: a selector that is told what clients cost.

    >>> from enlist.studies.darts.settings import SCALES
    >>> oort(SCALES["smoke"])[0].key
    'further/oort'
    """
    return [_federation(scale, "further/oort", seed, "oort") for seed in seeds_of(scale)]


def further(scale: Scale) -> Sequence[Experiment]:
    """All experiments that unclear claims may call for, one after the other.

    >>> from enlist.studies.darts.settings import SCALES
    >>> len({each.key for each in further(SCALES["smoke"])})
    6
    """
    return [each for some in (populations, widths, random_again, noisy, oort) for each in some(scale)]


def _alone(scale: Scale, seed: int) -> list[Experiment]:
    """Experiments without a federation."""
    own, source = scale.settings, source_of(scale)
    config = source.config(own["rounds"])
    small = config
    if "profile_limit" in own and source.dataset["name"] != "digits":
        small = source.config(own["rounds"], data={"dataset": {**source.dataset, "limit": own["profile_limit"]}})
    serving = {"selectors": list(METHODS.values()), "clients": own["server_clients"], "k": K}
    return [
        _run("data", seed, population, {"config": config}),
        _run("profile", seed, profiled, {"config": small, "sizes": own["sizes"], "passes": own["passes"]}),
        _run("minibatches", seed, minibatches, {"config": small, "sizes": own["sizes"], "steps": own["steps"]}),
        _run("server", seed, server, {"config": config, **serving, "rounds": own["server_rounds"]}),
    ]


def _rotation(scale: Scale, seed: int) -> Experiment:
    """The printed algorithm with a bonus so wide that rewards have no say, a mere rotation."""
    chosen = {"name": "darts-ucb", "preset": "paper", "settings": {"c": DROWNING}}
    return _federation(scale, ROTATION, seed, "darts-ucb", selector=chosen)


def _widths(scale: Scale, seed: int) -> list[Experiment]:
    """All widths of the bonus but our default's, which is run as a method."""
    return [_bonus(scale, "bonus", c, seed) for c in BONUSES if c != DEFAULT_BONUS]


def _bonus(scale: Scale, group: str, c: float, seed: int) -> Experiment:
    chosen = {"name": "darts-ucb", "settings": {"c": c}}
    return _federation(scale, f"{group}/c={c:g}", seed, "darts-ucb", selector=chosen)


def _federation(scale: Scale, key: str, seed: int, played: str, batch: int = BATCH, **sections: Any) -> Experiment:
    config = source_of(scale).config(scale.settings["rounds"], batch, **sections)
    if _is_long(scale) and not key.startswith(MEASURED):
        config["training"]["measure"] = False
    return _run(key, seed, federation, _settings(scale, played, config))


def _settings(scale: Scale, selector: str, config: Mapping[str, Any]) -> dict[str, Any]:
    device = {"device": scale.settings["device"]} if "device" in scale.settings else {}
    return {"selector": selector, "config": config, **device}


def _run(key: str, seed: int, run: Run, settings: Mapping[str, Any]) -> Experiment:
    return Experiment(key, seed, settings, run, _seconds(key, settings))


def _seconds(key: str, settings: Mapping[str, Any]) -> float:
    """How long it takes on one core, as measured in earlier runs."""
    config = settings["config"]
    source = next(each for each in SOURCES.values() if each.model == config["model"])
    if (name := key.removeprefix("further/")) in source.alone:
        return source.alone[name]
    share = 1.0 if config["training"]["measure"] else UNMEASURED
    return share * source.seconds * float(config["rounds"]["rounds"])


def _is_long(scale: Scale) -> bool:
    """Whether CIFAR-10 is trained without a GPU, where the bonus is not tuned."""
    return source_of(scale) is SOURCES[CIFAR]
