"""A method is named the same way wherever one is named: library, simulator, file, command line, arena, Flower."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.serverapp.strategy import FedAvg
from typer.testing import CliRunner

import enlist
import enlist.testing
from enlist import Method, selectors
from enlist._internal.sending import packed
from enlist.arena import BSFLReward, World, scenario
from enlist.arena import Tournament as Match
from enlist.arena import compare as play
from enlist.arena.compare import save
from enlist.arena.genie import make
from enlist.cli.app import app
from enlist.contract import Selector
from enlist.errors import InputError, TrustError
from enlist.flower import replay, with_selector
from enlist.flower.fake import FakeGrid
from enlist.flower.selector import SelectorSource as Source
from enlist.runs.tables import read_run
from enlist.selectors import Oort
from enlist.simulation import Config, Simulation, load, simulate
from enlist.studies.experiments import match
from enlist.studies.results import selector_settings
from tests.flower.flower_helpers import behaving, run

CLIENTS = enlist.Clients(num_examples=[10.0] * 8)
SMALL = Config(data={"clients": 8}, rounds={"rounds": 2, "k": 3}, training={"steps": 1})
MODULE = """
from pathlib import Path
import dataclasses
import enlist

Path("imported").write_text("yes")

@dataclasses.dataclass(frozen=True)
class FirstSettings:
    skip: int = 0

class First(enlist.Selector):
    Settings = FirstSettings

    def choose(self, request):
        first = self.settings.skip
        return request.pick(range(first, first + request.k))
"""


class Last(enlist.Selector[Any, Any]):
    """Chooses the last ones."""

    def choose(self, request: enlist.Request) -> enlist.Choice:
        return request.pick(range(len(request.available) - request.k, len(request.available)))


FORMS: list[Any] = [
    "oort:paper+penalty=1.5",
    "mild = oort:paper+penalty=1.5",
    Method("oort", preset="paper", settings={"penalty": 1.5}),
    Oort.with_(penalty=1.5).with_preset("paper"),
    Oort.with_(penalty=1.5).with_preset("paper").named("mild"),
    {"name": "oort", "preset": "paper", "settings": {"penalty": 1.5}},
    {"name": "oort:paper+penalty=1.5"},
]


def simulated(config: Config) -> Selector[Any, Any]:
    with Simulation(config) as simulation:
        return simulation.selector


def simulated_with(given: Any) -> Selector[Any, Any]:
    with Simulation(SMALL, given) as simulation:
        return simulation.selector


PLACES: dict[str, Callable[[Any], Selector[Any, Any]]] = {
    "create": lambda given: enlist.create(given, CLIENTS),
    "Config": lambda given: simulated(Config(**{**SMALL.model_dump(), "selector": given})),
    "replace": lambda given: simulated(SMALL.replace(selector=given)),
    "with_method": lambda given: simulated(SMALL.with_method(given)),
    "Simulation": simulated_with,
    "arena": lambda given: make(given, World(scenario("alike"), 8, 5, 1), BSFLReward(), 1),
    "Flower": lambda given: Source.of(given, None, None, 0).create(CLIENTS),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("given", FORMS, ids=str)
def test_every_form_works_everywhere(given: Any, place: str) -> None:
    made = PLACES[place](given)
    assert (type(made), made.preset) == (Oort, "paper")
    assert (made.settings.penalty, made.settings.retire_after) == (1.5, 10), "the preset's, but for what was given"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("given", ["oort+penalti=1", "orot", "nowhere_at_all:Thing", Oort.with_().with_preset("papr")])
def test_what_is_wrong_is_refused_everywhere(given: Any, place: str) -> None:
    with pytest.raises(enlist.EnlistError, match=r"Did you mean|there is no module 'nowhere_at_all'"):
        PLACES[place](given)


@pytest.mark.parametrize("place", PLACES)
def test_a_class_works_everywhere(place: str) -> None:
    assert type(PLACES[place](Last)) is Last


def test_a_table_gives_more_than_its_name_says() -> None:
    section = Config(selector={"name": "mild = oort:paper+penalty=1", "settings": {"clip": 0.9}}).selector
    assert (section.name, section.preset, section.title) == ("oort", "paper", "mild")
    assert section.settings == {"penalty": 1, "clip": 0.9}
    with pytest.raises(InputError, match="selector: 'oort\\+penalty=1\\+penalty=2' gives 'penalty' twice"):
        Config(selector={"name": "oort+penalty=1+penalty=2"})


def test_other_settings_of_a_class_of_ones_own_keep_the_class() -> None:
    config = SMALL.replace(selector=Last)
    assert config.replace("selector.label=final", "rounds.k=2").selector.kind() is Last
    assert config.replace("selector.label=final").selector.title == "final"
    assert config.replace("selector=oort").selector.kind() is Oort


def test_settings_that_no_file_holds_as_they_are(tmp_path: Path) -> None:
    def even(selector: Selector[Any, Any], k: int) -> Any:
        return np.full(len(selector.clients), k / len(selector.clients))

    for method in (
        selectors.BSFL.with_(generalisation=even),
        selectors.CSUCBQ.with_(fractions=np.full(8, 0.1)),
        selectors.Oort.with_(penalty=np.float64(1.5)),  # type: ignore[arg-type]
    ):
        run = simulate(SMALL, method, folder=tmp_path / method.name)
        config = json.loads((tmp_path / method.name / "config.json").read_text())
        assert config["selector"]["settings"] in (
            {"generalisation": "test_settings_that_no_file_holds_as_they_are.<locals>.even"},
            {"fractions": [0.1] * 8},
            {"penalty": 1.5},
        )
        assert simulate(SMALL, method).rounds.equals(run.rounds)
    assert (
        enlist.method(selectors.CSUCBQ.with_(fractions=np.full(8, 0.1))).label == "cs-ucb-q+fractions=[0.1,0.1,...,0.1]"
    )


# The user's own module.


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[str]:
    """A module in the current folder, under a name of the test's own, because a module is imported once."""
    name = "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path(f"{name}.py").write_text(MODULE)
    yield name
    sys.modules.pop(name, None)


