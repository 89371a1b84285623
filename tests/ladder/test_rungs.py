"""The rungs: every file loads, says what is hard, has a budget; and none changes without a new version."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from enlist.errors import InputError, UnknownNameError
from enlist.ladder import NAMES, VERSION, Rung, rungs
from enlist.ladder.rung import DEVELOPMENT, FOLDER, PUBLISHED
from enlist.simulation import Config, build, simulate

DIGESTS = {1: "c2272d55d9684b1d"}
"""Version of the ladder -> digest of its rungs. A rung that changes makes a new version: add it, and run all again.
Another spelling of the same setting, as of `late`, is no change: it parses to the same configuration."""


def test_the_rungs_of_a_version_stay_as_they_are() -> None:
    content = b"".join((FOLDER / f"{name}.toml").read_bytes() for name in NAMES)
    assert hashlib.sha256(content).hexdigest()[:16] == DIGESTS[VERSION]
    assert sorted(NAMES) == sorted(path.stem for path in FOLDER.glob("*.toml"))
    assert 12 <= len(NAMES) <= 16
    assert not set(DEVELOPMENT) & set(PUBLISHED)


@pytest.mark.parametrize("fashion", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_every_rung_loads_and_says_what_is_hard(name: str, fashion: bool) -> None:
    rung = Rung.read(FOLDER / f"{name}.toml", fashion=fashion)
    assert rung.hard.endswith(".")
    assert 40 < len(rung.hard) <= 140
    assert rung.config.rounds.seconds is not None
    assert rung.config.rounds.rounds <= 300
    assert rung.config.seed == 0
    assert rung.config.selector.name == "random"
    assert rung.data in (("fashion-mnist", "fedprox-synthetic") if fashion else ("digits", "fedprox-synthetic"))
    assert not rung.config.code()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "users"])
def test_every_rung_can_be_built_without_fashion_mnist(name: str) -> None:
    people = build(Rung.read(FOLDER / f"{name}.toml", fashion=False).config)
    assert people.sizes.min() >= 1
    assert people.name == "digits"


def test_a_real_rung_is_learned() -> None:
    [rung] = rungs("users")
    run = simulate(rung.config.replace("rounds.rounds=45"))
    accuracy = run.tables.rounds["accuracy"]
    seen = accuracy[np.isfinite(accuracy)]
    assert seen[-3:].mean() > seen[:3].mean() + 0.1


def test_unknown_rungs_and_files_that_are_none(tmp_path) -> None:
    with pytest.raises(UnknownNameError, match=r"no rung called 'silo'\. Did you mean 'silos'"):
        rungs("silo")
    (tmp_path / "odd.toml").write_text("[rung]\nfallback = []\n")
    with pytest.raises(InputError, match="needs hard, a sentence"):
        Rung.read(tmp_path / "odd.toml")


def test_slow_clients_hold_the_slow_classes() -> None:
    section = {"clients": 40, "partition": "shards", "slow_classes": [1, 5]}
    people = build(Config(data=section))
    holds = people.counts[:, [1, 5]].sum(axis=1) > 0
    assert people.devices.compute[holds].min() > people.devices.compute[~holds].max()
    plain = build(Config(data={**section, "slow_classes": []}))
    assert sorted(plain.devices.compute) == sorted(people.devices.compute)
    assert "slow_classes" not in Config().model_dump(mode="json")["data"]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"slow_classes": [10]}, "names class 10; the data set has 10"),
        ({"slow_classes": [1], "speed_correlation": 0.5}, "both say who gets which device"),
    ],
)
def test_slow_classes_that_make_no_sense(section: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(Config(data={"clients": 10, **section}))
