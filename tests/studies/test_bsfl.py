"""The BSFL study: solvers against brute force, what it runs, and every figure, table and verdict."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enlist import studies
from enlist.arena.compare import Tournament, run
from enlist.arena.genie import BSFLReward
from enlist.errors import InputError
from enlist.simulation.config import parse
from enlist.studies import writing
from enlist.studies.bsfl import STUDY
from enlist.studies.bsfl import settings as bsfl_settings
from enlist.studies.bsfl.annealing import (
    ALSA,
    CODE,
    ONE_SIDED,
    PRINTED,
    SA,
    curve,
    degrees,
    drawn,
    energy,
    exact,
    graph,
    race,
    swaps,
    targets,
    walk,
)
from enlist.studies.bsfl.experiments import checkpoints, experiments, played
from enlist.studies.bsfl.figures import over_time, stepwise
from enlist.studies.bsfl.settings import IID, LARGE, NON_IID, SCALES, images_of, reward, seeds_of, text
from enlist.studies.claims import KINDS, UNTESTABLE, judge, read_further
from enlist.studies.results import Results
from enlist.studies.running import Reproduction, perform
from tests.studies.bsfl_example import example_results, group


def test_it_is_registered() -> None:
    assert studies.get("bsfl") is STUDY
    assert set(STUDY.scales) == {"smoke", "laptop", "paper"}


@pytest.mark.parametrize(("name", "extras"), [("smoke", ()), ("laptop", ("cifar10",)), ("paper", ())])
def test_every_configuration_is_valid(name: str, extras: tuple[str, ...]) -> None:
    scale = STUDY.scale(name, extras=extras)
    listed = experiments(scale)
    trainings = {each.key: each for each in listed if each.key.startswith("train/")}
    for each in trainings.values():
        config = parse(each.settings["config"], each.key).with_method(each.settings["selector"], each.seed)
        assert config.selector.name == each.settings["selector"].partition(":")[0].partition("+")[0]
    assert ("train/cifar10/iid/bsfl" in trainings) is (name != "smoke")
    assert len({(each.key, each.seed) for each in listed}) == len(listed)
    model = trainings["train/cnn-dropout/non-iid/bsfl"].settings["config"]["model"]
    assert model == ({"name": "cnn-dropout", "channels": [2, 4]} if name == "smoke" else {"name": "cnn-dropout"})


def test_targets_follow_sizes_only_where_sizes_differ() -> None:
    assert text("bsfl", LARGE, IID) == "bsfl:paper+alpha=10.0"
    assert text("bsfl-default", LARGE, NON_IID) == "bsfl+generalisation=size-quality"
    assert text("cs-ucb", LARGE, NON_IID) == "cs-ucb:paper"
    assert reward("cs-ucb-q", LARGE, NON_IID) == {"by_size": True, "alpha": 10.0, "normalised": False, "capped": False}
    assert reward("bsfl-default", LARGE, NON_IID) == {"by_size": True}


def test_quality_alone_differs_where_it_is_tested() -> None:
    found = {each.key: each.settings for each in experiments(SCALES["laptop"]) if "/quality/" in each.key}
    weighed, plain = (found[f"train/quality/iid/{name}"] for name in ("bsfl", "bsfl-eq-3"))
    assert weighed["config"] == plain["config"]
    assert weighed["selector"] == f"{plain['selector']}+generalisation=size-quality"
    assert weighed["config"]["data"]["partition"] == {"kind": "iid", "balanced": True}


def test_seeds_are_the_users_unless_a_part_has_fewer() -> None:
    laptop = SCALES["laptop"]
    assert len(seeds_of(laptop, LARGE)) == 3
    assert len(seeds_of(laptop, "mlp")) == len(seeds_of(laptop)) == 10
    assert len(seeds_of(laptop.chosen(seeds=20), "mlp")) == 20
    assert len(seeds_of(laptop.chosen(seeds=20), LARGE)) == 3
    assert min(seeds_of(laptop)) == 700


def test_digits_stand_in_for_missing_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bsfl_settings, "has_fashion_mnist", lambda: False)
    assert images_of(SCALES["laptop"]) == "digits"
    assert images_of(SCALES["paper"]) == "fashion-mnist"
    assert "digits in place of Fashion-MNIST" in {f.name: f.title for f in STUDY.figures(example_results())}["mlp"]


@given(st.integers(3, 8), st.integers(0, 2**16), st.data())
@settings(max_examples=40, deadline=None)
def test_neighbours_are_those_of_the_printed_definition(clients: int, seed: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, clients - 1))
    keys, values = drawn(clients, k, np.random.default_rng(seed))
    inside = np.zeros(clients, dtype=bool)
    inside[data.draw(st.permutations(range(clients)))[:k]] = True
    members, others = np.flatnonzero(inside), np.flatnonzero(~inside)
    allowed = {kind: swaps(keys, values, inside, kind) for kind in (SA, ALSA, ONE_SIDED)}
    assert allowed[SA].all()
    for (row, leaves), (column, enters) in itertools.product(enumerate(members), enumerate(others)):
        after = [*(one for one in members if one != leaves), enters]
        dropped = leaves in (members[keys[members].argmin()], members[values[members].argmin()])
        added = enters in (min(after, key=keys.__getitem__), min(after, key=values.__getitem__))
        assert allowed[ALSA][row, column] == (dropped or added)
        assert allowed[ONE_SIDED][row, column] == dropped


def test_the_graph_counts_its_edges() -> None:
    found = graph({"clients": 6, "k": 3}, 5, Path())
    assert len(found["energy"]) == math.comb(6, 3)
    assert len(found["edges"]) == math.comb(6, 3) * 3 * 3 // 2
    assert found["connected"]
    low, similar = (found[f"{name}_extra"] for name in ("low", "similar"))
    assert max(low, similar) <= found["idle_extra"] <= low + similar


def test_degrees_average_below_the_bound() -> None:
    found = degrees({"clients": 30, "k": 15, "states": 200}, 1, Path())
    assert found["sa"] == 225
    assert found["mean"] < 4 * 15


def test_the_temperature_of_the_code_moves_something() -> None:
    keys, values = drawn(100, 10, np.random.default_rng(3))
    ends = {
        (kind, heat): np.mean(
            [walk(keys, values, 10, np.random.default_rng(s), 300, kind, heat)[-30:] for s in range(5)]
        )
        for kind, heat in ((SA, PRINTED), (SA, CODE), (ONE_SIDED, CODE))
    }
    assert ends[SA, PRINTED] < ends[SA, CODE] < ends[ONE_SIDED, CODE]


def test_walkers_of_one_seed_meet_the_same_instance_and_no_walk_beats_the_optimum() -> None:
    plan = {"sizes": [[20, 5]], "instances": 3, "steps": 60, "temperature": CODE}
    one, other = (race({**plan, "walker": walker}, 2, Path()) for walker in (ALSA, ONE_SIDED))
    assert (one["sa"] == other["sa"]).all()
    assert (one["optimum"] >= np.maximum(one["sa"], one["walker"]) - 1e-12).all()
    walks = [
        energy({"clients": 20, "k": 5, "steps": 50, "walker": kind, "temperature": PRINTED}, 1, Path())
        for kind in (SA, ALSA)
    ]
    assert walks[0]["optimum"] == walks[1]["optimum"]
    assert exact({"brute": 20}, 1, Path())["wrong"] == 0


def test_g_falls_and_exceeds_one_only_for_large_holders() -> None:
    shares, values = curve(20, 5, beta=3)
    assert values[shares == 0.25][0] == 0.0
    assert values[0] == pytest.approx(0.25**3)
    found = targets({"populations": 50}, 0, Path())
    assert found["largest"][0].max() > 1.0 >= found["capped"].max()
    assert found["steepest"] == 0.95  # 25/500 − 1


def test_a_match_is_that_of_the_arena() -> None:
    plan = {"scenario": "slow-minority", "clients": 20, "k": 5, "rounds": 120, "selector": "bsfl:paper"}
    own = {"normalised": False, "capped": False}
    found = played({**plan, "reward": own}, 3, Path())
    record = run(Tournament(("bsfl:paper",), "slow-minority", 20, 5, 120, reward=BSFLReward(**own)), "bsfl:paper", 3)
    assert found["pseudo"][-1] == pytest.approx(record.scores["pseudo_regret"])
    assert found["printed"][-1] == pytest.approx(record.scores["printed_regret"])
    assert found["round_time"] == record.scores["round_time"]
    assert found["late"].sum() == pytest.approx(5.0)
    assert 0 < found["least"] <= found["pseudo"][-1]
    assert found["counted"][-1] <= found["pseudo"][-1]


def test_checkpoints_hold_quarter_half_and_end() -> None:
    assert {5_000, 10_000, 20_000} <= set(checkpoints(20_000).tolist())
    assert checkpoints(1).tolist() == [1]


def test_curves_in_time_by_hand() -> None:
    ends, values = np.array([10.0, 20.0, 30.0]), np.array([0.1, np.nan, 0.3])
    assert stepwise(ends, values, np.array([10.0, 29.0, 30.0])).tolist() == [0.1, 0.1, 0.3]
    assert np.isnan(stepwise(ends, np.full(3, np.nan), ends)).all()
    late = {"end": ends, "loss": np.array([np.nan, 0.2, 0.3])}
    time, found = over_time(
        group("train", {"end": ends, "loss": values}, late, settings={"config": {"rounds": {"seconds": 60.0}}}), "loss"
    )
    assert (time[0], found.shape) == (20.0, (2, 41))  # from where both are known


def test_every_claim_is_judged_and_has_a_reading() -> None:
    results = example_results()
    for claim in STUDY.claims:
        judged = judge(claim, results)
        assert judged.verdict.kind in KINDS
        assert judged.verdict.ours != "–" or claim.key == "cifar10"
        if claim.key != "cifar10":
            reading = read_further(judged, results).reading
            assert reading
            assert "missing" not in reading
    assert judge(next(one for one in STUDY.claims if one.key == "cifar10"), results).verdict.kind == UNTESTABLE


def test_an_experiment_that_failed_costs_its_own_figures_only() -> None:
    groups = {key: one for key, one in example_results().groups.items() if key != "energy/code/sa"}
    names = {figure.name for figure in STUDY.figures(Results(groups))}
    assert "fig-4" not in names
    assert {"fig-3", "fig-5", "fig-8", "two-speeds", "mlp", "cnn", "cnn-dropout", "alpha", "quality", "others"} <= names
    assert [figure.name for figure in STUDY.figures(Results({}))] == ["fig-2"]
    assert list(STUDY.tables(Results({}))) == []


def test_a_panel_has_at_most_five_series() -> None:
    for figure in STUDY.figures(example_results(extras=("cifar10",))):
        for rows in figure.chart.to_dict().get("datasets", {}).values():
            assert len({row.get("series") for row in rows}) <= 5, figure.name


def test_everything_is_written_from_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures: list[Path] = []  # drawing takes long, and `enlist reproduce bsfl --scale smoke` does it
    monkeypatch.setattr(writing, "draw", lambda drawings, *_: pictures.extend(stem for _, stem in drawings))
    with Reproduction.open(STUDY, STUDY.scale("smoke", seeds=1), tmp_path / "study") as work:
        work.outputs = {
            (key, seed): one for key, each in example_results().groups.items() for seed, one in each.outputs.items()
        }
        work.run()
        assert work.missing() == []
        assert work.failed == {}
        page = writing.write(work, "enlist reproduce bsfl --scale smoke --seeds 1", jobs=1)
    text_ = (page.parent / "verdict.md").read_text()
    assert {path.name for path in pictures} == {figure.name for figure in STUDY.figures(work.results())}
    assert all(claim.title in text_ for claim in STUDY.claims)
    assert json.loads((page.parent / "settings.json").read_text())["study"] == "bsfl"


def test_an_interrupted_study_continues(tmp_path: Path) -> None:
    scale = STUDY.scale("smoke")
    some = [each for each in experiments(scale) if each.key in ("targets", "graph")]
    with Reproduction.open(STUDY, scale, tmp_path / "study"):
        assert [perform(each, tmp_path / "study") for each in some] == [""] * 4
    with Reproduction.open(STUDY, scale, tmp_path / "study", resume=True) as work:
        assert set(work.outputs) == {(each.key, each.seed) for each in some}


def test_a_folder_of_other_settings_is_refused_in_a_sentence(tmp_path: Path) -> None:
    scale = STUDY.scale("smoke")
    before = dataclasses.replace(scale, settings={"regret": [[20, 5, 100, 2]], **scale.settings, "steps": 100})
    with Reproduction.open(STUDY, before, tmp_path / "study"):
        pass
    with pytest.raises(InputError, match=r"regret|steps"):
        Reproduction.open(STUDY, scale, tmp_path / "study", resume=True)
