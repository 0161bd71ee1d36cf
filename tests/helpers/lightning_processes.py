"""A training in Lightning with as many processes as asked, for the test of what they validate
together.

The network learns nothing and its scores lie in the data, so that any number of processes predicts
the same.
"""

import sys

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

import mlflow_mleval as mleval


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def training_step(self, batch, batch_idx):
        return (self.weight * batch[1]).mean()

    def validation_step(self, batch, batch_idx):
        y, score = batch
        return {"y_true": y, "y_score": ((score + 0.1 * self.current_epoch) % 1)}

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


def main(processes, rows, run_id):
    torch.manual_seed(0)
    data = TensorDataset((torch.rand(rows, 3) < 0.4).float(), torch.rand(rows, 3))
    callback = mleval.callbacks.lightning(method="fixed", dataset="random", run_id=run_id)
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=processes,
        strategy="ddp" if processes > 1 else "auto",
        max_epochs=2,
        callbacks=[callback],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Net(), DataLoader(data, 4, shuffle=True), DataLoader(data, 4))
    if trainer.is_global_zero and processes > 1:
        print(callback.epochs.evaluation.statistics["n_instances"], torch.distributed.get_backend())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
