"""Every code block of every page: shell lines are parsed by the programs they name, TOML by its loader, and each Python
block has a test that runs it.

Nothing is run here. A line is given to the command's own parser, and what it names (selectors, keys of a configuration,
studies, files of the repository, targets of the Makefile) must exist. Lines are read as somebody types them: a `cd`
holds until the end of the page.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.metadata
import importlib.util
import io
import re
import shlex
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest
import typer.main

from enlist import studies
from enlist.arena import scenario
from enlist.cli.app import app
from enlist.cli.listing import KINDS, SEEN
from enlist.engine.choosing import LOCAL, ray_options
from enlist.errors import EnlistError
from enlist.ladder import Ladder
from enlist.personal import config as personal
from enlist.selectors import methods
from enlist.simulation import Config
from enlist.simulation import config as simulated
from enlist.simulation.comparison import Comparison
from enlist.simulation.points import parted
from enlist.simulation.shards import part
from enlist.simulation.sweep import Sweep

ROOT = Path(__file__).parents[1]
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
PAGES = sorted(
    [
        *TOP,
        *(
            path.relative_to(ROOT).as_posix()
            for folder in ("docs", "examples")
            for path in ROOT.glob(f"{folder}/**/*.md")
        ),
    ]
)
SHELL = {"sh"}
FENCE = re.compile(
    r"(?:<!-- (?P<mark>[^\n]*?) -->\n)?^ *(?P<fence>`{3,})(?P<language>[^\n`]*)\n(?P<code>.*?)^ *(?P=fence) *$",
    flags=re.S | re.M,
)

# --- what is not checked, and why -------------------------------------------------------------------------------------

OTHER_PROGRAMS = {
    ".": "the shell reads a file of the environment",
    "cat": "the system's; what it writes into a TOML file is checked",
    "cmp": "the system's",
    "export": "the shell's",
    "kill": "the shell's",
    "sleep": "the system's",
    "for": "the shell's; the lines inside are checked",
    "done": "the shell's",
}
"""First words of lines whose arguments nothing here knows."""
SHOWN_ONLY = {
    "text": "output of the block above; tests that run the block compare it",
    "bibtex": "for programs of others",
    "": "drawings, formulas and output; lines among them that begin with a command are checked",
}
"""Languages of blocks that hold no code."""
IN_COLUMNS = {"docs/studies/README.md": "commands and what they do stand in two columns, in a block without a language"}
"""Pages whose lines end where several blanks follow."""
THEIR_OWN = {"CONFIG.toml", "my.toml", "study.toml", "config.json", "FOLDER/config.json"}
"""Configurations that stand for a reader's own."""
COMPILED = {
    ("docs/scaling.md", 0): "needs a Ray cluster with GPUs; its imports are made and its calls bound",
    ("examples/flower-migration.md", 0): "the app before it is changed, without Enlist",
    ("examples/flower-migration.md", 2): "the app before it is changed, without Enlist",
}
"""Python blocks that are compiled, but not run."""

# --- which test runs which Python block -------------------------------------------------------------------------------

