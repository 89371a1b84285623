"""The BSFL study: solvers against brute force, rules against planted results, and every figure, table and verdict."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enlist import studies
from enlist.arena.compare import Comparison, run
from enlist.arena.genie import Reward
from enlist.bandits.maxmin import objective
from enlist.simulation.config import parse
from enlist.statistics import Summary
from enlist.studies import writing
from enlist.studies.bsfl import races
from enlist.studies.bsfl import settings as bsfl_settings
from enlist.studies.bsfl.claims_training import ahead, better
from enlist.studies.bsfl.example import MORE, example_results, grown
from enlist.studies.bsfl.fits import bound, doubling, exponent, fit
from enlist.studies.bsfl.generalisation import curve, targets
from enlist.studies.bsfl.graphs import degrees, graph
from enlist.studies.bsfl.growth import linear, logarithmic
from enlist.studies.bsfl.plan import experiments
from enlist.studies.bsfl.regret import checkpoints, played
from enlist.studies.bsfl.settings import IID, METHODS, NON_IID, SCALES, images_of, seeds_of
from enlist.studies.bsfl.solving import ALSA, ONE_SIDED, SA, drawn, swaps, walk
from enlist.studies.bsfl.study import BSFL, all_tables, figures
from enlist.studies.bsfl.training import ending, stepwise, train
from enlist.studies.claims import KINDS, NOT, PARTLY, REPRODUCED, UNTESTABLE, judge, read_further
from enlist.studies.panels import Panel, along, side_by_side
from enlist.studies.results import Results
from enlist.studies.running import Reproduction


def verdict(key: str, results: Results) -> str:
    return judge(next(claim for claim in BSFL.claims if claim.key == key), results).verdict.kind


def test_it_is_registered() -> None:
    assert studies.get("bsfl") is BSFL
    assert set(BSFL.scales) == {"smoke", "laptop", "paper"}


@pytest.mark.parametrize(("name", "extras"), [("smoke", ()), ("laptop", ("cifar10",)), ("paper", ())])
def test_every_configuration_is_valid(name: str, extras: tuple[str, ...]) -> None:
    scale = BSFL.scale(name, extras=extras)
    listed = [each for more in (experiments, *MORE) for each in more(scale)]
    trainings = {each.key: each for each in listed if each.key.startswith("train/")}
    for each in trainings.values():
        config = parse(each.settings["config"], each.key).with_method(each.settings["selector"], each.seed)
        assert config.selector.name == each.settings["selector"].partition(":")[0]
        assert config.selector.settings == each.settings["config"]["selector"]["settings"]
    assert ("train/cifar10/iid/bsfl-printed" in trainings) is (name != "smoke")
    assert len({(each.key, each.seed) for each in experiments(scale)}) == len(experiments(scale))


def test_targets_follow_sizes_only_where_sizes_differ() -> None:
    assert METHODS["bsfl-printed"].settings(IID) == {}
    assert METHODS["bsfl-printed"].settings(NON_IID) == {"generalisation": "size-quality"}
    assert METHODS["loss"].settings(NON_IID) == {"generalisation": "loss"}
    assert METHODS["cs-ucb"].settings(NON_IID) == {}


def test_seeds_are_the_users_unless_a_part_has_fewer() -> None:
    laptop = SCALES["laptop"]
    assert len(seeds_of(laptop, 3)) == 3
    assert len(seeds_of(laptop, 10)) == len(seeds_of(laptop)) == 10
    assert len(seeds_of(laptop.chosen(seeds=20), 10)) == 20
    assert len(seeds_of(laptop.chosen(seeds=20), 3)) == 3
    assert min(seeds_of(laptop)) == 600


def test_digits_stand_in_for_missing_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bsfl_settings, "has_fashion_mnist", lambda: False)
    assert images_of(SCALES["laptop"]) == "digits"
    assert images_of(SCALES["paper"]) == "fashion-mnist"
    sets = {
        each.settings["config"]["data"]["dataset"]["name"]
        for each in experiments(SCALES["laptop"])
        if each.key.startswith(("train/mlp", "train/cnn"))
    }
    assert sets == {"digits"}
    assert "digits in place of Fashion-MNIST" in {f.name: f.title for f in figures(example_results())}["mlp"]


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


def test_the_graph_is_symmetric_and_counts_its_edges() -> None:
    found = graph({"clients": 6, "k": 3}, 5, Path())
    assert len(found["energy"]) == math.comb(6, 3)
    assert len(found["edges"]) == math.comb(6, 3) * 3 * 3 // 2
    assert found["degree"].sum() == 2 * found["kept"].sum()
    assert found["connected"]
    assert found["idle_extra"] == pytest.approx(found["idle"][~found["kept"]].mean())
    keys, values = drawn(6, 3, np.random.default_rng(0))
    states = [np.array(state) for state in itertools.combinations(range(6), 3)]
    for one, other in itertools.combinations(states, 2):  # an edge seen from both of its ends
        if len(set(one) & set(other)) == 2:
            assert _edge(keys, values, one, other) == _edge(keys, values, other, one)


def _edge(keys: np.ndarray, values: np.ndarray, one: np.ndarray, other: np.ndarray) -> bool:
    inside = np.isin(np.arange(len(keys)), one)
    leaves, enters = np.setdiff1d(one, other), np.setdiff1d(other, one)
    place = np.searchsorted(np.flatnonzero(inside), leaves), np.searchsorted(np.flatnonzero(~inside), enters)
    return bool(swaps(keys, values, inside, ALSA)[place][0])


def test_degrees_of_all_states_average_below_the_bound() -> None:
    found = degrees({"sizes": [[8, 4], [30, 15]], "states": 200}, 1, Path())
    assert found["sa"].tolist() == [16.0, 225.0]
    assert (found["mean"] < 4 * np.array([4, 15])).all()


def test_colder_walks_come_closer() -> None:
    keys, values = drawn(100, 10, np.random.default_rng(3))
    best = races.exact({"instances": 10, "sizes": [[100, 10]]}, 1, Path())
    assert best["wrong"] == 0
    hot, cold = (
        np.mean([walk(keys, values, 10, np.random.default_rng(seed), 300, SA, heat) for seed in range(5)])
        for heat in (1.0, 0.01)
    )
    assert cold > hot


def test_a_race_never_beats_the_optimum() -> None:
    for more in ({"source": "drawn"}, {"source": "met"}, {"source": "drawn", "heat": 0.01, "runner": ONE_SIDED}):
        found = races.race({"sizes": [[20, 5]], "instances": 3, "steps": 60, **more}, 2, Path())
        assert (found["optimum"] >= np.maximum(found["sa"], found["runner"]) - 1e-12).all()


def test_g_falls_and_exceeds_one_only_for_large_holders() -> None:
    shares, values = curve(20, 5, beta=3)
    assert values[shares == 0.25][0] == 0.0
    assert values[0] == pytest.approx(0.25**3)
    assert (np.diff(values) <= 0).all()
    found = targets({"sizes": [[20, 5]], "populations": 50}, 0, Path())
    assert found["largest"][0] > 1.0
    assert found["capped"][0] <= 1.0
    assert 0 < found["above"][0] < 1


def test_a_match_is_that_of_the_arena() -> None:
    plan = {"scenario": "slow-minority", "clients": 20, "k": 5, "rounds": 120, "selector": "bsfl:paper"}
    found = played({**plan, "reward": {"normalised": False}, "options": {}}, 3, Path())
    comparison = Comparison(("bsfl:paper",), "slow-minority", 20, 5, 120, reward=Reward(normalised=False))
    record = run(comparison, "bsfl:paper", 3)
    assert found["pseudo"][-1] == pytest.approx(record.scores["pseudo_regret"])
    assert found["printed"][-1] == pytest.approx(record.scores["printed_regret"])
    assert found["round_time"] == record.scores["round_time"]
    assert found["late"].sum() == pytest.approx(5.0)
    assert found["least_gap"] <= found["pseudo"][-1]
    assert (np.diff([found[f"noticeable/{level}"][-1] for level in (0.01, 0.03, 0.1)]) <= 0).all()


def test_options_reach_the_selector() -> None:
    plan = {"scenario": "slow-minority", "clients": 20, "k": 5, "rounds": 200, "selector": "bsfl", "reward": {}}
    even, quick = (played({**plan, "options": {"alpha": alpha}}, 1, Path()) for alpha in (50.0, 0.0))
    assert even["jain"] > quick["jain"]
    assert even["round_time"] > quick["round_time"]


def test_checkpoints_hold_quarter_half_and_end() -> None:
    assert {5_000, 10_000, 20_000} <= set(checkpoints(20_000).tolist())
    assert checkpoints(1).tolist() == [1]


@pytest.mark.parametrize(("shape", "ratio", "power"), [("ln n", 1.0, None), ("√n", math.sqrt(2), 0.5), ("n", 2.0, 1.0)])
def test_growth_is_told_apart(shape: str, ratio: float, power: float | None) -> None:
    group = grown(shape, rounds=4_000)
    assert doubling(group).mean == pytest.approx(ratio, abs=0.02)
    if power is not None:
        assert exponent(group).mean == pytest.approx(power, abs=0.02)
    rounds, values = group.column("rounds")[0], group.column("pseudo")[0]
    assert fit(rounds, values, shape)[2] == pytest.approx(1.0)


def test_bound_by_hand() -> None:
    assert bound(2, 1, 10, largest=1.0, least=1.0) == pytest.approx(2 * (8 * math.log(10) + 1 + math.pi**2 / 3))


@pytest.mark.parametrize(
    ("low", "high", "log", "straight"),
    [(0.9, 1.1, REPRODUCED, NOT), (1.3, 1.5, PARTLY, NOT), (1.7, 1.95, NOT, PARTLY), (1.95, 2.05, NOT, REPRODUCED)],
)
def test_rules_of_growth(low: float, high: float, log: str, straight: str) -> None:
    growth = Summary((low + high) / 2, low, high)
    assert logarithmic(growth).kind == log
    assert linear(growth).kind == straight


def test_curves_in_time_by_hand() -> None:
    ends, values = np.array([10.0, 20.0, 30.0]), np.array([0.1, np.nan, 0.3])
    assert stepwise(ends, values, np.array([5.0, 10.0, 29.0, 30.0])).tolist()[1:] == [0.1, 0.1, 0.3]
    assert np.isnan(stepwise(ends, np.full(3, np.nan), ends)).all()
    assert ending(ends, values, seconds=100.0) == 0.3
    assert ending(np.array([95.0, 99.0]), np.array([0.2, 0.4]), seconds=100.0) == pytest.approx(0.3)
    assert math.isnan(ending(ends, np.full(3, np.nan), 30.0))


def test_training_ends_with_its_time(tmp_path: Path) -> None:
    each = next(one for one in experiments(BSFL.scale("smoke")) if one.key == "train/linear/iid/cs-ucb")
    found = train(each.settings, each.seed, tmp_path)
    seconds = each.settings["config"]["rounds"]["seconds"]
    assert found["time"][-1] == seconds
    assert seconds <= found["rounds"] * found["round_time"] <= seconds + 100.0
    assert np.isfinite(found["end_loss"])
    assert np.isnan(found["end_accuracy"])
    assert found["selected"].sum() == 5 * found["rounds"]


def test_more_is_better_in_accuracy_and_in_loss() -> None:
    results = example_results(lead=0.05)
    for name in ("accuracy", "loss"):
        assert better(results, "mlp", IID, "bsfl-default", "random", name).mean > 0.05
        assert better(results, "mlp", IID, "random", "bsfl-default", name).mean < -0.05
    assert ahead(results, "mlp", NON_IID, "bsfl-printed", ["cs-ucb-q"], "loss", 0.02).kind == REPRODUCED


@pytest.mark.parametrize(("lead", "kind"), [(0.1, REPRODUCED), (-0.1, NOT)])
def test_trainings_are_judged_by_who_leads(lead: float, kind: str) -> None:
    results = example_results(lead=lead)
    for key in ("linear-iid", "linear-non-iid", "pictures-iid", "pictures-non-iid", "cnn-non-iid", "superior"):
        assert verdict(key, results) == kind
    assert verdict("overfitting", results) == kind


@pytest.mark.parametrize(("shape", "kind"), [("ln n", REPRODUCED), ("√n", PARTLY), ("n", NOT)])
def test_regret_is_judged_by_how_it_grows(shape: str, kind: str) -> None:
    results = example_results(shape=shape)
    for key in ("logarithmic-iid", "logarithmic-non-iid", "logarithmic-large"):
        assert verdict(key, results) == kind
    assert verdict("rivals-linear", results) == REPRODUCED
    assert verdict("printed-regret", results) == NOT  # a constant loss per round is linear
    assert verdict("bound", results) == PARTLY  # true, and above what anybody can lose


def test_solving_is_feasible_and_cifar_needs_its_extra() -> None:
    assert verdict("infeasible", example_results()) == NOT
    assert verdict("cifar10", example_results()) == UNTESTABLE
    assert verdict("cifar10", example_results(extras=("cifar10",))) in KINDS[:3]


def test_every_claim_is_judged_and_has_a_reading() -> None:
    results = example_results()
    for claim in BSFL.claims:
        judged = judge(claim, results)
        assert judged.verdict.kind in KINDS
        reading = read_further(judged, results).reading
        assert reading
        assert "missing" not in reading
        assert len(claim.margin) > 20


def test_an_experiment_that_failed_costs_its_own_figures_only() -> None:
    groups = {key: group for key, group in example_results().groups.items() if key != "energy"}
    names = {figure.name for figure in figures(Results(groups))}
    assert "energies" not in names
    assert {"graphs", "regret", "regret-large", "mlp", "cnn", "linear", "sensitivity"} <= names
    assert [figure.name for figure in figures(Results({}))] == ["generalisation"]
    assert all_tables(Results({})) == []
    assert verdict("alsa-faster", Results(groups)) == UNTESTABLE


def test_panels_share_a_legend_and_hold_their_rows() -> None:
    rows = along(np.array([0.0, 1.0, 10.0]), np.array([[1.0, 2.0, -1.0]]), "BSFL")
    chart = side_by_side([Panel("a", rows, "x", "y"), Panel("b", rows, "x", "y", log_x=True, log_y=True)], "t", {})
    found = chart.to_dict()
    assert [len(found["datasets"][f"panel-{number}"]) for number in (0, 1)] == [3, 1]
    assert len(found["concat"]) == 2
    assert len(found["params"]) == 1


def test_everything_is_written_from_one_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures: list[Path] = []  # drawing takes long, and `enlist reproduce bsfl --scale smoke` does it
    monkeypatch.setattr(writing, "draw", lambda drawings, *_: pictures.extend(stem for _, stem in drawings))
    scale = BSFL.scale("smoke", seeds=1)
    with Reproduction.open(BSFL, scale, tmp_path / "study") as work:
        work.outcomes = {
            (key, seed): outcome
            for key, group in example_results().groups.items()
            for seed, outcome in group.outcomes.items()
        }
        work.run()
        assert work.missing() == []
        assert work.failed == {}
        assert len(work.judged) == len(BSFL.claims)
        page = writing.write(work, "enlist reproduce bsfl --scale smoke --seeds 1", jobs=1)
    root = page.parent
    assert {path.name for path in pictures} == {figure.name for figure in figures(work.results())}
    assert len(list((root / "tables").glob("*.csv"))) == len(all_tables(work.results()))
    text = (root / "verdict.md").read_text()
    assert all(claim.title in text for claim in BSFL.claims)
    assert json.loads((root / "settings.json").read_text())["study"] == "bsfl"


def test_objective_is_what_energies_are() -> None:
    keys, values = np.array([0.9, 0.8, 0.5]), np.array([0.1, -0.1, 0.2])
    assert objective(keys, values, np.array([0, 2])) == pytest.approx(0.5 + 0.3)
