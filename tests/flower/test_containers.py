"""The container files of the quickstart, as far as they can be checked without an engine that runs containers."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import typer.main
import yaml

from enlist.cli.app import app

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "flower-quickstart"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yml").read_text(encoding="utf-8"))["services"]
    return found


def test_what_the_image_copies_exists_and_is_not_ignored() -> None:
    text = (FOLDER / "Containerfile").read_text(encoding="utf-8")
    kept = {line[1:] for line in (FOLDER / "Containerfile.dockerignore").read_text().splitlines() if line[:1] == "!"}
    copied = [name for line in re.findall(r"^COPY (.*)$", text, flags=re.M) for name in line.split()[:-1]]
    copied = [name for name in copied if not name.startswith("--")]
    assert set(copied) == kept
    assert all((ROOT / name).exists() for name in copied)
    extras = re.search(r'"\.\[(.*)\]"', text)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert extras is not None
    assert set(extras[1].split(",")) <= set(project["optional-dependencies"])
    assert text.rindex("USER enlist") > text.rindex("RUN "), "programs do not run as root"


def test_there_is_a_superlink_two_nodes_and_a_page(services: dict[str, Any]) -> None:
    commands = {name: service["command"][0] for name, service in services.items()}
    assert commands == {
        "superlink": "flower-superlink",
        "node-0": "flower-supernode",
        "node-1": "flower-supernode",
        "page": "enlist",
        "run": "sh",
    }
    context = FOLDER / services["superlink"]["build"]["context"]
    assert context.resolve() == ROOT
    assert (context / services["superlink"]["build"]["dockerfile"]).is_file()
    for service in services.values():
        assert set(service.get("depends_on", [])) <= set(services)
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), "reached from outside"


@pytest.mark.parametrize("name", ["superlink", "node-0"])
def test_flower_knows_every_option(name: str, services: dict[str, Any]) -> None:
    program, *words = services[name]["command"]
    known = subprocess.run(
        [Path(sys.executable).parent / program, "--help"], capture_output=True, text=True, check=True
    ).stdout
    options = [word for word in words if word.startswith("--")]
    assert options
    assert [option for option in options if not re.search(rf"{option}\b", known)] == []
    nodes = [services[node]["command"] for node in ("node-0", "node-1")]
    assert nodes[0][:-1] == nodes[1][:-1], "both are started alike, with another part of the data"


def test_the_page_is_started_with_options_that_exist(services: dict[str, Any]) -> None:
    command, *words = services["page"]["command"][1:]
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    given = group.commands[command].make_context(command, words).params
    assert given["host"] == "0.0.0.0"
    assert [str(folder) for folder in given["folders"]] == ["/state"]
    assert f"127.0.0.1:{given['port']}:{given['port']}" in services["page"]["ports"]
    assert services["page"]["environment"]["ENLIST_UI_TOKEN"].startswith("${ENLIST_UI_TOKEN:?")


def test_the_run_names_settings_of_the_app(services: dict[str, Any]) -> None:
    script = services["run"]["command"][-1]
    settings = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["flwr"]["app"]["config"]
    given = re.search(r"--run-config '(.*)'", script)
    assert given is not None
    assert set(re.findall(r"([\w-]+)=", given[1])) <= set(settings)
    address = re.search(r'address = "(\S+)"', script)
    assert address is not None
    assert address[1] in services["node-0"]["command"]
    assert subprocess.run(["sh", "-n"], input=script.replace("$$", "$"), text=True, check=False).returncode == 0
