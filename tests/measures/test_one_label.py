"""One label of several classes: against scikit-learn, merged in any groups, and bad input."""

import re

import numpy as np
import pandas as pd
import pytest
from one_label_cases import DIGITS, reference_of
from sklearn import metrics
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB

import mlflow_mleval as mleval
from mlflow_mleval.measures import curves
from mlflow_mleval.measures.registry import MEASURES, ONE_LABEL, SETS

UNDEFINED = "it is not defined for these instances together"


def assert_equal(ev, expected):
    for name, value in expected.items():
        assert ev.measures[name] == pytest.approx(value, rel=1e-12, abs=1e-12), name


def test_digits_as_in_scikit_learn():
    X, y = load_digits(return_X_y=True)
    p = cross_val_predict(GaussianNB(), X, y, cv=3, method="predict_proba")
    pred = p.argmax(axis=1)
    ev = mleval.evaluate(y, p, hierarchy=DIGITS)
    assert_equal(ev, reference_of(y, pred, p))
    assert ev.confusion.to_numpy().tolist() == metrics.confusion_matrix(y, pred).tolist()
    assert ev.kind == ONE_LABEL and set(SETS["one-label"]) <= set(ev.measures)
    assert ev.measures["exact_match"] == ev.measures["top1_accuracy"]
    sets = mleval.evaluate_hierarchical([[c] for c in y], [[c] for c in pred], DIGITS).measures
    expected = {m: sets[m] for m in SETS["class-sets"]}
    assert {m: ev.measures[m] for m in SETS["class-sets"]} == expected
    # A label set's measures are absent, each with its reason.
    assert {m for m in MEASURES if ONE_LABEL not in MEASURES[m].kinds} <= set(ev.absent)
    assert ev.absent["micro_f1"] == "it is of label sets, not of one label"


def test_binary_in_each_form():
    p = np.array([0.1, 0.7, 0.6, 0.5])
    forms = [
        [0, 1, 0, 1],
        [False, True, False, True],
        ["no", "yes", "no", "yes"],
        [-1, 1, -1, 1],
        [0.0, 1.0, 0.0, 1.0],
        pd.Series(["no", "yes", "no", "yes"], dtype="category"),
        pd.Series([0, 1, 0, 1], dtype="Int64"),
    ]
    expected = mleval.evaluate(forms[0], p).measures
    assert_equal(mleval.evaluate(forms[0], p), reference_of(forms[0], (p > 0.5).astype(int), p))
    for y in forms:
        for given in (p, p[:, None], p.tolist(), np.column_stack([1 - p, p])):
            found = mleval.evaluate(y, given).measures
            assert {m: found[m] for m in expected} == pytest.approx(expected, abs=1e-12)
    values = mleval.evaluate([0, 1, 0, 1], np.array([-2.0, 0.2, 0.1, -0.3]))
    assert values.threshold == 0 and values.confusion.to_numpy().tolist() == [[1, 1], [1, 1]]
    # A batch may hold one class only.
    assert mleval.evaluate([1], [0.8]).label_names == (0, 1)
    assert mleval.evaluate([True], [0.8]).label_names == (False, True)
    with pytest.raises(ValueError, match=r"the 3 classes .* 1 class \(False\)\.$"):
        mleval.evaluate([False], [[0.2, 0.3, 0.5]])


def test_one_instance_and_one_class():
    ev = mleval.evaluate([2], np.array([[0.2, 0.3, 0.5]]), label_names=[0, 1, 2])
    assert ev.measures["top1_accuracy"] == 1 and ev.measures["matthews"] == 0
    assert ev.absent["kappa"] == UNDEFINED
    assert ev.absent["macro_auroc"] == UNDEFINED
    assert mleval.evaluate(["a"], y_pred=["a"]).measures["macro_f1"] == 1


def test_what_is_evaluated_at_once_is_exact_over_folds_too(monkeypatch):
    rng = np.random.default_rng(3)
    y = (rng.random((300, 4)) < 0.3).astype(int)
    s, folds = rng.random(y.shape), np.arange(300) % 3
    areas = {"measures": ["macro_auroc", "micro_auroc", "weighted_ap", "micro_ap", "auprc_mean"]}
    exact = mleval.merge([mleval.evaluate(y[i::3], s[i::3], **areas) for i in range(3)])
    expected = {
        "macro_auroc": metrics.roc_auc_score(y, s),
        "micro_auroc": metrics.roc_auc_score(y, s, average="micro"),
        "weighted_ap": metrics.average_precision_score(y, s, average="weighted"),
        "micro_ap": metrics.average_precision_score(y, s, average="micro"),
    }
    monkeypatch.setattr(curves, "EXACT", 100)
    for ev in (mleval.evaluate(y, s, **areas), mleval.evaluate(y, s, folds=folds, **areas)):
        assert {m: ev.measures[m] for m in expected} == pytest.approx(expected, rel=1e-12)
        assert ev.measures == pytest.approx(exact.measures, rel=1e-12)
        assert ev.warnings == exact.warnings
        for table in (mleval.Evaluation.curves, mleval.Evaluation.reliability):
            pd.testing.assert_frame_equal(table(ev), table(exact), check_exact=True)
            some = table(ev, [2, 0])  # in this order
            own = [table(ev, [label]) for label in (2, 0)]
            own = [rows if i < 1 else rows[rows["scope"] == "label"] for i, rows in enumerate(own)]
            pd.testing.assert_frame_equal(some, pd.concat(own, ignore_index=True))


