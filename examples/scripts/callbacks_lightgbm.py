"""Boosted trees of three sizes in LightGBM, watched round by round: measures of one label, and at
the end a full evaluation.

    python examples/scripts/callbacks_lightgbm.py

The label is which of ten digits was written. In MLflow's chart view the rounds of the three runs
lie over each other; search there for `mleval.epoch`.
"""

from __future__ import annotations

import lightgbm
import mlflow
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import mlflow_mleval as mleval

EXPERIMENT = "lightgbm"


def main():
    X, X_val, y, y_val = train_test_split(
        *load_digits(return_X_y=True), test_size=0.4, random_state=0
    )
    mlflow.set_experiment(EXPERIMENT)
    for leaves in (2, 4, 8):
        callback = mleval.callbacks.lightgbm(
            X_val, y_val, method=f"{leaves} leaves", dataset="digits"
        )
        with mlflow.start_run(run_name=f"{leaves} leaves"), callback:
            lightgbm.LGBMClassifier(n_estimators=20, num_leaves=leaves, n_jobs=1, verbosity=-1).fit(
                X, y, callbacks=[callback]
            )
    print(
        mleval.load_study(experiment_names=[EXPERIMENT])
        .values[["top1_accuracy", "macro_f1", "log_loss"]]
        .round(3)
    )


if __name__ == "__main__":
    main()
