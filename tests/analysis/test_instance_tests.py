"""Tests over instances against scipy, enumeration and published values."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.gate_tests import Differences, Terms, gate_tests
from mlflow_mleval.analysis.pairs import jointly
from mlflow_mleval.analysis.pairs_by_unit import instance_tests, sign_test
from mlflow_mleval.analysis.posthoc.rank_tests import signed_ranks
from mlflow_mleval.analysis.resampling import BoundedUnits, sign_tests
from mlflow_mleval.report.content.units import document as document_of_tests
from mlflow_mleval.study import Study

MEASURES = ["f1", "accuracy", "hamming_loss"]


def tables(m=3, n=60, seed=0, decimals=1):
    rng = np.random.default_rng(seed)
    base = rng.random((n, len(MEASURES)))
    values = [(base + rng.normal(0.02 * k, 0.2, base.shape)).round(decimals) for k in range(m)]
    return {f"m{k}": pd.DataFrame(x, columns=MEASURES) for k, x in enumerate(values)}


@pytest.mark.parametrize(
    ("k", "n", "z", "normal", "exact"),
    [(60, 100, 2.0, 0.0227501, 0.028444), (9, 12, 1.7320508, None, 0.072998)],
)
def test_sign_test_gives_the_published_values(k, n, z, normal, exact):
    found = sign_test(k, n, alternative="greater")
    assert found.statistic == pytest.approx(z)
    assert found.pvalue == pytest.approx(exact, abs=5e-7)
    assert normal is None or found.normal_pvalue == pytest.approx(normal, abs=5e-8)
    assert bool(found.warnings) == (n <= 12)


@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from(["two-sided", "greater", "less"]))
def test_sign_test_equals_scipy(k, more, alternative):
    n = k + more
    found = sign_test(k, n, alternative=alternative)
    if n == 0:
        assert (found.pvalue, found.normal_pvalue, found.statistic) == (1, 1, 0)
        return
    expected = stats.binomtest(k, n, alternative=alternative).pvalue
    assert found.pvalue == pytest.approx(expected, rel=1e-12)
    other = {"greater": "less", "less": "greater"}.get(alternative, alternative)
    mirrored = sign_test(n - k, n, alternative=other)
    assert found.pvalue == pytest.approx(mirrored.pvalue)
    assert found.normal_pvalue == pytest.approx(mirrored.normal_pvalue)


@pytest.mark.parametrize(("n", "decimals"), [(60, 1), (60, 9), (1500, 1), (1500, 9)])
def test_every_pair_and_measure_equals_scipy(n, decimals):
    methods = tables(n=n, decimals=decimals)
    found = instance_tests(methods, MEASURES, n_resamples=99)
    assert len(found.table) == 9 and len(found.by_pair) == 3
    assert found.table["measure"].tolist() == MEASURES * 3
    for row in found.table.itertuples():
        sign = -1 if row.measure == "hamming_loss" else 1
        a, b = (methods[m][row.measure].to_numpy() for m in (row.method_a, row.method_b))
        d = sign * (a - b).round(9)
        unequal = d[d != 0]
        assert (row.wins, row.ties, row.losses) == ((d > 0).sum(), (d == 0).sum(), (d < 0).sum())
        assert row.difference == pytest.approx(d.mean(), abs=1e-9)
        assert row.low <= row.difference <= row.high
        assert row.separated == (row.low >= 0 or row.high <= 0)
        expected = stats.binomtest((d > 0).sum(), len(unequal)).pvalue
        assert row.sign_pvalue == pytest.approx(expected, rel=1e-9)
        if not row.exact:
            peer = stats.wilcoxon(unequal, correction=False, method="approx")
            assert row.wilcoxon_pvalue == pytest.approx(peer.pvalue, rel=1e-9)
        elif decimals == 9:
            expected = stats.wilcoxon(unequal, method="exact").pvalue
            assert row.wilcoxon_pvalue == pytest.approx(expected, rel=1e-9)
        plus = stats.rankdata(np.abs(unequal))[unequal > 0].sum()
        assert row.wilcoxon_statistic == pytest.approx(plus)


@given(st.lists(st.integers(-3, 3).filter(bool), min_size=1, max_size=10))
def test_exact_signed_ranks_with_ties_by_enumeration(d):
    d = np.array(d, dtype=float)
    plus, _, pvalues = signed_ranks(d[None], np.full(len(d), 1e-12), exact=True)
    found, p = plus.item() / 2, pvalues.item()
    ranks = stats.rankdata(np.abs(d))
    sums = np.array([ranks[np.array(s)].sum() for s in product([False, True], repeat=len(d))])
    assert found == ranks[d > 0].sum()
    smaller = min(found, ranks.sum() - found)
    assert p == pytest.approx(min(1.0, 2 * (sums <= smaller + 1e-9).mean()))


def test_one_measure_at_a_time_is_read_and_the_result_is_the_same():
    methods = tables()
    asked = []

    def reader(name):
        return lambda measure: asked.append(measure) or methods[name][measure]

    streamed = instance_tests({name: reader(name) for name in methods}, MEASURES, n_resamples=199)
    whole = instance_tests(methods, MEASURES, n_resamples=199)
    assert asked == [m for m in MEASURES for _ in methods]
    pd.testing.assert_frame_equal(streamed.table, whole.table)
    pd.testing.assert_frame_equal(streamed.pairs, whole.pairs)


def test_other_methods_count_in_the_correction_only_and_order_turns_signs():
    methods, options = tables(m=4), {"n_resamples": 499, "seed": 1}
    alone = instance_tests({k: methods[k] for k in ("m0", "m3")}, MEASURES, **options).table
    among = instance_tests(methods, MEASURES, **options).table
    rows = among[(among.method_a == "m0") & (among.method_b == "m3")].reset_index(drop=True)
    columns = ["sign_pvalue", "wilcoxon_pvalue", "pvalue", "difference"]
    np.testing.assert_allclose(rows[columns], alone[columns], rtol=1e-12)
    assert (rows["pvalue_corrected"] >= alone["pvalue_corrected"]).all()
    back = instance_tests({k: methods[k] for k in ("m3", "m0")}, MEASURES, **options).table
    np.testing.assert_allclose(back["difference"], -alone["difference"])
    np.testing.assert_allclose(back["pvalue"], alone["pvalue"])


@pytest.mark.thorough
def test_family_wise_error_under_the_null():
    rejected = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        truth = rng.random((80, 1))
        a, b = (truth + rng.normal(0, 0.3, (80, 4)) + rng.normal(0, 0.3, (80, 1)) for _ in range(2))
        names = ["f1", "accuracy", "precision", "recall"]
        methods = {"a": pd.DataFrame(a, columns=names), "b": pd.DataFrame(b, columns=names)}
        found = instance_tests(methods, names, n_resamples=199, seed=seed)
        rejected += found.by_pair["separated"].item()
    assert rejected <= stats.binom.ppf(0.999, 100, 0.05)


def test_verdict_and_warnings_say_what_a_reader_must_know():
    methods = tables(m=3)
    methods["m0"].loc[3, "f1"] = np.nan
    found = instance_tests(methods, ["f1"], n_resamples=18)
    assert "18 draws cannot separate any pair at alpha = 0.05: take at least 19." in found.warnings
    assert "1 instances without a value of f1" in " ".join(found.warnings)
    assert (found.table["n"] == 59).all()
    said = "The test over instances separates 0 of 3 pairs on 60 instances"
    assert found.verdict().startswith(said)
    same = instance_tests({"a": methods["m1"], "b": methods["m1"].copy()}, ["f1"], n_resamples=99)
    assert "does not separate a and b on" in same.verdict()
    assert "too few to say much" in same.warnings[0]


def test_all_pairs_and_measures_are_one_family_of_every_sign_change():
    rng = np.random.default_rng(1)
    names = ["f1", "recall", "accuracy"]
    values = {
        f"m{k}": dict(zip(names, [*rng.normal(0.4 * k, 1, (2, 8)), np.zeros(8)], strict=True))
        for k in range(3)
    }
    found = instance_tests(values, names).table
    d = [values[r.method_a][r.measure] - values[r.method_b][r.measure] for r in found.itertuples()]
    expected = sign_tests(np.array(d))
    assert expected.exact and found["pvalue"].tolist() == expected.pvalue.tolist()
    assert found["pvalue_corrected"].tolist() == expected.corrected.tolist()
    same = found[found["measure"] == "accuracy"]
    assert same[["sign_pvalue", "wilcoxon_pvalue", "pvalue"]].eq(1).all(axis=None)


def clustered(seed, groups=25, size=8):
    """Two equally good methods whose instances of a group fall together."""
    rng = np.random.default_rng(seed)
    shared = np.repeat(rng.normal(size=(groups, 1)), size, axis=0)
    d = shared + 0.5 * rng.normal(size=(groups * size, 1))
    methods = {"a": {"f1": d[:, 0]}, "b": {"f1": np.zeros(len(d))}}
    return methods, np.repeat([f"g{k}" for k in range(groups)], size)


@pytest.mark.thorough
def test_clusters_hold_the_level_that_single_instances_miss():
    rejected, covered = np.zeros(2), 0
    for seed in range(100):
        methods, groups = clustered(seed)
        options = {"n_resamples": 199, "seed": seed}
        with_them = instance_tests(methods, ["f1"], clusters=groups, **options)
        alone = instance_tests(methods, ["f1"], **options)
        rejected += [found.by_pair["separated"].item() for found in (with_them, alone)]
        row = with_them.table.iloc[0]
        covered += row.low <= 0 <= row.high
    assert rejected[0] <= stats.binom.ppf(0.999, 100, 0.05) and rejected[1] > 30
    assert 88 <= covered <= 99


def test_an_interval_of_one_pair_is_near_the_robust_one_and_single_clusters_change_nothing():
    methods, groups = clustered(0)
    row = instance_tests(methods, ["f1"], clusters=groups).table.iloc[0]
    residual = pd.Series(methods["a"]["f1"] - methods["a"]["f1"].mean()).groupby(groups).sum()
    half = stats.t.isf(0.025, 24) * np.sqrt((residual**2).sum() * 25 / 24) / 200
    assert (row.high - row.low) / 2 == pytest.approx(half, rel=0.05)
    alone = instance_tests(methods, ["f1"], clusters=np.arange(200), n_resamples=99)
    plain = instance_tests(methods, ["f1"], n_resamples=99)
    pd.testing.assert_frame_equal(alone.table, plain.table)
    assert alone.n_clusters == 200 and plain.n_clusters is None
    assert "on 200 instances in 200 clusters" in alone.verdict()


def test_folds_as_blocks_are_said_with_what_they_do_not_confirm():
    methods, folds = clustered(4, groups=10, size=60)
    found = instance_tests(methods, ["f1"], blocks=folds, n_resamples=199)
    assert found.by_pair["separated"].item() and found.n_clusters is None
    assert "judged by 10 models of each method" in found.warnings[0]
    assert "these are not separated: a from b" in found.warnings[0]
    few = instance_tests(methods, ["f1"], clusters=np.arange(600) % 4, n_resamples=199)
    assert "4 clusters cannot separate any pair" in " ".join(few.warnings)


def test_wrong_clusters_are_named():
    methods, groups = clustered(0)
    with pytest.raises(ValueError, match="each of the 200 instances"):
        instance_tests(methods, ["f1"], clusters=groups[:9])
    with pytest.raises(ValueError, match="at least two"):
        instance_tests(methods, ["f1"], clusters=["g"] * 200)
    indexed = {m: pd.DataFrame(columns) for m, columns in methods.items()}
    with pytest.raises(ValueError, match="index of the instances"):
        instance_tests(indexed, ["f1"], clusters=pd.Series(groups, index=range(1, 201)))


def test_the_tests_report_themselves():
    names = ["<img src=x>", "random a\x1b[31m"]
    values = dict(zip(names, tables(m=2).values(), strict=True))
    found = instance_tests(values, ["f1", "accuracy"], n_resamples=99)
    document = found.report({"seed": 0, "time": "2026-01-01T00:00:00+00:00"})
    assert "<img" not in document.to_html() and "\x1b" not in str(document)
    assert r"\label{tab:mleval-instances}" in document.to_latex()
    assert "seed 0; 2026" in str(document)
    whole = document.to_dict()
    assert (whole["n_draws"], whole["methods"], whole["verdict"]) == (99, names, found.verdict())
    single = document_of_tests({"d|1": found}, {}, {"e": "no values."})
    assert "- e was not tested: no values." in str(single) and "On d|1" in str(single)
    assert single.to_dict()["absent"] == {"e": "no values."}
    assert single.render("csv").startswith("dataset,method_a,")


def rare(n, share, seed):
    """Two methods with the same mean, of which one fails altogether on a share of the instances."""
    rng = np.random.default_rng(seed)
    fails, near = rng.random(n) < share, rng.uniform(-0.02, 0.02, (2, n))
    values = {"a": np.where(fails, 0.0, 0.5 / (1 - share) + near[0]), "b": 0.5 + near[1]}
    return {name: {"x": column} for name, column in values.items()}


def test_few_instances_that_fail_altogether_do_not_separate_equal_methods():
    apart = np.zeros(2)
    for seed in range(60):
        for k, bound in enumerate((None, 1.0)):
            options = {"maximize": ["x"], "bounds": bound, "n_resamples": 199}
            found = instance_tests(rare(20, 0.05, seed), ["x"], **options)
            row = found.table.iloc[0]
            apart[k] += row.separated
            assert row.separated == (row.low > 0 or row.high < 0)
            assert any("no known range" in note for note in found.notes) == (bound is None)
    assert apart[0] > 20 and apart[1] == 0


def test_the_larger_pvalue_counts_and_is_twice_that_of_a_gate():
    d = np.array([0.5] * 9 + [0.0] * 16 + [-0.25])
    units = Differences(pd.DataFrame({"f1": d}), bounds={"f1": 1.0})
    asked = Terms({"f1": 0.0}, improve=("f1",), n_resamples=999)
    of_gate = gate_tests(units, asked).table["pvalue_better"].item()
    both = {"a": {"f1": 0.5 + d / 2}, "b": {"f1": 0.5 - d / 2}}
    row = instance_tests(both, ["f1"]).table.iloc[0]
    unbounded = {m: {"x": v["f1"]} for m, v in both.items()}
    alone = instance_tests(unbounded, ["x"], maximize=["x"]).table.iloc[0]
    assert alone.separated and alone.pvalue < row.pvalue == pytest.approx(2 * of_gate)


def test_limits_exclude_zero_where_and_only_where_methods_are_separated():
    for seed in range(12):
        rng = np.random.default_rng(seed)
        base, of = rng.random((40, 1)), np.arange(40) // 2
        methods = {}
        for k in range(3):
            values = np.clip(base + rng.normal(0.06 * k, 0.15, (40, 3)), 0, 1).round(1)
            methods[f"m{k}"] = dict(zip(("f1", "precision", "x"), values.T, strict=True))
        options = {"maximize": ["x"], "n_resamples": 199, "clusters": of if seed % 2 else None}
        tests = {d: instance_tests(methods, ["f1", "precision", "x"], **options) for d in "de"}
        for found in (*tests.values(), *jointly(tests).values()):
            table = found.table
            beyond = (table["low"] > 0) | (table["high"] < 0)
            zero = (table["low"] == 0) | (table["high"] == 0)
            assert (table["separated"] >= beyond).all()
            assert (beyond | zero | ~table["separated"]).all()


def test_many_kinds_of_differences_are_put_together_without_changing_the_test():
    rng = np.random.default_rng(0)
    d = rng.uniform(-1, 1, 5000) ** 3 + 0.01
    exact, rounded = (BoundedUnits.of(d, np.ones(5000), 2.0, rounded=r) for r in (False, True))
    assert len(rounded.times) < 600 < len(exact.times) and rounded.units == 5000
    assert rounded.mean == pytest.approx(exact.mean)
    assert rounded.statistic(0.0) == pytest.approx(exact.statistic(0.0), rel=1e-4)


def test_float_noise_is_no_difference():
    values = np.linspace(0.1, 0.9, 50)
    noisy = values + np.random.default_rng(0).choice([1e-16, 2e-16], 50)
    sides = {"a": {"f1": noisy}, "b": {"f1": values}}
    row = instance_tests(sides, ["f1"], n_resamples=99).table.iloc[0]
    assert (row.ties, row.difference, row.pvalue, row.wilcoxon_pvalue) == (50, 0, 1, 1)


FIRST, SECOND = tables(m=2).values()


@pytest.mark.parametrize(
    ("methods", "measure", "message"),
    [
        ({"a": FIRST, "b": SECOND}, "cleverness", "no direction is known for 'cleverness'"),
        ({"a": FIRST, "b": SECOND}, "recall", "'a' has not"),
        ({"a": FIRST}, "f1", "got 1 and 1"),
        ({"a": FIRST, "b": SECOND.iloc[::-1]}, "f1", "another index"),
        ({"a": FIRST, "b": {"f1": np.zeros(59)}}, "f1", "60 instances before"),
        ({"a": {"f1": [np.inf, 0.0]}, "b": {"f1": [0.0, 0.0]}}, "f1", "1 infinite ones"),
        ({"a": {"f1": [np.nan, 0]}, "b": {"f1": [0, np.nan]}}, "f1", "no instance that all have"),
    ],
)
def test_wrong_input_is_named(methods, measure, message):
    with pytest.raises(ValueError, match=message):
        instance_tests(methods, [measure])


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"x": 1.0}, "measures that are compared, got x"),
        ({"f1": 0.0}, "above 0"),
        ({"f1": 0.01}, "as large as any difference, got 0.01 for 'f1'"),
    ],
)
def test_wrong_bounds_are_named(bounds, message):
    with pytest.raises(ValueError, match=message):
        instance_tests({"a": FIRST, "b": SECOND}, ["f1"], bounds=bounds)
    with pytest.raises(ValueError, match="0 <= k <= n"):
        sign_test(3, 2)


def test_a_report_has_a_section_on_instances_where_these_are_given():
    frame = pd.DataFrame({"dataset": ["d", "d"], "method": ["m0", "m1"], "f1": [0.5, 0.6]})
    found = {"d": instance_tests(tables(m=2), ["f1"], n_resamples=99)}
    report = compare(Study.from_frame(frame), instances=found).report()
    assert 'id="instances"' in report.to_html() and "instances.csv" in report.files()
    assert found["d"].verdict() in report.to_dict()["instances"]["d"]["verdict"]
    assert compare(Study.from_frame(frame)).report().to_dict()["instances"] == {}
