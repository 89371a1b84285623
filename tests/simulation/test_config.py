"""The configuration: every way to be wrong is named, short forms, changes from the command line, round trips."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from enlist.errors import InputError
from enlist.simulation import Config, load, parse
from tests.simulation.simulation_helpers import SMALL, every_selector


def changed(tmp_path: Path, text: str, *changes: str) -> Config:
    path = tmp_path / "run.toml"
    path.write_text(text)
    return load(path, changes)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ronds": {}}, r"my\.toml: 'ronds' is not a known key\. Did you mean 'rounds'\? Known: availability, data,"),
        ({"rounds": {"overcommit": 2}}, r"'rounds\.overcommit' is not a known key\. Did you mean 'over_commit'\?"),
        ({"data": {"dataset": {"name": "digits", "tset_share": 0.1}}}, r"'data\.dataset\.tset_share' .* 'test_share'"),
        ({"data": {"partition": {"kind": "dirichlet", "alhpa": 1}}}, r"'data\.partition\.alhpa' .* mean 'alpha'"),
        ({"model": {"name": "mlp", "hiden": [3]}}, r"'model\.hiden' is not a known key\. Did you mean 'hidden'\?"),
        ({"training": {"lr": -1.0}}, r"my\.toml: training\.lr = -1\.0, but input should be greater than 0"),
        ({"training": {"lr": "fast"}}, r"training\.lr = 'fast', but input should be a valid number"),
        ({"rounds": {"k": 0}}, r"rounds\.k = 0, but input should be greater than or equal to 1"),
        ({"rounds": {"k": 2.5}}, r"rounds\.k = 2\.5, but input should be a valid integer"),
        ({"rounds": {"late": "maybe"}}, r"rounds\.late = 'maybe', but input should be 'drop', 'learn' or 'merge'"),
        ({"rounds": 3}, r"rounds = 3, but input should be a valid dictionary"),
        ({"data": {"dataset": "digit"}}, r"data\.dataset\.name = 'digit' is not known\. .* 'digits'\? Allowed: "),
        ({"data": {"partition": "iidd"}}, r"data\.partition\.kind = 'iidd' is not known\. .* 'iid'\? Allowed: "),
        ({"devices": "phone"}, r"devices\.kind = 'phone' is not known\. .* 'phones'\? Allowed: described, equal"),
        ({"availability": "dayly"}, r"availability\.kind = 'dayly' is not known\..*: always, bernoulli, diurnal"),
        ({"model": "ResNet"}, r"model\.name = 'ResNet' is not known\..*Allowed: .*resnet18"),
        ({"rounds": {"deadline": "never"}}, r"rounds\.deadline\.kind = 'never' is not known\..*Allowed: fixed"),
        ({"rounds": {"deadline": {"seconds": 3}}}, r"rounds\.deadline does not say which kind it is"),
        ({"rounds": {"deadline": -3}}, r"rounds\.deadline\.seconds = -3, but input should be greater than 0"),
        ({"server": {"optimiser": "adam"}}, r"server\.optimiser\.kind = 'adam' is not known\. .* 'fedadam'\?"),
        ({"server": {"aggregation": "average"}}, r"server\.aggregation\.kind = 'average' is not known"),
        ({"selector": "orot"}, r"selector.*'orot'.*Did you mean 'oort'"),
        ({"selector": {"name": "oort", "preset": "papper"}}, r"'oort' has no preset called 'papper'\. Did you mean"),
        ({"membership": {"joins": [{"round": 1, "clients": 2}]}}, r"membership\.joins\.0\.round = 1, but"),
        ({"membership": {"leaves": [{"round": 3}]}}, r"'membership\.leaves\.0\.clients' is missing"),
        ({"evaluation": {"target": -0.5}}, r"evaluation\.target = -0\.5, but input should be greater than 0"),
        ({"evaluation": {"stop_at_target": True}}, r"evaluation: stop_at_target needs a target"),
        ({"rounds": {"adaptive_target": True}}, r"rounds: adaptive_target counts late updates.*late = .merge"),
        ({"training": {"partial": 0.5}}, r"training\.partial is below 1, but there is no deadline"),
        ({"rounds": {"protocol": "safa"}}, r'my\.toml: rounds\.protocol is .*set selector\.name = "safa"'),
        ({"seed": -1}, r"seed = -1, but input should be greater than or equal to 0"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(values, "my.toml")


def test_all_that_is_wrong_is_listed() -> None:
    with pytest.raises(InputError) as caught:
        parse({"training": {"lr": -1, "bacth": 3}, "rounds": {"k": 0}}, "my.toml")
    lines = str(caught.value).splitlines()
    assert lines[0] == "my.toml: 3 keys are wrong."
    assert len(lines) == 4
    assert any("'training.bacth' is not a known key. Did you mean 'batch'?" in line for line in lines)


def test_python_errors_are_the_same() -> None:
    with pytest.raises(InputError, match=r"Config: rounds\.k = 0"):
        Config(rounds={"k": 0})


def test_wrong_settings_of_a_selector_are_found_on_load() -> None:
    with pytest.raises(InputError, match=r"Did you mean .penalty"):
        parse({**SMALL, "selector": {"name": "oort", "settings": {"penalti": 1.0}}}, "my.toml")


@pytest.mark.parametrize(
    ("short", "path", "expected"),
    [
        ({"data": {"dataset": "digits"}}, "data.dataset.name", "digits"),
        ({"data": {"partition": "iid"}}, "data.partition.kind", "iid"),
        ({"devices": "tiers"}, "devices.kind", "tiers"),
        ({"availability": "diurnal"}, "availability.kind", "diurnal"),
        ({"model": "cnn"}, "model.name", "cnn"),
        ({"selector": "oort"}, "selector.name", "oort"),
        ({"rounds": {"deadline": "none"}}, "rounds.deadline.kind", "none"),
        ({"rounds": {"deadline": 42}}, "rounds.deadline.seconds", 42.0),
        ({"rounds": {"deadline": 1.5}}, "rounds.deadline.kind", "fixed"),
        ({"server": {"optimiser": "fedyogi"}}, "server.optimiser.kind", "fedyogi"),
        ({"server": {"aggregation": "median"}}, "server.aggregation.kind", "median"),
    ],
    ids=str,
)
def test_short_forms(short: dict[str, Any], path: str, expected: Any) -> None:
    found: Any = parse(short, "my.toml")
    for step in path.split("."):
        found = getattr(found, step)
    assert found == expected


def test_changes_from_the_command_line(tmp_path: Path) -> None:
    text = '[data]\npartition = "iid"\n[rounds]\nk = 3\ndeadline = 100\n[model]\nname = "mlp"\n'
    found = changed(
        tmp_path,
        text,
        "rounds.k=20",
        "training.lr=1e-3",
        "training.partial=0.5",
        "data.dataset=digits",
        "data.partition=dirichlet",
        "data.partition.alpha=0.7",
        "model.hidden=[5, 6]",
        "selector=oort",
        "selector.settings.penalty=1.5",
        "evaluation.target=0.5",
        "evaluation.stop_at_target=true",
        'server.optimiser="fedyogi"',
        "server.optimiser.lr=0.02",
        "membership.joins=[{round = 4, clients = 2}]",
    )
    assert (found.rounds.k, found.training.lr, found.training.partial) == (20, 1e-3, 0.5)
    assert (found.data.partition.kind, found.data.partition.alpha) == ("dirichlet", 0.7)
    assert found.model.hidden == (5, 6)
    assert (found.selector.name, found.selector.settings) == ("oort", {"penalty": 1.5})
    assert found.evaluation.stop_at_target is True
    assert (found.server.optimiser.kind, found.server.optimiser.lr) == ("fedyogi", 0.02)
    assert found.membership.joining == 2
    assert found.rounds.deadline.seconds == 100.0


def test_a_change_inside_a_short_form_keeps_what_the_short_form_said(tmp_path: Path) -> None:
    found = changed(tmp_path, '[data]\ndataset = "digits"\n', "data.dataset.test_share=0.3")
    assert (found.data.dataset.name, found.data.dataset.test_share) == ("digits", 0.3)
    found = changed(tmp_path, 'model = "mlp"\ndevices = "equal"\n', "model.hidden=[4]", "devices.compute=9")
    assert (found.model.hidden, found.devices.compute) == ((4,), 9.0)
    found = changed(tmp_path, 'selector = "oort"\n', "selector.preset=paper")
    assert (found.selector.name, found.selector.preset) == ("oort", "paper")
    found = changed(tmp_path, "[rounds]\ndeadline = 100\n", "rounds.deadline.seconds=50")
    assert found.rounds.deadline.seconds == 50.0


@pytest.mark.parametrize("change", ["rounds.k", "=3", "", "rounds.k:3"])
def test_a_change_without_key_or_value_is_refused(tmp_path: Path, change: str) -> None:
    with pytest.raises(InputError, match=r"write key\.key=value, for example rounds\.k=20"):
        changed(tmp_path, "", change)


@pytest.mark.parametrize("change", ["rounds.kk=3", "rounds.k.x=3", "nothing.at.all=1", "rounds.k=many", "rounds..k=3"])
def test_a_wrong_change_is_a_wrong_configuration(tmp_path: Path, change: str) -> None:
    with pytest.raises(InputError, match=r"run\.toml: "):
        changed(tmp_path, "", change)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml cannot be read: No such file or directory\. Examples are in"):
        load(tmp_path / "none.toml")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        load(tmp_path)
    broken = tmp_path / "broken.toml"
    broken.write_text("[rounds\nk = 3")
    with pytest.raises(InputError, match=r"broken\.toml is not valid TOML: .*line 1"):
        load(broken)
    broken.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is not valid TOML"):
        load(broken)
    other = tmp_path / "config.json"
    other.write_text("{")
    with pytest.raises(InputError, match=r"config\.json is not valid"):
        load(other)
    other.write_text("[1, 2]")
    with pytest.raises(InputError, match=r"config\.json"):
        load(other, ["rounds.k=3"])


FULL: dict[str, Any] = {
    "seed": 4,
    "selector": {"name": "oort", "preset": "paper", "settings": {"penalty": 1.0}},
    "data": {
        "dataset": {"name": "fedprox-synthetic", "users": 12, "alpha": 0.5},
        "partition": {"kind": "natural"},
        "clients": 0,
        "validation": 0.0,
        "speed_correlation": -0.5,
    },
    "devices": {"kind": "tiers", "shares": [1, 2], "compute": [10, 20], "bandwidth": [100, 200]},
    "availability": {"kind": "trace", "path": "sessions.csv", "period": 100.0},
    "failures": {"crash": 0.1},
    "membership": {"joins": [{"round": 3, "clients": 2}], "leaves": [{"round": 4, "clients": [0, 1]}]},
    "model": {"name": "python", "factory": "torch.nn:Linear", "options": {"in_features": 60, "out_features": 10}},
    "training": {"steps": 4, "momentum": 0.5, "measure": True},
    "server": {"optimiser": {"kind": "fedadam", "beta1": 0.8}, "aggregation": {"kind": "clipped-mean", "norm": 2.0}},
    "rounds": {"rounds": 7, "seconds": 99.5, "deadline": {"kind": "moving-average"}, "forecast": 0.9, "late": "merge"},
    "evaluation": {"every": 3, "target": 0.5, "stop_at_target": True},
}


@pytest.mark.parametrize("values", [{}, SMALL, FULL], ids=["default", "small", "full"])
def test_a_configuration_survives_json(values: dict[str, Any], tmp_path: Path) -> None:
    first = parse(values, "first")
    text = json.dumps(first.model_dump(mode="json"))
    again = parse(json.loads(text), "again")
    assert again == first
    assert json.dumps(again.model_dump(mode="json")) == text
    file = tmp_path / "config.json"
    file.write_text(text)
    assert load(file, trust=True) == first


def test_another_selector_and_seed() -> None:
    first = parse(FULL, "first")
    other = first.with_method("refl:paper", 9)
    assert (other.selector.name, other.selector.preset, other.selector.settings, other.seed) == ("refl", "paper", {}, 9)
    assert first.with_method("oort", 1).selector.settings == {"penalty": 1.0}
    assert other.model_copy(update={"selector": first.selector, "seed": 4}) == first
    with pytest.raises(InputError, match="method 'orot'"):
        first.with_method("orot", 1)
    with pytest.raises(InputError, match="preset called"):
        first.with_method("oort:nonsense", 1)


def test_every_selector_can_be_named() -> None:
    names = every_selector()
    assert len(names) == 33
    for name in names:
        assert parse({"selector": name}, "x").selector.name == name


@pytest.mark.parametrize(
    ("k", "over_commit", "asked"), [(10, 1.3, 13), (10, 1.0, 10), (3, 1.5, 5), (10, 1.1, 11), (7, 1.0 + 1e-12, 7)]
)
def test_over_commitment_rounds_up_but_not_for_rounding_errors(k: int, over_commit: float, asked: int) -> None:
    assert parse({"rounds": {"k": k, "over_commit": over_commit}}, "x").rounds.asked == asked


def test_options_cannot_be_changed_in_place() -> None:
    with pytest.raises(Exception, match="frozen"):
        Config().rounds.k = 3  # type: ignore[misc]
