"""Stores as libraries and MLflow themselves leave them, without a line of ours: each function makes
one, and tells what a comparison should find.

``python tests/helpers/foreign_stores.py EMPTY FOLDER NAME ...`` makes each store as
FOLDER/NAME/mlflow.db, from the EMPTY one, and writes, beside it in truth.json, the measure that
tells most, whether larger values are better, and its value by data set and method, computed by the
script itself.
"""

import functools
import json
import os
import sys
import warnings
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import mlflow
import numpy as np

SEED = 0
#: By what makes a store, the module without which it cannot; the guide shows the first ones.
STORES: dict = {}


def store(experiment="", needs="sklearn"):
    """Makes a store in this experiment, of one data set where its values are by method."""

    def of(make):
        @functools.wraps(make)
        def made():
            if experiment:
                mlflow.set_experiment(experiment)
            measure, larger, values = make()
            nested = any(isinstance(held, dict) for held in values.values())
            return measure, larger, values if nested else {experiment: values}

        STORES[made] = needs
        return made

    return of


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
    mlflow.sklearn.autolog(log_models=False, silent=True, **options)


def _class(model):
    return type(model).__name__


def _scores(split, models, run_name=None, name_of=_class):
    """The score of each model by its name, made in a run of its own; one that fails has none."""
    X_train, X_test, y_train, y_test = split
    scores = {}
    for model in models:
        called = run_name.format(name_of(model)) if run_name else None
        # a script that catches the error goes on, and the run has failed
        with suppress(ValueError), mlflow.start_run(run_name=called):
            scores[name_of(model)] = model.fit(X_train, y_train).score(X_test, y_test)
    return scores


def _means(rows):
    """The mean by data set and method of rows (data set, method, value)."""
    values = defaultdict(lambda: defaultdict(list))
    for data, method, value in rows:
        values[data][method].append(value)
    return {d: {m: np.mean(held) for m, held in of.items()} for d, of in values.items()}


def _by_run(value_of, **settings):
    """By name, what `value_of(setting)` gives, in a run of that name."""
    values = {}
    for name, setting in settings.items():
        with mlflow.start_run(run_name=name):
            values[name] = value_of(setting)
    return values


def _by_model(value_of, models):
    return _by_run(value_of, **{_class(model): model for model in models})


def _hand(rows, tags=()):
    """A run of plain MLflow for each row: params, metrics and their values by step."""
    for params, metrics in rows:
        told = {tag: params.pop(tag) for tag in tags}
        with mlflow.start_run(tags=told):
            mlflow.log_params(params)
            for metric, values in metrics.items():
                for step, value in enumerate(values if isinstance(values, list) else [values]):
                    mlflow.log_metric(metric, value, step=step)


@store()
def scikit_learn_score():
    """`fit` and `score`, a script for each of three data sets, each with an experiment."""
    _autolog()
    values = {}
    for data in ("wine", "iris", "breast_cancer"):
        mlflow.set_experiment(f"team/{data}")
        values[f"team/{data}"] = _scores(_split(data), _models())
    return "score", True, values


@store("metrics")
def scikit_learn_metrics():
    """`fit` and functions of sklearn.metrics, with other variables."""
    from sklearn import metrics

    _autolog()
    values = {}
    Xa, Xb, ya, yb = _split("wine")
    for model in _models():
        with mlflow.start_run():
            model.fit(Xa, ya)
            predicted = model.predict(Xb)
            values[_class(model)] = metrics.accuracy_score(yb, predicted)
            metrics.zero_one_loss(yb, predicted)
    return "accuracy_score", True, values


@store("searched")
def scikit_learn_grid_search():
    """GridSearchCV, whose candidates are child runs, and its score on held-out data."""
    from sklearn.model_selection import GridSearchCV

    _autolog()
    grids, (_, *models) = ({"n_neighbors": [1, 5]}, {"max_depth": [1, 3]}), _models()
    searches = [GridSearchCV(m, grid, cv=3) for m, grid in zip(models, grids, strict=True)]
    name_of = lambda search: f"GridSearchCV({_class(search.estimator)})"  # noqa: E731
    return "score", True, _scores(_split("wine"), searches, name_of=name_of)


