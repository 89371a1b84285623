"""The FedSUV study: its world, the theorems' bounds, what is watched, the plan, scores and rules."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enlist.bandits.gaussian import rbf
from enlist.bandits.pareto import front
from enlist.simulation.config import parse
from enlist.studies.claims import NOT, PARTLY, REPRODUCED, UNTESTABLE, Verdict, judge, read_further
from enlist.studies.fedsuv import paper, plan
from enlist.studies.fedsuv.claims import CLAIMS
from enlist.studies.fedsuv.example import example_outcome, example_results
from enlist.studies.fedsuv.methods import ABLATIONS, FEDSUV, MAIN, OURS, PRINTED, RANDOM, ZERO
from enlist.studies.fedsuv.plan import experiments, seeds, stood_in, training
from enlist.studies.fedsuv.process import Watch, played, player
from enlist.studies.fedsuv.process_rules import covered, leave_early, little_regret, narrow
from enlist.studies.fedsuv.scores import LOWER, finals, goal, speed_up, ways
from enlist.studies.fedsuv.settings import NOISES, SCALES
from enlist.studies.fedsuv.square import OBSERVED, Square
from enlist.studies.fedsuv.study import FEDSUV as STUDY
from enlist.studies.fedsuv.study import all_tables, figures
from enlist.studies.fedsuv.theory import information, regret_bound, smallest_gap, width_bound
from enlist.studies.fedsuv.training_rules import as_fast_as_said, decoupled, faster, gains, most_accurate, readings
from enlist.studies.results import Results
from enlist.studies.study import Experiment

PLAYING: dict[str, Any] = {"clients": 60, "rounds": 25, "k": 5, "noise": 0.0, "marks": [25], "bounds": True}


def test_the_paper_in_numbers() -> None:
    assert paper.TASKS["cifar10-resnet18"].speed_up("yogi") == 2.92
    assert paper.places("yogi", "rounds") == "first in 5 of 5 tasks"
    assert len(paper.numbers()) == 5 * 5 * 2
    assert [row["agrees"] for row in paper.checks()].count(False) == 3


def test_validity_is_the_chance_to_be_in_time_and_utility_the_mean() -> None:
    world = Square(clients=50, rounds=600, seed=3, noise=0.0)
    rounds = range(1, 601)
    assert np.abs(np.mean([world.valid(each) for each in rounds], axis=0) - world.validity).max() < 0.08
    drawn = np.array([world.drawn(each) for each in rounds])
    assert drawn.min() >= 0.0
    assert drawn.max() <= 1.0
    truth = world.truth(1).utility
    assert np.abs(drawn.mean(axis=0) - truth).max() < 0.02
    middle = (truth > 0.2) & (truth < 0.8)
    assert drawn.std(axis=0)[middle].mean() == pytest.approx(0.1, abs=0.01)
    assert np.allclose(world.utility(7) ** 2, drawn[6])


def test_without_noise_features_tell_the_pair_exactly_and_the_map_is_fixed() -> None:
    worlds = [Square(clients=40, rounds=5, seed=seed, noise=0.0) for seed in (1, 2)]
    maps = []
    for world in worlds:
        pairs = np.column_stack([world.validity, world.truth(1).utility])
        matrix, left, *_ = np.linalg.lstsq(pairs, np.asarray(world.clients().features), rcond=None)
        assert left.max() < 1e-20
        maps.append(matrix)
    assert np.allclose(*maps)
    noisy = Square(clients=40, rounds=5, seed=1, noise=0.5)
    assert np.array_equal(noisy.validity, worlds[0].validity)
    assert not np.allclose(np.asarray(noisy.clients().features), np.asarray(worlds[0].clients().features))


def test_what_fedsuv_observes_is_the_utility_that_was_drawn() -> None:
    world = Square(clients=30, rounds=5, seed=1, noise=0.0)
    selector: Any = player("fedsuv:paper", world, 1, {"full_utility": OBSERVED})
    from enlist.arena.genie import Reward
    from enlist.arena.play import Match, Rules

    Match(selector, world, Rules(30), Reward()).step()
    seen = np.sort(selector.state.scores.values())
    assert np.allclose(seen, np.sort(world.drawn(1)[world.valid(1)]))


def test_information_is_that_of_the_chosen_observations() -> None:
    inputs = np.random.default_rng(1).normal(size=(6, 2))
    gained = information(inputs, length=1.0, noise=0.1, rounds=6)
    prior, chosen = rbf(inputs, inputs, 1.0), [0]
    for _ in range(5):
        seen = prior[np.ix_(chosen, chosen)] + 0.1 * np.eye(len(chosen))
        left = np.diag(prior - prior[:, chosen] @ np.linalg.solve(seen, prior[chosen]))
        chosen.append(int(np.argmax(left)))
    block = prior[np.ix_(chosen, chosen)]
    for count in range(1, 7):
        whole = 0.5 * np.linalg.slogdet(np.eye(count) + block[:count, :count] / 0.1)[1]
        assert gained[count - 1] == pytest.approx(whole)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=12))
@settings(max_examples=50, deadline=None)
def test_smallest_gap(points: list[tuple[float, float]]) -> None:
    validity, utility = np.array(points).T
    pairs = [(b[0] - a[0], b[1] - a[1]) for a in points for b in points if b[0] > a[0] and b[1] > a[1]]
    assert smallest_gap(validity, utility) == min((min(pair) for pair in pairs), default=math.inf)


def test_bounds_by_hand() -> None:
    assert width_bound(np.array([4.0, 8.0, 12.0])).tolist() == [2.0, 2.0, 2.0]
    assert regret_bound(np.array([1.0]), k=2, gap=0.5).tolist() == [32.0]


@pytest.fixture(scope="module")
def printed() -> dict[str, Any]:
    return played({**PLAYING, "selector": "fedsuv:paper", "options": {"full_utility": OBSERVED}}, 2, Path())


def test_candidates_are_counted_by_round_and_by_client(printed: dict[str, Any]) -> None:
    assert printed["active"].sum() == printed["candidate"].sum()
    assert (np.diff(printed["active"].sum(axis=1)) <= 0).all()  # hard elimination: nobody comes back
    removed = printed["eliminated"][:, 0].sum() + printed["pruned"][:, 0].sum()
    assert removed == 60 - printed["active"][-1].sum()
    assert printed["eliminated"][:, 0].sum() <= 0.4 * 60


def test_rectangles_only_shrink_and_scores_add_up(printed: dict[str, Any]) -> None:
    assert (np.diff(printed["width"]) <= 1e-9).all()
    assert printed["selected"].sum() == 25 * 5
    assert printed["valued"].max() <= 5.0
    best = np.sort(printed["validity"] * printed["utility"])[-5:].sum()
    assert printed["best"] == pytest.approx(best)
    assert (printed["regret"] <= printed["front"] + 1e-12).all()
    assert printed["covered"].shape == (25, 3)
    assert (printed["covered"][:, 2] <= printed["covered"][:, :2].min(axis=1)).all()


@pytest.mark.parametrize("elimination", ["capped", "hard"])
def test_the_limit_of_elimination_is_rho(elimination: str) -> None:
    options = {"full_utility": OBSERVED, "ridge": 0.05, "pruning": False, "elimination": elimination}
    many = {**PLAYING, "clients": 150, "rounds": 60, "bounds": False}
    for rho, limit in ((0.4, 60), (0.1, 15), (0.0, 0)):
        found = played({**many, "selector": "fedsuv:paper", "options": {**options, "rho": rho}}, 2, Path())
        gone = np.cumsum(found["eliminated"][:, 0])
        if elimination == "capped" or not rho:
            assert gone[-1] == limit
        else:  # one step may go beyond it, and none follows
            assert (np.diff(gone)[gone[:-1] > limit] == 0).all()
            assert gone[-1] > limit
        assert found["pruned"][:, 0].sum() == 0
        assert math.isnan(found["gap"])


@pytest.mark.parametrize("elimination", ["capped", "hard"])
def test_wrong_eliminations_and_lost_optima_are_seen(elimination: str) -> None:
    world = Square(clients=20, rounds=3, seed=5, noise=0.0)
    selector: Any = player("fedsuv:paper", world, 1, {"elimination": elimination})
    watch = Watch(selector, world, [], bounds=False)
    watch.begin()
    state, best = selector.state, front(world.validity, world.truth(1).utility)
    worst = int(np.argmin(world.validity))
    low, high = np.zeros(20), np.ones(20)
    low[worst] = 0.9  # believed to be the surest, and is the least valid
    wronged = int(best[-1]) if best[-1] != worst else int(best[0])
    high[wronged] = 0.5
    state.utility_low[:], state.utility_high[:] = 0.0, 1.0
    if elimination == "hard":
        state.validity_low[:], state.validity_high[:] = 0.0, 1.0
        watch.mean, watch.half = (low + high) / 2.0, (high - low) / 2.0
    else:
        state.validity_low[:], state.validity_high[:] = low, high
    state.active[wronged] = False
    watch.end(np.array([0]))
    assert watch.found()["eliminated"].tolist() == [[1, 1, 1]]
    assert watch.found()["pruned"].tolist() == [[0, 0]]


@pytest.mark.parametrize("name", ["smoke", "laptop", "paper"])
def test_every_configuration_of_a_scale_is_valid(name: str) -> None:
    wanted = experiments(SCALES[name].chosen(extras=["cifar10"] if name == "laptop" else ()))
    assert len({(each.key, each.seed) for each in wanted}) == len(wanted)
    trained = {each.key: each for each in wanted if each.run is plan.trained_run}
    for each in trained.values():
        config = parse(each.settings["config"], each.key)
        assert config.rounds.k in (4, 20)
        assert config.with_method(each.settings["selector"], 1).selector.settings == config.selector.settings
    assert ("cifar10-cnn/averaging/oort" in trained) == (name == "laptop")
    starts = {key.rpartition("/")[0] for key in trained}
    assert len(starts) == {"smoke": 4, "laptop": 6, "paper": 10}[name]


def test_seeds_and_what_each_scale_reduces() -> None:
    laptop = experiments(SCALES["laptop"])
    count = {key: sum(each.key == key for each in laptop) for key in {each.key for each in laptop}}
    assert count["mlp/yogi/fedsuv"] == 5
    assert count["cnn/averaging/fedsuv"] == 3
    assert count["mlp/averaging/safa-protocol"] == 2
    assert count[f"process/0/{PRINTED}"] == 10
    assert count["process/0.5/oort"] == 5
    assert all(each.seed >= 200 for each in laptop)
    assert seeds(SCALES["smoke"], -5) == range(200, 201)
    assert {f"mlp/averaging/{name}" for name in (*MAIN, *ABLATIONS)} <= count.keys()


def test_an_estimate_within_the_budget() -> None:
    laptop = sum(each.seconds for each in experiments(SCALES["laptop"]))
    assert laptop / 2 < 50 * 60


def test_digits_stand_in_for_missing_pictures_and_the_title_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    task = SCALES["laptop"].settings["tasks"]["mlp"]
    monkeypatch.setattr(plan, "has_fashion_mnist", lambda: True)
    assert stood_in(task) is task
    monkeypatch.setattr(plan, "has_fashion_mnist", lambda: False)
    one = training("mlp/averaging", task, "oort", "averaging", 100)
    assert one.settings["config"]["data"]["dataset"] == "digits"
    assert "not on this machine" in one.settings["title"]


def test_a_run_keeps_no_checkpoint(tmp_path: Path) -> None:
    one = training("mlp/averaging", SCALES["smoke"].settings["tasks"]["mlp"], PRINTED, "averaging", 100)
    found = one.run(one.settings, 100, tmp_path)
    assert list((tmp_path / "run" / "checkpoints").iterdir()) == []
    assert (tmp_path / "run" / "rounds.csv").exists()
    assert found["selected"].sum() == 6 * 4


def runs(curves: dict[str, list[list[float]]], aggregation: str = "averaging", task: str = "mlp") -> Results:
    """Results of methods with these accuracies, seed by seed, evaluated in every round of ten seconds."""
    wanted, outcomes = [], {}
    for name, values in curves.items():
        key = f"{task}/{aggregation}/{name}"
        for seed, accuracy in enumerate(values):
            wanted.append((key, {"title": task}, seed))
            numbers = np.arange(1.0, len(accuracy) + 1)
            counts = {"asked": np.full(len(accuracy), 4.0), "completed": np.full(len(accuracy), 3.0)}
            outcomes[key, seed] = example_outcome(
                round=numbers, end=10 * numbers, accuracy=np.array(accuracy), selected=np.arange(5), **counts
            )
    return Results.of(wanted, outcomes)


SLOW = [0.1, 0.2, 0.4, 0.6, 0.7, 0.8, 0.8, 0.8, 0.8, 0.8]
FAST = [0.4, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8]
STUCK = [0.1, 0.2, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3]


def test_targets_and_speed_ups_by_hand() -> None:
    results = runs({RANDOM: [SLOW, SLOW], "oort": [FAST, FAST], PRINTED: [STUCK, SLOW]})
    assert goal(results, "mlp/averaging") == 0.76
    assert finals(results["mlp/averaging/oort"]).tolist() == pytest.approx([0.8, 0.8])
    assert ways(results["mlp/averaging/fedavg"], 0.76)[0].rounds == 7  # the mean of three evaluations has to meet it
    found = speed_up(results, "mlp/averaging", "oort")
    assert (found.summary.mean, found.bound, found.pairs) == (pytest.approx(1.75), "", 2)
    assert speed_up(results, "mlp/averaging", "oort", "seconds").summary.mean == pytest.approx(1.75)
    stuck = speed_up(results, "mlp/averaging", PRINTED)
    assert stuck.bound == "<="
    assert stuck.summary.mean == pytest.approx(math.sqrt(0.7))
    never = runs({RANDOM: [SLOW], PRINTED: [STUCK]})
    assert speed_up(never, "mlp/averaging", PRINTED).shown() == "at most ×0.70"


def test_the_papers_own_tasks_have_its_targets() -> None:
    results = runs({RANDOM: [SLOW, SLOW], "oort": [FAST, FAST]}, task="cifar10-resnet18")
    assert goal(results, "cifar10-resnet18/averaging") == 0.45
    assert goal(results, "cifar10-resnet18/averaging", LOWER) == 0.72
    # random: the mean of 0.2, 0.4, 0.6 is below, of 0.4, 0.6, 0.7 above: round 5; the other: of 0.4, 0.8, 0.8: round 3
    assert speed_up(results, "cifar10-resnet18/averaging", "oort").summary.mean == pytest.approx(5 / 3)


def test_gains_are_relative_and_in_percent() -> None:
    results = everybody([0.88] * 10, [0.8] * 10)
    # seeds add 0, 0.001, 0.002, 0.003 to both: 0.88 / 0.8 = +10 %, 0.883 / 0.803 = +9.96 %
    assert gains(results, "oort").ours.startswith("as printed: mlp: +10.0 [+10.0, +10.0] %")


def jittered(curve: list[float], count: int = 4) -> list[list[float]]:
    return [[value + 0.001 * seed for value in curve] for seed in range(count)]


def everybody(printed: list[float], others: list[float]) -> Results:
    curves = {name: jittered(others) for name in (RANDOM, "safa", "oort", "refl")}
    return runs({**curves, PRINTED: jittered(printed), ZERO: jittered(others), OURS: jittered(others)})


def test_a_faster_printed_rule_reproduces_and_a_stuck_one_does_not() -> None:
    good, bad = everybody(FAST, SLOW), everybody(STUCK, FAST)
    assert faster(good, "averaging").kind == REPRODUCED
    assert as_fast_as_said(good).kind == PARTLY  # faster, but not 3.54 times
    assert faster(bad, "averaging").kind == NOT
    assert most_accurate(bad, "averaging").kind == PARTLY  # the other readings end where the rivals do
    assert "as printed: mlp: place 5 of 5" in most_accurate(bad, "averaging").ours


def test_a_seed_that_never_gets_there_rules_out_a_speed_up() -> None:
    """Three of four seeds are much faster, so the bound lies above 1; but the mean may be anything below it."""
    curves = {name: jittered(SLOW) for name in (RANDOM, "safa", "oort", "refl", ZERO, OURS)}
    results = runs({**curves, PRINTED: [*jittered(FAST, 3), STUCK]})
    found = speed_up(results, "mlp/averaging", PRINTED)
    assert found.bound == "<="
    assert found.summary.mean > 1
    assert faster(results, "averaging").why.startswith("as printed: not")
    sure = runs({**curves, PRINTED: jittered(FAST)}, task="cnn")
    both = as_fast_as_said(Results({**results.groups, **sure.groups}))
    assert both.ours.startswith("as printed: averaging: ×"), "the task in which it got there with every seed counts"
    assert both.kind == PARTLY


def test_another_reading_makes_it_partly() -> None:
    kinds = {PRINTED: NOT, ZERO: NOT, OURS: NOT}
    assert readings(lambda name: Verdict(kinds[name], "", "")).kind == NOT
    assert readings(lambda name: Verdict({**kinds, ZERO: REPRODUCED}[name], "", "")).kind == PARTLY
    beside = readings(lambda name: Verdict({**kinds, OURS: REPRODUCED}[name], "", ""))
    assert beside.kind == NOT, "our default is not the paper's"
    assert beside.ours.endswith("(by the same rule: reproduced)")
    assert readings(lambda name: Verdict({**kinds, PRINTED: REPRODUCED}[name], "", "")).kind == REPRODUCED


def test_without_yogi_its_claims_cannot_be_tested() -> None:
    results = everybody(FAST, SLOW)
    kinds = {claim.key: judge(claim, results).verdict.kind for claim in CLAIMS}
    assert kinds["rounds-yogi"] == kinds["accuracy-yogi"] == kinds["theorem-5-3"] == UNTESTABLE
    assert kinds["rounds-averaging"] == REPRODUCED


def changed(**arrays: Any) -> Results:
    """The example with other arrays for the printed rule in the clean selection process."""
    key, results = f"process/0/{PRINTED}", example_results()
    group = results[key]
    outcomes = {
        seed: dataclasses.replace(outcome, arrays={**outcome.arrays, **arrays})
        for seed, outcome in group.outcomes.items()
    }
    return Results({**results.groups, key: type(group)(key, group.settings, outcomes)})


def test_rules_of_the_process_on_both_sides_of_their_margins() -> None:
    rounds = example_results()[f"process/0/{PRINTED}"].settings["rounds"]
    clients = example_results()[f"process/0/{PRINTED}"].settings["clients"]
    assert leave_early(example_results()).kind == REPRODUCED
    assert leave_early(changed(candidate=np.full(clients, rounds))).kind == NOT
    assert covered(changed(covered=np.ones((rounds, 3)))).kind == PARTLY  # all of so few runs may be luck
    assert narrow(changed(width=np.full(rounds, 9.0))).kind == PARTLY  # it does not grow, but exceeds the bound
    tight = changed(terms=np.full(rounds, 0.5), width=np.full(rounds, 0.01))
    assert narrow(tight).kind == PARTLY  # within the bound, but all of so few runs may be luck
    linear = changed(regret=np.full(rounds, 1.0), terms=np.full(rounds, 1e-12), front=np.full(rounds, 1.0))
    assert little_regret(linear).kind == NOT


def test_decoupling_is_judged_in_training_and_in_the_process() -> None:
    verdict = decoupled(example_results())
    assert verdict.ours.count("accuracy, against") == verdict.ours.count("valid utility, against") == 2


def test_every_claim_is_judged_and_every_further_experiment_is_read() -> None:
    results = example_results()
    for claim in CLAIMS:
        judged = judge(claim, results)
        assert judged.verdict.kind != UNTESTABLE, claim.key
        reading = read_further(judged, results).reading
        assert "missing" not in reading, claim.key
        assert reading.endswith("."), claim.key
        added = claim.further.experiments(SCALES["smoke"])
        assert all(isinstance(each, Experiment) for each in added)
        assert all(each.key.startswith("further/") for each in added)


def test_every_figure_and_table_is_made() -> None:
    drawn = figures(example_results())
    assert len({figure.name for figure in drawn}) == len(drawn) == 19
    for figure in drawn:
        assert figure.chart.to_dict()
    names = [table.name for table in all_tables(example_results())]
    assert {"table-2-rounds", "table-3-accuracy", "process", "theorems", "paper-checks"} <= set(names)
    assert STUDY.scale("laptop", extras=["cifar10"]).extras == ("cifar10",)


def test_a_missing_experiment_costs_its_own_figures_only() -> None:
    groups = {key: group for key, group in example_results().groups.items() if not key.startswith("process/0.5/")}
    left = {figure.name for figure in figures(Results(groups))}
    assert "06-heat-maps" not in left
    assert {"05-convergence-rounds", "03-pareto-front", "width"} <= left


def test_noises_and_readings_are_those_of_the_issue() -> None:
    assert NOISES == (0.0, 0.1, 0.5)
    assert set(FEDSUV) < set(MAIN)
