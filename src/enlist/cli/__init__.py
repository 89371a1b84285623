"""The command line. `main` works without the extra `cli`, and then says which line to type."""

from __future__ import annotations

import importlib.util
import sys

from enlist.errors import EnlistError, MissingExtraError


def main() -> None:
    """Entry point of the console script `enlist`."""
    needed = ("typer", "rich", "altair", "vl_convert")
    if any(importlib.util.find_spec(name) is None for name in needed):
        command = next((word for word in sys.argv[1:] if not word.startswith("-")), "COMMAND")
        sys.exit(str(MissingExtraError(command, "cli")))
    from enlist.cli.app import app

    try:
        app()
    except EnlistError as error:
        from rich.console import Console

        Console(stderr=True).print(f"[bold red]error:[/] {error}", highlight=False, soft_wrap=True)
        sys.exit(2)
