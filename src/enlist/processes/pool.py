"""A function on many arguments in several processes; one that dies is replaced, and does its part again."""

from __future__ import annotations

import contextlib
import multiprocessing.connection
import pickle
import traceback
from collections.abc import Callable, Generator, Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any

from enlist.errors import EnlistError
from enlist.processes.children import LOGGER, REPLACED, Child

ADVICE = "if memory is short, use fewer --jobs"


def in_processes(
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    jobs: int,
    *,
    role: str,
    advice: str = ADVICE,
    preload: str | None = None,
    begin: Callable[[], None] | None = None,
) -> Generator[tuple[int, Any], None, None]:
    """Call `function(*task)` for all tasks in so many processes; yields (number of the task, result) as they end.

    role     what a process is, in words, for messages
    advice   what to do if processes keep dying
    preload  a module that is imported before processes are started
    begin    called in every process before anything else

    An exception of the function is raised here. A process that dies, or is stopped for too long, is replaced, and its
    task is done again: twice at most. Abandoned, the generator ends all processes.

    >>> sorted(in_processes(pow, [(2, 3), (3, 2), (5, 1)], jobs=2, role="a calculator"))
    [(0, 8), (1, 9), (2, 5)]
    """
    waiting, deaths = list(range(len(tasks)))[::-1], [0] * len(tasks)
    crew: dict[Child, int] = {}

    def hire() -> None:
        child = Child(role, _serve, function, begin, preload=preload)
        crew[child] = -1
        give(child)

    def give(child: Child) -> None:
        if not waiting:
            del crew[child]
            child.end()
            return
        number = crew[child] = waiting.pop()
        with contextlib.suppress(OSError):  # one that is dead already is noticed when its answer is read
            child.connection.send(tasks[number])

    try:
        for _ in range(min(jobs, len(tasks))):
            hire()
        while crew:
            ready = multiprocessing.connection.wait([child.connection for child in crew])
            for child in [child for child in crew if child.connection in ready]:
                number = crew[child]
                try:
                    failed, found = child.connection.recv()
                except (EOFError, OSError):
                    deaths[number] += 1
                    error = child.died(advice)
                    del crew[child]
                    child.end()
                    if deaths[number] > REPLACED or child.hopeless:
                        raise error from None
                    LOGGER.warning("%s; another one takes its place and begins its task anew.", child.fate())
                    waiting.append(number)
                    hire()
                    continue
                if failed:
                    raise found
                give(child)
                yield number, found
    finally:
        for child in crew:
            child.end()


def _serve(connection: Any, function: Callable[..., Any], begin: Callable[[], None] | None) -> None:
    if begin is not None:
        begin()
    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError):
            return
        try:
            answer = ForkingPickler.dumps((False, function(*task)))
        except Exception as error:
            error.add_note(f"In a process of its own:\n{traceback.format_exc()}")
            answer = ForkingPickler.dumps((True, _portable(error)))
        connection.send_bytes(answer)


def _portable(error: Exception) -> Exception:
    """The exception, or one that says the same if it cannot be sent."""
    try:
        return error if isinstance(pickle.loads(pickle.dumps(error)), type(error)) else EnlistError(str(error))
    except Exception:
        return EnlistError(f"{type(error).__name__}: {error}")
