"""Data that are objects of Python's: short forms, processes, and run folders that hold only their digest."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas
import pytest

from enlist._internal.sending import packed
from enlist.data import Dataset, FromMemory, Samples
from enlist.engine import TaskContext, local
from enlist.engine.local import done
from enlist.errors import InputError
from enlist.simulation import Config, load, read, simulate
from enlist.simulation import jobs as jobs_module

GENERATOR = np.random.default_rng(1)
X = GENERATOR.normal(size=(200, 3)).astype(np.float32)
Y = np.where(X[:, 0] > X[:, 1], "more", "less")
FRAME = pandas.DataFrame(
    {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "label": Y, "who": [f"u{k % 9}" for k in range(200)]}
)
ROUNDS = {"rounds": 2, "k": 3}


def own(frame: pandas.DataFrame = FRAME) -> Config:
    dataset = FromMemory.of(frame, user="who")
    return Config(data={"dataset": dataset, "clients": 0, "partition": "natural"}, rounds=ROUNDS)


def test_short_forms_say_the_same() -> None:
    plain = FRAME.drop(columns="who")
    whole = Dataset("mine", *[Samples(X, (Y == "more").astype(int))] * 2, classes=2)
    for given in (plain, (X, Y), {"x": X, "y": Y}, whole, FromMemory.of(plain)):
        assert Config(data=given) == Config(data={"dataset": given})
    assert Config(data=plain, rounds=ROUNDS).data.clients == 100
    with pytest.raises(InputError, match=r"data\.dataset: the data frame: column 'who' holds str"):
        Config(data=FRAME)


def test_an_object_stays_when_other_keys_change() -> None:
    config = own()
    for changed in (
        config.replace("data.validation=0.2", seed=3),
        config.replace("rounds.k=2"),
        config.with_method("oort"),
    ):
        assert changed.data.dataset is config.data.dataset
    assert config.replace("data.dataset=digits").data.dataset.name == "digits"


def test_a_folder_goes_on_with_the_same_data_only(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = simulate(own(), folder=folder)
    assert "0.5" not in (folder / "config.json").read_text().partition('"partition"')[0]  # nothing of the data is there
    with pytest.raises(InputError, match=r"were an object \(a data frame of pandas, 200 rows and 5 columns\)"):
        _ = read(folder).model
    again = load(folder / "config.json").with_data(FRAME)
    assert read(folder, again).model.state_dict().keys() == run.model.state_dict().keys()
    assert simulate(again, folder=folder, resume=True).summary == run.summary
    with pytest.raises(InputError, match="was made with other data"):
        simulate(own(FRAME.assign(a=0.0)), folder=folder, resume=True)
    with pytest.raises(InputError, match="not those that the run was made with"):
        load(folder / "config.json").with_data(FRAME.assign(a=0.0))


def test_data_reach_other_processes_as_samples_only() -> None:
    """A process of a comparison, played here: what is sent to it is answered at once."""
    job = jobs_module.Job(("random", 0), own())
    task = jobs_module.task_of(job, jobs_module.JobSettings(), separate=True)
    content = packed((task.arguments, task.kinds), task.kinds)
    (sent, _, _), _ = pickle.loads(content)
    assert sent.config.data.dataset._object is None
    assert sent.config.data.dataset.digest == own().data.dataset.digest
    people = jobs_module.shared_population(own(), shared=True)
    kind, answer = done(jobs_module.WORK.function, TaskContext(people, lambda state: None), content)
    assert kind == "result"
    assert pickle.loads(answer)[1].summary == simulate(own()).summary
    assert pickle.loads(pickle.dumps(own())) == own()


def test_a_run_of_another_process_has_its_data_again() -> None:
    ended = jobs_module.perform([jobs_module.Job(("random", 0), own())], local(2))
    assert ended.runs["random", 0].config.data.dataset._object is not None
