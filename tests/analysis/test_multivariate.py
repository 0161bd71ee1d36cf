"""Hotelling's T-squared, MANOVA and Mardia's test against published examples, brute force and
simulation.
"""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, stats
from sklearn.datasets import load_iris
from statsmodels.stats import multivariate as sm

from mlflow_mleval import hotelling, hotelling_pairs, manova, mardia

#: Johnson & Wichern, "Applied multivariate statistical analysis", example 6.1: BOD and SS of
#: effluent by two laboratories.
COMMERCIAL, STATE = (
    np.array(text.split(), dtype=float).reshape(-1, 2)
    for text in (
        "6 27 6 23 18 64 8 44 11 30 34 75 28 26 71 124 43 54 33 30 20 14",
        "25 15 28 13 36 22 35 29 15 31 44 64 42 30 54 64 34 56 29 20 39 21",
    )
)
#: Rencher, "Methods of multivariate analysis", table 6.2: four measures of eight apple trees on
#: each of six rootstocks.
ROOTSTOCK = """
1.11 2.569 3.58 .760 1.19 2.928 3.75 .821 1.09 2.865 3.93 .928 1.25 3.844 3.94 1.009
1.11 3.027 3.60 .766 1.08 2.336 3.51 .726 1.11 3.211 3.98 1.209 1.16 3.037 3.62 .750
1.05 2.074 4.09 1.036 1.17 2.885 4.06 1.094 1.11 3.378 4.87 1.635 1.25 3.906 4.98 1.517
1.17 2.782 4.38 1.197 1.15 3.018 4.65 1.244 1.17 3.383 4.69 1.495 1.19 3.447 4.40 1.026
1.07 2.505 3.76 .912 .99 2.315 4.44 1.398 1.06 2.667 4.38 1.197 1.02 2.390 4.67 1.613
1.15 3.021 4.48 1.476 1.20 3.085 4.78 1.571 1.20 3.308 4.57 1.506 1.17 3.231 4.56 1.458
1.22 2.838 3.89 .944 1.03 2.351 4.05 1.241 1.14 3.001 4.05 1.023 1.01 2.439 3.92 1.067
.99 2.199 3.27 .693 1.11 3.318 3.95 1.085 1.20 3.601 4.27 1.242 1.08 3.291 3.85 1.017
.91 1.532 4.04 1.084 1.15 2.552 4.16 1.151 1.14 3.083 4.79 1.381 1.05 2.330 4.42 1.242
.99 2.079 3.47 .673 1.22 3.366 4.41 1.137 1.05 2.416 4.64 1.455 1.13 3.100 4.57 1.325
1.11 2.813 3.76 .800 .75 .840 3.14 .606 1.05 2.199 3.75 .790 1.02 2.132 3.99 .853
1.05 1.949 3.34 .610 1.07 2.251 3.21 .562 1.13 3.064 3.63 .707 1.11 2.469 3.95 .952
"""


def folds(n_methods=4, n_folds=10, p=3, seed=0, effect=0.3):
    """Correlated measures with effects of folds and of methods."""
    rng = np.random.default_rng(seed)
    mix = np.eye(p) + 0.5 * rng.normal(size=(p, p))
    x = rng.normal(size=(n_methods, n_folds, p)) @ mix + 2 * rng.normal(size=(1, n_folds, p))
    return x + effect * np.arange(n_methods)[:, None, None] * np.array([1, -1, 0.5, 0])[:p]


