"""Reports of one run, made up: of label sets, of a hierarchy, and with hostile names."""

import numpy as np
from report_cases import NASTY

import mlflow_mleval as mleval
from mlflow_mleval.training.run_content import RunContent


def report_of(ev, method="BR", dataset="yeast", n_train=None):
    return RunContent(ev, method, dataset, n_train or {}).report({})


def example(n=300, k=14, folds=10, names=None, seed=0, never=False, measures=None):
    rng = np.random.default_rng(seed)
    y = rng.random((n, k)) < np.linspace(0.05, 0.6, k)
    s = np.clip(0.35 * y + 0.65 * rng.random((n, k)), 0, 1)
    if never:
        y[:, 0] = False
        s[:, 0] = 0
    ev = mleval.evaluate(
        y, s, label_names=names, folds=np.arange(n) % folds if folds else None, measures=measures
    )
    return report_of(ev, n_train=dict.fromkeys(range(folds), n - n // folds) if folds else None)


def hierarchical():
    edges = [("animal", "cat"), ("animal", "dog"), ("pet", "dog"), ("plant", "rose")]
    h = mleval.Hierarchy(edges)
    rng = np.random.default_rng(0)
    classes = np.array(["cat", "dog", "rose"])
    true = [[c] for c in classes[rng.integers(0, 3, 200)]]
    pred = [t if rng.random() < 0.7 else ["dog"] for t in true]
    return report_of(
        mleval.evaluate_hierarchical(true, pred, h, folds=np.arange(200) % 5), "flat", "pets"
    )


def nasty(n_labels=12):
    rng = np.random.default_rng(1)
    y = rng.random((80, n_labels)) < 0.4
    s = rng.random((80, n_labels))
    ev = mleval.evaluate(
        y, s, label_names=NASTY[:n_labels], folds=np.arange(80) % 4, measures="probabilistic"
    )
    return report_of(ev, NASTY[0], NASTY[4])
