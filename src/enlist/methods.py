"""Methods: a selector with its settings and a label, written the same way in Python, in a file and on the command line.

enlist.method("oort")                               a registered name
enlist.method("bsfl:paper")                         with a preset
enlist.method("oort+penalty=1+clip=0.9")            with settings
enlist.method("mine:LossPerSecond")                 a class of your own, in a module of your own
enlist.method("fast = oort+penalty=1")              with a label
enlist.method(Oort.with_(penalty=1.0))              a class, checked by your editor
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from enlist._internal.importing import full_name
from enlist._internal.settings import build_settings
from enlist.errors import InputError

if TYPE_CHECKING:
    from enlist.contract import Selector

P = ParamSpec("P")
SelectorT = TypeVar("SelectorT", bound="Selector[Any, Any]")
LONGEST_LABEL = 200
MOST_SHOWN = 4
"""How many values of a list a label shows."""

_SETTING = re.compile(r"\+(?=[^\W\d]\w*=)")
"""Where a setting begins; the plus of 1e+3 is not followed by a name and an equals sign."""


@dataclasses.dataclass(frozen=True)
class Method(Generic[SelectorT]):
    """A selector, its preset and settings, and the label that tables, charts and folders use for it.

    Parameters
    ----------
    selector : str or class
        A registered name, "module:Class", or a subclass of `enlist.Selector`.
    preset : str, optional
        A named set of settings, such as "paper".
    settings : mapping, default {}
        Settings by name; they override the preset's.
    label : str, optional
        Its label; by default its text form, such as "oort+penalty=1".

    >>> Method("oort", settings={"penalty": 1.0})
    Method('oort+penalty=1.0')
    >>> Method("bsfl", preset="paper").named("BSFL as printed").label
    'BSFL as printed'
    """

    selector: str | type[SelectorT]
    preset: str | None = None
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    given_label: str | None = None

    def __init__(
        self,
        selector: str | type[SelectorT],
        *,
        preset: str | None = None,
        settings: Mapping[str, Any] | None = None,
        label: str | None = None,
    ) -> None:
        if not isinstance(selector, str | type):
            raise InputError(
                f"a method's selector is {selector!r}; it must be a name, 'module:Class', or a Selector class."
            )
        if label is not None and not (isinstance(label, str) and label.strip() and len(label) <= LONGEST_LABEL):
            raise InputError(f"a label is {label!r:.80}; it must be a text of 1 to {LONGEST_LABEL} characters.")
        object.__setattr__(self, "selector", selector)
        object.__setattr__(self, "preset", preset)
        object.__setattr__(self, "settings", dict(settings or {}))
        object.__setattr__(self, "given_label", None if label is None else label.strip())

    @property
    def name(self) -> str:
        """How a configuration names the selector: its registered name, or module:Class."""
        if isinstance(self.selector, str):
            return self.selector
        ours = self.selector.__module__.startswith("enlist.selectors.")
        return self.selector.name if ours or self.selector.registered else full_name(self.selector)

    @property
    def text(self) -> str:
        """The method as written on the command line."""
        return self._text(self.name)

    @property
    def label(self) -> str:
        """What tables, charts and folders call it."""
        if self.given_label:
            return self.given_label
        own = self.name if isinstance(self.selector, str) or ":" not in self.name else self.selector.__name__
        text = self._text(own, short=True)
        return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 3]}..."

    def _text(self, name: str, short: bool = False) -> str:
        head = f"{name}:{self.preset}" if self.preset else name
        return "".join([head, *(f"+{key}={_written(value, short)}" for key, value in self.settings.items())])

    def named(self, label: str) -> Method[SelectorT]:
        """The same method under another label."""
        return Method(self.selector, preset=self.preset, settings=self.settings, label=label)

    def with_preset(self, preset: str) -> Method[SelectorT]:
        """The same method on top of a preset."""
        return Method(self.selector, preset=preset, settings=self.settings, label=self.given_label)

    def __hash__(self) -> int:
        return hash((self.name, self.preset, self.label))

    def __repr__(self) -> str:
        label = f", label={self.given_label!r}" if self.given_label else ""
        return f"Method({self.text!r}{label})"


class WithSettings(Generic[P]):
    """`with_` of a selector class: a method with other settings, checked by editors and mypy.

    >>> from enlist.selectors import Oort
    >>> Oort.with_(penalty=1.0)
    Method('oort+penalty=1.0')
    >>> Oort.with_(penalti=1.0)
    Traceback (most recent call last):
    ...
    enlist.errors.UnknownNameError: Oort 'oort' has no parameter called 'penalti'. Did you mean 'penalty'? Known: ...
    """

    def __init__(self, settings: Callable[P, Any]) -> None:
        self.settings = settings

    def __get__(self, instance: object, owner: type[SelectorT]) -> Callable[P, Method[SelectorT]]:
        def with_(*values: P.args, **settings: P.kwargs) -> Method[SelectorT]:
            if values:
                raise InputError(f"{owner.__name__}.with_ takes settings by name, for example with_(penalty=1.0).")
            build_settings(owner, None, settings)
            return Method(owner, settings=settings)

        # A notebook completes and explains what it finds at run time.
        fields = inspect.signature(owner.Settings).parameters.values()
        named = [field.replace(kind=inspect.Parameter.KEYWORD_ONLY) for field in fields]
        with_.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
        with_.__doc__ = owner.Settings.__doc__
        return with_


def split(text: str) -> list[str]:
    """The methods in a comma-separated text; commas inside brackets, braces and quotes do not separate.

    >>> split('random, oort+penalty=1, cs-ucb-q+fractions=[0.5,0.5]')
    ['random', 'oort+penalty=1', 'cs-ucb-q+fractions=[0.5,0.5]']
    """
    parts, depth, quote, start = [], 0, "", 0
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def parts_of(text: str) -> tuple[str | None, str, dict[str, Any]]:
    """Label, selector (with its preset, if any) and settings of a method written as text.

    >>> parts_of("fast = oort:paper+penalty=1+pacer=code")
    ('fast', 'oort:paper', {'penalty': 1, 'pacer': 'code'})
    """
    head, *settings = _SETTING.split(text.strip())
    label, equals, rest = head.rpartition("=")
    if not (rest or head).strip() or (equals and not label.strip()):
        raise InputError(f"'{text}' names no method; write for example oort, bsfl:paper or fast=oort+penalty=1.")
    found = {}
    for setting in settings:
        key, _, value = setting.partition("=")
        if key in found:
            raise InputError(f"'{text}' gives '{key}' twice; give each setting once.")
        found[key] = _value(value.strip())
    return label.strip() or None, rest.strip(), found


def _value(text: str) -> Any:
    if text == "none":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text  # a bare word is a string


def _written(value: Any, short: bool = False) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        parts = [_written(each) for each in value]
        return "[" + ",".join(parts if not short or len(parts) <= MOST_SHOWN else [*parts[:2], "...", parts[-1]]) + "]"
    return getattr(value, "__qualname__", str(value))
