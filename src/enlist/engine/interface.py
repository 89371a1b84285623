"""The interface of an engine: tasks go in, results come out as they end; actors stay and hold state.

    tasks = [Task(seed, (seed,)) for seed in range(10)]
    for result in local(4).run(Work(train, role="a process that trains"), tasks):
        print(result.key, result.value)

Where tasks run is up to the engine: in this process, in several processes, or on other machines. Results do not depend
on it.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Generator, Hashable, Sequence
from typing import Any, NamedTuple

REPLACED = 2
"""How often another process repeats the work of one that died, before the engine gives up."""
ADVICE = "if memory is short, use fewer --jobs"

Progress = Callable[[Any, Any], None]
"""Called with the key of a task and a progress report of the task."""
Share = Callable[[Any], Any]
"""Makes what tasks share, from its name: called once by the engine, in the process that the tasks come from."""


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """One thing to do.

    Parameters
    ----------
    key : hashable
        What identifies it; its result carries it.
    arguments : tuple
        Arguments of the function.
    shares : hashable, optional
        The name of what it shares with other tasks, which travels once to each process.
    kinds : tuple
        Classes and functions of the user's that are part of the arguments: they travel by value where a process cannot
        import them.

    >>> Task(("oort", 3), (1, 2)).key
    ('oort', 3)
    """

    key: Hashable
    arguments: tuple[Any, ...] = ()
    shares: Hashable = None
    kinds: tuple[Any, ...] = ()


class Result(NamedTuple):
    """How a task ended: the return value of the function, or the error that it raised or its process died of."""

    key: Any
    value: Any = None
    error: Exception | None = None


class TaskContext(NamedTuple):
    """What a function gets besides its arguments: what the task shares, and a call that reports progress.

    >>> TaskContext(None, print).report("half done")
    half done
    """

    shared: Any
    report: Callable[[Any], None]


@dataclasses.dataclass(frozen=True)
class Work:
    """How to do tasks.

    Parameters
    ----------
    function : callable
        Called with a `TaskContext` and the arguments of a task.
    role : str
        A description of a process, for messages.
    advice : str
        What to do if processes keep dying.
    again : str
        What a process that replaces a dead one does, in words.
    preload : str, optional
        A module that is imported before processes are started.
    begin : callable, optional
        Called in every process before anything else.

    >>> Work(print, "a printer").advice
    'if memory is short, use fewer --jobs'
    """

    function: Callable[..., Any]
    role: str
    advice: str = ADVICE
    again: str = "starts its task again"
    preload: str | None = None
    begin: Callable[[], None] | None = None


class Actor(abc.ABC):
    """A long-lived object in a process of its own that answers one call after another.

    >>> from enlist.engine import local
    >>> actor = local().actor("a list", list, [3, 4])
    >>> local().ask([actor], "index", 4) == [actor], actor.answer(), actor.dead
    (True, 1, False)
    >>> actor.end()
    """

    dead = False
    """Whether its process was found to have ended."""

    @abc.abstractmethod
    def tell(self, method: str, *arguments: Any) -> None:
        """Call a method without an answer."""

    @abc.abstractmethod
    def answer(self) -> Any:
        """The answer to the oldest question that has none; an exception if it raised one; None if it is dead."""

    @property
    @abc.abstractmethod
    def hopeless(self) -> bool:
        """Whether a replacement would die as well."""

    @abc.abstractmethod
    def fate(self) -> str:
        """How its process ended, in words."""

    @abc.abstractmethod
    def died(self, advice: str) -> Exception:
        """The error that says how its process ended, and what to do about it."""

    @abc.abstractmethod
    def ask_to_end(self) -> None:
        """Let the process end once it has finished its current call."""

    @abc.abstractmethod
    def end(self, wait: float = 0.0) -> None:
        """Make sure that the process has ended, after waiting for it for a while."""


class Engine(abc.ABC):
    """Does many tasks, and keeps actors.

    It ends what it has started: abandoning a `run` ends all tasks under way.

    >>> from enlist.engine import local
    >>> with local() as engine:
    ...     list(engine.map(pow, [(2, 3), (3, 2)], role="a calculator"))
    [(0, 8), (1, 9)]
    """

    separate = True
    """Whether tasks run in other processes, so that their inputs and results are sent."""
    shares_memory = True
    """Whether these are on this machine, and can share memory and folders with this process."""

    def slots(self) -> int:
        """Number of tasks that can run at once."""
        return 1

    @abc.abstractmethod
    def run(
        self, work: Work, tasks: Sequence[Task], share: Share | None = None, progress: Progress | None = None
    ) -> Generator[Result, None, None]:
        """Do all tasks; yields results as they end.

        A process that dies, or is stopped for too long, is replaced, and its task is done again: twice at most. An
        exception of the function is a result, and is not retried. If `share` fails, all tasks that share this fail.
        Closing the generator ends everything under way.
        """

    def put(self, value: Any) -> Any:
        """Place a value where actors and tasks that get it as an argument share it; here, it stays where it is."""
        return value

    @abc.abstractmethod
    def actor(self, role: str, kind: Callable[..., Any], *arguments: Any, preload: str | None = None) -> Actor:
        """An object `kind(*arguments)` in a process of its own; `role` describes it in words."""

    @abc.abstractmethod
    def ask(self, actors: Sequence[Actor], method: str, *arguments: Any) -> list[Actor]:
        """Ask several actors the same question; returns those that accepted it."""

    @abc.abstractmethod
    def ready(self, actors: Sequence[Actor]) -> list[Actor]:
        """Wait until at least one of them has an answer or is dead; returns those."""

    def map(
        self,
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        *,
        role: str,
        kinds: tuple[Any, ...] = (),
        **how: Any,
    ) -> Generator[tuple[int, Any], None, None]:
        """Call `function(*each)` for all arguments; yields (number, result) as they end.

        An exception of the function is raised here, as is the death of a process that keeps dying. `kinds` are those of
        every task; `role` and the others are those of `Work`.

        >>> from enlist.engine import local
        >>> sorted(local(2).map(pow, [(2, 3), (3, 2), (5, 1)], role="a calculator"))
        [(0, 8), (1, 9), (2, 5)]
        """
        tasks = [Task(number, each, kinds=kinds) for number, each in enumerate(arguments)]
        results = self.run(Work(functools.partial(_without_context, function), role, **how), tasks)
        try:
            for result in results:
                if result.error is not None:
                    raise result.error
                yield result.key, result.value
        finally:
            results.close()

    def close(self) -> None:  # noqa: B027
        """Release what the engine holds beyond a run."""

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def _without_context(function: Callable[..., Any], context: TaskContext, *arguments: Any) -> Any:
    return function(*arguments)
