"""The callback for Hugging Face's Trainer in real trainings of a network without any download."""

import mlflow
import numpy as np
import pytest
from callback_cases import assert_end, assert_epochs, history, one_warning, tags_of

import mlflow_mleval as mleval
from mlflow_mleval.store import schema

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")
import torch
from scipy.special import expit
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    EvalPrediction,
    Trainer,
    TrainingArguments,
)

from mlflow_mleval.training.callbacks.huggingface import HuggingFaceCallback

NAMES = {"method": "BERT", "dataset": "toy"}
EPOCHS = 3
SIZES = {"vocab_size": 12, "hidden_size": 8, "intermediate_size": 16}
SIZES |= {"num_hidden_layers": 1, "num_attention_heads": 2, "num_labels": 3}
SIZES |= {"problem_type": "multi_label_classification"}
QUIET = {"report_to": "none", "use_cpu": True, "disable_tqdm": True, "seed": 0}
QUIET |= {"per_device_train_batch_size": 16, "per_device_eval_batch_size": 16}
QUIET |= {"learning_rate": 0.05, "num_train_epochs": EPOCHS}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 12, size=(101, 6))
    labels = np.stack([(tokens == i).any(axis=1) for i in range(3)], axis=1)
    rows = [
        {"input_ids": torch.tensor(t), "labels": torch.tensor(y).float()}
        for t, y in zip(tokens, labels, strict=True)
    ]
    return rows[:60], rows[60:]


class Keeper(HuggingFaceCallback):
    """Keeps the logits of each evaluation, too."""

    logits = ()

    def __call__(self, prediction, compute_result=True):
        self.logits = [*self.logits, np.asarray(prediction.predictions)]
        return super().__call__(prediction, compute_result)


def fit(folder, data, watch=None, callbacks=None, **options):
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(**SIZES))
    options = {**QUIET, "eval_strategy": "epoch", "save_strategy": "no"} | options
    callbacks = ([watch] if watch else []) if callbacks is None else callbacks
    held_out = data[1] if options["eval_strategy"] != "no" else None
    given = {"train_dataset": data[0], "eval_dataset": held_out, "callbacks": callbacks}
    arguments = TrainingArguments(str(folder), **options)
    trainer = Trainer(model, arguments, compute_metrics=watch, **given)
    trainer.train()
    return trainer


def same(states, others):
    assert all(torch.equal(a, b) for a, b in zip(states.values(), others.values(), strict=True))


def truth(data):
    return np.array([row["labels"].numpy() for row in data[1]])


def test_each_epoch_and_the_end(client, tmp_path, data):
    watch, plain = Keeper(**NAMES), fit(tmp_path, data).model.state_dict()
    with mlflow.start_run() as run:
        trainer = fit(tmp_path, data, watch)
    same(trainer.model.state_dict(), plain)
    scores = dict(enumerate(expit(logits.astype(float)) for logits in watch.logits))
    measures = ("micro_f1", "ranking_loss", "soft_binomial_area")
    assert_epochs(client, run.info.run_id, truth(data), scores, measures, 1e-12)
    said = [e["eval_micro_f1"] for e in trainer.state.log_history if "eval_loss" in e]
    logged = history(client, run.info.run_id, "micro_f1")
    assert said == pytest.approx(list(logged.values()), rel=1e-12)
    assert_end(watch, truth(data), scores[EPOCHS - 1])
    tags = tags_of(client, run, schema.TAG_EPOCH, schema.TAG_STATUS, schema.TAG_SELECTED)
    assert tags == ("2", schema.COMPLETE, None)


def test_batch_by_batch_is_the_whole_but_for_rounding(client, tmp_path, data):
    found = []
    for batches in (False, True):
        watch = Keeper(**NAMES)
        with mlflow.start_run() as run:
            fit(tmp_path, data, watch, batch_eval_metrics=batches)
        assert len(watch.logits) == EPOCHS * (3 if batches else 1)
        logged = client.get_run(run.info.run_id).data
        names = [key.removeprefix(schema.EPOCH_PREFIX) for key in logged.metrics]
        epochs = {
            (name, step): value
            for name in names
            for step, value in history(client, run.info.run_id, name).items()
        }
        digest = logged.tags[schema.TAG_DATASET_DIGEST]
        found.append((digest, logged.metrics, watch.epochs.evaluation.measures, epochs))
    (digest, *values), (other_digest, *others) = found
    assert digest == other_digest
    for one, other in zip(values, others, strict=True):
        assert one == pytest.approx(other, rel=1e-12)


