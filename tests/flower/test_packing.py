"""A run folder that `flwr run` would pack and send to every node is refused; Flower's own packer is the judge."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from flwr.cli.build import build_fab_from_disk
from flwr.serverapp.strategy import FedAvg

from enlist.errors import InputError
from enlist.flower import with_selector
from enlist.flower.fake import FakeGrid
from enlist.flower.saving.folder import refuse_packed
from tests.flower.flower_helpers import behaving, run

PROJECT = """
[project]
name = "tiny"
version = "1.0.0"
description = "An app."
license = "Apache-2.0"

[tool.flwr.app]
publisher = "somebody"
{rules}

[tool.flwr.app.components]
serverapp = "tiny.app:server"
clientapp = "tiny.app:client"
"""


def app_folder(place: Path, rules: str = "", ignored: str = "") -> Path:
    app = place / "tiny"
    (app / "tiny").mkdir(parents=True)
    (app / "pyproject.toml").write_text(PROJECT.format(rules=rules))
    (app / "tiny" / "app.py").write_text("server = client = None\n")
    if ignored:
        (app / ".gitignore").write_text(ignored)
    return app


def packed(app: Path, folder: str) -> bool:
    """Whether Flower's archive of the app holds something of the run."""
    archive = zipfile.ZipFile(io.BytesIO(build_fab_from_disk(app)))
    return any(name.startswith(f"{folder}/") for name in archive.namelist())


def packs_json(place: Path) -> bool:
    """Older versions of Flower leave out all files but Python, Markdown and TOML."""
    app = app_folder(place)
    (app / "state").mkdir()
    (app / "state" / "config.json").write_text("{}")
    return packed(app, "state")


def refused(app: Path, folder: str) -> bool:
    try:
        refuse_packed(app / folder)
    except InputError:
        return True
    return False


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Flower's, of its patterns
@pytest.mark.parametrize(
    ("folder", "rules", "ignored", "expected"),
    [
        ("enlist-state", "", "", True),
        ("deep/down/state", "", "", True),
        ("enlist-state", "", "/enlist-state/\n", False),
        ("enlist-state", "", "# runs\n*.log\nenlist-*\n", False),
        ("enlist-state", "", "*.jsonl\n", True),
        ("enlist-state", "", "enlist-state/*\n!enlist-state/config.json\n", True),
        ("enlist-state", 'fab-include = ["tiny/**/*.py"]', "", False),
        ("enlist-state", 'fab-include = ["**/*.py", "**/*.json"]', "", True),
        ("enlist-state", 'fab-exclude = ["enlist-state/**"]', "", False),
        (".flwr/enlist-state", "", "", False),
        ("build/enlist-state", "", "", False),
        ("tiny/build/enlist-state", "", "", True),
        ("tiny/__pycache__/enlist-state", "", "", False),
    ],
)
def test_what_flower_packs_is_refused(tmp_path: Path, folder: str, rules: str, ignored: str, expected: bool) -> None:
    app = app_folder(tmp_path, rules, ignored)
    run(FakeGrid(range(11, 15), behaving()), 2, folder=tmp_path / "elsewhere")
    (app / folder).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "elsewhere").rename(app / folder)
    for path in (app / folder).rglob("*"):  # with patterns of its own, an app may not even hold other kinds of files
        if path.suffix not in (".json", ".jsonl") and path.is_file():
            path.unlink()
    assert packed(app, folder) == (expected and packs_json(tmp_path / "other"))
    assert refused(app, folder) == expected


def test_the_error_says_where_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_folder(tmp_path)
    monkeypatch.chdir(app)
    with pytest.raises(
        InputError, match=r"folder is 'enlist-state', inside the Flower app .*'~/enlist-state'.*\.gitignore"
    ):
        with_selector(FedAvg(), "random", folder="enlist-state")
    assert not (app / "enlist-state").exists()
    with_selector(FedAvg(), "random", folder=".flwr/enlist-state")
    with_selector(FedAvg(), "random", folder="../enlist-state")


def test_personalised_runs_are_kept_outside_too(tmp_path: Path) -> None:
    from enlist.flower.personal import Personalising
    from enlist.personal.rules import UCBRule

    with pytest.raises(InputError, match="inside the Flower app"):
        Personalising("clinic-a", UCBRule(), folder=app_folder(tmp_path) / "clinic-a")


def test_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    run(FakeGrid(range(11, 15), behaving()), folder="~/state")
    assert (tmp_path / "state" / "result.json").exists()
