"""Stores as libraries and MLflow themselves leave them, without a line of ours: each function makes
one, and tells what a comparison should find.

``python tests/helpers/foreign_stores.py EMPTY FOLDER NAME ...`` makes each store as
FOLDER/NAME/mlflow.db, from the EMPTY one, and writes, beside it in truth.json, the measure that
tells most, whether larger values are better, and its value by data set and method, computed by the
script itself.
"""

import json
import os
import sys
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np

SEED = 0


def _split(name, seed=SEED):
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return train_test_split(X, y, random_state=seed, test_size=0.4)


def _models():
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.tree import DecisionTreeClassifier

    return [GaussianNB(), KNeighborsClassifier(), DecisionTreeClassifier(random_state=SEED)]


def _autolog(**options):
    """Without figures, which take most of the time, as on a machine without matplotlib."""
    sys.modules["matplotlib"] = None
    import mlflow

    mlflow.sklearn.autolog(log_models=False, silent=True, **options)
    return mlflow


def scikit_learn_score():
    """`fit` and `score`, a script for each of three data sets, each with an experiment."""
    mlflow, values = _autolog(), defaultdict(dict)
    for data in ("wine", "iris", "breast_cancer"):
        mlflow.set_experiment(f"team/{data}")
        X_train, X_test, y_train, y_test = _split(data)
        for model in _models():
            with mlflow.start_run():
                model.fit(X_train, y_train)
                values[f"team/{data}"][type(model).__name__] = model.score(X_test, y_test)
    return "score", True, values


def scikit_learn_metrics():
    """`fit` and functions of sklearn.metrics, with other variables."""
    from sklearn import metrics

    mlflow, values = _autolog(), {}
    mlflow.set_experiment("metrics")
    Xa, Xb, ya, yb = _split("wine")
    for model in _models():
        with mlflow.start_run():
            model.fit(Xa, ya)
            predicted = model.predict(Xb)
            values[type(model).__name__] = metrics.accuracy_score(yb, predicted)
            metrics.zero_one_loss(yb, predicted)
    return "accuracy_score", True, {"metrics": values}


def scikit_learn_grid_search():
    """GridSearchCV, whose candidates are child runs, and its score on held-out data."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.tree import DecisionTreeClassifier

    mlflow, values = _autolog(), {}
    mlflow.set_experiment("searched")
    X_train, X_test, y_train, y_test = _split("wine")
    grids = [
        (KNeighborsClassifier(), {"n_neighbors": [1, 5]}),
        (DecisionTreeClassifier(random_state=SEED), {"max_depth": [1, 3]}),
    ]
    for model, grid in grids:
        with mlflow.start_run():
            search = GridSearchCV(model, grid, cv=3).fit(X_train, y_train)
            values[f"GridSearchCV({type(model).__name__})"] = search.score(X_test, y_test)
    return "score", True, {"searched": values}


def scikit_learn_pipelines():
    """Pipelines, all of which MLflow calls Pipeline."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    mlflow, values = _autolog(), {}
    mlflow.set_experiment("pipelines")
    X_train, X_test, y_train, y_test = _split("wine")
    for model in _models():
        with mlflow.start_run():
            pipeline = make_pipeline(StandardScaler(), model).fit(X_train, y_train)
            name = f"Pipeline(StandardScaler, {type(model).__name__})"
            values[name] = pipeline.score(X_test, y_test)
    return "score", True, {"pipelines": values}


def scikit_learn_seeds():
    """Three random splits of the same data."""
    mlflow, values = _autolog(), defaultdict(list)
    mlflow.set_experiment("splits")
    for seed in range(3):
        X_train, X_test, y_train, y_test = _split("wine", seed)
        for model in _models():
            with mlflow.start_run():
                model.fit(X_train, y_train)
                values[type(model).__name__].append(model.score(X_test, y_test))
    return "score", True, {"splits": {name: np.mean(v) for name, v in values.items()}}


def logged_by_hand():
    """Metrics of the script's own, with seeds and the name of the model as params."""
    import mlflow

    mlflow.set_experiment("by hand")
    accuracy = {"small": 0.8, "large": 0.9}
    for model, value in accuracy.items():
        for seed in range(3):
            with mlflow.start_run():
                mlflow.log_params({"model": model, "seed": seed})
                mlflow.log_metrics({"train_acc": 0.999, "val_acc": value + seed / 1000})
    means = {model: value + 0.001 for model, value in accuracy.items()}
    return "val_acc", True, {"by hand": means}


