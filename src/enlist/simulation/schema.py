"""The page docs/configuration.md, generated from the options classes.

`python -m enlist.simulation.schema > docs/configuration.md` regenerates it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from enlist._internal.aliases import (
    FORMER_COLUMNS,
    FORMER_COUNTS,
    FORMER_KEYS,
    FORMER_LATE,
    FORMER_METRICS,
    FORMER_NAMES,
    GOES_IN,
    GONE,
)
from enlist.simulation.config import Config

Schema = Mapping[str, Any]

EXAMPLE = """\
seed = 1

[selector]
name = "oort"

[data]
dataset = "digits"                                  # a name alone: its options keep their defaults
clients = 50
partition = { kind = "dirichlet", alpha = 0.1 }     # a table: some options are set

[availability]
kind = "diurnal"

[model]
name = "mlp"
hidden = [64]

[training]
batch = 10
lr = 0.1

[rounds]
rounds = 100
k = 10
deadline = { kind = "percentile", percentile = 80 }

[evaluation]
target = 0.85
"""

INTRODUCTION = f"""\
# Configuration

A run is described by one TOML file. Every key below may be left out unless it is marked as required, so an empty file
is a valid run. Unknown keys, wrong types and values out of bounds are refused before anything runs, with the nearest
key that exists. Numbers are finite, at most 1e15 in magnitude (in `training` 1e30), and those above 0 at least 1e-30.
A run that would need more than 2^31 parameters, 10^10 numbers in a generated data set, 10^8 clients, or 10^9 samples
for one client in a round is refused before memory is allocated for it; the message says how much it would need.

```toml
{EXAMPLE}```

Run it with `enlist run my.toml`, see who holds what with `enlist describe my.toml`, and change single keys from the
command line: `enlist run my.toml --set rounds.k=20 --set data.partition=iid`.

If a section has alternatives, its `kind` (for data sets, models and selectors its `name`) says which one is meant. The
word alone stands for the table with defaults: `partition = "iid"` is short for `partition = {{ kind = "iid" }}`. A
number as deadline is a fixed deadline: `deadline = 120`. A selector is written as everywhere else (docs/python.md):
`selector = "bsfl:paper+alpha=5"`, or `selector = "mine:LossPerSecond"` for your own class. The `config.json` that a
run leaves in its folder is also a valid configuration.

This page is made from the code: `python -m enlist.simulation.schema > docs/configuration.md`.
"""

FORMER = f"""\
## Former spellings

