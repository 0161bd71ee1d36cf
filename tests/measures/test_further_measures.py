"""Sparse scores against dense ones, and how measures are asked for."""

import warnings

import numpy as np
import pytest
from scipy import sparse

import mlflow_mleval as mleval
from mlflow_mleval.measures.registry import LABEL_SETS, MEASURES

KINDS = (np.float16, np.float32, np.float64, np.int64)
ASKED = [m.name for m in MEASURES.values() if LABEL_SETS in m.asked]
ASKED += ["precision_at_2", "psndcg_at_20", "recall_at_17"]


def case(seed):
    """A small matrix with ties, zeros, negative scores, empty rows and columns, N = 1 and K = 1."""
    rng = np.random.default_rng(seed)
    n, k = rng.integers(1, 9, 2)
    y = (rng.random((n, k)) < rng.choice([0.1, 0.4, 0.8])).astype(int)
    s = rng.integers(0, 6, (n, k)) / 8 if rng.random() < 0.7 else rng.random((n, k))
    s = s * (rng.random((n, k)) < rng.choice([0.3, 0.7, 1]))
    if rng.random() < 0.3:
        s = 4 * s * rng.choice([-1, 1], (n, k))
    kind = KINDS[seed % 4]
    return y, (8 * s if kind == np.int64 else s).astype(kind), rng


def evaluate(y, s, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # scores that are all 0 or 1
        return mleval.evaluate(y, s, **options)


def test_sparse_and_dense_scores_give_the_same():
    for seed in range(42):
        y, s, rng = case(seed)
        s = s.astype(np.float32) if s.dtype == np.float16 else s  # scipy has no sparse halves
        each = rng.choice([0.25, 0.5, 0.75, 0, -0.5], y.shape[1])
        options = {
            "conventions": ("sklearn", "mulan")[seed % 2],
            "measures": ASKED,
            "train_labels": np.vstack([y, y, 1 - y]),
            "threshold": (0.5, -0.5)[seed % 5 == 0] if seed % 3 else each,
        }
        dense = evaluate(y, s, **options)
        there = sparse.csr_matrix(s) if seed % 7 else sparse.coo_array(s)
        stored = evaluate(sparse.csr_matrix(y) if seed % 2 else y, there, **options)
        assert dense.measures == pytest.approx(stored.measures, rel=1e-12, abs=1e-12), seed
        assert dense.absent == stored.absent and dense.warnings == stored.warnings
        tables = dense.instances.to_numpy(), stored.instances[dense.instances.columns].to_numpy()
        np.testing.assert_allclose(*tables, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(dense.total.wrong, stored.total.wrong)


def test_what_is_usual_does_not_grow_and_the_rest_says_that_it_was_not_asked_for():
    y = [[1, 0], [0, 1]]
    ev = mleval.evaluate(y, [[0.9, 0.2], [0.4, 0.6]])
    expected = {"it was not asked for"}
    assert {ev.absent[m.name] for m in MEASURES.values() if LABEL_SETS in m.asked} == expected
    more = mleval.evaluate(y, [[0.9, 0.2], [0.4, 0.6]], measures="ndcg_at_7")
    assert more.measures.keys() - ev.measures.keys() == {"ndcg_at_7"}


def test_many_labels_are_judged_at_k_and_training_labels_add_propensities():
    rng = np.random.default_rng(0)
    y = sparse.random_array((5, 1000), density=0.01, rng=rng, format="csr").astype(bool)
    ev = mleval.evaluate(y, y.astype(float), train_labels=y)
    assert {ev.measures[m] for m in ("precision_at_1", "psp_at_5", "psndcg_at_3")} == {1}
    assert set(ev.propensities) == {"a", "b", "digest"}
    other = mleval.evaluate(y, y.astype(float), train_labels=y[::-1][:4])
    with pytest.raises(ValueError, match="must agree in propensities"):
        mleval.merge([ev, other])


def test_lists_of_labels_with_scores_are_matrices():
    for seed in range(20):
        y, s, _ = case(seed)
        names = [f"n{i}" for i in range(y.shape[1])]
        sets = [[names[j] for j in np.flatnonzero(row)] for row in y]
        scores = [{names[j]: float(row[j]) for j in np.flatnonzero(row)[::-1]} for row in s]
        lists = evaluate(sets, scores, label_names=names, measures="at_k")
        whole = evaluate(y, s.astype(float), label_names=names, measures="at_k")
        assert lists.measures == pytest.approx(whole.measures, rel=1e-12)
        assert lists.truth_digest == whole.truth_digest
    named = mleval.evaluate([{"a"}, {"b", "c"}], y_pred=[["a"], ["b"]]).label_names
    assert named == ("a", "b", "c")


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (([{"a"}], [{"a": 1.0}, {}]), "`y_score` must hold the 1 instances"),
        (([{"a"}], [["a"]]), r"got \['a'\] for instance 0"),
        (
            ([{"a"}, "b"], [{}, {}]),
            "`y_true` must hold a collection of labels for each instance, got 'b'",
        ),
        (([{"a"}], [{"a": np.nan}]), "`y_score` must hold finite scores"),
        (([set()], [{}]), "must name the labels"),
    ],
)
def test_bad_lists_are_refused(lists, message):
    with pytest.raises((ValueError, TypeError), match=message):
        mleval.evaluate(*lists)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"measures": "f11"}, "must name measures or sets of them, got 'f11'"),
        ({"measures": []}, "must name at least one"),
        ({"measures": "psp_at_3"}, "`train_labels` must be given for psp_at_3"),
        ({"train_labels": [[1, 0, 1]]}, "`train_labels` must have the 2 labels of `y_true`, got 3"),
        ({"train_labels": [[2, 0]]}, "`train_labels` must hold only 0 and 1"),
    ],
)
def test_bad_requests_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        mleval.evaluate([[1, 0]], [[0.5, 0.4]], **options)
