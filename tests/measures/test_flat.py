"""The sixteen flat measures against MULAN's and scikit-learn's own figures."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from places import GOLDEN
from sklearn import metrics

import mlflow_mleval as mleval
from mlflow_mleval.measures.label_ranking import RowScores, ranking_measures
from mlflow_mleval.measures.registry import MEASURES, SETS

GOLDEN = json.loads((GOLDEN / "flat_measures_cases.json").read_text())
SIXTEEN = SETS["sixteen"]


def close(found, expected, names=SIXTEEN):
    assert {n: found[n] for n in names} == pytest.approx(
        {n: expected[n] for n in names}, abs=1e-12, rel=0
    )


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["name"])
@pytest.mark.parametrize(("conventions", "key"), [("sklearn", "sklearn_zd0"), ("mulan", "mulan")])
def test_published_tools_print_the_same(case, conventions, key):
    ev = mleval.evaluate(case["Y"], case["S"], case["P"], conventions=conventions)
    assert set(case[key]) == set(SIXTEEN)
    close(ev.measures, case[key])


def sklearn_ranking(y, s, p):
    """The ranking measures by scikit-learn's functions, coverage less one where a label is true."""
    some = y.any(axis=1)
    return {
        "one_error": np.mean(y[np.arange(len(y)), s.argmax(axis=1)] == 0),
        "coverage": metrics.coverage_error(y, s) - some.mean(),
        "ranking_loss": metrics.label_ranking_loss(y, s),
        "average_precision": metrics.label_ranking_average_precision_score(y, s),
    }


@st.composite
def problems(draw, scores=None):
    n, k = draw(st.integers(1, 12)), draw(st.integers(2, 8))
    labels = arrays(np.int8, (n, k), elements=st.integers(0, 1))
    if scores is None:
        scores = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]))
    return draw(labels), draw(arrays(float, (n, k), elements=scores)), draw(labels)


ODD = [0.0, -0.0, 1.0, np.nextafter(1.0, 2), 2.0, -2.0, 1e300, -1e300, 1e-300, 5e-324]
WILD = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([*ODD, np.finfo(float).max])
)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # scikit-learn sums the scores
@given(problems(WILD))
def test_scores_may_be_any_finite_number_and_only_equal_ones_are_ties(problem):
    y, s, _ = problem
    found = {name: v.mean() for name, v in ranking_measures(RowScores(y.astype(bool), s)).items()}
    close(found, sklearn_ranking(y, s, y), SETS["ranking"])


def mulan_ranking(y, s):
    """MULAN's definitions in plain loops: labels by falling score, equal ones by falling index."""
    order = sorted(range(len(y)), key=lambda j: (-s[j], -j))
    relevant = [place for place, j in enumerate(order) if y[j]]
    k, r = len(y), len(relevant)
    wrong = sum(1 for a in relevant for b in range(k) if b not in relevant and b < a)
    precision = sum((i + 1) / (a + 1) for i, a in enumerate(relevant))
    return {
        "one_error": float(not y[order[0]]),
        "coverage": max(relevant, default=0),
        "ranking_loss": wrong / (r * (k - r)) if 0 < r < k else 0.0,
        "average_precision": precision / r if r else np.nan,
    }


@given(problems(st.one_of(WILD, st.sampled_from([0.0, 0.5]))))
def test_mulan_breaks_ties_by_index(problem):
    y, s, _ = problem
    found = ranking_measures(RowScores(y.astype(bool), s), "mulan")
    for i in range(len(y)):
        expected = mulan_ranking(y[i], s[i].tolist())
        seen = {n: v[i] for n, v in found.items()}
        assert seen == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_a_label_that_neither_occurs_nor_is_predicted():
    y, p = np.array([[1, 0], [1, 0]]), np.array([[1, 0], [0, 0]])
    assert mleval.evaluate(y, y_pred=p).measures["macro_recall"] == 0.25
    assert mleval.evaluate(y, y_pred=p, conventions="mulan").measures["macro_recall"] == 0.75


@given(problems(), st.randoms(use_true_random=False), st.sampled_from(["sklearn", "mulan"]))
def test_bounds_and_the_order_of_labels(problem, random, conventions):
    y, s, p = problem
    s = s + np.arange(s.shape[1]) * 1e-3  # scores that differ: ties are broken by index
    s = np.argsort(np.argsort(s, axis=1), axis=1) / s.shape[1]
    order = random.sample(range(y.shape[1]), y.shape[1])
    found = mleval.evaluate(y, s, p, conventions=conventions).measures
    for name, value in found.items():
        assert MEASURES[name].range[0] <= value <= MEASURES[name].range[1], name
    moved = mleval.evaluate(y[:, order], s[:, order], p[:, order], conventions=conventions).measures
    assert moved == pytest.approx(found, abs=1e-12)


def test_tensors_are_taken_with_their_gradients_wherever_they_are():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    truth, scores = rng.integers(0, 2, (30, 4)), rng.random((30, 4))
    tensor = torch.tensor(scores, dtype=torch.float64, requires_grad=True)
    found = mleval.evaluate(torch.tensor(truth, dtype=torch.int8), tensor)
    assert found.measures == mleval.evaluate(truth, scores).measures
    half = torch.tensor(scores, dtype=torch.bfloat16, requires_grad=True)
    assert abs(mleval.evaluate(truth, half).measures["hamming_loss"] - 0.5) < 0.2