def optuna_children():
    """Optuna's trials as child runs, of parents without metrics."""
    import mlflow
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    mlflow.set_experiment("optuna")
    best = {}
    for model, top in (("svm", 0.8), ("forest", 0.9)):
        with mlflow.start_run(run_name=model):
            mlflow.log_param("model", model)

            def objective(trial, model=model, top=top):
                x = trial.suggest_float("x", 0, 1)
                with mlflow.start_run(nested=True):
                    mlflow.log_params({"model": model, **trial.params})
                    mlflow.log_metrics({"val_auc": top - x / 9, "test_auc": top - x / 10})
                return top - x / 9

            study = optuna.create_study(
                direction="maximize", sampler=optuna.samplers.RandomSampler(1)
            )
            study.optimize(objective, n_trials=4)
            best[model] = top - study.best_params["x"] / 10
    return "test_auc", True, {"optuna": best}


def models_evaluate():
    """`mlflow.models.evaluate` of predictions."""
    import mlflow
    import pandas as pd

    mlflow.set_experiment("evaluated")
    values = {}
    X_train, X_test, y_train, y_test = _split("breast_cancer")
    for model in _models():
        predicted = model.fit(X_train, y_train).predict(X_test)
        frame = pd.DataFrame({"label": y_test, "prediction": predicted})
        with mlflow.start_run(run_name=type(model).__name__):
            result = mlflow.models.evaluate(
                data=frame,
                targets="label",
                predictions="prediction",
                model_type="classifier",
                evaluators="default",
                evaluator_config={"log_explainer": False},
            )
            values[type(model).__name__] = result.metrics["accuracy_score"]
    return "accuracy_score", True, {"evaluated": values}


def xgboost():
    """`xgboost.train` with a training and a validation set."""
    import mlflow
    import xgboost as xgb

    mlflow.xgboost.autolog(log_models=False, silent=True)
    mlflow.set_experiment("xgboost")
    X_train, X_val, y_train, y_val = _split("breast_cancer")
    train, valid, values = xgb.DMatrix(X_train, y_train), xgb.DMatrix(X_val, y_val), {}
    for name, depth in (("stump", 1), ("deep", 6)):
        with mlflow.start_run(run_name=name):
            told = {}
            params = {"objective": "binary:logistic", "max_depth": depth, "nthread": 1}
            sets = [(train, "train"), (valid, "valid")]
            xgb.train(params, train, 8, evals=sets, evals_result=told, verbose_eval=False)
            values[name] = told["valid"]["logloss"][-1]
    return "valid-logloss", False, {"xgboost": values}


def lightgbm():
    """LGBMClassifier with an `eval_set`."""
    import lightgbm as lgb
    import mlflow

    mlflow.lightgbm.autolog(log_models=False, silent=True)
    mlflow.set_experiment("lightgbm")
    X_train, X_val, y_train, y_val = _split("breast_cancer")
    values = {}
    for name, leaves in (("stump", 2), ("deep", 16)):
        with mlflow.start_run(run_name=name):
            model = lgb.LGBMClassifier(n_estimators=8, num_leaves=leaves, n_jobs=1, verbose=-1)
            model.fit(X_train, y_train, eval_set=[(X_val, y_val)])
            values[name] = model.evals_result_["valid_0"]["binary_logloss"][-1]
    return "valid_0-binary_logloss", False, {"lightgbm": values}


