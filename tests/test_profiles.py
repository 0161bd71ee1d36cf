"""Loss profiles of many runs: what travels, what it is turned into, who is better where."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_mleval.tracking import schema

# ---- tags --------------------------------------------------------------------------------------------------------------


def histograms(n_labels, n_folds, n, rate, seed):
    """Numbers of instances with 0 .. K wrong labels, by fold."""
    wrong = np.random.default_rng(seed).binomial(n_labels, rate, size=(n_folds, n))
    return np.array([np.bincount(row, minlength=n_labels + 1) for row in wrong])


def pad(rows, width):
    return np.array([[*row, *[0] * (width - len(row))] for row in rows])


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([1, 2, 14, 174, 5000]), st.integers(0, 30), st.integers(1, 500), st.sampled_from([0, 0.01, 0.1, 0.5, 1]),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_counts_travel_exactly_by_fold_or_added_up(n_labels, n_folds, n, rate, seed):
    counts = histograms(n_labels, max(n_folds, 1), n, rate, seed)
    folds = list(range(3, 3 + n_folds))
    text = schema.encode_profile(counts, folds)
    assert len(text) <= schema.MAX_TAG
    found = schema.decode_profile(text)
    assert found.n_labels == n_labels
    if found.pooled:
        assert n_folds > 1 and not found.folds and counts.astype(bool).sum() > 800  # too many to list
        counts = counts.sum(axis=0, keepdims=True)
    else:
        assert found.folds == folds
    assert pad(found.rows, n_labels + 1).tolist() == counts.tolist() and found.n == counts.sum(axis=1).tolist()


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([1, 2, 14, 174, 5000]), st.integers(0, 30), st.integers(0, 2**32 - 1))
def test_errors_travel_by_fold_or_together_or_not(n_labels, n_folds, seed):
    rng = np.random.default_rng(seed)
    errors = np.sort(rng.random((max(n_folds, 1), n_labels)) * rng.random(), axis=1)[:, ::-1]
    n, folds = rng.integers(1, 500, max(n_folds, 1)).tolist(), list(range(n_folds))
    text = schema.encode_soft_profile(errors, n, folds)
    if text is None:
        assert n_labels > 1000
        return
    assert len(text) <= schema.MAX_TAG
    found = schema.decode_soft_profile(text)
    rows = pad(found.rows, n_labels)
    if found.pooled:
        assert n_folds * n_labels > 900 and found.n == [sum(n)]
        errors = np.average(errors, axis=0, weights=n)[None]
    else:
        assert (found.folds, found.n) == (folds, n)
    np.testing.assert_allclose(rows, errors, atol=1e-12 if errors.size <= 300 else 6e-5)


@pytest.mark.parametrize("text", [
    "", "{}", "[]", "3", '{"schema":1}', '{"schema":9,"n_labels":2,"counts":[[1]]}', '{"schema":1,"n_labels":2,"counts":[]}',
    '{"schema":1,"n_labels":2,"counts":[[1,2,3,4]]}', '{"schema":1,"n_labels":2,"counts":[[-1,2]]}',
    '{"schema":1,"n_labels":2,"counts":[[0.5]]}', '{"schema":1,"n_labels":2,"counts":[[]]}',
    '{"schema":1,"n_labels":1e99,"counts":[[1]]}', '{"schema":1,"n_labels":99999999999,"counts":[[1]]}',
    '{"schema":1,"n_labels":2,"folds":[1,1],"counts":[[1],[1]]}', '{"schema":1,"n_labels":2,"folds":[1],"counts":[[1],[1]]}',
    '{"schema":1,"n_labels":2,"sparse":[[9,1]]}', '{"schema":1,"n_labels":2,"sparse":[[1]]}',
    '{"schema":1,"n_labels":2,"counts":' + "[" * 5000,
])  # fmt: skip
def test_broken_counts_are_an_error(text):
    with pytest.raises(ValueError, match="the profile is not in the form this package writes"):
        schema.decode_profile(text)


@pytest.mark.parametrize("change", [
    {"errors": [[0.2, 0.5]]}, {"errors": [[1.5]]}, {"errors": [[0.5, -0.1]]}, {"errors": [[0.5] * 3]}, {"n": [0]}, {"n": []},
    {"errors": [["x"]]}, {"errors": [[float("nan")]]}, {"errors": [[0.5], [0.5]]},
])  # fmt: skip
def test_broken_errors_are_an_error(change):
    good = {"schema": 1, "n_labels": 2, "n": [20], "errors": [[0.5, 0.25]]}
    assert schema.decode_soft_profile(json.dumps(good)).rows == [[0.5, 0.25]]
    with pytest.raises(ValueError, match="the profile is not in the form this package writes"):
        schema.decode_soft_profile(json.dumps(good | change))
