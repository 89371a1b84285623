"""A plain-Python Oort, as its public code bases are written: one dict per client, lists and sorts.

It has the scores, cut-off and shares of `enlist.selectors.oort`, but no pacer and no retirement, and shows what arrays
are worth.
"""

from __future__ import annotations

import math
import random


class PlainOort:
    """Ask/tell on dictionaries."""

    def __init__(self, sizes: list[float], seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.clients = [{"size": size, "utility": None, "duration": None, "last": 0} for size in sizes]
        self.exploration, self.round = 0.9, 0

    def ask(self, available: list[int], k: int) -> list[int]:
        self.round += 1
        self.exploration = max(self.exploration * 0.98, 0.2)
        heard = [i for i in available if self.clients[i]["utility"] is not None]
        unheard = [i for i in available if self.clients[i]["utility"] is None]
        durations = sorted(c["duration"] for c in self.clients if c["duration"] is not None)
        preferred = durations[int(0.3 * len(durations))] if durations else math.inf
        scores = self._scores(heard, preferred)
        slots = min(int(k * (1.0 - self.exploration)), len(heard))
        chosen = self._exploit(scores, slots)
        chosen += self._draw([(1.0, i) for i in unheard], min(k - len(chosen), len(unheard)))
        taken = set(chosen)
        rest = [i for i in available if i not in taken]
        return chosen + self.random.sample(rest, min(k - len(chosen), len(rest)))

    def tell(self, chosen: list[int], latency: list[float], loss: list[float]) -> None:
        for client, seconds, value in zip(chosen, latency, loss, strict=True):
            record = self.clients[client]
            record["utility"], record["duration"], record["last"] = record["size"] * value, seconds, self.round

    def _scores(self, heard: list[int], preferred: float) -> dict[int, float]:
        if not heard:
            return {}
        utilities = sorted(self.clients[i]["utility"] for i in heard)
        ceiling = utilities[min(int(0.95 * len(utilities)), len(utilities) - 1)]
        floor = 0.999 * utilities[0]
        spread = max(utilities[-1] - floor, 1e-4)
        scores = {}
        for i in heard:
            client = self.clients[i]
            score = (min(client["utility"], ceiling) - floor) / spread
            score += math.sqrt(0.1 * math.log(max(self.round, 2)) / max(client["last"], 1))
            if client["duration"] > preferred:
                score *= (preferred / client["duration"]) ** 2.0
            scores[i] = score
        return scores

    def _exploit(self, scores: dict[int, float], slots: int) -> list[int]:
        if not slots:
            return []
        ranked = sorted(scores, key=lambda i: -scores[i])
        limit = 0.95 * scores[ranked[slots - 1]]
        return self._draw([(max(scores[i], 1e-12), i) for i in ranked if scores[i] >= limit], slots)

    def _draw(self, weighted: list[tuple[float, int]], count: int) -> list[int]:
        keyed = sorted((self.random.expovariate(1.0) / weight, i) for weight, i in weighted)
        return [i for _, i in keyed[:count]]