def keras():
    """`fit` with validation data."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras as framework
    import mlflow

    mlflow.set_experiment("keras")
    framework.utils.set_random_seed(0)
    X_train, X_val, y_train, y_val = _split("iris")
    values = {}
    for name, width in (("narrow", 1), ("wide", 32)):
        layers = [framework.layers.Dense(n, a) for n, a in ((width, "relu"), (3, "softmax"))]
        model = framework.Sequential(layers)
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        with mlflow.start_run(run_name=name):
            told = model.fit(
                X_train,
                y_train,
                epochs=5,
                validation_data=(X_val, y_val),
                verbose=0,
                callbacks=[mlflow.keras.MlflowCallback()],
            )
            values[name] = told.history["val_loss"][-1]
    return "val_loss", False, {"keras": values}


def lightning():
    """A LightningModule that logs its losses, under `mlflow.pytorch.autolog`."""
    import lightning as framework
    import mlflow
    import torch

    mlflow.pytorch.autolog(log_models=False, silent=True)
    mlflow.set_experiment("lightning")
    X_train, X_val, y_train, y_val = (torch.tensor(part) for part in _split("iris"))

    class Classifier(framework.LightningModule):
        def __init__(self, width):
            super().__init__()
            act = torch.nn.ReLU()
            self.net = torch.nn.Sequential(
                torch.nn.Linear(4, width), act, torch.nn.Linear(width, 3)
            )

        def _loss(self, batch, name):
            x, y = batch
            loss = torch.nn.functional.cross_entropy(self.net(x.float()), y)
            self.log(name, loss)
            return loss

        def training_step(self, batch, i):
            return self._loss(batch, "train_loss")

        def validation_step(self, batch, i):
            return self._loss(batch, "val_loss")

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 0.05)

    def loader(X, y):
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=90)

    values = {}
    for name, width in (("narrow", 1), ("wide", 32)):
        framework.seed_everything(0, verbose=False)
        trainer = framework.Trainer(
            max_epochs=5,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            accelerator="cpu",
        )
        with mlflow.start_run(run_name=name):
            trainer.fit(Classifier(width), loader(X_train, y_train), loader(X_val, y_val))
            values[name] = float(trainer.callback_metrics["val_loss"])
    return "val_loss", False, {"lightning": values}


def _trained(width, seed=SEED, limit=63, **names):
    """The loss of a Trainer that evaluates each epoch, with its callback for MLflow."""
    import transformers as framework

    rows = np.random.default_rng(SEED).integers(2, 20, (96, 6))
    examples = [{"input_ids": ids, "labels": int(ids.sum() > limit)} for ids in rows]

    def compute_metrics(predicted):
        return {"accuracy": np.mean(predicted.predictions.argmax(-1) == predicted.label_ids)}

    framework.set_seed(seed)
    sizes = {"hidden_size": width, "intermediate_size": width}
    layers = {"num_hidden_layers": 1, "num_attention_heads": 1}
    config = framework.BertConfig(vocab_size=20, **sizes, **layers)
    settings = framework.TrainingArguments(
        output_dir="checkpoints/" + names.get("run_name", ""),
        num_train_epochs=5,
        learning_rate=0.02,
        eval_strategy="epoch",
        save_strategy="no",
        report_to="mlflow",
        disable_tqdm=True,
        use_cpu=True,
        seed=seed,
        **names,
    )
    trainer = framework.Trainer(
        framework.BertForSequenceClassification(config),
        settings,
        train_dataset=examples[:64],
        eval_dataset=examples[64:],
        compute_metrics=compute_metrics,
    )
    trainer.train()
    return [log["eval_loss"] for log in trainer.state.log_history if "eval_loss" in log][-1]


def transformers():
    """A Trainer that evaluates each epoch, with its callback for MLflow."""
    import mlflow

    mlflow.set_experiment("transformers")
    values = {}
    for name, width in (("narrow", 2), ("wide", 16)):
        with mlflow.start_run(run_name=name):
            values[name] = _trained(width)
    return "eval_loss", False, {"transformers": values}


def genai_evaluate():
    """`mlflow.genai.evaluate` with scorers of the script's own."""
    import mlflow
    from mlflow.genai.scorers import scorer

    os.environ["MLFLOW_GENAI_EVAL_MAX_WORKERS"] = "1"
    mlflow.set_experiment("genai")
    data = [
        {"inputs": {"question": f"{i} + {i}?"}, "expectations": {"answer": str(2 * i)}}
        for i in range(12)
    ]

    @scorer
    def correctness(outputs, expectations):
        return float(outputs == expectations["answer"])

    values = {}
    for name, wrong in (("sloppy", 5), ("careful", 1)):

        def answer(question, wrong=wrong):
            n = int(question.split()[0])
            return str(2 * n + (n < wrong))

        with mlflow.start_run(run_name=name):
            mlflow.genai.evaluate(data=data, predict_fn=answer, scorers=[correctness])
            values[name] = 1 - wrong / 12
    return "correctness/mean", True, {"genai": values}


