"""Comparisons over the folds of a study, and the parts against the single tests."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from report_cases import fold_study
from scipy import stats

from mlflow_mleval import Study, compare_folds, hotelling, hotelling_pairs, manova, mardia
from mlflow_mleval.analysis.fold_comparison import compare_all_folds
from mlflow_mleval.analysis.fold_protocol import disagreement, protocol_of
from mlflow_mleval.analysis.multivariate import five_by_two
from mlflow_mleval.analysis.pairs import holm
from mlflow_mleval.errors import IncomparableRunsError, MeasureError

METHODS = ["BR", "CC", "LP", "RAkEL"]


def study_of(
    values=None, measures=("precision", "recall"), methods=METHODS, dataset="birds", seed=0, **runs
):
    """A study of one dataset; LP has more recall."""
    if values is None:
        values = np.random.default_rng(seed).normal(0.6, 0.02, (len(methods), 10, len(measures)))
        values[2, :, 1] += 0.08
    index = pd.MultiIndex.from_product(
        [[dataset], methods, range(values.shape[1])], names=["dataset", "method", "fold"]
    )
    folds = pd.DataFrame(values.reshape(len(index), -1), index, list(measures))
    ways = {m: "min" if "loss" in m or m in ("fp", "fn", "fpr") else "max" for m in measures}
    table = (
        pd.DataFrame({"dataset": dataset, "method": methods, **runs}) if runs else pd.DataFrame()
    )
    return Study(folds.groupby(level=[0, 1], sort=False).mean(), ways, folds=folds, runs=table)


KNOWN = {"split_digest": "s", "n_train": 90, "n_test": 10}


class TestProtocol:
    @pytest.mark.parametrize(
        ("sizes", "kind", "ratio"),
        [
            ((10, 90, 10), "k-fold", 1 / 9),
            ((10, [91] * 9 + [90], [10] * 9 + [11]), "k-fold", 1 / 9),
            ((5, 80, 20), "k-fold", 1 / 4),
            ((100, 90, 10), "repeated", 1 / 9),
            ((30, 67, 33), "repeated", 33 / 67),
            ((10, 50, 50), "5x2", 1),
            ((10, 70, 30), "resampled", 3 / 7),
            ((10, [10, 20, 30, 40, 50, 60, 70, 80, 90, 100], [10] * 10), "resampled", 100 / 550),
            ((2, 50, 50), "k-fold", 1),
        ],
    )
    def test_is_recognised_from_sizes(self, sizes, kind, ratio):
        found = protocol_of(*sizes)
        assert (found.kind, found.known) == (kind, True)
        assert found.ratio == pytest.approx(ratio)
        assert bool(found.naive_refused) == (kind in ("repeated", "resampled", "5x2"))

    def test_what_is_declared_wins(self):
        found = protocol_of(10)
        assert (found.kind, found.known, found.caution) == ("k-fold", False, "")
        assert found.ratio == pytest.approx(1 / 9) and "taken as one 10-fold" in found.reason
        assert protocol_of(10, 90, 10, kind="independent").ratio is None
        assert protocol_of(10, 90, 10, ratio=0.5).ratio == 0.5
        assert protocol_of(100, kind="repeated", ratio=1 / 9).naive_refused
        assert protocol_of(100, ratio=1 / 9).kind == "resampled"
        assert protocol_of(10, kind="5x2").ratio == 1
        with pytest.raises(ValueError, match="`ratio` must be given for repeated cross-validation"):
            protocol_of(100, kind="repeated")
        with pytest.raises(ValueError, match="`protocol` must be one of"):
            protocol_of(10, kind="loo")
        said = "`n_test` must hold one positive number, or one for each of the 10 folds"
        with pytest.raises(ValueError, match=said):
            protocol_of(10, 90, [10] * 9)


class TestFiveByTwo:
    def test_several_measures_are_wilks_lambda(self):
        x = np.random.default_rng(1).normal(size=(2, 10, 3)) + np.array([0, 1])[:, None, None]
        d = (x[0] - x[1]).reshape(5, 2, 3)
        spread = d - d.mean(axis=1, keepdims=True)
        e, h = np.einsum("rjp,rjq->pq", spread, spread), np.einsum("rjp,rjq->pq", d, d)
        found = five_by_two(x).table
        assert found["statistic"].item() == pytest.approx(np.linalg.det(e) / np.linalg.det(e + h))

    def test_level_does_not_depend_on_the_number_of_measures(self):
        """Where folds correlate, it is the documented one of Alpaydın's F."""
        for p in (1, 3):
            for share, most in ((0.0, 0.03), (0.1, 0.05), (0.3, 0.08)):
                rng = np.random.default_rng(p)
                own = rng.normal(size=(60, 10, p)) * np.sqrt(1 - share)
                x = own + rng.normal(size=(60, 1, p)) * np.sqrt(share)
                assert (five_by_two(x).table["pvalue"] <= 0.05).mean() < most

    def test_rounding_is_no_variation(self):
        """0.1 added to every fold leaves differences that vary by the last digit."""
        x = np.random.default_rng(3).random((3, 10, 2))
        x[1] = x[0] + 0.1
        x[2] = x[1] - 0.1
        found = five_by_two(x)
        assert np.isnan(found.posthoc_pvalues.to_numpy()[[0, 2]]).all()
        assert np.isnan(found.table["pvalue"].iloc[0])
        assert (found.posthoc_pvalues.iloc[1] == 1).all() and found.table["pvalue"].iloc[1] == 1

    def test_refuses_other_numbers_of_folds(self):
        said = "ten folds and at most 5 measures, got 3 methods, 9 folds and 1 measures"
        with pytest.raises(ValueError, match=said):
            five_by_two(np.zeros((3, 9, 1)))