These names and words of version 0.1 are deprecated: they work until version {GOES_IN}, with a notice that names the new
ones. Folders with former columns, however, are read and continued under their own header without an end date.
"""

HELPERS = """\
Undocumented names have moved without an alias:
"""

BOUNDS = (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<"))
TYPES = {
    "integer": ("whole number", "whole numbers"),
    "number": ("number", "numbers"),
    "string": ("text", "texts"),
    "boolean": ("true or false", "true or false"),
    "object": ("table", "tables"),
}


def markdown() -> str:
    """The page docs/configuration.md.

    >>> print(markdown()[:15])
    # Configuration
    """
    return f"{page(Config.model_json_schema(), INTRODUCTION)}\n{former_words()}"


def former_words() -> str:
    """The old spellings that are still read, each with its replacement.

    >>> former_words().splitlines()[8]
    '| `with_selector` | `overcommit=` | `over_commit=` |'
    """
    rows = [("`rounds.late`", f'`"{former}"`', f'`"{FORMER_LATE[former]}"`') for former in ("use",)]
    rows += [("`with_selector`", f"`{former}=`", f"`{now}=`") for former, now in FORMER_KEYS.items()]
    rows += [
        ("`late=` of `with_selector`, `Books` and the arena", f'`"{former}"`', f'`"{now}"`')
        for former, now in FORMER_LATE.items()
        if former != "use"
    ]
    rows += [
        (f"`{table}`", f"column `{former}`", f"`{now}`")
        for table, columns in sorted(FORMER_COLUMNS.items(), key=lambda pair: pair[0] == "clients.csv")
        for former, now in columns.items()
    ]
    rows += [
        (f"`{module}`", f"class `{former}`", f"`{now}`")
        for module, names in FORMER_NAMES.items()
        for former, now in names.items()
    ]
    rows += [("`RoundResult.counts`", f'`"{former}"`', f'`"{now}"`') for former, now in FORMER_COUNTS.items()]
    rows += [("`/metrics`", f"`enlist_{former}`", f"`enlist_{now}`") for former, now in FORMER_METRICS.items()]
    table = ["| where | before | now |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]
    gone = ["| before | now |", "|---|---|", *(f"| `{former}` | `{now}` |" for former, now in GONE.items())]
    return "\n".join([FORMER, *table, "", HELPERS, *gone, ""])


def page(schema: Schema, introduction: str) -> str:
    """A page about the JSON schema of options: every section, every key, and every alternative where there are some.

    >>> print(page({"properties": {"seed": {"type": "integer", "description": "Luck."}}}, "# Mine\\n").splitlines()[-1])
    | `seed` | whole number | – |  | Luck. |
    """
    single = {key: value for key, value in schema["properties"].items() if not _parts(value)}
    links = [
        f"[{key}](#{_anchor(_heading(key, False))})" for key, value in schema["properties"].items() if _parts(value)
    ]
    blocks = [introduction, f"Sections: {', '.join(links)}.\n"]
    blocks += ["## The whole run\n", "At the top of the file, above all sections.\n"]
    blocks += [_keys(single, schema.get("required", ()), schema), *_sections(schema, schema, "", 2)]
    return "\n".join(blocks)


def undescribed(schema: Schema) -> list[str]:
    """Keys of a JSON schema without a description; the tag that distinguishes alternatives needs none.

    >>> undescribed({"title": "Some", "properties": {"a": {"type": "string"}, "kind": {"const": "one"}}})
    ['Some.a']
    """
    classes = {schema.get("title", ""): schema, **schema.get("$defs", {})}
    return [
        f"{name}.{key}"
        for name, model in classes.items()
        for key, value in model.get("properties", {}).items()
        if "const" not in value and not value.get("description")
    ]


def _sections(model: Schema, whole: Schema, path: str, depth: int) -> Iterator[str]:
    """The sections below a table: one for each key that holds a table itself."""
    for key, value in model["properties"].items():
        if not _parts(value):
            continue
        name = f"{path}.{key}" if path else key
        many = value.get("type") == "array"
        yield f"{'#' * depth} {_heading(name, many)}\n"
        yield f"{value['description']}\n"
        if "discriminator" in (value["items"] if many else value):
            yield from _alternatives(value["items"] if many else value, whole, name, depth)
            continue
        inner = _resolved(value["items"] if many else _known(value), whole)
        yield _keys(inner["properties"], inner.get("required", ()), whole, name)
        yield from _sections(inner, whole, name, depth + 1)


def _alternatives(value: Schema, whole: Schema, path: str, depth: int) -> Iterator[str]:
    tag = value["discriminator"]["propertyName"]
    models = [_resolved(part, whole) for part in value["oneOf"]]
    words = [model["properties"][tag]["const"] for model in models]
    default = value.get("default", {}).get(tag)
    lines = [
        f"| `{_toml(word)}`{' (default)' if word == default else ''} | {_cell(_about(model))} |"
        for word, model in zip(words, models, strict=True)
    ]
    yield "\n".join([f"| {tag} | what it is |", "|---|---|", *lines, ""])
    alike: dict[str, list[str]] = {}
    for word, model in zip(words, models, strict=True):
        own = {key: inner for key, inner in model["properties"].items() if key != tag}
        if own:
            alike.setdefault(_keys(own, model.get("required", ()), whole, path), []).append(f"`{_toml(word)}`")
    for table, same in alike.items():
        yield f"{'#' * (depth + 1)} `[{path}]` with {tag} {_listed(same)}\n"
        yield table


def _keys(properties: Schema, required: Sequence[str], whole: Schema, path: str = "") -> str:
    lines = ["| key | type | default | allowed | meaning |", "|---|---|---|---|---|"]
    for key, value in properties.items():
        if _parts(value):
            name = f"{path}.{key}" if path else key
            kind, allowed = _part_cells(value, name, whole)
        else:
            kind, allowed = _type(value), _allowed(value)
        default = "required" if key in required else _default(value)
        lines.append(f"| `{key}` | {kind} | {default} | {_cell(allowed)} | {_cell(value.get('description', ''))} |")
    return "\n".join([*lines, ""])


def _part_cells(value: Schema, name: str, whole: Schema) -> tuple[str, str]:
    """Type and allowed values of a key that holds a table."""
    many = value.get("type") == "array"
    link = f"[below](#{_anchor(_heading(name, many))})"
    if "discriminator" in value:
        return f"{value['discriminator']['propertyName']} or table", link
    return "tables" if many else "table", link


def _parts(value: Schema) -> bool:
    """Whether a key holds a table with keys of its own, one of several alternatives, or a list of such tables."""
    value = _known(value)
    items = value.get("items", {})
    return any("$ref" in part or "discriminator" in part for part in (value, items))


def _resolved(value: Schema, whole: Schema) -> Schema:
    found: Schema = whole["$defs"][value["$ref"].rpartition("/")[2]]
    return found


def _known(value: Schema) -> Schema:
    """The part of an optional value that is not null."""
    parts = [part for part in value.get("anyOf", ()) if part.get("type") != "null"]
    return parts[0] if len(parts) == 1 else value


def _type(value: Schema, plural: bool = False) -> str:
    value = _known(value)
    if "anyOf" in value:
        return " or ".join(_type(part, plural) for part in value["anyOf"] if part.get("type") != "null")
    if value.get("type") == "array":
        items = value["prefixItems"][0] if "prefixItems" in value else value.get("items", {})
        count = f"{len(value['prefixItems'])} " if "prefixItems" in value else ""
        return f"list of {count}{_type(items, plural=True)}"
    if value.get("format") == "path":
        return "path"
    return TYPES.get(value.get("type", ""), ("any", "any"))[plural]


def _allowed(value: Schema) -> str:
    value = _known(value)
    if "enum" in value:
        return ", ".join(f"`{_toml(word)}`" for word in value["enum"])
    if value.get("type") == "array":
        items = value["prefixItems"][0] if "prefixItems" in value else value.get("items", {})
        inner = _allowed(items)
        least = value.get("minItems", 0) if "prefixItems" not in value else 0
        return ", ".join([*([f"at least {least}"] if least else []), *([f"each {inner}"] if inner else [])])
    return ", ".join(f"{sign} {value[name]:g}" for name, sign in BOUNDS if name in value)


def _default(value: Schema) -> str:
    if "discriminator" in value:
        return f"`{_toml(value['default'][value['discriminator']['propertyName']])}`"
    if "$ref" in value or "default" not in value or value["default"] is None:
        return "–"
    return f"`{_toml(value['default'])}`"


def _toml(value: Any) -> str:
    """A value as TOML writes it, which for these types is the same as in JSON."""
    return json.dumps(value, ensure_ascii=False)


def _about(model: Schema) -> str:
    """The first paragraph of the docstring."""
    return " ".join(str(model.get("description", "")).partition("\n\n")[0].split())


def _heading(path: str, many: bool) -> str:
    return f"`[[{path}]]`" if many else f"`[{path}]`"


def _anchor(heading: str) -> str:
    """The anchor that hosts of Markdown pages give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _listed(words: Sequence[str]) -> str:
    return " or ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.stdout.write(markdown())