def test_the_best_model_is_evaluated_where_it_is_loaded(client, tmp_path, data):
    watch = HuggingFaceCallback(**NAMES)
    best = {"metric_for_best_model": "hamming_loss", "greater_is_better": False}
    best["load_best_model_at_end"] = True
    with mlflow.start_run() as run:
        trainer = fit(tmp_path, data, watch, num_train_epochs=4, save_strategy="epoch", **best)
    losses = history(client, run.info.run_id, "hamming_loss")
    tags = tags_of(client, run, schema.TAG_EPOCH, schema.TAG_SELECTED)
    assert tags == (str(min(losses, key=losses.get)), "4")
    again, best = trainer.evaluate(), watch.epochs.evaluation.measures["hamming_loss"]
    assert again["eval_hamming_loss"] == best == min(losses.values())
    assert history(client, run.info.run_id, "hamming_loss") == losses


def test_steps_count_where_evaluation_is_by_steps(client, tmp_path, data):
    watch = HuggingFaceCallback(**NAMES)
    with mlflow.start_run() as run:
        fit(tmp_path, data, watch, eval_strategy="steps", eval_steps=3, num_train_epochs=2)
    assert sorted(history(client, run.info.run_id, "f1")) == [3, 6, 8]  # and the end


def test_one_of_several_validation_sets_counts(client, tmp_path, data):
    watch = HuggingFaceCallback(prefix="eval_b", **NAMES)
    with mlflow.start_run() as run:
        fit(tmp_path, (data[0], {"a": data[1][:20], "b": data[1]}), watch)
    assert len(history(client, run.info.run_id, "f1")) == EPOCHS
    assert watch.epochs.evaluation.statistics["n_instances"] == 41


def test_a_function_finds_truth_and_scores_elsewhere(client, tmp_path, data):
    watch = HuggingFaceCallback(
        extract=lambda predictions, labels: (labels, predictions), threshold=0.0, **NAMES
    )
    with mlflow.start_run():
        fit(tmp_path, data, watch, batch_eval_metrics=True)
    assert watch.epochs.evaluation.threshold == 0.0


def test_without_a_run_the_trainer_still_gets_its_measures(client, tmp_path, data):
    with one_warning("No run is active", active=False):
        trainer = fit(tmp_path, data, HuggingFaceCallback(**NAMES))
    assert "eval_micro_f1" in trainer.state.log_history[-2] and not client.search_runs(["0"])


def test_a_single_logit_is_that_of_the_second_of_two_classes():
    logits = np.array([[-2.0], [0.5], [3.0]])
    found = HuggingFaceCallback(**NAMES)(EvalPrediction(logits, np.array([0, 1, 1])))
    expected = mleval.evaluate([0, 1, 1], expit(logits[:, 0])).measures
    assert found["log_loss"] == pytest.approx(expected["log_loss"])


@pytest.mark.parametrize("broken", ["no evaluation", "other labels"])
def test_a_failure_is_one_warning_and_the_model_is_the_same(client, tmp_path, data, broken):
    options = {"eval_strategy": "no"} if broken == "no evaluation" else {}
    plain = fit(tmp_path, data, **options).model.state_dict()
    watch = HuggingFaceCallback(**NAMES)
    if broken == "other labels":
        watch.extract = lambda predictions, labels: (labels[:, :2], predictions)
    with one_warning():
        found = fit(tmp_path, data, watch, **options).model.state_dict()
    same(found, plain)
    assert watch.epochs.evaluation is None


def test_under_mlflows_own_callback(client, tmp_path, data, monkeypatch):
    from transformers.integrations import MLflowCallback

    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "own")
    watch = HuggingFaceCallback(**NAMES)
    fit(tmp_path, data, watch, callbacks=[MLflowCallback(), watch])
    (run,) = mlflow.search_runs(experiment_names=["own"], output_format="list")
    assert run.data.tags[schema.TAG_STATUS] == schema.COMPLETE and "eval_loss" in run.data.metrics