def pair_of(values, a, b, gone):
    return [values[m].drop(gone) for m in (a, b)]


def by_pair(table):
    return table.set_index(["method_a", "method_b"])


@pytest.fixture(scope="module")
def found():
    """The comparison of four methods by two measures, of which LP has more recall."""
    return compare_folds(study_of(**KNOWN), "birds")


class TestCompareFolds:
    def test_is_made_of_the_single_tests(self, found):
        x = study_of().folds.to_numpy().reshape(4, 10, 2)
        corrected, naive = hotelling_pairs(x, ratio=1 / 9).table, hotelling_pairs(x).table
        np.testing.assert_allclose(found.table["pvalue_corrected"], corrected["pvalue_corrected"])
        np.testing.assert_allclose(found.table["naive_pvalue"], naive["pvalue"])
        np.testing.assert_allclose(found.table["naive_statistic"], naive["statistic"])
        np.testing.assert_allclose(found.table["statistic"] * (1 + 10 / 9), naive["statistic"])
        assert found.manova.pvalue == manova(x, ratio=1 / 9).pvalue
        assert found.naive_manova.pvalue == manova(x).pvalue
        assert found.mardia.pvalue == mardia(x).pvalue
        assert (found.methods, found.measures) == (METHODS, ["precision", "recall"])
        assert found.n_folds == 10
        assert not found.warnings and not found.refusals and found.table["doubt"].eq("").all()
        learned = found.manova.learned
        assert learned.weights.loc["recall", "M1"] > 0.9 and len(learned.tests()) == 12
        two = study_of(**KNOWN).select(methods=["BR", "LP"])
        some = compare_folds(two, "birds").table
        assert some["pvalue_corrected"].tolist() == some["pvalue"].tolist() and len(some) == 1

    def test_says_where_the_difference_sits(self, found):
        pairs = by_pair(found.table)
        assert pairs.loc[("BR", "LP"), "carried_by"] == "recall"
        assert pairs.loc[("BR", "CC"), "carried_by"] == ""
        posthoc = found.posthoc.set_index(["method_a", "method_b", "measure"])
        assert posthoc.loc[("LP", "RAkEL", "recall"), "better"] == "LP"
        assert posthoc.loc[("BR", "LP", "recall"), "better"] == "LP"
        x = found.values.to_numpy().reshape(4, 10, 2)
        one = hotelling(x[0], x[2], measures=["precision", "recall"], ratio=1 / 9).posthoc
        expected = one["pvalue_corrected"]
        np.testing.assert_allclose(posthoc.loc[("BR", "LP"), "pvalue_corrected"], expected)

    def test_a_difference_that_no_single_measure_shows(self):
        rng = np.random.default_rng(1)
        base = rng.normal(size=(1, 10, 1)) * 0.05 + rng.normal(size=(2, 10, 1)) * 0.05
        x = np.concatenate([base, base + rng.normal(size=(2, 10, 1)) * 0.002], axis=2) + 0.5
        x[1, :, 1] += 0.01
        found = compare_folds(study_of(x, methods=["a", "b"], **KNOWN), "birds").table
        assert found.loc[0, "separated"] and found.loc[0, "carried_by"] == "a combination"

    def test_groups_letters_and_orderings(self, found):
        assert sorted(map(sorted, found.cliques)) == [["BR", "CC", "RAkEL"], ["LP"]]
        assert found.letters["BR"] == found.letters["CC"] != found.letters["LP"]
        ordering = found.orderings["recall"]
        assert ordering.order[0] == "LP" and ordering.groups[0] == ["LP"]
        recall = found.values[["recall"]].to_numpy().reshape(4, 10, 1)
        alone = hotelling_pairs(recall, ratio=1 / 9).table["pvalue_corrected"]
        assert ordering.pvalues.loc["BR", "LP"] == pytest.approx(alone[1])
        assert found.orderings["precision"].groups == [found.orderings["precision"].order]

    def test_rates_come_of_counts_and_are_ordered_by_their_best(self):
        rng = np.random.default_rng(0)
        x = np.stack([rng.integers(20, 40, (3, 10)), rng.integers(0, 30, (3, 10))], axis=2) * 1.0
        x = np.concatenate([x, 60 - x[..., 1:], 40 - x[..., :1]], axis=2)
        study = study_of(x, measures=("tp", "fp", "tn", "fn"), methods=list("abc"), **KNOWN)
        found = compare_folds(study, "birds", ["tpr", "fpr"])
        assert found.measures == ["tpr", "fpr"]
        np.testing.assert_allclose(found.values["tpr"], study.folds["tp"] / 40)
        np.testing.assert_allclose(found.values["fpr"], study.folds["fp"] / 60)
        fpr = found.means["mean"].xs("fpr", level="measure")
        assert fpr[found.orderings["fpr"].order].is_monotonic_increasing

    def test_intervals_of_means(self, found):
        apart = compare_folds(study_of(**KNOWN), "birds", protocol="independent").means
        interval = stats.ttest_1samp(found.values.loc["CC", "recall"], 0).confidence_interval()
        assert apart.loc[("CC", "recall"), ["low", "high"]].tolist() == pytest.approx([*interval])
        assert (found.means["low"] < apart["low"]).all()

    def test_five_by_two(self):
        study = study_of(split_digest="s", n_train=50, n_test=50)
        found = compare_folds(study, "birds")
        theirs = five_by_two(study.folds.to_numpy().reshape(4, 10, 2)).table
        np.testing.assert_allclose(found.table["pvalue"], theirs["pvalue"])
        assert found.protocol.kind == "5x2"
        assert "naive" in found.refusals
        assert found.protocol.caution in found.warnings

    def test_many_folds_of_unknown_origin_are_not_trusted(self):
        values = np.random.default_rng(0).normal(size=(3, 30, 2))
        found = compare_folds(study_of(values, methods=list("abc")), "birds")
        assert not found.table["doubt"].eq("").any()
        assert "may be repeated" in found.table["doubt"].iloc[0]
        assert any("sizes of the folds are not recorded" in w for w in found.warnings)

    @pytest.mark.parametrize(("n_folds", "trusted"), [(4, False), (5, True)])
    def test_verdicts_on_few_degrees_of_freedom_are_marked(self, n_folds, trusted):
        values = np.random.default_rng(0).normal(size=(3, n_folds, 2))
        known = {"split_digest": "s", "n_train": 10 * (n_folds - 1), "n_test": 10}
        found = compare_folds(
            study_of(values, methods=list("abc"), **known), "birds", ["precision", "recall"]
        )
        assert (found.tests.df == n_folds - 1).all()
        assert found.table["doubt"].eq("").all() == trusted
        few = "fewer than 3 degrees of freedom are left"
        assert any(few in text for text in found.table["doubt"]) != trusted

    def test_folds_that_are_no_pairs_are_refused_and_an_unpaired_test_offered(self):
        study = study_of(split_digest=["s", "s", "other", "s"], n_train=90, n_test=10)
        found = compare_folds(study, "birds")
        pairs = by_pair(found.table)
        assert pairs["pvalue"].isna().sum() == 3 and pairs.loc[("BR", "LP"), "doubt"]
        assert "split digests differ" in pairs.loc[("BR", "LP"), "doubt"]
        assert "3 pairs" in found.refusals["pairs"] and "paired=False" in found.refusals["pairs"]
        assert found.manova is None and "manova" in found.refusals
        posthoc = by_pair(found.posthoc)
        assert posthoc.loc[("BR", "LP"), "pvalue"].isna().all()
        tested = pairs["pvalue"].dropna()
        assert pairs["pvalue_corrected"].min() == pytest.approx(min(1, 3 * tested.min()))
        assert np.isnan(found.orderings["recall"].pvalues.loc["BR", "LP"])
        apart = compare_folds(study, "birds", paired=False)
        x = study.folds.to_numpy().reshape(4, 10, 2)
        expected = hotelling(x[0], x[2], paired=False, ratio=1 / 9).pvalue
        assert apart.table["pvalue"].iloc[1] == pytest.approx(expected)
        assert apart.manova.design == "one-way"

    def test_unknown_splits_and_different_sizes_are_said_and_take_the_widest_correction(self):
        digests = {"split_digest": ["s", "s", "", None]}
        found = compare_folds(study_of(**digests, n_train=[90, 90, 80, 90], n_test=10), "birds")
        told = " ".join(found.warnings)
        assert "How the data were split is unknown for 2 of 4 methods;" in told
        assert found.protocol.ratio == pytest.approx(10 / 80) and "parts of different sizes" in told

    def test_results_that_are_not_normal_are_marked(self):
        values = np.random.default_rng(0).standard_cauchy(size=(4, 10, 2))
        found = compare_folds(study_of(values, **KNOWN), "birds")
        assert found.mardia.pvalue < 0.05 and not found.table["doubt"].eq("").any()
        assert "Mardia" in found.table["doubt"].iloc[0]

    def test_dependent_measures_are_dropped_on_request(self):
        values = np.random.default_rng(0).normal(0.6, 0.05, size=(3, 10, 2))
        values[..., 1] = 1 - values[..., 0]
        study = study_of(values, methods=list("abc"), **KNOWN)
        assert compare_folds(study, "birds", dependent="drop").measures == ["precision"]

    def test_directions_compare_between_units(self, found):
        assert abs(found.directions.loc[1, "recall"]) > 0.9
        np.testing.assert_allclose((found.directions**2).sum(axis=1), 1)
        study = study_of(**KNOWN)
        scaled = compare_folds(replace(study, folds=study.folds * [1000, 1]), "birds").directions
        np.testing.assert_allclose(scaled, found.directions)

    def test_pairs_without_manova_are_said(self):
        values = np.random.default_rng(0).normal(0, 1, size=(30, 10, 1))
        values[0] = values[1] + 0.2 + np.random.default_rng(1).normal(0, 0.02, size=(10, 1))
        many = {"measures": ["f1"], "methods": [f"m{i}" for i in range(30)]}
        found = compare_folds(study_of(values, **many, **KNOWN), "birds")
        assert found.table["separated"].any() and found.manova.pvalue > 0.05
        assert any("although MANOVA" in w for w in found.warnings)

    def test_each_pair_is_compared_on_the_folds_that_both_have(self):
        study = study_of(**KNOWN)
        folds = study.folds.drop([("birds", "CC", 3), ("birds", "CC", 4)]).copy()
        folds.loc[("birds", "BR", 7), "recall"] = np.nan
        study.values.loc[("birds", "HOMER"), :] = 0.5
        found = compare_folds(replace(study, folds=folds), "birds")
        assert found.methods == METHODS and (found.n_folds, found.n_shared_folds) == (10, 7)
        assert found.protocol.kind == "k-fold" and "naive" not in found.refusals
        assert {e.name: e.reason for e in found.excluded} == {"HOMER": "has no values by fold"}
        assert found.n_lost == 4
        assert found.table["n"].tolist() == [7, 9, 9, 8, 8, 10]
        x = {m: study.folds.loc[("birds", m)] for m in METHODS}
        missing = {"BR": [7], "CC": [3, 4]}
        for at, (a, b) in enumerate(combinations(METHODS, 2)):
            gone = [*missing.get(a, []), *missing.get(b, [])]
            pair = pair_of(x, a, b, gone)
            row, alone, naive = found.table.loc[at], hotelling(*pair, ratio=1 / 9), hotelling(*pair)
            expected = [alone.pvalue, naive.pvalue]
            assert row[["pvalue", "naive_pvalue"]].tolist() == pytest.approx(expected, rel=1e-9)
            rows = found.posthoc[found.posthoc["method_a"].eq(a) & found.posthoc["method_b"].eq(b)]
            expected = alone.posthoc["pvalue_corrected"]
            np.testing.assert_allclose(rows["pvalue_corrected"], expected, rtol=1e-9)
            np.testing.assert_allclose(rows["mean_difference"], alone.mean_difference)
            one = hotelling(*(values[["recall"]] for values in pair), ratio=1 / 9).pvalue
            assert found.orderings["recall"].pvalues.loc[a, b] >= one * (1 - 1e-9)
        expected = holm(found.table["pvalue"])
        np.testing.assert_array_equal(found.table["pvalue_corrected"], expected)
        shared = np.array([x[m].drop([3, 4, 7]) for m in METHODS])
        assert found.manova.pvalue == manova(shared, ratio=1 / 9).pvalue
        assert found.mardia.pvalue == mardia(shared).pvalue
        expected = x["BR"]["recall"].drop(7).mean()
        assert found.means.loc[("BR", "recall"), "mean"] == pytest.approx(expected)
        text = " ".join(found.report().to_text(999).split())
        assert "separates 3 of 6 pairs on 7 to 10 folds and 2 measures together" in text
        assert "4 further pairs of HOMER could not be tested for want of folds in common" in text
        assert "BR has all values of 9 of the 10 folds, CC has all values of 8 of the" in text

    def test_pairs_that_share_too_few_folds_are_counted_with_the_reason(self):
        folds = study_of(**KNOWN).folds
        kept = {"BR": range(10), "CC": range(6), "LP": range(4, 10)}
        kept |= {"RAkEL": range(5, 10), "HOMER": range(9, 10)}
        homer = folds.xs("BR", level="method", drop_level=False).rename(index={"BR": "HOMER"})
        folds = pd.concat([folds, homer])
        at = folds.index.get_level_values
        folds = folds[[fold in kept[m] for m, fold in zip(at("method"), at("fold"), strict=True)]]
        found = compare_folds(replace(study_of(), folds=folds), "birds")
        assert found.methods == METHODS and found.n_shared_folds == 1
        assert found.table["n"].tolist() == [6, 6, 5, 2, 1, 5]
        few = "they have only 2 folds in common, too few to test 2 measures together"
        assert found.untested == {few: 1, "they have fewer than two folds in common": 1}
        assert found.manova is None
        assert found.refusals["manova"] == "all methods together have 1 fold in common"
        assert [e.name for e in found.excluded] == ["HOMER"] and found.n_lost == 4
        text = " ".join(found.report().to_text(999).split())
        assert found.folds_of_a_pair == "5 to 6 folds"
        assert all(f"1 pair could not be tested: {why}" in text for why in found.untested)

    def test_default_measures(self):
        many = ["f1", "hamming_loss", "micro_precision", "micro_recall", "coverage"]
        values = np.random.default_rng(0).normal(size=(3, 10, 5))
        study = study_of(values, measures=many, methods=list("abc"), **KNOWN)
        assert compare_folds(study, "birds").measures == ["micro_precision", "micro_recall"]
        assert compare_folds(study, "birds", ["coverage", "f1"]).measures == ["coverage", "f1"]
        assert compare_folds(study, "birds", "f1").measures == ["f1"]
        few = study_of(values[..., :3], measures=many[:3], methods=list("abc"), **KNOWN)
        assert compare_folds(few, "birds").measures == many[:3]

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({"dataset": "yeast"}, IncomparableRunsError, "no dataset 'yeast'; it has birds"),
            ({"measures": ["auc"]}, MeasureError, "no measure auc; they have precision, recall"),
            ({"protocol": "loo"}, ValueError, "`protocol` must be one of"),
            ({"alpha": 1}, ValueError, "`alpha`"),
        ],
    )
    def test_refuses(self, arguments, error, message):
        with pytest.raises(error, match=message):
            compare_folds(study_of(), **{"dataset": "birds", **arguments})

    def test_refuses_studies_without_folds_and_too_many_measures(self):
        with pytest.raises(IncomparableRunsError, match="no run on birds holds values by fold"):
            compare_folds(replace(study_of(), folds=None), "birds")
        values = np.random.default_rng(0).normal(size=(3, 3, 4))
        four = ["f1", "precision", "recall", "accuracy"]
        study = study_of(values, measures=four, methods=list("abc"))
        said = "3 folds for 4 measures. It takes at least 5 folds or at most 2 measures"
        with pytest.raises(ValueError, match=said):
            compare_folds(study, "birds", four)


