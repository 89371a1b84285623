"""Who is there: waiting for nodes, never longer than agreed, and finding out who strangers are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from enlist.errors import MissingColumnError
from enlist.flower import keys
from enlist.flower.federation import Federation
from enlist.flower.grid import Arrival, NoNodesError, Post
from enlist.flower.replies import LOST, Introduced, error_text, introduced
from enlist.flower.state import LOGGER
from enlist.flower.terms import Terms

LONGEST_INTRODUCTION = 120.0
"""Seconds to wait for nodes to say who they are."""

QUERY = "query"


class Reception:
    """Waits for nodes and makes clients of them.

    needed    nodes that have to be connected before a round begins
    least     nodes that have to be free then
    undercut  which of the two could not be had within `patience` seconds: "connected", "free"
    online    nodes that were connected at the last look
    errors    node -> why it could not say who it is

    >>> from enlist.flower.choosers import Source
    >>> from enlist.flower.fake import FakeGrid
    >>> grid = FakeGrid([11, 12])
    >>> reception = Reception(Federation(Source.of("random", None, None, seed=1)), Terms(k=1), needed=2)
    >>> reception.gather(grid, Post(grid.clock), 1, lambda arrivals: None)
    [11, 12]
    """

    def __init__(self, federation: Federation, terms: Terms, needed: int, least: int = 1) -> None:
        self.federation, self.terms, self.needed, self.least = federation, terms, needed, least
        self.undercut: set[str] = set()
        self.online: set[int] = set()
        self.introductions: dict[int, Introduced] = {}
        self.errors: dict[int, str] = {}
        self.mute = False
        """Whether nobody has answered the question who they are: then it is not asked again without need."""

    def gather(self, grid: Grid, post: Post, number: int, sort: Callable[[list[Arrival]], object]) -> list[int]:
        """The nodes that are connected, as soon as there are enough, and enough of them can be asked.

        After `patience` seconds those that are there have to do, with a warning, and later rounds do not wait again
        until enough were there once; if nobody can be asked then, it is an error. `sort` is given the replies that
        come meanwhile: a late one makes its node free again.
        """
        began, patience = post.clock.monotonic(), self.terms.patience
        while True:
            online = list(dict.fromkeys(grid.get_node_ids()))
            self.online = set(online)
            sort(post.poll(grid))
            waited = post.clock.monotonic() - began
            over = waited >= patience - 1e-6  # so that what is left is never too short to make the clock go on
            if online and (len(online) >= self.needed or over or "connected" in self.undercut):
                strangers = self.welcome(grid, post, number, online, sort)
                free = set(online) - post.busy - set(strangers)
                few_will_do = over or "free" in self.undercut
                if self.terms.shadow or len(free) >= (1 if few_will_do else self.least):
                    self._look_at_floors(len(online), len(free), waited)
                    return online
                if over and set(strangers) >= set(online):
                    raise MissingColumnError(self._unknown(len(strangers)))
            if over:
                raise NoNodesError(self._nobody(len(online), patience))
            if waited < 0.1:
                LOGGER.info("enlist: waiting for nodes: %d connected, %d wanted", len(online), self.needed)
            post.clock.sleep(min(1.0, patience - waited))

    def _look_at_floors(self, online: int, free: int, waited: float) -> None:
        """Say if a round begins with fewer nodes than were to be there."""
        least = 0 if self.terms.shadow else self.least
        for name, count, wanted in (("connected", online, self.needed), ("free", free, least)):
            if count >= wanted:
                self.undercut.discard(name)
                continue
            self.undercut.add(name)
            floor = (
                "min_train_nodes" if name == "free" else "min_nodes" if self.terms.min_nodes else "min_available_nodes"
            )
            text = "enlist: going on with %d nodes that are %s, though %d were wanted (%s), after %.0f s"
            LOGGER.warning(text, count, name, wanted, floor, waited)

    def _nobody(self, connected: int, patience: float) -> str:
        if not connected:
            return (
                f"no node is connected after {patience:g} s; start SuperNodes and check that they reach the SuperLink, "
                "or wait longer: with_selector(..., patience=...)."
            )
        return (
            f"all {connected} connected nodes are still busy with earlier rounds after {patience:g} s; give rounds a "
            "longer deadline, or wait longer: with_selector(..., patience=...)."
        )

    def welcome(
        self, grid: Grid, post: Post, number: int, online: Sequence[int], sort: Callable[[list[Arrival]], object]
    ) -> list[int]:
        """Make clients of strangers, after asking them who they are if that matters; returns those left out."""
        unknown = [node for node in self.federation.nodes.strangers(online) if node not in self.introductions]
        unknown = [node for node in unknown if node not in post.busy]
        if unknown and self._matters(set(online)):
            self._ask(grid, post, number, unknown, sort)
        left_out = self.federation.enrol(online, self.introductions)
        if self.federation.books is None and left_out:
            raise MissingColumnError(self._unknown(len(left_out)))
        return left_out

    def _matters(self, online: set[int]) -> bool:
        if self.terms.identify != "auto":
            return self.terms.identify == "always"
        return bool(self.federation.wanted) or (not self.mute and self.federation.nodes.missing(online))

    def _ask(
        self, grid: Grid, post: Post, number: int, nodes: list[int], sort: Callable[[list[Arrival]], object]
    ) -> None:
        question = RecordDict({keys.RECORD: ConfigRecord({"question": "who are you?"})})
        question["config"] = ConfigRecord()  # mods of the app look into that of every message
        messages = [Message(content=question, dst_node_id=node, message_type=keys.INTRODUCTION) for node in nodes]
        sent = post.send(grid, messages, QUERY, number)
        sort(post.wait(grid, sent, min(LONGEST_INTRODUCTION, self.terms.patience)))
        answers = [self.introductions[node] for node in nodes if node in self.introductions]
        named = sum(answer.name is not None for answer in answers)
        LOGGER.info("enlist: %d of %d new nodes said who they are", named, len(nodes))
        for reason, failed in self._reasons(nodes).items():
            text = "enlist: %d of them answered with an error, node %d first: %s"
            LOGGER.warning(text, len(failed), failed[0], reason)
        self.mute = bool(answers) and not named

    def _reasons(self, nodes: Sequence[int]) -> dict[str, list[int]]:
        """Why nodes could not say who they are -> those nodes."""
        found: dict[str, list[int]] = {}
        for node in nodes:
            if node in self.errors:
                found.setdefault(self.errors[node], []).append(node)
        return found

    def hear(self, arrival: Arrival) -> None:
        """A node has said who it is, or cannot; one that was lost is asked again when it is back."""
        node, reply = arrival.sent.node, arrival.reply
        self.errors.pop(node, None)
        if reply.has_error():
            self.errors[node] = error_text(reply)
            if reply.error.code in LOST:
                return
        self.introductions[node] = told = introduced(reply)
        if told.name is not None and (wrong := self.federation.nodes.identify(node, told.name, self.online)):
            self.federation.events.append(("conflict", node, wrong))

    def _unknown(self, count: int) -> str:
        names = " and ".join(sorted(self.federation.wanted))
        given = ", ".join(f"{name}=..." for name in sorted(self.federation.wanted))
        quoted = next((f" (node {node} answered: {reason})" for node, reason in self.errors.items()), "")
        return (
            f"selector '{self.federation.source.name}' needs {names} of clients before it can choose among them, and "
            f'none of {count} nodes told{quoted}; let the ClientApp answer with @app.query("enlist") and '
            f"enlist.flower.client.introduction(message, context, {given}), or pass what is known of clients: "
            f"with_selector(..., clients=enlist.Clients(ids=..., {given}))."
        )
