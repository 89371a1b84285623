"""What simulate and compare return: tables with the right types, the model, scores, curves, pairs and pages."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest
import torch

import enlist
from enlist.errors import EnlistError, InputError
from enlist.runs.frames import Columns
from enlist.runs.tables import read_run
from enlist.selectors import Oort
from enlist.simulation import Config, compare, read, simulate
from enlist.simulation.results import ComparisonResult, Run
from tests.simulation.simulation_helpers import contents

TABLES = ("rounds", "participations", "clients")
CONFIG = Config(
    data={"clients": 8},
    rounds={"rounds": 4, "k": 3, "over_commit": 1.5, "deadline": 40.0, "late": "merge"},
    training={"steps": 2},
    evaluation={"every": 2, "target": 0.2},
)


class Last(enlist.Selector):
    """Chooses the last ones."""

    def choose(self, request: enlist.Request) -> enlist.Choice:
        return request.pick(range(len(request.available) - request.k, len(request.available)))


class Broken(enlist.Selector):
    """Goes wrong in its second round."""

    def choose(self, request: enlist.Request) -> enlist.Choice:
        if self.round == 2:
            raise ZeroDivisionError("round two")
        return request.pick(range(request.k))


@pytest.fixture(scope="module")
def run() -> Run:
    return simulate(CONFIG, Oort.with_(penalty=1.0), seed=3)


@pytest.fixture(scope="module")
def result() -> ComparisonResult:
    methods = {"random": "random", "mine": Last, "oort p=1": Oort.with_(penalty=1.0)}
    return compare(CONFIG, methods, seeds=3, baseline="mine", target=0.2)


def test_integers_stay_integers(run: Run) -> None:
    rounds, participations, clients = run.rounds, run.participations, run.clients
    assert [len(rounds), len(clients)] == [4, 8]
    for frame, names in (
        (
            rounds,
            ["round", "available", "selected", "completed", "late", "dropped", "failed", "bytes_down", "bytes_up"],
        ),
        (participations, ["round", "selected_in", "client"]),
        (clients, ["client", "num_examples", "class_0", "class_9"]),
    ):
        assert {name: str(frame[name].dtype) for name in names} == dict.fromkeys(names, "int64")
    for name in ("rounds_late", "num_examples"):
        assert str(participations[name].dtype) == "Int64", "there are gaps, and yet it counts"
    assert str(participations["censored"].dtype) == "bool"
    assert set(participations["outcome"]) <= {"completed", "late", "dropped", "failed", "arrived"}
    assert set(participations["reason"]) == {""}, "nothing failed; the column is text all the same"
    assert rounds["accuracy"].notna().tolist() == [False, True, False, True]
    assert (participations["outcome"] == "completed").sum() == rounds["completed"].sum()


def test_other_libraries_on_request(run: Run) -> None:
    for name in TABLES:
        pandas_frame, polars_frame, plain = (run.table(name, each) for each in ("pandas", "polars", "arrays"))
        assert isinstance(pandas_frame, pandas.DataFrame)
        assert isinstance(polars_frame, polars.DataFrame)
        assert isinstance(plain, Columns)
        assert list(pandas_frame) == polars_frame.columns == list(plain)
        assert pandas_frame.equals(getattr(run, name))
    participations = run.table("participations", "polars")
    types = [participations.schema[name] for name in ("client", "rounds_late", "censored", "outcome")]
    assert types == [polars.Int64, polars.Int64, polars.Boolean, polars.String]
    assert participations["rounds_late"].null_count() == run.participations["rounds_late"].isna().sum()
    assert run.table("rounds", "polars")["accuracy"].null_count() == 2
    with pytest.raises(InputError, match="library is 'excel'"):
        run.table("rounds", "excel")
    with pytest.raises(EnlistError, match=r"no table called 'round'\. Did you mean 'rounds'"):
        run.table("round")


def test_without_pandas_there_are_plain_columns(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    rounds = run.table("rounds")
    assert isinstance(rounds, Columns)
    assert rounds["round"].tolist() == [1, 2, 3, 4]
    with pytest.raises(InputError, match="library is 'pandas', which is not installed; pip install pandas"):
        run.table("rounds", "pandas")


def test_the_model_predicts_what_the_table_says(run: Run) -> None:
    from enlist.simulation import build

    test = build(run.config).samples["test"]
    with torch.no_grad():
        predicted = run.model(torch.as_tensor(np.asarray(test.x), dtype=torch.float32)).argmax(1)
    accuracy = float((predicted.numpy() == np.asarray(test.y)).mean())
    assert accuracy == pytest.approx(run.summary["last"], abs=1e-6) == pytest.approx(run.rounds["accuracy"].iloc[-1])
    assert not run.model.training


def test_a_summary_says_how_it_ended(run: Run) -> None:
    found = run.summary
    seen = run.rounds["accuracy"].dropna()
    assert (found["method"], found["seed"], found["status"]) == ("oort+penalty=1.0", 3, "finished")
    assert (found["final"], found["last"], found["best"]) == (seen.mean(), seen.iloc[-1], seen.max())
    assert (found["rounds"], found["selected"]) == (4, int(run.rounds["selected"].sum()))
    assert found["bytes_up"] == run.rounds["bytes_up"].sum()
    reached = run.rounds[run.rounds["accuracy"] >= 0.2]
    assert run.time_to(0.2) == found["time_to_target"] == reached["end"].iloc[0]
    assert run.time_to(0.999) == math.inf


def test_a_folder_and_memory_give_the_same_tables(run: Run, tmp_path: Path) -> None:
    kept = simulate(CONFIG, Oort.with_(penalty=1.0), seed=3, folder=tmp_path / "run", workers=2)
    again = read(tmp_path / "run")
    assert (run.folder, kept.folder) == (None, tmp_path / "run")
    for other in (kept, again):
        for name in TABLES:
            pandas.testing.assert_frame_equal(getattr(run, name), getattr(other, name))
        assert other.summary == run.summary
        for key, values in other.model.state_dict().items():
            assert torch.equal(values, run.model.state_dict()[key])
        assert repr(other) == repr(run)
    with pytest.raises(EnlistError, match="resume"):
        simulate(CONFIG, "oort+penalty=1.0", seed=3, folder=tmp_path / "run")
    before = contents(tmp_path / "run")
    assert (
        simulate(CONFIG, Oort.with_(penalty=1.0), seed=3, folder=tmp_path / "run", resume=True).summary == run.summary
    )
    assert contents(tmp_path / "run") == before, "a finished run is returned as it is"


def test_a_notebook_shows_a_run_and_escapes_its_label() -> None:
    run = simulate(CONFIG.replace("rounds.rounds=2"), Oort.with_().named("<b>bold</b>"))
    page = run._repr_html_()
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert "<b>" not in page
    assert "accuracy" in json.dumps(run.plot().to_dict())
    assert run.plot("rounds").to_dict() != run.plot().to_dict()
    both = compare(CONFIG.replace("rounds.rounds=2"), {"<i>a</i>": "oort", "random": "random"}, seeds=1)
    assert "&lt;i&gt;a&lt;/i&gt;" in both._repr_html_()
    assert "<i>" not in both._repr_html_()


def test_a_run_writes_its_page(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages have tests of their own."""
    monkeypatch.setattr("enlist.report.runs.write_report", lambda *arguments: arguments)
    assert run.report("page.html") == ([run.tables], Path("page.html"), "oort+penalty=1.0, seed 3")


