"""The tests against frozen figures of R, of golden/r_figures.R; nothing here needs R."""

import json

import numpy as np
import pandas as pd
import pytest
from places import GOLDEN

import mlflow_mleval as mleval
from mlflow_mleval.analysis.beyond_pvalues import paired_power
from mlflow_mleval.analysis.multivariate import five_by_two
from mlflow_mleval.analysis.pairs import holm
from mlflow_mleval.analysis.posthoc.rank_tests import bonferroni_dunn, kendall

R = json.loads((GOLDEN / "r_figures.json").read_text(encoding="utf-8"))


def same(found, figure):
    np.testing.assert_allclose(found, figure, rtol=1e-9, atol=1e-14)


def columns(case):
    return pd.DataFrame({"a": case["a"], "b": case["b"]})


def test_the_figures_say_where_they_come_from():
    assert R["version"].startswith("R version 4") and (GOLDEN / R["source"]).is_file()


@pytest.mark.parametrize(
    "case", R["manova"], ids=lambda case: f"{np.shape(case['x'])} {case['design']}"
)
def test_manova(case):
    found = mleval.manova(case["x"], design=case["design"])
    for name, figure in case["table"].items():
        # R refers the Hotelling-Lawley trace to Pillai's F, this package to McKeon's closer one
        keys = ["statistic"] if name == "hotelling_lawley" else list(figure)
        same(found.table.loc[name, keys].to_numpy(float), [figure[key] for key in keys])
    same(found.learned.eigenvalues, case["eigenvalues"])
    paper = mleval.manova(case["x"], design="one-way", approximation="chi2")
    if case["design"] == "one-way":
        same((paper.f_statistic, paper.pvalue), (case["chi2"]["statistic"], case["chi2"]["pvalue"]))


@pytest.mark.parametrize(
    "case", R["hotelling"], ids=lambda case: f"{np.shape(case['a'])} ratio {case['ratio']:.2f}"
)
def test_hotelling(case):
    found = mleval.hotelling(case["a"], case["b"], ratio=case["ratio"])
    same((found.statistic, found.pvalue), (case["statistic"], case["pvalue"]))
    same(found.direction, np.atleast_1d(case["direction"]))
    if np.ndim(case["a"]) == 1:  # which is the t test
        same(found.posthoc["statistic"] ** 2, case["statistic"])


def test_hotelling_of_unpaired_folds():
    case = R["unpaired"]
    found = mleval.hotelling(case["a"], case["b"], paired=False)
    same((found.statistic, found.pvalue), (case["statistic"], case["pvalue"]))


def test_posthoc_tests():
    case = R["posthoc"]
    found = mleval.hotelling(case["a"], case["b"]).posthoc
    for name in ("statistic", "pvalue", "low", "high"):
        same(found[name], case[name])
    same(found["pvalue_corrected"], case["corrected"])


def test_five_by_two():
    case = R["five_by_two"]
    row = five_by_two(np.array([case["a"], case["b"]])[..., None]).table.iloc[0]
    same((row.f_statistic, row.pvalue), (case["f_statistic"], case["pvalue"]))


@pytest.mark.parametrize("case", R["mardia"], ids=["normal", "skewed"])
def test_mardia(case):
    found = mleval.mardia(case["x"])
    same((found.skewness, found.kurtosis), (case["skewness"], case["kurtosis"]))
    same(found.skewness_pvalue, case["small_sample_pvalue"])


@pytest.mark.parametrize("case", R["friedman"], ids=lambda case: str(np.shape(case["x"])))
def test_ranks(case):
    x = np.array(case["x"])
    found = mleval.friedman(x)
    for name in ("statistic", "pvalue", "iman_davenport_statistic", "iman_davenport_pvalue"):
        same(getattr(found, name), case[name])
    pairs, control = mleval.nemenyi(x), bonferroni_dunn(x, 0)
    same(pairs.critical_difference, case["critical_difference"])
    same(pairs.pvalues, case["nemenyi"])
    np.testing.assert_allclose(pairs.pvalues, case["ptukey"], atol=3e-8)
    same(control.critical_difference, case["dunn_critical_difference"])
    same(control.pvalues.iloc[0, 1:], case["dunn"])


@pytest.mark.parametrize("case", R["wilcoxon"], ids=lambda case: f"{len(case['a'])} datasets")
def test_signed_ranks(case):
    row = mleval.wilcoxon_pairs(columns(case)).table.iloc[0]
    n = len(case["a"])
    assert row.exact == bool(case["exact"])
    same(row.statistic, min(case["statistic"], n * (n + 1) / 2 - case["statistic"]))
    same(row.pvalue, case["pvalue"])


def test_corrections():
    same(holm(R["corrections"]["pvalues"]), R["corrections"]["holm"])


def test_kendall():
    same(kendall(R["kendall"]["rankings"]), R["kendall"]["tau"])


@pytest.mark.parametrize("case", R["sign"], ids=lambda case: f"{case['k']} of {case['n']}")
def test_signs(case):
    found = mleval.sign_test(case["k"], case["n"])
    same((found.pvalue, found.low, found.high), (case["pvalue"], case["low"], case["high"]))
    same(mleval.sign_test(case["k"], case["n"], alternative="greater").pvalue, case["greater"])


def test_signed_ranks_of_instances_with_ties_and_zeros():
    case = R["instances"]
    methods = {m: {"f1": np.array(case[m])} for m in "ab"}
    row = mleval.instance_tests(methods, ["f1"], n_resamples=99).table.iloc[0]
    same((row.wilcoxon_statistic, row.wilcoxon_pvalue), (case["statistic"], case["pvalue"]))


def test_equivalence():
    case = R["tost"]
    row = mleval.equivalence(columns(case), case["margin"]).table.iloc[0]
    figures = [case[name] for name in ("above", "below", "low", "high")]
    same((row.p_above, row.p_below, row.low, row.high), figures)


def test_bayesian_t():
    case = R["bayes"]
    row = mleval.bayesian_t(columns(case), case["rope"], ratio=case["ratio"]).table.iloc[0]
    same((row.p_a, row.p_b), (case["p_a"], case["p_b"]))


@pytest.mark.parametrize("case", R["power"], ids=lambda case: f"{case['effect']} of {case['n']}")
def test_power(case):
    same(paired_power(case["effect"], case["n"]), case["power"])
