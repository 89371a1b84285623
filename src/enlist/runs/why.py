"""Why a client was selected in a round, or was not: from the tables of a run, and only what they tell."""

from __future__ import annotations

import contextlib
import dataclasses
import html
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from enlist._internal import checks, files
from enlist._internal.text import printable
from enlist._internal.typing import AnyArray, BoolArray, IntArray
from enlist.errors import InputError
from enlist.runs.columns import LARGEST
from enlist.runs.frames import frame
from enlist.runs.reasons import OWN
from enlist.runs.scores import first_rows
from enlist.runs.tables import RunTables, Table

HIGHER = frozenset({
    "bonus", "diagonal", "generalisation", "inclusion", "loss", "mean", "probability", "queue", "share", "size",
    "speed", "staleness", "utility", "validity", "value", "weight", "width",
})  # fmt: skip
"""Terms of our selectors that count in favour of a client if they are high."""
LOWER = frozenset({"availability", "duration", "latency", "update", "upload"})
"""Terms that count in favour of a client if they are low."""
APART = frozenset({"score", "exploited", "tier", "rate", "chosen_before"})
"""Sums of other terms, and marks: they do not make a client stand out."""
PASSING = frozenset({"bonus", "queue", "staleness", "width"})
"""Terms that change while a client is not chosen: their last values say nothing about now."""
CLEAR = 0.5
"""Standard deviations from the mean of the chosen clients at which a client stands out by a term; twice as many for
a term whose direction is not known."""
FEW = 12
"""Up to this many clients of a round get a sentence each."""


@dataclasses.dataclass(frozen=True, eq=False)
class ChoiceExplanation:
    """What is known about a choice: one row per selected client, and an explanation in words.

    Parameters
    ----------
    round : int
        The round that it explains.
    columns : mapping of str to array
        client, its name if it has one, how often it was selected before, its outcome, and the terms of the choice.
    sentences : tuple of str
        About the round and its clients, or about the one client in question.

    >>> from enlist.runs.example import example_run
    >>> why(example_run("oort"), 5, client=0)
    round 5
      client  selected before    outcome  speed
           0                4  completed   9.38
    Round 5: oort selected 4 of 9 available clients.
    Client 0 was chosen because its speed was high: 9.38, the highest of the 4 chosen; it had been selected 4 times
    in the 4 rounds before, last in round 4.
    """

    round: int
    columns: Mapping[str, AnyArray]
    sentences: tuple[str, ...]

    @property
    def table(self) -> Any:
        """The rows as a data frame."""
        return frame(self.columns)

    def rows(self) -> list[list[str]]:
        """The rows as text, the header first."""
        cells = [[name.replace("_", " "), *map(_cell, values.tolist())] for name, values in self.columns.items()]
        return [list(row) for row in zip(*cells, strict=True)]

    def __repr__(self) -> str:
        rows = self.rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  " + "  ".join(map(str.rjust, row, widths)) for row in rows] if len(rows) > 1 else []
        return "\n".join([f"round {self.round}", *lines, *self.sentences])

    def _repr_html_(self) -> str:
        rows = self.rows()
        lines = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
        told = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.sentences)
        return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>{told}"


def why(run: RunTables, round: int, client: int | str | None = None) -> ChoiceExplanation:
    """Why clients were selected in a round; or why one of them was, or was not.

    Parameters
    ----------
    run : RunTables
        A simulation or a real federation, possibly in progress.
    round : int
        1, 2, ...
    client : int or str, optional
        Its position, or its user id; "user:7" for an id that looks like a position.

    >>> from enlist.runs.example import example_run
    >>> print(*why(example_run("oort"), 5, client=7).sentences[1:])
    Client 7 was not chosen: 9 of 12 clients were available, and which ones is not recorded. If it was, it was not among
    the 4 that oort preferred. It had been selected twice in the 4 rounds before, last in round 3.
    >>> why(example_run("oort"), 9)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: round 9 is not in oort, seed 0; it has rounds 1 to 8.
    """
    number = checks.whole("round", round, minimum=0)
    choice = _Choice(run, number)
    if client is None:
        each = range(len(choice.asked)) if len(choice.asked) <= FEW else ()
        return ChoiceExplanation(number, choice.columns(), (choice.told(), *(choice.because(place) for place in each)))
    row = row_of(run, client)
    place = np.flatnonzero(choice.asked == row)
    if not len(place):
        columns = {name: values[:0] for name, values in choice.columns().items()}
        return ChoiceExplanation(number, columns, (choice.told(), choice.not_chosen(row)))
    columns = {name: values[place] for name, values in choice.columns().items()}
    return ChoiceExplanation(number, columns, (choice.told(), choice.because(int(place[0]))))


