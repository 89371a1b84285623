"""The command line. Without the extra `cli`, `main` only says how to install it."""

from __future__ import annotations

import importlib.util
import sys

from enlist._internal.text import brief_reason
from enlist.errors import EnlistError, MissingExtraError


def main() -> None:
    """Entry point of the console script `enlist`."""
    needed = ("typer", "rich", "altair", "vl_convert")
    if any(importlib.util.find_spec(name) is None for name in needed):
        if sys.argv[1:] == ["--version"]:
            sys.exit(_version())
        command = next((word for word in sys.argv[1:] if not word.startswith("-")), "COMMAND")
        sys.exit(str(MissingExtraError(command, "cli")))
    try:
        from enlist.cli.app import app
        from enlist.cli.console import Terminal, say, silence, trouble_of
    except KeyboardInterrupt:
        print("stopped; nothing was started.")
        sys.exit(130)

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks some characters shows others
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        silence()  # the reader of the output has closed it
        sys.exit(1)
    except (EnlistError, OSError) as error:
        trouble = trouble_of(error) if isinstance(error, OSError) else error
        if trouble is None:
            raise
        say(Terminal(stderr=True, emoji=False), ("error:", "bold red"), f" {trouble}")
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        if not no_memory(error):
            raise
        said = f"there is not enough memory ({brief_reason(error)}); use fewer clients, samples, parameters or workers."
        say(Terminal(stderr=True, emoji=False), ("error:", "bold red"), f" {said}")
        sys.exit(2)


def no_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out; PyTorch has no error class for that on the CPU.

    >>> no_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."))
    True
    """
    text = str(error).lower()
    return isinstance(error, MemoryError) or "can't allocate memory" in text or "out of memory" in text


def _version() -> int:
    import enlist

    print(f"enlist {enlist.__version__}")
    return 0
