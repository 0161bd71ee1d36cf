"""The callback for Lightning in real trainings."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import mlflow
import pytest
from callback_cases import assert_end, assert_epochs, label_sets, one_warning, tags_of

from mlflow_mleval.store import schema

pytest.importorskip("lightning")
import lightning.pytorch as pl
import lightning_processes
import torch
from places import ROOT
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from mlflow_mleval.training.callbacks.lightning import LightningCallback, _own_rows

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*does not have many workers.*", "ignore:.*number of training batches.*"
)
NAMES = {"method": "MLP", "dataset": "toy"}
EPOCHS = 3


class Net(pl.LightningModule):
    """With dropout and batch normalisation, which behave differently in training."""

    def __init__(self, returns="dict"):
        super().__init__()
        inner = torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5)
        parts = torch.nn.Linear(5, 8), *inner, torch.nn.Linear(8, 3)
        self.net, self.returns, self.kept = torch.nn.Sequential(*parts), returns, []

    def loss(self, x, y):
        return torch.nn.functional.binary_cross_entropy_with_logits(self.net(x), y)

    def training_step(self, batch, batch_idx):
        return self.loss(*batch)

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        x, y = batch
        score = torch.sigmoid(self.net(x))
        loss = self.loss(x, y)
        if self.returns == "dict":
            return {"loss": loss, "y_true": y, "y_score": score}
        return score if self.returns == "score" else {"loss": loss}

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.05)

    def scores(self, x):
        self.eval()
        with torch.no_grad():
            return torch.sigmoid(self.net(x)).numpy()


class Keeper(pl.Callback):
    """The predictions after each epoch's last validation."""

    def __init__(self, x):
        self.x, self.scores = x, {}

    def on_validation_epoch_end(self, trainer, pl_module):
        self.scores[trainer.current_epoch] = pl_module.scores(self.x)


@pytest.fixture(scope="module")
def data():
    x, y, *validation = (torch.tensor(part).float() for part in label_sets(120, 80))
    return TensorDataset(x, y), TensorDataset(*validation)


QUIET = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False}
QUIET |= {"enable_progress_bar": False, "enable_model_summary": False}


def fit(data, callbacks, epochs=EPOCHS, returns="dict", loaders=None, **options):
    torch.manual_seed(1)
    net = Net(returns)
    trainer = pl.Trainer(max_epochs=epochs, callbacks=callbacks, devices=1, **QUIET | options)
    train = DataLoader(data[0], batch_size=16, shuffle=True)
    trainer.fit(net, train, loaders or DataLoader(data[1], batch_size=16))
    return net


def state_of(net):
    """With the state of the generator, which a training goes on with."""
    return [*net.state_dict().values(), torch.get_rng_state()]


@pytest.mark.parametrize(
    "options", [{}, {"val_check_interval": 0.4}, {"check_val_every_n_epoch": 2}], ids=str
)
def test_each_validated_epoch_and_the_end(client, data, options):
    x, y = data[1].tensors
    callback, keeper, plain = LightningCallback(**NAMES), Keeper(x), Keeper(x)
    states = [state_of(fit(data, [plain], epochs=4, **options))]
    with mlflow.start_run() as run:
        states.append(state_of(fit(data, [callback, keeper], epochs=4, **options)))
    assert all(torch.equal(a, b) for a, b in zip(*states, strict=True))
    validated = [1, 3] if "check_val_every_n_epoch" in options else [0, 1, 2, 3]
    scores = {i: keeper.scores[i] for i in validated}
    measures = ("hamming_loss", "ranking_loss", "soft_binomial_area")
    assert_epochs(client, run.info.run_id, y.numpy(), scores, measures, 1e-5)
    assert_end(callback, y.numpy(), scores[3], 1e-5)
    assert tags_of(client, run, schema.TAG_EPOCH, schema.TAG_STATUS) == ("3", schema.COMPLETE)


def test_a_function_finds_truth_and_scores_elsewhere(client, data):
    x, y = data[1].tensors
    callback = LightningCallback(extract=lambda outputs, batch: (batch[1], outputs), **NAMES)
    with mlflow.start_run():
        net = fit(data, [callback], returns="score")
    assert_end(callback, y.numpy(), net.scores(x), 1e-5)


def test_one_of_several_dataloaders(client, data):
    half = TensorDataset(*(t[:20] for t in data[1].tensors))
    loaders = [DataLoader(half, batch_size=16), DataLoader(data[1], batch_size=16)]
    for which, n in ((0, 20), (1, 40)):
        callback = LightningCallback(dataloader=which, **NAMES)
        with mlflow.start_run():
            fit(data, [callback], loaders=loaders)
        assert callback.epochs.evaluation.statistics["n_instances"] == n