@store("pipelines")
def scikit_learn_pipelines():
    """Pipelines, all of which MLflow calls Pipeline."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    _autolog()
    pipelines = [make_pipeline(StandardScaler(), model) for model in _models()]
    name_of = lambda steps: f"Pipeline(StandardScaler, {_class(steps[-1])})"  # noqa: E731
    return "score", True, _scores(_split("wine"), pipelines, name_of=name_of)


@store("splits")
def scikit_learn_seeds():
    """Three random splits of the same data."""
    _autolog()
    scores = [_scores(_split("wine", seed), _models()) for seed in range(3)]
    return "score", True, {name: np.mean([of[name] for of in scores]) for name in scores[0]}


@store("by hand", "mlflow")
def logged_by_hand():
    """Metrics of the script's own, with seeds and the name of the model as params."""
    accuracy = {"small": 0.8, "large": 0.9}
    _hand(
        ({"model": model, "seed": seed}, {"train_acc": 0.999, "val_acc": value + seed / 1000})
        for model, value in accuracy.items()
        for seed in range(3)
    )
    return "val_acc", True, {model: value + 0.001 for model, value in accuracy.items()}


def _studied(name, objective, n_trials, **options):
    """A study of Optuna that has tried so many candidates."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.RandomSampler(1)
    study = optuna.create_study(study_name=name, direction="maximize", sampler=sampler)
    study.optimize(objective, n_trials=n_trials, **options)
    return study


@store("optuna", "optuna")
def optuna_children():
    """Optuna's trials as child runs, of parents without metrics."""
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

            best[model] = top - _studied(model, objective, 4).best_params["x"] / 10
    return "test_auc", True, best


def _evaluated(**given):
    """The accuracy that `mlflow.models.evaluate` logs."""
    how = {"evaluators": "default", "evaluator_config": {"log_explainer": False}}
    result = mlflow.models.evaluate(model_type="classifier", **given, **how)
    return result.metrics["accuracy_score"]


def _predictions(split, model):
    """A table of the truth and what the model says."""
    import pandas as pd

    X_train, X_test, y_train, y_test = split
    return pd.DataFrame({"label": y_test, "said": model.fit(X_train, y_train).predict(X_test)})


@store("evaluated")
def models_evaluate():
    """`mlflow.models.evaluate` of predictions."""

    def value_of(model):
        frame = _predictions(_split("breast_cancer"), model)
        return _evaluated(data=frame, targets="label", predictions="said")

    return "accuracy_score", True, _by_model(value_of, _models())


def _xgboost(depth):
    """The log loss on validation data, by `xgboost.train` of eight trees."""
    import xgboost as xgb

    X_train, X_val, y_train, y_val = _split("breast_cancer")
    train, valid, told = xgb.DMatrix(X_train, y_train), xgb.DMatrix(X_val, y_val), {}
    params = {"objective": "binary:logistic", "max_depth": depth, "nthread": 1}
    sets = [(train, "train"), (valid, "valid")]
    xgb.train(params, train, 8, evals=sets, evals_result=told, verbose_eval=False)
    return told["valid"]["logloss"][-1]


@store("xgboost", "xgboost")
def xgboost():
    """`xgboost.train` with a training and a validation set."""
    mlflow.xgboost.autolog(log_models=False, silent=True)
    return "valid-logloss", False, _by_run(_xgboost, stump=1, deep=6)


@store("lightgbm", "lightgbm")
def lightgbm():
    """LGBMClassifier with an `eval_set`."""
    import lightgbm as lgb

    mlflow.lightgbm.autolog(log_models=False, silent=True)
    X_train, X_val, y_train, y_val = _split("breast_cancer")

    def value_of(leaves):
        model = lgb.LGBMClassifier(n_estimators=8, num_leaves=leaves, n_jobs=1, verbose=-1)
        model.fit(X_train, y_train, eval_set=[(X_val, y_val)])
        return model.evals_result_["valid_0"]["binary_logloss"][-1]

    return "valid_0-binary_logloss", False, _by_run(value_of, stump=2, deep=16)


