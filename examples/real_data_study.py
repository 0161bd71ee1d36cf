"""Loss profiles of nine methods on the multi-label sets of the Mulan page: who predicts labels, and who label sets?

    python examples/real_data_study.py FOLDER [DATASET ...]

FOLDER holds sets as Mulan offers them, NAME.xml with NAME.arff or with NAME-train.arff and NAME-test.arff; by default birds,
emotions, flags, scene and yeast are read from it. Without FOLDER a small version runs on sets that scikit-learn makes, in under a
minute. Every method is cross-validated on every set over the same ten folds, each a run of the store that MLFLOW_TRACKING_URI
names (by default mlflow.db in the working folder). Complete runs are kept: a study that was stopped goes on where it stopped.
Then it prints what one would type in a terminal, and writes mleval_report.html.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import mlflow_mleval as mleval

DATASETS = ("birds", "emotions", "flags", "scene", "yeast")
SEED = 0


# ---- methods that scikit-learn does not have -------------------------------------------------------------------------


class LabelPowerset(ClassifierMixin, BaseEstimator):
    """One class for each label set that occurs in the training data."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, Y):
        self.sets_, codes = np.unique(Y, axis=0, return_inverse=True)
        self.estimator_ = clone(self.estimator).fit(X, codes.ravel())
        return self

    def predict(self, X):
        return self.sets_[self.estimator_.predict(X)]

    def predict_proba(self, X):
        """The probability of a label is that of all sets that hold it."""
        return np.clip(self.estimator_.predict_proba(X) @ self.sets_, 0, 1)


class Rakel(ClassifierMixin, BaseEstimator):
    """Random k-labelsets: label powersets of k labels each, of which two are drawn around every label, vote by majority."""

    def __init__(self, estimator, k, random_state=None):
        self.estimator = estimator
        self.k = k
        self.random_state = random_state

    def fit(self, X, Y):
        rng, labels = np.random.default_rng(self.random_state), np.arange(Y.shape[1])
        self.members_, self.voters_ = [], np.zeros(len(labels))
        for label in np.repeat(labels, 2):
            own = np.r_[label, rng.choice(np.delete(labels, label), min(self.k, len(labels)) - 1, replace=False)]
            self.members_.append((own, LabelPowerset(self.estimator).fit(X, Y[:, own])))
            self.voters_[own] += 1
        return self

    def predict_proba(self, X):
        """The share of votes."""
        votes = np.zeros((len(X), len(self.voters_)))
        for own, member in self.members_:
            votes[:, own] += member.predict(X)
        return votes / self.voters_

    def predict(self, X):
        return (self.predict_proba(X) > 0.5).astype(int)


# A third of the features at each split: a third of the time of all features, and as good on these sets.
TREE = DecisionTreeClassifier(min_samples_leaf=5, max_features=1 / 3, random_state=SEED)
METHODS = {
    "BR": OneVsRestClassifier(TREE),
    "CC": ClassifierChain(TREE, order="random", random_state=SEED),
    "LP": LabelPowerset(TREE),
    **{f"RAkEL k={k}": Rakel(TREE, k, random_state=SEED) for k in (2, 3, 5)},
    "tree": TREE,  # of all labels together, as a predictive clustering tree
    "forest": RandomForestClassifier(50, min_samples_leaf=2, random_state=SEED),
    "k-NN": make_pipeline(StandardScaler(), KNeighborsClassifier(10)),
}


# ---- data ------------------------------------------------------------------------------------------------------------


def read_mulan(folder: Path, name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Features and labels, each with names as columns; each category of a feature becomes a column."""
    labels = [node.attrib["name"] for node in ElementTree.parse(folder / f"{name}.xml").iter() if "name" in node.attrib]
    parts = [path for end in ("", "-train", "-test") if (path := folder / f"{name}{end}.arff").exists()]
    table = pd.concat(map(read_arff, parts), ignore_index=True)
    return pd.get_dummies(table.drop(columns=labels), dtype=float), table[labels].astype(int)


def read_arff(path: Path) -> pd.DataFrame:
    """A dense ARFF file; categories other than 0 and 1 stay text."""
    head, data = re.split(r"(?im)^@data\s*$", path.read_text(encoding="utf-8"), maxsplit=1)
    kinds = {}
    for quoted, plain, kind in re.findall(r"(?im)^@attribute\s+(?:'((?:[^'\\]|\\.)*)'|(\S+))\s+(.+)$", head):
        kinds[re.sub(r"\\(.)", r"\1", quoted or plain)] = kind
    table = pd.read_csv(io.StringIO(data), names=list(kinds), comment="%", dtype=str, skipinitialspace=True, quotechar="'")
    return table.astype({name: float for name, kind in kinds.items() if "{" not in kind or set(kind) <= set("{0, 1}")})


def made_sets() -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """Six small sets of scikit-learn's generator."""
    for seed, (n_labels, per_instance) in enumerate([(4, 2), (5, 2), (6, 2), (6, 3), (7, 3), (8, 2)]):
        X, Y = make_multilabel_classification(150, 15, n_classes=n_labels, n_labels=per_instance, length=40, random_state=seed)
        yield f"made {n_labels}/{per_instance}", pd.DataFrame(X), pd.DataFrame(Y)


# ---- study -----------------------------------------------------------------------------------------------------------


def train(sets: Iterable[tuple[str, pd.DataFrame, pd.DataFrame]], experiment: str) -> None:
    """Cross-validate what the experiment does not hold yet."""
    mlflow.set_experiment(experiment)
    found = mlflow.search_runs(experiment_names=[experiment], filter_string="tags.`mleval.status` = 'complete'")
    done = set() if found.empty else set(zip(found["tags.mleval.method"], found["tags.mleval.dataset"], strict=True))
    folds = KFold(10, shuffle=True, random_state=SEED)  # the same for all methods: they are compared in pairs
    for dataset, X, Y in sets:
        for method, estimator in METHODS.items():
            if (method, dataset) in done:
                continue
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Label .* present in all training examples")  # rare birds
                ev = mleval.cross_validate(
                    clone(estimator), X.to_numpy(), Y.to_numpy(), cv=folds, method=method, dataset=dataset,
                    label_names=[str(name) for name in Y], experiment_name=experiment,
                )  # fmt: skip
            loss = ev.measures
            print(f"{dataset:9} {method:10} Hamming {loss['hamming_loss']:.3f}  subset 0/1 {1 - loss['subset_accuracy']:.3f}"
                  f"  {time.perf_counter() - start:5.1f} s", file=sys.stderr, flush=True)  # fmt: skip


def ask(experiment: str) -> None:
    """What one would type in a terminal."""
    for words in (
        ["rank"],
        ["compare"],
        ["compare", "--over", "folds", "-m", "hamming_loss", "-m", "subset_accuracy"],
        ["report", "-o", "mleval_report.html"],
    ):
        words[1:1] = ["-n", experiment]
        print(f"\n$ mleval {' '.join(words)}", flush=True)
        subprocess.run([Path(sys.executable).with_name("mleval"), *words], check=True)


def main(folder: str | None, names: list[str]) -> None:
    if folder is None:
        sets, experiment = made_sets(), "real_data_study (made)"
    else:
        sets, experiment = ((name, *read_mulan(Path(folder), name)) for name in names or DATASETS), "real_data_study"
    train(sets, experiment)
    ask(experiment)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None, sys.argv[2:])
