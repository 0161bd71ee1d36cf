# %% [markdown]
# # From data to a verdict
#
# From a store that plain MLflow filled to a ranking and a report; then every other way in, and
# every question that can be asked afterwards. VS Code and Jupytext open
# [the script](../scripts/walkthrough.py) as a notebook; [the guide](../guides/walkthrough.md) shows
# it with what it prints. It takes two minutes and writes to `mlflow.db` in the folder it runs in.

# %%
import os
import shlex
import subprocess
import sys
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_wine,
    make_multilabel_classification,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import mlflow_mleval as mleval


# %%
def terminal(command):
    """What one would type in a terminal."""
    program, *arguments = shlex.split(command)
    path = Path(sys.executable).with_name(program)
    env = {
        key: value for key, value in os.environ.items() if key != "MLFLOW_EXPERIMENT_ID"
    }  # a new terminal
    done = subprocess.run([path, *arguments], capture_output=True, encoding="utf-8", env=env)
    print(done.stdout or done.stderr, end="")


# %% [markdown]
# ## A store that plain MLflow filled
#
# Scripts like this one are everywhere. A param names the model and another the seed, a search puts
# its trials under a run of its own, metrics have any names, some runs lack one and some fail.
# Nothing here knows of mleval.

# %%
LOADERS = {"cancer": load_breast_cancer, "digits": load_digits, "wine": load_wine}
MODELS = {
    "forest": RandomForestClassifier,
    "knn": KNeighborsClassifier,
    "logreg": LogisticRegression,
    "svm": SVC,
    "tree": DecisionTreeClassifier,
}


def train(dataset, model, seed, nested=False, **params):
    X, y = LOADERS[dataset](return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, random_state=seed, stratify=y)
    X, X_val, y, y_val = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y)
    random = {"random_state": seed} if model in ("forest", "tree") else {}
    with mlflow.start_run(run_name=model, nested=nested):
        mlflow.log_params({"model": model, "seed": seed, **params})
        fitted = make_pipeline(StandardScaler(), MODELS[model](**random, **params)).fit(X, y)
        mlflow.log_metrics(
            {"val_acc": fitted.score(X_val, y_val), "test_acc": fitted.score(X_test, y_test)}
        )
        if hasattr(fitted, "predict_proba"):
            mlflow.log_metric("val_loss", log_loss(y_val, fitted.predict_proba(X_val)))


for dataset in LOADERS:
    mlflow.set_experiment(dataset)
    for seed in range(3):
        train(dataset, "logreg", seed)
        train(dataset, "tree", seed)
        for depth in (2, 4, 8) if dataset == "digits" else (8,):
            train(dataset, "forest", seed, n_estimators=20, max_depth=depth)
        with mlflow.start_run(run_name="svm"):
            mlflow.log_params({"model": "svm", "seed": seed})
            for C in (0.01, 0.1, 1, 10):
                train(dataset, "svm", seed, nested=True, C=C)
    try:
        train(dataset, "knn", 0, n_neighbors=-1)
    except ValueError as error:
        print(f"{dataset}: {str(error).partition('.')[0]}")

# %% [markdown]
# **What is there?** Of one experiment or several `mleval runs` says what may name the methods, the
# datasets and the repeats, and which way it knows a metric to be better. Its last lines go on from
# there, to be copied.

# %%
terminal("mleval runs")

# %%
terminal("mleval runs -n cancer -n digits -n wine")

# %% [markdown]
# **Two things stop a ranking.** Runs that differ in their seed only are repeats, and their mean
# counts. Those that differ in other params are different methods, or candidates of a search, and
# are not averaged unasked:

# %%
terminal(
    "mleval rank -n cancer -n digits -n wine --method-by param:model --max test_acc --max val_acc"
)

# %% [markdown]
# A metric that is declared counts as asked for. `svm` gives no probabilities and has no `val_loss`:
# the ranking stops with the commands that go on, and is made without it below.

