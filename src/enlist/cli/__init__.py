"""The command line. `main` works without the extra `cli`, and then says which line to type."""

from __future__ import annotations

import importlib.util
import sys

from enlist.errors import EnlistError, MissingExtraError


def main() -> None:
    """Entry point of the console script `enlist`."""
    needed = ("typer", "rich", "altair", "vl_convert")
    if any(importlib.util.find_spec(name) is None for name in needed):
        if sys.argv[1:] == ["--version"]:
            sys.exit(_version())
        command = next((word for word in sys.argv[1:] if not word.startswith("-")), "COMMAND")
        sys.exit(str(MissingExtraError(command, "cli")))
    from enlist.cli.app import app
    from enlist.cli.console import Terminal, say, silence, trouble_of

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without our characters shows others, but does not fail
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        silence()  # whoever read the output has read enough
        sys.exit(1)
    except (EnlistError, OSError) as error:
        trouble = trouble_of(error) if isinstance(error, OSError) else error
        if trouble is None:
            raise
        say(Terminal(stderr=True, emoji=False), ("error:", "bold red"), f" {trouble}")
        sys.exit(2)


def _version() -> int:
    import enlist

    print(f"enlist {enlist.__version__}")
    return 0
