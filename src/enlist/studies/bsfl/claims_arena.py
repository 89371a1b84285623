"""Claims on who is selected: what speed alone leads to, and what alpha trades."""

from __future__ import annotations

from enlist.studies.bsfl.further import LITTLE, bold_alphas, bold_cs_ucb, bold_options
from enlist.studies.bsfl.growth import DECIDES, PRESETS, sizes
from enlist.studies.bsfl.plan import regret_key, setting_key
from enlist.studies.bsfl.settings import IID, PRINTED, REGRET_RIVALS, SENSITIVITY
from enlist.studies.claims import Claim, Further, Verdict, as_printed, counted, greater, shown, together
from enlist.studies.results import Group, Results

SETTLED = 0.9
LENGTH, EVENNESS = 0.05, 0.05


def _cs_ucb(results: Results, reward: str) -> Group:
    return results[regret_key(sizes(results)[0], IID, reward, REGRET_RIVALS[IID, reward][0])]


def _fastest(results: Results) -> Verdict:
    shares = {said: _cs_ucb(results, reward).summary("fastest") for reward, said in PRESETS.items()}
    return as_printed({said: counted(share, SETTLED, "of the picks") for said, share in shares.items()})


def _bold(results: Results) -> str:
    groups = {name: _cs_ucb(results, reward) for reward, name in PRESETS.items()}
    groups[f"with {LITTLE:g} of the bonus"] = results[f"fastest/bonus={LITTLE:g}"]
    said = []
    for name, group in groups.items():
        late = group.column("late")
        slow = max(round(0.1 * late.shape[1]), 1)
        idle = 100.0 * late[:, -slow:].sum() / late.sum()
        picks = shown(group.summary("fastest").within(0.0, 1.0), 2)
        said.append(f"{name} {picks} ({len(group.seeds)} seeds), and {idle:.1f} % to the slow tenth")
    return f"share of the last picks that goes to the m fastest: {'; '.join(said)} (10 % by chance)."


def _alpha(results: Results) -> Verdict:
    found = {}
    for preset, said in PRESETS.items():
        low, high = (setting_key(preset, {"alpha": SENSITIVITY[preset]["alpha"][end]}) for end in (0, -1))
        found[said] = together(
            {
                "length of rounds": greater(results.difference(high, low, "round_time"), LENGTH),
                "evenness": greater(results.difference(high, low, "jain"), EVENNESS),
            }
        )
    return as_printed(found)


def _bold_alphas(results: Results) -> str:
    low, high = (setting_key(PRINTED, options) for options in bold_options())
    longer, evener = (results.difference(high, low, name) for name in ("round_time", "jain"))
    groups = {value: results[setting_key(PRINTED, {"alpha": value})] for value in SENSITIVITY[PRINTED]["alpha"]}
    cells = [
        f"alpha {value:g} {group.summary('round_time').mean:.2f} / {group.summary('jain').mean:.2f}"
        for value, group in groups.items()
    ]
    most = SENSITIVITY[PRINTED]["alpha"][-1]
    return (
        f"as printed but with {LITTLE:g} of the bonus ({len(results[high].seeds)} seeds), alpha = {most:g} less "
        f"alpha = 0: length of rounds {shown(longer, sign=True)}, evenness {shown(evener, sign=True)}. With the full "
        f"bonus, round time (of the deadline) / Jain index: {', '.join(cells)}."
    )


ARENA = (
    Claim(
        key="fastest-only",
        title="CS-UCB settles on the fastest clients",
        text="Methods that look at latency only converge to selecting the same fastest clients.",
        source="Sections I-A and III-A",
        paper="they converge to the fastest",
        margin="share of CS-UCB's picks in the last tenth of the rounds that goes to the m fastest, 5 of 20: at least "
        "0.9; partly if its interval reaches that. CS-UCB as printed decides; our default is judged by the same rule "
        "and shown beside",
        rule=_fastest,
        further=Further("fast clients differ by less than the bonus", bold_cs_ucb, _bold),
    ),
    Claim(
        key="alpha",
        title="alpha trades short rounds for evenness",
        text="The smaller alpha, the shorter the rounds and the less even the selection.",
        source="Section III-C",
        paper="stated, not measured",
        margin="largest alpha minus alpha = 0, 25 of 500 (3 seeds): rounds longer by 0.05 of the deadline, and the "
        f"Jain index higher by 0.05, each with its interval above 0. {DECIDES}",
        rule=_alpha,
        further=Further("g is small beside the bonus", bold_alphas, _bold_alphas),
    ),
)