# %%
chosen = (
    "-n cancer -n digits -n wine --method-by param:model --read children=best:val_acc "
    "--read duplicates=best:val_acc"
)
terminal(f"mleval rank {chosen} --max test_acc --max val_acc --min val_loss")

# %% [markdown]
# **The ranking** is of the means over the seeds, and shows their spread.
# `--read children=best:val_acc` takes the best trial of each search. The metric that chose is not
# compared, and a doubt says among how many it chose.

# %%
terminal(f"mleval rank {chosen} --max test_acc --max val_acc")

# %% [markdown]
# **Is a difference more than the seeds' doing?** The repeats on a dataset can be tested.

# %%
terminal(f"mleval compare {chosen} --over repeats --dataset digits --max test_acc --max val_acc")

# %% [markdown]
# **The report** is one page for the browser.

# %%
terminal(f"mleval report {chosen} --max test_acc --max val_acc -o plain.html")
print(*Path().glob("*.html"))

# %% [markdown]
# ## One model, held-out data
#
# From here on mleval evaluates, and so has all measures of label sets instead of one accuracy. The
# labels of an image of scikit-learn's handwritten digits are the segments a to g that its digit
# lights in a seven-segment display.

# %%
SEGMENTS = ["abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg"]
LABELS = list("abcdefg")
images, digits = load_digits(return_X_y=True)
rows = np.random.default_rng(0).permutation(len(digits))[:800]
X = images[rows] / 16
Y = np.array(
    [[segment in SEGMENTS[digit] for segment in LABELS] for digit in digits[rows]], dtype=int
)
X_train, Y_train, X_test, Y_test = X[:500], Y[:500], X[500:], Y[500:]
pd.DataFrame(Y, index=digits[rows], columns=LABELS).drop_duplicates().sort_index()

# %% [markdown]
# **A script that you have.** `autolog` sees `score` and evaluates in full what was asked for one
# number.

# %%
mlflow.set_experiment("held out")
mleval.autolog(method="k-NN", dataset="digits", label_names=LABELS, log_instances=True)
print(KNeighborsClassifier().fit(X_train, Y_train).score(X_test, Y_test))
mleval.autolog(disable=True)

# %% [markdown]
# **MLflow's own door.** `mlflow.models.evaluate` takes our evaluator by its name.

# %%
chain = ClassifierChain(LogisticRegression(max_iter=1000)).fit(X_train, Y_train)
config = {"method": "chain", "dataset": "digits", "label_names": LABELS, "log_instances": True}
found = mlflow.models.evaluate(
    chain.predict_proba,
    X_test,
    targets=Y_test,
    model_type="multilabel",
    evaluators="mleval",
    evaluator_config=config,
)
print(
    f"{len(found.metrics)} measures; f1 {found.metrics['mleval/f1']:.3f}; among the artifacts:",
    *sorted(found.artifacts)[-3:],
)

# %% [markdown]
# **Predictions made elsewhere.** A file with truth and scores by label; another program may have
# written it.

# %%
forest = RandomForestClassifier(50, random_state=0).fit(X_train, Y_train)
scores = np.column_stack([by_label[:, 1] for by_label in forest.predict_proba(X_test)])
table = pd.DataFrame({f"true_{a}": Y_test[:, i] for i, a in enumerate(LABELS)})
table.assign(**{f"score_{a}": scores[:, i] for i, a in enumerate(LABELS)}).to_csv(
    "forest.csv", index=False
)
terminal("mleval evaluate forest.csv --method forest --dataset digits -n 'held out'")

# %% [markdown]
# **Who is better, instance by instance?** Two runs kept a table of instances, the third one did
# not.

# %%
terminal("mleval compare -n 'held out' --over instances -m f1 -m accuracy")

# %% [markdown]
# ## One dataset, many folds
#
# `cross_validate` fits, predicts and evaluates each fold, and logs one run. All methods get the
# same folds, which makes them pairs.

