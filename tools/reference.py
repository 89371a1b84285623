"""Pages of the reference that are made from the code: the API, the command line, the run folder."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import click
import typer.main

import enlist
from enlist.cli.app import app

MODULES = {
    "enlist": "the contract: clients, asks, tells, books",
    "enlist.selectors": "the selectors as classes",
    "enlist.bandits": "what selectors share: estimates, posteriors, solvers",
    "enlist.books": "open selections, replies, late arrivals, and a log that can be replayed",
    "enlist.testing": "the contract suite, for selectors of your own",
    "enlist.arena": "regret without training",
    "enlist.simulation": "runs, comparisons and sweeps",
    "enlist.ladder": "the ladder and its leaderboard",
    "enlist.personal": "personalised learning",
    "enlist.data": "data sets and partitions",
    "enlist.devices": "devices and availability",
    "enlist.runs": "the run folder and its tables",
    "enlist.engine": "where many things run",
    "enlist.flower": "the adapter for Flower",
    "enlist.ui": "the live page",
}
"""The public modules. What `__all__` of one of them names is public; docs/stability.md says what that promises."""

SECTION = re.compile(
    r"(Parameters|Returns|Raises|Yields|Attributes|Notes|References|Examples|See Also)\n-+$", flags=re.M
)


def public(source: Path, module: str) -> list[str]:
    """Names in `__all__` of a module, read without importing it; for enlist.selectors, the classes it can create."""
    if module == "enlist.selectors":
        return sorted({enlist.selectors.get(name).__name__ for name in enlist.names()})
    place = source.joinpath(*module.split("."), "__init__.py")
    for node in ast.parse(place.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == "__all__" for to in node.targets):
            return list(ast.literal_eval(node.value))
    raise SystemExit(f"{place} has no __all__: every module of the reference says what is public in it.")


def api(source: Path) -> dict[str, str]:
    """One page for each public module."""
    lines = ["# API", "What is listed here is public; [stability](../../stability.md) says what that promises.", ""]
    found = {}
    for module, about in MODULES.items():
        names = public(source, module)
        parts = [f"# {module}", f"{about[0].upper()}{about[1:]}."]
        parts += [f"::: {module}.{name}" for name in names if not inspect.ismodule(_known(module, name))]
        found[f"{module}.md"] = "\n\n".join(parts) + "\n"
        lines.append(f"* [{module}]({module}.md): {about}")
    return {"index.md": "\n".join(lines) + "\n", **found}


def _known(module: str, name: str) -> object:
    """A name of the core, which needs nothing but NumPy; None for others."""
    return getattr(importlib.import_module(module), name, None) if module == "enlist" else None


def undocumented(source: Path) -> list[str]:
    """Public classes, functions and methods of the modules above that have no docstring."""
    missing = []
    for path in sorted((source / "enlist").rglob("*.py")):
        module = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        if ".".join(module.split(".")[:2]) not in MODULES and module.count(".") > 1:
            continue  # the command line and studies, which nobody imports
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if not ast.get_docstring(tree):
            missing.append(module)
        missing += _without(tree, module)
    return missing


def _without(tree: ast.Module | ast.ClassDef, path: str) -> list[str]:
    found = []
    for node in tree.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
            continue
        told = any(_decorator(mark) in {"overload", "override"} for mark in node.decorator_list)
        told = told or any(
            isinstance(line, ast.Assign) and "__doc__" in ast.unparse(line.targets[0]) for line in node.body
        )
        inherits = isinstance(tree, ast.ClassDef) and tree.bases
        if not ast.get_docstring(node) and not told and not inherits:
            found.append(f"{path}.{node.name}")
        if isinstance(node, ast.ClassDef):
            found += _without(node, f"{path}.{node.name}")
    return found


def _decorator(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def command_line() -> str:
    """Every command with its options, from the code of the command line."""
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    context = click.Context(group, info_name="enlist")
    parts = ["# Command line", "`enlist COMMAND --help` shows the same. Every option has a default unless it says so."]
    parts.append("\n".join(["| command | what it does |", "|---|---|", *_overview(group)]))
    for name in group.commands:
        command = group.get_command(context, name)
        assert command is not None
        own = click.Context(command, info_name=name, parent=context)
        usage = f"```text\n{command.get_usage(own).removeprefix('Usage: ')}\n```"
        parts += [f"## enlist {name}", _text(command.help or ""), usage, _options(command, own)]
    return "\n\n".join(parts) + "\n"


def _overview(group: click.Group) -> list[str]:
    first = {name: (command.help or "").split("\n\n")[0] for name, command in group.commands.items()}
    return [f"| [`enlist {name}`](#enlist-{name}) | {_plain(' '.join(text.split()))} |" for name, text in first.items()]


def _plain(text: str) -> str:
    """Without the marks of Rich, and safe in a table; what is bold in the terminal is a command.

    >>> _plain("Example: [bold]enlist list[/], or [dim]nothing[/dim]")
    'Example: `enlist list`, or nothing'
    """
    text = re.sub(r"\[bold\](.*?)\[/(?:bold)?\]", r"`\1`", text)
    return re.sub(r"\[/?(?:dim|italic|cyan|green)?\]", "", text).replace("\b", "").replace("|", "\\|").strip()


def _text(text: str) -> str:
    """Help as Markdown; blocks that the terminal does not wrap are code."""
    blocks = []
    for block in inspect.cleandoc(text).replace("\f", "").split("\n\n"):
        if block.startswith("\b"):
            lines = block.removeprefix("\b").strip("\n").splitlines()
            blocks.append("```text\n" + "\n".join(lines) + "\n```")
        else:
            blocks.append(_plain(block).replace("\\|", "|"))
    return "\n\n".join(blocks)


def _options(command: click.Command, context: click.Context) -> str:
    lines = ["| argument or option | type | default | meaning |", "|---|---|---|---|"]
    for parameter in command.get_params(context):
        flags = [*parameter.opts, *parameter.secondary_opts]
        if "--help" in flags:
            continue
        if isinstance(parameter, click.Argument):
            flags = [parameter.make_metavar(context)]
        default = getattr(parameter, "default", None)
        shown = "required" if parameter.required else "–" if default in (None, "", (), []) else f"`{_value(default)}`"
        kind = "switch" if getattr(parameter, "is_flag", False) else _plain(parameter.type.name.replace("_", " "))
        meaning = _plain(getattr(parameter, "help", "") or "")
        lines.append(f"| {', '.join(f'`{flag}`' for flag in flags)} | {kind} | {shown} | {meaning} |")
    return "\n".join(lines)


def _value(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def run_folder(source: Path, simulation: str) -> str:
    """Files and columns: the files as docs/simulation.md lists them, the columns from the module that defines them."""
    section = simulation.partition("## The run folder\n")[2].partition("\n## ")[0]
    files = re.sub(r"\]\((?!http|#)", "](../", section.partition("`rounds.csv`:")[0]).replace(
        "](#", "](../simulation.md#"
    )
    clients = section.partition("`clients.csv`:")[2]
    tree = ast.parse((source / "enlist" / "runs" / "columns.py").read_text(encoding="utf-8"))
    tables = {node.name: _columns(node) for node in tree.body if isinstance(node, ast.ClassDef)}
    return "\n\n".join(
        [
            "# Run folder",
            "A run writes one folder. Tables are plain CSV, written row by row: read them while the run goes on.",
            "[Stability](../stability.md) says which versions read which folders.",
            "## Files",
            files.strip(),
            "## rounds.csv",
            tables["RoundRow"],
            "Further columns: `client_accuracy`, `accuracy_worst_tenth` and `accuracy_spread` with `data.client_test`, "
            "and `metric_NAME` for each metric of your own.",
            "## participations.csv",
            tables["Participation"],
            "## reasons.csv",
            tables["Reason"],
            "Further columns are the terms that `Selector.explain` shows, by the names that the selector gives them.",
            "## clients.csv",
            clients.strip(),
            "## In Python",
            "`enlist.runs.read_run(folder)` reads all tables as NumPy arrays; `enlist.frame(folder)` makes one data "
            "frame of many runs: [Experiments from Python](../python.md#many-runs-as-one-table).\n",
        ]
    )


def _columns(node: ast.ClassDef) -> str:
    """The annotated names of a class, with the string below each, as a table."""
    lines = ["| column | type | meaning |", "|---|---|---|"]
    for field, told in zip(node.body, node.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            assert isinstance(told, ast.Expr)
            assert isinstance(told.value, ast.Constant)
            kind = ast.unparse(field.annotation).removeprefix("Required[").removesuffix("]").replace(" | None", "")
            lines.append(f"| `{field.target.id}` | {kind} | {told.value.value} |")
    return "\n".join(lines)


def fenced(text: str) -> str:
    """A docstring whose examples and aligned lines stand in code blocks; numpydoc sections stay as they are.

    >>> fenced("Adds.\\n\\n>>> 1 + 1\\n2").splitlines()[2:]
    ['```pycon', '>>> 1 + 1', '2', '```']
    >>> fenced("Adds.\\n\\nReturns\\n-------\\nint\\n\\n>>> 1 + 1\\n2").splitlines()[-4:]
    ['Examples', '--------', '>>> 1 + 1', '2']
    """
    if "```" in text:
        return text
    blocks, section = [], ""
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        if heading := SECTION.match(block):
            section = heading[1]
        example = block.lstrip().startswith(">>>")
        if example and section and section != "Examples":  # it would be read as one more parameter
            section, block = "Examples", f"Examples\n--------\n{block}"
        elif example and not section:
            block = f"```pycon\n{block}\n```"
        elif not section and re.search(r"\S {3,}\S", block) and not block.lstrip().startswith(("*", "|")):
            block = f"```text\n{block}\n```"
        blocks.append(block)
    return "\n\n".join(blocks)