@store("keras", "keras")
def keras():
    """`fit` with validation data."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras as framework

    framework.utils.set_random_seed(0)
    X_train, X_val, y_train, y_val = _split("iris")

    def value_of(width):
        layers = [framework.layers.Dense(n, a) for n, a in ((width, "relu"), (3, "softmax"))]
        model = framework.Sequential(layers)
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        how = {"validation_data": (X_val, y_val), "epochs": 5, "verbose": 0}
        told = model.fit(X_train, y_train, callbacks=[mlflow.keras.MlflowCallback()], **how)
        return told.history["val_loss"][-1]

    return "val_loss", False, _by_run(value_of, narrow=1, wide=32)


@store("lightning", "lightning")
def lightning():
    """A LightningModule that logs its losses, under `mlflow.pytorch.autolog`."""
    import lightning as framework
    import torch

    mlflow.pytorch.autolog(log_models=False, silent=True)
    X_train, X_val, y_train, y_val = (torch.tensor(part) for part in _split("iris"))

    class Classifier(framework.LightningModule):
        def __init__(self, width):
            super().__init__()
            first, last = torch.nn.Linear(4, width), torch.nn.Linear(width, 3)
            self.net = torch.nn.Sequential(first, torch.nn.ReLU(), last)

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

    def value_of(width):
        framework.seed_everything(0, verbose=False)
        without = ("logger", "checkpointing", "progress_bar", "model_summary")
        options = {name if name == "logger" else f"enable_{name}": False for name in without}
        trainer = framework.Trainer(max_epochs=5, accelerator="cpu", **options)
        trainer.fit(Classifier(width), loader(X_train, y_train), loader(X_val, y_val))
        return float(trainer.callback_metrics["val_loss"])

    return "val_loss", False, _by_run(value_of, narrow=1, wide=32)


@store("transformers", "transformers")
def transformers():
    """A Trainer that evaluates each epoch, with its callback for MLflow."""
    import transformers as framework

    rows = np.random.default_rng(SEED).integers(2, 20, (96, 6))
    examples = [{"input_ids": ids, "labels": int(ids.sum() > 63)} for ids in rows]

    def compute_metrics(predicted):
        return {"accuracy": np.mean(predicted.predictions.argmax(-1) == predicted.label_ids)}

    def value_of(width):
        framework.set_seed(SEED)
        sizes = {"hidden_size": width, "intermediate_size": width}
        layers = {"num_hidden_layers": 1, "num_attention_heads": 1}
        config = framework.BertConfig(vocab_size=20, **sizes, **layers)
        how = {"num_train_epochs": 5, "learning_rate": 0.02, "eval_strategy": "epoch"}
        how |= {"save_strategy": "no", "report_to": "mlflow", "disable_tqdm": True, "use_cpu": True}
        settings = framework.TrainingArguments(output_dir="checkpoints", seed=SEED, **how)
        model = framework.BertForSequenceClassification(config)
        sets = {"train_dataset": examples[:64], "eval_dataset": examples[64:]}
        trainer = framework.Trainer(model, settings, compute_metrics=compute_metrics, **sets)
        trainer.train()
        return [log["eval_loss"] for log in trainer.state.log_history if "eval_loss" in log][-1]

    return "eval_loss", False, _by_run(value_of, narrow=2, wide=16)


@store("genai", "mlflow")
def genai_evaluate():
    """`mlflow.genai.evaluate` with scorers of the script's own."""
    from mlflow.genai.scorers import scorer

    os.environ["MLFLOW_GENAI_EVAL_MAX_WORKERS"] = "1"
    data = [
        {"inputs": {"question": f"{i} + {i}?"}, "expectations": {"answer": str(2 * i)}}
        for i in range(12)
    ]

    @scorer
    def correctness(outputs, expectations):
        return float(outputs == expectations["answer"])

    def value_of(wrong):
        def answer(question):
            n = int(question.split()[0])
            return str(2 * n + (n < wrong))

        mlflow.genai.evaluate(data=data, predict_fn=answer, scorers=[correctness])
        return 1 - wrong / 12

    return "correctness/mean", True, _by_run(value_of, sloppy=5, careful=1)


