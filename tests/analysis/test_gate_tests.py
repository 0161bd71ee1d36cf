from itertools import islice, product

import numpy as np
import pandas as pd
import pytest
from example_runs import loaded
from places import STUDIES
from scipy import optimize, stats

from mlflow_mleval.analysis import gate_tests as tests
from mlflow_mleval.analysis.gate_tests import (
    LEAST_UNITS,
    Differences,
    Terms,
    gate_tests,
    needed_units,
)


def judge(differences, margin=0.01, bounds=1.0, improve=(), **more):
    """The gate on differences of one margin and one bound; without one, units are means."""
    d = pd.DataFrame(differences)
    terms = {key: more.pop(key) for key in ("alpha", "anytime", "seed") if key in more}
    if bounds is None:
        more["means"] = True
    bounds = dict.fromkeys(d, bounds) if bounds else {}
    asked = Terms(dict.fromkeys(d, margin), improve, n_resamples=1_999, **terms)
    return gate_tests(Differences(d, bounds=bounds, **more), asked)


def rejected_by_brute_force(d, margins, alpha):
    """Step-down max-T over rows, by all sign changes, as a textbook has it."""
    x = -(d + margins)
    size = np.sqrt((x**2).sum(axis=0))
    draws = np.array([np.array(s) @ x / size for s in product((1, -1), repeat=len(x))])
    observed, left, rejected = x.sum(axis=0) / size, set(range(x.shape[1])), set()
    while left:
        top = max(left, key=lambda row: observed[row])
        if (draws[:, sorted(left)].max(axis=1) >= observed[top] - 1e-9).mean() > alpha:
            break
        rejected.add(top)
        left.remove(top)
    return rejected


def test_block_is_step_down_max_t_by_all_sign_changes():
    blocked = 0
    for seed in range(6):
        d = np.random.default_rng(seed).normal([-0.3, -0.2, 0.0, 0.1], 0.2, (9, 4))
        tested = judge(d, bounds=None).table
        worse = set(np.flatnonzero(tested["verdict"] == "worse"))
        # the test by t may only take away
        assert worse <= rejected_by_brute_force(d, np.full(4, 0.01), 0.05)
        assert (tested["high"][sorted(worse)] <= -0.01).all()
        blocked += len(worse)
    assert blocked >= 5


def tango(n, better, worse, margin):
    """P-value of Tango's (1998) score test, its restricted maximum found numerically."""
    ties = n - better - worse

    def unlikely(q):  # the share that is worse; the share that is better is q - margin
        shares = np.array([q - margin, q, 1 - 2 * q + margin])
        counts = np.array([better, worse, ties])
        return -np.sum(counts[counts > 0] * np.log(np.maximum(shares[counts > 0], 1e-300)))

    how = {"bounds": (margin, (1 + margin) / 2), "options": {"xatol": 1e-12}}
    q = optimize.minimize_scalar(unlikely, method="bounded", **how).x
    z = (better - worse + n * margin) / np.sqrt(n * (2 * q - margin - margin**2))
    return stats.norm.sf(z)


@pytest.mark.parametrize(
    ("n", "better", "worse"), [(400, 0, 0), (300, 10, 4), (200, 3, 1), (1_000, 60, 55)]
)
def test_wins_and_losses_are_tested_as_tango_does(n, better, worse):
    d = np.repeat([1.0, -1.0, 0.0], [better, worse, n - better - worse])
    row = judge({"exact": d}, margin=0.02, bounds=1.0).table.iloc[0]
    # the larger of Tango's p-value, by t, and that of 1,999 random sign changes
    by_t = stats.t.sf(stats.norm.isf(tango(n, better, worse, 0.02)), n - 1)
    assert row.pvalue_not_worse >= by_t - 1e-9
    assert row.pvalue_not_worse <= by_t + 0.03


@pytest.mark.parametrize("n", [5, *(pytest.param(n, marks=pytest.mark.thorough) for n in (10, 20))])
@pytest.mark.parametrize(("changed", "margin"), [(0.1, 0.01), (0.3, 0.05), (0.5, 0.05)])
def test_few_answers_ship_and_block_wrongly_in_a_twentieth_of_cases(n, changed, margin):
    lost, won = (changed + margin) / 2, (changed - margin) / 2
    wrong = {"ship": 0.0, "block": 0.0, "run more": 0.0}
    for wins, losses in product(range(n + 1), repeat=2):
        counts = [wins, losses, n - wins - losses]
        chance = stats.multinomial.pmf(counts, n, [won, lost, 1 - changed])
        if chance > 1e-6:
            found = judge({"exact": np.repeat([1.0, -1.0, 0.0], counts)}, margin=margin)
            wrong[found.decision] += chance
    assert wrong["ship"] <= 0.065 and wrong["block"] <= 0.065