class _Choice:
    """One round: who was selected (rows of the clients table), with what terms, and what happened before."""

    def __init__(self, run: RunTables, number: int) -> None:
        self.run, self.number = run, number
        known = run.rounds["round"]
        if number not in known:
            has = f"rounds {known[0]:g} to {known[-1]:g}" if len(known) else "no finished round yet"
            raise InputError(f"round {number} is not in {run.folder or run.name}; it has {has}.")
        self.row = {
            name: int(np.nan_to_num(run.rounds[name][known == number][0])) for name in ("selected", "available")
        }
        self.selector = printable(run.selector, 80)
        told = run.participations
        self.mine: BoolArray = (told["selected_in"] == number) & first_rows(run)
        self.asked: IntArray = run.who[self.mine]
        earlier = told["selected_in"] < number
        self.earlier = np.unique(np.stack([run.who[earlier], told["selected_in"][earlier].astype(np.int64)]), axis=1)
        self.before: IntArray = np.bincount(self.earlier[0], minlength=run.count)
        self.terms = self._terms()

    def _terms(self) -> Table:
        """Terms of the selected clients, in their order; none if the selector had nothing to choose by."""
        kept = self.run.reasons
        if not kept:
            self._check_kept()
            return {}
        mine = kept["round"] == self.number
        names = [name for name in kept if name not in OWN]
        places: dict[int, list[int]] = {}  # an asynchronous server may select a client twice before it steps
        for index, client in enumerate(kept["client"][mine].tolist()):
            places.setdefault(client, []).append(index)
        asked = self.run.clients["client"][self.asked].tolist()
        order = [places[client].pop(0) if places.get(client) else -1 for client in asked]
        if not mine.any():
            return {}
        return {printable(name, 40): np.append(kept[name][mine], np.nan)[order] for name in names}

    def _check_kept(self) -> None:
        """Refuse a run that keeps no reasons, unless there were none."""
        run = self.run
        evaluation = run.config.get("evaluation")
        off = isinstance(evaluation, Mapping) and evaluation.get("reasons") is False
        if not off and (self._plain or self._watched or self._everybody or run.asynchronous):
            return
        cause = "evaluation.reasons is false" if off else "an earlier version wrote it, or they were switched off"
        raise InputError(
            f"{run.folder or run.name} keeps no reasons: {cause}. Run it again with them; participations.csv says who "
            "was selected."
        )

    @property
    def _plain(self) -> bool:
        section = self.run.config.get("selector")
        return (section.get("name") if isinstance(section, Mapping) else section) == "random"

    @property
    def _watched(self) -> bool:
        """Whether the selector only watched (Flower's shadow mode)."""
        return self.run.federation and self.run.config.get("shadow") is True

    @property
    def _everybody(self) -> bool:
        return not self.run.asynchronous and self.row["selected"] >= self.row["available"]

    def columns(self) -> dict[str, AnyArray]:
        """A row per selected client."""
        run = self.run
        found: dict[str, AnyArray] = {"client": run.clients["client"][self.asked].astype(np.int64)}
        if run.names is not None:
            found["user"] = run.names[self.asked]
        found["selected_before"] = self.before[self.asked]
        return {**found, "outcome": run.participations["outcome"][self.mine], **self.terms}

    def told(self) -> str:
        """The round in a sentence."""
        asked, available = self.row["selected"], self.row["available"]
        who = "Flower's sampling" if self._watched else self.selector
        line = f"Round {self.number}: {who} selected {asked:,} of {available:,} available clients"
        if self.run.asynchronous and asked > len(self.asked):
            more = asked - len(self.asked)
            line += f" ({more:,} {'is not shown: its' if more == 1 else 'are not shown: their'} outcome is not known)"
        if self.terms or not asked:
            return f"{line}."
        if self._everybody:
            return f"{line}, all of them."
        if self._watched:
            return f"{line}; {self.selector} only watched (shadow mode)."
        if self._plain:
            return f"{line}, drawn with equal probabilities."
        if self._full:
            return f"{line}; reasons.csv was full before this round, so the terms of its choice are not kept."
        return f"{line} without weighing them: it drew them at random, or needed all clients that were not busy."

    @property
    def _full(self) -> bool:
        path = None if self.run.folder is None else self.run.folder / "reasons.csv"
        size = path.stat().st_size if path is not None and files.has_file(path) else 0
        return size >= LARGEST["reasons.csv"] and self.number > self.run.reasons["round"].max(initial=0)

    def because(self, place: int) -> str:
        """Why the client at a place among the selected ones was chosen."""
        row = int(self.asked[place])
        name, history = self.name(row), self.history(row)
        if not self.terms:
            return f"{name} was chosen like all the others; {history}."
        values = {term: float(column[place]) for term, column in self.terms.items()}
        if values.get("exploited") == 0.0:
            return f"{name} was drawn to explore, not for its score; {history}."
        term, distance = self._standing_out(place)
        if not term:
            known = {_words(term): value for term, value in values.items() if math.isfinite(value)}
            shown = ", ".join(f"{words} {_cell(value)}" for words, value in known.items())
            told = f" ({shown})" if shown else ""
            return f"{name} was chosen; it does not stand out among those chosen{told}; {history}."
        column = self.terms[term]
        level = "high" if distance > 0 else "low"
        best = np.nanmax(column) if distance > 0 else np.nanmin(column)
        chosen = f"of the {len(self.asked)} chosen"
        mean = _cell(float(np.nanmean(column)))
        rank = f"the {level}est {chosen}" if values[term] == best else f"where the mean {chosen} is {mean}"
        words, value = _words(term), _cell(values[term])
        if term in HIGHER | LOWER:
            return f"{name} was chosen because its {words} was {level}: {value}, {rank}; {history}."
        return f"{name} was chosen; what stands out is its {words} of {value}, {rank}; {history}."

    def _standing_out(self, place: int) -> tuple[str, float]:
        """The term by which a client differs most in its favour from the others that were chosen."""
        found: dict[str, float] = {}
        for term, column in self.terms.items():
            known = column[np.isfinite(column)]
            spread = float(known.std()) if len(known) > 1 else 0.0
            alike = spread <= 1e-9 * float(np.abs(known).max(initial=0.0))
            if term in APART or alike or not np.isfinite(column[place]):
                continue
            distance = (float(column[place]) - float(known.mean())) / spread
            if not (term in HIGHER and distance < 0) and not (term in LOWER and distance > 0):
                found[term] = distance
        clear = {name: abs(far) / (1 if name in HIGHER | LOWER else 2) for name, far in found.items()}
        term = max(clear, key=lambda name: clear[name], default="")
        return (term, found[term]) if term and clear[term] >= CLEAR else ("", 0.0)

    def not_chosen(self, row: int) -> str:
        """What is known about why a client was not selected."""
        name, away = self.name(row), ""
        with contextlib.suppress(LookupError, TypeError, ValueError, AttributeError):  # for a folder that was edited
            away = self._away(row)
        if away:
            return f"{name} was not chosen: {away}."
        busy, asked = self._busy(row), self.row["selected"]
        history = f"{self.history(row)[0].upper()}{self.history(row)[1:]}."
        there, count = self.row["available"], self.run.count
        how = (
            f"drawn among the {asked}"
            if self._plain or self._watched
            else f"among the {asked} that {self.selector} preferred"
        )
        if busy:
            return f"{name} was not chosen: {busy}. {history}"
        if there >= count:
            reason = f"all {count:,} clients were available, and it was not {how}"
        else:
            reason = f"{there:,} of {count:,} clients were available, and which ones is not recorded"
            reason += f". If it was, it was not {how}" if there > asked else "; all of these were selected"
        return f"{name} was not chosen: {reason}. {history}{self._behind(row)}"

    def _behind(self, row: int) -> str:
        """The term by which a client was furthest behind all chosen clients, when it was last chosen itself."""
        kept, found = self.run.reasons, []
        if not self.terms:
            return ""
        mine = np.flatnonzero((kept["client"] == self.run.clients["client"][row]) & (kept["round"] < self.number))
        if not len(mine):
            return ""
        for term, column in self.terms.items():
            had, known = float(kept[term][mine[-1]]) if term in kept else math.nan, column[np.isfinite(column)]
            sign = 1 if term in HIGHER - PASSING else -1 if term in LOWER | {"seconds"} else 0
            short = sign * (float((sign * known).min(initial=math.inf)) * sign - had)
            if sign and math.isfinite(short) and short > 0:
                found.append((short / (abs(had) + float(np.abs(known).max())), term, had, known))
        if not found:
            return ""
        _, term, had, known = max(found, key=lambda each: each[0])
        between = " to ".join(dict.fromkeys((_cell(float(known.min())), _cell(float(known.max())))))
        said = f" When it was last chosen, in round {kept['round'][mine[-1]]:g}, its {_words(term)} was {_cell(had)}"
        return f"{said}; those chosen in round {self.number} had {between}."

    def _away(self, row: int) -> str:
        """Why a client was not in the population at that time, according to the configuration."""
        membership = self.run.config.get("membership")
        if not isinstance(membership, Mapping):
            return ""
        joins, leaves = membership.get("joins") or (), membership.get("leaves") or ()
        first = self.run.count - sum(join["clients"] for join in joins)
        for join in sorted(joins, key=lambda join: join["round"]):
            first += join["clients"]
            if row < first:
                if row >= first - join["clients"] and self.number < join["round"]:
                    return f"it joined in round {join['round']} only"
                break
        left = [leave["round"] for leave in leaves if row in leave["clients"] and leave["round"] <= self.number]
        return f"it had left in round {min(left)}" if left else ""

    def _busy(self, row: int) -> str:
        """Whether a client was still at work for an earlier round, according to its late update."""
        told = self.run.participations
        of_it = (self.run.who == row) & (told["selected_in"] < self.number)
        came = of_it & (told["round"] > told["selected_in"])
        if not self.run.asynchronous:
            came &= np.isin(told["outcome"], ("arrived", "failed"))
        later = told["round"][came & (told["round"] >= self.number)]
        since = told["selected_in"][came & (told["round"] >= self.number)]
        if not len(later):
            return ""
        sure = "it was" if later[-1] > self.number else "it may have been"
        return f"{sure} still busy with round {since[-1]:g}, whose update came in round {later[-1]:g}"

    def history(self, row: int) -> str:
        """How often a client had been selected before."""
        rounds = self.number - 1
        count = int(self.before[row])
        if not rounds:
            return "it was the first round"
        if rounds == 1:
            return f"it had {'' if count else 'not '}been selected in the round before"
        span = f"in the {rounds} rounds before"
        if not count:
            return f"it had never been selected {span}"
        often = {1: "once", 2: "twice"}.get(count, f"{count} times")
        last = int(self.earlier[1][self.earlier[0] == row].max())
        return f"it had been selected {often} {span}, {'last ' if count > 1 else ''}in round {last}"

    def name(self, row: int) -> str:
        """The client as a sentence calls it."""
        name = "" if self.run.names is None else f" ({printable(self.run.names[row], 40)})"
        return f"Client {self.run.clients['client'][row]:g}{name}"


def row_of(run: RunTables, client: int | str) -> int:
    """The row of the clients table for a position or a user id.

    >>> from enlist.runs.example import example_run
    >>> row_of(example_run(), "7")
    7
    """
    known = run.clients["client"]
    text = str(client).strip()
    if not text.startswith("user:"):
        position = float(text) if text.isascii() and text.isdecimal() else -1.0
        if len(rows := np.flatnonzero(known == position)):
            return int(rows[0])
    names = run.names
    if names is not None and len(rows := np.flatnonzero(names == text.removeprefix("user:"))):
        return int(rows[0])
    ids = "" if names is None else f", or a user id such as '{printable(names[0], 40)}'"
    raise InputError(
        f"client '{printable(text, 40)}' is not in {run.folder or run.name}; name a position from {known.min():g} to "
        f"{known.max():g}{ids}."
    )


def _words(term: str) -> str:
    return term.replace("_", " ")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.3g}"
    return printable(value, 40)
