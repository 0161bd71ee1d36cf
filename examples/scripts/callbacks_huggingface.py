"""Two transformers of Hugging Face, watched epoch by epoch: measures, the loss profile, at the end
a full evaluation, a report.

    python examples/scripts/callbacks_huggingface.py

Nothing is downloaded: the networks are small, and their weights random at first. A handwritten
digit is a text of 16 words, each the grey level of 2 x 2 pixels. Its labels are the segments that
it lights in a seven-segment display. In MLflow's chart view the epochs of the runs lie over each
other; search there for `mleval.epoch`.
"""

from __future__ import annotations

from tempfile import TemporaryDirectory

import mlflow
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import mlflow_mleval as mleval

SEGMENTS = ["abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg"]
EXPERIMENT = "huggingface"


def main():
    torch.set_num_threads(1)  # so small a network gains nothing from threads
    images, digits = load_digits(return_X_y=True)
    labels = np.array(
        [[segment in SEGMENTS[digit] for segment in "abcdefg"] for digit in digits], dtype="float32"
    )
    words = images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16).astype(int)
    rows = [
        {"input_ids": torch.tensor(x), "labels": torch.tensor(y)}
        for x, y in zip(words, labels, strict=True)
    ]
    train, validation = train_test_split(rows, test_size=0.4, random_state=0)
    mlflow.set_experiment(EXPERIMENT)
    for width in (4, 64):
        torch.manual_seed(0)
        model = BertForSequenceClassification(
            BertConfig(
                vocab_size=17,
                hidden_size=width,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=2 * width,
                num_labels=7,
                problem_type="multi_label_classification",
            )
        )
        watch = mleval.callbacks.huggingface(
            method=f"width {width}", dataset="digits", label_names=list("abcdefg")
        )
        with mlflow.start_run(run_name=f"width {width}"), TemporaryDirectory() as folder:
            arguments = TrainingArguments(
                folder,
                num_train_epochs=10,
                learning_rate=0.003,
                per_device_train_batch_size=32,
                per_device_eval_batch_size=256,
                eval_strategy="epoch",
                batch_eval_metrics=True,
                save_strategy="no",
                report_to="none",
                use_cpu=True,
                disable_tqdm=True,
            )
            trainer = Trainer(
                model,
                arguments,
                train_dataset=train,
                eval_dataset=validation,
                compute_metrics=watch,
                callbacks=[watch],
            )
            trainer.train()
    print(
        mleval.load_study(experiment_names=[EXPERIMENT])
        .values[["f1", "hamming_loss", "subset_accuracy"]]
        .round(3)
    )


if __name__ == "__main__":
    main()
