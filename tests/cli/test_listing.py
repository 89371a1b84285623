"""`enlist list`: every name that a configuration may use, also without the extra `sim`."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

import enlist
from enlist.cli import console
from enlist.cli.listing import KINDS, OPTIONS, alternatives, listing
from enlist.data import DATASETS, PARTITIONS
from enlist.errors import MissingExtraError, UnknownNameError
from enlist.simulation.config import Config, parse
from enlist.training.models import MODELS

PLACES = {
    "devices": ("devices", "phones"),
    "availability": ("availability", "diurnal"),
    "deadlines": ("rounds.deadline", "moving-average"),
    "servers": ("server.optimiser", "fedyogi"),
    "aggregations": ("server.aggregation", "trimmed-mean"),
}


def app():
    one = typer.Typer()
    one.command()(listing)
    return one


def called(*arguments):
    result = CliRunner().invoke(app(), list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def words(what):
    return list(alternatives(what).columns[0].cells)


def test_selectors_are_listed_by_default():
    assert called() == called("selectors")
    assert all(name in called() for name in enlist.names())


def test_scenarios_are_listed():
    assert "slow-minority" in called("scenarios")


@pytest.mark.parametrize("what", OPTIONS)
def test_every_list_has_names_and_sentences(what):
    table = alternatives(what)
    names, sentences = (list(column.cells) for column in table.columns)
    assert len(names) == len(set(names)) >= 4
    assert all(sentence.strip() for sentence in sentences)
    shown = called(what)
    assert all(name in shown for name in names)


@pytest.mark.parametrize(("what", "known"), [("datasets", DATASETS), ("models", MODELS), ("partitions", PARTITIONS)])
def test_lists_are_those_of_the_registries(what, known):
    assert words(what) == list(known)


@pytest.mark.parametrize(("what", "place"), PLACES.items())
def test_lists_are_what_a_configuration_takes(what, place):
    path, example = place
    names = words(what)
    assert example in names
    *parents, key = path.split(".")
    value = {key: "no such thing"}
    for parent in parents:
        value = {parent: value}
    with pytest.raises(ValueError, match="is not known") as refused:
        parse(value, "test")
    allowed = str(refused.value).rpartition("Allowed: ")[2].rstrip(".").split(", ")
    assert sorted(names) == sorted(allowed)


def test_the_header_is_the_key_of_the_configuration():
    for what in OPTIONS:
        *path, tag = alternatives(what).columns[0].header.split(".")
        found = Config()
        for key in path:
            found = getattr(found, key)
        assert getattr(found, tag) in words(what)


def test_an_unknown_list_names_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'datasets'"):
        called("dataset")


def test_the_help_names_every_list():
    shown = CliRunner().invoke(app(), ["--help"]).output
    assert all(kind in shown for kind in KINDS)


def test_lines_fit_a_terminal_of_150_columns():
    for what in OPTIONS:
        with (plain := Console(width=150)).capture() as captured:
            plain.print(alternatives(what))
        assert max(len(line.rstrip()) for line in captured.get().splitlines()) <= 150


@pytest.mark.parametrize("what", OPTIONS)
def test_the_extra_is_named_where_it_is_missing(what, monkeypatch):
    monkeypatch.setattr(console.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=rf"'enlist list {what}' needs the extra 'sim'"):
        called(what)


def test_selectors_are_listed_without_the_extra():
    code = (
        "from importlib.machinery import PathFinder\n"
        "found, gone = PathFinder.find_spec, {'torch', 'pydantic', 'safetensors', 'sklearn', 'pooch'}\n"
        "PathFinder.find_spec = lambda name, *more: None if name.split('.')[0] in gone else found(name, *more)\n"
        "from enlist.cli.listing import listing\n"
        "from enlist.errors import MissingExtraError\n"
        "listing('selectors')\n"
        "listing('scenarios')\n"
        "try: import torch\n"
        "except ModuleNotFoundError: print('no torch')\n"
        "try: listing('models')\n"
        "except MissingExtraError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "fedsuv" in done.stdout
    assert "no torch" in done.stdout
    assert done.stdout.rstrip().endswith("pip install 'enlist[sim]'")


@pytest.mark.parametrize(
    ("seen", "there", "not_there"),
    [
        ("outcome", {"random", "tempo", "cs-ucb"}, {"darts-ucb", "oort", "divfl"}),
        ("secure-aggregation", {"random", "darts-ucb"}, {"oort", "divfl", "haccs", "cs-ucb-q"}),
        ("individual", {"random", "oort", "divfl"}, set()),
    ],
)
def test_who_works_where_little_is_seen(seen, there, not_there):
    lines = called("selectors", "--privacy", seen).splitlines()
    listed = {line.split()[0] for line in lines if line.strip()}
    assert there <= listed
    assert not not_there & listed


def test_the_list_names_the_selectors_that_flower_takes_under_secure_aggregation():
    privacy = pytest.importorskip("enlist.flower.privacy")
    listed = [
        line.split()[0] for line in called("selectors", "--privacy", "secure-aggregation").splitlines() if line.split()
    ]
    assert [name for name in listed if name in enlist.names()] == list(privacy.secure_names())
    assert enlist.selectors.get("cs-ucb-q").needs_with(fractions=[0.5, 0.5]) == {"latency"}


def test_privacy_that_nobody_knows_is_refused():
    with pytest.raises(UnknownNameError, match="secure-aggregation"):
        called("selectors", "--privacy", "secret")
    with pytest.raises(enlist.EnlistError, match="--privacy is for selectors, not for scenarios"):
        called("scenarios", "--privacy", "outcome")