RUN_BY = {
    "README.md": {
        "tests/test_docs.py::test_readme_example_runs": [0],
        "tests/test_docs_blocks.py::test_the_line_for_flower_in_the_readme_wraps_a_strategy": [1],
    },
    "docs/asynchronous.md": {"tests/test_site.py::test_code_of_the_first_pages_runs": [0]},
    "docs/choosing.md": {"tests/test_docs_blocks.py::test_the_two_defaults_of_the_page_on_choosing": [0]},
    "docs/first-selector.md": {"tests/test_site.py::test_code_of_the_first_pages_runs": [0, 1]},
    "docs/flower.md": {"tests/flower/test_documentation.py::test_the_pages_code_runs": [0, 1, 2, 3, 4]},
    "docs/flower-porting.md": {
        "tests/flower/test_porting.py::test_an_old_server_as_it_is": [0],
        "tests/flower/test_porting.py::test_before_and_after": [1, 2],
        "tests/flower/test_porting.py::test_the_client_before_and_after": [3, 4],
    },
    "docs/flower-privacy.md": {"tests/flower/test_privacy.py::test_the_pages_code_runs": [0]},
    "docs/guide.md": {"tests/test_docs.py::test_every_block_of_the_guide_runs": [0, 1, 2, 3]},
    "docs/install.md": {"tests/test_site.py::test_code_of_the_first_pages_runs": [0]},
    "docs/ladder.md": {"tests/test_docs_blocks.py::test_the_selector_of_the_ladder_page_runs": [0]},
    "docs/operating.md": {"tests/test_docs_blocks.py::test_the_steps_of_operating_a_federation": [0, 1]},
    "docs/personalisation.md": {"tests/cli/test_personalise.py::test_the_python_of_the_page_runs": [0]},
    "docs/python.md": {"tests/test_docs.py::test_every_block_of_the_python_page_runs": [*range(14)]},
    "docs/simulation.md": {
        "tests/test_examples.py::test_the_python_examples_of_the_simulation_page_work": [0, 2, 3],
        "tests/test_docs_blocks.py::test_a_logged_run_is_replayed_as_the_simulation_page_shows": [1],
    },
    "docs/write-a-selector.md": {
        "tests/test_docs.py::test_a_users_selector_is_found_and_passes_the_suite": [0, 1],
        "tests/test_docs.py::test_a_selector_with_labels_sketches_and_weights_passes_the_suite": [2],
    },
    "docs/your-own-data-and-model.md": {
        "tests/test_examples.py::test_everything_marked_on_the_page_works_in_its_order": [*range(7)]
    },
    "examples/flower-migration.md": {
        "tests/flower/test_documentation.py::test_the_migrations_servers_run": [1, 5],
        "tests/flower/test_documentation.py::test_the_migrations_client_runs": [3, 4],
    },
}
"""Page -> test -> numbers of the Python blocks that it runs, in the order of the page."""


# --- pages ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """A fenced block: where it begins, its language, what stands in it, and the file it is saved as, if it says so."""

    line: int
    language: str
    code: str
    file: str | None


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    text = text_of(page)
    return [
        Block(
            text.count("\n", 0, found.start()) + 1,
            found["language"].strip(),
            found["code"],
            found["mark"].removeprefix("file: ") if (found["mark"] or "").startswith("file: ") else None,
        )
        for found in FENCE.finditer(text)
    ]


def mentions(page: str) -> Iterator[str]:
    """Commands within the text, between backticks."""
    for found in re.finditer(r"(?<!`)`([^`]+)`(?!`)", FENCE.sub("", text_of(page))):
        said = " ".join(found[1].split())
        if re.match(r"(enlist -?-?[a-z]|python3? -m |make [a-z]|\.ci/)", said):
            yield said


HEREDOC = re.compile(r"^(?P<line>[^\n]*<<-?'?(?P<end>\w+)'?[^\n]*)\n(?P<text>.*?)^(?P=end)$\n?", flags=re.S | re.M)


def commands(code: str) -> Iterator[list[str]]:
    """The words of every command of a block, without redirections; what the shell would put in is only hinted at."""
    plain = HEREDOC.sub(lambda found: found["line"] + "\n", code).replace("\\\n", " ")
    plain = re.sub(r"\$\(\([^\n]*?\)\)", "1", plain)
    while plain != (plain := re.sub(r"\$\([^()\n]*(?:\([^()]*\)[^()\n]*)*\)", "SHELL", plain)):
        pass
    for line in plain.splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars=";&|<>")
        words.whitespace_split = True
        found: list[str] = []
        following = iter(words)
        for word in following:
            if set(word) <= set("<>&|;"):
                if "<" in word or ">" in word:
                    if found and found[-1].isdigit():
                        found.pop()
                    next(following, None)
                else:
                    yield from [found] if found else []
                    found = []
            elif word not in {"do", "then"}:
                found.append(word)
        yield from [found] if found else []


# --- the programs -----------------------------------------------------------------------------------------------------


@dataclass
class Place:
    """Where a reader stands: the page, the folder, and whether the command is only mentioned in the text."""

    page: str
    folder: Path = ROOT
    mention: bool = False

    def file(self, name: str) -> Path:
        found = self.folder / name
        assert found.exists(), f"there is no {name} in {self.folder.relative_to(ROOT).as_posix()}"
        return found