def _hand(experiment, rows, *, name=lambda row: None, tags=()):
    """A run of plain MLflow for each row: params, metrics and their values by step."""
    import mlflow

    mlflow.set_experiment(experiment)
    for params, metrics in rows:
        told = {tag: params.pop(tag) for tag in tags}
        with mlflow.start_run(run_name=name(params), tags=told):
            mlflow.log_params(params)
            for metric, values in metrics.items():
                for step, value in enumerate(values if isinstance(values, list) else [values]):
                    mlflow.log_metric(metric, value, step=step)


def _means(rows):
    """The mean by data set and method of rows (data set, method, value)."""
    values = defaultdict(lambda: defaultdict(list))
    for data, method, value in rows:
        values[data][method].append(value)
    return {d: {m: np.mean(held) for m, held in of.items()} for d, of in values.items()}


def datasets_and_seeds():
    """Three data sets, each split three times, in one experiment."""
    mlflow, rows = _autolog(), []
    mlflow.set_experiment("benchmark")
    for data, n_features in (("wine", 13), ("digits", 64), ("breast_cancer", 30)):
        for seed in range(3):
            X_train, X_test, y_train, y_test = _split(data, seed)
            for model in _models():
                with mlflow.start_run():
                    model.fit(X_train, y_train)
                    value = model.score(X_test, y_test)
                    rows.append((f"benchmark ({n_features} features)", type(model).__name__, value))
    return "score", True, _means(rows)


def percent_beside_share():
    """One method's accuracies as percentages, and the others' as shares."""
    values = {"svm": 0.749, "knn": 0.78, "rf": 0.81}
    scale = {"svm": 100}
    rows = [
        ({"model": m, "dataset": d}, {"test_accuracy": (v + i / 50) * scale.get(m, 1)})
        for m, v in values.items()
        for i, d in enumerate("abc")
    ]
    _hand("percent", rows)
    truth = {d: {m: v + i / 50 for m, v in values.items()} for i, d in enumerate("abc")}
    return "test_accuracy", True, truth


def datasets_in_names():
    """scikit-learn's autologging without data sets, which stand in the names of the runs alone."""
    mlflow, rows = _autolog(log_datasets=False), []
    mlflow.set_experiment("names")
    for data in ("wine", "breast_cancer"):
        for seed in range(3):
            X_train, X_test, y_train, y_test = _split(data, seed)
            for name, model in zip(("bayes", "near", "tree"), _models(), strict=True):
                with mlflow.start_run(run_name=f"{name}_{data.replace('_', '-')}_s{seed}"):
                    model.fit(X_train, y_train)
                    rows.append((data.replace("_", "-"), name, model.score(X_test, y_test)))
    return "score", True, _means(rows)


def trainer_datasets_in_names():
    """Trainers whose `run_name` says method, data set and seed."""
    import mlflow

    mlflow.set_experiment("trainers")
    rows = []
    for data, limit in (("imdb", 63), ("yelp", 55)):
        for seed in range(3):
            for name, width in (("narrow", 2), ("wide", 16)):
                loss = _trained(width, seed, limit, run_name=f"{name}_{data}_s{seed}")
                mlflow.end_run()
                rows.append((data, name, loss))
    return "eval_loss", False, _means(rows)


