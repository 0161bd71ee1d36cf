"""Weights of instances: as repeated rows, at any scale, and in whatever batches."""

import json

import mlflow
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier

import mlflow_mleval as mleval
from mlflow_mleval.errors import IncomparableRunsError
from mlflow_mleval.measures.sums import SAMPLE_WEIGHT
from mlflow_mleval.training.callbacks import EpochLog

#: All that is computed of label sets, and of one label.
ASKED = (
    *("probabilistic", "at_k", "hmc", "ece_7", "micro_matthews", "macro_matthews"),
    *("macro_jaccard", "balanced_accuracy", "weighted_precision", "weighted_recall"),
    "weighted_f1",
)
EXACT = {"rel": 1e-12, "abs": 1e-12}


def label_sets(seed, n=60, k=4):
    """Truth, scores with ties, and real weights."""
    rng = np.random.default_rng(seed)
    y = rng.random((n, k)) < 0.4
    score = np.round(np.clip(0.5 * y + 0.6 * rng.random((n, k)), 0, 1), 2)
    return y.astype(int), score, rng.gamma(0.5, 3.0, n)


def classes(seed, n=80, k=4):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    p = rng.dirichlet(np.ones(k), n) + 0.5 * np.eye(k)[y]
    return y, p / p.sum(axis=1, keepdims=True), rng.gamma(0.5, 3.0, n)


TREE = mleval.Hierarchy([("r", "a"), ("r", "b"), ("a", 0), ("a", 1), ("b", 2), ("b", 3)])


@st.composite
def weighted_rows(draw):
    """Few rows and labels, so that empty sets, labels without instances and ties are common."""
    n, k = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    grid = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
    rows = st.lists(st.tuples(st.booleans(), grid), min_size=k, max_size=k)
    cells = np.array(draw(st.lists(rows, min_size=n, max_size=n)))
    weights = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n).filter(any))
    return cells[..., 0].astype(int), cells[..., 1], np.array(weights)


def same(found, expected, whole=True):
    """All measures and how they came about; rounding may choose other points of curves."""
    assert found.measures == pytest.approx(expected.measures, **EXACT)
    assert found.absent.keys() - {"f_max", "s_min"} == expected.absent.keys() - {"f_max", "s_min"}
    for name in ("labels", "confusion") if found.kind == "one label" else ("labels",):
        values = (getattr(ev, name).to_numpy(float) for ev in (found, expected))
        assert next(values) == pytest.approx(next(values), nan_ok=True, **EXACT)
    for table in ("curves", "reliability") if whole else ():
        mine, theirs = (getattr(ev, table)().drop(columns="label") for ev in (found, expected))
        pd.testing.assert_frame_equal(mine, theirs, check_dtype=False, rtol=1e-12)


@given(weighted_rows(), st.sampled_from(["sklearn", "mulan"]), st.booleans(), st.booleans())
def test_whole_weights_are_repeated_rows(rows, conventions, stored, probable):
    y, s, w = rows
    if not probable:
        s = s - 0.5
        w = np.maximum(w, 1)  # whether scores are probabilities is judged by all rows
    form = sparse.csr_array if stored else np.asarray
    names = list(range(y.shape[1]))
    options = {
        "measures": [m for m in ASKED if m != "hmc"] + ["auprc_curve", "auprc_mean"],
        "conventions": conventions,
        "hierarchy": TREE,
        "label_names": names,
        "threshold": 0.5 if probable else -0.1,  # which labels that are not stored reach
    }
    weighted = mleval.evaluate(form(y), form(s), sample_weight=w, **options)
    again = np.repeat(np.arange(len(w)), w)
    repeated = mleval.evaluate(form(y[again]), form(s[again]), **options)
    same(weighted, repeated)
    for kind in ("hard", "soft") if probable else ("hard",):
        profiles = (ev.profile(kind=kind).losses for ev in (weighted, repeated))
        assert next(profiles) == pytest.approx(next(profiles), **EXACT)
    sets = [[n for n, on in zip(names, row, strict=True) if on] for row in y]
    guess = [[n for n, v in zip(names, row, strict=True) if v > 0.4] for row in s]
    both = mleval.evaluate_hierarchical(sets, guess, TREE, sample_weight=w)
    parts = ([given[i] for i in again] for given in (sets, guess))
    expected = mleval.evaluate_hierarchical(*parts, TREE).measures
    assert both.measures == pytest.approx(expected, **EXACT)


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(2, 4), st.booleans())
def test_whole_weights_of_one_label_are_repeated_rows(seed, n, k, probable):
    rng = np.random.default_rng(seed)
    y, w = rng.integers(0, k, n), rng.integers(0, 4, n)
    w[0] = max(w[0], 1)
    s = rng.integers(1, 5, (n, k)).astype(float)
    s = s / s.sum(axis=1, keepdims=True) if probable else s
    options = {"label_names": list(range(k)), "measures": ["ece_4", "top_k_accuracy_2"]}
    options["probabilities"] = probable
    again = np.repeat(np.arange(n), w)
    weighted = mleval.evaluate(y, s, sample_weight=w, **options)
    same(weighted, mleval.evaluate(y[again], s[again], **options))
    guess = rng.integers(0, k, n)
    alone = mleval.evaluate(y, None, guess, sample_weight=w, label_names=options["label_names"])
    expected = mleval.evaluate(y[again], None, guess[again], label_names=options["label_names"])
    same(alone, expected)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 59), max_size=4), st.booleans())
