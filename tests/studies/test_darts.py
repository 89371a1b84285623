"""The Darts study: what it runs, how it judges, and that every figure, table and claim comes out."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

from enlist import selectors
from enlist.clients import Clients
from enlist.data.idx import FashionMNIST
from enlist.errors import UnknownNameError
from enlist.records import Feedback, RoundMetrics
from enlist.simulation.config import parse
from enlist.studies import get
from enlist.studies.claims import judge, read_further
from enlist.studies.darts import costs, profile_rules, rules, scores
from enlist.studies.darts.example import example_outcome, example_results
from enlist.studies.darts.federations import federation
from enlist.studies.darts.plan import experiments, further, noisy, random_again
from enlist.studies.darts.profiles import MEASURED, minibatches, pooled, profiled
from enlist.studies.darts.selection_tables import setting
from enlist.studies.darts.settings import DEFAULT, METHODS, PRINTED, RANDOM, ROTATION, SCALES, source_of
from enlist.studies.darts.study import DARTS, all_tables, figures
from enlist.studies.further import FRESH
from enlist.studies.results import Group, Results
from enlist.studies.running import Reproduction
from enlist.studies.study import Scale
from enlist.studies.writing import write

SMOKE = DARTS.scale("smoke")


def tiny(**settings) -> Scale:
    """The scale "smoke" in a few rounds of one population."""
    own = {**SMOKE.settings, "rounds": 7, "sizes": [8, 16], "passes": 1, "steps": 2, "server_rounds": 3, **settings}
    return dataclasses.replace(SMOKE, seeds=1, settings=own)


def made(**groups) -> Results:
    """Results from outcomes: key (with __ for a slash) -> one dictionary per seed."""
    found = {}
    for name, outcomes in groups.items():
        key = name.replace("__", "/")
        found[key] = Group(key, {}, {seed: example_outcome(**each) for seed, each in enumerate(outcomes)})
    return Results(found)


def curves(*levels: float, rounds: int = 20) -> list[dict]:
    """A population per level, each at its level in all rounds, every client asked in turn."""
    who = np.arange(rounds)[:, None] % 4
    return [
        {
            "accuracy": np.full(rounds, level),
            "end": np.arange(1.0, rounds + 1),
            "who": who,
            "selected": np.bincount(who.ravel(), minlength=4),
            "samples": np.array([1.0, 2.0, 3.0, 4.0]),
        }
        for level in levels
    ]


def test_it_is_registered() -> None:
    assert get("darts") is DARTS


@pytest.mark.parametrize(
    ("scale", "extras"),
    [("smoke", ()), ("laptop", ()), ("laptop", ("cifar10",)), ("paper", ()), ("smoke", ("cifar10",))],
)
def test_every_configuration_is_valid(scale: str, extras: tuple[str, ...]) -> None:
    plan = DARTS.scale(scale, extras=extras)
    wanted = [*experiments(plan), *further(plan)]
    for key in {each.key for each in wanted}:
        settings = next(each.settings for each in wanted if each.key == key)
        config = parse(settings["config"], key)
        assert (config.data.clients, config.rounds.k, config.data.partition.alpha) == (12, 3, 0.05)
        if "selector" in settings:
            config.with_method(settings["selector"], seed=0)
    for claim in DARTS.claims:
        assert {each.key for each in claim.further.experiments(plan)} <= {each.key for each in wanted}


def test_seeds_for_tuning_are_not_those_of_the_verdicts() -> None:
    plan = DARTS.scale("laptop", seeds=50)
    wanted = [*experiments(plan), *further(plan)]
    tuning = {each.seed for each in wanted if each.key.startswith("tuning/")}
    judged = {each.seed for each in wanted if each.key.startswith(("select/", "bonus/"))}
    fresh = {each.seed for each in wanted if each.key == "further/data"}
    assert len(tuning) == 10
    assert not tuning & judged
    assert not fresh & (tuning | judged)
    assert min(fresh) == FRESH


def test_cifar_in_three_populations_unless_told_otherwise() -> None:
    for seeds, expected in ((None, 3), (5, 5)):
        plan = DARTS.scale("laptop", seeds=seeds, extras=["cifar10"])
        mains = [each for each in experiments(plan) if each.key == RANDOM]
        assert len(mains) == expected
        assert mains[0].settings["config"]["data"]["dataset"] == {"name": "cifar10"}
    with pytest.raises(UnknownNameError, match="cifar10"):
        DARTS.scale("laptop", extras=["cifar100"])


def test_digits_stand_in_for_missing_files_and_the_result_says_so(tmp_path: Path, monkeypatch) -> None:
    missing = dataclasses.replace(FashionMNIST.published, packaged=tmp_path)
    monkeypatch.setattr(FashionMNIST, "published", missing)
    monkeypatch.setenv("ENLIST_CACHE", str(tmp_path / "cache"))
    for each in experiments(SCALES["laptop"].chosen(seeds=1)):
        assert parse(each.settings["config"], each.key).data.dataset.name == "digits"
    source = source_of(SCALES["laptop"])
    assert source.dataset == {"name": "digits"}
    config = source.config(rounds=3)
    fake = {RANDOM: Group(RANDOM, {"config": config}, {}), "profile": Group("profile", {"sizes": [8, 16]}, {})}
    assert "is not on this machine" in setting(Results(fake)).rows[0]["here"]
    for file in FashionMNIST.published.files:
        (tmp_path / file).touch()
    assert source_of(SCALES["laptop"]).dataset["name"] == "fashion-mnist"


def test_participations_are_those_of_the_run(tmp_path: Path) -> None:
    wanted = {each.key: each for each in experiments(tiny()) if each.key in METHODS}
    found = {}
    for key, each in wanted.items():
        (tmp_path / key).mkdir(parents=True)
        found[key] = federation(each.settings, 3, tmp_path / key)
        assert found[key]["who"].shape == (7, 3)
        assert (np.bincount(found[key]["who"].ravel(), minlength=12) == found[key]["selected"]).all()
        assert found[key]["quality"].tolist() == [1.0] * 12
        assert found[key]["latency"].max(axis=1) == pytest.approx(found[key]["duration"])
        assert np.isfinite(found[key]["local_accuracy"]).all()
    # The initial rounds of UCB are random, from the same stream: its lead after round 1 can only be 0.
    for key in (PRINTED, DEFAULT):
        assert (found[key]["who"][:5] == found[RANDOM]["who"][:5]).all()
        assert found[key]["accuracy"][0] == found[RANDOM]["accuracy"][0]


def test_the_rotation_ignores_rewards() -> None:
    settings = next(each for each in experiments(SMOKE) if each.key == ROTATION).settings["config"]["selector"]
    selector = selectors.create(
        settings["name"], Clients(count=12), seed=1, preset="paper", **settings["settings"], epsilon=0.0
    )
    counts = []
    for _ in range(45):
        picked = selector.ask(k=3)
        lucky = 0 in picked.clients
        selector.tell(picked, Feedback(), round=RoundMetrics(accuracy=0.9 if lucky else 0.1))
        counts.append(np.bincount(picked.clients, minlength=12))
    # The five random rounds are evened out first; from then on nobody is more than one round ahead.
    totals = np.cumsum(counts, axis=0)
    assert (np.ptp(totals[20:], axis=1) <= 1).all()


def test_random_again_is_random_with_other_draws(tmp_path: Path) -> None:
    scale = tiny(rounds=12)
    again = random_again(scale)[0]
    first = next(each for each in experiments(scale) if each.key == RANDOM)
    places = [tmp_path / "again", tmp_path / "first"]
    for place in places:
        place.mkdir()
    one, other = (federation(each.settings, 0, place) for each, place in zip((again, first), places, strict=True))
    assert (one["samples"] == other["samples"]).all()
    assert (one["who"] != other["who"]).any()
    selector = selectors.create("darts-ucb", Clients(count=12), seed=1, epsilon=1.0, initial_rounds=0)
    counts = np.zeros(12)
    for _ in range(2_000):
        picked = selector.ask(k=3)
        selector.tell(picked, Feedback(), round=RoundMetrics(accuracy=1.0 if 0 in picked.clients else 0.0))
        counts[picked.clients] += 1
    assert abs(counts - 500).max() < 5 * np.sqrt(2_000 * 0.25 * 0.75)


def test_a_third_of_the_clients_has_wrong_labels(tmp_path: Path) -> None:
    each = noisy(tiny())[0]
    found = federation(each.settings, 0, tmp_path)
    assert sorted(found["quality"].tolist()) == [0.0] * 4 + [1.0] * 8
    outcome = example_outcome(**found)
    assert 0 <= scores.clean_share(outcome) <= 1


def test_a_profile_survives_being_kept() -> None:
    settings = {"config": {"data": {"clients": 3}, "model": "logistic"}, "sizes": [8, 16], "passes": 2}
    found = profiled(settings, 1, Path())
    again = pooled([example_outcome(**found)])
    assert [(one.batch, one.client) for one in again.measurements] == [
        (int(batch), int(client)) for batch, client in zip(found["batch"], found["client"], strict=True)
    ]
    for name in MEASURED:
        assert [getattr(one, name) for one in again.measurements] == found[name].tolist()
    assert costs.pass_seconds(example_outcome(**found), 16).tolist() == [
        one.seconds / one.samples for one in again.measurements if one.batch == 16
    ]


def test_mini_batches_begin_with_the_same_model() -> None:
    config = {"data": {"clients": 3, "partition": "iid"}, "model": "logistic", "training": {"lr": 0.5}}
    found = minibatches({"config": config, "sizes": [4, 10_000], "steps": 30}, 1, Path())["accuracy"]
    assert found.shape == (2, 3, 30)
    whole = found[1]
    # A mini-batch of everything: the first accuracy is that of the initial model, of chance; then it is learned.
    assert (whole[:, 0] < 0.35).all()
    assert (whole[:, -1] > 0.8).all()
    assert set(np.round(4 * found[0]).ravel().tolist()) <= {0.0, 1.0, 2.0, 3.0, 4.0}


def test_savings_compare_with_random_on_the_same_population() -> None:
    slow, fast = curves(0.5, 0.8), curves(0.5, 0.8)
    for each in slow:
        each["accuracy"] = np.where(np.arange(20) < 10, 0.1, each["accuracy"])
    results = made(select__random=slow, select__printed=fast, select__default=slow)
    # Nine tenths of the final accuracy, by a mean of five rounds: in round 15 (10 + 5, as 4 of 5 are too few), and 5.
    assert scores.saving(results, PRINTED, "rounds").mean == pytest.approx(15 / 5)
    assert scores.saving(results, PRINTED, "seconds").mean == pytest.approx(15 / 5)
    assert scores.saving(results, PRINTED, "samples").mean == pytest.approx((3 * 10 + 6) / (10 + 1))
    assert scores.saving(results, DEFAULT, "rounds").mean == 1.0
    verdict = rules.faster(results)
    assert verdict.kind == "reproduced"
    assert verdict.ours.startswith("as printed: 3.00 [3.00, 3.00] times; our default: 1.00 [1.00, 1.00] times")


def test_who_never_gets_there_spends_the_whole_run() -> None:
    results = made(select__random=curves(0.9), select__printed=curves(0.2))
    assert scores.saving(results, PRINTED, "rounds").mean == pytest.approx(5 / 20)
    assert scores.reached(results[PRINTED].outcomes[0], 0.8) is None


def test_the_printed_algorithm_decides() -> None:
    levels = {"select__random": curves(0.5, 0.6, 0.7), "select__printed": curves(0.5, 0.61, 0.7)}
    results = made(**levels, select__default=curves(0.56, 0.66, 0.75))
    verdict = rules.more_accurate(results)
    assert verdict.kind == "not"  # two points are excluded
    assert verdict.ours.startswith("as printed: +0.3 [-1.1, +1.8] points; our default")
    assert "our default: +5.7 [+4.2, +7.1] points (by the same rule: reproduced)" in verdict.ours
    assert rules.ahead_at(1)(results).kind == verdict.kind
    assert rules.ahead_at(1000)(results).ours == rules.ahead_at(20)(results).ours


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        ([0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 3], "reproduced"),
        ([3, 3, 3, 3, 3, 3, 2, 2, 2, 1, 1, 0], "partly"),  # uneven, but the wrong way round
        ([0, 1, 2, 3], "not"),
    ],
)
def test_adaptive_means_uneven_and_right(pattern: list[int], kind: str) -> None:
    worth = np.array([0.004, 0.003, 0.002, 0.001])

    def run(repeated: list[int]) -> dict:
        who = np.concatenate([np.arange(5) % 4, np.resize(repeated, 360)])
        return {"accuracy": np.cumsum(worth[who]), "who": who[:, None], "samples": np.ones(4)}

    base, own = [run([0, 1, 2, 3])] * 3, [run(pattern)] * 3
    assert rules.adaptive(made(select__random=base, select__printed=own, select__default=base)).kind == kind


def test_fairness_and_steadiness_by_hand() -> None:
    base, uneven = curves(0.5, 0.5), curves(0.5, 0.5)
    for each in uneven:
        each["selected"] = np.array([20, 0, 0, 0])
    for each in base:
        each["accuracy"] = 0.5 + 0.05 * (-1.0) ** np.arange(20)
    results = made(select__random=base, select__printed=uneven, select__default=base)
    assert rules.less_fair(results).ours.startswith(
        "as printed: +0.75 [+0.75, +0.75] (Jain 0.25 [0.25, 0.25], random 1.00 [1.00, 1.00])"
    )
    assert rules.less_fair(results).kind == "reproduced"
    assert rules.steadier(results).ours.startswith("as printed: +10.0 [+10.0, +10.0] points")
    assert rules.steadier(results).kind == "reproduced"


@pytest.mark.parametrize(
    ("sizes", "pure", "skewed"),
    [((19, 481, 200, 300), 2, True), ((20, 480, 200, 300), 2, False), ((19, 481, 200, 300), 1, False)],
)
def test_skew_needs_single_classes_and_unequal_sizes(sizes: tuple[int, ...], pure: int, skewed: bool) -> None:
    counts = np.zeros((4, 2), dtype=int)
    counts[:, 0] = sizes
    counts[pure:, 1] = counts[pure:, 0]
    counts[pure:, 0] = 0
    counts[pure:] = np.stack([counts[pure:, 1] * 3 // 4, counts[pure:, 1] - counts[pure:, 1] * 3 // 4], axis=1)
    assert profile_rules.is_skewed(example_outcome(counts=counts)) is skewed


def test_every_claim_is_judged_and_has_a_reading() -> None:
    results = example_results()
    for claim in DARTS.claims:
        judged = read_further(judge(claim, results), results)
        assert judged.verdict.kind != "not testable here"
        assert judged.verdict.ours
        assert "missing" not in judged.reading
        assert not claim.text.endswith("..")


def test_an_experiment_that_failed_costs_its_own_figures_only() -> None:
    whole = example_results()
    names = {figure.name for figure in figures(whole)}
    without = Results({key: group for key, group in whole.groups.items() if key != "profile"})
    left = {figure.name for figure in figures(without)}
    assert {"class-pies", "ucb-against-random", "times-asked"} <= left < names
    sixteen = next(claim for claim in DARTS.claims if claim.key == "sixteen")
    assert judge(sixteen, without).verdict.kind == "not testable here"
    assert len(all_tables(without)) < len(all_tables(whole))


def test_everything_is_written_even_of_one_population(tmp_path: Path) -> None:
    with Reproduction.open(DARTS, tiny(tuning_seeds=1), tmp_path / "study") as work:
        work.run()
        assert not work.failed
        page = write(work, "enlist reproduce darts", jobs=1)
    results = work.results()
    assert {path.stem for path in (page.parent / "figures").glob("*.png")} == {each.name for each in figures(results)}
    assert {path.stem for path in (page.parent / "tables").glob("*.csv")} == {each.name for each in all_tables(results)}
    assert len(figures(results)) == 24
    assert len(work.judged) == 15
    text = (page.parent / "verdict.md").read_text(encoding="utf-8")
    assert "the 1,797 digits of scikit-learn" in text
    assert not re.search(r"\bnan\b", text)
    facts = json.loads((page.parent / "settings.json").read_text(encoding="utf-8"))
    assert facts["experiments"][PRINTED]["settings"]["selector"] == "darts-ucb:paper"