def test_several_datasets_are_corrected_together():
    shifts = {"BR": (0.0, 0.0), "CC": (0.03, 0.0), "LP": (0.0, 0.08)}
    study = fold_study(shifts, datasets=("birds", "flags", "scene"), **KNOWN)
    absent = {}
    found = compare_all_folds(study, absent)
    alone = {dataset: compare_folds(study, dataset, dependent="drop") for dataset in study.datasets}
    raw = np.concatenate([one.table["pvalue"] for one in found.values()])
    assert not absent
    given = np.concatenate([one.table["pvalue_corrected"] for one in found.values()])
    assert given == pytest.approx(holm(raw))
    assert all(one.n_datasets == 3 for one in found.values())
    for dataset, one in found.items():
        assert (one.table["pvalue_corrected"] >= alone[dataset].table["pvalue_corrected"]).all()
        assert one.letters.keys() == alone[dataset].letters.keys()
        assert (one.table["carried_by"] != "").tolist() == one.table["separated"].tolist()


def test_repeated_folds_are_corrected_by_twice_the_ratio():
    study = fold_study({"BR": (0.0, 0.0), "CC": (0.02, 0.0)}, n_folds=30, **KNOWN)
    found = compare_folds(study, "birds")
    values = found.values.to_numpy().reshape(2, 30, 2)
    assert found.protocol.kind == "repeated"
    assert found.protocol.headline_ratio == pytest.approx(2 / 9)
    theirs = hotelling_pairs(values, ratio=2 / 9).table["pvalue"]
    np.testing.assert_allclose(found.table["pvalue"], theirs, rtol=1e-12)
    assert found.table["naive_pvalue"].isna().all() and found.naive_manova is None
    assert "uncorrected test" in found.refusals["naive"]
    assert "twice n_test / n_train" in " ".join(found.warnings)


