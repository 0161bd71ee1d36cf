"""What autologging costs: a fit that nothing is logged of, a forest that MLflow's own autologging
logs, and cross-validation beside our own call.

    python tests/benchmarks/bench_autolog.py [--json]

Processor time of all threads, off and on in turn. Bounds: 2% of the fit or 0.1 ms; 0.2 s more for
the forest; twice what predicting, evaluating and logging take by themselves for cross-validation.
"""

import os
import sys
import tempfile
import warnings
from statistics import median

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = (
    "1"  # processor time of waiting threads is noise
)

import mlflow
import numpy as np
from sklearn import model_selection
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from timing import Row, once, told

import mlflow_mleval as mleval

OVERHEAD, LEAST, ADDED, GRANTED, PAIRS = 0.02, 1e-4, 0.2, 2, 3
warnings.filterwarnings("ignore")


def off_and_on(call, rounds=5):
    """Best times with autologging off and on, taken in turn so that the machine's load falls on
    both.
    """
    times = [], []
    repeats = max(3, min(50, int(0.15 / once(call))))
    for _ in range(rounds):
        for on, found in enumerate(times):
            mleval.autolog(silent=True, disable=not on)
            taken = [once(call) for _ in range(2 * repeats)]
            found += taken[repeats:]  # switching on and off leaves cold caches
    mleval.autolog(disable=True)
    return min(times[0]), min(times[1])


def rows():
    X, Y = make_multilabel_classification(4_000, 50, n_classes=20, random_state=0)
    yield from unlogged(X[:2_000], Y[:2_000])
    yield beside_mlflow(X, Y)
    yield cross_validated(X[:2_000], Y[:2_000])


def unlogged(X, Y):
    """Fits after which nothing is evaluated."""
    small, labels = X[:200], Y[:200]
    digits, digit = load_digits(return_X_y=True)
    linear = make_pipeline(StandardScaler(), OneVsRestClassifier(LogisticRegression()))
    chain = ClassifierChain(DecisionTreeClassifier(max_depth=5))
    fits = {
        "k-NN, 2,000 x 50, 20 labels": (KNeighborsClassifier(), X, Y),
        "k-NN, 200 x 50, 20 labels": (KNeighborsClassifier(), small, labels),
        "tree, 200 x 50, 20 labels": (DecisionTreeClassifier(random_state=0), small, labels),
        "forest of 10, 2,000 x 50, 20 labels": (RandomForestClassifier(10, random_state=0), X, Y),
        "scaler and one-vs-rest, 2,000 x 50": (linear, X, Y),
        "chain of 20 trees, 200 x 50": (chain, small, labels),
        "single label: tree, digits": (DecisionTreeClassifier(random_state=0), digits, digit),
    }
    for name, (estimator, x, y) in fits.items():
        off, on = off_and_on(lambda e=estimator, x=x, y=y: e.fit(x, y))
        bound = max(OVERHEAD * off, LEAST)
        yield Row(f"added to a fit, {name}", on - off, bound=bound, note=f"to {off:.4f} s")


def beside_mlflow(X, Y):
    """A forest that is fitted and scored under MLflow's autologging, with and without ours."""

    def call():
        model = RandomForestClassifier(100, random_state=0, n_jobs=1)
        model.fit(X[:2_000], Y[:2_000]).score(X[2_000:], Y[2_000:])

    times = [], []
    mlflow.sklearn.autolog(silent=True)
    for turn in range(1 + PAIRS):
        for on, taken in enumerate(times):
            mleval.autolog(silent=True, disable=not on)
            seconds = once(call)
            if turn:  # the first imports and compiles, also for MLflow
                taken.append(seconds)
    mleval.autolog(disable=True)
    mlflow.sklearn.autolog(disable=True)
    off = median(times[0])
    added = median(on - without for without, on in zip(*times, strict=True))
    work = "added to a forest of 100, 2,000 x 50, 20 labels, scored and logged by MLflow"
    return Row(work, added, bound=ADDED, note=f"to {off:.2f} s")


def cross_validated(X, Y):
    """Ten folds that are logged, beside what our own call takes."""
    model = RandomForestClassifier(50, random_state=0, n_jobs=1)
    call = lambda: model_selection.cross_validate(model, X, Y, cv=10)  # noqa: E731
    ev = mleval.cross_validate(model, X, Y, cv=10, log=False)
    fitted = model.fit(X, Y)

    def by_itself():
        for _ in range(10):
            fitted.predict(X[:200])
            fitted.predict_proba(X[:200])
        mleval.evaluate(Y, np.zeros(Y.shape), Y, folds=np.arange(len(Y)) // 200)
        mleval.log_evaluation(ev, method="m", dataset="d")

    call()
    by_itself()
    off, alone = min(once(call) for _ in range(3)), min(once(by_itself) for _ in range(3))
    mleval.autolog(dataset="d")
    on = min(once(call) for _ in range(3))
    mleval.autolog(disable=True)
    work = "added to ten folds of a forest of 50, 2,000 x 50, 20 labels"
    return Row(work, on - off, "predicting, evaluating, logging", alone, most=GRANTED)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
        sys.exit(told(rows()))
