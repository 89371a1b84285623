"""The selectors, found by name. One file per paper; users' own come in by the entry point group `enlist.selectors`."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from os import PathLike
from typing import Any

from enlist import storage
from enlist.clients import Clients
from enlist.contract import Selector
from enlist.errors import EnlistError, unknown

ENTRY_POINT_GROUP = "enlist.selectors"

BUILT_IN = {
    "random": "random:Random",
    "size-proportional": "size_proportional:SizeProportional",
    "darts-ucb": "darts:DartsUCB",
    "epsilon-greedy": "mabfl:EpsilonGreedySelector",
    "ucb": "mabfl:UCBSelector",
    "thompson": "mabfl:ThompsonSelector",
    "discounted-thompson": "mabfl:DiscountedThompsonSelector",
    "cs-ucb": "cs_ucb:CSUCB",
    "cs-ucb-q": "cs_ucb:CSUCBQ",
    "bsfl": "bsfl:BSFL",
    "rbcs-f": "rbcs_f:RBCSF",
    "e3cs": "e3cs:E3CS",
    "power-of-choice": "power_of_choice:PowerOfChoice",
    "ucb-cs": "ucb_cs:UCBCS",
    "fedcs": "fedcs:FedCS",
    "tifl": "tifl:TiFL",
    "afl": "afl:AFL",
    "fedsuv": "fedsuv:FedSUV",
    "cu-cs": "cu_cs:CUCS",
    "oort": "oort:Oort",
    "refl": "refl:REFL",
    "safa": "safa:SAFA",
}


def names() -> list[str]:
    """Every selector that can be created: ours in the order of the documentation, then those of installed packages.

    >>> names()[:3]
    ['random', 'size-proportional', 'darts-ucb']
    """
    return [*BUILT_IN, *sorted(name for name in _installed() if name not in BUILT_IN)]


def get(name: str) -> type[Selector[Any, Any]]:
    """The class of the selector called `name`.

    >>> get("random").__name__
    'Random'
    """
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        found = getattr(importlib.import_module(f"enlist.selectors.{module}"), attribute)
    else:
        installed = _installed()
        if name not in installed:
            raise unknown("selector", str(name), names())
        try:
            found = installed[name].load()
        except Exception as error:
            raise EnlistError(f"selector '{name}' of an installed package cannot be loaded: {error!r}") from error
    if not (isinstance(found, type) and issubclass(found, Selector)):
        raise EnlistError(f"entry point '{name}' in {ENTRY_POINT_GROUP} gives {found!r}, which is no enlist.Selector.")
    return found


def create(
    name: str, clients: Clients, *, seed: int = 0, preset: str | None = None, max_open: int = 100, **settings: Any
) -> Selector[Any, Any]:
    """Create a selector by name.

    >>> import enlist
    >>> enlist.create("darts-ucb", enlist.Clients(count=12), seed=7, epsilon=0.2)
    DartsUCB('darts-ucb', clients=12, round=0)
    """
    return get(name)(clients, seed=seed, preset=preset, max_open=max_open, **settings)


def load(folder: str | PathLike[str], **functions: Any) -> Selector[Any, Any]:
    """Load a saved selector, whatever its kind, and continue bit-exactly.

    A setting that was a function is not saved; pass it again by name.

    >>> import enlist, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     enlist.create("bsfl", enlist.Clients(count=3)).save(folder)
    ...     enlist.load(folder).name
    'bsfl'
    """
    return storage.load(folder, get(storage.saved_name(folder)), functions)


def _installed() -> dict[str, Any]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}
