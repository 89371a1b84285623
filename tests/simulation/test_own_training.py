"""Losses, optimisers and metrics of the user's own; the best model, early stopping, and accuracies of clients."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

from enlist.cli.app import app
from enlist.errors import EnlistError, InputError, TrustError
from enlist.simulation import Callback, Config, load, read, simulate
from enlist.simulation.comparison import Comparison, remember
from enlist.simulation.evaluation import BestModel, Evaluation, accuracies, fairness
from enlist.training.own import Code, OwnStep
from tests.simulation.simulation_helpers import Kill, assert_same, config, continue_run, run

HERE = __name__


def focal(outputs: Tensor, targets: Tensor, gamma: float = 2.0) -> Tensor:
    """Cross-entropy, less for samples that are right already."""
    losses = nn.functional.cross_entropy(outputs, targets, reduction="none")
    return (1.0 - torch.exp(-losses)) ** gamma * losses


def plain(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs, targets, reduction="none")


def mean_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return plain(outputs, targets).mean()


def top_two(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.topk(2).indices == targets[:, None]).any(dim=1).double().mean())


def doubt(outputs: Tensor, targets: Tensor) -> Tensor:
    return 1.0 - outputs.softmax(dim=1).amax(dim=1).mean()


def broken(outputs: Tensor, targets: Tensor) -> float:
    raise KeyError("no such thing")


def weights(simulation: Any) -> Tensor:
    return simulation.server.model.parameters.clone()


def test_the_default_loss_as_a_loss_of_ones_own_changes_no_bit() -> None:
    """A model that is trained client by client; with a dense chain the same sums come in another order."""
    tanh = {"name": "python", "factory": f"{HERE}:narrow"}
    one, _ = run(config(model=tanh))
    other, _ = run(config(model=tanh, training={"loss": plain}))
    assert torch.equal(weights(one), weights(other))
    assert other.trainer.chain is None
    third, _ = run(config(training={"loss": plain}))
    dense, _ = run(config())
    assert (dense.trainer.chain is None, third.trainer.chain is None) == (False, True)
    torch.testing.assert_close(weights(third), weights(dense), rtol=1e-4, atol=1e-6)
    assert third.loss == pytest.approx(dense.loss, rel=1e-4)


def narrow() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.Tanh(), nn.Linear(4, 10))


def test_a_loss_changes_training_and_what_is_reported() -> None:
    simulation, memory = run(config(training={"loss": {"factory": f"{HERE}:focal", "options": {"gamma": 0.5}}}))
    strong, _ = run(config(training={"loss": Code.of(focal, gamma=0.5)}))
    assert torch.equal(weights(simulation), weights(strong))
    dense, other = run(config())
    assert not torch.allclose(weights(simulation), weights(dense))
    assert memory.participations[0]["loss"] < other.participations[0]["loss"]


def test_classes_of_losses_are_made_with_their_options() -> None:
    smooth = {"factory": "torch.nn:CrossEntropyLoss", "options": {"reduction": "none", "label_smoothing": 0.1}}
    assert run(config(training={"loss": smooth}))[0].loss > 0


def test_an_optimiser_begins_anew_with_every_client() -> None:
    plainly, _ = run(config(model={"name": "python", "factory": f"{HERE}:narrow"}))
    own, _ = run(config(model={"name": "python", "factory": f"{HERE}:narrow"}, training={"optimiser": torch.optim.SGD}))
    torch.testing.assert_close(weights(own), weights(plainly))
    adam = {"factory": "torch.optim:Adam", "options": {"betas": [0.5, 0.9]}}
    moved, _ = run(config(training={"optimiser": adam, "lr": 0.01}))
    assert moved.trainer.chain is None
    assert moved.accuracy > 0.3


def test_fedprox_pulls_with_any_optimiser() -> None:
    weight = nn.Parameter(torch.tensor([1.0]))
    step = OwnStep(torch.optim.SGD, 0.5, 2.0, [weight])
    step([torch.tensor([1.0])])  # 1 - 0.5 (1 + 2 (1 - 1)) = 0.5
    step([torch.tensor([1.0])])  # 0.5 - 0.5 (1 + 2 (0.5 - 1)) = 0.5
    step([None])
    assert (weight.item(), weight.grad) == (0.5, None)


@pytest.mark.parametrize(
    ("training", "words"),
    [
        ({"loss": mean_loss}, r"mean_loss gives \(\) for a batch of 2; it must give one loss per sample"),
        ({"loss": f"{HERE}:no_such"}, "training.loss: module '.*' has no class or function 'no_such'"),
        ({"loss": Code.of(focal, gama=1.0)}, "focal fails on outputs .* unexpected keyword argument 'gama'"),
        ({"loss": Code.of(nn.CrossEntropyLoss, reductio="none")}, "cannot be called with .*reductio"),
        ({"optimiser": torch.optim.LBFGS}, "training.optimiser: torch.optim.lbfgs:LBFGS fails on its first step"),
        ({"optimiser": {"factory": "torch.optim:Adam", "options": {"beta": 1}}}, "fails on its first step"),
    ],
)
def test_code_that_does_not_fit_is_refused_before_anything_runs(training: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        run(config(training=training))


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"training": {"loss": nn.CrossEntropyLoss()}}, "neither a class nor a function"),
        ({"training": {"loss": 3}}, r"training\.loss = 3"),
        ({"training": {"loss": "focal"}}, r"training\.loss\.factory = 'focal'"),
        ({"training": {"optimiser": torch.optim.Adam, "momentum": 0.5}}, "momentum belongs to SGD"),
        ({"evaluation": {"metrics": [lambda outputs, targets: 0.0]}}, "is a lambda, which has no name"),
        ({"evaluation": {"metrics": [top_two, "elsewhere:top_two"]}}, "two metrics"),
        ({"evaluation": {"keep_best": True, "watch": "recall"}}, "watch = 'recall'; allowed are validation, test"),
        ({"evaluation": {"watch": "test"}}, "only apply to keep_best and patience"),
        ({"evaluation": {"keep_best": True, "lower_is_better": True}}, "applies to a metric of your own"),
    ],
)
def test_keys_that_do_not_fit(sections: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Config(**sections)


def test_metrics_are_measured_on_all_test_samples() -> None:
    simulation, memory = run(config(evaluation={"metrics": [top_two, f"{HERE}:doubt"]}))
    rows = [row for row in memory.rounds if "accuracy" in row]
    assert [row["round"] for row in rows] == [2, 4]
    outputs = simulation.trainer.outputs(simulation.state.models.slot(4), "test")
    targets = simulation.trainer.job.data["test"].y
    assert rows[-1]["metric_top_two"] == top_two(outputs, targets) >= rows[-1]["accuracy"]
    assert rows[-1]["metric_doubt"] == float(doubt(outputs, targets))
    assert run(config())[1].rounds[-1]["loss"] == rows[-1]["loss"]


def test_a_metric_that_fails_is_named_before_anything_is_trained() -> None:
    with pytest.raises(EnlistError, match=r"evaluation.metrics: .*:broken fails on outputs \(\d+, 10\) .* \(KeyError"):
        run(config(evaluation={"metrics": broken}))


def test_patience_counts_evaluations_that_are_no_better() -> None:
    watch = BestModel(Evaluation(patience=2, min_delta=0.05, watch="test", keep_best=True), regression=False)
    for number, value in enumerate((0.5, 0.52, 0.56, math.nan, 0.58)):
        assert not watch.exhausted
        watch.note({"accuracy": value}, number, None)
    # 0.52 is no better than 0.5 by 0.05, 0.56 is; NaN and 0.58 are no better than 0.56 by 0.05
    assert watch.exhausted
    assert (watch.round, watch.value) == (4, 0.58)
    down = BestModel(Evaluation(patience=1, metrics=[doubt], watch="doubt", lower_is_better=True), regression=False)
    for value in (0.5, 0.4):
        down.note({"metric_doubt": value}, 1, None)
    assert (down.value, down.exhausted) == (0.4, False)
    assert BestModel(Evaluation(keep_best=True), regression=True).column == "validation_loss"


def test_validation_must_be_there_to_be_watched() -> None:
    with pytest.raises(InputError, match=r"evaluation\.watch is 'validation', and data\.validation is 0"):
        run(config(data={"validation": 0.0}, evaluation={"patience": 1}))


def test_the_best_model_is_kept(tmp_path: Path) -> None:
    """The learning rate is so large that the last model is not the best."""
    settings = config(
        training={"lr": 3.0}, rounds={"rounds": 5}, evaluation={"every": 1, "keep_best": True, "watch": "test"}
    )
    here, there = simulate(settings), simulate(settings, folder=tmp_path / "run")
    column = here.rounds["accuracy"]
    best = int(np.argmax(column))
    assert best < 4
    assert here.tables.result is not None
    assert (here.tables.result["best_round"], here.tables.result["best_accuracy"]) == (best + 1, column[best])
    shorter = simulate(settings.replace(f"rounds.rounds={best + 1}"))
    for found in (here.best_model, there.best_model, read(tmp_path / "run").best_model):
        for name, values in shorter.model.state_dict().items():
            assert torch.equal(found.state_dict()[name], values)
    assert any(
        not torch.equal(here.model.state_dict()[name], values) for name, values in shorter.model.state_dict().items()
    )
    with pytest.raises(InputError, match="no best model was kept"):
        _ = simulate(config(rounds={"rounds": 1})).best_model


def test_a_configuration_without_them_says_and_does_what_it_did(tmp_path: Path) -> None:
    values = Config().model_dump(mode="json")
    assert values["training"].keys() == {
        "batch", "epochs", "steps", "lr", "lr_decay", "momentum", "weight_decay", "prox", "partial", "measure",
    }  # fmt: skip
    assert values["evaluation"].keys() == {"every", "target", "stop_at_target"}
    assert "client_test" not in values["data"]
    simulate(config(rounds={"rounds": 1}), folder=tmp_path / "run")
    assert (tmp_path / "run" / "rounds.csv").read_text().partition("\n")[0].endswith(",bytes_down,bytes_up")
    assert "best_round" not in json.loads((tmp_path / "run" / "result.json").read_text())


def test_fairness_by_hand() -> None:
    found = accuracies(np.array([1, 0, 1, 1, 0, 0], dtype=bool), np.array([0, 2, 2, 4, 6]))
    assert found.tolist()[0::2] == [0.5, 1.0]
    assert math.isnan(found[1])
    # of 0.5, 1 and 0: mean 0.5; the worst tenth, rounded up, is one client; deviation sqrt(0.5 / 3)
    assert fairness(found) == {
        "client_accuracy": 0.5, "accuracy_worst_tenth": 0.0, "accuracy_spread": pytest.approx(math.sqrt(0.5 / 3)),
    }  # fmt: skip


def test_clients_keep_samples_for_testing() -> None:
    settings = config(data={"client_test": 0.25, "partition": {"kind": "dirichlet", "alpha": 0.1}})
    found = simulate(settings)
    without = simulate(config(data={"partition": {"kind": "dirichlet", "alpha": 0.1}}))
    kept, all_of_them = (np.asarray(each.clients["num_examples"]) for each in (found, without))
    assert np.abs(all_of_them * 0.75 - kept).max() <= 1
    last = dict(found.rounds.iloc[-1])
    assert last["client_accuracy"] == pytest.approx(np.nanmean(found.client_accuracy))
    assert last["accuracy_worst_tenth"] == np.nanmin(found.client_accuracy)
    assert last["accuracy_spread"] == pytest.approx(np.nanstd(found.client_accuracy))
    assert math.isnan(found.rounds["client_accuracy"][0])
    with pytest.raises(InputError, match=r"set data\.client_test"):
        _ = without.client_accuracy
    with pytest.raises(InputError, match="a regression has none"):
        simulate(config(data={"dataset": "linear-regression", "client_test": 0.2}))


def test_all_code_is_listed_and_runs_only_with_trust(tmp_path: Path) -> None:
    settings = Config(training={"loss": focal, "optimiser": torch.optim.Adam}, evaluation={"metrics": [top_two]})
    named = (f"{HERE}:focal", "torch.optim.adam:Adam", f"{HERE}:top_two")
    assert settings.code() == named
    folder = tmp_path / "received"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(settings.model_dump(mode="json")))
    with pytest.raises(TrustError, match=", ".join(named)):
        load(folder / "config.json")
    assert load(folder / "config.json", trust=True).code() == named


def test_objects_stay_when_other_keys_change() -> None:
    settings = Config(training={"loss": focal, "optimiser": torch.optim.Adam}, evaluation={"metrics": [top_two]})
    changed = settings.replace("training.lr=0.5", "evaluation.every=2", seed=3)
    assert changed.training.loss is not None
    assert changed.training.optimiser is not None
    assert (changed.training.lr, changed.training.loss._object) == (0.5, focal)
    assert changed.training.optimiser._object is torch.optim.Adam
    assert changed.evaluation.metrics[0]._object is top_two
    assert settings.replace("training.loss=a:b").training.loss == Code(factory="a:b")


def test_a_run_goes_on_with_the_same_code_only(tmp_path: Path) -> None:
    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return plain(outputs, targets)

    simulate(config(rounds={"rounds": 1}, training={"loss": loss}), folder=tmp_path / "run")

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:  # type: ignore[no-redef]
        return 2.0 * plain(outputs, targets)

    with pytest.raises(InputError, match=r"the source of the training\.loss has changed"):
        simulate(config(rounds={"rounds": 1}, training={"loss": loss}), folder=tmp_path / "run", resume=True)


def test_a_comparison_goes_on_with_the_same_code_only(tmp_path: Path) -> None:
    remember(Comparison(Config(training={"loss": plain}, selector="nowhere:Mine"), "random"), tmp_path)
    remember(Comparison(Config(training={"loss": plain}), "oort"), tmp_path)

    def plain_of_another_kind(outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs.sum(dim=1)

    other = Code(factory=f"{HERE}:plain")
    other._object = plain_of_another_kind
    with pytest.raises(InputError, match=r"another training\.loss\.source: code or data have changed"):
        remember(Comparison(Config(training={"loss": other}), "random"), tmp_path)


def test_a_run_that_stops_early_says_so(tmp_path: Path) -> None:
    (tmp_path / "early.toml").write_text(
        "[data]\nclients = 8\n[rounds]\nrounds = 30\nk = 2\n[training]\nlr = 1e-9\n"
        "[evaluation]\nevery = 1\npatience = 2\nmin_delta = 0.5\n"
    )
    done = CliRunner().invoke(
        app, ["run", str(tmp_path / "early.toml"), "--workers", "0", "--output", str(tmp_path / "run")]
    )
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "stopped early: 2 evaluations in a row without improvement; the best was in round" in said
    assert json.loads((tmp_path / "run" / "result.json").read_text())["rounds"] == 3


class KillAfter(Callback):
    """Ends the run at once, after the round was recorded."""

    def __init__(self, round: int) -> None:
        self.round = round

    def on_round(self, simulation: Any, *told: Any) -> None:
        if simulation.round == self.round:
            raise Kill


def test_everything_together_is_the_same_killed_or_not_and_for_any_number_of_workers(tmp_path: Path) -> None:
    """Own loss that draws numbers, own optimiser, own metric, early stopping, best model, accuracies of clients; late
    updates and crashes. Loss and optimiser are known nowhere but here, so workers get them by value."""

    def noisy(outputs: Tensor, targets: Tensor) -> Tensor:
        losses = nn.functional.cross_entropy(outputs, targets, reduction="none")
        return losses * torch.rand(len(targets))

    class Signs:
        """Moves every weight by lr, and less from step to step."""

        def __init__(self, parameters: list[nn.Parameter], lr: float, fading: float) -> None:
            self.parameters, self.lr, self.fading = parameters, lr, fading

        def step(self) -> None:
            with torch.no_grad():
                for parameter in self.parameters:
                    if parameter.grad is not None:
                        parameter.add_(parameter.grad.sign(), alpha=-self.lr)
            self.lr *= self.fading

    settings = config(
        selector="oort",
        data={"clients": 12, "client_test": 0.2, "partition": {"kind": "dirichlet", "alpha": 0.3}},
        devices={"kind": "phones"},
        failures={"crash": 0.1},
        training={"loss": noisy, "optimiser": Code.of(Signs, fading=0.9), "lr": 0.1},
        rounds={"rounds": 30, "k": 3, "over_commit": 2.0, "late": "merge"},
        evaluation={"every": 1, "metrics": [f"{HERE}:top_two"], "keep_best": True, "patience": 3, "watch": "top_two"},
    )
    continue_run(tmp_path / "straight", settings)
    result = json.loads((tmp_path / "straight" / "result.json").read_text())
    assert result["stopped_early"]
    assert 4 < result["rounds"] == result["best_round"] + 3 < 30
    table = read(tmp_path / "straight").rounds
    assert (table["arrived"].sum(), table["failed"].sum()) > (0, 0)
    assert table["metric_top_two"][result["best_round"] - 1] == result["best_metric_top_two"]
    continue_run(tmp_path / "workers", settings, workers=2)
    assert_same(tmp_path / "workers", tmp_path / "straight")
    with pytest.raises(Kill):
        continue_run(tmp_path / "killed", settings, KillAfter(result["best_round"] + 2))
    continue_run(tmp_path / "killed", settings)
    assert_same(tmp_path / "killed", tmp_path / "straight")