class TestHotelling:
    def test_published_example(self):
        found = hotelling(COMMERCIAL, STATE, measures=["BOD", "SS"])
        assert found.statistic == pytest.approx(13.6, abs=0.05)
        assert found.mean_difference.round(2).tolist() == [-9.36, 13.27]
        assert found.pvalue < 0.05  # the book: 13.6 > 9.47
        # and its simultaneous intervals both hold zero
        assert not found.posthoc["significant"].any()

    @settings(max_examples=40)
    @given(st.integers(0, 10_000), st.sampled_from([None, 0.1]), st.booleans())
    def test_does_not_change_with_linear_transforms_or_order(self, seed, ratio, paired):
        rng = np.random.default_rng(seed)
        a, b = rng.normal(size=(2, 8, 3))
        turn = rng.normal(size=(3, 3))
        first = hotelling(a, b, ratio=ratio, paired=paired)
        turned = hotelling(a @ turn + 1, b @ turn + 1, ratio=ratio, paired=paired)
        back = hotelling(b[::-1], a[::-1], ratio=ratio, paired=paired)
        assert turned.statistic == pytest.approx(first.statistic, rel=1e-5)
        assert back.statistic == pytest.approx(first.statistic, rel=1e-9)

    def test_permutation_goes_through_all_swaps_or_some_of_many(self):
        a, b = folds(2, n_folds=8, p=2, effect=1)
        d = a - b
        all_of = [sm.test_mvmean(d * np.array(s)[:, None]).t2 for s in product((1, -1), repeat=8)]
        share = np.mean(np.array(all_of) >= hotelling(a, b).statistic * (1 - 1e-9))
        assert hotelling(a, b, method="permutation").pvalue == pytest.approx(share)
        a, b = folds(2, n_folds=30, p=2, effect=0.5)
        found = hotelling(a, b, method="permutation", seed=1)
        assert found.pvalue == hotelling(a, b, method="permutation", seed=1).pvalue
        assert found.pvalue == pytest.approx(hotelling(a, b).pvalue, abs=0.02)

    def test_names_dependent_measures(self):
        rng = np.random.default_rng(0)
        a, b = (
            pd.DataFrame({"tp": rng.integers(20, 40, 10), "fp": rng.integers(0, 20, 10)})
            for _ in range(2)
        )
        for x in (a, b):
            x["fn"], x["tn"] = 40 - x["tp"], 60 - x["fp"]
        said = r"2 of 4 that are not: fn follows from tp; tn follows from fp\. Leave them out"
        with pytest.raises(ValueError, match=said):
            hotelling(a, b)
        found = hotelling(a, b, dependent="drop")
        assert found.measures == ["tp", "fp"]
        assert found.dropped == {"fn": "follows from tp", "tn": "follows from fp"}
        expected = hotelling(a[["tp", "fp"]], b[["tp", "fp"]]).statistic
        assert found.statistic == pytest.approx(expected)
        assert found.df == (2, 8)
        assert found.warnings[0] == "Left out: fn follows from tp."

    def test_a_method_does_not_differ_from_itself(self):
        a = folds(1)[0]
        found = hotelling(a, a)
        assert (found.statistic, found.pvalue) == (0, 1)
        assert "same values in every fold" in found.warnings[0]
        assert hotelling(a, a, method="permutation").pvalue == 1

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"x1": np.ones((3, 3)), "x2": np.eye(3)}, ".* at least 4 folds or at most 2"),
            ({"x1": np.ones((1, 2)), "x2": np.eye(2)[:1]}, "got 1 fold for 2 .* at least 3 folds."),
            ({"x2": np.ones((9, 2))}, "`x2` must have the shape .10, 2. of `x1`, got .9, 2."),
            ({"x1": np.ones((2, 2, 2))}, "`x1` must be folds x measures"),
            ({"ratio": -1}, "`ratio` must be n_test / n_train of a fold"),
            ({"dependent": "pinv"}, "`dependent` must be one of 'error', 'drop'"),
            ({"method": "permutation", "ratio": 0.1}, "`method` must be 'f' with `ratio`"),
            ({"method": "permutation", "paired": False}, "must be 'f' with `ratio` or unpaired"),
            ({"measures": ["a"]}, "`measures` must hold one name for each of the 2"),
            ({"alpha": 5}, "`alpha` must lie strictly between 0 and 1"),
        ],
    )
    def test_refuses(self, change, message):
        rng = np.random.default_rng(0)
        arguments = {"x1": rng.normal(size=(10, 2)), "x2": rng.normal(size=(10, 2))} | change
        with pytest.raises(ValueError, match=message):
            hotelling(**arguments)

    def test_refuses_gaps_and_mixed_columns(self):
        a = pd.DataFrame(folds(1)[0], columns=list("abc"))
        gap = a.copy()
        gap.loc[4, "b"] = np.nan
        said = r"`x2` must be finite in every cell, got 1 of 30 .* \(first at 4, 1\)"
        with pytest.raises(ValueError, match=said):
            hotelling(a, gap)
        with pytest.raises(ValueError, match="must have the columns of .* in the same order"):
            hotelling(a, a[["b", "a", "c"]])


