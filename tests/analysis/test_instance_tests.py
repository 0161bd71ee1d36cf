"""Tests over instances, their clusters and repeats against scipy, enumeration and published
values.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from command_line import as_json, mleval
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg, stats

from mlflow_mleval import evaluate
from mlflow_mleval.analysis.answer_comparison import Answers, aligned, compare_answers
from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.gate_tests import Differences, Terms, gate_tests
from mlflow_mleval.analysis.measure_intervals import measure_intervals
from mlflow_mleval.analysis.pairs import cluster_doubts, cluster_numbers, jointly, satterthwaite
from mlflow_mleval.analysis.pairs_by_unit import instance_tests, repeat_tests, sign_test
from mlflow_mleval.analysis.resampling import Sample, sign_tests
from mlflow_mleval.errors import IncomparableRunsError
from mlflow_mleval.report.blocks import glossary
from mlflow_mleval.report.content.units import document as document_of_tests
from mlflow_mleval.store.query import load_study
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
    assert "at alpha = 0.05 by 19 changes of sign, and" in " ".join(found.warnings)
    assert "without a value for some method are left out for all: 1 of f1" in found.warnings[-2]
    assert (found.table["n"] == 59).all()
    said = "The test over instances separates 0 of 3 pairs on 60 instances"
    assert found.verdict().startswith(said)
    same = instance_tests({"a": methods["m1"], "b": methods["m1"].copy()}, ["f1"], n_resamples=99)
    assert "does not separate a and b on" in same.verdict()


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
    assert "by 8 changes of sign, and intervals are endless: it takes more clusters" in " ".join(
        few.warnings
    )


def test_the_tests_report_themselves():
    found = instance_tests(tables(m=2), ["f1", "accuracy"], n_resamples=99)
    document = found.report({"seed": 0, "time": "2026-01-01T00:00:00+00:00"})
    assert r"\label{tab:mleval-instances}" in document.to_latex()
    assert "seed 0; 2026" in str(document)
    whole = document.to_dict()
    assert (whole["n_draws"], whole["verdict"]) == (99, found.verdict())
    assert whole["methods"] == ["m0", "m1"]
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
    exact, rounded = (Sample.of(d, np.ones(5000), 2.0, rounded=r) for r in (False, True))
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


INDEXED = {m: pd.DataFrame(columns) for m, columns in clustered(0)[0].items()}


@pytest.mark.parametrize(
    ("methods", "options", "message"),
    [
        ({}, {"measures": ["cleverness"]}, "no direction is known for 'cleverness'"),
        ({}, {"measures": ["recall"]}, "'a' has not"),
        ({"b": FIRST.iloc[::-1]}, {}, "another index"),
        ({"b": {"f1": np.zeros(59)}}, {}, "59 values of 'f1' for 'b' where others have 60"),
        ({"a": {"f1": [np.inf, 0.0]}, "b": {"f1": [0.0, 0.0]}}, {}, "one finite value an instance"),
        ({"a": {"f1": [np.nan, 0]}, "b": {"f1": [0, np.nan]}}, {}, "no instance that all have"),
        ({}, {"bounds": {"x": 1.0}}, "measures that are compared, got x"),
        ({}, {"bounds": {"f1": 0.0}}, "above 0"),
        ({}, {"bounds": {"f1": 0.01}}, "as large as any difference, got 0.01 for 'f1'"),
        (INDEXED, {"clusters": ["g"] * 9}, "each of the 200 instances"),
        (INDEXED, {"clusters": ["g"] * 200}, "at least two"),
        (INDEXED, {"clusters": pd.Series("g", range(1, 201))}, "index of the instances"),
    ],
)
def test_wrong_input_is_named(methods, options, message):
    with pytest.raises(ValueError, match=message):
        instance_tests({"a": FIRST, "b": SECOND} | methods, **{"measures": ["f1"]} | options)


def test_one_method_and_more_wins_than_instances_are_named():
    with pytest.raises(ValueError, match="got 1 and 1"):
        instance_tests({"a": FIRST}, ["f1"])
    with pytest.raises(ValueError, match="0 <= k <= n"):
        sign_test(3, 2)


def test_a_report_has_a_section_on_instances_where_these_are_given():
    frame = pd.DataFrame({"dataset": ["d", "d"], "method": ["m0", "m1"], "f1": [0.5, 0.6]})
    found = {"d": instance_tests(tables(m=2), ["f1"], n_resamples=99)}
    report = compare(Study.from_frame(frame), instances=found).report()
    assert 'id="instances"' in report.to_html() and "instances.csv" in report.files()
    assert found["d"].verdict() in report.to_dict()["instances"]["d"]["verdict"]
    assert compare(Study.from_frame(frame)).report().to_dict()["instances"] == {}


def drawn(rng, sizes, step=0.0):
    """Differences by instance, half of whose variance is the cluster's, and the clusters."""
    of = np.repeat(np.arange(len(sizes)), sizes)
    return step + rng.normal(size=len(sizes))[of] + rng.normal(size=len(of)), of