def test_half_precision(client, data):
    def halved(outputs, batch):
        return outputs["y_true"].bfloat16(), outputs["y_score"].bfloat16()

    callback = LightningCallback(extract=halved, **NAMES)
    with mlflow.start_run():
        fit(data, [callback])
    assert callback.epochs.evaluation is not None


def test_validation_alone_logs_nothing(client, data):
    callback = LightningCallback(**NAMES)
    trainer = pl.Trainer(callbacks=[callback], **QUIET)
    with mlflow.start_run() as run:
        trainer.validate(Net(), DataLoader(data[1], batch_size=16), verbose=False)
    assert not client.get_run(run.info.run_id).data.metrics


def test_run_of_lightnings_own_logger(client, db, data):
    logger = pl.loggers.MLFlowLogger(tracking_uri=f"sqlite:///{db}")
    fit(data, [LightningCallback(run_id=logger.run_id, **NAMES)], epochs=1, logger=logger)
    assert client.get_run(logger.run_id).data.tags[schema.TAG_STATUS] == schema.COMPLETE


def test_under_mlflows_autologging(client, data):
    mlflow.pytorch.autolog(log_models=False, silent=True)
    try:
        fit(data, [LightningCallback(**NAMES)])
    finally:
        mlflow.pytorch.autolog(disable=True)
        mlflow.set_tracking_uri(None)  # which MLflow's checkpoint callback has set for good
    (run,) = client.search_runs(["0"])
    assert run.data.tags[schema.TAG_STATUS] == schema.COMPLETE


@pytest.mark.parametrize(
    ("returns", "loaders", "text"),
    [
        ("loss", None, "a dict with y_true and y_score, got a dict with \\['loss'\\]"),
        ("score", None, "got Tensor"),
        ("dict", [], "no validation"),
    ],
)
def test_what_cannot_be_found_is_one_warning_and_the_model_is_the_same(
    client, data, returns, loaders, text
):
    options = {"returns": returns, "limit_val_batches": 0 if loaders == [] else 1.0}
    plain = fit(data, [], **options).state_dict()
    callback = LightningCallback(**NAMES)
    with one_warning(text):
        found = fit(data, [callback], **options).state_dict()
    assert all(torch.equal(a, b) for a, b in zip(plain.values(), found.values(), strict=True))
    assert callback.epochs.evaluation is None


def logged(client, run_id):
    data = client.get_run(run_id).data
    entries = {key: client.get_metric_history(run_id, key) for key in data.metrics}
    epochs = {(key, i, m.step): m.value for key in entries for i, m in enumerate(entries[key])}
    return epochs, data.tags[schema.TAG_DATASET_DIGEST], data.tags[schema.TAG_STATUS]


def test_two_processes_log_what_one_does_but_for_rounding(client, tmp_path):
    """Of 21 instances each of two processes gets 11: one instance is there twice."""
    several, one = (client.create_run("0").info.run_id for _ in range(2))
    script = Path(lightning_processes.__file__)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(script), "2", "21", several]
    how = {"capture_output": True, "text": True, "timeout": 300}
    done = subprocess.run(command, cwd=tmp_path, env=environment, **how)
    assert done.returncode == 0 and done.stdout.split() == ["21", "gloo"], done.stderr[-3000:]
    lightning_processes.main(1, 21, one)
    values, *tags = logged(client, several)
    expected, *expected_tags = logged(client, one)
    assert values == pytest.approx(expected, rel=1e-12) and tags == expected_tags
    assert [step for key, _, step in values if key == "mleval.epoch/micro_f1"] == [0, 1]


def test_each_process_counts_its_own_rows():
    for n, processes in ((21, 2), (20, 2), (5, 4), (2, 4), (1, 4)):
        rows = []
        for rank in range(processes):
            sampler = DistributedSampler(range(n), processes, rank, shuffle=False)
            loaders = [None, DataLoader(range(n), sampler=sampler)]
            trainer = SimpleNamespace(val_dataloaders=loaders, world_size=processes)
            rows += list(sampler)[: _own_rows(trainer, 1)]
        assert sorted(rows) == list(range(n))
    trainer = SimpleNamespace(val_dataloaders=DataLoader(range(5)), world_size=2)
    with pytest.raises(ValueError, match="no DistributedSampler tells .* got SequentialSampler"):
        _own_rows(trainer, 0)