def check_enlist(words: list[str], place: Place) -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    name, *rest = [word.removesuffix(",...") for word in words if word != "..."]
    if name.startswith("-"):
        assert name in {option for parameter in group.params for option in parameter.opts}, f"no such option: {name}"
        return
    command = group.get_command(click.Context(group), name)
    assert command is not None, f"no such command: {name}"
    if place.mention and rest and rest[-1].startswith("--"):
        last = rest.pop()
        assert last in {option for parameter in command.params for option in parameter.opts}, f"no such option: {last}"
    try:
        given = command.make_context(name, rest).params
    except click.MissingParameter:
        if not place.mention:
            raise
        return
    if check := FURTHER.get(name):
        check(given, place)


def config_of(given: dict[str, Any], place: Place, changes: list[str]) -> Config:
    """The configuration that a command names, with its changes: of the repository, of a page, or of the reader."""
    path = str(given["config"])
    if path in THEIR_OWN:
        return Config().replace(*changes)
    if path in saved_by_readers():
        return simulated.parse(tomllib.loads(saved_by_readers()[path]), path).replace(*changes)
    return simulated.load(place.file(path), changes)


def check_run(given: dict[str, Any], place: Place) -> None:
    config_of(given, place, given["changes"] or [])
    check_engine(given)


def check_compare(given: dict[str, Any], place: Place) -> None:
    config = config_of(given, place, given["changes"] or [])
    plan = Comparison(config, own_class(given["selectors"]), given["seeds"], given["first_seed"], given["protocols"])
    plan.check()
    check_engine(given, plan)


def check_sweep(given: dict[str, Any], place: Place) -> None:
    fixed, swept = parted(given["changes"] or [])
    assert swept, "no key is swept"
    plan = Sweep(config_of(given, place, fixed), swept, own_class(given["selectors"]), given["seeds"])
    plan.check()
    check_engine(given, plan)


def own_class(selectors: str) -> str:
    """Methods, where `quick` is what a reader of docs/write-a-selector.md has installed."""
    return re.sub(r"\bquick(?![\w:])", "quick_selectors:Quick", selectors)


def check_ladder(given: dict[str, Any], place: Place) -> None:
    climbed = Ladder(given["selectors"], given["rungs"], given["seeds"], given["published"])
    next(iter(climbed.comparisons().values())).check()
    check_engine(given)


def check_personalise(given: dict[str, Any], place: Place) -> None:
    path, changes = str(given["config"]), given["changes"] or []
    if path not in THEIR_OWN:
        personal.load(place.file(path), changes)
    check_engine(given)


def check_reproduce(given: dict[str, Any], place: Place) -> None:
    if not (place.mention and given["study"].isupper()):
        studies.get(given["study"]).scale(given["scale"], given["seeds"], given["extras"] or [])
    check_engine(given)


def check_arena(given: dict[str, Any], place: Place) -> None:
    scenario(given["scenario_name"])
    methods([name for name in own_class(given["selectors"]).split(",") if name != "genie"])  # the arena's own
    check_engine(given)


def check_list(given: dict[str, Any], place: Place) -> None:
    assert given["what"] in KINDS
    assert given["privacy"] is None or given["privacy"] in SEEN


def check_engine(given: dict[str, Any], plan: Any = None) -> None:
    engine = given.get("engine", LOCAL)
    assert engine == LOCAL or ray_options(engine) is not None, f"no such engine: {engine}"
    if plan is not None and given["shard"] is not None:
        part(plan, given["shard"])
    assert given.get("device", "cpu") in {"cpu", "cuda", "auto"}


FURTHER: dict[str, Callable[[dict[str, Any], Place], None]] = {
    "run": check_run,
    "describe": check_run,
    "profile": check_run,
    "compare": check_compare,
    "sweep": check_sweep,
    "ladder": check_ladder,
    "personalise": check_personalise,
    "reproduce": check_reproduce,
    "arena": check_arena,
    "list": check_list,
}
"""What is checked of a command beyond its own parser, which takes any text for a selector, a key or a study."""


class ParsedError(Exception):
    """The arguments are known; the program goes no further."""