class TestPairs:
    @pytest.mark.parametrize("paired", [True, False])
    @pytest.mark.parametrize("ratio", [None, 1 / 9])
    def test_is_hotelling_for_every_pair(self, paired, ratio):
        x = folds(6, p=4)
        how = {"measures": list("abcd"), "ratio": ratio, "paired": paired}
        found = hotelling_pairs(x, methods=list("uvwxyz"), **how)
        assert len(found.table) == 15
        at = dict(zip("uvwxyz", x, strict=True))
        for row, pair in found.table.iterrows():
            one = hotelling(at[pair["method_a"]], at[pair["method_b"]], **how)
            expected = (one.statistic, one.pvalue)
            assert (pair["statistic"], pair["pvalue"]) == pytest.approx(expected, rel=1e-9)
            assert found.df == one.df
            np.testing.assert_allclose(found.differences.loc[row], one.mean_difference)
            np.testing.assert_allclose(found.directions.loc[row], one.direction)
            np.testing.assert_allclose(found.posthoc_pvalues.loc[row], one.posthoc["pvalue"])
            expected = one.posthoc["pvalue_corrected"]
            np.testing.assert_allclose(found.posthoc_corrected.loc[row], expected)

    @pytest.mark.parametrize("paired", [True, False])
    def test_measures_that_exhaust_the_folds_do_not_count_as_dependent(self, paired):
        said = "`x` must have more folds than measures, got 2 folds for 4 measures. It takes at le"
        with pytest.raises(ValueError, match=said):
            hotelling_pairs(folds(2, 2, 4), paired=paired, dependent="drop")
        with pytest.raises(ValueError, match="got 1 fold for 4 measures. It takes at least"):
            hotelling_pairs(folds(2, 1, 4), paired=paired)

    def test_pairs_that_cannot_be_tested_do_not_count(self):
        x = folds(4, effect=1)
        x[3] = x[0]
        x[2, :, 1] = x[1, :, 1] + 1
        found = hotelling_pairs(x, measures=["a", "b", "c"])
        table = found.table.set_index(["method_a", "method_b"])
        assert table.loc[(0, 3), ["statistic", "pvalue"]].tolist() == [0, 1]
        assert np.isnan(table.loc[(1, 2), "pvalue"]) and not table.loc[(1, 2), "significant"]
        seen = table.loc[(1, 2), "problem"]
        assert seen == "b does not vary, or follows from the measures before it"
        assert "1 of 6 pairs could not be tested" in found.warnings[0]
        assert table["pvalue_corrected"].min() == pytest.approx(5 * table["pvalue"].min())
        assert np.isnan(found.posthoc_pvalues["b"]).sum() == 1