def test_many_units_are_tested_by_the_normal_limit_of_their_sign_changes(monkeypatch):
    rng = np.random.default_rng(7)
    few = rng.choice([-1, 0, 1], 3_000, p=[0.002, 0.995, 0.003])  # that hold most of the squares
    d = {
        "exact": rng.choice([-1.0, 0.0, 1.0], 3_000, p=[0.15, 0.72, 0.13]),
        "f1": rng.normal(0, 0.2, 3_000).clip(-1, 1),
        "recall": (few + rng.normal(0, 0.01, 3_000)).clip(-1, 1),
    }
    parts = {"part": np.arange(3_000) % 2 == 0}
    normal = judge(d, slices=parts).table
    monkeypatch.setattr(tests, "UNITS", np.inf)
    changed = judge(d, slices=parts).table
    for column in ("pvalue_worse", "pvalue_not_worse"):
        assert normal[column].tolist() == pytest.approx(changed[column].tolist(), abs=0.04)
    assert normal["low"].tolist() == pytest.approx(changed["low"].tolist(), abs=1e-3)


@pytest.mark.parametrize(
    ("d", "margin", "bounds", "decision"),
    [
        ([1.0, 0, 0, 0, 0], 0.01, 1.0, "run more"),  # one win among five
        *((np.full(n, x), 0.01, 1.0, "run more") for n in (1, 2, 4) for x in (-1.0, 0.0, 1.0)),
        (np.zeros(100), 0.01, 1.0, "run more"),
        (np.zeros(300), 0.01, 1.0, "ship"),
        *((np.full(20, 0.2), 0.01, bounds, "ship") for bounds in (None, 1.0)),
        *((np.full(20, -0.2), 0.01, bounds, "block") for bounds in (None, 1.0)),
        (np.zeros(500), 0.0, 1.0, "run more"),  # ties and no margin
    ],
)
def test_differences_that_are_few_or_all_the_same(d, margin, bounds, decision):
    found = judge({"f1": d}, margin=margin, bounds=bounds)
    assert found.decision == decision
    low, high = found.table.iloc[0][["low", "high"]]
    assert low <= np.mean(d) + 1e-9 and high >= np.mean(d) - 1e-9
    assert len(d) >= 5 or (low, high) == (-1, 1)
    assert margin or np.isnan([*found.needed.values()]).all()  # nothing differs: nothing is known


@pytest.mark.parametrize("judged", [["f1"], ["f1", "latency"]])
def test_answers_are_judged_on_measures_with_bounds_and_margins_alone(judged):
    d = pd.DataFrame({"f1": [0.2] * 40 + [np.nan] * 10, "latency": np.linspace(-3, 1, 50)})
    found = gate_tests(Differences(d, bounds={"f1": 1.0}), Terms(dict.fromkeys(judged, 0.01)))
    assert found.decision == "ship" and found.table["n"].tolist() == [40, 50]
    assert found.table["verdict"].tolist() == ["not worse", "not judged"]
    assert not np.isnan(found.table["low"][0])


@pytest.mark.parametrize("shift", [-0.2, 0.2])
def test_means_take_five_and_the_larger_of_signs_and_t(shift):
    d = np.random.default_rng(1).normal(shift, 0.02, 12)
    for n in (4, 5, 6, 10):
        found = judge({"f1": d[:n]}, bounds=None)
        decided = {-0.2: "block", 0.2: "ship"}[shift]
        assert found.decision == (decided if n >= 5 else "run more")
        row = found.table.iloc[0]
        pvalue = row.pvalue_not_worse if shift > 0 else row.pvalue_worse
        if n >= 5:
            t = stats.ttest_1samp(d[:n], -0.01, alternative="greater" if shift > 0 else "less")
            assert pvalue == pytest.approx(max(t.pvalue, 0.5**n), rel=0.3)


def test_only_what_must_improve_needs_to_be_better():
    rng = np.random.default_rng(1)
    d = {"f1": rng.normal(0.05, 0.1, 300), "recall": rng.normal(0, 0.02, 300)}
    assert judge(d).decision == "ship"
    found = judge(d, improve=("f1",)).table
    assert found["verdict"].tolist() == ["better", "not worse"]
    assert found["pvalue_better"].isna().tolist() == [False, True]
    assert judge(d, improve=("recall",)).decision == "run more"


