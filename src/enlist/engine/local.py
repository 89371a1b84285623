"""The engine of one machine: this process, or a pool of processes; the task of a dead process is done again."""

from __future__ import annotations

import collections
import contextlib
import gc
import logging
import multiprocessing.connection
import pickle
import traceback
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from typing import Any

from enlist._internal.sending import packed
from enlist.engine.actors import LocalActor, ask, ready
from enlist.engine.children import Child
from enlist.engine.interface import REPLACED, Actor, Engine, Progress, Result, Share, Task, TaskContext, Work
from enlist.errors import EnlistError

LOGGER = logging.getLogger("enlist")


def local(jobs: int = 1) -> Engine:
    """The engine with this many processes; one means this process, so that nothing need be importable.

    >>> local(1).separate, local(2).separate
    (False, True)
    """
    return ThisProcess() if jobs <= 1 else Pool(jobs)


class LocalEngine(Engine):
    """What both engines of this machine have in common: actors are processes with a pipe to this one.

    >>> local(3).slots()
    3
    """

    def actor(self, role: str, kind: Callable[..., Any], *arguments: Any, preload: str | None = None) -> Actor:
        return LocalActor(role, kind, *arguments, preload=preload)

    def ask(self, actors: Sequence[Actor], method: str, *arguments: Any) -> list[Actor]:
        return ask(actors, method, *arguments)

    def ready(self, actors: Sequence[Actor]) -> list[Actor]:
        return ready(actors)


class ThisProcess(LocalEngine):
    """Tasks one after the other, in this process.

    >>> def double(context: TaskContext, number: int) -> int:
    ...     context.report("begun")
    ...     return 2 * number
    >>> tasks = [Task("two", (2,)), Task("none", ("a", "b"))]
    >>> found = list(ThisProcess().run(Work(double, "a doubler"), tasks, progress=print))
    two begun
    >>> found[0].value, type(found[1].error).__name__
    (4, 'TypeError')
    """

    separate = False

    def run(
        self, work: Work, tasks: Sequence[Task], share: Share | None = None, progress: Progress | None = None
    ) -> Generator[Result, None, None]:
        tell = progress or _silence
        held: tuple[Hashable, Any, Exception | None] = (None, None, None)
        for task in tasks:
            if task.shares is not None and task.shares != held[0]:
                held = (None, None, None)  # what is no longer needed is freed before the next is made
                gc.collect()
                held = (task.shares, *_made(share, task.shares))
            if held[2] is not None and task.shares is not None:
                yield Result(task.key, error=held[2])
                continue
            try:
                report = lambda state, key=task.key: tell(key, state)  # noqa: E731
                value = work.function(TaskContext(held[1], report), *task.arguments)
            except Exception as error:
                yield Result(task.key, error=error)
                continue
            yield Result(task.key, value)


