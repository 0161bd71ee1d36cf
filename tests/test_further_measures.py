"""Measures of label sets that are asked for: at k, curves, probabilities; and all measures of sparse scores."""

import json
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn import metrics

import mlflow_mleval as mleval
from mlflow_mleval.evaluation import Evaluation
from mlflow_mleval.measures import score_counts
from mlflow_mleval.measures.propensities import Propensities
from mlflow_mleval.measures.registry import LABEL_SETS, MEASURES

AT_K = ("precision", "recall", "ndcg", "psp", "psndcg")
KINDS = (np.float16, np.float32, np.float64, np.int64)
ASKED = [m.name for m in MEASURES.values() if LABEL_SETS in m.asked] + ["precision_at_2", "psndcg_at_20", "recall_at_17"]


def case(seed):
    """A random small matrix of labels with scores: ties, zeros, negative scores, empty rows and columns, N = 1 and K = 1."""
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
    for seed in range(200):
        y, s, rng = case(seed)
        s = s.astype(np.float32) if s.dtype == np.float16 else s  # scipy has no sparse halves
        options = {"conventions": ("sklearn", "mulan")[seed % 2], "measures": ASKED, "train_labels": np.vstack([y, y, 1 - y])}
        options["threshold"] = rng.choice([0.25, 0.5, 0.75], y.shape[1]) if seed % 3 == 0 else (0.5, -0.5)[seed % 5 == 0]
        dense = evaluate(y, s, **options)
        there = sparse.csr_matrix(s) if seed % 7 else sparse.coo_array(s)
        stored = evaluate(sparse.csr_matrix(y) if seed % 2 else y, there, **options)
        assert dense.measures == pytest.approx(stored.measures, rel=1e-12, abs=1e-12), seed
        assert dense.absent == stored.absent and dense.warnings == stored.warnings
        tables = dense.instances.to_numpy(), stored.instances[dense.instances.columns].to_numpy()
        np.testing.assert_allclose(*tables, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(dense.total.wrong, stored.total.wrong)


def brute_at_k(y, s, weights, k):
    """Precision, recall, nDCG, psp and psndcg at k by loops."""
    found, gains = np.zeros(3), np.zeros((2, 2))
    for truth, scores in zip(y, s, strict=True):
        order = sorted(range(len(scores)), key=lambda label: (-scores[label], label))[:k]
        hits = [(rank, label) for rank, label in enumerate(order) if truth[label] and scores[label] != 0]
        count = int(truth.sum())
        ideal = sum(1 / np.log2(i + 2) for i in range(min(k, count))) or 1
        found += len(hits) / k, len(hits) / max(count, 1), sum(1 / np.log2(rank + 2) for rank, _ in hits) / ideal
        best = sorted((weights[label] for label in np.flatnonzero(truth)), reverse=True)[:k]
        gains[0] += sum(weights[label] for _, label in hits), sum(best)
        gains[1] += (sum(weights[label] / np.log2(rank + 2) for rank, label in hits) / ideal,
                     sum(w / np.log2(i + 2) for i, w in enumerate(best)) / ideal)
    with np.errstate(invalid="ignore"):
        return dict(zip(AT_K, [*found / len(y), *gains[:, 0] / gains[:, 1]], strict=True))


def test_measures_at_k_are_those_of_the_definition():
    for seed in range(200):
        y, s, rng = case(seed)
        train = (rng.random((20, y.shape[1])) < 0.3).astype(int)
        k = int(rng.integers(1, 20))
        names = [f"{m}_at_{k}" for m in AT_K]
        ev = evaluate(y, s, measures=names, train_labels=train)
        counts, scale = train.sum(axis=0), (np.log(20) - 1) * 2.5**0.55
        expected = brute_at_k(y, s.astype(float), 1 + scale * np.exp(-0.55 * np.log(counts + 1.5)), k)
        for name, value in expected.items():
            key = f"{name}_at_{k}"
            assert (np.isnan(value) and key in ev.absent) or ev.measures[key] == pytest.approx(value, abs=1e-12)


def test_curves_and_probabilities_are_those_of_scikit_learn():
    for seed in range(200):
        y, s, _ = case(seed)
        ev = evaluate(y, s, measures=ASKED, train_labels=y)
        s = s.astype(float)
        both, some = (y.min(axis=0) < y.max(axis=0)), y.any(axis=0)
        support = y.sum(axis=0)
        expected = {}
        if both.any():
            areas = np.array([_auroc(t, p) for t, p in zip(y.T[both], s.T[both], strict=True)])
            expected |= {"macro_auroc": areas.mean(), "weighted_auroc": np.average(areas, weights=support[both])}
        if 0 < y.mean() < 1:
            expected["micro_auroc"] = metrics.roc_auc_score(y.ravel(), s.ravel())
            expected["micro_matthews"] = metrics.matthews_corrcoef(y.ravel(), s.ravel() >= 0.5)
        if some.any():
            areas = np.array([_ap(t, p) for t, p in zip(y.T[some], s.T[some], strict=True)])
            expected |= {"macro_ap": areas.mean(), "weighted_ap": np.average(areas, weights=support[some])}
            expected["micro_ap"] = metrics.average_precision_score(y.ravel(), s.ravel())
            tp, predicted = (y * (s >= 0.5)).sum(axis=0), (s >= 0.5).sum(axis=0)
            expected["weighted_precision"] = np.average(tp / np.maximum(predicted, 1), weights=support)
            expected["weighted_recall"] = tp.sum() / support.sum()
            expected["weighted_f1"] = np.average(2 * tp / np.maximum(predicted + support, 1), weights=support)
        if ev.total.errors is not None:
            expected["brier_score"] = ((s - y) ** 2).mean()
            if ev.total.n and seed % 4 == 2:  # float64: the clipping of others is that of their type
                probability = np.clip(s.ravel(), np.finfo(float).eps, 1 - np.finfo(float).eps)
                expected["log_loss"] = -np.log(np.where(y.ravel() == 1, probability, 1 - probability)).mean()
        union = (y.astype(bool) | (s >= 0.5)).sum(axis=0)
        expected["macro_jaccard"] = ((y.astype(bool) & (s >= 0.5)).sum(axis=0) / np.maximum(union, 1)).mean()
        expected["macro_matthews"] = np.mean([_matthews(t, p >= 0.5) for t, p in zip(y.T, s.T, strict=True)])
        found = {m: ev.measures[m] for m in expected}
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12), seed


