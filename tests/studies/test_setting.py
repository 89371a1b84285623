"""What was run: the table at the top of every verdict, from the settings of a study's experiments."""

from __future__ import annotations

import pytest

from enlist import studies
from enlist.studies.example import COINS
from enlist.studies.running import Reproduction
from enlist.studies.setting import setting_rows
from enlist.studies.writing import write


def runs(key, seeds, **config):
    return {key: {"settings": {"config": config, "selector": "oort"}, "seeds": seeds}}


def test_data_network_rounds_and_seeds_are_told():
    data = {"dataset": {"name": "fashion-mnist", "limit": 10_000, "download": False}, "clients": 12}
    found = setting_rows(
        runs(
            "select/oort", [3, 4, 5], data=data, model={"name": "mlp", "hidden": [64, 30]}, rounds={"rounds": 9, "k": 3}
        ),
        {},
    )
    assert dict(found[1:]) == {
        "data": "10,000 samples of fashion-mnist",
        "clients": "12",
        "network": "mlp, hidden 64-30",
        "clients per round": "3",
        "rounds": "9",
        "methods": "oort",
        "seeds": "3 to 5",
    }


def test_values_that_differ_say_whose_they_are_and_long_lists_end():
    several = {}
    for size in range(12):
        several |= runs(f"batch/{size}", [size, size + 5], training={"batch": size})
    several |= runs("select/oort", [0], training={"batch": 99})
    rows = dict(setting_rows(several, {})[1:])
    assert rows["local training"].startswith("batch 0 (batch); batch 1 (batch); ")
    assert rows["local training"].endswith("; and 5 more")
    assert rows["seeds"].startswith("0, 5 (batch); 1, 6 (batch)")


def test_what_the_paper_ran_stands_beside_it():
    rows = setting_rows(runs("a", [0]), {"seeds": "one run", "network": "ResNet-18", "server": "a GPU"})
    assert rows[0] == ["what", "here", "in the paper"]
    assert rows[-1] == ["server", "–", "a GPU"]
    assert ["seeds", "0", "one run"] in rows


@pytest.mark.parametrize("name", studies.names())
def test_every_study_tells_its_data_rounds_and_seeds(name):
    study = studies.get(name)
    found = {}
    for each in study.experiments(study.scale("smoke")):
        found.setdefault(each.key, {"settings": each.settings, "seeds": []})["seeds"].append(each.seed)
    told = [row[0] for row in setting_rows(found, study.paper)[1:]]
    assert {"data", "seeds"} <= set(told)


def test_it_stands_above_the_verdicts(tmp_path):
    with Reproduction.open(COINS, COINS.scale("smoke"), tmp_path / "coins") as work:
        work.run()
        page = write(work, "enlist reproduce coins", jobs=1)
    text = (page.parent / "verdict.md").read_text()
    table = "| what | here |\n|---|---|\n| seeds | 0 to 2 |\n"
    assert text.index("**What was run.**") < text.index(table) < text.index("## Smoke run")
    assert "What was run" in page.read_text()


def test_epochs_rules_of_arms_and_what_only_the_paper_says():
    settings = {"rounds": {"epochs": 6}, "rule": {"kind": "ucb", "c": 0.05}, "model": {"name": "x", "at": [0.5, -1.0]}}
    rows = {row[0]: row[1:] for row in setting_rows({"a": {"settings": settings, "seeds": [0]}}, {"clients": "4"})}
    assert rows["epochs per round"] == ["6", "–"]
    assert rows["methods"] == ["ucb, c 0.05", "–"]
    assert rows["clients"] == ["–", "4"]
    assert rows["network"][0] == "x, at 0.5/-1"


def test_workers_of_drawn_data_are_counted():
    settings = {"workers": {"dataset": {"name": "telecom", "likeness": [0.5, 1.0, 0.7, -0.3]}}}
    assert ["clients", "4"] in setting_rows({"a": {"settings": settings, "seeds": [0]}}, {})


@pytest.mark.parametrize("name", ["bsfl", "darts", "fedsuv", "mabfl"])
def test_every_study_of_a_paper_says_what_the_paper_ran(name):
    assert {"data", "clients", "network", "rounds", "methods", "seeds"} <= set(studies.get(name).paper)
