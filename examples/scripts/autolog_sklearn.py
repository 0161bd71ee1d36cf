"""A script that cross-validates five methods on ten datasets, made into a comparison by two lines.

    python examples/scripts/autolog_sklearn.py [NUMBER OF DATASETS]

Without the two lines marked below it is what anybody writes with scikit-learn: a loop over datasets
and methods that prints a score. With them, each cross-validation becomes a run of the store that
MLFLOW_TRACKING_URI names (by default mlflow.db in the working folder) with every measure on every
fold. The rest asks these runs which method is better, and writes mleval_report.html. It takes about
a minute, with two datasets twenty seconds.
"""

from __future__ import annotations

import subprocess
import sys
from itertools import islice
from pathlib import Path

import mlflow
import numpy as np

import mlflow_mleval as mleval

mleval.autolog()  # the first line; before the imports from scikit-learn

from sklearn.datasets import load_digits, make_multilabel_classification  # noqa: E402
from sklearn.ensemble import RandomForestClassifier  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.model_selection import KFold, cross_validate  # noqa: E402
from sklearn.multiclass import OneVsRestClassifier  # noqa: E402
from sklearn.multioutput import ClassifierChain  # noqa: E402
from sklearn.neighbors import KNeighborsClassifier  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.tree import DecisionTreeClassifier  # noqa: E402

EXPERIMENT = "autolog_sklearn"

METHODS = {
    "binary relevance": make_pipeline(StandardScaler(), OneVsRestClassifier(LogisticRegression())),
    "classifier chain": make_pipeline(
        StandardScaler(), ClassifierChain(LogisticRegression(), order="random", random_state=0)
    ),
    "k-NN": make_pipeline(StandardScaler(), KNeighborsClassifier(10)),
    "tree": DecisionTreeClassifier(min_samples_leaf=3, random_state=0),
    "forest": RandomForestClassifier(30, min_samples_leaf=2, random_state=0),
}


def datasets():
    """Written digits, labelled by what the digit is like, and nine made ones: counts of words,
    labelled by topics.
    """
    images, digit = load_digits(return_X_y=True)
    labels = {
        "even": digit % 2 == 0,
        "prime": np.isin(digit, [2, 3, 5, 7]),
        "loop": np.isin(digit, [0, 6, 8, 9]),
        "straight": np.isin(digit, [1, 4, 7]),
        "above four": digit > 4,
    }
    rows = np.random.default_rng(0).permutation(len(digit))[:800]
    yield "digits", images[rows], np.column_stack(list(labels.values())).astype(int)[rows]
    for n_labels in range(4, 13):
        X, Y = make_multilabel_classification(
            400,
            30,
            n_classes=n_labels,
            n_labels=n_labels // 3 + 1,
            length=40,
            random_state=n_labels,
        )
        yield f"{n_labels} topics", X, Y


def train(n_datasets):
    folds = KFold(
        10, shuffle=True, random_state=0
    )  # the same folds for all methods: they are compared in pairs
    mlflow.set_experiment(EXPERIMENT)
    for dataset, X, Y in islice(datasets(), n_datasets):
        for method, estimator in METHODS.items():
            mleval.autolog(
                method=method, dataset=dataset
            )  # the second line; without it, names are made
            found = cross_validate(estimator, X, Y, cv=folds, scoring="f1_micro")
            print(f"{dataset:10} {method:18} {found['test_score'].mean():.3f}", flush=True)


def compare():
    """What one would type in a terminal."""
    for command in ("rank", "compare", "report"):
        print(f"\n$ mleval {command} -n {EXPERIMENT}", flush=True)
        subprocess.run(
            [Path(sys.executable).with_name("mleval"), command, "-n", EXPERIMENT], check=True
        )


if __name__ == "__main__":
    train(int(sys.argv[1]) if len(sys.argv) > 1 else None)
    mleval.autolog(disable=True)
    compare()
    print("\nOpen mleval_report.html. `mlflow server` in this folder shows the runs.")
