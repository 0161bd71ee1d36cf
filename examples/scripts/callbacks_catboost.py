"""Boosted trees of three depths in CatBoost, round by round: measures, the loss profile, and at the
end a full evaluation.

    python examples/scripts/callbacks_catboost.py

The labels of a handwritten digit are the segments that it lights in a seven-segment display. In
MLflow's chart view the rounds of the three runs lie over each other; search there for
`mleval.epoch`.
"""

from __future__ import annotations

import catboost
import mlflow
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import mlflow_mleval as mleval

SEGMENTS = ["abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg"]
EXPERIMENT = "catboost"


def main():
    images, digits = load_digits(return_X_y=True)
    labels = np.array(
        [[segment in SEGMENTS[digit] for segment in "abcdefg"] for digit in digits], dtype=int
    )
    X, X_val, Y, Y_val = train_test_split(images / 16, labels, test_size=0.4, random_state=0)
    mlflow.set_experiment(EXPERIMENT)
    for depth in (1, 3, 6):
        model = catboost.CatBoostClassifier(
            iterations=20,
            depth=depth,
            learning_rate=0.3,
            loss_function="MultiLogloss",
            thread_count=1,
            verbose=0,
            allow_writing_files=False,
        )
        names = {"method": f"depth {depth}", "dataset": "digits", "label_names": list("abcdefg")}
        with (
            mlflow.start_run(run_name=f"depth {depth}"),
            mleval.callbacks.catboost(model, X_val, Y_val, **names),
        ):
            model.fit(X, Y)
    print(
        mleval.load_study(experiment_names=[EXPERIMENT])
        .values[["f1", "hamming_loss", "subset_accuracy"]]
        .round(3)
    )


if __name__ == "__main__":
    main()