def test_a_slice_blocks_and_need_not_pass():
    rng = np.random.default_rng(2)
    d, part = rng.normal(0.05, 0.1, 400), np.arange(400) < 60
    assert judge({"f1": d}, slices={"invoices": part}).decision == "ship"
    harmed = judge({"f1": d - 0.3 * part}, slices={"invoices": part})
    assert harmed.decision == "block"
    assert harmed.table.set_index("slice")["verdict"]["invoices"] == "worse"
    small = judge({"f1": (d - part).clip(-1, 1)}, slices={"few": np.arange(400) < LEAST_UNITS - 1})
    assert small.table["verdict"].tolist() == ["worse", "not judged"]
    assert "few" in small.warnings[0]


def test_clusters_change_signs_together():
    rng = np.random.default_rng(3)
    cluster = np.repeat(np.arange(12), 40)
    d = rng.normal(0, 0.2, 12)[cluster] + rng.normal(0.06, 0.05, 480)
    alone, together = judge({"f1": d}), judge({"f1": d}, clusters=cluster)
    assert alone.table["low"][0] > together.table["low"][0]
    assert (alone.decision, together.decision) == ("ship", "run more")
    assert together.clusters == 12


def test_folds_by_the_corrected_t_test():
    rng = np.random.default_rng(4)
    d, ratio = rng.normal(0.01, 0.02, (10, 2)), 1 / 9
    found = judge(d, ratio=ratio, margin=0.01, bounds=None).table
    error = d.std(axis=0, ddof=1) * np.sqrt(1 / 10 + ratio)
    expected = stats.t.sf((d.mean(axis=0) + 0.01) / error, 9)
    np.testing.assert_allclose(found["pvalue_not_worse"], expected)
    expected = d.mean(axis=0) - stats.t.ppf(0.95, 9) * error
    np.testing.assert_allclose(found["low"], expected, rtol=1e-9)


@pytest.mark.parametrize("anytime", [False, True])
def test_intervals_say_what_the_tests_say(anytime):
    rng = np.random.default_rng(5)
    for shift in np.linspace(-0.1, 0.1, 9):
        d = {m: rng.normal(shift, 0.1, 200).clip(-1, 1) for m in ("f1", "recall")}
        rows = judge(d, bounds=1.0, anytime=anytime).table
        assert ((rows["low"] > -0.01) == (rows["pvalue_not_worse"] <= 0.05)).all()
        assert (rows["high"][rows["pvalue_worse"] <= 0.05] <= -0.01).all()


def test_bets_are_products_and_their_largest_capital_counts():
    d = np.array([0.5, -1.0, 1.0, 0.25])
    bets, shares = 2.0 ** -np.arange(8), 1 / (np.arange(1, 9) * np.arange(2, 10))
    x = (d + 0.1) / 0.9
    capital = np.cumprod(1 + bets[:, None] * np.maximum(x, -1 / bets[0]), axis=1)
    path = (shares / shares.sum()) @ capital
    found = judge({"f1": d}, margin=0.1, bounds=1.0, anytime=True)
    assert found.table["pvalue_not_worse"][0] == pytest.approx(1 / max(path.max(), 1))
    assert found.evidence == pytest.approx(path[-1])


@pytest.mark.filterwarnings("error")
def test_on_a_measure_without_a_bound_nothing_is_bet():
    found = judge({"tokens": [1.0, 2.0, -1.0] * 9}, bounds={}, anytime=True).table
    assert found["verdict"][0] == "not judged" and found["reason"][0] == "it has no bound"


@pytest.mark.thorough
@pytest.mark.parametrize("anytime", [False, True])
def test_needed_units_have_the_power_that_they_are_named_for(anytime):
    rng = np.random.default_rng(6)

    def answers(n):
        return rng.choice([-1.0, 0.0, 1.0], n, p=[0.15, 0.7, 0.15])

    asked = {"margin": 0.05, "anytime": anytime}
    seen = rng.permutation(np.repeat([-1.0, 0.0, 1.0], [22, 106, 22]))
    needed = int(judge({"exact": seen}, **asked).needed["zero"])
    ships = [judge({"exact": answers(needed)}, **asked).decision == "ship" for _ in range(100)]
    assert np.mean(ships) > 0.66
    assert anytime or np.mean(ships) < 0.94  # bets may have won before the last unit


@pytest.mark.parametrize(("differ", "told"), [(12, False), (30, True)])
def test_needed_units_are_told_where_their_variance_is_known(differ, told):
    """Of few answers that differ, too many do where enough of them do."""
    d = np.zeros(200)
    d[:differ] = np.resize([1.0, -1.0], differ)
    assert np.isfinite(judge({"exact": d}).needed["zero"]) == told


