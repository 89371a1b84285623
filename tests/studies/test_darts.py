"""The Darts study: what it runs, that it continues, and that every figure, table and claim comes out."""

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
from enlist.errors import InputError, UnknownNameError
from enlist.records import Feedback, RoundMetrics
from enlist.runs.folder import RunFolder
from enlist.simulation.config import parse
from enlist.studies import get, spreads
from enlist.studies.claims import UNTESTABLE, judge
from enlist.studies.darts import DARTS
from enlist.studies.darts.experiments import (
    draws,
    experiments,
    federation,
    noisy,
    oort,
    peak_memory,
    profile,
    random_again,
)
from enlist.studies.darts.settings import (
    AGAIN_METHOD,
    DEFAULT,
    FIRST_SEED,
    METHODS,
    PARTITION,
    PRINTED,
    RANDOM,
    ROTATION,
    SCALES,
    source_of,
)
from enlist.studies.results import Results
from enlist.studies.running import Reproduction
from enlist.studies.writing import write
from tests.studies.darts_example import example_results

SMOKE = DARTS.scale("smoke")
FIGURES = 16


def tiny(**settings):
    """The scale "smoke" in a few rounds of one population."""
    own = {**SMOKE.settings, "rounds": 7, "sizes": [8, 16], "server_rounds": 3, "draws": 3, **settings}
    return dataclasses.replace(SMOKE, seeds=1, settings=own)


def test_it_is_registered():
    assert get("darts") is DARTS


@pytest.mark.parametrize(
    ("scale", "extras"),
    [("smoke", ()), ("laptop", ()), ("laptop", ("cifar10",)), ("paper", ()), ("smoke", ("cifar10",))],
)
def test_every_configuration_is_valid(scale, extras):
    plan = DARTS.scale(scale, extras=extras)
    wanted = [*experiments(plan), *random_again(plan), *noisy(plan), *oort(plan)]
    assert len({(each.key, each.seed) for each in wanted}) == len(wanted)
    for settings in {each.key: each.settings for each in wanted}.values():
        if "config" in settings:
            config = parse(settings["config"], "config")
            assert (config.data.clients, config.rounds.k, config.data.partition.alpha) == (12, 3, 0.05)
            assert config.data.partition.balanced
        if "selector" in settings:
            config.with_method(settings["selector"], seed=0)


def test_ucb_and_random_have_all_rounds_with_every_batch_size():
    keys = {each.key: each.settings for each in experiments(DARTS.scale("laptop"))}
    for size in (8, 32, 64, 128):
        for name in ("random", "printed"):
            config = keys[f"batch/{size}/{name}"]["config"]
            assert (config["rounds"]["rounds"], config["training"]["batch"]) == (100, size)


def test_no_verdict_rests_on_seeds_of_the_verdicts_before_or_of_development():
    plan = DARTS.scale("laptop", seeds=100)
    further = [each for claim in DARTS.claims for each in claim.further.experiments(plan)]
    judged = {each.seed for each in (*experiments(plan), *further)}
    assert min(judged) >= 1_000
    assert not judged & {each.seed for each in spreads.development(DARTS, plan)}
    assert not {each.seed for each in further if each.key.startswith("again/")} & {
        each.seed for each in experiments(plan)
    }


def test_cifar_in_six_populations_unless_told_otherwise():
    for seeds, expected in ((None, 6), (9, 9)):
        plan = DARTS.scale("laptop", seeds=seeds, extras=["cifar10"])
        mains = [each for each in experiments(plan) if each.key == RANDOM.key]
        assert len(mains) == expected
        assert mains[0].settings["config"]["data"]["dataset"] == {"name": "cifar10"}
    with pytest.raises(UnknownNameError, match="cifar10"):
        DARTS.scale("laptop", extras=["cifar100"])


def test_digits_stand_in_for_missing_files(tmp_path, monkeypatch):
    missing = dataclasses.replace(FashionMNIST.published, packaged=tmp_path)
    monkeypatch.setattr(FashionMNIST, "published", missing)
    monkeypatch.setenv("ENLIST_CACHE", str(tmp_path / "cache"))
    assert source_of(SCALES["laptop"]).dataset == {"name": "digits"}
    for file in FashionMNIST.published.files:
        (tmp_path / file).touch()
    assert source_of(SCALES["laptop"]).dataset["name"] == "fashion-mnist"


