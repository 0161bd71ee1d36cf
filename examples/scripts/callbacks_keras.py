"""Three networks in Keras, watched epoch by epoch: measures, the loss profile, and at the end a
full evaluation and a report.

    KERAS_BACKEND=torch python examples/scripts/callbacks_keras.py

The labels of a handwritten digit are the segments that it lights in a seven-segment display. In
MLflow's chart view the epochs of the three runs lie over each other; search there for
`mleval.epoch`.
"""

from __future__ import annotations

import keras
import mlflow
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import mlflow_mleval as mleval

SEGMENTS = ["abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg"]
EXPERIMENT = "keras"


def main():
    images, digits = load_digits(return_X_y=True)
    labels = np.array(
        [[segment in SEGMENTS[digit] for segment in "abcdefg"] for digit in digits], dtype="float32"
    )
    X, X_val, Y, Y_val = train_test_split(
        (images / 16).astype("float32"), labels, test_size=0.4, random_state=0
    )
    mlflow.set_experiment(EXPERIMENT)
    for width in (4, 16, 64):
        keras.utils.set_random_seed(0)
        layers = keras.layers
        model = keras.Sequential(
            [layers.Input((64,)), layers.Dense(width, "relu"), layers.Dense(7, "sigmoid")]
        )
        model.compile(keras.optimizers.Adam(0.003), "binary_crossentropy")
        callback = mleval.callbacks.keras(
            X_val, Y_val, method=f"{width} units", dataset="digits", label_names=list("abcdefg")
        )
        with mlflow.start_run(run_name=f"{width} units"):
            model.fit(X, Y, epochs=20, batch_size=32, verbose=0, callbacks=[callback])
    print(
        mleval.load_study(experiment_names=[EXPERIMENT])
        .values[["f1", "hamming_loss", "subset_accuracy"]]
        .round(3)
    )


if __name__ == "__main__":
    main()