def test_needed_units_of_several_measures_have_the_power_of_all():
    """Eight independent measures of which each must pass take about twice as many as one."""
    rng = np.random.default_rng(7)
    d = {f"m{k}": rng.permutation(np.repeat([0.1, -0.1], 100)) for k in range(8)}
    one = judge({"m0": d["m0"]}).needed["zero"]
    assert 1.7 < judge(d).needed["zero"] / one < 2.4


def test_parts_with_values_of_their_own():
    rng = np.random.default_rng(8)
    f1 = rng.normal(0.01, 0.02, 10)
    values = {"rare": f1 - 0.2, "usual": np.where(np.arange(10) > 1, f1, np.nan)}
    parts = {name: pd.DataFrame({"f1": column}) for name, column in values.items()}
    found = judge({"f1": f1, "recall": f1}, bounds=None, ratio=1 / 9, slices=parts)
    rows = found.table.set_index("slice")
    assert rows.loc["rare", "verdict"] == "worse"
    assert rows.loc["usual", "n"] == 8 and rows.loc["usual", "verdict"] != "not judged"
    assert rows["measure"].tolist() == ["f1", "recall", "f1", "f1"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"margin": -0.1}, r"`margins` must be at least 0, got -0\.1 for "),
        ({"improve": ("recall",)}, "`improve` must name measures"),
        ({"anytime": True, "bounds": None}, "`anytime` takes single answers"),
        ({"clusters": ["a"] * 20}, "`clusters` must hold"),
        ({"alpha": 1.5}, "`alpha`"),
    ],
)
def test_errors_name_the_argument(more, message):
    with pytest.raises(ValueError, match=message):
        judge({"f1": np.full(20, 0.2)}, **more)


@pytest.fixture(scope="module")
def study():
    return loaded(STUDIES / "gate_study.py")


@pytest.mark.thorough
def test_errors_of_the_command_in_small(study, db):
    tables = ("0/1, 30% changed", "0/1, clusters of 5", "0/1, 3% lost", "rare failures")
    *_, rates, _ = study.command(np.random.default_rng(0), 6, tables, (10, 60))
    for units in ("10", "60"):
        assert max(map(float, rates[units].split(", "))) <= 0.05 + 3 * np.sqrt(0.05 / 48)


@pytest.mark.thorough
def test_the_study_of_tests_in_small(study):
    rng = np.random.default_rng(0)
    for row in islice(study.power(rng, 3), 4):
        for units in ("60", "200", "1,000"):
            gate, t = (float(part.split()[1]) for part in row[units].split(", "))
            assert gate >= t - 0.5 or "errors" in row["counted"]
    for row in study.together(rng, 3):
        assert max(row["wrongly block"], row["wrongly ship"]) <= 2 / 3


@pytest.mark.thorough
def test_the_study_of_the_command_in_small(study, db):
    """Numbers that are told, looks, and streams of changes."""
    rng = np.random.default_rng(0)
    few, *told = study.needed(rng, 6, (60,), fresh=4)
    assert few["told"] == "0.00" and all(float(row["told"]) > 0 for row in told)
    assert np.mean([float(row["power"].split()[0]) for row in told]) > 0.5
    for row in study.looks(rng, 3, times=6):
        assert max(float(row[f"wrongly {key}"].split()[0]) for key in ("ship", "block")) < 0.5
    for row in study.ledger(rng, 1, gates=12):
        assert not row["kept by"].startswith("ledger") or row["wrong ones kept"] <= 1


def test_what_bets_decided_at_one_look_stands_at_the_next(study):
    rng = np.random.default_rng(9)
    d = study.mixed(rng)[:, [0, 9]] - [0.0, 0.08]
    slices = {f"part {k}": rng.random(1_000) < 0.1 * k for k in range(3)}
    decided = []
    for end in range(50, 1_001, 50):
        parts = {name: part[:end] for name, part in slices.items()}
        decided.append(judge(d[:end], bounds=1.1, slices=parts, anytime=True).decision)
    first = decided.index("block")
    assert 0 < first < 19 and {*decided[first:]} == {"block"}


def test_what_a_ledger_takes_is_sought_by_its_own_level():
    """Its second gate on two equal sides of which half change: with 3,700 units .59 ship."""
    units = Differences(pd.DataFrame({"s": [1.0, 0.0, 0.0, -1.0] * 50}), bounds={"s": 1.0})
    evidence = (2 * np.pi) ** 2 / (6 * 0.05)
    assert 4_500 <= needed_units(units, Terms({"s": 0.05}), evidence)["zero"] <= 5_600