def percent_of_boosters():
    """Accuracy by a function of one's own: a share for XGBoost, a percentage for LightGBM."""
    import lightgbm as lgb
    import mlflow
    import xgboost as xgb

    mlflow.xgboost.autolog(log_models=False, silent=True)
    mlflow.lightgbm.autolog(log_models=False, silent=True)
    mlflow.set_experiment("scales")
    X_train, X_val, y_train, y_val = _split("breast_cancer")

    def share(scores, of):
        return float(np.mean((scores > 0.5) == of.get_label()))

    values, sets = {}, [(xgb.DMatrix(X_val, y_val), "valid")]
    for name, depth in (("stump", 1), ("deep", 6)):
        with mlflow.start_run(run_name=name):
            told = {}
            params = {"objective": "binary:logistic", "max_depth": depth, "nthread": 1}
            train = xgb.DMatrix(X_train, y_train)
            more = {"evals_result": told, "verbose_eval": False}
            own = {"custom_metric": lambda scores, of: ("accuracy", share(scores, of))}
            xgb.train({**params, "disable_default_eval_metric": 1}, train, 8, sets, **more, **own)
            values[name] = told["valid"]["accuracy"][-1]
    with mlflow.start_run(run_name="leaves"):
        told, params = {}, {"objective": "binary", "metric": "None", "num_threads": 1}
        lgb.train(
            {**params, "verbose": -1},
            lgb.Dataset(X_train, y_train),
            8,
            [lgb.Dataset(X_val, y_val)],
            ["valid"],
            lambda scores, of: ("accuracy", 100 * share(scores, of), True),
            callbacks=[lgb.record_evaluation(told)],
        )
        values["leaves"] = told["valid"]["accuracy"][-1] / 100
    return "valid-accuracy", True, {"scales": values}


def results_with_gaps():
    """Four estimators on five data sets, of which one fails on negative features and one where
    there are few instances, so that two lack a cell.
    """
    from sklearn.datasets import make_classification
    from sklearn.model_selection import train_test_split
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.neighbors import KNeighborsClassifier

    mlflow, rows = _autolog(), []
    mlflow.set_experiment("gaps")
    splits = {n: _split(name) for name, n in (("wine", 13), ("digits", 64), ("breast_cancer", 30))}
    for n in (8, 20):
        X, y = make_classification(400, n, random_state=SEED)
        splits[n] = train_test_split(X + 9 * (n == 8), y, random_state=SEED)
    models = [*_models(), MultinomialNB()]
    models[1] = KNeighborsClassifier(150)
    for n, (X_train, X_test, y_train, y_test) in splits.items():
        for model in models:
            try:
                with mlflow.start_run():
                    score = model.fit(X_train, y_train).score(X_test, y_test)
                    rows.append((f"gaps ({n} features)", type(model).__name__, score))
            except ValueError:  # the run has failed, and the script goes on
                pass
    return "score", True, _means(rows)


def optuna_studies():
    """A study of Optuna for each model, by its callback: an experiment of numbered runs."""
    import optuna
    from optuna_integration import MLflowCallback

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    best = {}
    for model, top in (("svm", 0.8), ("forest", 0.9), ("knn", 0.7)):
        study = optuna.create_study(
            study_name=model, direction="maximize", sampler=optuna.samplers.RandomSampler(1)
        )

        def objective(trial, top=top):
            return top - trial.suggest_float("x", 0, 1) / 9

        study.optimize(objective, n_trials=5, callbacks=[MLflowCallback(metric_name="val_auc")])
        best[model] = study.best_value
    return "val_auc", True, {"all runs": best}


def boosters():
    """XGBoost and LightGBM in one experiment, which call log loss by other names."""
    import lightgbm as lgb
    import mlflow
    import xgboost as xgb

    mlflow.xgboost.autolog(log_models=False, silent=True)
    mlflow.lightgbm.autolog(log_models=False, silent=True)
    mlflow.set_experiment("boosters")
    X_train, X_val, y_train, y_val = _split("breast_cancer")
    values, told = {}, {}
    sets = [(xgb.DMatrix(X_val, y_val), "valid")]
    with mlflow.start_run(run_name="xgboost"):
        params = {"objective": "binary:logistic", "max_depth": 6, "nthread": 1}
        train = xgb.DMatrix(X_train, y_train)
        xgb.train(params, train, 8, evals=sets, evals_result=told, verbose_eval=False)
        values["xgboost"] = told["valid"]["logloss"][-1]
    with mlflow.start_run(run_name="lightgbm"):
        params = {"objective": "binary", "metric": "binary_logloss", "num_threads": 1}
        told, data = {}, lgb.Dataset(X_train, y_train)
        calls = [lgb.record_evaluation(told)]
        valid = lgb.Dataset(X_val, y_val)
        lgb.train({**params, "verbose": -1}, data, 8, [valid], ["valid"], callbacks=calls)
        values["lightgbm"] = told["valid"]["binary_logloss"][-1]
    return "val_log_loss", False, {"boosters": values}


