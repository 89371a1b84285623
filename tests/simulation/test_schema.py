"""docs/configuration.md: up to date, complete, and true."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pydantic
import pytest

from enlist._internal.options import Options
from enlist.simulation.config import Config, parse
from enlist.simulation.schema import EXAMPLE, markdown, undescribed

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def classes(annotation: Any) -> list[type[Options]]:
    """Options classes inside a type, by the types themselves and not by their JSON schema."""
    if isinstance(annotation, type) and issubclass(annotation, Options):
        return [annotation]
    return [found for part in get_args(annotation) for found in classes(part)]


def reachable(start: type[Options]) -> set[type[Options]]:
    found, waiting = set(), [start]
    while waiting:
        model = waiting.pop()
        if model not in found:
            found.add(model)
            waiting += [inner for field in model.model_fields.values() for inner in classes(field.annotation)]
    return found


def tag(field: pydantic.fields.FieldInfo) -> bool:
    return get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1


def unions() -> list[tuple[str, str, type[Options]]]:
    """Path, word and class of every alternative in the configuration."""

    def walk(model: type[Options], path: str) -> list[tuple[str, str, type[Options]]]:
        found = []
        for key, field in model.model_fields.items():
            inner, name = classes(field.annotation), f"{path}.{key}".strip(".")
            if len(inner) > 1 and get_origin(field.annotation) is tuple:
                continue  # a list of tables has no short form
            if len(inner) > 1:
                tags = [next(f.default for f in one.model_fields.values() if tag(f)) for one in inner]
                found += [(name, word, one) for word, one in zip(tags, inner, strict=True)]
            elif inner and get_origin(field.annotation) is None:
                found += walk(inner[0], name)
        return found

    return walk(Config, "")


def test_the_committed_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown(), (
        "run: python -m enlist.simulation.schema > docs/configuration.md"
    )


def test_the_command_writes_the_page() -> None:
    command = [sys.executable, "-m", "enlist.simulation.schema"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True)
    assert done.stdout == markdown()


def test_the_example_is_a_valid_configuration() -> None:
    shown = re.findall(r"```toml\n(.*?)```", markdown(), flags=re.S)
    assert shown == [EXAMPLE]
    config = parse(tomllib.loads(EXAMPLE), "example")
    assert config.selector.name == "oort"
    assert config.data.dataset.name == "digits"
    assert config.data.partition.alpha == 0.1
    assert config.rounds.deadline.percentile == 80


def test_what_the_introduction_says_is_true() -> None:
    assert parse({}, "empty") == Config()
    assert parse({"rounds": {"deadline": 120}}, "short").rounds.deadline.seconds == 120
    short, long = ({"data": {"partition": given}} for given in ("iid", {"kind": "iid"}))
    assert parse(short, "short") == parse(long, "long")


def test_every_field_of_every_options_class_is_described() -> None:
    found = reachable(Config)
    assert len(found) > 50
    missing = [
        f"{model.__name__}.{key}"
        for model in found
        for key, field in model.model_fields.items()
        if not field.description and not tag(field)
    ]
    assert not missing
    assert undescribed(Config.model_json_schema()) == []


def test_a_field_without_words_is_found() -> None:
    class Inner(Options):
        b: int = 1

    class Outer(Options):
        a: float = pydantic.Field(0.5, description="Spread.")
        inner: Inner = pydantic.Field(Inner(), description="More.")

    assert undescribed(Outer.model_json_schema()) == ["Inner.b"]


def test_every_key_is_on_the_page_with_its_description() -> None:
    page = markdown()
    for model in reachable(Config):
        for key, field in model.model_fields.items():
            if tag(field):
                assert f'`"{field.default}"`' in page
            elif field.description and not (model is Config and classes(field.annotation)):
                described = re.escape(field.description.replace("|", "\\|"))
                assert re.search(rf"^\| `{key}` \| .* \| {described} \|$", page, re.M), f"{model.__name__}.{key}"


@pytest.mark.parametrize(
    "line",
    [
        "| `k` | whole number | `10` | ≥ 1, ≤ 1e+08 | Updates wanted per round. |",
        "| `seconds` | number | – | > 0 | Stop when this much virtual time has passed. |",
        "| `momentum` | number | `0.0` | ≥ 0, < 1 | Momentum, which starts from zero in every round. |",
        "| `hidden` | list of whole numbers | `[200]` | each ≥ 1, ≤ 1e+09 | Neurons of each hidden layer. |",
        "| `clients` | whole number | required | ≥ 1 | How many. |",
        "| `clients` | list of whole numbers | required | at least 1 | Their positions. |",
        '| `late` | text | – | `"drop"`, `"learn"`, `"merge"` | Late updates: discarded, told to the selector '
        "when they arrive, or merged as well (as REFL does). If not given, they are discarded, except that SAFA merges "
        "them. |",
        '| `dataset` | name or table | `"digits"` | [below](#datadataset) | The data set: a name, or a table with its '
        "options. |",
        "| `joins` | tables | `[]` | [below](#membershipjoins) | Clients that join during the run. |",
    ],
)
def test_types_defaults_and_bounds(line: str) -> None:
    assert line in markdown().splitlines()


def test_links_lead_to_headings() -> None:
    page = markdown()
    headings = re.findall(r"^#+ (.*)$", page, flags=re.M)
    anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    assert len(anchors) == len(set(anchors))
    assert set(re.findall(r"\(#([^)]*)\)", page)) <= set(anchors)


def test_tables_have_five_three_or_two_columns() -> None:
    for line in markdown().splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) in (3, 4, 6), line


@pytest.mark.parametrize(("path", "word", "model"), unions())
def test_the_word_alone_stands_for_the_table(path: str, word: str, model: type[Options]) -> None:
    *parents, key = path.split(".")

    def config(value: Any) -> Config:
        for name in [key, *reversed(parents)]:
            value = {name: value}
        return parse(value, "test")

    if any(field.is_required() for field in model.model_fields.values()):
        with pytest.raises(ValueError, match="is missing"):
            config(word)
        return
    found: Any = config(word)
    for name in (*parents, key):
        found = getattr(found, name)
    assert found == model()
