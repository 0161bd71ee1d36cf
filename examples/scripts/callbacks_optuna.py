"""A search of Optuna: every trial a child run with its evaluation, and in their parent the best,
said to be chosen.

    python examples/scripts/callbacks_optuna.py

The labels of a handwritten digit are the segments that it lights in a seven-segment display.
"""

from __future__ import annotations

import mlflow
import numpy as np
import optuna
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

import mlflow_mleval as mleval

SEGMENTS = ["abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg"]
EXPERIMENT = "optuna"


def main():
    images, digits = load_digits(return_X_y=True)
    labels = np.array(
        [[segment in SEGMENTS[digit] for segment in "abcdefg"] for digit in digits], dtype=int
    )
    X, X_val, Y, Y_val = train_test_split(images, labels, test_size=0.4, random_state=0)

    def objective(trial):
        weights = trial.suggest_categorical("weights", ["uniform", "distance"])
        model = KNeighborsClassifier(trial.suggest_int("n_neighbors", 1, 50), weights=weights)
        return mleval.evaluate(
            Y_val, np.stack([p[:, 1] for p in model.fit(X, Y).predict_proba(X_val)], axis=1)
        )

    mlflow.set_experiment(EXPERIMENT)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    with (
        mlflow.start_run(),
        mleval.callbacks.optuna(method="kNN", dataset="digits", measure="micro_f1") as watch,
    ):
        study.optimize(watch(objective), n_trials=8)
    print(study.best_params)
    print(
        mleval.load_study(experiment_names=[EXPERIMENT])
        .values[["micro_f1", "hamming_loss", "subset_accuracy"]]
        .round(3)
    )


if __name__ == "__main__":
    main()
