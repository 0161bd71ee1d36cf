"""The Comparison: which test may speak, what it says, and the doubts beside it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.errors import IncomparableRunsError, MeasureError
from mlflow_mleval.study import Excluded, Study


def study_of(n_methods, n_datasets, seed=0, gap=0.0, measures=("f1", "hamming_loss")):
    """Method i is better than method i+1 by `gap` on every dataset, plus noise."""
    rng = np.random.default_rng(seed)
    rows = []
    for d in range(n_datasets):
        for i in range(n_methods):
            row = {"dataset": f"d{d}", "method": f"m{i}"}
            for m in measures:
                quality = 0.5 - gap * i + 0.01 * rng.standard_normal()
                row[m] = 1 - quality if m == "hamming_loss" else quality
            rows.append(row)
    return Study.from_frame(pd.DataFrame(rows))


def test_clear_differences_are_separated_by_wilcoxon_where_it_can_reject():
    found = compare(study_of(3, 12, gap=0.1))
    assert found.decides == "wilcoxon" and found.order == ["m0", "m1", "m2"]
    assert set(found.separated) == {("m0", "m1"), ("m0", "m2"), ("m1", "m2")}
    assert found.cliques == [["m0"], ["m1"], ["m2"]] or sorted(map(tuple, found.cliques)) == [("m0",), ("m1",), ("m2",)]


def test_nemenyi_decides_where_corrected_signed_ranks_cannot_reject():
    found = compare(study_of(12, 11, gap=0.1))
    assert found.decides == "nemenyi" and not found.feasibility.can_reject
    assert not found.pairwise.significant_pairs and found.separated


def test_noise_alone_separates_nothing():
    found = compare(study_of(4, 10))
    assert found.separated == [] and len(set(found.letters.values())) == 1


def test_one_dataset_says_why_there_is_no_test():
    found = compare(study_of(3, 1))
    assert found.friedman is None and found.decides == "none" and "1 dataset" in found.absent["friedman"]


def test_two_methods_one_measure():
    found = compare(study_of(2, 8, gap=0.1, measures=("f1",)))
    assert found.leader == "m0" and "redundancy" in found.absent and found.separated == [("m0", "m1")]


def test_a_single_measure_is_tested_in_its_own_direction():
    found = compare(study_of(3, 12, gap=0.1), on="hamming_loss")
    assert found.order[0] == "m0" and ("m0", "m2") in found.separated
    assert (found.table.to_numpy() <= 0).all()


def test_control_compares_with_it_only():
    found = compare(study_of(4, 12, gap=0.1), control="m1")
    assert len(found.pairwise.table) == 3 and all("m1" in pair for pair in found.separated)


def test_the_same_seed_gives_the_same_draws():
    a, b = (compare(study_of(3, 4), stability=True, n_resamples=200, seed=3).stability for _ in range(2))
    assert a.acceptability.acceptability.equals(b.acceptability.acceptability) and a.acceptability.seed == 3


def test_filled_cells_are_a_doubt_and_skillings_mack_needs_no_filling():
    study = study_of(3, 8, gap=0.1)
    values = study.values.copy()
    values.loc[("d1", "m2")] = np.nan
    found = compare(Study(values, study.directions, "worst"), on="f1")
    assert any("1 of 24 results is missing and was given" in d for d in found.doubts)
    assert found.skillings_mack.pvalue < 0.05


def test_doubts_about_the_values_come_before_what_was_left_out():
    excluded = (Excluded("run", "r", "status FAILED"),)
    study = replace(study_of(3, 4), notes=("The metric f1 was not logged here.",), excluded=excluded)
    assert compare(study).doubts[:2] == ("The metric f1 was not logged here.", "Left out: run r: status FAILED.")


def test_a_constant_measure_is_a_doubt_about_its_correlations_too():
    study = study_of(3, 4)
    values = study.values.copy()
    values.loc["d1", "f1"] = 0.5
    found = compare(replace(study, values=values))
    assert found.redundancy.warnings == ("f1 is the same for all methods on d1: its correlations there count as 0.",)
    assert found.redundancy.warnings[0] in found.doubts


def test_bad_requests_are_named():
    study = study_of(3, 4)
    with pytest.raises(IncomparableRunsError, match="needs two"):
        compare(study.select(methods=["m0"]))
    alone = replace(study.select(methods=["m0"]), excluded=(Excluded("run", "m1 · d1", "written in part only"),))
    with pytest.raises(IncomparableRunsError, match="needs two. Left out: run m1 · d1: written in part only.$"):
        compare(alone)
    with pytest.raises(IncomparableRunsError, match="'zz'"):
        compare(study, control="zz")
    with pytest.raises(MeasureError, match="recall"):
        compare(study, on="recall")
    with pytest.raises(ValueError, match="alpha"):
        compare(study, alpha=1.5)
    with pytest.raises(ValueError, match="test"):
        compare(study, test="t")


def test_measures_that_rank_alike_have_tau_one():
    found = compare(study_of(4, 6, gap=0.1))
    assert found.concordance.loc["f1", "hamming_loss"] == pytest.approx(1)
    assert found.concordance.loc["fused", "f1"] == pytest.approx(1)
    assert list(found.measure_tests.leader) == ["m0", "m0"]
