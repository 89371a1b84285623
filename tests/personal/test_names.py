"""Workers are called as their users like; folders are not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enlist._internal.text import place_name, slug
from enlist.errors import InputError, StateFileError
from enlist.personal.after import every_target, target_folder
from enlist.report.personal import write_personal_report
from enlist.runs.personal import find_personal, read_personal
from tests.personal.personal_helpers import config

NAMES = ["../../../escaped", "/tmp/absolute", "Zürich / Süd", "CON", "a" * 300, "..", "-", "north"]


def settings(tmp_path: Path, names: list[str], **changes: Any) -> Any:
    """Workers of these names, with a handful of samples each."""
    draws = np.random.default_rng(1)
    count = 40 * len(names)
    x = draws.normal(size=(count, 3))
    users = np.repeat([str(place) for place in range(len(names))], 40)
    np.savez(tmp_path / "data.npz", x=x, y=(x[:, 0] > 0).astype(int), users=users)
    values = {"workers": {"dataset": {"name": "file", "path": str(tmp_path / "data.npz")}}, "target": "0"}
    made = config(rounds={"rounds": 1, "pretrain": 0}, model="logistic", metric="accuracy", **values, **changes)
    workers = made.load_workers()
    workers.__dict__["names"] = tuple(names)  # what a file may say, but for what NumPy cannot hold
    return made, workers


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_whatever_workers_are_called_nothing_is_written_elsewhere(tmp_path: Path) -> None:
    made, workers = settings(tmp_path, NAMES)
    before = everything(tmp_path)
    found = every_target(made, tmp_path / "deep" / "down" / "runs", workers=workers)
    assert list(found) == NAMES
    assert not Path("/tmp/absolute").exists()
    inside = {path.name for path in (tmp_path / "deep" / "down" / "runs").iterdir()}
    assert inside == {
        "0000-escaped", "0001-tmp-absolute", "0002-zurich-sud", "0003-con", f"0004-{'a' * 40}", "0005", "0006",
        "0007-north",
    }  # fmt: skip
    assert {name.split("/")[0] for name in everything(tmp_path) - before} == {"deep"}
    for number, name in enumerate(NAMES):
        place = tmp_path / "deep" / "down" / "runs" / place_name(number, name)
        assert json.loads((place / "config.json").read_text())["target"] == name, "names stay in the tables"
    tables = [read_personal(path) for path in find_personal([tmp_path / "deep"])[:2]]
    write_personal_report(tables, tmp_path / "deep" / "report")
    assert {name.split("/")[0] for name in everything(tmp_path) - before} == {"deep"}
    assert (tmp_path / "deep" / "report" / "charts" / "0000-escaped-rounds.png").exists()


def test_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    _, workers = settings(tmp_path, ["nul\0byte", ""])
    assert target_folder(tmp_path, workers, "nul\0byte") == tmp_path / "0000-nul-byte"
    assert target_folder(tmp_path, workers, "") == tmp_path / "0001"


def test_folders_of_version_0_1_are_found_again(tmp_path: Path) -> None:
    made, workers = settings(tmp_path, ["Zürich", "north"])
    root = tmp_path / "runs"
    every_target(made, root, workers=workers)
    for old, new in (("Zürich", "0000-zurich"), ("north", "0001-north")):
        (root / new).rename(root / old)
    assert target_folder(root, workers, "north") == root / "north"
    before = everything(root)
    every_target(made, root, workers=workers, resume=True)
    assert everything(root) == before


def test_a_folder_of_version_0_1_whose_name_was_a_path_says_what_to_do(tmp_path: Path) -> None:
    made, workers = settings(tmp_path, ["north/east", "south"])
    root = tmp_path / "runs"
    every_target(made, root, workers=workers)
    (root / "north").mkdir()
    (root / "0000-north-east").rename(root / "north" / "east")
    with pytest.raises(InputError, match=r"written by version 0\.1 under a name that is a path; move it to .*0000-nor"):
        every_target(made, root, workers=workers, resume=True)
    (root / "north" / "east").rename(root / "0000-north-east")
    every_target(made, root, workers=workers, resume=True)


def test_a_name_that_looks_like_another_workers_folder_is_told_apart(tmp_path: Path) -> None:
    made, workers = settings(tmp_path, ["0001-b", "b"])
    every_target(made, tmp_path / "runs", workers=workers)
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"0000-0001-b", "0001-b"}
    every_target(made, tmp_path / "runs", workers=workers, resume=True)


@pytest.mark.parametrize("part", ["0001-b", "0001-b/after", "0001-b/after/local"])
def test_links_on_the_way_are_refused(part: str, tmp_path: Path) -> None:
    made, workers = settings(tmp_path, ["a", "b"], after={"baselines": True})
    root, outside = tmp_path / "runs", tmp_path / "outside"
    every_target(made, root, workers=workers)
    shutil.move(root / part, outside)
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    (root / part).symlink_to(outside, target_is_directory=True)
    with pytest.raises(StateFileError, match=f"{part} is a symbolic link"):
        every_target(made, root, workers=workers, resume=True)
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before


def test_an_edited_table_of_a_personalised_run_is_refused(tmp_path: Path) -> None:
    made, workers = settings(tmp_path, ["a", "b"])
    root = tmp_path / "runs"
    every_target(made, root, workers=workers)
    table = root / "0001-b" / "arms.csv"
    kept = table.read_text()
    table.write_text(kept.replace("b", "c", 1))
    with pytest.raises(StateFileError, match=r"arms\.csv was changed since the checkpoint was made"):
        every_target(made, root, workers=workers, resume=True)
    every_target(made, root, workers=workers, resume=True, accept_changes=True)
    table.write_text(kept)
    result = (root / "0001-b" / "result.json").read_text()
    (root / "0001-b" / "result.json").write_text(result.replace("1", "2"))
    with pytest.raises(StateFileError, match=r"arms\.csv was changed"):
        every_target(made, root, workers=workers, resume=True)


def test_slugs_are_safe_and_short() -> None:
    for name in NAMES:
        assert set(slug(name)) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert len(slug(name)) <= 40