def compared(d, of, **options):
    tables = {"a": {"f1": d}, "b": {"f1": np.zeros(len(d))}}
    return instance_tests(tables, ["f1"], clusters=of, **options)


def share_right(right):
    """An evaluation whose subset accuracy is the share of instances that are right."""
    return evaluate(np.ones((len(right), 1), int), y_pred=right[:, None].astype(int))


def test_five_clusters_bound_nothing():
    d, of = drawn(np.random.default_rng(0), [4] * 5)
    found = compared(d, of)
    assert found.table[["low", "high"]].iloc[0].tolist() == [-np.inf, np.inf]
    assert "by 16 changes of sign, and intervals are endless" in " ".join(found.warnings)
    assert "[−∞, ∞]" in str(found.report())


def test_the_doubt_names_the_effective_number_of_clusters():
    d, of = drawn(np.random.default_rng(0), [50, *[5] * 10])
    said = " ".join(compared(d, of, n_resamples=99).warnings)
    assert "effective number of clusters is 3.64: there are 11" in said
    assert "holds 50 of 100" in said
    ev = share_right(d > 0)
    assert "clusters is 3.64" in " ".join(measure_intervals(ev, clusters=of).warnings)
    assert measure_intervals(ev).warnings == () and not cluster_doubts(None, np.arange(100) // 4)


def test_variance_and_degrees_of_freedom_are_those_of_bell_and_mccaffrey():
    sizes = [12, 7, 3, 3, 1]
    of, n = np.repeat(np.arange(5), sizes), sum(sizes)
    hat = np.full((n, n), 1 / n)
    blocks = [np.flatnonzero(of == g) for g in range(5)]
    # CR2 of the mean: each residual vector times (I - H)^(-1/2) of its cluster
    parts = [
        np.linalg.inv(linalg.sqrtm(np.eye(len(b)) - hat[np.ix_(b, b)])).real.sum(axis=0) / n
        for b in blocks
    ]
    rows = np.array([part @ (np.eye(n) - hat)[b] for part, b in zip(parts, blocks, strict=True)])
    moments = np.linalg.eigvalsh(rows @ rows.T)
    assert satterthwaite(sizes) == pytest.approx(moments.sum() ** 2 / (moments**2).sum())
    right = np.random.default_rng(0).random(n) < 0.6
    found = measure_intervals(share_right(right), clusters=of).table.loc["subset_accuracy"]
    assert found["standard_error"] == pytest.approx(np.sqrt(((rows @ right) ** 2).sum()))


def test_what_names_no_cluster_is_a_cluster_of_its_own():
    given = ["x", "", "x", None, " ", "y", float("nan")]
    numbers = cluster_numbers(given, 7)
    assert numbers[0] == numbers[2] and len(set(numbers)) == 6
    found = cluster_doubts(given, numbers)[0]
    assert found == "4 of 7 instances name no cluster: each is one of its own."
    d, of = drawn(np.random.default_rng(2), [5] * 30)
    blank, own = np.array([f"c{k}" for k in of], dtype=object), of.copy()
    blank[of == 3], own[of == 3] = "", 100 + np.arange(5)
    expected = compared(d, own, n_resamples=99).table
    pd.testing.assert_frame_equal(compared(d, blank, n_resamples=99).table, expected)
    ev = share_right(d > 0)
    expected = measure_intervals(ev, clusters=own).table
    pd.testing.assert_frame_equal(measure_intervals(ev, clusters=blank).table, expected)


def answers(values, passages, **more):
    keys = pd.Index([f"q{k}" for k in range(len(values))], name="instance")
    about = pd.DataFrame({"asked": keys, "link": "", "passage": passages}, index=keys)
    return Answers(
        pd.DataFrame({"exact": values}, keys, dtype=float), about, passing=("exact",), **more
    )


def test_the_clusters_of_all_methods_count_in_any_order():
    rng = np.random.default_rng(0)
    values, passages = rng.integers(0, 2, (2, 40)), np.repeat([*"abcdefgh"], 5)
    half = np.where(np.arange(40) % 2, "", passages)
    whole = {"one": answers(values[0], half), "two": answers(values[1], passages)}
    one = replace(whole["one"], about=whole["one"].about.drop(columns="passage"))
    for methods in (whole, dict(reversed(whole.items())), whole | {"one": one}):
        found = compare_answers(aligned(methods), cluster="passage", n_resamples=99)
        assert found.n_clusters == 8
    with pytest.raises(ValueError, match="no answer tells 'page'. Name one of passage, exact"):
        compare_answers(aligned(whole), cluster="page")


def test_a_measure_that_says_which_instances_belong_together_is_no_measure():
    plain = answers(np.arange(20) % 2, "")
    paged = replace(plain, values=plain.values.assign(page=np.arange(20.0) // 4))
    found = compare_answers(aligned({"a": paged, "b": paged}), cluster="page", n_resamples=99)
    assert found.measures == ("exact",) and found.n_clusters == 5
    assert "page names clusters, and is no measure here." in found.notes


def repeats(*sizes, shift=0.05, seed=0, measures=("f1", "hamming_loss")):
    rng = np.random.default_rng(seed)
    return {
        f"m{k}": pd.DataFrame(
            rng.normal(0.6 + shift * k, 0.02 + 0.01 * k, (n, len(measures))), columns=list(measures)
        )
        for k, n in enumerate(sizes)
    }


def test_welch_is_scipys_with_unequal_numbers_and_larger_is_better():
    methods = repeats(4, 7, 5)
    found = repeat_tests(methods).table
    for row in found.itertuples():
        a, b = (methods[m][row.measure] for m in (row.method_a, row.method_b))
        expected = stats.ttest_ind(a, b, equal_var=False)
        sign = -1 if row.measure == "hamming_loss" else 1
        assert (row.n_a, row.n_b, row.mean_a) == (len(a), len(b), pytest.approx(a.mean()))
        wanted = (sign * expected.statistic, expected.pvalue, expected.df)
        assert (row.statistic, row.pvalue, row.df) == pytest.approx(wanted)
        level = 1 - 0.05 / len(found)  # of all together
        interval = sorted(sign * np.array(expected.confidence_interval(level)))
        assert row.separated == (row.low >= 0 or row.high <= 0)
        if row.separated:  # by a later step of Holm's, it may be
            interval = np.maximum(interval, 0) if row.difference > 0 else np.minimum(interval, 0)
        wanted = [*interval, sign * (a.mean() - b.mean())]
        assert [row.low, row.high, row.difference] == pytest.approx(wanted)


def test_one_correction_holds_for_headline_and_table():
    found = repeat_tests(repeats(4, 7, 5))
    table = found.table
    corrected = np.minimum.accumulate((np.sort(table["pvalue"]) * np.arange(6, 0, -1))[::-1])[::-1]
    assert found.n_comparisons == 6
    assert table["pvalue_corrected"].min() == pytest.approx(table["pvalue"].min() * 6)
    assert table["pvalue_corrected"].max() >= corrected.max()
    expected = table.groupby(["method_a", "method_b"])["pvalue_corrected"].min().tolist()
    assert found.by_pair["pvalue_corrected"].tolist() == expected
    won = table[table["separated"]].groupby(["method_a", "method_b"]).size()
    assert found.by_pair["separated"].sum() == len(won)


def test_what_cannot_be_tested_is_listed():
    methods = repeats(4, 4, 1, 4)
    methods["m3"].loc[[0, 1, 2], "f1"] = np.nan
    methods["m0"]["hamming_loss"] = methods["m3"]["hamming_loss"] = 0.25
    found = repeat_tests(methods)
    assert found.n_comparisons == found.table["pvalue"].notna().sum() == 3
    assert "4 pairs could not be tested" in found.headline()
    told = " ".join(found.warnings)
    assert "two repeats of a method: m0 and m2 on f1" in told and "f1 in 3 of 4 of m3" in told
    assert "its values do not vary over repeats: m0 and m3 on hamming_loss." in told
    with pytest.raises(IncomparableRunsError, match="m0 has 4, m1 has 1"):
        repeat_tests(repeats(4, 1))
    said = "no pair of methods can be tested: its values do not vary"
    with pytest.raises(IncomparableRunsError, match=said):
        repeat_tests({m: pd.DataFrame({"f1": [0.5, 0.5]}) for m in "ab"})


def test_what_is_no_table_of_repeats_and_no_evaluation_is_named():
    table = pd.DataFrame({"f1": [0.5, 0.6]})
    for wrong, said in ((table["f1"].to_numpy(), "`methods`"), ({"a": table, "b": 2}, "'b'")):
        with pytest.raises(TypeError, match=said):
            repeat_tests(wrong)
    with pytest.raises(TypeError, match="`ev` must be what `evaluate` returns, got ndarray"):
        measure_intervals(np.eye(3))


@pytest.mark.parametrize(
    ("same", "said"),
    [(True, "how much training varies"), (False, "overlap"), (None, "training varies")],
)
def test_the_verdict_says_what_repeats_measure(same, said):
    assert said in repeat_tests(repeats(3, 3), same_split=same).verdict()


def test_equal_methods_are_rarely_separated():
    found = pd.concat(
        [repeat_tests(repeats(5, 6, shift=0, seed=k, measures=["f1"])).table for k in range(120)]
    )
    assert (found["pvalue"] <= 0.05).mean() <= 0.1  # of 0.05, two and a half deviations above


OVER = ["compare", "--over", "repeats"]
SEEDS = ["-n", "wine", "--method-by", "param:model", "--max", "test_auc"]


def test_compare_over_repeats_gives_what_the_function_gives(plain):
    found = as_json(*OVER, *SEEDS)
    study = load_study(experiment_names=["wine"], method_by="param:model", maximize=["test_auc"])
    expected = repeat_tests(
        study.over("repeats", "wine").tables, ["test_auc"], maximize=["test_auc"]
    )
    rows = found["datasets"]["wine"]["table"]
    assert [row["pvalue_corrected"] for row in rows] == expected.table["pvalue_corrected"].tolist()
    assert set(found) == {"schema_version", *glossary("pairs")} - {"n_instances"}
    assert found["over"] == "repeats"
    assert found["datasets"]["wine"]["n_repeats"]["mlp"] == study.n_repeats["wine", "mlp"]
    assert "how much training varies" in found["datasets"]["wine"]["verdict"]
    page = mleval(*OVER, *SEEDS, "--output", "html").stdout
    assert "logreg" in page and "separates" in page
    told = mleval(*OVER, *SEEDS, "--read", "duplicates=latest", code=1).output
    assert "no method has several runs on wine" in told


def test_datasets_are_corrected_together(plain):
    both, one = as_json(*OVER, "-n", "spam", *SEEDS), as_json(*OVER, *SEEDS)
    rows, alone = both["datasets"]["wine"]["table"], one["datasets"]["wine"]["table"]
    assert [r["pvalue"] for r in rows] == [r["pvalue"] for r in alone]
    expected = len(both["datasets"]["spam"]["table"]) + len(rows)
    assert both["datasets"]["wine"]["n_comparisons"] == expected
    assert min(r["pvalue_corrected"] for r in rows) > min(r["pvalue_corrected"] for r in alone)
    assert {row["dataset"] for row in both["pairs"]} == {"spam", "wine"}
