"""`with_selector`: the one line that changes in a Flower app."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, cast

from flwr.serverapp.strategy import Strategy

from enlist._internal import aliases
from enlist.bandits.sketches import NUMBERS
from enlist.clients import Clients
from enlist.contract import Selector
from enlist.errors import InputError
from enlist.flower import privacy, strategies
from enlist.flower.replies.updates import Weighting
from enlist.flower.rounds.round import Hook
from enlist.flower.saving.folder import refuse_packed
from enlist.flower.selecting import Selecting
from enlist.flower.selector import Function, SelectorSource
from enlist.flower.terms import Policy, Terms
from enlist.selectors import AnyMethod


def with_selector(
    strategy: Strategy,
    selector: AnyMethod | Selector[Any, Any] | Function = "tempo",
    k: int = 10,
    *,
    settings: Mapping[str, Any] | None = None,
    preset: str | None = None,
    seed: int = 0,
    clients: Clients | None = None,
    deadline: float | Policy | None = None,
    over_commit: float = 1.0,
    late: str = "learn",
    staleness: Weighting | None = None,
    min_nodes: int | None = None,
    min_replies: int = 1,
    warn_without_update: int = 3,
    stop_without_update: int | None = None,
    patience: float = 600.0,
    identify: str = "auto",
    keys: Mapping[str, str] | None = None,
    clip: float | None = 0.9,
    most_often: float | None = 3.0,
    folder: str | PathLike[str] | None = None,
    resume: bool | None = None,
    save_every: int = 1,
    shadow: bool = False,
    poll: float = 1.0,
    accept_changes: bool = False,
    reasons: bool = True,
    on_round: Hook | None = None,
    mode: str = "synchronous",
    concurrency: int | None = None,
    buffer: int | None = None,
    max_staleness: int | None = None,
    secure_aggregation: bool = False,
    sketch: int = NUMBERS,
    overcommit: float | None = None,
) -> Selecting:
    """Let a selector choose the nodes that a Flower strategy trains with.

    strategy    FedAvg or anything derived from it, or a wrapper around one, configured as you like; it is copied, and
                its attributes can be read and set on the returned object. A strategy of the old API gives a
                `legacy.LegacySelecting`, which can do less; see there
    selector    a method in any form ("oort", "oort+penalty=1", "mine:Own", a class, `Oort.with_(penalty=1.0)`),
                optionally with `settings`, `preset` and `seed`; a configured `enlist.Selector`; or a function (table,
                k) -> rows of the table of selectable clients. "tempo" needs only latency, which the server measures, so
                clients need no changes
    k           replies needed in a round
    clients     what is known of clients up front, with the names that they report as ids
    deadline    seconds that a round waits, or a policy (`Percentile`, `MovingAverage`, any function (round, recent) ->
                seconds); without one, the `timeout` of `start`, which it never exceeds
    over_commit
                select this many times k nodes, and end the round after k usable replies
    late        what to do with late replies: "drop"; "learn": the selector learns from them; "merge": they also enter
                the model, weighted by `staleness` ("equal", "dynsgd" by default, "adasgd", "polynomial", "refl", or a
                function of the number of rounds they are late)
    min_nodes   nodes that must be connected before a round begins; by default the strategy's min_available_nodes
    min_replies
                with fewer usable replies, a round leaves the model unchanged
    warn_without_update
                after this many rounds in a row without an update of the model, the log warns and says why
    stop_without_update
                after this many, the run ends with an error; None never ends it
    patience    seconds to wait for nodes, and for min_train_nodes of them (k if that is less) to be free; then the
                nodes that are there are used, and the log warns
    identify    whether to ask new nodes who they are before selecting them: "always", "never", or "auto": if the
                selector needs to know more about them, or if one of them may be a known client
    keys        the app's own MetricRecord keys for values that Enlist reads, as {"loss_rms": "train_loss"}
    clip        claims are clipped at this quantile of other clients' claims; None accepts all possible values
    most_often  no client gets more than this many times an even share of the requests in the last 20 rounds, whatever
                it claims; None sets no limit
    folder      where tables and checkpoints are written; an existing run is resumed. Keep it outside the app's own
                folder, which Flower sends to every node
    resume      True requires a run in `folder`, False forbids one
    save_every  rounds between checkpoints
    shadow      Flower's own sampling decides, and the selector only records what it would have selected
    poll        longest pause between two polls for replies, in seconds
    accept_changes
                resume even if files of `folder` were edited after they were written; otherwise this is refused
    reasons     record in `folder` why nodes were selected: reasons.csv, of at most 50 MB
    on_round    called after every round with its `RoundResult`: the model, the metrics, and the counts of outcomes; a
                resumed run calls it again for rounds after its last checkpoint
    mode        "synchronous", or "buffered" (FedBuff): nodes are replaced as they reply, and a round is a step of the
                server from the first `buffer` updates (k by default), each scaled by `staleness` (in this mode
                "polynomial" by default: 1 / sqrt(1 + steps)); `deadline` applies to each node
    concurrency
                most nodes at work at once in buffered mode; k times `over_commit` by default
    max_staleness
                an update is counted and discarded if the server has made more steps than this since its node was
                selected; None keeps all
    secure_aggregation
                refuse a selector that needs values of single clients, before anything runs; under SecAgg+ of the old
                API such a selector is refused anyway, with the first results
    sketch      length of the sketch of an update, for selectors that need one: inner products of sketches approximate
                those of updates with an error of sqrt(2 / sketch) times their lengths
    overcommit  the former spelling of `over_commit`

    >>> import numpy as np
    >>> from flwr.app import ArrayRecord
    >>> from flwr.serverapp.strategy import FedAvg
    >>> from enlist.flower.fake import FakeReply, FakeGrid
    >>> grid = FakeGrid(range(11, 31), lambda message: FakeReply(seconds=float(message.metadata.dst_node_id)))
    >>> strategy = with_selector(FedAvg(fraction_evaluate=0.0), "bsfl", k=5, deadline=25.0)
    >>> strategy.clock = grid.clock
    >>> result = strategy.start(grid=grid, initial_arrays=ArrayRecord([np.zeros(2)]), num_rounds=30)
    >>> counts = strategy.selector.counts.selected
    >>> int(counts[:10].sum()) > int(counts[10:].sum())
    True
    """
    if overcommit is not None:
        if over_commit != 1.0:
            raise InputError(
                f"over_commit is {over_commit} and overcommit, its former spelling, {overcommit}; give one."
            )
        aliases.warn("overcommit=", "over_commit=")
        over_commit = overcommit
    terms = Terms(
        k=k,
        deadline=deadline,
        over_commit=over_commit,
        late=late,
        staleness=staleness,
        min_nodes=min_nodes,
        min_replies=min_replies,
        warn_without_update=warn_without_update,
        stop_without_update=stop_without_update,
        patience=patience,
        identify=identify,
        keys=keys,
        clip=clip,
        most_often=most_often,
        folder=folder,
        resume=resume,
        save_every=save_every,
        shadow=shadow,
        poll=poll,
        accept_changes=accept_changes,
        reasons=reasons,
        on_round=on_round,
        mode=mode,
        concurrency=concurrency,
        buffer=buffer,
        max_staleness=max_staleness,
        secure_aggregation=secure_aggregation,
        sketch=sketch,
    )
    old = hasattr(strategy, "configure_fit") and not strategies.is_strategy(strategy) and not isinstance(strategy, type)
    if old:
        from enlist.flower import legacy  # here, because it imports Flower's old server

        legacy.check(strategy, terms)
    else:
        strategies.check(strategy, terms)
        privacy.check(strategy, terms)
    if terms.folder is not None:
        refuse_packed(terms.folder)
    source = SelectorSource.of(selector, settings, preset, seed)
    if terms.secure_aggregation:
        privacy.check_secure(source)
    if old:
        return cast(Selecting, legacy.LegacySelecting(strategy, source, terms, clients))
    return Selecting(strategy, source, terms, clients)