def test_batches_give_the_weights_of_the_whole(seed, cuts, one):
    y, s, w = classes(seed, 60) if one else label_sets(seed)
    w += 0.01
    options = {"measures": ["ece_7"] if one else ASKED[:2], "label_names": list(range(4))}
    whole = mleval.evaluate(y, s, sample_weight=w, **options)
    parts = np.split(np.arange(60), sorted(set(cuts)))
    batches = [mleval.evaluate(y[i], s[i], sample_weight=w[i], **options) for i in parts]
    for order in (1, -1):
        merged = mleval.merge(batches[::order])
        same(merged, whole, whole=False)
        assert merged.total.n == 60 and merged.weights_digest == whole.weights_digest
    back = mleval.Evaluation.from_dict(json.loads(json.dumps(whole.to_dict(), default=str)))
    assert back.measures == whole.measures and back.weights_digest == whole.weights_digest
    assert mleval.merge([back, back]).measures == pytest.approx(whole.measures, **EXACT)


@pytest.mark.parametrize("kind", [label_sets, classes])
def test_a_large_scale_of_weights_changes_nothing(kind):
    """Repeated rows have whole weights; with their scale they stand for all."""
    y, s, w = kind(1)
    asked = {"measures": ASKED} if kind is label_sets else {}
    first = mleval.evaluate(y, s, **asked, sample_weight=w)
    for scale in (1e-9, 1e9):
        other = mleval.evaluate(y, s, **asked, sample_weight=w * scale)
        assert other.measures == pytest.approx(first.measures, **EXACT)


def test_measures_stay_within_their_range_whatever_rounding_does():
    rng = np.random.default_rng(0)
    for n in range(1, 40):
        y = rng.integers(0, 2, (n, 3))
        y[:, 0], y[:, 1] = 1, 0  # labels of all instances, and of none
        ev = mleval.evaluate(y, y * 0.9, measures=ASKED, sample_weight=rng.random(n) + 0.1)
        for m in ("micro_f1", "macro_auroc", "micro_ap", "auprc_curve"):
            assert 1 - 1e-12 < ev.measures.get(m, 1) <= 1
        row = ev.labels.iloc[0]
        assert (row["tn"], row["fp"], row["fn"], row["f1"]) == (0, 0, 0, 1)
        assert ev.measures["macro_matthews"] in (0, pytest.approx(1 / 3))
        y[:] = 1  # nothing varies
        ev = mleval.evaluate(y, y * 0.9, measures=ASKED, sample_weight=rng.random(n) + 0.1)
        assert ev.measures["micro_matthews"] == 0 and ev.measures["f1"] == 1


def test_folds_and_instances_know_their_weights():
    y, s, w = label_sets(2)
    folds = np.arange(60) % 3
    ev = mleval.evaluate(y, s, folds=folds, sample_weight=w)
    for key in range(3):
        mine = folds == key
        own = mleval.evaluate(y[mine], s[mine], sample_weight=w[mine])
        assert ev.fold(key).measures == pytest.approx(own.measures, **EXACT)
    assert ev.instances["sample_weight"].tolist() == w.tolist()
    assert ev.statistics["n_instances"] == 60
    assert ev.statistics["sum_of_weights"] == pytest.approx(w.sum())
    assert any("count by their sample weights" in text for text in ev.warnings)


