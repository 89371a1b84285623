"""The engine of many machines: tasks and actors on a Ray cluster.

    with RayEngine("ray://head:10001") as engine:
        compare(config, "random,oort", folder="out", engine=engine)

Ray places tasks where processors are free. Shared values are put into its object store once, and travel once to each
node. A task whose process or node dies is done again elsewhere, twice at most; a task that raises is not.
"""

from __future__ import annotations

import collections
import contextlib
import importlib.util
import logging
import math
import os
import pickle
import time
import warnings
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from typing import Any

from enlist._internal import checks
from enlist._internal.sending import packed
from enlist.engine.head import Head, refuse_bad_address
from enlist.engine.interface import REPLACED, Actor, Engine, Progress, Result, Share, Task, Work
from enlist.engine.remote import Host, ProgressBuffer, perform, versions
from enlist.errors import EnlistError, InputError, MissingExtraError

LOGGER = logging.getLogger("enlist")
LOOK = 5.0
"""Seconds between two checks of the cluster: whether its head answers, and how many processors it has."""
CLEANING, ENDING = 5.0, 10.0
"""Seconds that cancelled tasks have to end by themselves; then, seconds to wait for the end of their processes."""
CONNECTING = 120.0
"""Seconds that a node has to report what is installed there."""


class RayEngine(Engine):
    """Tasks and actors on a Ray cluster.

    Parameters
    ----------
    address : str, optional
        The cluster: "ray://host:10001" for a client outside of it, "host:6379" on a node of it. By default
        RAY_ADDRESS, else a cluster that runs on this machine; otherwise one is started here and stopped at the end.
    jobs : int, default 0
        Tasks at once; 0 for as many as the cluster has processors for.
    cpus, gpus : float, default 1 and 0
        What each task and each actor takes of a node. Several tasks can share a GPU by fractions.
    working_dir : path, optional
        A folder with your modules and data that travels to all nodes: tasks import from it and, where a node does not
        see your current folder, work in it.

    >>> RayEngine.separate, RayEngine.shares_memory
    (True, False)
    """

    shares_memory = False

    def __init__(
        self,
        address: str | None = None,
        *,
        jobs: int = 0,
        cpus: float = 1.0,
        gpus: float = 0.0,
        working_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        given = address or os.environ.get("RAY_ADDRESS") or ""
        needed = ("ray", "grpc") if given.startswith("ray://") else ("ray",)
        if any(importlib.util.find_spec(name) is None for name in needed):
            raise MissingExtraError(f"--engine {given if len(needed) > 1 else 'ray'}", "ray")
        self.jobs = checks.whole("jobs", jobs, minimum=0)
        self.cpus, self.gpus = float(cpus), float(gpus)
        if not (self.cpus >= 0 and self.gpus >= 0 and self.cpus + self.gpus > 0):
            raise InputError(f"cpus is {cpus} and gpus is {gpus}; neither may be negative, and one must be above zero.")
        self.versions, self.folder = versions(), os.getcwd()
        import ray

        self.ray: Any = ray
        self._connected = not ray.is_initialized()
        if self._connected:
            self._connect(address, {} if working_dir is None else {"working_dir": os.path.abspath(working_dir)})
        elif working_dir is not None:
            raise InputError(
                f"working_dir is {os.fspath(working_dir)!r}, but Ray is connected already; give it to Ray: "
                "ray.init(runtime_env={'working_dir': ...})."
            )
        self.head = Head(self._where(given))
        try:
            self._check_nodes()
        except BaseException:
            self.close()
            raise

    def _where(self, address: str) -> str | None:
        """Where the head takes connections; a client sees only its own port, which is known if we opened it."""
        if not self.ray.util.client.ray.is_connected():
            return str(self.ray.get_runtime_context().gcs_address)
        return address if self._connected and address else None

    def _connect(self, address: str | None, environment: dict[str, str]) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # What Ray plans for a later release; it warns until a choice is made.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        given = address or os.environ.get("RAY_ADDRESS") or "(none)"
        refuse_bad_address(given)
        try:
            with warnings.catch_warnings():  # what it warns about is said below, in one sentence
                warnings.filterwarnings("ignore", message="Ray Client connection timed out")
                self.ray.init(
                    address, log_to_driver=False, logging_level=logging.WARNING, runtime_env=environment or None
                )
        except (ConnectionError, RuntimeError, ValueError, OSError, TimeoutError) as error:
            if "Starting Ray client server failed" in str(error):  # gRPC's fork handlers sometimes end it there
                advice = (
                    "its head answers, but could not start a process for this client. Type the command again; if it "
                    "happens often, start the head with GRPC_ENABLE_FORK_SUPPORT=false."
                )
            elif given.startswith("ray://"):
                advice = (
                    "the port must be that of `ray start --head --ray-client-server-port`, 10001 unless given. On a "
                    "node of the cluster use --engine ray, with RAY_ADDRESS=host:6379."
                )
            else:
                advice = (
                    "start one with `ray start --head`, and name it in RAY_ADDRESS or with --engine ray://host:10001."
                )
            raise InputError(
                f"there is no Ray cluster at {given} that can be used ({_brief(error)}); {advice}"
            ) from None

    def _check_nodes(self) -> None:
        """Refuse a cluster if a node has other versions; nodes that join later are checked by their tasks."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        asked = []
        for node in self._nodes():
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=True)
            answer = self._remote(versions, cpus=0.0, gpus=0.0, strategy=there).remote()
            asked.append((node["NodeManagerAddress"], answer))
        for name, answer in asked:
            try:
                found = self.ray.get(answer, timeout=CONNECTING)
            except self.ray.exceptions.RayTaskError as error:
                raise InputError(
                    f"node {name} of the Ray cluster cannot import enlist ({_brief(error)}); install it there."
                ) from None
            except self.ray.exceptions.RayError:  # it has gone, or is busy: its tasks will be checked
                continue
            self._refuse(name, found)

    def _refuse(self, name: str, found: dict[str, str]) -> None:
        for package, ours in self.versions.items():
            if found.get(package) != ours:
                raise InputError(
                    f"node {name} of the Ray cluster has {package} {found.get(package, '(none)')}, and here it is "
                    f"{ours}; results would differ. Install the same versions everywhere."
                )

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self.ray.nodes() if node["Alive"]]

    def _remote(
        self,
        function: Any,
        *,
        cpus: float | None = None,
        gpus: float | None = None,
        strategy: Any = "SPREAD",
        **more: Any,
    ) -> Any:
        resources = {"num_cpus": self.cpus if cpus is None else cpus, "num_gpus": self.gpus if gpus is None else gpus}
        retries = {} if isinstance(function, type) else {"max_retries": 0}  # retries are counted here
        return self.ray.remote(scheduling_strategy=strategy, **resources, **retries, **more)(function)

    def slots(self) -> int:
        """Tasks that the cluster can currently do at once."""
        nodes = [node["Resources"] for node in self._nodes()]
        wanted = {"CPU": self.cpus, "GPU": self.gpus}
        fit = [min(int(node.get(name, 0) / each) for name, each in wanted.items() if each) for node in nodes]
        if not sum(fit):
            raise EnlistError(
                f"no node of the Ray cluster has {self.cpus:g} processors and {self.gpus:g} GPUs for a task; ask for "
                "less, or add nodes."
            )
        return min(sum(fit), self.jobs or sum(fit))

    def run(
        self, work: Work, tasks: Sequence[Task], share: Share | None = None, progress: Progress | None = None
    ) -> Generator[Result, None, None]:
        under_way = _RayTasks(self, work, tasks, share, progress or (lambda key, state: None))
        try:
            with self.head.needed(ConnectionError, self.ray.exceptions.RaySystemError):
                yield from under_way.results()
        finally:
            under_way.end()

    def put(self, value: Any) -> Any:
        """Place a value in the object store, from where it travels once to each node that needs it."""
        return self.ray.put(value)

    def actor(self, role: str, kind: Callable[..., Any], *arguments: Any, preload: str | None = None) -> Actor:
        return RayActor(self, role, kind, *arguments)

    def ask(self, actors: Sequence[Actor], method: str, *arguments: Any) -> list[Actor]:
        for actor in actors:
            assert isinstance(actor, RayActor)
            actor.pending.append(actor.handle.call.remote(method, *arguments))
        return list(actors)

    def ready(self, actors: Sequence[Actor]) -> list[Actor]:
        known = {actor.pending[0]: actor for actor in actors if isinstance(actor, RayActor) and actor.pending}
        found: list[Any] = []
        with self.head.needed(ConnectionError, self.ray.exceptions.RaySystemError):
            while not found:
                found, _ = self.ray.wait(list(known), num_returns=1, timeout=LOOK)
                if not found:
                    self.head.check()
        found, _ = self.ray.wait(list(known), num_returns=len(known), timeout=0) if len(known) > 1 else (found, [])
        return [known[reference] for reference in found]

    def close(self) -> None:
        if self._connected and not self.head.lost:
            self._connected = False
            self.ray.shutdown()


class _RayTasks:
    """Waiting tasks, what some of them share, and tasks that the cluster does."""

    def __init__(
        self, engine: RayEngine, work: Work, tasks: Sequence[Task], share: Share | None, tell: Progress
    ) -> None:
        from ray import exceptions

        self.engine, self.ray, self.work, self.share, self.tell = engine, engine.ray, work, share, tell
        self.tasks = tasks
        self.waiting = collections.deque(range(len(tasks)))
        self.room, self.looked = 0, -math.inf
        self.flying: dict[Any, int] = {}
        self.deaths: collections.Counter[int] = collections.Counter()
        self.made: dict[Hashable, Any] = {}
        self.deadly = (
            exceptions.WorkerCrashedError,
            exceptions.NodeDiedError,
            exceptions.OutOfMemoryError,
            exceptions.ObjectLostError,
            exceptions.RayActorError,
        )
        self.mailbox: Any = None
        self.mail: Any = None
        self.perform = engine._remote(perform, name=work.role)

    def results(self) -> Iterator[Result]:
        """Results as they come, until nothing is left."""
        self.open_mailbox()
        while self.waiting or self.flying:
            self.look()
            while self.waiting and len(self.flying) < self.room:
                yield from self.submit(self.waiting.popleft())
            found, _ = self.ray.wait([self.mail, *self.flying], num_returns=1, timeout=LOOK)
            for reference in found:
                if reference == self.mail:
                    self.read_mail()
                else:
                    yield from self.hear(reference, self.flying.pop(reference))

    def look(self) -> None:
        """Check regularly how much the cluster can do; a silent head is not asked, which would take forever."""
        if time.monotonic() - self.looked >= LOOK and self.engine.head.check():
            self.room, self.looked = self.engine.slots(), time.monotonic()

    def submit(self, number: int) -> Iterator[Result]:
        """Let the cluster do a task; if what it shares cannot be made, all tasks that share it fail."""
        task = self.tasks[number]
        if task.shares is not None and task.shares not in self.made:
            try:
                made = None if self.share is None else self.share(task.shares)
            except Exception as error:
                alike = [number, *(each for each in self.waiting if self.tasks[each].shares == task.shares)]
                self.waiting = collections.deque(each for each in self.waiting if each not in alike)
                for each in alike:
                    yield Result(self.tasks[each].key, error=error)
                return
            needed = {self.tasks[each].shares for each in (*self.waiting, *self.flying.values())}
            self.made = {word: kept for word, kept in self.made.items() if word in needed}
            self.made[task.shares] = self.ray.put(made)
        content = packed((task.arguments, task.kinds), task.kinds)
        shared = None if task.shares is None else self.made[task.shares]
        given = (number, self.work.function, self.work.begin, content, shared, self.mailbox)
        self.flying[self.perform.remote(*given, self.engine.versions, self.engine.folder)] = number

    def hear(self, reference: Any, number: int) -> Iterator[Result]:
        """How a task ended; if its process or node died, it is done again, unless that happened too often."""
        key = self.tasks[number].key
        try:
            kind, content = self.ray.get(reference)
        except self.deadly as error:
            self.deaths[number] += 1
            self.looked = -math.inf  # a node may be gone
            fate = f"{self.work.role} of the Ray cluster was lost ({type(error).__name__})"
            if self.deaths[number] > REPLACED:
                yield Result(key, error=EnlistError(f"{fate}; {self.work.advice}."))
            else:
                LOGGER.warning("%s; another one takes its place and %s.", fate, self.work.again)
                self.waiting.appendleft(number)
            return
        except self.ray.exceptions.RayError as error:  # it could not even begin, and a retry would not help
            yield Result(key, error=EnlistError(f"{self.work.role} of the Ray cluster failed: {_brief(error)}"))
            return
        # Packed by a task of ours; whoever can write into the cluster's memory can run code there anyway.
        yield Result(key, error=content) if kind == "failure" else Result(key, pickle.loads(content))

    def open_mailbox(self) -> None:
        """A mailbox on the node of the driver, or of the head for a client."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(self.ray.get_runtime_context().get_node_id(), soft=True)
        self.mailbox = self.engine._remote(ProgressBuffer, cpus=0.0, gpus=0.0, strategy=here).remote()
        self.mail = self.mailbox.take.remote()

    def read_mail(self) -> None:
        """Pass on what tasks have reported."""
        try:
            messages = self.ray.get(self.mail)
        except self.deadly:
            self.open_mailbox()  # tasks under way send no more reports; their results still come
            return
        self.mail = self.mailbox.take.remote()
        for number, kind, content in messages:
            if kind == "log":
                LOGGER.log(content[0], "%s", content[1])
            elif number in self.flying.values():
                self.tell(self.tasks[number].key, content)

    def end(self) -> None:
        """Cancel everything under way, and wait until it has ended; tasks may clean up before their process ends."""
        if self.engine.head.lost:  # and with it everything under way
            return
        try:
            with contextlib.suppress(self.ray.exceptions.RayError):
                left = list(self.flying)
                for force, patience in ((False, CLEANING), (True, ENDING)):
                    for reference in left:
                        self.ray.cancel(reference, force=force)
                    if left:
                        _, left = self.ray.wait(left, num_returns=len(left), timeout=patience)
        finally:
            if self.mailbox is not None:
                with contextlib.suppress(self.ray.exceptions.RayError):
                    self.ray.kill(self.mailbox)


class RayActor(Actor):
    """An object in a process of the cluster."""

    def __init__(self, engine: RayEngine, role: str, kind: Callable[..., Any], *arguments: Any) -> None:
        self.ray, self.head, self.role, self.reason, self._hopeless = engine.ray, engine.head, role, "was lost", False
        self.handle = engine._remote(Host, max_restarts=0).remote(engine.versions, engine.folder, kind, *arguments)
        self.pending: collections.deque[Any] = collections.deque()

    def tell(self, method: str, *arguments: Any) -> None:
        self.handle.call.remote(method, *arguments)

    def answer(self) -> Any:
        try:
            return self.ray.get(self.pending.popleft())
        except self.ray.exceptions.RayError as error:
            self.dead = True
            text = str(error)
            self._hopeless = "creation task" in text
            cause = [line for line in text.splitlines() if line.startswith("enlist.errors.")]
            self.reason = cause[-1].partition(": ")[2] if cause else f"was lost ({type(error).__name__})"
            return None

    @property
    def hopeless(self) -> bool:
        return self._hopeless

    def fate(self) -> str:
        return f"{self.role} of the Ray cluster {self.reason}"

    def died(self, advice: str) -> Exception:
        return EnlistError(f"{self.fate()}; {advice}.")

    def ask_to_end(self) -> None:
        self.end()

    def end(self, wait: float = 0.0) -> None:
        if not self.head.lost:
            with contextlib.suppress(self.ray.exceptions.RayError):
                self.ray.kill(self.handle)


def _brief(error: BaseException) -> str:
    """The first line of an error, and the last, which gives the cause; for an error in a task only the last."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()] or [type(error).__name__]
    return lines[-1] if type(error).__name__ == "RayTaskError" else " ".join(dict.fromkeys((lines[0], lines[-1])))
