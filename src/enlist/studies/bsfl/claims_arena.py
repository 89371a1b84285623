"""Claims on who is selected: what speed alone leads to, and what alpha trades."""

from __future__ import annotations

from enlist.studies.bsfl.further import nothing
from enlist.studies.bsfl.growth import PRESETS, sizes
from enlist.studies.bsfl.plan import regret_key
from enlist.studies.bsfl.settings import IID, REGRET_RIVALS, SENSITIVITY
from enlist.studies.claims import Claim, Further, Verdict, counted, greater, together
from enlist.studies.results import Group, Results

SETTLED = 0.9
LENGTH, EVENNESS = 0.05, 0.05


def _cs_ucb(results: Results, reward: str) -> Group:
    return results[regret_key(sizes(results)[0], IID, reward, REGRET_RIVALS[IID, reward][0])]


def _fastest(results: Results) -> Verdict:
    shares = {said: _cs_ucb(results, reward).summary("fastest") for reward, said in PRESETS.items()}
    return together({said: counted(share, SETTLED, "of the picks") for said, share in shares.items()})


def _slow(results: Results) -> str:
    said = []
    for reward, name in PRESETS.items():
        late = _cs_ucb(results, reward).column("late")
        slow = max(round(0.1 * late.shape[1]), 1)
        said.append(f"{name} {100 * late[:, -slow:].sum() / late.sum():.1f} %")
    return (
        f"of its last picks, the slow tenth of the clients gets {', '.join(said)}, against 10 % by chance: it leaves "
        "out the slow, but the fast differ by less than its bonus."
    )


def _alpha(results: Results) -> Verdict:
    parts = {}
    for preset, said in PRESETS.items():
        low, high = (f"sensitivity/{preset}/alpha={SENSITIVITY[preset]['alpha'][end]:g}" for end in (0, -1))
        parts[f"length of rounds, {said}"] = greater(results.difference(high, low, "round_time"), LENGTH)
        parts[f"evenness, {said}"] = greater(results.difference(high, low, "jain"), EVENNESS)
    return together(parts)


def _alphas(results: Results) -> str:
    said = []
    for preset, name in PRESETS.items():
        groups = {value: results[f"sensitivity/{preset}/alpha={value:g}"] for value in SENSITIVITY[preset]["alpha"]}
        cells = [
            f"alpha {value:g}: {group.summary('round_time').mean:.2f} / {group.summary('jain').mean:.2f}"
            for value, group in groups.items()
        ]
        said.append(f"{name} {', '.join(cells)}")
    return f"round time (of the deadline) / Jain index, {'; '.join(said)}."


ARENA = (
    Claim(
        key="fastest-only",
        title="CS-UCB settles on the fastest clients",
        text="Methods that look at latency only converge to selecting the same fastest clients.",
        source="Sections I-A and III-A",
        paper="they converge to the fastest",
        margin="share of CS-UCB's picks in the last tenth of the rounds that goes to the m fastest, 5 of 20: at least "
        "0.9; partly if its interval reaches that",
        rule=_fastest,
        further=Further("fast clients differ by less than the bonus", nothing, _slow),
    ),
    Claim(
        key="alpha",
        title="alpha trades short rounds for evenness",
        text="The smaller alpha, the shorter the rounds and the less even the selection.",
        source="Section III-C",
        paper="stated, not measured",
        margin="largest alpha minus alpha = 0: rounds longer by 0.05 of the deadline, and the Jain index higher by "
        "0.05, each with its interval above 0",
        rule=_alpha,
        further=Further("g is small beside the bonus", nothing, _alphas),
    ),
)
