"""Two networks in Lightning, watched epoch by epoch: measures, the loss profile, and at the end a
full evaluation and a report.

    python examples/scripts/callbacks_lightning.py

The labels of a handwritten digit are the segments that it lights in a seven-segment display. In
MLflow's chart view the epochs of the runs lie over each other; search there for `mleval.epoch`.
"""

from __future__ import annotations

import lightning.pytorch as pl
import mlflow
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, TensorDataset

import mlflow_mleval as mleval

SEGMENTS = ["abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg"]
EXPERIMENT = "lightning"


class Network(pl.LightningModule):
    def __init__(self, width: int):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 7)
        )

    def training_step(self, batch, batch_idx):
        x, y = batch
        return torch.nn.functional.binary_cross_entropy_with_logits(self.net(x), y)

    def validation_step(self, batch, batch_idx):
        x, y = batch
        return {"y_true": y, "y_score": torch.sigmoid(self.net(x))}  # what the callback reads

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.003)


def main():
    images, digits = load_digits(return_X_y=True)
    labels = np.array(
        [[segment in SEGMENTS[digit] for segment in "abcdefg"] for digit in digits], dtype="float32"
    )
    parts = train_test_split((images / 16).astype("float32"), labels, test_size=0.4, random_state=0)
    X, X_val, Y, Y_val = map(torch.from_numpy, parts)
    mlflow.set_experiment(EXPERIMENT)
    for width in (4, 64):
        pl.seed_everything(0, verbose=False)
        callback = mleval.callbacks.lightning(
            method=f"{width} units", dataset="digits", label_names=list("abcdefg")
        )
        trainer = pl.Trainer(
            max_epochs=10,
            callbacks=[callback],
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        with mlflow.start_run(run_name=f"{width} units"):
            trainer.fit(
                Network(width),
                DataLoader(TensorDataset(X, Y), 32, shuffle=True),
                DataLoader(TensorDataset(X_val, Y_val), 256),
            )
    print(
        mleval.load_study(experiment_names=[EXPERIMENT])
        .values[["f1", "hamming_loss", "subset_accuracy"]]
        .round(3)
    )


if __name__ == "__main__":
    main()
