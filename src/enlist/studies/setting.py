"""What was run, as a table at the top of every verdict: data, clients, network, methods, rounds, seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

MOST = 8
"""Values of one kind that the table lists; settings.json has all of them."""


def setting_rows(experiments: Mapping[str, Mapping[str, Any]], paper: Mapping[str, str]) -> list[list[str]]:
    """Header and a line per kind of setting, beside what the paper says of it (`Study.paper`).

    experiments   key -> {"settings": ..., "seeds": [...]}, as settings.json has them

    A value that not all experiments share is followed by the first parts of the keys that have it.

    >>> config = {"data": {"dataset": "digits", "clients": 12}, "rounds": {"rounds": 20, "k": 3}}
    >>> runs = {"a/one": {"settings": {"config": config}, "seeds": [0, 1]}, "b": {"settings": {}, "seeds": [0]}}
    >>> setting_rows(runs, {"data": "CIFAR-10"})[1:3]
    [['data', 'digits', 'CIFAR-10'], ['clients', '12', '–']]
    >>> setting_rows(runs, {})[-1]
    ['seeds', '0 to 1 (a); 0 (b)']
    """
    rows = []
    for name, read in KINDS.items():
        places: dict[str, list[str]] = {}
        for key, each in experiments.items():
            if found := read(each):
                places.setdefault(found, []).append(key.partition("/")[0])
        if places or name in paper:
            rows.append([name, _listed(places) if places else "–", paper.get(name, "–")])
    rows += [[name, "–", said] for name, said in paper.items() if name not in KINDS]
    header = ["what", "here", "in the paper"]
    return [header, *rows] if paper else [header[:2], *(row[:2] for row in rows)]


def _listed(places: Mapping[str, Sequence[str]]) -> str:
    if len(places) == 1:
        return next(iter(places))
    words = [f"{value} ({', '.join(dict.fromkeys(heads))})" for value, heads in places.items()]
    if len({tuple(dict.fromkeys(heads)) for heads in places.values()}) == 1:
        words = list(places)
    more = f"; and {len(words) - MOST} more" if len(words) > MOST else ""
    return "; ".join(words[:MOST]) + more


def _found(each: Mapping[str, Any], *paths: str) -> Any:
    """The first of several settings that is there, in a simulation's configuration or beside it."""
    for path in paths:
        for found in (each["settings"].get("config", {}), each["settings"]):
            for name in path.split("."):
                found = found.get(name) if isinstance(found, Mapping) else None
            if found is not None:
                return found
    return None


def _named(value: Any, *hidden: str) -> str:
    """A section as text: its name, then its other settings."""
    if not isinstance(value, Mapping):
        return "" if value is None else str(value)
    name = str(value.get("name", value.get("kind", "")))
    others = [f"{key} {_plain(own)}" for key, own in value.items() if key not in ("name", "kind", *hidden)]
    return ", ".join(filter(None, [name, *others]))


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    if isinstance(value, list | tuple):
        parts = [_plain(each) for each in value]
        return ("/" if any(part.startswith("-") for part in parts) else "-").join(parts)
    return str(value)


def _data(each: Mapping[str, Any]) -> str:
    found = _found(each, "data.dataset", "workers.dataset", "dataset")
    if isinstance(found, Mapping) and "limit" in found:
        return f"{found['limit']:,} samples of {_named(found, 'limit', 'download', 'folder', 'mirror')}"
    return _named(found, "download", "folder", "mirror")


def _workers(each: Mapping[str, Any]) -> str:
    """How many workers drawn data are for: as many as they have a likeness of."""
    found = _found(each, "workers.dataset.likeness")
    return str(len(found)) if found else ""


def _seeds(each: Mapping[str, Any]) -> str:
    seeds = sorted(each["seeds"])
    if seeds == list(range(seeds[0], seeds[-1] + 1)) and len(seeds) > 1:
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def _number(*paths: str) -> Callable[[Mapping[str, Any]], str]:
    def read(each: Mapping[str, Any]) -> str:
        found = _found(each, *paths)
        return "" if found is None or isinstance(found, Mapping) else _plain(found)

    return read


KINDS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "data": _data,
    "scenario": _number("scenario"),
    "clients": lambda each: _number("data.clients", "clients", "workers.count")(each) or _workers(each),
    "partition": lambda each: _named(_found(each, "data.partition", "partition")),
    "network": lambda each: _named(_found(each, "model")),
    "local training": lambda each: _named(_found(each, "training"), "measure"),
    "clients per round": _number("rounds.k", "k"),
    "epochs per round": _number("rounds.epochs"),
    "rounds": _number("rounds.rounds", "rounds"),
    "methods": lambda each: _named(_found(each, "selector", "selectors", "rule")),
    "seeds": _seeds,
}
"""Names of the lines, and how each is read from an experiment; "" if it has none."""
