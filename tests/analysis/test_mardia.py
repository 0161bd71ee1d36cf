"""Mardia's test against its definition, published figures and simulation."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from mlflow_mleval import mardia


def test_figures_of_the_r_package_mvn_on_iris_setosa():
    """Korkmaz, Goksuluk & Zararsiz (2014), The R Journal 6(2), the output of mardiaTest(setosa)."""
    setosa = load_iris().data[:50]
    found = mardia(setosa)
    assert found.skewness == pytest.approx(3.079721, abs=5e-7)
    assert found.kurtosis == pytest.approx(26.53766, abs=5e-6)
    assert found.skewness_statistic == pytest.approx(27.85973, abs=5e-6)
    assert found.skewness_pvalue == pytest.approx(0.1127617, abs=5e-8)


def test_small_sample_moments_of_the_kurtosis_are_exact():
    """Of 12 normal rows mean and variance are 0 and 1, which the limits for large n miss."""
    rng = np.random.default_rng(0)
    exact = np.array([mardia(rng.normal(size=(12, 2))).kurtosis_statistic for _ in range(2000)])
    assert abs(exact.mean()) < 0.05
    assert abs(exact.var() - 1) < 0.1


def test_level_and_power_of_the_pooled_test():
    rng = np.random.default_rng(3)
    reject = [mardia(rng.normal(size=(7, 10, 2))).pvalue <= 0.05 for _ in range(1000)]
    assert np.mean(reject) < 0.06
    heavy = [mardia(rng.standard_t(3, size=(7, 10, 2))).pvalue <= 0.05 for _ in range(200)]
    assert np.mean(heavy) > 0.7


def test_of_two_methods_the_differences_are_tested():
    a, b = np.random.default_rng(6).exponential(size=(2, 12, 2))
    assert mardia(np.stack([a, b])) == mardia(a - b)


def test_says_that_ten_folds_of_one_method_show_nothing():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(10, 2)), columns=["tpr", "fpr"])
    found = mardia(frame)
    assert found.measures == ["tpr", "fpr"]
    assert any("almost no power" in w for w in found.warnings)
    assert not mardia(np.random.default_rng(0).normal(size=(4, 10, 2))).warnings


def test_names_dependent_measures():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), columns=["tp", "fp"])
    frame["fn"] = 40 - frame["tp"]
    said = r"1 of 3 that are not: fn follows from tp\. Leave them out"
    with pytest.raises(ValueError, match=said):
        mardia(frame)
    found = mardia(frame, dependent="drop")
    assert found.dropped == {"fn": "follows from tp"} and found.measures == ["tp", "fp"]
    assert found.statistic == pytest.approx(mardia(frame[["tp", "fp"]]).statistic)


def test_refuses_too_few_folds_and_gaps():
    with pytest.raises(ValueError, match="at least two more folds than measures"):
        mardia(np.random.default_rng(0).normal(size=(3, 2)))
    with pytest.raises(ValueError, match=r"1 of 20 missing or infinite \(first at 0, 1\)"):
        mardia([[1, np.nan], *np.random.default_rng(0).normal(size=(9, 2))])
    with pytest.raises(TypeError, match="must hold numbers"):
        mardia([["a", "b"]])


def test_a_kurtosis_that_cannot_vary_says_nothing():
    """Of three rows of one measure it is 3/2, whatever they are."""
    found = mardia(np.array([0.5, 0.75, 0.25])[:, None])
    assert found.kurtosis == pytest.approx(1.5)
    assert found.kurtosis_statistic == 0 and found.kurtosis_pvalue == 1 and found.pvalue > 0.9