def test_what_has_no_weighted_form_says_so():
    y, s, w = label_sets(3)
    ev = mleval.evaluate(
        y, s, hierarchy=TREE, label_names=[0, 1, 2, 3], measures="hmc", sample_weight=w
    )
    assert ev.absent["f_max"] == ev.absent["s_min"] == "it has no form with `sample_weight`"


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2], r"`sample_weight` must hold one weight for each of the 3 instances, got shape"),
        (2.0, r"one weight for each of the 3 instances, got shape \(\)"),
        ([1, -1, 1], r"must be finite and not negative, got -1.0 in row 1 \(1 such rows\)"),
        ([1, np.nan, 1], "finite and not negative, got nan in row 1"),
        ([1e308, 1e308, 1e308], "must have a finite sum, got inf. Scale the weights"),
        (["a", "b", "c"], "`sample_weight` must hold numbers, got dtype <U1"),
        (pd.Series([1, 1, 1], index=[3, 4, 5]), "`sample_weight` must have the index of `y_true`"),
    ],
)
def test_weights_that_are_none_are_refused(weights, message):
    y = pd.DataFrame([[1, 0], [0, 1], [1, 1]])
    with pytest.raises((TypeError, ValueError), match=message):
        mleval.evaluate(y, y_pred=y, sample_weight=weights)


def test_weights_do_not_mix_with_none():
    y, s, w = label_sets(4)
    with pytest.raises(ValueError, match="must agree in inputs"):
        mleval.merge([mleval.evaluate(y, s), mleval.evaluate(y, s, sample_weight=w)])
    scaled = mleval.evaluate(y, s, sample_weight=w[::-1])
    assert scaled.weights_digest != mleval.evaluate(y, s, sample_weight=w).weights_digest


def test_intervals_are_those_of_weighted_means():
    y, s, w = label_sets(5)
    table = mleval.measure_intervals(mleval.evaluate(y, s, sample_weight=w)).table
    hits = ((s >= 0.5) == y).all(axis=1)
    share = w / w.sum()
    added = share * (hits - share @ hits)
    error = np.sqrt(added @ (added / (1 - share)))
    assert table.loc["subset_accuracy", "standard_error"] == pytest.approx(error)
    alike = mleval.evaluate(y, s, sample_weight=np.full(60, 7.0))
    equal = mleval.measure_intervals(alike).table
    plain = mleval.measure_intervals(mleval.evaluate(y, s)).table
    pd.testing.assert_frame_equal(equal, plain, rtol=1e-6)


def test_runs_hold_their_weights_and_compare_with_their_like(client):
    y, s, w = label_sets(6)
    folds = np.arange(60) % 3
    for i, method in enumerate(("a", "b")):
        noisy = np.clip(s + 0.2 * i * (0.5 - y), 0, 1)
        ev = mleval.evaluate(y, noisy, folds=folds, sample_weight=w, measures="probabilistic")
        run = mleval.log_evaluation(ev, method=method, dataset="d", log_instances=True)
    tags = client.get_run(run).data.tags
    assert tags["mleval.sample_weight"] == ev.weights_digest
    assert "count by their sample weights" in tags["mlflow.note.content"]
    study = mleval.load_study(experiment_names=["Default"])
    assert study.values.loc[("d", "b"), "micro_f1"] == ev.folds["micro_f1"].mean()
    profiles = mleval.load_profiles(experiment_names=["Default"])
    losses = profiles.losses("d").loc["b"].to_numpy()
    assert losses == pytest.approx(ev.profile(kind="hard").losses, abs=1e-9)
    mleval.log_evaluation(mleval.evaluate(y, s), method="c", dataset="d")
    with pytest.raises(IncomparableRunsError, match="weigh the instances in different ways"):
        mleval.load_study(experiment_names=["Default"])
    same_weights = f"tags.`mleval.sample_weight` = '{ev.weights_digest}'"
    chosen = mleval.load_study(experiment_names=["Default"], filter_string=same_weights)
    assert chosen.methods == ["a", "b"]
    other = mleval.evaluate(y, s, sample_weight=w + 1)
    mleval.log_evaluation(other, method="c", dataset="e")
    mleval.log_evaluation(ev, method="a", dataset="e")
    with pytest.raises(IncomparableRunsError, match="runs on e weigh the instances"):
        mleval.load_study(experiment_names=["Default"], datasets=["e"])