# Comparisons.


def test_a_table_has_a_row_for_each_method(result: ComparisonResult) -> None:
    table = result.table
    assert sorted(table["method"]) == sorted(result.labels) == ["mine", "oort p=1", "random"]
    assert (str(table["seeds"].dtype), set(table["seeds"])) == ("int64", {3})
    row = table[table["method"] == "mine"].iloc[0]
    finals = [result.run("mine", seed).summary["final"] for seed in range(3)]
    assert row["final"] == pytest.approx(np.mean(finals))
    assert row["final_low"] < row["final"] < row["final_high"]
    assert result.failed == {}
    assert repr(result).splitlines()[0].startswith("selector")
    assert result._repr_html_().count("<tr>") == 4


def test_speed_ups_are_over_the_baseline(result: ComparisonResult) -> None:
    rows = {row["selector"]: row for row in result.rows}
    times = {label: [result.run(label, seed).time_to(0.2) for seed in range(3)] for label in result.labels}
    ratio = np.exp(np.mean(np.log(times["mine"]) - np.log(times["random"])))
    assert rows["random"]["speed_up"] == pytest.approx(ratio)
    pair = result.pairs("random", "mine")
    assert pair["speed_up"].mean == pytest.approx(ratio)
    finals = [
        result.run("random", seed).summary["final"] - result.run("mine", seed).summary["final"] for seed in range(3)
    ]
    assert pair["final"].mean == pytest.approx(np.mean(finals))
    back = result.pairs("mine", "random")
    assert back["speed_up"].mean == pytest.approx(1 / ratio)
    with pytest.raises(EnlistError, match=r"no method called 'minr'\. Did you mean 'mine'"):
        result.pairs("minr", "random")
    with pytest.raises(InputError, match="baseline is 'oort'"):
        compare(CONFIG, "random,mild=oort", baseline="oort")


def test_curves_are_means_over_seeds(result: ComparisonResult) -> None:
    curves = result.curves("rounds")
    assert list(curves) == ["method", "at", "mean", "low", "high"]
    last = curves[(curves["method"] == "random") & (curves["at"] == 4)].iloc[0]
    assert last["mean"] == pytest.approx(np.mean([result.run("random", seed).summary["last"] for seed in range(3)]))
    assert set(result.curves()["method"]) == set(result.labels)
    with pytest.raises(EnlistError, match="no run called 'random, seed 7'"):
        result.run("random", 7)


