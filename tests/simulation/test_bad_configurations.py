"""Whatever a configuration says: it is taken, or an EnlistError says what is wrong before memory is taken for it."""

from __future__ import annotations

import contextlib
import io
import math
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enlist._internal.archives import read_arrays
from enlist._internal.options import Options
from enlist.cli import main, no_memory
from enlist.data import FromFile
from enlist.errors import EnlistError, InputError
from enlist.personal import PersonalConfig
from enlist.simulation import Config, Simulation, load
from enlist.streams import Streams
from enlist.training.models.base import MOST_PARAMETERS, check_size
from enlist.training.models.dense import MLP

DEEP: list[Any] = []
for _ in range(2000):
    DEEP = [DEEP]
NASTY: list[Any] = [
    math.inf, -math.inf, math.nan, 0, -1, 1e200, 1e-320, 2**31, 2**62, 2**63, 10**400, -(10**400), 10**5000, True, "",
    "x" * 10**5, [], {}, DEEP, None, [10**400], {"kind": 10**400},
]  # fmt: skip
SMALL = {"data": {"clients": 6, "partition": "iid"}, "rounds": {"rounds": 2, "k": 2}, "model": {"name": "logistic"}}

Key = tuple[tuple[str, Any], ...]


def numeric_keys(
    schema: dict[str, Any], definitions: dict[str, Any], path: Key = (), above: tuple[str, ...] = ()
) -> Iterator[Key]:
    """Every place of a schema that holds a number: steps are keys, with the tag that their table needs, or items."""
    name = schema.get("$ref", "").rpartition("/")[2]
    if name:
        if name not in above:
            yield from numeric_keys(definitions[name], definitions, path, (*above, name))
        return
    for key in ("anyOf", "oneOf"):
        for choice in schema.get(key, []):
            yield from numeric_keys(choice, definitions, path, above)
    if schema.get("type") in ("number", "integer"):
        yield path
    for item in (*schema.get("prefixItems", [])[:1], schema.get("items")):
        if isinstance(item, dict):
            yield from numeric_keys(item, definitions, (*path, ("", max(len(schema.get("prefixItems", [])), 1))), above)
    properties = schema.get("properties", {})
    tag = {key: part["const"] for key, part in properties.items() if key in ("kind", "name") and "const" in part}
    for key, part in properties.items():
        yield from numeric_keys(part, definitions, (*path, (key, tag)), above)


def table(path: Key, value: Any) -> Any:
    """The configuration that has this value there, and nothing else but the tags of the tables around it."""
    if not path:
        return value
    (key, extra), rest = path[0], path[1:]
    return {**extra, key: table(rest, value)} if key else [table(rest, value)] * extra