def _auroc(t, p):
    pos, neg = p[t == 1][:, None], p[t == 0]
    return ((pos > neg) + (pos == neg) / 2).mean()


def _ap(t, p):
    return np.mean([t[p >= score].mean() for score in p[t == 1]])


def _matthews(t, p):
    return np.corrcoef(t, p)[0, 1] if t.min() < t.max() and p.min() < p.max() else 0.0


def test_areas_are_interpolated_as_davis_and_goadrich_do():
    """Between thresholds: the precision at every further true positive if negatives come in proportion, finely enough."""
    for seed in range(60):
        y, s, _ = case(seed)
        ev = evaluate(y, s, measures="hmc")
        columns = [(y.ravel(), s.ravel()), *zip(y.T, s.T, strict=True)]
        areas = np.array([_interpolated(t, p.astype(float)) for t, p in columns])
        if y.any():
            some, support = y.any(axis=0), y.sum(axis=0)
            assert ev.measures["auprc_curve"] == pytest.approx(areas[0], abs=2e-4)
            assert ev.measures["auprc_mean"] == pytest.approx(areas[1:][some].mean(), abs=2e-4)
            assert ev.measures["auprc_weighted"] == pytest.approx(np.average(areas[1:], weights=support), abs=2e-4)


def _interpolated(t, p):
    area = tp = fp = 0.0
    for score in np.unique(p)[::-1]:
        pos, neg = (t[p == score] == 1).sum(), (t[p == score] == 0).sum()
        way = (np.arange(1000) + 0.5) / 1000
        if pos:
            area += pos * ((tp + way * pos) / (tp + fp + way * (pos + neg))).mean()
        tp, fp = tp + pos, fp + neg
    return area / max(t.sum(), 1)


