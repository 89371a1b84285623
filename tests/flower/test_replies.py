"""What replies say, and which of them the strategy may see."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict

from enlist.errors import InputError
from enlist.flower import client, keys
from enlist.flower.fake import instruction, model_reply
from enlist.flower.replies.arrays import examined, misshapen, outliers, templates_of, unweighed
from enlist.flower.replies.arrays import records_of as parts_of
from enlist.flower.replies.reply import introduced, measured, read
from enlist.records import Outcome


def answer(extra: dict[str, Any] | None = None, metrics: dict[str, Any] | None = None) -> Message:
    records: dict[str, Any] = {"metrics": MetricRecord({"num-examples": 10, **(metrics or {})})}
    if extra is not None:
        records["enlist"] = ConfigRecord(extra)
    return Message(RecordDict(records), reply_to=instruction(7))


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (0, Outcome.FAILED),
        (1, Outcome.FAILED),
        (2, Outcome.FAILED),
        (3, Outcome.DROPPED),
        (4, Outcome.DROPPED),
        (5, Outcome.DROPPED),
        (6, Outcome.FAILED),
        (7, Outcome.FAILED),
        (8, Outcome.FAILED),
        (99, Outcome.FAILED),
    ],
)
def test_error_codes(code: int, outcome: Outcome) -> None:
    said = read(Message(Error(code, "<class 'RuntimeError'>:\n <'boom'>" + "x" * 999), reply_to=instruction(7)))
    assert said.outcome == outcome
    assert said.reason.startswith("<class 'RuntimeError'>: <'boom'>")
    assert len(said.reason) == 200
    assert read(Message(Error(code), reply_to=instruction(7))).reason


def test_every_documented_key() -> None:
    extra = {"client-id": "a", "num-examples": 12, "loss": 0.5, "loss-rms": 0.6, "accuracy": 0.7, "accuracy-gain": -0.1}
    said = read(answer({**extra, "seconds": 3.5}))
    assert said.claims == {
        "num_examples": 10.0,  # by which the strategy weighs it
        "loss": 0.5,
        "loss_rms": 0.6,
        "accuracy": 0.7,
        "accuracy_gain": -0.1,
    }
    assert (said.name, said.seconds, said.doubts) == ("a", 3.5, ())


def test_keys_in_the_metric_record_and_under_names_of_the_app() -> None:
    assert read(answer(None, {"loss": 0.5, "loss_rms": 0.75})).claims["loss_rms"] == 0.75
    own = {"loss_rms": "train_loss"}
    assert read(answer({"loss-rms": 9.0}, {"train_loss": 0.25}), own).claims["loss_rms"] == 0.25
    assert read(answer(None, {"partition-id": 3})).name == "3"
    assert read(answer({"partition_id": 3})).name == "3"
    assert read(answer({"client-id": "a"}, {"partition-id": 3})).name == "a"
    assert read(answer(None, {"partition-id": 3.0})).name == "3"
    assert read(answer({"num-examples": 4}), None, "weight").claims["num_examples"] == 4.0


def test_a_reply_without_anything_is_fine() -> None:
    said = read(answer())
    assert (said.outcome, said.name, said.claims) == (Outcome.COMPLETED, None, {"num_examples": 10.0})
    assert math.isnan(said.seconds)
    assert read(Message(RecordDict(), reply_to=instruction(7))).claims == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("loss", math.nan),
        ("loss", math.inf),
        ("loss", 1e10),
        ("loss", "low"),
        ("loss", [0.5]),
        ("loss", True),
        ("loss-rms", -0.5),
        ("accuracy", 1.5),
        ("accuracy-gain", -2.0),
        ("seconds", -1.0),
        ("client-id", ""),
        ("client-id", "x" * 300),
        ("client-id", 1.5),
    ],
)
def test_claims_that_cannot_be_true_count_as_not_made(key: str, value: object) -> None:
    said = read(answer({key: value}))
    assert said.claims == {"num_examples": 10.0}
    assert said.name is None
    assert len(said.doubts) == 1
    assert said.doubts[0].startswith(f"{key} is ")
    assert len(said.doubts[0]) < 80


def test_a_foreign_record_of_that_name_is_not_ours() -> None:
    reply = Message(RecordDict({"enlist": MetricRecord({"loss": 1.0})}), reply_to=instruction(7))
    assert read(reply).claims == {"loss": 1.0}  # it is the MetricRecord


def test_doubts_are_one_line_whatever_was_sent() -> None:
    doubts = read(answer({"loss": "a\rb", "client-id": "c\nd", "accuracy": "x" * 999})).doubts
    assert "loss is 'a\\rb'" in doubts
    assert all(doubt.isprintable() and len(doubt) < 60 for doubt in doubts)
    assert len(doubts) == 3


def test_introductions() -> None:
    told = introduced(client.introduction(instruction(7), client_id=3, num_examples=20, features={"a": 1, "b": 2.5}))
    assert told.name == "3"
    assert told.num_examples == 20.0
    assert (told.features, told.feature_names) == ((1.0, 2.5), ("a", "b"))
    assert introduced(Message(Error(2, "no query"), reply_to=instruction(7))).name is None
    wrong = {"features": [1.0], "feature-names": ["a", "b"], "num-examples": -1, "client-id": ""}
    told = introduced(answer(wrong))
    assert (told.name, told.num_examples, told.features) == (None, None, None)
    assert introduced(answer({"features": [math.nan], "feature-names": ["a"]})).features is None
    for names in (["a", "a"], ["a", " a "], ["a", "b\rc"], ["a", ""]):
        told = introduced(answer({"features": [1.0, 2.0], "feature-names": names}))
        assert (told.features, told.feature_names) == (None, ())


def contents(*arrays: Any, **metrics: Any) -> RecordDict:
    record = ArrayRecord([np.asarray(array) for array in arrays])
    return RecordDict({"arrays": record, "metrics": MetricRecord({"num-examples": 10, **metrics})})


@pytest.mark.parametrize("with_templates", [False, True])
@pytest.mark.parametrize(
    ("array", "fault"),
    [
        (np.ones(3), ""),
        (np.array([1.0, np.nan, 0.0]), "holds NaN"),
        (np.array([np.inf, -np.inf, 0.0]), "holds NaN or infinity"),
        (np.array([1e308, 1e308, 1e308]), ""),
        (np.array([1, 2, 3]), ""),
        (np.array(["a", "b", "c"]), "holds <U1"),
        (np.array([1.0, np.nan, 0.0], dtype=np.float16), "holds NaN"),
        (np.array([1.0, np.inf, 0.0], dtype=np.float32), "holds NaN or infinity"),
    ],
)
def test_arrays_are_looked_at(array: Any, fault: str, with_templates: bool) -> None:
    templates = templates_of(ArrayRecord([np.zeros_like(array)])) if with_templates else None
    shapes, found = examined(parts_of(contents(array)), templates)
    assert shapes == {"0": (3,)}
    assert found.startswith("array '0' holds") == bool(fault)
    assert fault in found


def test_arrays_that_lie_about_themselves() -> None:
    sent = templates_of(ArrayRecord([np.zeros((2, 3))]))
    lying = Array(np.zeros((9, 9)))
    lying.shape = (2, 3)
    record = RecordDict({"arrays": ArrayRecord({"0": lying}), "metrics": MetricRecord({"num-examples": 1})})
    assert examined(parts_of(record), sent) == ({"0": (9, 9)}, "")
    torn = Array(np.zeros((2, 3)))
    torn.data = torn.data[:-8]
    assert "cannot be read" in examined(parts_of(RecordDict({"arrays": ArrayRecord({"0": torn})})), sent)[1]
    torn.data = b"garbage"
    assert "cannot be read" in examined(parts_of(RecordDict({"arrays": ArrayRecord({"0": torn})})), sent)[1]
    foreign = Array("float64", (2, 3), "pickle", b"...")
    assert "cannot be read" in examined(parts_of(RecordDict({"arrays": ArrayRecord({"0": foreign})})), sent)[1]


def test_a_reply_needs_one_array_record() -> None:
    assert examined(parts_of(RecordDict()))[1] == "0 ArrayRecords in the reply, not one"
    two = RecordDict({"a": ArrayRecord([np.ones(1)]), "b": ArrayRecord([np.ones(1)])})
    assert examined(parts_of(two))[1] == "2 ArrayRecords in the reply, not one"


def test_fortran_order_and_scalars() -> None:
    arrays = ArrayRecord([np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.array(3.0)])
    assert examined(parts_of(RecordDict({"arrays": arrays})), templates_of(arrays)) == ({"0": (2, 3), "1": ()}, "")


def test_shapes() -> None:
    assert misshapen({"a": (2,)}, {"a": (2,)}) == ""
    assert misshapen({}, {"a": (2,)}) == "array 'a' is missing"
    assert misshapen({"a": (2,), "b": ()}, {"a": (2,)}) == "array 'b' was not sent"


@pytest.mark.parametrize("weight", [0, -1, math.nan, math.inf, 1e13, [1, 2]])
def test_weights(weight: Any) -> None:
    parts = parts_of(RecordDict({"metrics": MetricRecord({"num-examples": weight})}))
    assert unweighed(parts, "num-examples").startswith("'num-examples' is ")
    assert unweighed(parts, "n") == "no 'n'"
    assert unweighed(parts_of(RecordDict()), "n") == "0 MetricRecords in the reply, not one"


def test_the_metrics_of_most_are_right() -> None:
    several = [contents(np.ones(1), loss=1.0), contents(np.ones(1)), contents(np.ones(1), loss=2.0)]
    found = outliers([parts_of(content) for content in several])
    assert [bool(fault) for fault in found] == [False, True, False]
    listed = [contents(np.ones(1), loss=[1.0]), contents(np.ones(1), loss=[1.0, 2.0]), contents(np.ones(1), loss=[2.0])]
    assert [bool(fault) for fault in outliers([parts_of(content) for content in listed])] == [False, True, False]


def test_measurements() -> None:
    assert measured({"eval_loss": math.nan, "test_loss": 2}, keys.LOSSES) == 2.0
    assert measured({"accuracy": [0.5]}, keys.ACCURACIES) is None
    assert measured(None, keys.ACCURACIES) is None


def test_a_reply_of_a_pytorch_client() -> None:
    module = torch.nn.Linear(2, 1)
    message = instruction(7)
    losses = [torch.tensor([1.0, 3.0]), torch.tensor([2.0])]
    made = client.reply(message, module, num_examples=torch.tensor(3), losses=losses, accuracy=torch.tensor(0.5))
    arrays = made.content["arrays"]
    assert list(arrays) == ["weight", "bias"]
    np.testing.assert_array_equal(arrays["weight"].numpy(), module.weight.detach().numpy())
    said = read(made)
    assert said.claims == pytest.approx(
        {"num_examples": 3.0, "loss": 2.0, "loss_rms": math.sqrt(14 / 3), "accuracy": 0.5}
    )
    assert unweighed(parts_of(made.content), "num-examples") == ""
    again = client.reply(message, module.state_dict(), num_examples=3)
    assert list(again.content["arrays"]) == ["weight", "bias"]
    module.load_state_dict(again.content["arrays"].to_torch_state_dict())


def test_a_reply_of_a_numpy_client() -> None:
    made = client.reply(instruction(7), [np.ones(2), np.zeros((1, 3))], num_examples=2.5, loss=np.float32(0.5))
    assert dict(made.content["metrics"]) == {"num-examples": 2.5}
    assert read(made).claims == {"num_examples": 2.5, "loss": 0.5}
    by_name = client.reply(instruction(7), {"w": [1.0, 2.0]}, num_examples=2, losses=np.array([2.0, 2.0]), loss=7.0)
    assert read(by_name).claims == {"num_examples": 2.0, "loss": 7.0, "loss_rms": 2.0}
    assert client.as_arrays(made.content["arrays"]) is made.content["arrays"]
    assert "loss" not in read(client.reply(instruction(7), [], num_examples=2, losses=[])).claims
    with pytest.raises(InputError, match="the model to send is float"):
        client.reply(instruction(7), 3.5, num_examples=2)


def test_the_client_is_named_by_its_node_config() -> None:
    def name(config: dict[str, Any], **given: Any) -> str | None:
        context = Context(run_id=1, node_id=7, node_config=config, state=RecordDict(), run_config={})
        return read(client.reply(instruction(7), [], num_examples=1, context=context, **given)).name

    assert name({"partition-id": 3, "num-partitions": 9}) == "3"
    assert name({"partition-id": 3, "client-id": "clinic-a"}) == "clinic-a"
    assert name({"partition-id": 3}, client_id="mine") == "mine"
    assert name({}) is None


def test_more_metrics_and_another_weight() -> None:
    made = client.reply(
        instruction(7), [], num_examples=4, metrics={"train_loss": np.float64(0.5), "absent": None}, weighted_by_key="n"
    )
    assert dict(made.content["metrics"]) == {"n": 4, "train_loss": 0.5}


def test_importing_is_light() -> None:
    code = (
        "import sys; import enlist.flower; from enlist.flower import client; "
        "assert 'enlist.flower.selecting' not in sys.modules, 'server side'; "
        "enlist.flower.with_selector; assert 'torch' not in sys.modules, 'torch'; "
        "assert 'pydantic' not in sys.modules, 'pydantic'; "
        "import enlist.flower.fake, enlist.flower.selecting; assert 'torch' not in sys.modules, 'torch'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_fake_replies_carry_what_they_claim() -> None:
    message = instruction(7)
    assert read(Message(model_reply(message, loss_rms=2.0), reply_to=message)).claims["loss_rms"] == 2.0