def test_batches_frames_and_folds():
    rng = np.random.default_rng(0)
    y = pd.Series(rng.choice(["a", "b", "c"], 60), index=range(100, 160))
    p = pd.DataFrame(rng.dirichlet(np.ones(3), 60), columns=["a", "b", "c"], index=y.index)
    ev = mleval.evaluate(y, p, folds=np.repeat([0, 1, 2], 20), fit_time={0: 1, 1: 2, 2: 3})
    assert ev.label_names == ("a", "b", "c") and ev.instances.index.tolist() == y.index.tolist()
    assert list(ev.instances) == ["fold", "top1_accuracy", "log_loss", "brier_score"]
    assert ev.fold(1).measures["top1_accuracy"] == ev.folds.loc[1, "top1_accuracy"]
    assert ev.measures["fit_time"] == 6
    folds = np.repeat([0, 1, 2], 20)
    given = {"y_true": y, "y_score": p, "folds": folds}
    parts = [slice(i, i + 7) for i in range(0, 60, 7)]
    batched = mleval.evaluate_batches({n: v[rows] for n, v in given.items()} for rows in parts)
    common = [m for m in batched.measures if m in ev.measures]
    assert len(common) > 14
    assert {m: ev.measures[m] for m in common} == pytest.approx(batched.measures)
    assert ev.statistics == {"n_instances": 60, "n_classes": 3, "n_true_classes": 3}
    assert re.search("3 classes, 3 folds, top1_accuracy", repr(ev))


P3, Y3 = np.full((3, 3), 1 / 3), [0, 1, 2]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((["a", 1, "b"],), r"of one type, .* got mixed-integer \('a', 1, 'b'\)"),
        (([0, None, 1],), r"a class for each instance, got none in row 1 \(1 such row\)"),
        (([0.5, 1.2, 3.0],), "0.5 in row 0 .2 such rows.: these are measurements, and mleval eval"),
        (([b"a", b"b", b"c"],), "whole numbers, text or booleans, got bytes"),
        (([],), "at least one instance"),
        ((Y3, [[0.2, np.nan, 0.8]] * 3), "must hold finite scores, got nan in row 0, column 1"),
        ((Y3, [[0.2] * 3] * 3), r"must sum to 1 in each row .* got 0.6 in row 0 \(3 such rows\)"),
        ((Y3, P3[:2]), "`y_score` must hold the 3 instances of `y_true`, got 2"),
        (([0, 1, 3], P3, None, Y3), "classes of `label_names` .0, 1, 2., got 3 in row 2"),
        (([1, 1, 2], P3), "must name the 3 classes .* and `y_true` has 2 classes .1, 2."),
        ((Y3, [0.1, 0.2, 0.3]), "name the 2 classes .*, and `y_true` has 3 classes"),
        (([151.0, 75.0, 141.0, 206.0], P3[[0] * 4]), "has 4 classes .*If these are measurements"),
        (([0, 1, 1], None, ["a", "b", "b"]), "classes of the type of `y_true`, got 'a'"),
        (([0, 1, 1], None, [0, 1]), "`y_pred` must hold the 3 instances"),
        (([0, 1, 1],), "`y_score` or `y_pred` must be given"),
        ((Y3, P3, None, [0, 1]), "one name for each of the 3 classes, got 2"),
        ((Y3, P3, [[0, 1], [1, 0], [1, 1]]), "`y_pred` must hold one class an instance"),
    ],
)
def test_bad_input_gets_one_clear_error(given, text):
    y, score, pred, names = (*given, None, None, None)[:4]
    with pytest.raises((ValueError, TypeError), match=text):
        mleval.evaluate(y, score, pred, label_names=names)


def test_parts_of_other_classes_or_thresholds_do_not_merge():
    with pytest.raises(ValueError, match="must agree in label_names"):
        mleval.merge([mleval.evaluate(y, y_pred=y) for y in ([0, 1], [0, 2])])
    with pytest.raises(ValueError, match="must agree in threshold, got 0.5 and 0.0"):
        mleval.merge([mleval.evaluate([0, 1], [0.1, 0.2]), mleval.evaluate([0, 1], [0.1, 2.0])])
    ev = mleval.evaluate([0, 1], [0.1, 0.9])
    with pytest.raises(ValueError, match="label sets"):
        ev.profile()
    with pytest.raises(ValueError, match="label sets"):
        mleval.evaluate([[0, 1]], y_pred=[[0, 1]]).confusion  # noqa: B018


@pytest.mark.parametrize(
    ("y_true", "given"),
    [
        (["c", "b", "c"], ["b", "b", "c"]),
        (pd.Series([False, True, False]), pd.Series([True, True, False])),
        ([2, 1, 0], np.array([1, 1, 2])),
        (np.array([2, 1, 1]), [np.int64(2), 1, 2]),
    ],
    ids=["text", "booleans", "integers", "list"],
)
def test_classes_in_the_place_of_scores_are_predictions(y_true, given):
    evaluation, named = mleval.evaluate(y_true, given), mleval.evaluate(y_true, y_pred=given)
    assert evaluation.inputs == ("y_pred",)
    assert evaluation.measures == named.measures


def test_batches_that_lack_classes_take_predictions_alike():
    batches = [([0, 0], [1, 0]), ([0, 2], [0, 2])]
    with pytest.raises(ValueError, match="with the same `label_names`"):
        mleval.evaluate_batches(batches)
    evaluation = mleval.evaluate_batches(batches, label_names=[0, 1, 2])
    assert evaluation.measures == mleval.evaluate([0, 0, 0, 2], y_pred=[1, 0, 0, 2]).measures
    assert mleval.evaluate([0, 1, 1, 0], [-3.0, 2, 5, 1]).measures["macro_auroc"] == 1