@pytest.mark.parametrize("place", PLACES)
def test_a_module_of_the_current_folder_works_everywhere(place: str, module: str) -> None:
    made = PLACES[place](f"{module}:First+skip=2")
    assert (type(made).__name__, made.settings.skip) == ("First", 2)


TOML = "{selector}[data]\nclients = 8\n[rounds]\nrounds = 2\nk = 3\n[training]\nsteps = 1\n{table}"


def typed(*words: str) -> tuple[str, BaseException | None]:
    done = CliRunner().invoke(app, list(words))
    return " ".join(done.output.split()), None if isinstance(done.exception, SystemExit) else done.exception


@pytest.mark.parametrize(
    ("selector", "table", "change"),
    [
        ('selector = "mine={module}:First+skip=2"\n', "", ""),
        ("", '[selector]\nname = "{module}:First"\nlabel = "mine"\nsettings.skip = 2\n', ""),
        ("", '[selector]\nname = "mine={module}:First+skip=2"\n', ""),
        ('selector = "bsfl"\n', "", "selector=mine={module}:First+skip=2"),
    ],
    ids=["text", "table", "text in a table", "set"],
)
def test_files_and_set(selector: str, table: str, change: str, module: str) -> None:
    Path("own.toml").write_text(TOML.format(selector=selector, table=table).replace("{module}", module))
    words = ["--set", change.format(module=module)] if change else []
    output, error = typed("run", "own.toml", "--output", "one", "--workers", "0", *words)
    assert error is None, output
    assert "mine, seed 0" in output
    assert read_run(Path("one")).participations["client"][:3].tolist() == [2, 3, 4]