def test_a_comparison_writes_its_page(result: ComparisonResult, tmp_path: Path) -> None:
    page = result.report(tmp_path / "page").read_text(encoding="utf-8")
    assert "oort p=1" in page


@pytest.mark.parametrize(
    ("methods", "labels"),
    [
        ("random, mild = oort+penalty=1", ["mild", "random"]),
        ([Last, "random", Oort.with_(penalty=1.0)], ["Last", "oort+penalty=1.0", "random"]),
        ({"a": "oort", "b": Last}, ["a", "b"]),
        (Last, ["Last"]),
    ],
    ids=["text", "list", "dict", "class"],
)
def test_methods_in_any_form(methods: Any, labels: Sequence[str]) -> None:
    found = compare(CONFIG.replace("rounds.rounds=1"), methods, seeds=1)
    assert sorted(found.labels) == labels


def test_jobs_and_folders_change_nothing(result: ComparisonResult, tmp_path: Path) -> None:
    class Own(Last):
        """Only this function knows it, and it is the same as the other."""

    methods = {"random": "random", "mine": Own, "oort p=1": "oort+penalty=1.0"}
    others = [
        compare(CONFIG, methods, seeds=3, baseline="mine", target=0.2, jobs=2, workers=1),
        compare(CONFIG, methods, seeds=3, baseline="mine", target=0.2, folder=tmp_path / "c"),
    ]
    for other in others:
        assert other.failed == {}
        pandas.testing.assert_frame_equal(other.table, result.table)
        pandas.testing.assert_frame_equal(other.curves(), result.curves())
        for seed in range(3):
            one, two = (each.run("mine", seed) for each in (result, other))
            for name in TABLES:
                pandas.testing.assert_frame_equal(getattr(one, name), getattr(two, name))
            for key, values in one.model.state_dict().items():
                assert torch.equal(values, two.model.state_dict()[key])
    assert read_run(tmp_path / "c" / "runs" / "oort-p=1" / "2").seed == 2


def test_a_model_of_a_function_body_is_trained_by_workers() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(64, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x.flatten(1))  # type: ignore[no-any-return]

    config = CONFIG.replace("rounds.rounds=2", model=Net)
    here, there = (simulate(config, Last, workers=workers) for workers in (0, 1))
    pandas.testing.assert_frame_equal(here.rounds, there.rounds)
    assert torch.equal(here.model.layer.weight, there.model.layer.weight)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_selector_that_fails_is_named_and_the_others_go_on(jobs: int, caplog: pytest.LogCaptureFixture) -> None:
    found = compare(CONFIG, [Broken, "random"], seeds=1, jobs=jobs)
    assert found.labels == ["random"]
    reason = found.failed["Broken", 0]
    assert reason.startswith("ZeroDivisionError: round two (line ")
    assert reason.endswith("in choose)")
    assert repr(found).endswith(f"\nBroken failed with seed 0: {reason}")
    assert f"Broken failed with seed 0: {reason}" in caplog.text
    assert "<p>Broken failed with seed 0: ZeroDivisionError" in found._repr_html_()
    found.baseline = "Broken"
    with pytest.raises(InputError, match=r"the baseline 'Broken' has no finished run .ZeroDivisionError.*: random"):
        found.table  # noqa: B018
    found.baseline = None
    assert len(found.table) == 1


def test_nothing_but_failures_is_an_error() -> None:
    with pytest.raises(EnlistError, match="every run failed: ZeroDivisionError: round two"):
        compare(CONFIG, Broken, seeds=1)


def changing(skip: int) -> type[enlist.Selector]:
    """Classes of one name: what differs is a constant, as when a cell of a notebook is run again."""
    first = skip

    class Own(enlist.Selector):
        start = first

        def choose(self, request: enlist.Request) -> enlist.Choice:
            return request.pick(range(self.start, self.start + request.k))

    return Own


def test_a_run_goes_on_only_with_the_class_that_began_it(tmp_path: Path) -> None:
    config = CONFIG.replace("rounds.rounds=2")
    compare(config, {"own": changing(0)}, seeds=1, folder=tmp_path / "c")
    simulate(config, changing(0), folder=tmp_path / "run")
    with pytest.raises(InputError, match="method 'own'"):
        compare(config, {"own": changing(1)}, seeds=2, folder=tmp_path / "c")
    with pytest.raises(InputError, match=r"the source of the selector has changed since the run in .* began"):
        simulate(config, changing(1), folder=tmp_path / "run", resume=True)
    again = compare(config, {"own": changing(0), "other": changing(1)}, seeds=2, folder=tmp_path / "c")
    assert (
        again.run("own", 0).participations["client"].tolist() != again.run("other", 0).participations["client"].tolist()
    )