@pytest.mark.filterwarnings("error")
def test_a_batch_without_weight_adds_nothing_and_alone_says_so():
    y, s, w = label_sets(8)
    options = {"measures": ASKED, "instances": False}
    none = mleval.evaluate(y[:20], s[:20], sample_weight=np.zeros(20), **options)
    assert none.measures == {} and none.absent["f1"] == "all instances have the weight 0"
    assert none.warnings and none.labels["f1"].tolist() == [0] * 4
    rest = mleval.evaluate(y[20:], s[20:], sample_weight=w[20:], **options)
    merged = mleval.merge([none, rest])
    assert merged.measures == pytest.approx(rest.measures, **EXACT) and merged.total.n == 60
    c, p, w = classes(8)
    alone = mleval.evaluate(c, p, sample_weight=np.zeros(80))
    assert alone.measures == {} and "matthews" in alone.absent
    folds = mleval.evaluate(y, s, folds=np.arange(60) % 2, sample_weight=np.arange(60) % 2)
    assert folds.folds["f1"].isna().tolist() == [True, False]


@pytest.mark.filterwarnings("error:invalid value")
def test_a_fold_without_weight_is_logged_without_profiles(client):
    y, s, _ = label_sets(8)
    ev = mleval.evaluate(y, s, folds=np.arange(60) % 2, sample_weight=np.arange(60) % 2)
    run_id = mleval.log_evaluation(ev, method="m", dataset="no weight in a fold")
    data = client.get_run(run_id).data
    assert (
        data.tags["mleval.status"] == "complete" and data.metrics["mleval.data/n_instances"] == 60
    )
    assert not [key for key in data.metrics if "profile" in key]


def test_cross_validation_weighs_the_evaluation(client):
    y, s, w = label_sets(9)
    model = KNeighborsClassifier(3)
    with mlflow.start_run() as run:
        ev = mleval.cross_validate(model, s, y.astype(int), cv=KFold(3), sample_weight=w)
    plain = mleval.cross_validate(model, s, y.astype(int), cv=KFold(3), log=False)
    assert ev.instances[SAMPLE_WEIGHT].tolist() == w[ev.instances.index].tolist()
    subset = plain.instances["subset_accuracy"]
    weighted = np.average(subset, weights=w[subset.index])
    assert ev.measures["subset_accuracy"] == pytest.approx(weighted, **EXACT)
    tags = client.get_run(run.info.run_id).data.tags
    assert tags["mleval.sample_weight"] == ev.weights_digest
    assert " weights-" in tags["mleval.dataset"]  # other weights, other data
    with pytest.raises(ValueError, match="`sample_weight` must hold one weight for each of the"):
        mleval.cross_validate(model, s, y.astype(int), sample_weight=w[1:], log=False)


def test_a_training_weighs_its_epochs_and_its_end(client):
    y, s, w = label_sets(9)
    log = EpochLog(method="net", dataset="toy", sample_weight=w)
    with mlflow.start_run() as run:
        log.begin()
        log.epoch(0, lambda: (y, s))
        log.end(lambda: (y, s))
    expected = mleval.evaluate(y, s, sample_weight=w)
    logged = client.get_run(run.info.run_id).data
    assert logged.metrics["mleval.epoch/f1"] == expected.measures["f1"]
    assert log.evaluation.measures == expected.measures
    assert logged.tags["mleval.sample_weight"] == expected.weights_digest
    with pytest.raises(ValueError, match="must hold one weight for each of the 5 instances"):
        log.evaluate(y[:5], s[:5])  # parts do not know which weights are theirs


def test_spark_has_none_and_says_so():
    with pytest.raises(TypeError, match="evaluate_spark.. has no argument 'sample_weight'"):
        mleval.evaluate_spark(None, "truth", "scores", sample_weight="w")