def counted(shares, n_test=100, seed=0):
    """Counts by fold, half of the instances positive; so large a share is predicted positive."""
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product([["BR"], range(len(shares))], names=["method", "fold"])
    half = n_test // 2
    tp, fp = rng.binomial(half, shares), rng.binomial(half, np.array(shares) - 0.3)
    return pd.DataFrame({"tp": tp, "fp": fp, "fn": half - tp, "tn": half - fp}, index, dtype=float)


def test_models_that_disagree_are_noticed_and_one_model_is_not():
    alike = [disagreement(counted([0.7] * 10, seed=seed), 100) for seed in range(40)]
    assert np.mean(np.array(alike) < 0.01) < 0.1 and np.median(alike) > 0.2
    assert disagreement(counted([0.5, 0.9] * 5), 100) < 1e-4
    assert disagreement(counted([0.5, 0.9] * 5), None) is None
    assert disagreement(counted([0.5, 0.9] * 5)[["tp"]], 100) is None


def test_the_doubt_about_models_that_disagree_is_told():
    values = np.stack([counted([0.5, 0.9] * 5), counted([0.6] * 10)])
    runs = {"n_train": 900, "n_test": 100, "split_digest": "a"}
    study = study_of(values, ("tp", "fp", "fn", "tn"), ["BR", "CC"], **runs)
    told = compare_folds(study, "birds", ["tpr", "fpr"]).warnings
    assert any("The models of the folds disagree" in text for text in told)