def parsed(main: Callable[[], Any], words: Sequence[str]) -> None:
    """Let a program that uses argparse read these words, and stop it there."""
    real = argparse.ArgumentParser.parse_args

    def parse(self: argparse.ArgumentParser, *_: Any, **__: Any) -> Any:
        real(self, [*words])
        raise ParsedError

    with pytest.MonkeyPatch.context() as patch, redirect_stderr(io.StringIO()) as said:
        patch.setattr(argparse.ArgumentParser, "parse_args", parse)
        patch.setattr(sys, "argv", ["program", *words])
        patch.setenv("FLWR_DISABLE_UPDATE_CHECK", "1")  # Flower's programs ask the network before they read arguments
        patch.setenv("FLWR_TELEMETRY_ENABLED", "0")
        try:
            main()
        except ParsedError:
            return
        except SystemExit as error:
            raise AssertionError(said.getvalue().strip().splitlines()[-1]) from error
    raise AssertionError("it reads no arguments")


def check_python(words: list[str], place: Place) -> None:
    if words[0] == "-m":
        name, *rest = words[1:]
        assert importlib.util.find_spec(name) is not None, f"no such module: {name}"
        if name.partition(".")[0] not in {"benchmarks", "enlist", "tools"}:
            return
        module = importlib.import_module(name)
        source = Path(str(module.__file__)).read_text(encoding="utf-8")
        assert '__name__ == "__main__"' in source, f"{name} does nothing when it is run"
        if "ArgumentParser" not in source:
            assert not rest, f"{name} takes no arguments"
        else:
            rest = ["1" if place.mention and word == "N" else word for word in rest]
            parsed(module.main, rest)
    else:
        source = place.file(words[0]).read_text(encoding="utf-8")
        for option in words[1:]:
            assert not option.startswith("--") or f'"{option}"' in source, f"{words[0]} does not know {option}"


def check_make(words: list[str], place: Place) -> None:
    text = text_of("Makefile")
    for word in words:
        variable, equals, _ = word.partition("=")
        there = rf"\$\({variable}\)" if equals else rf"^{re.escape(word)}:"
        assert re.search(there, text, flags=re.M), f"the Makefile has no {word}"


def check_pip(words: list[str], place: Place) -> None:
    assert words.pop(0) == "install"
    extras = tomllib.loads(text_of("pyproject.toml"))["project"]["optional-dependencies"]
    packages = [word for word in words if not word.startswith("-")]
    for option, value in pairwise(words):
        if option == "-c":
            assert (place.folder / value).exists() or (ROOT / value).exists()
            packages.remove(value)
    for package in packages:
        name, _, wanted = package.rstrip("]").partition("[")
        assert name in {"enlist", ".", "flwr"}, f"an unknown package: {package}"
        if name != "flwr":
            assert {*filter(None, wanted.split(","))} <= {*extras}, f"no such extra: {package}"


def check_sbatch(words: list[str], place: Place) -> None:
    while words[0].startswith("-"):
        words = words[1:]
    assert (ROOT / "examples" / "slurm" / words[0]).exists(), f"no such script: {words[0]}"
    check_enlist(words[1:], place)


def check_flwr(words: list[str], place: Place) -> None:
    if (settings := dict(pairwise(words)).get("--run-config")) is not None:
        app_config = tomllib.loads(place.file("pyproject.toml").read_text("utf-8"))["tool"]["flwr"]["app"]["config"]
        values = tomllib.loads(re.sub(r" (?=[\w-]+=)", "\n", settings))
        assert values.keys() <= app_config.keys(), f"the app has no such setting: {settings}"
        methods(str(values.get("selector", "random")))
    if not pinned("flwr"):
        return  # the commands of another version may be others
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        from flwr.cli.app import app as flower

        command: click.Command = typer.main.get_command(flower)
        while isinstance(command, click.Group):
            name, *words = words
            found = command.get_command(click.Context(command), name)
            assert found is not None, f"flwr has no command {name}"
            command = found
        command.make_context(name, words)


def pinned(package: str) -> bool:
    """Whether the version at hand is that of constraints.txt."""
    return f"{package}=={importlib.metadata.version(package)}" in text_of("constraints.txt").splitlines()


def check_node(program: str) -> Callable[[list[str], Place], None]:
    def check(words: list[str], place: Place) -> None:
        if pinned("flwr"):
            [found] = importlib.metadata.entry_points(group="console_scripts", name=program)
            parsed(found.load(), words)

    return check


def check_docker(words: list[str], place: Place) -> None:
    yaml = pytest.importorskip("yaml")
    assert words[:2] == ["compose", "-f"]
    services = yaml.safe_load(place.file(words[2]).read_text(encoding="utf-8"))["services"]
    assert words[3] in {"up", "run", "down"}
    assert words[3] != "run" or words[-1] in services