def test_participations_are_those_of_the_run_and_the_first_rounds_are_randoms(tmp_path):
    found = {}
    for each in experiments(tiny()):
        if each.key in (RANDOM.key, PRINTED.key, DEFAULT.key):
            (tmp_path / each.key).mkdir(parents=True)
            found[each.key] = federation(each.settings, 3, tmp_path / each.key)
    for key, one in found.items():
        assert one["who"].shape == (7, 3)
        assert (np.bincount(one["who"].ravel(), minlength=12) == one["selected"]).all()
        assert (one["counts"].sum(axis=1) == one["samples"]).all()
        assert np.isfinite(one["local_accuracy"]).all() == (key != DEFAULT.key)
        assert (one["who"][:5] == found[RANDOM.key]["who"][:5]).all()
        assert one["accuracy"][0] == found[RANDOM.key]["accuracy"][0]


def test_the_two_readings_of_the_print_have_its_c_and_its_first_reward():
    for arm in METHODS:
        selector = selectors.create(METHODS[arm], Clients(count=12), seed=1)
        if arm.name.startswith("UCB"):
            assert selector.settings.c == pytest.approx(np.sqrt(2))
            picked = selector.ask(k=3)
            selector.tell(picked, Feedback(), round=RoundMetrics(accuracy=0.31))
            assert selector.state.rewards.mean[picked.clients].tolist() == [0.31] * 3  # not 0.655


def test_the_rotation_ignores_rewards():
    selector = selectors.create(METHODS[ROTATION], Clients(count=12), seed=1, epsilon=0.0)
    counts = []
    for _ in range(45):
        picked = selector.ask(k=3)
        selector.tell(picked, Feedback(), round=RoundMetrics(accuracy=0.9 if 0 in picked.clients else 0.1))
        counts.append(np.bincount(picked.clients, minlength=12))
    # The five random rounds are evened out first; from then on nobody is more than one round ahead.
    assert (np.ptp(np.cumsum(counts, axis=0)[20:], axis=1) <= 1).all()


def test_random_again_is_random_with_other_draws():
    first, again = (selectors.create(method, Clients(count=12), seed=1) for method in ("random", AGAIN_METHOD))
    counts, apart = np.zeros(12), 0
    for _ in range(2_000):
        picked, other = again.ask(k=3), first.ask(k=3)
        first.tell(other, Feedback())
        again.tell(picked, Feedback(), round=RoundMetrics(accuracy=1.0 if 0 in picked.clients else 0.0))
        counts[picked.clients] += 1
        apart += set(picked.clients) != set(other.clients)
    assert abs(counts - 500).max() < 5 * np.sqrt(2_000 * 0.25 * 0.75)
    assert apart > 1_500


def test_a_third_of_the_clients_has_wrong_labels(tmp_path):
    found = federation(noisy(tiny())[0].settings, 0, tmp_path)
    assert sorted(found["quality"].tolist()) == [0.0] * 4 + [1.0] * 8


def test_draws_are_those_of_the_report():
    counts = draws({"partition": PARTITION, "draws": 3}, 0, Path())["counts"]
    assert counts.shape == (3, 12, 10)
    assert (counts.sum(axis=1) == 5_000).all()
    assert (counts[0] != counts[1]).any()
    # Balanced: who has a twelfth gets nothing of a further class, so that nobody has a twelfth and a class more.
    assert counts.sum(axis=2).max() < 50_000 / 12 + 5_000


