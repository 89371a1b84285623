"""Saved state: bit-exact, versioned, checksummed, atomic, never pickled."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import math
import pickle
import shutil

import numpy as np
import pytest

import enlist
from enlist import Choice, Clients, Feedback, Outcome, RoundMetrics, Selector, State, storage
from enlist._internal.typing import AnyArray
from enlist.bandits import UCB, DiscountedThompson, EpsilonGreedy, Thompson
from enlist.errors import InputError, StateFileError
from enlist.selectors.bsfl import BSFL
from enlist.selectors.random import Random

BUILT = {
    "random": {},
    "size-proportional": {"variant": "fixed-inclusion"},
    "darts-ucb": {"initial_rounds": 1},
    "epsilon-greedy": {"step": 0.3},
    "ucb": {},
    "thompson": {},
    "discounted-thompson": {},
    "cs-ucb": {},
    "cs-ucb-q": {"fractions": [0.2, 0.1, 0.3, 0.2, 0.1, 0.1, 0.2, 0.1]},
    "bsfl": {"generalisation": "loss"},
}
COUNT = 8
ROUNDS = 14


def population():
    features = np.random.default_rng(8).normal(size=(COUNT, 2))
    ids = [f"client {number}" for number in range(COUNT)]
    return Clients(num_examples=np.arange(1.0, COUNT + 1), ids=ids, features=features, feature_names=["cpu", "mem"])


def frozen(value):
    return (str(value.dtype), value.shape, value.tobytes()) if isinstance(value, np.ndarray) else repr(value)


def snapshot(selector):
    """All that a selector remembers."""
    return {
        "state": {path: frozen(value) for path, value in selector.state.leaves()},
        "counts": {path: frozen(value) for path, value in selector.counts.leaves()},
        "round": selector.round,
        "rng": repr(selector.rng.bit_generator.state),
        "clients": {name: frozen(value) for name, value in selector.clients.columns().items()},
        "names": tuple(selector.clients.feature_names),
        "settings": {f.name: frozen(getattr(selector.settings, f.name)) for f in dataclasses.fields(selector.settings)},
        "open": {
            number: (
                frozen(opening.selection.clients),
                repr((opening.selection.deadline, opening.selection.now)),
                {name: frozen(values) for name, values in opening.selection.terms.items()},
                frozen(opening.outcome),
                frozen(opening.credited),
                opening.metrics_told,
            )
            for number, opening in selector.openings.items()
        },
    }


def step(selector, number, waiting):
    """One round of a federation in which some clients are slow, some get lost and some answers come later."""
    world = np.random.default_rng(1000 + number)
    mask = world.uniform(size=COUNT) < 0.8
    picked = selector.ask(mask, k=3, now=10.0 * number, deadline=math.inf if number % 4 == 3 else 6.0)
    outcome = world.choice([0, 0, 0, 1, 2], size=len(picked))
    latency = np.where(outcome == 2, np.nan, 1.0 + 5.0 * world.uniform(size=len(picked)))
    columns = {"accuracy_gain": world.normal(size=len(picked)), "loss": world.uniform(size=len(picked))}
    told = slice(0, 2) if number % 5 == 2 else slice(None)  # some rounds stay open
    part = {name: values[told] for name, values in columns.items()}
    feedback = Feedback(
        clients=picked.clients[told],
        outcome=outcome[told],
        latency=latency[told],
        censored=(outcome == 1)[told],
        **part,
    )
    selector.tell(picked, feedback, RoundMetrics(accuracy=float(world.uniform())))
    waiting.extend((number, picked, client) for client in picked.clients[told][outcome[told] == 1])
    while waiting and waiting[0][0] <= number - 2:  # late ones arrive two rounds later
        _, late, client = waiting.pop(0)
        selector.tell(
            late,
            Feedback(
                clients=[client],
                outcome=[Outcome.ARRIVED],
                latency=[8.0],
                accuracy_gain=[0.1],
                loss=[0.4],
                rounds_late=[2],
            ),
        )
    return picked.clients.tolist()


@pytest.mark.parametrize("name", BUILT)
def test_continues_bit_exactly_from_any_round(name, tmp_path):
    """Saved and loaded before every round, also with open selections and late clients on their way."""
    straight = enlist.create(name, population(), seed=3, max_open=6, **BUILT[name])
    stopped = enlist.create(name, population(), seed=3, max_open=6, **BUILT[name])
    waiting, waiting_too = [], []
    open_when_saved, late_when_saved = 0, 0
    for number in range(ROUNDS):
        open_when_saved += len(stopped.openings)
        late_when_saved += len(waiting_too)
        stopped.save(tmp_path / "state")
        stopped = enlist.load(tmp_path / "state")
        assert snapshot(stopped) == snapshot(straight)
        assert step(straight, number, waiting) == step(stopped, number, waiting_too)
        assert snapshot(stopped) == snapshot(straight)
    assert open_when_saved > 10
    assert late_when_saved > 3


@pytest.mark.parametrize("name", BUILT)
def test_saving_does_not_disturb(name, tmp_path):
    selector = enlist.create(name, population(), seed=3, **BUILT[name])
    step(selector, 0, [])
    memory = snapshot(selector)
    selector.save(tmp_path)
    assert snapshot(selector) == memory


@pytest.mark.parametrize("columns", [{}, {"num_examples": [1.0, 2.0]}], ids=["count", "columns"])
def test_a_loaded_selector_can_be_joined(columns, tmp_path):
    enlist.create("random", Clients(count=2, **columns)).save(tmp_path)
    again = enlist.load(tmp_path)
    assert again.join(Clients(count=2, **columns)).tolist() == [2, 3]


def test_after_join_and_compact(tmp_path):
    selector = enlist.create("cs-ucb-q", Clients(count=3), seed=1, fractions=[0.3, 0.2, 0.1])
    selector.join(Clients(count=2))
    selector.save(tmp_path)
    assert snapshot(enlist.load(tmp_path)) == snapshot(selector)
    selector.compact([0, 4])
    selector.save(tmp_path)
    assert snapshot(enlist.load(tmp_path)) == snapshot(selector)


def test_the_preset_is_remembered(tmp_path):
    enlist.create("darts-ucb", Clients(count=3), preset="paper", epsilon=0.3).save(tmp_path)
    again = enlist.load(tmp_path)
    assert (again.settings.c, again.settings.epsilon) == (math.sqrt(2.0), 0.3)
    assert again.preset == "paper"


def test_the_folder_is_made_and_holds_two_files(tmp_path):
    enlist.create("random", Clients(count=3)).save(tmp_path / "deep" / "state")
    names = sorted(path.name for path in (tmp_path / "deep" / "state").iterdir())
    assert len(names) == 2
    assert names[0].startswith("arrays-")
    assert names[1] == "state.json"
    document = json.loads((tmp_path / "deep" / "state" / "state.json").read_text())
    assert document["version"] == storage.FORMAT_VERSION
    assert document["kind"] == "selector"


def test_a_class_loads_only_its_own_kind(tmp_path):
    enlist.create("random", Clients(count=3)).save(tmp_path)
    assert isinstance(Random.load(tmp_path), Random)
    with pytest.raises(StateFileError, match=r"holds selector 'random', not 'bsfl'; use enlist\.load"):
        BSFL.load(tmp_path)
    with pytest.raises(StateFileError, match="is not a saved rule; it says 'selector'"):
        UCB.load(tmp_path)


# -------------------------------------------------------------------------------------------------------------- damage


@pytest.fixture
def saved(tmp_path):
    """A folder with the state of a selector after some rounds."""
    selector = enlist.create("bsfl", population(), seed=3)
    for number in range(3):
        step(selector, number, [])
    selector.save(tmp_path)
    return tmp_path


def arrays_file(folder):
    (path,) = folder.glob("arrays-*.npz")
    return path


def edit(folder, change, *, sign=True):
    """Change state.json; with `sign`, its digest is made right again."""
    document = json.loads((folder / "state.json").read_text())
    change(document)
    if sign:
        document.pop("digest", None)
        document["digest"] = storage._digest(document)
    (folder / "state.json").write_text(json.dumps(document))


def test_not_a_state_folder(tmp_path):
    with pytest.raises(StateFileError, match=r"holds no saved state: state\.json is missing"):
        enlist.load(tmp_path)
    with pytest.raises(StateFileError, match=r"state\.json is missing"):
        enlist.load(tmp_path / "nowhere")
    (tmp_path / "state.json").write_text("[1, 2]")
    with pytest.raises(StateFileError, match="is not a saved state"):
        enlist.load(tmp_path)
    (tmp_path / "state.json").write_text('{"name": "something else"}')
    with pytest.raises(StateFileError, match="is not a saved selector"):
        enlist.load(tmp_path)
    (tmp_path / "state.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StateFileError, match="cannot be read"):
        enlist.load(tmp_path)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_format_version(saved, version):
    edit(saved, lambda document: document.update(version=version))
    with pytest.raises(StateFileError, match=r"has format version .*, this Enlist reads 1; load it with the version"):
        enlist.load(saved)


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9, 0.999])
def test_truncated_json(saved, keep):
    text = (saved / "state.json").read_text()
    (saved / "state.json").write_text(text[: int(keep * len(text))])
    with pytest.raises(StateFileError, match=r"state\.json is truncated or not JSON"):
        enlist.load(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document["content"].update(round=99),
        lambda document: document["content"]["settings"].update(alpha=5.0),
        lambda document: document["content"]["generator"]["state"].update(state=1),
        lambda document: document["arrays"].update(sha256="0" * 64),
        lambda document: document.pop("digest"),
        lambda document: document.pop("arrays"),
        lambda document: document.pop("content"),
    ],
)
def test_altered_json(saved, change):
    edit(saved, change, sign=False)
    with pytest.raises(StateFileError, match=r"state\.json was altered after it was saved"):
        enlist.load(saved)


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.99])
def test_truncated_npz(saved, keep):
    payload = arrays_file(saved).read_bytes()
    arrays_file(saved).write_bytes(payload[: int(keep * len(payload))])
    with pytest.raises(StateFileError, match=r"npz is truncated or was altered"):
        enlist.load(saved)


def test_altered_npz(saved):
    payload = bytearray(arrays_file(saved).read_bytes())
    payload[len(payload) // 2] ^= 1
    arrays_file(saved).write_bytes(bytes(payload))
    with pytest.raises(StateFileError, match=r"npz is truncated or was altered"):
        enlist.load(saved)


def test_missing_npz(saved):
    arrays_file(saved).unlink()
    with pytest.raises(StateFileError, match=r"npz is missing or unreadable"):
        enlist.load(saved)


def test_npz_of_another_save(saved, tmp_path):
    enlist.create("bsfl", population(), seed=4).save(tmp_path / "other")
    shutil.copy(arrays_file(tmp_path / "other"), arrays_file(saved))
    with pytest.raises(StateFileError, match="truncated or was altered"):
        enlist.load(saved)


def replace_arrays(folder, change):
    """Put other arrays in place of the saved ones, with checksums that are right."""
    with np.load(arrays_file(folder)) as loaded:
        arrays = {name: loaded[name] for name in loaded.files}
    change(arrays)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    arrays_file(folder).write_bytes(buffer.getvalue())
    checksum = hashlib.sha256(buffer.getvalue()).hexdigest()
    edit(folder, lambda document: document["arrays"].update(sha256=checksum))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays: arrays.pop("state/inverse_latency"), "no entry 'state/inverse_latency'"),
        (
            lambda arrays: arrays.update({"state/inverse_latency": np.zeros(3)}),
            r"is float64 \(3,\), but must be float64",
        ),
        (
            lambda arrays: arrays.update({"counts/selected": np.zeros(COUNT)}),
            r"'counts/selected' is float64 .* must be int64",
        ),
    ],
)
def test_a_state_of_another_shape(saved, change, message):
    replace_arrays(saved, change)
    with pytest.raises(StateFileError, match=message):
        enlist.load(saved)


# ------------------------------------------------------------------------------------------------------------ no pickle


class Bomb:
    """Says so when it is unpickled."""

    exploded = False

    def __reduce__(self):
        return (setattr, (Bomb, "exploded", True))


def test_a_pickle_in_the_arrays_is_refused_unread(saved):
    Bomb.exploded = False
    replace_arrays(saved, lambda arrays: arrays.update({"state/inverse_latency": np.array([Bomb()], dtype=object)}))
    with pytest.raises(StateFileError, match=r"cannot be read: .* Object arrays cannot be loaded"):
        enlist.load(saved)
    assert not Bomb.exploded


def test_a_pickle_file_instead_of_the_arrays_is_refused_unread(saved):
    Bomb.exploded = False
    payload = pickle.dumps(Bomb())
    arrays_file(saved).write_bytes(payload)
    edit(saved, lambda document: document["arrays"].update(sha256=hashlib.sha256(payload).hexdigest()))
    with pytest.raises(StateFileError, match="cannot be read"):
        enlist.load(saved)
    assert not Bomb.exploded


@dataclasses.dataclass
class ObjectState(State):
    things: AnyArray


class Hoarder(Selector[object, ObjectState]):
    """Keeps an object array, which cannot be saved."""

    name = "hoarder"
    State = ObjectState

    def initial_state(self):
        return ObjectState(things=np.array([{"a": 1}, None], dtype=object))

    def choose(self, request):
        return Choice(request.available[: request.k])


def test_an_object_array_is_refused_when_saving_and_the_old_state_stays(tmp_path):
    enlist.create("random", Clients(count=3), seed=9).save(tmp_path)
    with pytest.raises((StateFileError, InputError), match="things"):
        Hoarder(Clients(count=3)).save(tmp_path)
    assert enlist.load(tmp_path).seed == 9


# ------------------------------------------------------------------------------------------------------------ functions


def by_size(selector, k):
    return selector.clients.num_examples / selector.clients.num_examples.sum() * k


def test_a_setting_that_is_a_function_is_passed_again(tmp_path):
    selector = enlist.create("bsfl", population(), seed=1, generalisation=by_size)
    step(selector, 0, [])
    selector.save(tmp_path)
    with pytest.raises(StateFileError, match=r"'generalisation' was the function by_size.*generalisation=\.\.\."):
        enlist.load(tmp_path)
    again = enlist.load(tmp_path, generalisation=by_size)
    assert snapshot(again) == snapshot(selector)
    assert [step(again, number, []) for number in (1, 2)] == [step(selector, number, []) for number in (1, 2)]
    assert snapshot(BSFL.load(tmp_path, generalisation=by_size))["round"] == 1


# -------------------------------------------------------------------------------------------------------------- atomic


class KilledError(Exception):
    pass


@pytest.mark.parametrize("survived", [0, 1], ids=["before the arrays", "between arrays and json"])
def test_a_crash_while_saving_leaves_the_old_state(tmp_path, monkeypatch, survived):
    selector = enlist.create("bsfl", population(), seed=3)
    step(selector, 0, [])
    selector.save(tmp_path)
    memory = snapshot(selector)
    step(selector, 1, [])
    real, writes = storage.replace, []

    def killed(path, payload):
        if len(writes) == survived:
            raise KilledError
        writes.append(path.name)
        real(path, payload)

    monkeypatch.setattr(storage, "replace", killed)
    with pytest.raises(KilledError):
        selector.save(tmp_path)
    assert len(writes) == survived
    assert snapshot(enlist.load(tmp_path)) == memory
    monkeypatch.undo()
    selector.save(tmp_path)  # and the next save cleans up
    assert snapshot(enlist.load(tmp_path)) == snapshot(selector)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_crash_in_the_middle_of_a_file_leaves_the_old_state(tmp_path, monkeypatch):
    selector = enlist.create("bsfl", population(), seed=3)
    selector.save(tmp_path)
    memory = snapshot(selector)
    step(selector, 1, [])

    def killed(descriptor):
        raise KilledError

    monkeypatch.setattr(storage.os, "fsync", killed)
    with pytest.raises(KilledError):
        selector.save(tmp_path)
    assert snapshot(enlist.load(tmp_path)) == memory


def test_saving_again_replaces_the_older_state(tmp_path):
    selector = enlist.create("cs-ucb", population(), seed=3)
    for number in range(4):
        step(selector, number, [])
        selector.save(tmp_path)
    assert len(list(tmp_path.glob("arrays-*.npz"))) == 1
    assert enlist.load(tmp_path).round == 4
    selector.save(tmp_path)  # saving the same state twice must not remove its own arrays
    assert snapshot(enlist.load(tmp_path)) == snapshot(selector)


# --------------------------------------------------------------------------------------------------------------- rules


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (EpsilonGreedy, {"epsilon": 0.4, "step": 0.75}),
        (UCB, {"c": 0.5}),
        (Thompson, {}),
        (DiscountedThompson, {"gamma": 0.5}),
    ],
)
def test_a_rule_continues_bit_exactly(kind, settings, tmp_path):
    rule = kind(6, seed=2, **settings)

    def play(bandit, number):
        arms = bandit.choose(count=2)
        bandit.update(arms, ((arms + number) % 3) / 2.0)
        return arms.tolist()

    for number in range(5):
        play(rule, number)
    rule.save(tmp_path)
    again = kind.load(tmp_path)
    assert again.settings == rule.settings
    assert again.arms == 6
    assert [play(rule, number) for number in range(20)] == [play(again, number) for number in range(20)]
    assert [frozen(value) for _, value in rule.state.leaves()] == [frozen(value) for _, value in again.state.leaves()]


def test_a_rule_loads_only_its_own_kind(tmp_path):
    UCB(3).save(tmp_path)
    with pytest.raises(StateFileError, match="holds rule 'ucb', not 'thompson'"):
        Thompson.load(tmp_path)
    with pytest.raises(StateFileError, match="is not a saved selector; it says 'rule'"):
        enlist.load(tmp_path)
