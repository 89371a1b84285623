"""The selectors, found by name. One file per paper; your own are registered, imported, or installed.

An installed package offers its selectors in the entry point group `enlist.selectors`; a script calls `register`, or
passes the class itself; a configuration names "module:Class".
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from enlist import storage
from enlist._internal.importing import imported
from enlist.clients import Clients
from enlist.contract import Selector
from enlist.errors import EnlistError, InputError, unknown
from enlist.methods import Method, parts_of, split

if TYPE_CHECKING:
    from enlist.selectors.afl import AFL as AFL
    from enlist.selectors.bsfl import BSFL as BSFL
    from enlist.selectors.clustered import Clustered as Clustered
    from enlist.selectors.cs_ucb import CSUCB as CSUCB
    from enlist.selectors.cs_ucb import CSUCBQ as CSUCBQ
    from enlist.selectors.cu_cs import CUCS as CUCS
    from enlist.selectors.darts import DartsUCB as DartsUCB
    from enlist.selectors.divfl import DivFL as DivFL
    from enlist.selectors.e3cs import E3CS as E3CS
    from enlist.selectors.eafl import EAFL as EAFL
    from enlist.selectors.fedcor import FedCor as FedCor
    from enlist.selectors.fedcs import FedCS as FedCS
    from enlist.selectors.fedlecc import FedLECC as FedLECC
    from enlist.selectors.fedsuv import FedSUV as FedSUV
    from enlist.selectors.greedyfed import GreedyFed as GreedyFed
    from enlist.selectors.haccs import HACCS as HACCS
    from enlist.selectors.mabfl import DiscountedThompsonSelector as DiscountedThompsonSelector
    from enlist.selectors.mabfl import EpsilonGreedySelector as EpsilonGreedySelector
    from enlist.selectors.mabfl import ThompsonSelector as ThompsonSelector
    from enlist.selectors.mabfl import UCBSelector as UCBSelector
    from enlist.selectors.oort import Oort as Oort
    from enlist.selectors.optimal_sampling import OptimalSampling as OptimalSampling
    from enlist.selectors.pisces import Pisces as Pisces
    from enlist.selectors.power_of_choice import PowerOfChoice as PowerOfChoice
    from enlist.selectors.pyramidfl import PyramidFL as PyramidFL
    from enlist.selectors.random import Random as Random
    from enlist.selectors.rbcs_f import RBCSF as RBCSF
    from enlist.selectors.refl import REFL as REFL
    from enlist.selectors.safa import SAFA as SAFA
    from enlist.selectors.size_proportional import SizeProportional as SizeProportional
    from enlist.selectors.tempo import Tempo as Tempo
    from enlist.selectors.tifl import TiFL as TiFL
    from enlist.selectors.ucb_cs import UCBCS as UCBCS

AnySelector = type[Selector[Any, Any]]
SelectorT = TypeVar("SelectorT", bound=Selector[Any, Any])
AnyMethod = str | AnySelector | Method[Any] | Mapping[str, Any]
"""Anything that names a method; `method` reads it."""
AnyMethods = AnyMethod | Iterable[AnyMethod] | Mapping[str, AnyMethod]
"""Anything that names several; `methods` reads it."""

ENTRY_POINT_GROUP = "enlist.selectors"

BUILT_IN = {
    "tempo": "tempo:Tempo",
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
    "pisces": "pisces:Pisces",
    "refl": "refl:REFL",
    "safa": "safa:SAFA",
    "fedcor": "fedcor:FedCor",
    "clustered": "clustered:Clustered",
    "divfl": "divfl:DivFL",
    "eafl": "eafl:EAFL",
    "haccs": "haccs:HACCS",
    "fedlecc": "fedlecc:FedLECC",
    "optimal-sampling": "optimal_sampling:OptimalSampling",
    "greedyfed": "greedyfed:GreedyFed",
    "pyramidfl": "pyramidfl:PyramidFL",
}


_registered: dict[str, AnySelector] = {}


def __getattr__(name: str) -> Any:
    """Import a class on first use: importing them all takes longer than most programs need."""
    for place in BUILT_IN.values():
        module, _, attribute = place.partition(":")
        if attribute == name:
            return getattr(importlib.import_module(f"enlist.selectors.{module}"), attribute)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def names() -> list[str]:
    """Every selector that has a name: ours in the order of the documentation, then registered and installed ones.

    >>> names()[:3]
    ['tempo', 'random', 'size-proportional']
    """
    return list(dict.fromkeys([*BUILT_IN, *_registered, *sorted(_installed())]))


def register(kind: type[SelectorT], name: str | None = None) -> type[SelectorT]:
    """Give a selector class a name that works everywhere in this process; also as a decorator.

    Parameters
    ----------
    kind : class
        A subclass of `enlist.Selector`.
    name : str, optional
        Its name; by default the class's own `name`.

    >>> import enlist
    >>> @enlist.register
    ... class First(enlist.Selector):
    ...     name = "first"
    ...     def choose(self, request):
    ...         return request.pick(range(request.k))
    >>> enlist.create("first", enlist.Clients(count=5)).ask(k=2).clients
    array([0, 1])
    """
    _check_class(kind)
    chosen = name or ("" if is_code(kind.name) else kind.name)
    if not chosen or set(chosen) & set(":+=,/\\") or chosen != chosen.strip():
        raise InputError(
            f"a selector cannot be registered as {chosen!r}; give it a name without : + = , / and without spaces "
            "around it, as `name` of the class or register(..., name=...)."
        )
    if chosen in BUILT_IN or chosen in _installed():
        raise InputError(f"a selector called '{chosen}' already exists; choose another name.")
    kind.name, kind.registered = chosen, True
    _registered[chosen] = kind
    return kind


def get(name: str | AnySelector) -> AnySelector:
    """The class of a selector: by name, by "module:Class", or the class itself.

    >>> get("random").__name__, get("enlist.selectors.oort:Oort").__name__
    ('Random', 'Oort')
    """
    if isinstance(name, type):
        return _check_class(name)
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        found = getattr(importlib.import_module(f"enlist.selectors.{module}"), attribute)
    elif name in _registered:
        found = _registered[name]
    elif ":" in str(name):
        found = imported(str(name), f"selector '{name}'", "class")
        _check_class(found, str(name))
    else:
        installed = _installed()
        if name not in installed:
            raise unknown("selector", str(name), names())
        try:
            found = installed[name].load()
        except Exception as error:
            raise EnlistError(f"selector '{name}' of an installed package cannot be loaded: {error!r}") from error
        if not (isinstance(found, type) and issubclass(found, Selector)):
            raise EnlistError(
                f"entry point '{name}' in {ENTRY_POINT_GROUP} gives {found!r}, which is not an enlist.Selector."
            )
    return _check_class(found)


def is_code(name: str) -> bool:
    """Whether naming this selector means importing a user's module.

    >>> is_code("oort"), is_code("mine:LossPerSecond")
    (False, True)
    """
    return ":" in name


def method(given: AnyMethod) -> Method[Any]:
    """A method from any of its forms: text, a class, a table with the keys of `Method`, or a `Method` itself.

    In "a:b", a registered name wins, and b is its preset; otherwise it is a class b in a module a.

    >>> method("bsfl:paper+alpha=5"), method({"selector": "oort", "label": "mine"}).label
    (Method('bsfl:paper+alpha=5'), 'mine')
    """
    if isinstance(given, Method):
        return given
    if isinstance(given, type):
        return Method(_check_class(given))
    if isinstance(given, Mapping):
        return _from_table(given)
    if not isinstance(given, str):
        raise InputError(
            f"{given!r:.80} is not a method; pass a name, 'module:Class', a Selector class, or enlist.Method(...)."
        )
    label, head, settings = parts_of(given)
    name, colon, rest = head.partition(":")
    if not colon:
        return Method(name, settings=settings, label=label)
    if name in names():
        _refuse_ambiguous(given, name, rest)
        return Method(name, preset=rest, settings=settings, label=label)
    return Method(head, settings=settings, label=label)


def methods(given: AnyMethods) -> list[Method[Any]]:
    """Several methods: comma-separated text, one method, a list, or a dict of label to method. Labels are distinct.

    >>> [each.label for each in methods({"plain": "oort", "mild": "oort+penalty=1"})]
    ['plain', 'mild']
    >>> methods("oort, oort")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: two methods are called 'oort'; give one of them a label: "other = oort".
    """
    if isinstance(given, str):
        found = [method(part) for part in split(given)]
    elif isinstance(given, type | Method):
        found = [method(given)]
    elif isinstance(given, Mapping):
        found = [method(each).named(str(label)) for label, each in given.items()]
    else:
        found = [method(each) for each in given]
    if not found:
        raise InputError("no methods were given; name at least one, for example 'oort,random'.")
    seen: set[str] = set()
    for each in found:
        if each.label in seen:
            raise InputError(
                f"two methods are called '{each.label}'; give one of them a label: \"other = {each.text}\"."
            )
        seen.add(each.label)
    return found


@overload
def create(
    given: type[SelectorT] | Method[SelectorT], clients: Clients, *, seed: int = ..., preset: str | None = ...,
    max_open: int = ..., **settings: Any,
) -> SelectorT: ...  # fmt: skip
@overload
def create(
    given: AnyMethod, clients: Clients, *, seed: int = ..., preset: str | None = ..., max_open: int = ...,
    **settings: Any,
) -> Selector[Any, Any]: ...  # fmt: skip
def create(
    given: Any, clients: Clients, *, seed: int = 0, preset: str | None = None, max_open: int = 100, **settings: Any
) -> Any:
    """Create a selector: by name, from a class, or from any other form of a method.

    Parameters
    ----------
    given : str, class or Method
        For example "oort", "bsfl:paper", "mine:LossPerSecond", `Oort`, or `Oort.with_(penalty=1.0)`.
    clients : Clients
        What is known of the clients.
    seed : int, default 0
        Seed of the selector's own generator.
    preset : str, optional
        A named set of settings, such as "paper".
    max_open : int, default 100
        Rounds after which a selection that was never told expires.
    **settings
        Settings of the selector, by name.

    >>> import enlist
    >>> enlist.create("darts-ucb", enlist.Clients(count=12), seed=7, epsilon=0.2)
    DartsUCB('darts-ucb', clients=12, round=0)
    """
    chosen = method(given)
    both = {**chosen.settings, **settings}
    return get(chosen.selector)(clients, seed=seed, preset=preset or chosen.preset, max_open=max_open, **both)


def load(folder: str | PathLike[str], **functions: Any) -> Selector[Any, Any]:
    """Load a saved selector, whatever its kind, and continue bit-exactly.

    A setting that was a function is not saved; pass it again by name.

    >>> import enlist, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     enlist.create("bsfl", enlist.Clients(count=3)).save(folder)
    ...     enlist.load(folder).name
    'bsfl'
    """
    return storage.load(folder, saved_kind(folder), functions)


def saved_kind(folder: str | PathLike[str]) -> AnySelector:
    """The class of a saved selector; a state never runs code, so a user's own class is refused.

    >>> import enlist, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     enlist.create("bsfl", enlist.Clients(count=3)).save(folder)
    ...     saved_kind(folder).__name__
    'BSFL'
    """
    name = storage.saved_name(folder)
    if is_code(name):
        short = name.rpartition(":")[2].rpartition(".")[2]
        raise InputError(
            f"{folder} holds a selector of your own, {name}; a saved state never runs code, so pass the class: "
            f"{short}.load(folder), or replay(folder, {short}) of a federation."
        )
    return get(name)


def _installed() -> dict[str, Any]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP) if entry.name not in BUILT_IN}


def _check_class(found: Any, place: str = "") -> AnySelector:
    if not (isinstance(found, type) and issubclass(found, Selector)):
        raise InputError(f"{place or found!r} is not a subclass of enlist.Selector; see docs/write-a-selector.md.")
    return found


def _from_table(table: Mapping[str, Any]) -> Method[Any]:
    known = ("selector", "name", "preset", "settings", "label")
    for key in table:
        if key not in known:
            raise unknown("key", str(key), known, owner="a method")
    name = table.get("selector", table.get("name"))
    if name is None:
        raise InputError(f"{dict(table)!r:.80} names no selector; give it the key 'selector'.")
    base = method(name)
    return Method(
        base.selector,
        preset=table.get("preset") or base.preset,
        settings={**base.settings, **(table.get("settings") or {})},
        label=table.get("label") or base.given_label,
    )


def _refuse_ambiguous(text: str, name: str, preset: str) -> None:
    """Refuse a name that is both a registered selector without such a preset and a user's file."""
    own = [f"{name}.py", f"{name}/__init__.py"]
    own = [path for path in own if (Path.cwd() / path).is_file()]
    if own and preset not in get(name).presets:
        raise InputError(
            f"'{text}' is ambiguous: '{name}' is a registered selector without a preset '{preset}', and {own[0]} is "
            "in this folder; rename it to use its class."
        )
