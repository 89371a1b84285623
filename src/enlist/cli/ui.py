"""`enlist ui`: the live page."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Annotated

import typer

from enlist.cli.console import open_console, say
from enlist.errors import MissingExtraError


def ui(
    folders: Annotated[list[Path], typer.Argument(help="Folders that hold runs, or will.", show_default=False)],
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.", min=0, max=65_535)] = 8765,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any except loopback needs a token, which is printed.")
    ] = "127.0.0.1",
    name: Annotated[
        list[str] | None, typer.Option(help="Another host name of the page, such as that of a proxy.")
    ] = None,
) -> None:
    """Show runs, comparisons, federations and ladders on a page, while they run.

    It only reads folders. Ctrl-C ends it.

    Example: [bold]enlist ui runs/[/]
    """
    for needed in ("starlette", "uvicorn"):
        if importlib.util.find_spec(needed) is None:
            raise MissingExtraError("ui", "ui")
    from enlist.ui import serve

    console = open_console()

    def where(address: str) -> None:
        say(console, "page: ", (address, "bold"))
        sys.stdout.flush()  # so that a reader of a pipe gets it at once

    serve(folders, host, port, name or (), where)