@store("benchmark")
def datasets_and_seeds():
    """Three data sets, each split three times, in one experiment."""
    _autolog()
    rows = []
    for data, n_features in (("wine", 13), ("iris", 4), ("breast_cancer", 30)):
        for seed in range(3):
            scores = _scores(_split(data, seed), _models())
            rows += [(f"benchmark ({n_features} features)", *of) for of in scores.items()]
    return "score", True, _means(rows)


@store("percent", "mlflow")
def percent_beside_share():
    """One method's accuracies as percentages, and the others' as shares."""
    values = {"svm": 0.749, "knn": 0.78, "rf": 0.81}
    truth = {d: {m: v + i / 50 for m, v in values.items()} for i, d in enumerate("abc")}
    _hand(
        ({"model": m, "dataset": d}, {"test_accuracy": truth[d][m] * (100 if m == "svm" else 1)})
        for m in values
        for d in truth
    )
    return "test_accuracy", True, truth


@store("names")
def datasets_in_names():
    """scikit-learn's autologging without data sets, which stand in the names of the runs alone."""
    _autolog(log_datasets=False)
    rows = []
    for data in ("wine", "breast-cancer"):
        for seed in range(3):
            split = _split(data.replace("-", "_"), seed)
            scores = _scores(split, _models(), f"{{}}_{data}_s{seed}")
            rows += [(data, *of) for of in scores.items()]
    return "score", True, _means(rows)


@store("gaps")
def results_with_gaps():
    """Estimators on data sets of which two fail on one each, so that two lack a cell."""
    from sklearn.datasets import make_classification
    from sklearn.model_selection import train_test_split
    from sklearn.naive_bayes import MultinomialNB

    _autolog()
    splits = {n: _split(name) for name, n in (("wine", 13), ("digits", 64), ("breast_cancer", 30))}
    for n in (8, 20):
        X, y = make_classification(400, n, random_state=SEED)
        splits[n] = train_test_split(X + 9 * (n == 8), y, random_state=SEED)
    models = [*_models(), MultinomialNB()]
    models[1].set_params(n_neighbors=150)
    values = {f"gaps ({n} features)": _scores(split, models) for n, split in splits.items()}
    return "score", True, values


@store(needs="optuna_integration")
def optuna_studies():
    """A study of Optuna for each model, by its callback: an experiment of numbered runs."""
    from optuna_integration import MLflowCallback

    best = {}
    for model, top in (("svm", 0.8), ("forest", 0.9), ("knn", 0.7)):

        def objective(trial, top=top):
            return top - trial.suggest_float("x", 0, 1) / 9

        calls = [MLflowCallback(metric_name="val_auc")]
        best[model] = _studied(model, objective, 5, callbacks=calls).best_value
    return "val_auc", True, {"all runs": best}


@store("boosters", "lightgbm")
def boosters():
    """XGBoost and LightGBM in one experiment, which call log loss by other names."""
    import lightgbm as lgb

    mlflow.xgboost.autolog(log_models=False, silent=True)
    mlflow.lightgbm.autolog(log_models=False, silent=True)
    X_train, X_val, y_train, y_val = _split("breast_cancer")

    def value_of(library):
        if library == "xgboost":
            return _xgboost(6)
        params = {"objective": "binary", "metric": "binary_logloss", "num_threads": 1}
        told, data = {}, lgb.Dataset(X_train, y_train)
        valid, calls = lgb.Dataset(X_val, y_val), [lgb.record_evaluation(told)]
        lgb.train({**params, "verbose": -1}, data, 8, [valid], ["valid"], callbacks=calls)
        return told["valid"]["binary_logloss"][-1]

    values = _by_run(value_of, xgboost="xgboost", lightgbm="lightgbm")
    return "val_log_loss", False, values