def test_the_command_line_compares_and_plays(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr("enlist.cli.compare.publish", lambda console, runs, *rest: shown.extend(runs))
    monkeypatch.setattr("enlist.cli.arena.publish", lambda folder, title, parts, *rest: shown.extend(parts) or folder)
    Path("own.toml").write_text(TOML.format(selector="", table=""))
    methods = f"random,mild=oort+penalty=1,{module}:First+skip=1,cs-ucb-q+fractions=[0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1]"
    output, error = typed("compare", "own.toml", "--selectors", methods, "--seeds", "1", "--jobs", "1", "--output", "c")
    assert error is None, output
    folders = sorted(path.name for path in Path("c/runs").iterdir())
    assert folders == ["cs-ucb-q+fractions=-0.1-0.1-...-0.1-", "mild", "random", f"{module}-First+skip=1"]
    words = ["--clients", "8", "--rounds", "5", "--k", "2", "--seeds", "1", "--jobs", "1", "--output", "a"]
    output, error = typed("arena", "--selectors", f"{methods},genie", *words)
    assert error is None, output
    settings, results = shown.pop()
    assert settings.labels == tuple(label for label, _ in results)
    assert (settings.labels[:2], settings.labels[-1]) == (("random", "mild"), "genie")
    assert len(shown) == 4
    for command in (["compare", "own.toml"], ["arena"]):
        assert "two methods are called 'oort'" in str(typed(*command, "--selectors", "oort,oort")[1])


# The arena.


def test_a_class_of_a_script_plays_in_other_processes(tmp_path: Path) -> None:
    class Own(Last):
        """Only this function knows it."""

    methods = {"own": Own, "last": Last, "plain": "oort", "mild": Oort.with_(penalty=1.0)}
    settings = Match(methods, "slow-minority", clients=12, k=3, rounds=12, seeds=2)
    alone, together = play(settings), play(settings, jobs=2)
    assert list(alone) == list(together) == [(label, seed) for seed in (0, 1) for label in methods]
    for key, record in alone.items():
        assert record.scores == together[key].scores
    assert alone["own", 0].scores == alone["last", 0].scores != alone["plain", 0].scores
    save(tmp_path, settings, alone)
    assert json.loads((tmp_path / "settings.json").read_text())["methods"]["own"].endswith("<locals>.Own")


def test_without_cloudpickle_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(Last):
        """Only this function knows it."""

    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(InputError, match=r"Own cannot be imported by other processes; pip install cloudpickle"):
        play(Match([Own, "random"], "alike", clients=5, k=2, rounds=2, seeds=1), jobs=2)
    assert pickle.loads(packed(Last, [Last])) is Last


def test_studies_name_methods_too() -> None:
    settings = {"selector": "cs-ucb+bonus_scale=1", "scenario": "alike", "clients": 6, "k": 2, "rounds": 4}
    plain = match({**settings, "selector": "cs-ucb:paper"}, 1, Path())
    assert match(settings, 1, Path())["selected"].tolist() == plain["selected"].tolist()
    assert selector_settings(settings) == selector_settings({"selector": "cs-ucb:paper"}) == {"bonus_scale": 1}
    assert selector_settings({"selector": "mine:Own"}) == {}


# Flower.


def test_flower_goes_on_only_with_the_same_class(tmp_path: Path) -> None:
    def own(count: int) -> type[Selector[Any, Any]]:
        if count == 1:

            class Own(Last):
                pass
        else:

            class Own(Last):  # type: ignore[no-redef]
                def begin_round(self, request: enlist.Request) -> None:
                    """Another class of the same name."""

        return Own

    grid = FakeGrid(range(11, 19), behaving())
    run(grid, 2, own(1), folder=tmp_path / "state")
    saved = json.loads((tmp_path / "state" / "config.json").read_text())["selector"]
    assert (saved["name"].rpartition(".")[2], len(saved["source"])) == ("Own", 64)
    with pytest.raises(InputError, match="the source of the selector has changed"):
        run(grid, 3, own(2), folder=tmp_path / "state")
    assert run(grid, 3, own(1), folder=tmp_path / "state").round == 3
    with pytest.raises(InputError, match="a saved state never runs code, so pass the class"):
        replay(tmp_path / "state")
    assert len(replay(tmp_path / "state", own(1))) == 3


def test_a_state_that_version_01_began_goes_on(tmp_path: Path) -> None:
    grid, config = FakeGrid(range(11, 19), behaving()), tmp_path / "state" / "config.json"
    run(grid, 2, Last, folder=tmp_path / "state")
    values = json.loads(config.read_text())
    del values["selector"]["source"]
    config.write_text(json.dumps(values))
    assert run(grid, 3, Last, folder=tmp_path / "state", accept_changes=True).round == 3


def test_settings_beside_a_method_win() -> None:
    wrapped = with_selector(FedAvg(), Oort.with_(penalty=1.0, clip=0.9), settings={"penalty": 3.0})
    assert wrapped.source.described()["settings"] == {"penalty": 3.0, "clip": 0.9}
    assert "source" not in wrapped.source.described()


# The contract suite.


def test_a_class_of_a_function_body_is_checked_in_another_process() -> None:
    class Own(Last):
        """Only this function knows it."""

    enlist.testing.run("same_in_another_process", Own)


# Trust.


def test_a_received_folder_runs_no_selector(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("own.toml").write_text(TOML.format(selector=f'selector = "{module}:First"\n', table=""))
    assert typed("run", "own.toml", "--output", "one", "--workers", "0")[1] is None
    sys.modules.pop(module)
    Path("imported").unlink()
    monkeypatch.setenv("XDG_STATE_HOME", "another-user")
    assert typed("report", "one")[1] is None
    for words in (["run"], ["compare", "--selectors", "random", "--seeds", "1"]):
        _, error = typed(*words[:1], "one/config.json", *words[1:])
        assert isinstance(error, TrustError)
        assert f"{module}:First" in str(error)
    assert not Path("imported").exists()
    for text in (f"{module}:First+skip=1", f"mine={module}:First"):  # typed, so it may
        assert load("one/config.json", [f"selector={text}"]).code() == (f"{module}:First",)
    output, error = typed("run", "one/config.json", "--output", "two", "--workers", "0", "--trust")
    assert error is None, output
    assert Path("imported").exists()
