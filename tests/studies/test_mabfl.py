"""The MAB-FL study: its settings are the thesis's, every claim can be judged, and nothing is tuned on its own seeds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from enlist._internal.statistics import Summary
from enlist.personal import parse
from enlist.streams import Streams
from enlist.studies import get
from enlist.studies.claims import KINDS, judge
from enlist.studies.mabfl.counts import overlap, printed_overlap, right_overlap, units
from enlist.studies.mabfl.example import example_results
from enlist.studies.mabfl.keys import CODES, FINAL, fixed, greedy, grid, held, members, thompson, ucb
from enlist.studies.mabfl.scores import gaps, outliers, persistence, rounds_to, separations, straightness
from enlist.studies.mabfl.settings import SCALES, experiments
from enlist.studies.mabfl.shifts import shifted
from enlist.studies.results import Group, Outcome, Results

MABFL = get("mabfl")
EVERY = [
    *experiments(SCALES["laptop"]),
    *(each for claim in MABFL.claims for each in claim.further.experiments(SCALES["laptop"])),
]


def test_the_grid_is_table_3() -> None:
    keys = grid()
    assert sum(key.startswith("grid/greedy") for key in keys) == 3 + 3 * 3
    assert sum(key.startswith("grid/ucb-c") for key in keys) == 3 + 3 * 3
    assert sum(key.startswith("grid/thompson") for key in keys) == 3 * 3
    assert sum(key.startswith("grid/ucb-binary") for key in keys) == 2
    assert keys[greedy(0.2, None)]["rule"] == {"kind": "epsilon-greedy", "epsilon": 0.2, "stationary": True}
    assert keys[ucb(0.1, 0.25)]["rule"] == {"kind": "ucb", "c": 0.1, "step": 0.25}
    assert keys[thompson(0.05, 1.0)] == {
        "rule": {"kind": "thompson"},
        "reward": {"kind": "binary", "threshold": 0.05},
    }
    assert set(FINAL.values()) <= set(keys)


def test_every_setting_of_the_grid_has_ten_experiments_at_laptop_scale() -> None:
    laptop = experiments(SCALES["laptop"])
    for key in (*grid(), *(fixed(code, epochs, "one") for code in CODES for epochs in (4, 6))):
        assert len({each.seed for each in laptop if each.key == key}) >= 10
    for key in FINAL.values():
        assert len({each.seed for each in laptop if each.key == key}) == 20


def test_every_configuration_is_valid_and_is_what_its_key_says() -> None:
    seen = {each.key: each for each in EVERY if each.key != "counts/messages"}
    assert len(seen) > 150
    for each in seen.values():
        config = parse({**each.settings, "seed": each.seed}, each.key)
        assert config.target == ("3" if "target-3" in each.key else "2")
        assert config.stopping.kind == "never"
    assert parse(seen["drawn/0110-4"].settings, "x").rounds.epochs.epochs == 4
    assert parse(seen["one/0110-4"].settings, "x").data_seed == 100
    assert parse(seen["drawn/0110-4"].settings, "x").data_seed is None


def test_calibration_seeds_and_replications_are_disjoint_from_the_study() -> None:
    for scale in (SCALES["laptop"], SCALES["paper"]):
        own = {each.seed for each in experiments(scale)}
        claims = {claim.key: claim for claim in MABFL.claims}
        again = {each.seed for each in claims["explore-best"].further.experiments(scale)}
        assert max(own) < 500 <= min(again)
        assert max(again) < 1000


def test_the_laptop_scale_is_expected_to_fit_its_time() -> None:
    main = sum(each.seconds for each in experiments(SCALES["laptop"])) / 2
    further = sum({(each.key, each.seed): each.seconds for each in EVERY}.values()) / 2 - main
    assert main < 12 * 60
    assert main + further < 20 * 60  # even if every claim called for its further experiment


def test_every_claim_is_complete_and_can_be_judged() -> None:
    results = example_results()
    assert len(MABFL.claims) >= 50
    for claim in MABFL.claims:
        assert all((claim.title, claim.text, claim.source, claim.paper, claim.margin, claim.further.cause))
        assert len(claim.title) <= 60
        verdict = judge(claim, results).verdict
        assert verdict.kind in KINDS
        assert "missing" not in verdict.why


def test_a_single_experiment_per_setting_is_judged_without_certainty() -> None:
    results = example_results(rounds=4, seeds=1)
    kinds = {claim.key: judge(claim, results).verdict.kind for claim in MABFL.claims}
    assert kinds["residuals-normal"] == "not testable here"
    assert kinds["personalisation-pays"] == "partly"
    assert len(MABFL.figures(results)) == len(MABFL.figures(example_results()))


def test_claims_of_the_issue_are_all_there() -> None:
    keys = {claim.key for claim in MABFL.claims}
    assert keys >= {
        "personalisation-pays",
        "epochs-separate",
        "against-local",
        "recency-best",
        "binary-ucb",
        "thompson-worst",
        "explore-best",
    }


def test_figures_and_tables_cover_the_thesis() -> None:
    figures = MABFL.figures(example_results())
    names = " ".join(figure.name for figure in figures)
    for number in (8, 9, 10, 11, 13, 14, *range(16, 29)):
        assert f"{number:02d}" in names
    assert len({figure.name for figure in figures}) == len(figures)
    tables = {table.name: table for table in MABFL.tables(example_results())}
    assert len(tables["03-grid"].rows) == len(grid())
    assert tables["02-residuals"].rows[0]["4 epochs, thesis"] == 0.018


def made(increase: dict[str, list[float]]) -> Results:
    groups = {}
    for code, values in increase.items():
        curve = np.array(values)
        key = fixed(code, 6)
        groups[key] = Group(key, {}, {0: Outcome({}, {"validation": 0.6 + curve, "local": np.full(4, 0.6)}, 1.0)})
    return Results(groups)


def test_separation_by_hand() -> None:
    apart = made({"0110": [0.3] * 4, "1100": [0.1] * 4, "0101": [0.2] * 4, "1111": [0.0] * 4})
    assert separations(apart, 6, "drawn").tolist() == [1.0]
    same = made({code: [0.1, 0.2, 0.3, 0.4] for code in ("0110", "1100", "0101", "1111")})
    assert separations(same, 6, "drawn").tolist() == [0.5]
    half = made({"0110": [0.2] * 4, "1100": [0.1] * 4, "0101": [0.3] * 4, "1111": [0.1, 0.1, 0.3, 0.3]})
    assert separations(half, 6, "drawn").tolist() == [0.5]  # (1 + 0 + 1/2) / 3


def test_scores_by_hand() -> None:
    assert rounds_to(np.array([[0.1, 0.5, 0.4]]), np.array([0.45])).tolist() == [2.0]
    assert outliers(np.zeros((2, 4))).tolist() == [0.0, 0.0]
    rng = np.random.default_rng(1)
    assert straightness(rng.normal(size=(10, 15))) > 0.98 > straightness(rng.exponential(size=(10, 15)) ** 2)
    assert abs(persistence(rng.normal(size=(200, 20)))) < 0.1
    estimates = np.array([[0.0, 0.3, 0.1], [0.2, 0.5, 0.1]])
    outcome = Outcome({"codes": ["1100", "0110", "0101"]}, {"estimates": estimates}, 1.0)
    results = Results({"x": Group("x", {}, {0: outcome})})
    assert gaps(results, "x", first=1) == pytest.approx([(0.2 + 0.3) / 2])
    assert gaps(results, "x", first=5) == pytest.approx([0.3])


@pytest.mark.parametrize("others", range(1, 8))
def test_overlap_of_different_combinations(others: int) -> None:
    assert right_overlap(others) == pytest.approx(overlap(others))
    if others == 2:
        # 00 01 10 11: of 12 ordered pairs, only (01,11), (10,11) and their reverses share one worker
        assert overlap(2) == pytest.approx(4 / 12)
        assert printed_overlap(2) == pytest.approx(0.4375)


def test_codes_and_members() -> None:
    assert members("1010") == ["1", "3"]
    assert held("1111")["combination"] == "all"
    assert [units(kind, 6) for kind in ("pairs", "all", "extreme-delayed")] == [6, 9, 12]


def test_pictures_are_shifted_as_said_and_nobody_shares_any() -> None:
    dataset = shifted(Streams(3), train=20, validation=30, test=40)
    plain = shifted(Streams(3), train=20, validation=30, test=40)
    assert np.array_equal(dataset.train.x, plain.train.x)
    assert [len(part) for part in dataset.parts.values()] == [80, 120, 160]
    from enlist.data import Digits

    whole = Digits().load(Streams(3))
    known = {image.tobytes() for part in (whole.train, whole.test) for image in part.x}
    users, x = dataset.train.users, dataset.train.x
    assert users is not None
    assert all(image.tobytes() in known for image in x[users == 2])
    assert all(image[:, ::-1].copy().tobytes() in known for image in x[users == 1])
    assert not any(image.tobytes() in known for image in x[users == 3])
    label = {image.tobytes(): y for part in (whole.train, whole.test) for image, y in zip(part.x, part.y, strict=True)}
    assert all(
        label[image.tobytes()] == 9 - y for image, y in zip(x[users == 4], dataset.train.y[users == 4], strict=True)
    )
    own = [{image.tobytes() for image in dataset.train.x[users == worker]} for worker in (2, 4)]
    assert not own[0] & own[1]


def test_differences_are_paired_over_common_seeds() -> None:
    results = example_results()
    for first, second in itertools.combinations([fixed(code) for code in CODES], 2):
        assert isinstance(results.difference(first, second, "peak"), Summary)
