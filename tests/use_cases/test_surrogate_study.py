"""The study of surrogate losses: against plain computations, and read from its runs."""

import json

import numpy as np
import pandas as pd
import pytest
from example_runs import loaded
from places import GOLDEN, STUDIES
from scipy import stats
from sklearn.datasets import make_multilabel_classification
from sklearn.model_selection import KFold

import mlflow_mleval as mleval
from mlflow_mleval.losses import NearestNeighbourMinimiser, binomial_loss

PAPER = json.loads((GOLDEN / "huellermeier2022.json").read_text())


@pytest.fixture(scope="module")
def example():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(STUDIES)
        yield loaded(STUDIES / "surrogate_study.py")


def test_the_table_is_what_plain_cross_validation_gives_and_is_made_once(example, client):
    X, Y = make_multilabel_classification(90, 8, n_classes=4, n_labels=2, random_state=3)
    folds = KFold(5, shuffle=True, random_state=7)
    found = example.surrogate_study(X, Y, "made", folds, n_neighbors=5)
    for k in (1, 2, 3, 4):
        expected = []
        for train, test in folds.split(X):
            minimiser = NearestNeighbourMinimiser(5, parameter=k).fit(X[train], Y[train])
            found_labels = minimiser.predict(X[test])
            expected.append([binomial_loss(Y[test], found_labels, t) for t in (1, 2, 3, 4)])
        np.testing.assert_allclose(found.losses.loc[k], np.mean(expected, axis=0), rtol=1e-12)
    study = mleval.load_study(experiment_names=["surrogates"])
    assert study.methods == [f"surrogate k={k}" for k in (1, 2, 3, 4)]
    client.delete_run(study.runs["run_id"].iloc[2])
    again = example.surrogate_study(X, Y, "made", folds, n_neighbors=5)
    pd.testing.assert_frame_equal(again.losses, found.losses)
    later = mleval.load_study(experiment_names=["surrogates"]).runs["run_id"]
    assert len(later) == 4 and len({*later} & {*study.runs["run_id"]}) == 3
    assert (found.behind.min() == 0).all() and example.heatmap_table(found)[2].startswith("| 1 |")


def test_marginal_and_joint_mode_of_the_paper():
    rows = PAPER["joint_vs_marginal_mode"]["distribution"]
    truth = np.repeat([row["y"] for row in rows], [round(16 * row["p"]) for row in rows], axis=0)
    learner = NearestNeighbourMinimiser(16).fit(np.zeros((16, 1)), truth)
    by_k = learner.predict_all(np.zeros((1, 1)), [1, 3])
    assert by_k[:, 0].astype(int).tolist() == [[1, 1, 1], [0, 0, 0]]


def frame(losses):
    """Of an array (surrogates, folds, targets)."""
    count, n_folds, n_targets = losses.shape
    index = pd.MultiIndex.from_product([range(1, count + 1), range(n_folds)])
    return pd.DataFrame(losses.reshape(-1, n_targets), index, range(1, n_targets + 1))


def test_not_separated_is_what_paired_tests_leave(example):
    rng = np.random.default_rng(0)
    losses = 0.5 + 0.02 * rng.normal(size=(6, 10, 3)) + 0.02 * rng.normal(size=(6, 1, 3))
    found = example.best_surrogates(frame(losses), ratio=0)
    for target in range(3):
        values = losses[:, :, target]
        kept = []
        for a in range(6):
            others, how = np.delete(values, a, 0), {"axis": 1, "alternative": "greater"}
            if (stats.ttest_rel(values[a], others, **how).pvalue * 5 > 0.05).all():
                kept.append(a + 1)
        assert found.loc[target + 1, "not_separated"] == tuple(kept)
        assert found.loc[target + 1, "surrogate"] == values.mean(axis=1).argmin() + 1