def dataset_inputs():
    """Data sets as inputs of the runs, with their names."""
    import mlflow

    mlflow.set_experiment("inputs")
    values = defaultdict(dict)
    for data in ("wine", "iris", "breast_cancer"):
        X_train, X_test, y_train, y_test = _split(data)
        held = mlflow.data.from_numpy(X_test, targets=y_test, name=data)
        for model in _models():
            with mlflow.start_run(run_name=type(model).__name__):
                mlflow.log_input(held, context="test")
                value = float(model.fit(X_train, y_train).score(X_test, y_test))
                mlflow.log_metric("test_accuracy", value)
                values[data][type(model).__name__] = value
    return "test_accuracy", True, values


def regressors():
    """Regressors, whose `score` is R²."""
    from sklearn.linear_model import LinearRegression, Ridge
    from sklearn.tree import DecisionTreeRegressor

    mlflow, values = _autolog(), {}
    mlflow.set_experiment("regressors")
    X_train, X_test, y_train, y_test = _split("diabetes")
    for model in (LinearRegression(), Ridge(100), DecisionTreeRegressor(random_state=SEED)):
        with mlflow.start_run():
            values[type(model).__name__] = model.fit(X_train, y_train).score(X_test, y_test)
    return "score", True, {"regressors": values}


def models_evaluate_datasets():
    """`mlflow.models.evaluate` on data sets with names."""
    import mlflow
    import pandas as pd

    mlflow.set_experiment("evaluated data")
    values = defaultdict(dict)
    for data in ("wine", "iris"):
        X_train, X_test, y_train, y_test = _split(data)
        for model in _models()[:2]:
            frame = pd.DataFrame(
                {"label": y_test, "said": model.fit(X_train, y_train).predict(X_test)}
            )
            held = mlflow.data.from_pandas(frame, targets="label", predictions="said", name=data)
            with mlflow.start_run(run_name=type(model).__name__):
                result = mlflow.models.evaluate(
                    data=held,
                    model_type="classifier",
                    evaluators="default",
                    evaluator_config={"log_explainer": False},
                )
                values[data][type(model).__name__] = result.metrics["accuracy_score"]
    return "accuracy_score", True, values


def tags_of_a_team():
    """Methods and data sets as tags."""
    rows = [
        ({"model": m, "dataset": d, "lr": 0.1}, {"test_auc": 0.6 + i / 10 + j / 30})
        for i, m in enumerate(("small", "large"))
        for j, d in enumerate(("churn", "fraud", "spam"))
    ]
    _hand("tagged", rows, tags=("model", "dataset"))
    said = [
        (d, m, 0.6 + i / 10 + j / 30)
        for i, m in enumerate(("small", "large"))
        for j, d in enumerate(("churn", "fraud", "spam"))
    ]
    return "test_auc", True, _means(said)


def losses_by_epoch():
    """Losses by epoch, with the name of the model as a param."""
    curves = {"narrow": [0.9, 0.7, 0.6], "wide": [0.8, 0.5, 0.4]}
    rows = [
        ({"model": m}, {"train_loss": [v / 2 for v in c], "val_loss": c}) for m, c in curves.items()
    ]
    _hand("epochs", rows)
    return "val_loss", False, {"epochs": {m: c[-1] for m, c in curves.items()}}


def folds_in_names():
    """A metric a fold."""
    rng = np.random.default_rng(SEED)
    values, rows = {}, []
    for m, method in enumerate(("rf", "svm")):
        folds = {f"fold{i}_test_auc": 0.8 - m / 10 + rng.normal() / 50 for i in range(5)}
        rows.append(({"model": method}, folds))
        values[method] = np.mean([*folds.values()])
    _hand("folds", rows)
    return "test_auc", True, {"folds": values}


def candidates_of_a_search():
    """A grid by hand, with what it is chosen by and what it is judged by."""
    rows, best = [], {}
    for m, method in enumerate(("rf", "svm")):
        for i, lr in enumerate((0.1, 0.01, 0.001)):
            val = 0.8 - m / 10 - abs(i - 1) / 20
            rows.append(({"model": method, "lr": lr}, {"val_auc": val, "test_auc": val - 0.02}))
        best[method] = 0.8 - m / 10 - 0.02
    _hand("grid", rows)
    return "test_auc", True, {"grid": best}


