"""Hostile clients: who they are, what they do to their samples, what they send, and what they claim.

Who is hostile is drawn from a stream of its own, the same for every selector; what they do is a pure function of seed,
round, client and their own updates, so runs can be killed, resumed, and trained by any number of workers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pydantic
import scipy
import torch
from torch import Tensor

from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.data import Samples
from enlist.simulation.groups import GroupOptions, members
from enlist.streams import Streams
from enlist.training import attacks
from enlist.training.attacks import Attack
from enlist.training.flat import Layout, Vectors
from enlist.training.local import Report, TrainingTask

Train = Callable[[Sequence[TrainingTask]], Iterator[tuple[Report, Vectors]]]
Spoiled = dict[int, tuple[tuple[int, int], ...]]
"""Client -> (first round, start of its samples from that round on), in order."""

MOST_Z = 3.0
"""Colluding clients that are a majority already need not stay closer to the mean than this."""


class HostileOptions(Attack, GroupOptions):
    """Which clients are hostile, what they do, and from which round on.

    >>> sorted(HostileOptions.model_fields)
    ['clients', 'from_round', 'group', 'kind', 'share']
    """

    def act(self, update: Vectors, task: TrainingTask, streams: Streams) -> None:
        """Change an update in place before it is sent."""
        self.distort(update)

    def claim(self, report: Report) -> Report:
        """What the client claims to have measured."""
        return report


class LabelFlip(attacks.LabelFlipAttack, HostileOptions):
    """Trains on wrong labels: of two classes the other one, of more any other; in a regression, noise on the targets.

    >>> LabelFlip(share=0.3).rate
    1.0
    """

    rate: float = pydantic.Field(1.0, gt=0, le=1, description="Share of a client's labels that is wrong.")

    @property
    def wrong(self) -> float:
        """The rate."""
        return self.rate


class NoiseFeatures(attacks.NoiseFeaturesAttack, HostileOptions):
    """Trains on noisy inputs: Gaussian noise, `scale` times as wide as each input varies in the client's samples.

    >>> NoiseFeatures(clients=[3]).scale
    3.0
    """


class SignFlip(attacks.SignFlipAttack, HostileOptions):
    """Sends its update with the sign flipped, `factor` times as long.

    >>> SignFlip(share=0.3, factor=10.0).kind
    'sign-flip'
    """


class Scaled(attacks.ScaledAttack, HostileOptions):
    """Sends its update `factor` times as long.

    >>> Scaled(share=0.3).factor
    10.0
    """


class Noise(HostileOptions):
    """Adds Gaussian noise to every number of its update.

    >>> update = Vectors(torch.zeros(10_000), torch.zeros(0), torch.zeros(0))
    >>> Noise(share=0.3, sigma=0.5).act(update, TrainingTask(3, 0, 1, 1, 1, 0, 0), Streams(1))
    >>> round(update.parameters.std().item(), 1)
    0.5
    """

    kind: Literal["noise"] = "noise"
    sigma: float = pydantic.Field(1.0, gt=0, le=1e30, description="Standard deviation of the noise.")

    def act(self, update: Vectors, task: TrainingTask, streams: Streams) -> None:
        """Add the noise of (round, client)."""
        generator = streams.generator("hostile noise", task.round, task.client)
        noise = generator.standard_normal(len(update.parameters), dtype=np.float32)
        update.parameters.add_(torch.from_numpy(noise), alpha=self.sigma)


class Replay(HostileOptions):
    """Sends its first update again and again.

    >>> Replay(share=0.3, from_round=5).from_round
    5
    """

    kind: Literal["replay"] = "replay"


class NotANumber(attacks.NotANumberAttack, HostileOptions):
    """Sends nothing but NaN.

    >>> NotANumber(share=0.3).kind
    'nan'
    """


class Infinite(attacks.InfiniteAttack, HostileOptions):
    """Sends nothing but infinities.

    >>> Infinite(share=0.3).kind
    'infinity'
    """


class Huge(attacks.HugeAttack, HostileOptions):
    """Sends finite numbers so large that a sum of them overflows.

    >>> Huge(share=0.3).value
    3e+38
    """


class FalseReport(HostileOptions):
    """Trains honestly, but lies about what it measured; selector and server believe it, the clock does not.

    A lie about samples changes the weight of the update, and in the first round the sizes that are known up front.

    >>> FalseReport(share=0.3, about="loss", factor=10.0).claim(Report(loss=0.5, loss_rms=0.6)).loss
    5.0
    """

    kind: Literal["lie"] = "lie"
    about: Literal["loss", "num_examples", "latency", "accuracy"] = pydantic.Field(
        "loss", description="What it lies about; 'accuracy' is about the accuracy and its gain."
    )
    factor: float = pydantic.Field(10.0, ge=0, le=1e30, description="The truth is multiplied by this.")
    value: float | None = pydantic.Field(None, ge=0, le=1e30, description="It always says this, whatever the truth.")

    def told(self, truth: float) -> float:
        """The value that it reports; what it has not measured, it does not report."""
        return truth if math.isnan(truth) else self.factor * truth if self.value is None else self.value

    def claim(self, report: Report) -> Report:
        """The report, with the lie."""
        names = {
            "loss": ("loss", "loss_rms", "loss_after"),
            "num_examples": ("num_examples",),
            "accuracy": ("accuracy", "accuracy_gain"),
            "latency": (),
        }[self.about]
        most = 1.0 if self.about == "accuracy" else math.inf
        claims: dict[str, Any] = {name: min(self.told(getattr(report, name)), most) for name in names}
        return report._replace(**claims)


class Collude(HostileOptions):
    """All clients of the table whose updates come in together send the same vector, made from their own updates.

    inner-product   -factor * mean. Xie, Koyejo, Gupta: Fall of Empires: Breaking Byzantine-tolerant SGD by Inner
                    Product Manipulation, UAI 2019.
    little          mean - z * standard deviation, of every number. Baruch, Baruch, Goldberg: A Little Is Enough:
                    Circumventing Defenses for Distributed Learning, NeurIPS 2019. If z is not given, it is the paper's:
                    with n updates, m of them colluding, and s = floor(n / 2 + 1) - m, Φ(z) = (n - m - s) / (n - m).

    >>> round(Collude(share=0.3, how="little").distance(10, 3), 3)  # Φ(z) = 4 / 7
    0.18
    """

    kind: Literal["collude"] = "collude"
    how: Literal["inner-product", "little"] = pydantic.Field(
        "inner-product", description="Push against the mean, or move it too little to be noticed."
    )
    factor: float = pydantic.Field(
        1.0, gt=0, le=1e30, description="inner-product: the mean is multiplied by minus this."
    )
    z: float | None = pydantic.Field(
        None, ge=0, le=100, description="little: distance from the mean in standard deviations."
    )

    def distance(self, updates: int, colluding: int) -> float:
        """z for this number of updates, with this number of colluding clients among them."""
        if self.z is not None:
            return self.z
        honest = updates - colluding
        needed = updates // 2 + 1 - colluding
        if needed <= 0:
            return MOST_Z
        return min(max(float(scipy.stats.norm.ppf((honest - needed) / honest)), 0.0), MOST_Z)

    def agreed(self, updates: Sequence[Tensor], count: int) -> Tensor:
        """The update that all of them send, if the updates of `count` clients come in together."""
        own = torch.stack(list(updates))
        mean = own.mean(dim=0)
        if self.how == "inner-product":
            return mean.mul_(-self.factor)
        return mean.sub_(own.std(dim=0, correction=0), alpha=self.distance(count, len(updates)))


AnyHostile = Annotated[
    LabelFlip
    | NoiseFeatures
    | SignFlip
    | Scaled
    | Noise
    | Replay
    | NotANumber
    | Infinite
    | Huge
    | FalseReport
    | Collude,
    pydantic.Field(discriminator="kind"),
]
"""Type of a field that holds any table of hostile clients."""


class HostileClients:
    """Which clients of a population are hostile, and what follows from it. False if none is.

    >>> hostility = HostileClients([SignFlip(share=0.2), FalseReport(share=0.1)], 10, Streams(1))
    >>> hostility.kinds().tolist()
    ['', '', '', 'sign-flip', 'lie', '', '', '', 'sign-flip', '']
    >>> bool(HostileClients([], 10, Streams(1)))
    False
    """

    def __init__(self, tables: Sequence[HostileOptions], count: int, streams: Streams) -> None:
        self.tables, self.count, self.streams = tuple(tables), count, streams
        self.first: dict[int, Vectors] = {}
        self.by_client: dict[int, list[int]] = {}
        """Client -> numbers of its tables, as equal tables may apply to different clients."""
        who = members(self.tables, count, streams.generator("hostile"), "hostile")
        for number, clients in enumerate(who):
            for client in clients.tolist():
                self.by_client.setdefault(client, []).append(number)

    def __bool__(self) -> bool:
        return bool(self.tables)

    def of(self, client: int, round: int) -> list[HostileOptions]:
        """The tables that apply to a client selected in this round."""
        return [self.tables[number] for number in self._numbers(client, round)]

    def _numbers(self, client: int, round: int) -> list[int]:
        return [number for number in self.by_client.get(client, ()) if round >= self.tables[number].from_round]

    def kinds(self) -> AnyArray:
        """What every client does, (N,); empty for honest ones."""
        named = {client: " ".join(self.tables[n].kind for n in numbers) for client, numbers in self.by_client.items()}
        return np.array([named.get(client, "") for client in range(self.count)])

    def spoil(self, held: Samples, offsets: IntArray, classes: int) -> tuple[Samples, Spoiled]:
        """The samples with spoiled copies appended, and where each client's copies begin."""
        parts, places, end = [held], {}, len(held)
        for client in sorted(self.by_client):
            own = held.take(np.arange(offsets[client], offsets[client + 1]))
            starts: list[tuple[int, int]] = []
            for number in sorted(self.by_client[client], key=lambda number: self.tables[number].from_round):
                table = self.tables[number]
                if type(table).spoil is not Attack.spoil:
                    luck = Streams(self.streams.number("hostile samples", number))
                    own = table.spoil(own, client, classes, luck)
                    parts.append(own)
                    starts.append((table.from_round, end))
                    end += len(own)
            if starts:
                places[client] = tuple(starts)
        if not places:
            return held, {}
        x = np.concatenate([part.x.astype(held.x.dtype, copy=False) for part in parts])
        return Samples(x, np.concatenate([part.y.astype(held.y.dtype, copy=False) for part in parts])), places

    def sent(
        self,
        tasks: Sequence[TrainingTask],
        train: Train,
        layout: Layout | None = None,
        asked_in: Callable[[int], int] = int,
    ) -> Iterator[tuple[Report, Vectors]]:
        """What the server receives from the clients of these tasks, in order; valid until the next one is taken.

        `asked_in` maps the number of a selection to its round.
        """
        plotted = self._plotted(tasks, train, asked_in)
        others = train([task for task in tasks if (task.client, task.round) not in plotted])
        for task in tasks:
            report, update = plotted.get((task.client, task.round)) or next(others)
            tables = [] if report.error else self.of(task.client, asked_in(task.round))
            if tables:
                update = update.clone()  # the trainer's memory is used again, and not all of it is overwritten
            for table in tables:
                if isinstance(table, Replay):
                    update.copy_(self.first.setdefault(task.client, update.clone()))
                else:
                    table.act(update, task, self.streams)
                report = table.claim(report)
            if tables and layout is not None:
                layout.clear_gaps(update)
            yield report, update

    def _plotted(
        self, tasks: Sequence[TrainingTask], train: Train, asked_in: Callable[[int], int]
    ) -> dict[tuple[int, int], tuple[Report, Vectors]]:
        """What colluding clients send; they train first, because they must know each other's updates."""
        found: dict[tuple[int, int], tuple[Report, Vectors]] = {}
        for number, table in enumerate(self.tables):
            if not isinstance(table, Collude):
                continue
            mine = [task for task in tasks if number in self._numbers(task.client, asked_in(task.round))]
            mine = [task for task in mine if (task.client, task.round) not in found]
            answers = [(report, update.clone()) for report, update in train(mine)]
            good = [update.parameters for report, update in answers if not report.error]
            if good:
                agreed = table.agreed(good, len(tasks))
                for report, update in answers:
                    if not report.error:
                        update.parameters.copy_(agreed)
            found |= {(task.client, task.round): answer for task, answer in zip(mine, answers, strict=True)}
        return found

    def told(self, about: str, truth: AnyArray, clients: IntArray, round: int) -> FloatArray:
        """What clients selected in this round report for a value."""
        told = np.array(truth, dtype=float)
        for place, client in enumerate(clients.tolist()):
            for table in self.of(client, round):
                if isinstance(table, FalseReport) and table.about == about:
                    told[place] = table.told(float(told[place]))
        return told

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint holds: the updates that are replayed."""
        return {
            f"hostile/{client}/{part}": getattr(update, part)
            for client, update in sorted(self.first.items())
            for part in ("parameters", "buffers", "counters")
        }

    def restore(self, tensors: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        clients = {int(name.split("/")[1]) for name in tensors if name.startswith("hostile/")}
        parts = ("parameters", "buffers", "counters")
        self.first = {
            client: Vectors(*(tensors[f"hostile/{client}/{part}"] for part in parts)) for client in sorted(clients)
        }