@store("inputs")
def dataset_inputs():
    """Data sets as inputs of the runs, with their names."""
    values = {}
    for data in ("wine", "iris", "breast_cancer"):
        X_train, X_test, y_train, y_test = _split(data)
        held = mlflow.data.from_numpy(X_test, targets=y_test, name=data)

        def value_of(model, given=(X_train, y_train), tested=(X_test, y_test), held=held):
            mlflow.log_input(held, context="test")
            value = float(model.fit(*given).score(*tested))
            mlflow.log_metric("test_accuracy", value)
            return value

        values[data] = _by_model(value_of, _models())
    return "test_accuracy", True, values


@store("regressors")
def regressors():
    """Regressors, whose `score` is R²."""
    from sklearn.linear_model import LinearRegression, Ridge
    from sklearn.tree import DecisionTreeRegressor

    _autolog()
    models = [LinearRegression(), Ridge(100), DecisionTreeRegressor(random_state=SEED)]
    return "score", True, _scores(_split("diabetes"), models)


@store("evaluated data")
def models_evaluate_datasets():
    """`mlflow.models.evaluate` on data sets with names."""
    values = {}
    for data in ("wine", "iris"):

        def value_of(model, data=data):
            frame = _predictions(_split(data), model)
            columns = {"targets": "label", "predictions": "said"}
            return _evaluated(data=mlflow.data.from_pandas(frame, name=data, **columns))

        values[data] = _by_model(value_of, _models()[:2])
    return "accuracy_score", True, values


@store("tagged", "mlflow")
def tags_of_a_team():
    """Methods and data sets as tags."""
    said = [
        (d, m, 0.6 + i / 10 + j / 30)
        for i, m in enumerate(("small", "large"))
        for j, d in enumerate(("churn", "fraud", "spam"))
    ]
    rows = [({"model": m, "dataset": d, "lr": 0.1}, {"test_auc": v}) for d, m, v in said]
    _hand(rows, tags=("model", "dataset"))
    return "test_auc", True, _means(said)


@store("epochs", "mlflow")
def losses_by_epoch():
    """Losses by epoch, with the name of the model as a param."""
    curves = {"narrow": [0.9, 0.7, 0.6], "wide": [0.8, 0.5, 0.4]}
    _hand(
        ({"model": m}, {"train_loss": [v / 2 for v in c], "val_loss": c}) for m, c in curves.items()
    )
    return "val_loss", False, {m: c[-1] for m, c in curves.items()}


@store("folds", "mlflow")
def folds_in_names():
    """A metric a fold."""
    rng = np.random.default_rng(SEED)
    folds = {m: top + rng.normal(0, 0.02, 5) for m, top in (("rf", 0.8), ("svm", 0.7))}
    _hand(
        ({"model": m}, {f"fold{i}_test_auc": value for i, value in enumerate(values)})
        for m, values in folds.items()
    )
    return "test_auc", True, {m: values.mean() for m, values in folds.items()}


@store(needs="mlflow")
def own_import():
    """`mleval import` of a file with seeds."""
    import mlflow_mleval as mleval

    rng, lines = np.random.default_rng(SEED), ["dataset,method,seed,macro_f1,hamming_loss"]
    cells = [(d, m, s) for d in "xyz" for m in enumerate(("BR", "CC", "LP")) for s in range(3)]
    rows = [(d, m, s, 0.7 - i / 20 + rng.normal() / 50) for d, (i, m), s in cells]
    lines += [f"{d},{m},{s},{value},{(1 - value) / 3}" for d, m, s, value in rows]
    Path("results.csv").write_text("\n".join(lines))
    mleval.import_results("results.csv", experiment_name="imported")
    return "macro_f1", True, _means((d, m, value) for d, m, _, value in rows)


if __name__ == "__main__":
    import shutil

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
