"""Every error that Enlist raises on purpose, under one base class."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

NEAR = 0.65
"""How alike two names must be, from 0 to 1, for one to be suggested for the other: one letter in four may differ."""
LONGEST = 200
"""Letters of a name that are compared; the cost grows with their square."""


class EnlistError(Exception):
    """Base class: catch this to catch every error that Enlist raises on purpose.

    >>> import enlist
    >>> try:
    ...     enlist.create("oorf", enlist.Clients(count=3))
    ... except enlist.EnlistError as error:
    ...     print(type(error).__name__)
    UnknownNameError
    """


class InputError(EnlistError, ValueError):
    """An argument is invalid; nothing was changed.

    >>> import enlist
    >>> enlist.Clients(count=0)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: Clients got count=0; give at least one client.
    """


class FolderInUseError(InputError):
    """A folder is being written by another process."""


class UnknownNameError(EnlistError, LookupError):
    """A selector, preset or parameter of that name does not exist; the message lists those that do.

    >>> import enlist
    >>> enlist.create("bsfk", enlist.Clients(count=3))
    Traceback (most recent call last):
    ...
    enlist.errors.UnknownNameError: no selector is called 'bsfk'. Did you mean 'bsfl'? Known: ...
    """


class MissingColumnError(EnlistError, ValueError):
    """A selector needs a column that `Clients`, `Feedback` or `RoundMetrics` did not carry.

    >>> import enlist
    >>> enlist.create("size-proportional", enlist.Clients(count=3))
    Traceback (most recent call last):
    ...
    enlist.errors.MissingColumnError: selector 'size-proportional' needs clients.num_examples; pass Clients(num_ex...
    """


class TellError(EnlistError, ValueError):
    """An outcome that does not belong to any open selection."""


class UnknownSelectionError(TellError):
    """The selection does not come from this selector."""


class FinishedSelectionError(TellError):
    """Every client of the selection already has its final outcome."""


class ExpiredSelectionError(TellError):
    """The selection is older than `max_open` rounds: its clients count as dropped."""


class StateFileError(EnlistError, ValueError):
    """A saved state is missing, truncated, altered, or written by another format version.

    >>> import enlist
    >>> enlist.load("no/such/folder")
    Traceback (most recent call last):
    ...
    enlist.errors.StateFileError: no/such/folder holds no saved state: state.json is missing.
    """


class TrustError(EnlistError):
    """A run folder's own configuration names code, and nothing shows that this user made the folder on this machine.

    >>> from pathlib import Path
    >>> from enlist.runs.trust import check_trust
    >>> check_trust(Path("received"), {"seed": 1}, ["mynet:Net"])
    Traceback (most recent call last):
    ...
    enlist.errors.TrustError: the configuration of received names code to run, mynet:Net, and ...
    """


class PopulationError(EnlistError, ValueError):
    """The population is larger than this selector (or this setting of it) can serve."""


class MissingExtraError(EnlistError, ImportError):
    """A command needs an optional part that is not installed; the message says what to install.

    >>> str(MissingExtraError("arena", "cli"))
    "'enlist arena' needs the extra 'cli': pip install 'enlist[cli]'"
    """

    def __init__(self, command: str, extra: str) -> None:
        super().__init__(f"'enlist {command}' needs the extra '{extra}': pip install 'enlist[{extra}]'")


def unknown(kind: str, given: str, known: Iterable[str], owner: str = "") -> UnknownNameError:
    """Build the error for a name that does not exist: the name given, the nearest one, and all known ones.

    >>> str(unknown("preset", "papr", ["paper", "default"]))
    "no preset is called 'papr'. Did you mean 'paper'? Known: default, paper."
    """
    names = sorted(known)
    where = f"{owner} has no {kind} called" if owner else f"no {kind} is called"
    listing = ", ".join(names) if names else "none"
    return UnknownNameError(f"{where} '{given}'.{did_you_mean(given, names)} Known: {listing}.")


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A question that suggests the nearest name, with a leading space; empty if none is near.

    >>> did_you_mean("orot", ["oort", "random"]), did_you_mean("foo", ["oort", "random"])
    (" Did you mean 'oort'?", '')
    """
    folded = {name.casefold(): name for name in known if name != given}
    nearest = difflib.get_close_matches(given[:LONGEST].casefold(), folded, n=1, cutoff=NEAR)
    return f" Did you mean '{folded[nearest[0]]}'?" if nearest else ""
