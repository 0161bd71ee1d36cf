"""Measures of label sets and of one label, areas and points of curves, against scikit-learn's
functions on the same arrays; the areas also against torchmetrics, where it is installed.

    python tests/benchmarks/bench_curves.py

Seconds of CPU, ours of whole evaluations. Bounds: how many times as fast as scikit-learn.
"""

import sys
import warnings
from importlib.util import find_spec

import numpy as np
from sklearn import metrics
from timing import Row, cpu, told

import mlflow_mleval as mleval
from mlflow_mleval.measures.registry import SETS

AREAS = [f"{mean}_{area}" for mean in ("macro", "weighted", "micro") for area in ("auroc", "ap")]
warnings.filterwarnings("ignore")


def sklearn_sixteen(y, s, p):
    scores = (metrics.precision_score, metrics.recall_score, metrics.f1_score)
    found = [
        score(y, p, average=a, zero_division=0)
        for score in scores
        for a in ("samples", "micro", "macro")
    ]
    found += [metrics.hamming_loss(y, p), metrics.accuracy_score(y, p)]
    found += [metrics.jaccard_score(y, p, average="samples", zero_division=0)]
    found += [metrics.coverage_error(y, s) - y.any(axis=1).mean(), metrics.label_ranking_loss(y, s)]
    found += [
        metrics.label_ranking_average_precision_score(y, s),
        (y[np.arange(len(y)), s.argmax(axis=1)] == 0).mean(),
    ]
    return found


def label_sets(n, n_labels):
    rng = np.random.default_rng(0)
    return (rng.random((n, n_labels)) < 0.05).astype(np.int8), rng.random((n, n_labels))


def areas(n, n_labels):
    y, s = label_sets(n, n_labels)
    functions = {"auroc": metrics.roc_auc_score, "ap": metrics.average_precision_score}
    pairs = [name.split("_") for name in AREAS]

    def theirs():
        return [functions[area](y, s, average=mean) for mean, area in pairs]

    def ours():
        found = mleval.evaluate(y, s, measures=AREAS, instances=False).measures
        return [found[name] for name in AREAS]

    assert np.allclose(ours(), theirs(), rtol=1e-12, atol=0)
    return theirs, ours


def areas_of_torchmetrics(n, n_labels):
    import torch
    from torchmetrics.functional import classification

    torch.set_num_threads(1)
    y, s = map(torch.from_numpy, label_sets(n, n_labels))
    functions = {
        "auroc": classification.multilabel_auroc,
        "ap": classification.multilabel_average_precision,
    }
    pairs = [name.split("_") for name in AREAS]

    def theirs():
        return [float(functions[area](s, y.long(), n_labels, mean)) for mean, area in pairs]

    ours = areas(n, n_labels)[1]
    assert np.allclose(ours(), theirs(), rtol=1e-4, atol=0)
    return theirs, ours


def curves(n, n_labels):
    y, s = label_sets(n, n_labels)

    def theirs():
        functions = metrics.roc_curve, metrics.precision_recall_curve
        return [f(y[:, j], s[:, j]) for j in range(n_labels) for f in functions]

    def ours():
        return mleval.evaluate(y, s, measures="macro_auroc", instances=False).curves()

    return theirs, ours


def one_label(n, n_classes):
    rng = np.random.default_rng(0)
    y, p = rng.integers(0, n_classes, n), rng.dirichlet(np.ones(n_classes), n)

    def theirs():
        c = p.argmax(axis=1)
        plain = metrics.accuracy_score, metrics.balanced_accuracy_score
        further = metrics.matthews_corrcoef, metrics.cohen_kappa_score
        macro = metrics.precision_score, metrics.recall_score, metrics.f1_score
        return [
            *(score(y, c) for score in (*plain, *further)),
            *(score(y, c, average="macro") for score in macro),
            metrics.f1_score(y, c, average="weighted"),
            metrics.log_loss(y, p),
            metrics.roc_auc_score(y, p, multi_class="ovr"),
        ]

    def ours():
        found = mleval.evaluate(y, p, instances=False).measures
        names = ("top1_accuracy", "balanced_accuracy", "matthews", "kappa", "macro_precision")
        names += ("macro_recall", "macro_f1", "weighted_f1", "log_loss", "macro_auroc")
        return [found[name] for name in names]

    assert np.allclose(ours(), theirs(), rtol=1e-10, atol=0)
    return theirs, ours


def sixteen(n, n_labels):
    y, s = label_sets(n, n_labels)
    s, p = s.astype(np.float32), (s >= 0.5).astype(y.dtype)

    def ours():
        measures = mleval.evaluate(y, s, p).measures
        return [measures[name] for name in SETS["sixteen"]]

    return lambda: sklearn_sixteen(y, s, p), ours


#: What is computed, of how many instances and labels, how many times as fast it must be, and how
#: often it is timed.
CASES = (
    ("sixteen measures of label sets", sixteen, 20_000, 100, 40, 3),
    ("sixteen measures of label sets", sixteen, 200_000, 50, 40, 1),
    ("AUROC and AP, six averages", areas, 20_000, 100, 4, 3),
    ("AUROC and AP, six averages", areas, 200_000, 50, 8, 1),
    ("points of ROC and PR curves by label", curves, 20_000, 100, 2, 3),
    ("nine measures and AUROC of one label", one_label, 50_000, 10, 2, 3),
)


def rows():
    for name, make, n, n_labels, bound, repeats in CASES:
        calls = make(n, n_labels)
        calls[1]()  # what is loaded on first use
        theirs, ours = cpu(*calls, repeats=repeats)
        yield Row(f"{name}, {n:,} × {n_labels}", ours, "scikit-learn", theirs, bound)
    if find_spec("torchmetrics") is None:
        print("torchmetrics is not installed: nothing to compare with", file=sys.stderr)
        return
    theirs, ours = cpu(*areas_of_torchmetrics(20_000, 100), repeats=3)
    yield Row("AUROC and AP, six averages, 20,000 × 100", ours, "torchmetrics", theirs, 2)


if __name__ == "__main__":
    sys.exit(told(rows()))
