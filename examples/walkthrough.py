# %% [markdown]
# # From data to a verdict
#
# Every way in, and every question that can be asked afterwards, on scikit-learn's handwritten digits. The labels of an image are
# the segments a to g that its digit lights in a seven-segment display. VS Code and Jupytext open this file as a notebook;
# [walkthrough.md](walkthrough.md) shows it with what it prints. It takes a minute and writes to `mlflow.db` in the folder it
# runs in.

# %%
import shlex
import subprocess
import sys
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import mlflow_mleval as mleval

SEGMENTS = ["abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg"]
LABELS = list("abcdefg")
images, digits = load_digits(return_X_y=True)
rows = np.random.default_rng(0).permutation(len(digits))[:800]
X = images[rows] / 16
Y = np.array([[segment in SEGMENTS[digit] for segment in LABELS] for digit in digits[rows]], dtype=int)
X_train, Y_train, X_test, Y_test = X[:500], Y[:500], X[500:], Y[500:]
pd.DataFrame(Y, index=digits[rows], columns=LABELS).drop_duplicates().sort_index()


# %%
def terminal(command):
    """What one would type in a terminal."""
    program, *arguments = shlex.split(command)
    path = Path(sys.executable).with_name(program)
    print(subprocess.run([path, *arguments], stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout, end="")


# %% [markdown]
# ## One model, held-out data
#
# **A script that you have.** `autolog` sees `score` and evaluates in full what was asked for one number.

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
    chain.predict_proba, X_test, targets=Y_test, model_type="multilabel", evaluators="mleval", evaluator_config=config
)
print(f"{len(found.metrics)} measures; f1 {found.metrics['mleval/f1']:.3f}; among the artifacts:", *sorted(found.artifacts)[-3:])

# %% [markdown]
# **Predictions made elsewhere.** A file with truth and scores by label; another program may have written it.

# %%
forest = RandomForestClassifier(50, random_state=0).fit(X_train, Y_train)
scores = np.column_stack([by_label[:, 1] for by_label in forest.predict_proba(X_test)])
table = pd.DataFrame({f"true_{a}": Y_test[:, i] for i, a in enumerate(LABELS)})
table.assign(**{f"score_{a}": scores[:, i] for i, a in enumerate(LABELS)}).to_csv("forest.csv", index=False)
terminal("mleval evaluate forest.csv --method forest --dataset digits -n 'held out'")

# %% [markdown]
# **Who is better, instance by instance?** Two runs kept a table of instances, the third one did not.

# %%
terminal("mleval compare -n 'held out' --over instances -m f1 -m accuracy")

# %% [markdown]
# ## One dataset, many folds
#
# `cross_validate` fits, predicts and evaluates each fold, and logs one run. All methods get the same folds, which makes
# them pairs.

# %%
cv = KFold(10, shuffle=True, random_state=0)
facts = {"cv": cv, "dataset": "digits", "label_names": LABELS, "experiment_name": "ten folds"}
knn = mleval.cross_validate(KNeighborsClassifier(), X, Y, method="k-NN", **facts)
tree = mleval.cross_validate(DecisionTreeClassifier(random_state=0), X, Y, method="tree", **facts)
knn.folds[["f1", "hamming_loss", "subset_accuracy"]].describe().loc[["mean", "std"]].round(3)

# %% [markdown]
# A search is logged with its winner's folds. The run says among how many candidates it was chosen: its values are optimistic.

# %%
grid = GridSearchCV(
    OneVsRestClassifier(LogisticRegression(max_iter=1000)), {"estimator__C": [0.1, 1, 10]},
    cv=cv, scoring=mleval.scoring(), refit="f1",
).fit(X, Y)  # fmt: skip
run_id = mleval.log_search(grid, method="binary relevance", dataset="digits", experiment_name="ten folds")
tags = mlflow.get_run(run_id).data.tags
print(grid.best_params_, "chosen among", tags["mleval.selected_among"])

# %% [markdown]
# **The loss profile** rises from the Hamming loss (k = 1: each wrong label counts by itself) to the subset 0/1 loss (k = 7: one
# wrong label is as bad as all). It is flat where errors fall on the same instances.

# %%
profiles = {name: ev.profile("binomial", kind="hard") for name, ev in (("k-NN", knn), ("tree", tree))}
pd.DataFrame({name: profile.losses for name, profile in profiles.items()}, index=profiles["tree"].parameters).T.round(3)

# %% [markdown]
# Across runs, with claims that hold for every k they name; the search kept no predictions, and so has no profile.

# %%
terminal("mleval profile -n 'ten folds'")

# %% [markdown]
# **Several measures together, over the folds.**

# %%
terminal("mleval compare -n 'ten folds' --over folds -m micro_precision -m micro_recall")

# %% [markdown]
# ## Many datasets
#
# A claim about methods, and not about one dataset, needs several. Nine are made: counts of words, labelled by topics.

# %%
methods = {
    "binary relevance": OneVsRestClassifier(LogisticRegression()),
    "k-NN": KNeighborsClassifier(10),
    "tree": DecisionTreeClassifier(min_samples_leaf=3, random_state=0),
}
for n_labels in range(4, 13):
    words, topics = make_multilabel_classification(300, 30, n_classes=n_labels, n_labels=2, length=40, random_state=n_labels)
    for method, estimator in methods.items():
        mleval.cross_validate(estimator, words, topics, cv=cv, method=method, dataset=f"{n_labels} topics",
                              experiment_name="topics")  # fmt: skip

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
# The same and more as one page, and, with `--log`, as a run in MLflow, whose id it writes. `mlflow server` shows the runs; open
# `http://localhost:5000/#/experiments?workflowType=machine_learning`.

# %%
terminal("mleval report -n topics -m sixteen --log")
print(*sorted(str(path) for path in Path().glob("mleval_report*")))
