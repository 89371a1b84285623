"""The application: one file per command, registered here."""

from __future__ import annotations

from typing import Annotated, Any, get_type_hints

import click
import typer
from typer.core import TyperGroup
from typer.models import ArgumentInfo

import enlist
from enlist.cli.arena import arena
from enlist.cli.compare import compare
from enlist.cli.console import open_console, stopping
from enlist.cli.demo import demo
from enlist.cli.describe import describe
from enlist.cli.ladder import ladder
from enlist.cli.listing import listing
from enlist.cli.personalise import personalise
from enlist.cli.profile import profile
from enlist.cli.report import report
from enlist.cli.reproduce import reproduce
from enlist.cli.run import run
from enlist.cli.sweep import sweep
from enlist.cli.ui import ui
from enlist.cli.why import why


class Commands(TyperGroup):
    """All commands; unless a command handles Ctrl-C itself, it ends with one line."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with stopping(open_console()):
            return super().invoke(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command with descriptions of its arguments, which typer 0.20 loses from click 8.5 on."""
        command = super().get_command(ctx, cmd_name)
        if command is not None and command.callback is not None:
            hints = get_type_hints(command.callback, include_extras=True)
            for parameter in command.params:
                marks = getattr(hints.get(parameter.name or ""), "__metadata__", ())
                if getattr(parameter, "help", "") is None and isinstance(mark := next(iter(marks), None), ArgumentInfo):
                    parameter.help = mark.help
        return command


app = typer.Typer(
    name="enlist",
    cls=Commands,
    help="Decides which clients take part in the next round of federated learning, and learns from every round.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command()(run)
app.command()(compare)
app.command()(ladder)
app.command()(sweep)
app.command()(personalise)
app.command()(reproduce)
app.command()(report)
app.command()(why)
app.command()(ui)
app.command()(describe)
app.command()(profile)
app.command()(arena)
app.command("list")(listing)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"enlist {enlist.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Decides which clients take part in the next round of federated learning, and learns from every round."""