class TestManova:
    def test_published_example(self):
        """Rencher prints Λ, V, U, θ = .652 and the eigenvalues."""
        x = np.array(ROOTSTOCK.split(), dtype=float).reshape(6, 8, 4)
        found = manova(x, design="one-way")
        table = found.table["statistic"]
        assert table.round(3).tolist() == [0.154, 1.305, 2.921, 1.876]
        assert table["roy"] / (1 + table["roy"]) == pytest.approx(0.652, abs=5e-4)
        assert found.learned.eigenvalues.round(3).tolist() == [1.876, 0.791, 0.229, 0.026]
        assert found.f_statistic == pytest.approx(4.937, abs=5e-4)
        assert found.df == pytest.approx((20, 130.3), abs=0.05)

    def test_blocking_sees_what_one_way_does_not(self):
        x = folds(6, effect=0.1)
        assert manova(x).pvalue < manova(x, design="one-way").pvalue
        shifted = x + 10 * np.random.default_rng(5).normal(size=(1, 10, 3))
        assert manova(shifted).statistic == pytest.approx(manova(x).statistic, rel=1e-9)

    def test_learned_measures_are_the_eigenvectors(self):
        x = folds(5, p=4)
        found = manova(x, measures=["tp", "fp", "tn", "fn"])
        values, vectors = linalg.eigh(found.between, found.within)
        np.testing.assert_allclose(found.learned.eigenvalues, values[::-1], rtol=1e-9)
        assert found.learned.shares.sum() == pytest.approx(1)
        for k, name in enumerate(found.learned.weights):
            theirs, ours = vectors[:, ::-1][:, k], found.learned.weights[name].to_numpy()
            assert abs(theirs @ ours) == pytest.approx(np.linalg.norm(theirs))
            assert np.linalg.norm(ours) == pytest.approx(1) and ours[np.abs(ours).argmax()] > 0
        projected = found.learned.projections.loc[2].to_numpy()
        np.testing.assert_allclose(projected, x[2] @ found.learned.weights.to_numpy())

    def test_no_more_learned_measures_than_differences_of_methods(self):
        assert list(manova(folds(3, p=4)).learned.weights) == ["M1", "M2"]

    def test_tests_on_learned_measures_allow_for_the_choice(self):
        x = folds(4, p=3)
        found = manova(x, measures=list("abc"), ratio=1 / 9)
        tests = found.learned.tests()
        pairs = hotelling_pairs(x, measures=list("abc"), ratio=1 / 9).table
        first = tests[tests["learned"] == "M1"].reset_index(drop=True)
        assert (first["statistic"] ** 2 <= pairs["statistic"] * (1 + 1e-9)).all()
        assert (first["pvalue"] >= pairs["pvalue"] * (1 - 1e-9)).all()
        assert (first["pvalue"] >= first["pvalue_naive"]).all()
        projected = found.learned.projections["M1"]
        t = stats.ttest_rel(projected.loc[0], projected.loc[1]).statistic / np.sqrt(1 + 10 / 9)
        assert first["statistic"].iloc[0] == pytest.approx(t)

    def test_says_when_methods_vary_unequally(self):
        x = folds(4)
        assert not manova(x).warnings
        x[2] += np.random.default_rng(0).normal(size=(10, 3)) * 20
        (warning,) = manova(x, methods=list("abcd")).warnings
        assert warning.startswith("The results of c vary") and "rejects too often" in warning

    @pytest.mark.parametrize(
        ("x", "options", "message"),
        [
            (np.ones((1, 10, 2)), {}, "at least two methods and two folds, got 1 and 10"),
            (folds(2, 3), {}, "got 2 for 3 measures .2 methods on 3 folds."),
            (np.ones((3, 10, 2)), {}, "no variation to test against"),
            (folds(), {"design": "nested"}, "`design` must be one of"),
            (folds(), {"methods": ["a", "a", "b", "c"]}, "`methods` must differ"),
            (np.ones((3, 10)), {}, "`x` must be methods x folds x measures"),
        ],
    )
    def test_refuses(self, x, options, message):
        with pytest.raises(ValueError, match=message):
            manova(x, **options)


@pytest.mark.thorough
class TestErrorRates:
    """Null folds that correlate by n_test / (n_test + n_train) = 1/10."""

    @staticmethod
    def null(n, n_methods, p, seed=0, share=0.1):
        rng = np.random.default_rng(seed)
        own = rng.normal(size=(n, n_methods, 10, p)) * np.sqrt(1 - share)
        return own + rng.normal(size=(n, n_methods, 1, p)) * np.sqrt(share)

    def test_corrected_tests_hold_their_level_and_naive_ones_do_not(self):
        x = self.null(2000, 2, 3)
        corrected = np.mean([hotelling(a, b, ratio=1 / 9).pvalue <= 0.05 for a, b in x])
        naive = np.mean([hotelling(a, b).pvalue <= 0.05 for a, b in x])
        assert 0.04 <= corrected <= 0.06
        assert naive > 0.12

    def test_tests_on_learned_measures_hold_their_level(self):
        x = self.null(150, 4, 3, seed=2)
        tests = [manova(v, ratio=1 / 9).learned.tests() for v in x]
        first = [t[t["learned"] == "M1"] for t in tests]
        assert np.mean([(t["pvalue_corrected"] <= 0.05).any() for t in first]) <= 0.06


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
