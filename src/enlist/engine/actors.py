"""Actors on one machine: a long-lived object in its own process that answers one call after another."""

from __future__ import annotations

import contextlib
import multiprocessing.connection
import pickle
from collections.abc import Callable, Sequence
from typing import Any

from enlist.engine.children import Child
from enlist.engine.interface import Actor
from enlist.errors import EnlistError


class LocalActor(Child, Actor):
    """An object `kind(*arguments)` in a process of this machine.

    >>> actor = LocalActor("a list", list, [3, 4])
    >>> ask([actor], "index", 4) == ready([actor]) == [actor]
    True
    >>> actor.answer()
    1
    >>> actor.end()
    """

    def __init__(self, role: str, kind: Callable[..., Any], *arguments: Any, preload: str | None = None) -> None:
        super().__init__(role, _serve, kind, *arguments, preload=preload)

    def tell(self, method: str, *arguments: Any) -> None:
        try:
            self.connection.send((method, arguments, False))
        except OSError:
            self.dead = True

    def send(self, question: bytes) -> bool:
        """Hand over a question; returns whether it was accepted."""
        try:
            self.connection.send_bytes(question)
        except OSError:
            self.dead = True
        return not self.dead

    def answer(self) -> Any:
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self.dead = True
            return None

    def ask_to_end(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.send((None, (), False))


def ask(actors: Sequence[Actor], method: str, *arguments: Any) -> list[Actor]:
    """Ask several actors the same question, pickled once; returns those that accepted it.

    >>> ask([], "index", 4)
    []
    """
    question = pickle.dumps((method, arguments, True), protocol=pickle.HIGHEST_PROTOCOL)
    return [actor for actor in actors if isinstance(actor, LocalActor) and actor.send(question)]


def ready(actors: Sequence[Actor]) -> list[Actor]:
    """Wait until at least one of the actors has an answer or is dead; returns those.

    >>> ready([])
    []
    """
    known: dict[Any, Actor] = {actor.connection: actor for actor in actors if isinstance(actor, LocalActor)}
    return [known[connection] for connection in multiprocessing.connection.wait(list(known))] if known else []


def _serve(connection: Any, kind: Callable[..., Any], *arguments: Any) -> None:
    hosted = kind(*arguments)
    while True:
        try:
            method, given, wanted = connection.recv()
        except (EOFError, OSError):
            return
        if method is None:
            return
        try:
            answer = getattr(hosted, method)(*given)
        except Exception as error:
            answer = EnlistError(f"{type(error).__name__}: {error}")
        if wanted:
            connection.send(answer)