def test_parts_in_any_grouping_are_the_whole():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        y, s = (rng.random((40, 6)) < 0.3).astype(int), rng.random((40, 6)).round(1)
        options = {"measures": ASKED, "train_labels": Propensities.of(y)}
        whole = evaluate(y, s, **options)
        at = rng.integers(0, 7, 40)
        parts = [evaluate(sparse.csr_array(y[at == g]), sparse.csr_array(s[at == g]), **options) for g in set(at)]
        rng.shuffle(parts)
        stored = [Evaluation.from_dict(json.loads(json.dumps(part.to_dict()))) for part in parts]
        assert mleval.merge(stored).measures == pytest.approx(whole.measures, rel=1e-12, abs=1e-12)


def test_beyond_the_stated_size_the_bound_holds_on_adversarial_splits(monkeypatch):
    """Positives and negatives whose scores differ by less than a step of the grid, in the worst and the best order."""
    y = np.arange(300)[:, None] % 2
    for turn in (1, -1):
        s = 0.50001 + turn * (2 * y - 1) * 1e-9 * (1 + np.arange(300)[:, None])
        exact = evaluate(y, s, measures=ASKED, train_labels=y)
        with monkeypatch.context() as patch:
            patch.setattr(score_counts, "EXACT", 100)
            parts = [evaluate(y[i::7], s[i::7], measures=ASKED, train_labels=y) for i in range(7)]
            coarse = mleval.merge(parts)
            off = coarse._curves[1]
            assert max(off.values()) > 0.4 and any("macro_auroc" in text for text in coarse.warnings)
            for name, bound in off.items():
                assert abs(coarse.measures[name] - exact.measures[name]) <= bound + 1e-12


def test_what_is_usual_does_not_grow_and_the_rest_says_that_it_was_not_asked_for():
    y = [[1, 0], [0, 1]]
    ev = mleval.evaluate(y, [[0.9, 0.2], [0.4, 0.6]])
    assert {ev.absent[m.name] for m in MEASURES.values() if LABEL_SETS in m.asked} == {"it was not asked for"}
    assert set(mleval.evaluate(y, [[0.9, 0.2], [0.4, 0.6]], measures="ndcg_at_7").measures) - set(ev.measures) == {"ndcg_at_7"}


def test_many_labels_are_judged_at_k_and_training_labels_add_propensities():
    y = sparse.random_array((5, 1000), density=0.01, rng=np.random.default_rng(0), format="csr").astype(bool)
    ev = mleval.evaluate(y, y.astype(float), train_labels=y)
    assert ev.measures["precision_at_1"] == ev.measures["psp_at_5"] == ev.measures["psndcg_at_3"] == 1
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
        assert lists.measures == pytest.approx(whole.measures, rel=1e-12) and lists.truth_digest == whole.truth_digest
    assert mleval.evaluate([{"a"}, {"b", "c"}], y_pred=[["a"], ["b"]]).label_names == ("a", "b", "c")


@pytest.mark.parametrize(("lists", "message"), [
    (([{"a"}], [{"a": 1.0}, {}]), "`y_score` must hold the 1 instances"), (([{"a"}], [["a"]]), "got list in row 0"),
    (([{"a"}, "b"], [{}, {}]), "`y_true` must hold collections of labels, got str in row 1"),
    (([{"a"}], [{"a": np.nan}]), "`y_score` must hold finite scores"), (([set()], [{}]), "must name the labels"),
])  # fmt: skip
def test_bad_lists_are_refused(lists, message):
    with pytest.raises((ValueError, TypeError), match=message):
        mleval.evaluate(*lists)


@pytest.mark.parametrize(("options", "message"), [
    ({"measures": "f11"}, "or name measures or sets of them, got 'f11'"),
    ({"measures": []}, "must name at least one"),
    ({"measures": "psp_at_3"}, "`train_labels` must be given for psp_at_3"),
    ({"train_labels": [[1, 0, 1]]}, "`train_labels` must have the 2 labels of `y_true`, got 3"),
    ({"train_labels": [[2, 0]]}, "`train_labels` must hold only 0 and 1"),
])  # fmt: skip
def test_bad_requests_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        mleval.evaluate([[1, 0]], [[0.5, 0.4]], **options)