def test_every_mini_batch_is_timed_from_the_same_model():
    config = {"data": {"clients": 3, "partition": "iid"}, "model": "logistic", "training": {"lr": 0.5}}
    found = profile({"config": config, "sizes": [4, 10_000], "passes": 2}, 1, Path())
    small, whole = found["batch"] == 4, found["batch"] == 10_000
    held = found["samples"]
    assert whole.sum() == 2 * 3
    assert small.sum() == 2 * sum(-(-held // 4))
    assert (found["length"][small & (found["client"] == 0)].sum(), found["seconds"].min() > 0) == (2 * held[0], True)
    # A mini-batch of everything: the first accuracy is that of the initial model, of chance; then it is learned.
    assert (found["right"][whole & (found["passed"] == 0)] < 0.35).all()
    assert (found["accuracy"][0] > 0.8).all()
    assert (found["memory"] > 0).all()


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="resident memory is measured on Linux")
def test_peak_memory_is_measured():
    assert peak_memory(lambda: np.ones(2_000_000)) == pytest.approx(16e6, rel=0.2)
    assert peak_memory(lambda: [np.ones(1_000_000) for _ in range(4)]) > 1.5 * peak_memory(lambda: np.ones(1_000_000))


def test_an_experiment_that_failed_costs_its_own_figures_only():
    whole = example_results()
    names = {figure.name for figure in DARTS.figures(whole)}
    assert len(names) == FIGURES
    without = Results({key: group for key, group in whole.groups.items() if key != "profile"})
    left = {figure.name for figure in DARTS.figures(without)}
    assert {"class-pies", "ucb-against-random", "times-asked"} <= left < names
    assert judge(next(claim for claim in DARTS.claims if claim.key == "sixteen"), without).verdict.kind == UNTESTABLE
    assert len(DARTS.tables(without)) < len(DARTS.tables(whole)) == 6


def test_every_figure_is_valid_and_has_at_most_five_series():
    for figure in DARTS.figures(example_results()):
        rows = [row for data in figure.chart.to_dict(validate=True).get("datasets", {}).values() for row in data]
        assert len({row["series"] for row in rows if "series" in row}) <= 5


def test_the_reports_rounds_are_points_and_no_line():
    chart = next(each for each in DARTS.figures(example_results()) if each.name == "first-rounds").chart.to_dict()
    lines, dots = chart["layer"]
    assert dots["mark"]["type"] == "point"
    reported = {(row["at"], row["mean"]) for row in chart["datasets"][dots["data"]["name"]]}
    assert reported == {(1, 0.8981), (10, 0.53), (20, 0.6105), (1, 0.7781), (10, 0.7637), (20, 0.4938)}
    drawn = {row["series"] for row in chart["datasets"][lines["data"]["name"]]}
    assert drawn == {"random", "UCB as printed"}


def test_an_interrupted_study_continues_and_writes_everything(tmp_path):
    scale, place = tiny(), tmp_path / "study"

    def stop(experiment, state):
        if experiment.key == PRINTED.key:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Reproduction.open(DARTS, scale, place) as work:
        work.run(tick=stop)
    done = set(work.outputs)
    assert ("profile", FIRST_SEED) in done
    states = []
    with Reproduction.open(DARTS, scale, place, resume=True) as work:
        assert set(work.outputs) >= done
        work.run(tick=lambda experiment, state: states.append(state))
        assert not work.failed
        page = write(work, "enlist reproduce darts", jobs=1)
    assert states.count("kept") == len(done)
    results = work.results()
    assert {path.stem for path in (place / "figures").glob("*.png")} == {each.name for each in DARTS.figures(results)}
    assert {path.stem for path in (place / "tables").glob("*.csv")} == {each.name for each in DARTS.tables(results)}
    assert len(work.judged) == len(DARTS.claims)
    text = page.with_name("verdict.md").read_text(encoding="utf-8")
    assert "| data | digits | CIFAR-10 |" in text
    assert not re.search(r"\bnan\b", text)
    facts = json.loads(page.with_name("settings.json").read_text(encoding="utf-8"))
    assert facts["experiments"][PRINTED.key]["settings"]["selector"] == "darts-ucb:paper"


def test_a_folder_of_the_former_study_is_refused_in_a_sentence(tmp_path):
    former = {"source": "digits", "rounds": 12, "sizes": [8, 16, 32], "passes": 2, "steps": 10, "batch_seeds": 2}
    with RunFolder.open(tmp_path / "old", {"study": "darts", "scale": "smoke", **former}, resume=False, tables={}):
        pass
    with pytest.raises(InputError, match=r"holds study 'darts' as another version .* run it in a new folder"):
        Reproduction.open(DARTS, SMOKE, tmp_path / "old", resume=True)


def test_spreads_are_measured_on_development_seeds(tmp_path, capsys, monkeypatch):
    wanted = spreads.development(DARTS, SMOKE)
    assert {each.seed for each in wanted} == {100, 101}
    assert {RANDOM.key, PRINTED.key, "profile", "server/random"} <= {each.key for each in wanted}
    rows = {row["claim"]: row for row in spreads.spreads(DARTS, example_results(), seeds=10)}
    assert {"faster", "thriftier/samples", "adaptive/right", "time/time", "server"} <= set(rows)
    finals = [each["accuracy"][-3:].mean() for each in example_results()[PRINTED.key].outputs.values()]
    others = [each["accuracy"][-3:].mean() for each in example_results()[RANDOM.key].outputs.values()]
    assert rows["accuracy"]["spread"] == pytest.approx(np.std(np.subtract(finals, others), ddof=1))
    monkeypatch.setattr(spreads, "development", lambda study, scale, claims: wanted[:0])
    spreads.main(["darts", "--scale", "smoke", "--seeds", "2", "--output", str(tmp_path / "development")])
    assert capsys.readouterr().out == ""