CHECKERS: dict[str, Callable[[list[str], Place], None]] = {
    "enlist": check_enlist,
    "python": check_python,
    "python3": check_python,
    "make": check_make,
    "pip": check_pip,
    "sbatch": check_sbatch,
    "flwr": check_flwr,
    "flower-superlink": check_node("flower-superlink"),
    "flower-supernode": check_node("flower-supernode"),
    "docker": check_docker,
    ".ci/run": lambda words, place: None,
}


# --- what readers have saved ------------------------------------------------------------------------------------------


def saved_by_readers() -> dict[str, str]:
    """File name -> what pages tell readers to save under it, in blocks below a mark such as <!-- file: mine.py -->."""
    if not SAVED:
        SAVED.update({block.file: block.code for page in PAGES for block in blocks(page) if block.file})
    return SAVED


SAVED: dict[str, str] = {}


@pytest.fixture(scope="module", autouse=True)
def modules_of_readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The modules that pages tell readers to write can be imported."""
    place = tmp_path_factory.mktemp("modules")
    found = {name: code for name, code in saved_by_readers().items() if name.endswith(".py")}
    for name, code in found.items():
        (place / name).write_text(code, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(place))
        for name in found:
            patch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
        yield
        for name in found:
            sys.modules.pop(name.removesuffix(".py"), None)


# --- tests ------------------------------------------------------------------------------------------------------------


def wrong_with(words: list[str], place: Place) -> str | None:
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    program, *rest = words or ["export"]
    if program in OTHER_PROGRAMS:
        return None
    if program == "cd":
        place.folder = place.folder / rest[0]
        return None if place.folder.is_dir() else f"no such folder: {rest[0]}"
    if program not in CHECKERS:
        return f"no test knows this program: {program}"
    try:
        CHECKERS[program](rest, place)
    except (AssertionError, EnlistError, click.ClickException, tomllib.TOMLDecodeError) as error:
        return error.format_message() if isinstance(error, click.ClickException) else str(error)
    return None


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(block.language in {"", *SHELL} for block in blocks(page))]
)
def test_shell_lines_are_understood(page: str) -> None:
    wrong, place = [], Place(page)
    for block in blocks(page):
        if block.language in SHELL:
            lines = [*commands(block.code)]
        elif block.language == "":
            pattern = rf"^(?:{'|'.join(map(re.escape, CHECKERS))}) (?:[^\n]*\\\n)*[^\n]*$"
            found = re.findall(pattern, block.code, flags=re.M)
            if page in IN_COLUMNS:
                found = [re.split(" {3,}", line)[0] for line in found]
            lines = [words for line in found for words in commands(line)]
        else:
            continue
        problems = [(words, wrong_with(words, place)) for words in lines]
        wrong += [f"{page}:{block.line}: {shlex.join(words)}\n    {problem}" for words, problem in problems if problem]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", [page for page in PAGES if any(mentions(page))])
def test_commands_within_the_text_are_understood(page: str) -> None:
    problems = [
        (said, wrong_with(words, Place(page, mention=True))) for said in mentions(page) for words in commands(said)
    ]
    wrong = [f"{page}: {said}\n    {problem}" for said, problem in problems if problem]
    assert not wrong, "\n".join(wrong)


def check_toml(page: str, code: str) -> None:
    """By the loader it is for; some sections alone are a configuration, because every key has a default."""
    values = tomllib.loads(code)
    if {"project", "build-system", "tool"} & values.keys():
        points = values.get("project", {}).get("entry-points", {}).get("enlist.selectors", {})
        for name in points.values():
            methods(name)
    elif "superlink" in values:
        assert all({"address"} <= {*settings} for settings in values["superlink"].values())
    elif "rung" in values:
        assert values.pop("rung")["hard"]
        simulated.parse(values, page)
    elif page.startswith("docs/personalisation"):
        personal.parse(values, page)
    else:
        selector = values.get("selector", {})
        if isinstance(selector, dict):
            selector["name"] = own_class(selector.get("name", "random"))
        simulated.parse(values, page)


@pytest.mark.parametrize("page", [page for page in PAGES if "toml" in {block.language for block in blocks(page)}])
def test_toml_is_what_its_loader_takes(page: str) -> None:
    for block in blocks(page):
        if block.language == "toml":
            check_toml(page, block.code)


@pytest.mark.parametrize("page", [page for page in PAGES if HEREDOC.search(text_of(page))])
def test_toml_that_a_line_of_shell_writes(page: str) -> None:
    for found in HEREDOC.finditer(text_of(page)):
        if ".toml" in found["line"]:
            check_toml(page, found["text"])


def test_a_ladder_and_the_app_of_the_quickstart_are_recognised() -> None:
    check_toml("docs/any.md", '[rung]\nhard = "It is hard."\n[rounds]\nk = 3\n')
    check_toml("docs/any.md", text_of("examples/flower-quickstart/pyproject.toml"))
    for wrong in ("[rounds]\nkk = 3\n", '[rung]\nhard = "x"\n[rounds]\nkk = 3\n'):
        with pytest.raises(EnlistError, match="kk"):
            check_toml("docs/any.md", wrong)


def test_every_block_has_a_language_that_is_checked() -> None:
    yaml = pytest.importorskip("yaml")
    for page in PAGES:
        for block in blocks(page):
            assert block.language in {"python", "toml", "yaml", *SHELL, *SHOWN_ONLY}, f"{page}:{block.line}"
            if block.language == "yaml":
                assert yaml.safe_load(block.code)


def python_blocks(page: str) -> list[str]:
    return [block.code for block in blocks(page) if block.language == "python"]


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)])
def test_each_python_block_is_run_by_a_test_that_reads_the_page(page: str) -> None:
    numbers = sorted(number for listed in RUN_BY.get(page, {}).values() for number in listed)
    compiled = [number for where, number in COMPILED if where == page]
    assert sorted(numbers + compiled) == [*range(len(python_blocks(page)))], "each block once: in RUN_BY or COMPILED"
    for number in compiled:
        compile(python_blocks(page)[number], page, "exec")
    for test in RUN_BY.get(page, {}):
        file, _, name = test.partition("::")
        assert {page, Path(page).name} & texts_of(file, name), f"{test} does not read {page}"


def texts_of(file: str, name: str) -> set[str]:
    """The texts in a test, and in the fixtures, constants and functions of its module that it uses."""
    tree = ast.parse(text_of(file))
    defined: dict[str, ast.AST] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined[node.name] = node
        elif isinstance(node, ast.Assign):
            defined |= {target.id: node for target in node.targets if isinstance(target, ast.Name)}
    assert name in defined, f"{file} has no {name}"
    wanted, found, texts = [name], set(), set()
    while wanted:
        if (word := wanted.pop()) in defined and word not in found:
            found.add(word)
            nodes = [*ast.walk(defined[word])]
            wanted += [node.id for node in nodes if isinstance(node, ast.Name)]
            wanted += [node.arg for node in nodes if isinstance(node, ast.arg)]
            texts |= {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
    return texts


def test_no_page_is_listed_that_has_gone() -> None:
    assert {*RUN_BY, *(page for page, _ in COMPILED)} <= {page for page in PAGES if python_blocks(page)}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("enlist rum x.toml", "no such command"),
        ("enlist ui runs --prot 9000", "No such option"),
        ("enlist run examples/quickstarts.toml", "there is no"),
        ("enlist run examples/quickstart.toml --set rounds.kk=3", "kk"),
        ("enlist compare examples/quickstart.toml --selectors random,ort", "ort"),
        ("enlist compare examples/quickstart.toml --protocols late", "late"),
        ("enlist sweep examples/quickstart.toml --set rounds.k=5", "no key is swept"),
        ("enlist ladder --rungs silo", "silo"),
        ("enlist reproduce dart", "dart"),
        ("enlist run examples/quickstart.toml --engine slurm", "no such engine"),
        ("enlist compare examples/quickstart.toml --seeds five", "five"),
        ("python -m benchmarks.nothing", "no such module"),
        ("python -m benchmarks.ladder --chekc", "--chekc"),
        ("make everything", "the Makefile has no everything"),
        ("make package EXTRA=sim", "the Makefile has no EXTRA"),
        ("pip install 'enlist[simulator]'", "no such extra"),
        ("sbatch arrays.sh run study.toml", "no such script"),
        ("perl script.pl", "no test knows this program"),
    ],
)
def test_what_is_wrong_is_found(line: str, problem: str) -> None:
    [words] = commands(line)
    assert problem in str(wrong_with(words, Place("README.md")))