@pytest.mark.parametrize("kind", [Config, PersonalConfig], ids=["simulation", "personal"])
def test_every_number_is_taken_or_refused(kind: type[Options]) -> None:
    schema = kind.model_json_schema()
    keys = list(numeric_keys(schema, schema["$defs"]))
    assert len(keys) > 100
    refused = 0
    for key in keys:
        for value in NASTY:
            try:
                kind.parse(table(key, value), "my.toml")
            except EnlistError as error:
                refused += 1
                said = str(error)
            else:
                said = ""
            assert len(said) < 3000
    assert refused > len(keys) * len(NASTY) / 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rounds": {"over_commit": math.inf}}, "over_commit"),
        ({"training": {"lr": 1e200}}, "lr = 1e\\+200"),
        ({"training": {"lr": math.inf}}, "lr = inf"),
        ({"server": {"optimiser": {"kind": "fedadam", "tau": 1e200}}}, "tau = 1e\\+200"),
        ({"training": {"epochs": 2**31}}, "epochs"),
        ({"training": {"epochs": 10**6}, "data": {"clients": 1, "partition": "iid"}}, "a plan of .* GB"),
        ({"training": {"steps": 2**40}}, "a plan of .* GB"),
        ({"selector": {"name": "oort", "settings": {"penalty": 10**400}}}, "penalty is"),
        ({"model": {"name": "mlp", "hidden": [10**9]}}, "parameters .* GB"),
        ({"model": {"name": "mlp", "hidden": [10**9, 10**9]}}, "parameters .* GB"),
        ({"data": {"dataset": {"name": "linear-regression", "samples": 10**12}}}, "would hold .* GB"),
        ({"data": {"dataset": {"name": "fedprox-synthetic", "users": 10**10}}}, "would hold .* GB"),
        ({"data": {"clients": 10**12}}, "clients = 1000000000000"),
        ({"rounds": {"rounds": 2**62}}, "rounds = "),
        ({"seed": 10**400}, "seed"),
    ],
)
def test_what_would_need_too_much_is_refused_before(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Simulation(Config.parse({**SMALL, **change}, "my.toml")).run()


def test_what_is_taken_runs_or_says_why_not() -> None:
    """A sample of the keys whose values act in every round, at the ends of what is allowed."""
    schema = Config.model_json_schema()
    acting = [
        key
        for key in numeric_keys(schema, schema["$defs"])
        if (key[0][0] in ("devices", "training", "server") or [step[0] for step in key[:2]] == ["rounds", "deadline"])
        and not {"epochs", "steps"} & {step[0] for step in key}
    ]
    rng = np.random.default_rng(14)
    ran = 0
    for place in rng.choice(len(acting), 12, replace=False):
        for value in (1e15, 1e-30, 1e9, 2**62):
            change = table(acting[place], value)
            both = {name: {**part, **change.get(name, {})} for name, part in SMALL.items()}
            with contextlib.suppress(EnlistError):
                ran += Simulation(Config.parse({**change, **both}, "my.toml")).run()["rounds"]
    assert ran > 5


def test_a_model_of_the_largest_size_is_counted_without_memory() -> None:
    check_size(MLP(hidden=(MOST_PARAMETERS // 100,)), (50,), 10)


def test_files_that_exhaust_the_parser_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    for text in ("a = " + "[" * 5000 + "]" * 5000, "seed = " + "9" * 5000, "a.b" * 5000, "[" * 100_000):
        file.write_text(text)
        with pytest.raises(InputError, match=r"my\.toml"):
            load(file)
    other = tmp_path / "my.json"
    for text in ("[" * 100_000, '{"seed": ' + "9" * 5000 + "}", "[]", "nonsense"):
        other.write_text(text)
        with pytest.raises(InputError, match=r"my\.json"):
            load(other)
    file.write_text("seed = 1")
    for change in ("seed=" + "9" * 5000, "seed=" + "[" * 5000 + "]" * 5000):
        with pytest.raises(InputError):
            load(file, [change])
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(InputError, match="plain file"):
        load(tmp_path / "pipe.toml")


def test_labels_that_are_no_classes_are_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    np.savez(path, x=np.zeros((10, 2)), y=20230101 + np.arange(10) % 3)
    with pytest.raises(InputError, match=r"labels from 20230101 to 20230103, 3 different ones; .* 0, 1, \.\.\. C-1"):
        FromFile(path=path).load(Streams(1))
    assert FromFile(path=path, regression=True).load(Streams(1)).classes == 0


def archive(header: bytes | None = None, name: str = "x.npy") -> bytes:
    """An .npz file of one array; its header may be another."""
    inner = io.BytesIO()
    np.save(inner, np.arange(4.0))
    payload = inner.getvalue()
    if header is not None:
        payload = payload[:8] + len(header).to_bytes(2, "little") + header + b"\0" * 32
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w") as file:
        file.writestr(name, payload)
    return outer.getvalue()


def claim(shape: str, kind: str = "'<f8'") -> bytes:
    return f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()


@pytest.mark.parametrize(
    "payload",
    [
        archive(claim("(10000000000000,)")),
        archive(claim("(-5,)")),
        archive(claim("(4,)", "'|O'")),
        archive(claim("nonsense")),
        archive(claim("(4,)", "'<U2000000000'")),
        archive(name="x.txt"),
        archive(name="../x"),
        archive()[:-30],
        b"",
        b"PK\5\6" + b"\0" * 18,
    ],
    ids=["huge", "negative", "objects", "nonsense", "wide", "text", "path", "cut off", "empty", "no arrays"],
)
def test_archives_that_claim_what_they_do_not_hold(payload: bytes, tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    path.write_bytes(payload)
    with pytest.raises(InputError, match=r"mine\.npz"):
        FromFile(path=path).load(Streams(1))


def test_encrypted_members_and_bombs_are_refused() -> None:
    sealed = bytearray(archive())
    sealed[6] |= 1
    sealed[sealed.rindex(b"PK\1\2") + 8] |= 1
    with pytest.raises(ValueError, match="encrypted"):
        read_arrays(io.BytesIO(sealed))
    bomb = bytearray(archive())
    place = bomb.rindex(b"PK\1\2")
    bomb[place + 24 : place + 28] = (2**31).to_bytes(4, "little")
    with pytest.raises(ValueError, match="claims"):
        read_arrays(io.BytesIO(bomb))
    zeros = io.BytesIO()
    np.savez_compressed(zeros, x=np.zeros(10**6))
    assert len(read_arrays(zeros)["x"]) == 10**6


def test_the_command_line_says_that_memory_has_run_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import enlist.cli.app

    for error in (MemoryError("Unable to allocate 9 TiB"), RuntimeError("DefaultCPUAllocator: can't allocate memory")):

        def fail(reason: BaseException = error) -> None:
            raise reason

        monkeypatch.setattr(enlist.cli.app, "app", fail)
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        assert "not enough memory" in capsys.readouterr().err
    assert not no_memory(RuntimeError("another"))