class Pool(LocalEngine):
    """Tasks in several processes of this machine.

    >>> [result.value for result in Pool(2).run(Work(_doubled, "a doubler"), [Task("two", (2,))])]
    [4]
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def slots(self) -> int:
        return self.jobs

    def run(
        self, work: Work, tasks: Sequence[Task], share: Share | None = None, progress: Progress | None = None
    ) -> Generator[Result, None, None]:
        under_way = _LocalTasks(work, tasks, share, progress or _silence)
        try:
            under_way.begin(min(self.jobs, len(tasks)))
            yield from under_way.results()
        finally:
            under_way.end()


class _Worker(Child):
    """A process that does one task after another, as seen by its pool."""

    def __init__(self, work: Work) -> None:
        self.task: Task | None = None
        self.holds: Hashable = None
        super().__init__(work.role, _serve, work.function, work.begin, preload=work.preload)


class _LocalTasks:
    """Waiting tasks, what some of them share, the processes that do them, and results not yet taken."""

    def __init__(self, work: Work, tasks: Sequence[Task], share: Share | None, tell: Progress) -> None:
        self.work, self.share, self.tell = work, share, tell
        self.waiting = collections.deque(tasks)
        self.made: dict[Hashable, Any] = {}
        self.workers: list[_Worker] = []
        self.deaths: collections.Counter[Hashable] = collections.Counter()
        self.ended: collections.deque[Result] = collections.deque()

    def begin(self, processes: int) -> None:
        """Start processes, and give each a task."""
        for _ in range(processes):  # all of them before the first task: they start while shared values are made
            self.workers.append(_Worker(self.work))
        for worker in list(self.workers):
            self.give(worker)

    def results(self) -> Iterator[Result]:
        """Results as they come, until nothing is under way."""
        yield from self.taken()
        while self.workers:
            connections = multiprocessing.connection.wait([worker.connection for worker in self.workers])
            for worker in [worker for worker in self.workers if worker.connection in connections]:
                self.hear(worker)
                yield from self.taken()

    def taken(self) -> Iterator[Result]:
        """Results not yet taken."""
        while self.ended:
            yield self.ended.popleft()

    def give(self, worker: _Worker) -> None:
        """Let a process begin the next task; without one, it ends."""
        task = worker.task = self.take()
        if task is None:
            self.workers.remove(worker)
            worker.end()
            return
        fresh, worker.holds = task.shares is not None and task.shares != worker.holds, task.shares or worker.holds
        with contextlib.suppress(OSError):  # a dead process is noticed when its answer is read
            if fresh:
                worker.connection.send(("share", self.made[task.shares]))
            worker.connection.send(("task", packed((task.arguments, task.kinds), task.kinds)))

    def take(self) -> Task | None:
        """The next task whose shared part can be made; where it cannot, all tasks that share it fail."""
        while self.waiting:
            task = self.waiting.popleft()
            error = self.make(task)
            if error is None:
                return task
            alike = [task, *(other for other in self.waiting if other.shares == task.shares)]
            self.ended += [Result(each.key, error=error) for each in alike]
            self.waiting = collections.deque(other for other in self.waiting if other.shares != task.shares)
        return None

    def make(self, task: Task) -> Exception | None:
        """Make what a task shares, and drop what no task needs any more; returns why that failed."""
        if task.shares is None or task.shares in self.made:
            return None
        made, error = _made(self.share, task.shares)
        if error is not None:
            return error
        self.made[task.shares] = made
        needed = {task.shares, *(worker.holds for worker in self.workers), *(each.shares for each in self.waiting)}
        self.made = {word: kept for word, kept in self.made.items() if word in needed}
        return None

    def hear(self, worker: _Worker) -> None:
        """Handle a message of a process: progress of its task, or its end; or the silence of a dead process."""
        assert worker.task is not None
        key = worker.task.key
        try:
            kind, content = worker.connection.recv()
        except (EOFError, OSError):
            self.bury(worker)
            return
        if kind == "progress":
            self.tell(key, content)
            return
        # From a process of ours, through a pipe of ours.
        self.ended.append(Result(key, error=content) if kind == "failure" else Result(key, pickle.loads(content)))
        self.give(worker)

    def bury(self, worker: _Worker) -> None:
        """Let another process do the task of a dead one; give the task up after too many attempts."""
        assert worker.task is not None
        key = worker.task.key
        self.deaths[key] += 1
        error = worker.died(self.work.advice)
        self.workers.remove(worker)
        worker.end()
        if self.deaths[key] > REPLACED or worker.hopeless:
            self.ended.append(Result(key, error=error))
        else:
            LOGGER.warning("%s; another one takes its place and %s.", worker.fate(), self.work.again)
            self.waiting.appendleft(worker.task)
        if self.waiting:
            self.workers.append(_Worker(self.work))
            self.give(self.workers[-1])

    def end(self) -> None:
        """End all processes."""
        for worker in self.workers:
            worker.end()


def _made(share: Share | None, word: Hashable) -> tuple[Any, Exception | None]:
    try:
        return (None if share is None else share(word)), None
    except Exception as error:
        return None, error


def _silence(key: Any, state: Any) -> None:
    pass


def _serve(connection: Any, function: Callable[..., Any], begin: Callable[[], None] | None) -> None:
    if begin is not None:
        begin()
    context = TaskContext(None, lambda state: connection.send(("progress", state)))
    while True:
        try:
            kind, content = connection.recv()
        except (EOFError, OSError):
            return
        if kind == "share":
            context = context._replace(shared=content)
            gc.collect()  # tasks may leave cycles that hold earlier shared values: few objects, much memory
            continue
        connection.send(done(function, context, content))


def done(function: Callable[..., Any], context: TaskContext, content: bytes) -> tuple[str, Any]:
    """The answer of a process to a packed task: ("result", packed) or ("failure", an exception that can be sent).

    >>> done(_doubled, TaskContext(None, print), packed(((2, 3, 4), ())))[0]
    'failure'
    """
    try:
        arguments, kinds = pickle.loads(content)
        return "result", packed(function(context, *arguments), kinds)
    except Exception as error:
        error.add_note(f"In a process of its own:\n{traceback.format_exc()}")
        return "failure", _portable(error)


def _portable(error: Exception) -> Exception:
    """The exception, or an equivalent one if it cannot be sent."""
    try:
        return error if isinstance(pickle.loads(pickle.dumps(error)), type(error)) else EnlistError(str(error))
    except Exception:
        return EnlistError(f"{type(error).__name__}: {error}")


def _doubled(context: TaskContext, number: int) -> int:
    return 2 * number
