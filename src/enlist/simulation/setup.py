"""What a simulation is made of: the selector that a configuration names, checks, and the training job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from enlist._internal import checks
from enlist.clients import Clients
from enlist.contract import Selector
from enlist.devices import Energy
from enlist.devices.energy import ENERGETIC, PHONE
from enlist.errors import InputError
from enlist.simulation.config import Config
from enlist.simulation.evaluation import check_watch
from enlist.simulation.population import Population
from enlist.simulation.sections import RoundsSection
from enlist.streams import Streams
from enlist.training.engine import SharedSamples, TrainingSetup
from enlist.training.precision import check_precision

CONTEXT = ("context.battery", "context.charging", "context.bandwidth")
"""The context, changing from ask to ask, that a simulation knows."""


def make_selector(config: Config, population: Population) -> Selector[Any, Any]:
    """The selector of a configuration, which knows the clients that are there from the start.

    >>> from enlist.simulation.population import build
    >>> config = Config(data={"clients": 5}, selector="oort")
    >>> make_selector(config, build(config)).name
    'oort'
    """
    known, membership = described(config, population), config.membership
    first = np.arange(len(known) - membership.joining)
    return config.selector.kind()(
        known.kept(first) if membership.joins else known,
        seed=Streams(config.seed).number("selector") % 2**31,
        preset=config.selector.preset,
        max_open=_most_open(config.rounds),
        **config.selector.settings,
    )


def _most_open(rounds: RoundsSection) -> int:
    """Rounds after which a selection expires; never if clients may be at work through any number of asks."""
    if rounds.asynchronous:
        return checks.MOST_WHOLE
    return rounds.max_lateness + 1 if rounds.late_rule != "drop" else 100


def described(config: Config, population: Population) -> Clients:
    """What the selector of a configuration is told of all clients up front: large columns only if it needs them.

    >>> from enlist.simulation.population import build
    >>> config = Config(data={"clients": 5}, selector="oort")
    >>> sorted(described(config, build(config)).columns())
    ['features', 'num_examples', 'quality']
    """
    known = population.clients
    needs = config.selector.needs
    more: dict[str, Any] = {}
    if "clients.label_counts" in needs:
        more["label_counts"] = population.counts
    if needs & ENERGETIC:
        more |= energetic(config, population)
    columns: dict[str, Any] = known.columns() | more
    return Clients(**columns, feature_names=known.feature_names) if more else known


def energetic(config: Config, population: Population) -> dict[str, Any]:
    """The columns of `Clients` about energy; those of phones on mains power if the configuration counts no energy.

    >>> from enlist.simulation.population import build
    >>> config = Config(data={"clients": 5}, energy={"battery": 40000.0})
    >>> sorted(energetic(config, build(config)))
    ['battery', 'energy_per_byte', 'energy_per_sample']
    """
    energy, count = config.energy or Energy(), len(population)
    power = energy.draw(config.devices.kind, count, Streams(config.seed))
    return {**power.columns(population.devices), "battery": np.full(count, energy.battery or PHONE)}


def tells_accuracy(selector: Selector[Any, Any]) -> bool:
    """Whether a selector learns from the accuracy or the loss that the server measures.

    >>> import enlist
    >>> tells_accuracy(enlist.create("random", enlist.Clients(count=3)))
    False
    """
    return bool(selector.needs & {"round.accuracy", "round.loss"})


def check(config: Config, selector: Selector[Any, Any], classes: int, parts: Mapping[str, Any]) -> None:
    """Refuse what cannot be measured with these parts of the data.

    >>> import enlist
    >>> check(Config(evaluation={"target": 3.0}), enlist.create("random", enlist.Clients(count=3)), 10, {})
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: evaluation.target is 3.0; an accuracy lies between 0 and 1, for example 0.8.
    """
    if "validation" not in parts and (tells_accuracy(selector) or "contribution" in selector.needs):
        what = "the server's accuracy" if tells_accuracy(selector) else "what updates do for the server's loss"
        raise InputError(
            f"selector '{config.selector.name}' learns from {what}, and data.validation is 0; "
            "set it, for example to 0.1."
        )
    _check_context(config, selector.needs)
    check_watch(config.evaluation, parts)
    target = config.evaluation.target
    if classes and target is not None and target >= 1:
        raise InputError(f"evaluation.target is {target}; an accuracy lies between 0 and 1, for example 0.8.")


def _check_context(config: Config, needs: frozenset[str]) -> None:
    """Refuse a selector that needs context which a simulation does not know."""
    without = config.energy is None or config.energy.battery is None
    for need in sorted(need for need in needs if need.startswith("context.")):
        if need in ("context.battery", "context.charging") and without:
            raise InputError(
                f"selector '{config.selector.name}' needs {need}, and clients have no batteries; set energy.battery, "
                f"for example to {PHONE:g} (a phone's)."
            )
        if need not in CONTEXT:
            raise InputError(
                f"selector '{config.selector.name}' needs {need}; a simulation knows {', '.join(CONTEXT)} only."
            )


def make_job(
    config: Config,
    selector: Selector[Any, Any],
    population: Population,
    module: torch.nn.Module,
    data: dict[str, SharedSamples],
    device: str,
) -> TrainingSetup:
    """What training processes need; clients measure accuracies if they must, or if the selector needs them.

    >>> import enlist
    >>> from enlist.simulation.population import build
    >>> config = Config(data={"clients": 5})
    >>> selector = enlist.create("random", enlist.Clients(count=5))
    >>> make_job(config, selector, build(config), torch.nn.Linear(64, 10), {}, "cpu").measure
    False
    """
    measure = config.training.measure
    if measure is None:
        measure = bool(selector.needs & {"accuracy", "accuracy_gain"})
    job = TrainingSetup(
        module,
        population.classes,
        config.training.without_code(),
        data,
        config.seed,
        measure=measure,
        device=device,
        precision=config.training.precision,
        **config.training.own(module, population.shape, population.classes),
    )
    check_precision(job.precision, device, device == "cpu" and job.chain() is not None)
    return job


def placed(population: Population, module: torch.nn.Module, shared: bool) -> dict[str, SharedSamples]:
    """The samples of a population as tensors in the memory format that the model prefers.

    >>> from enlist.simulation.population import build
    >>> sorted(placed(build(Config(data={"clients": 5})), torch.nn.Linear(1, 1), shared=False))
    ['test', 'train', 'validation']
    """
    channels_last = getattr(module, "memory_format", torch.contiguous_format) == torch.channels_last
    return {name: SharedSamples.of(samples, channels_last, shared) for name, samples in population.samples.items()}