def own_evaluations():
    """`mleval.evaluate` and `mleval.log_evaluation`, with folds, on two data sets."""
    import mlflow

    import mlflow_mleval as mleval

    mlflow.set_experiment("own")
    values = defaultdict(dict)
    rng = np.random.default_rng(SEED)
    for data in ("yeast", "scene"):
        truth = rng.random((60, 4)) < 0.4
        for method, noise in (("BR", 0.2), ("CC", 0.5)):
            scores = np.clip(truth * 0.6 + 0.2 + rng.normal(0, noise, truth.shape), 0, 1)
            made = mleval.evaluate(truth.astype(int), scores, folds=np.arange(60) % 3)
            mleval.log_evaluation(made, method=method, dataset=data)
            values[data][method] = made.measures["macro_f1"]
    return "macro_f1", True, values


def own_import():
    """`mleval import` of a file with seeds."""
    import mlflow_mleval as mleval

    rng, said, lines = (
        np.random.default_rng(SEED),
        [],
        ["dataset,method,seed,macro_f1,hamming_loss"],
    )
    for d in ("x", "y", "z"):
        for m, method in enumerate(("BR", "CC", "LP")):
            for seed in range(3):
                value = 0.7 - m / 20 + rng.normal() / 50
                lines.append(f"{d},{method},{seed},{value},{(1 - value) / 3}")
                said.append((d, method, value))
    Path("results.csv").write_text("\n".join(lines))
    mleval.import_results("results.csv", experiment_name="imported")
    return "macro_f1", True, _means(said)


def shared_experiments():
    """The same models on the data of three teams, an experiment each, with params alike."""
    said = []
    for d, data in enumerate(("north", "south", "west")):
        values = {m: 0.9 - i / 20 - d / 10 for i, m in enumerate(("gbm", "glm", "gam"))}
        _hand(f"region/{data}", [({"algorithm": m}, {"test_auc": v}) for m, v in values.items()])
        said += [(f"region/{data}", m, v) for m, v in values.items()]
    return "test_auc", True, _means(said)


#: By store, the module without which it cannot be made.
STORES = {
    scikit_learn_score: "sklearn",
    scikit_learn_metrics: "sklearn",
    scikit_learn_grid_search: "sklearn",
    scikit_learn_pipelines: "sklearn",
    scikit_learn_seeds: "sklearn",
    logged_by_hand: "mlflow",
    models_evaluate: "sklearn",
    genai_evaluate: "mlflow",
    optuna_children: "optuna",
    xgboost: "xgboost",
    lightgbm: "lightgbm",
    keras: "keras",
    lightning: "lightning",
    transformers: "transformers",
    datasets_and_seeds: "sklearn",
    percent_beside_share: "mlflow",
    datasets_in_names: "mlflow",
    results_with_gaps: "mlflow",
    optuna_studies: "optuna_integration",
    boosters: "lightgbm",
    percent_of_boosters: "lightgbm",
    trainer_datasets_in_names: "transformers",
    dataset_inputs: "sklearn",
    regressors: "sklearn",
    models_evaluate_datasets: "sklearn",
    tags_of_a_team: "mlflow",
    losses_by_epoch: "mlflow",
    folds_in_names: "mlflow",
    candidates_of_a_search: "mlflow",
    own_evaluations: "mlflow",
    own_import: "mlflow",
    shared_experiments: "mlflow",
}

if __name__ == "__main__":
    import shutil

    import mlflow
    from waiting import do_not_wait_for_the_disk

    warnings.simplefilter("ignore")
    do_not_wait_for_the_disk()
    empty, home, *wanted = sys.argv[1:]
    for make in [make for make in STORES if make.__name__ in wanted]:
        folder = Path(home, make.__name__)
        folder.mkdir()
        shutil.copy(empty, folder / "mlflow.db")
        os.chdir(folder)
        mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
        measure, larger, truth = make()
        told = {"measure": measure, "larger": larger, "values": truth}
        Path("truth.json").write_text(json.dumps(told, default=float))
        if "mlflow.sklearn" in sys.modules:
            mlflow.sklearn.autolog(disable=True)
