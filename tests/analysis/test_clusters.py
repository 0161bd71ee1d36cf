"""Clusters: one table for all methods, blank cells, few clusters and unequal ones."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import linalg

from mlflow_mleval import evaluate, instance_tests
from mlflow_mleval.analysis.answer_comparison import Answers, aligned, compare_answers
from mlflow_mleval.analysis.measure_intervals import measure_intervals
from mlflow_mleval.analysis.pairs import cluster_doubts, cluster_numbers, one_table, satterthwaite
from mlflow_mleval.errors import IncomparableRunsError


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
    assert "5 clusters cannot separate any pair" in " ".join(found.warnings)
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


def test_contradictions_are_refused_with_the_instances_named():
    values, passages = np.zeros((2, 10)), np.array([*"aabbccddee"], dtype=object)
    other = passages.copy()
    other[[1, 4]] = "x"
    said = r"'passage' must put .* puts 2 into several: q1 \('a' by one and 'x' by two\), q4 "
    for parts, expected in (
        ((passages, other), said),
        ((other, passages), "q1 .'x' by one and 'a' by two"),
    ):
        named = dict(zip(("one", "two"), (answers(values[0], p) for p in parts), strict=True))
        with pytest.raises(IncomparableRunsError, match=expected):
            compare_answers(aligned(named), cluster="passage")
    twice = pd.Series(["a", "b"], index=["q1", "q1"])
    with pytest.raises(IncomparableRunsError, match="q1 .'a' by one and 'b' by one"):
        one_table([("one", twice)], "passage")


def test_a_measure_that_says_which_instances_belong_together_is_no_measure():
    plain = answers(np.arange(20) % 2, "")
    paged = replace(plain, values=plain.values.assign(page=np.arange(20.0) // 4))
    found = compare_answers(aligned({"a": paged, "b": paged}), cluster="page", n_resamples=99)
    assert found.measures == ("exact",) and found.n_clusters == 5
    assert "page says which instances belong together, and is no measure here." in found.notes
