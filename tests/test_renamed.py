"""Old names of arguments and attributes go on working, and keys of JSON stay."""

import warnings

import numpy as np
import pandas as pd
import pytest
from report_cases import study_of

import mlflow_mleval as mleval
from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.analysis.redundancy import redundancy
from mlflow_mleval.report.json import plain

TABLE = pd.DataFrame(np.random.default_rng(0).random((7, 3)), columns=list("abc"))


@pytest.mark.parametrize(
    ("call", "old", "new"),
    [
        (lambda **o: mleval.bayesian_signed_rank(TABLE, 0.1, **o).table, {"n_draws": 99}, {"n_resamples": 99}),
        (lambda **o: mleval.bayesian_signed_rank(TABLE, 0.1, **o).table, {"threshold": 0.8}, {"credible_level": 0.8}),
        (lambda **o: mleval.bayesian_t(TABLE, 0.1, **o).table, {"minimize": True}, {"direction": "min"}),
        (lambda **o: mleval.wilcoxon_pairs(TABLE, **o).table, {"minimize": True}, {"direction": "min"}),
        (lambda **o: mleval.wilcoxon_pairs(TABLE, **o).table, {"minimize": False}, {}),
        (lambda **o: mleval.equivalence(TABLE, **o).table, {"margin": 0.2}, {"rope": 0.2}),
        (lambda **o: mleval.rank_confidence(TABLE, **o).table, {"n_draws": 9, "minimize": True},
         {"n_resamples": 9, "direction": "min"}),
        (lambda **o: mleval.instance_tests({m: {"f1": TABLE[m]} for m in TABLE}, ["f1"], **o).table, {"n_draws": 99},
         {"n_resamples": 99}),
        (lambda **o: redundancy(fuse(study_of(4, 3)), **o).correlation, {"threshold": 0.5}, {"max_correlation": 0.5}),
        (lambda **o: mleval.compare(study_of(4, 3), **o).correlations, {"threshold": 0.5, "n_draws": 3},
         {"max_correlation": 0.5, "n_resamples": 3}),
    ],
)  # fmt: skip
def test_old_keywords_say_the_same_with_a_warning(call, old, new):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*is called", category=DeprecationWarning)
        expected = call(**new)
    with pytest.warns(DeprecationWarning, match=f"`{next(iter(old))}` of .* is called"):
        pd.testing.assert_frame_equal(call(**old), expected)


def test_an_argument_is_given_once():
    with pytest.raises(TypeError, match="`n_resamples` must be given once, got `n_draws`, its old name, too"):
        mleval.rank_confidence(TABLE, n_draws=3, n_resamples=3)


def test_a_flag_in_place_of_a_direction_is_refused():
    with pytest.raises(ValueError, match="`direction` must be one of 'max', 'min', got True"):
        mleval.wilcoxon_pairs(TABLE, True)


def test_attributes_have_their_old_names_and_json_its_keys():
    found = mleval.bayesian_signed_rank(TABLE, 0.1, n_resamples=50)
    assert (found.threshold, found.n_draws) == (found.credible_level, found.n_resamples) == (0.95, 50)
    assert plain(found) | {"table": 0} == {
        "table": 0, "test": "signed-rank", "rope": 0.1, "threshold": 0.95, "methods": ["a", "b", "c"], "ratio": None,
        "n_draws": 50, "seed": 0, "warnings": ["7 datasets hardly outweigh the prior."],
    }  # fmt: skip
    same = mleval.equivalence(TABLE, 0.1)
    assert same.margin == same.rope == 0.1 and plain(same)["margin"] == 0.1 and "rope" not in plain(same)
    instances = mleval.instance_tests({m: {"f1": TABLE[m]} for m in TABLE}, ["f1"], n_resamples=99)
    assert plain(instances)["n_draws"] == instances.n_draws == 99
    record = mleval.compare(study_of(4, 7), stability=True, n_resamples=20, rope=0.01, max_correlation=0.7).report().to_dict()
    assert (record["options"]["n_draws"], record["options"]["threshold"], record["redundancy"]["threshold"]) == (20, 0.7, 0.7)
    assert record["stability"]["acceptability"]["n_draws"] == 20
    assert {"threshold", "n_draws"} <= {*record["beyond"]["bayes"]} and "margin" in record["beyond"]["equivalence"]