# %%
cv = KFold(10, shuffle=True, random_state=0)
facts = {"cv": cv, "dataset": "digits", "label_names": LABELS, "experiment_name": "ten folds"}
knn = mleval.cross_validate(KNeighborsClassifier(), X, Y, method="k-NN", **facts)
tree = mleval.cross_validate(DecisionTreeClassifier(random_state=0), X, Y, method="tree", **facts)
knn.folds[["f1", "hamming_loss", "subset_accuracy"]].describe().loc[["mean", "std"]].round(3)

# %% [markdown]
# A search is logged with its winner's folds. The run says among how many candidates it was chosen:
# its values are optimistic.

# %%
grid = GridSearchCV(
    OneVsRestClassifier(LogisticRegression(max_iter=1000)),
    {"estimator__C": [0.1, 1, 10]},
    cv=cv,
    scoring=mleval.scoring(),
    refit="f1",
).fit(X, Y)
run_id = mleval.log_search(
    grid, method="binary relevance", dataset="digits", experiment_name="ten folds"
)
tags = mlflow.get_run(run_id).data.tags
print(grid.best_params_, "chosen among", tags["mleval.selected_among"])

# %% [markdown]
# **The loss profile** rises from the Hamming loss (k = 1: each wrong label counts by itself) to the
# subset 0/1 loss (k = 7: one wrong label is as bad as all). It is flat where errors fall on the
# same instances.

# %%
profiles = {
    name: ev.profile("binomial", kind="hard") for name, ev in (("k-NN", knn), ("tree", tree))
}
pd.DataFrame(
    {name: profile.losses for name, profile in profiles.items()}, index=profiles["tree"].parameters
).T.round(3)

# %% [markdown]
# Across runs, with claims that hold for every k they name; the search kept no predictions, and so
# has no profile.

# %%
terminal("mleval profile -n 'ten folds'")

# %% [markdown]
# **Several measures together, over the folds.**

# %%
terminal("mleval compare -n 'ten folds' --over folds -m micro_precision -m micro_recall")

# %% [markdown]
# ## Many datasets
#
# A claim about methods, and not about one dataset, needs several. Nine are made: counts of words,
# labelled by topics.

# %%
methods = {
    "binary relevance": OneVsRestClassifier(LogisticRegression()),
    "k-NN": KNeighborsClassifier(10),
    "tree": DecisionTreeClassifier(min_samples_leaf=3, random_state=0),
}
for n_labels in range(4, 13):
    words, topics = make_multilabel_classification(
        300, 30, n_classes=n_labels, n_labels=2, length=40, random_state=n_labels
    )
    for method, estimator in methods.items():
        mleval.cross_validate(
            estimator,
            words,
            topics,
            cv=cv,
            method=method,
            dataset=f"{n_labels} topics",
            experiment_name="topics",
        )

study = mleval.load_study(experiment_names=["topics"], measures=["sixteen"])
study.matrix("4 topics")[["f1", "hamming_loss", "subset_accuracy", "ranking_loss"]].round(3)

# %% [markdown]
# **One ranking of many measures.** From Python, for one dataset; in the terminal, for all.

# %%
mleval.promethee(study.matrix("4 topics"), minimize=study.minimize).flows.round(3)

# %%
terminal("mleval rank -n topics -m sixteen")

# %% [markdown]
# **Which differences are real?**

# %%
comparison = mleval.compare(study)
print(comparison.decision)
print(*(f"{better} is separated from {worse}" for better, worse in comparison.separated), sep="\n")

# %%
terminal("mleval compare -n topics -m sixteen --on subset_accuracy")

# %% [markdown]
# ## The report
#
# The same and more as one page, and, with `--log`, as a run in MLflow, whose id it writes. `mlflow
# server` shows the runs; open `http://localhost:5000/#/experiments?workflowType=machine_learning`.

# %%
terminal("mleval report -n topics -m sixteen --log")
print(*sorted(str(path) for path in Path().glob("mleval_report*")))
