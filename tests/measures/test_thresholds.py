"""Thresholds that meet the label cardinality, against a search through all thresholds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

import mlflow_mleval as mleval
from mlflow_mleval.measures.inputs import calibrate_threshold


def predicted_by_search(scores, wanted):
    """Number of scores at or above the best threshold; the smaller of two as good."""
    counts = {0} | {int((scores >= v).sum()) for v in scores}
    return min(sorted(counts), key=lambda count: abs(count - wanted))


scores = st.one_of(
    st.floats(-3, 3), st.sampled_from([0.0, 0.5, 1.0, np.nextafter(1.0, 2), 1e308, -1e308])
)


@st.composite
def problems(draw):
    n, m, k = draw(st.integers(1, 10)), draw(st.integers(1, 10)), draw(st.integers(1, 4))
    return draw(arrays(float, (n, k), elements=scores)), draw(arrays(bool, (m, k)))


@settings(max_examples=200, deadline=None)
@given(problems())
def test_no_threshold_comes_closer(problem):
    s, y = problem
    n, m = len(s), len(y)
    assert (s >= calibrate_threshold(y, s)).sum() == predicted_by_search(s.ravel(), y.sum() * n / m)
    own = calibrate_threshold(y, s, per_label=True)
    for j in range(s.shape[1]):
        assert (s[:, j] >= own[j]).sum() == predicted_by_search(s[:, j], y[:, j].sum() * n / m)


def test_the_threshold_lies_half_way():
    assert calibrate_threshold([[1, 0]], [[0.2, 0.6]]) == pytest.approx(0.4)
    assert calibrate_threshold([[1, 1]], [[0.2, 0.6]]) == 0.2
    assert calibrate_threshold([[0, 0]], [[0.2, 0.6]]) == np.nextafter(0.6, 1)


def test_evaluate_takes_both_kinds():
    rng = np.random.default_rng(0)
    s, y = rng.random((200, 5)), rng.random((200, 5)) < [0.1, 0.2, 0.3, 0.5, 0.9]
    ev = mleval.evaluate(y, s, threshold=calibrate_threshold(y, s))
    assert ev.statistics["cardinality_pred"] == ev.statistics["cardinality_true"]
    ev = mleval.evaluate(y, s, threshold=calibrate_threshold(y, s, per_label=True))
    assert (ev.labels.support == ev.labels.predicted).all()


def test_sparse_scores_count_zeros():
    rng = np.random.default_rng(1)
    s, y = rng.random((30, 6)) * (rng.random((30, 6)) < 0.3), rng.random((30, 6)) < 0.2
    for per_label in (False, True):
        found = calibrate_threshold(y, sparse.csr_array(s), per_label=per_label)
        np.testing.assert_array_equal(found, calibrate_threshold(y, s, per_label=per_label))


@pytest.mark.parametrize(
    ("truth", "scores", "message"),
    [
        ([[0, 1, 0]], [[0.1, 0.2]], "`y_true` must have the 2 labels of `y_score`, got 3"),
        ([[0, 1]], [[0.1, np.nan]], "nan in row 0, column 1"),
        ([[0.2, 0.6]], [[1, 0]], "`y_true` must hold only 0 and 1, got 0.2"),
    ],
)
def test_bad_input_is_named(truth, scores, message):
    with pytest.raises(ValueError, match=message):
        calibrate_threshold(truth, scores)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_thresholds_between_neighbours_of_a_narrow_type(kind):
    low, middle = kind(0.7), np.nextafter(kind(0.7), kind(1))
    s = np.array([[low, middle], [middle, np.nextafter(middle, kind(1))]])
    for wanted in ([[1, 1], [1, 0]], [[1, 0], [0, 0]], [[0, 0], [0, 0]]):
        ev = mleval.evaluate(wanted, s, threshold=calibrate_threshold(wanted, s))
        assert ev.statistics["cardinality_pred"] == ev.statistics["cardinality_true"]
