"""What autologging costs a script: of a fit that nothing is logged of, and of cross-validation
beside our own call.

    python tests/benchmarks/bench_autolog.py

The same fit is timed with autologging off and on in turn, in processor time because the machine is
shared, and the best of many counts. Bounds: a fit of which nothing is logged takes at most 2%
longer, or 0.1 ms where that is more (k-NN "fits" in less than a millisecond); a cross-validation
that is logged adds at most twice what predicting once more, evaluating the predictions and logging
them take by themselves.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import warnings

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = (
    "1"  # processor time of waiting threads is noise
)

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

import mlflow_mleval as mleval

OVERHEAD, LEAST, GRANTED = 0.02, 1e-4, 2
warnings.filterwarnings("ignore")


def timed(call):
    start = time.process_time()
    call()
    return time.process_time() - start


def off_and_on(call, rounds=10):
    """Best times with autologging off and on, taken in turn so that the machine's load falls on
    both.
    """
    times = [], []
    repeats = max(3, min(50, int(0.15 / timed(call))))
    for _ in range(rounds):
        for on, found in enumerate(times):
            mleval.autolog(silent=True, disable=not on)
            taken = [timed(call) for _ in range(2 * repeats)]
            found += taken[repeats:]  # switching on and off leaves cold caches
    mleval.autolog(disable=True)
    return min(times[0]), min(times[1])


def main():
    missed = False
    X, Y = make_multilabel_classification(2_000, 50, n_classes=20, random_state=0)
    small, labels = X[:200], Y[:200]
    digits, digit = load_digits(return_X_y=True)
    fits = {
        "k-NN, 2,000 x 50, 20 labels": (KNeighborsClassifier(), X, Y),
        "k-NN, 200 x 50, 20 labels": (KNeighborsClassifier(), small, labels),
        "tree, 200 x 50, 20 labels": (DecisionTreeClassifier(random_state=0), small, labels),
        "forest of 10, 2,000 x 50, 20 labels": (RandomForestClassifier(10, random_state=0), X, Y),
        "scaler and one-vs-rest, 2,000 x 50": (
            make_pipeline(StandardScaler(), OneVsRestClassifier(LogisticRegression())),
            X,
            Y,
        ),
        "chain of 20 trees, 200 x 50": (
            ClassifierChain(DecisionTreeClassifier(max_depth=5)),
            small,
            labels,
        ),
        "single label: tree, digits": (DecisionTreeClassifier(random_state=0), digits, digit),
    }
    print(f"{'fit':38} {'off':>10} {'on':>10} {'ratio':>7} {'added':>9}")
    for name, (estimator, x, y) in fits.items():
        off, on = off_and_on(lambda e=estimator, x=x, y=y: e.fit(x, y))
        ok = on - off <= max(OVERHEAD * off, LEAST)
        missed |= not ok
        added = f"{(on - off) * 1e6:7.0f}us {'ok' if ok else 'MISSED'}"
        print(f"{name:38} {off * 1e3:8.2f}ms {on * 1e3:8.2f}ms {on / off:7.3f} {added}")

    print(
        f"\n{'ten folds, logged to SQLite':38} {'off':>10} {'on':>10} {'by itself':>10} "
        f"{'added/that':>10}"
    )
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
    off, alone = min(timed(call) for _ in range(3)), min(timed(by_itself) for _ in range(3))
    mleval.autolog(dataset="d")
    on = min(timed(call) for _ in range(3))
    mleval.autolog(disable=True)
    ok = on - off <= GRANTED * alone
    missed |= not ok
    print(
        f"{'forest of 50, 2,000 x 50, 20 labels':38} {off:9.2f}s {on:9.2f}s {alone:9.2f}s "
        f"{(on - off) / alone:10.2f} {'ok' if ok else 'MISSED'}"
    )
    return missed


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
        sys.exit(main())
