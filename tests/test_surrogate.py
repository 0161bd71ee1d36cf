"""The surrogate study: against plain computations, interrupted and resumed, and read from the runs
alone.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import mlflow
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import GOLDEN, ROOT
from scipy import stats
from sklearn.datasets import make_multilabel_classification
from sklearn.model_selection import KFold, RepeatedKFold

import mlflow_mleval as mleval
from mlflow_mleval.measures.capacities import NearestNeighbourMinimiser
from mlflow_mleval.measures.dependence import binomial_loss
from mlflow_mleval.store import schema
from mlflow_mleval.surrogate import best_surrogates

PAPER = json.loads((GOLDEN / "huellermeier2022.json").read_text())
X, Y = make_multilabel_classification(90, 8, n_classes=4, n_labels=2, random_state=3)
STUDY = {"dataset": "made", "cv": 5, "n_neighbors": 5, "experiment_name": "surrogates"}


def runs_of(client, name="surrogates"):
    return client.search_runs(
        [client.get_experiment_by_name(name).experiment_id], order_by=["attributes.start_time"]
    )


def results_of(client):
    """What the runs of surrogates say, by method; the report apart."""
    return {
        run.data.tags[schema.TAG_METHOD]: run
        for run in runs_of(client)
        if schema.TAG_METHOD in run.data.tags
    }


# ---- the table -----------------------------------------------------------------------------------


def test_the_table_is_what_plain_cross_validation_gives(client):
    found = mleval.surrogate_study(X, Y, **STUDY, seed=7)
    for k in (1, 2, 3, 4):
        for fold, (train, test) in enumerate(KFold(5, shuffle=True, random_state=7).split(X)):
            predicted = (
                NearestNeighbourMinimiser(5, parameter=k).fit(X[train], Y[train]).predict(X[test])
            )
            expected = [binomial_loss(Y[test], predicted, target) for target in (1, 2, 3, 4)]
            np.testing.assert_allclose(found.by_fold.loc[(k, fold)], expected, rtol=1e-12)
        np.testing.assert_allclose(found.losses.loc[k], found.by_fold.loc[k].mean(), rtol=1e-12)
    assert found.warnings == () and found.n_folds == 5 and list(found.runs) == [1, 2, 3, 4]
    study = mleval.load_study(experiment_names=["surrogates"])
    assert study.methods == [f"surrogate k={k}" for k in (1, 2, 3, 4)] and study.datasets == [
        "made"
    ]
    np.testing.assert_allclose(study.cells("hamming_loss").loc["made"], found.losses[1], rtol=1e-12)
    assert (
        study.runs["n_train"].tolist() == [(72,) * 5] * 4
        and study.runs["split_digest"].nunique() == 1
    )


def test_marginal_and_joint_mode_of_the_paper(client):
    rows = PAPER["joint_vs_marginal_mode"]["distribution"]
    truth = np.repeat([row["y"] for row in rows], [round(16 * row["p"]) for row in rows], axis=0)
    everything = np.arange(16)
    found = mleval.surrogate_study(
        np.zeros((16, 1)),
        truth,
        dataset="modes",
        cv=[(everything, everything)],
        n_neighbors=16,
        experiment_name="e",
    )
    for k, label_set in ((1, [1, 1, 1]), (3, [0, 0, 0])):
        expected = [binomial_loss(truth, np.tile(label_set, (16, 1)), t) for t in (1, 2, 3)]
        np.testing.assert_allclose(found.losses.loc[k], expected, rtol=1e-12)
    assert found.best["surrogate"].tolist() == [1, 1, 3]
    assert "Without several folds" in found.sentences[-1]
    assert found.best["not_separated"].tolist() == [(1, 2, 3)] * 3


def test_some_surrogates_first_and_the_others_later(client):
    first = mleval.surrogate_study(X, Y, **STUDY, ks=[3, 1])
    assert first.losses.index.tolist() == [1, 3] and first.losses.columns.tolist() == [1, 2, 3, 4]
    assert first.differences("diagonal")[2].isna().all()
    whole = mleval.surrogate_study(X, Y, **STUDY)
    assert {k: whole.runs[k] for k in (1, 3)} == dict(first.runs) and list(whole.runs) == [
        1,
        2,
        3,
        4,
    ]
    pd.testing.assert_frame_equal(whole.losses.loc[[1, 3]], first.losses)


def test_differences_to_the_best_and_to_the_diagonal(client):
    found = mleval.surrogate_study(X, Y, **STUDY)
    whole = found.differences(clip=None)
    assert (
        (whole.min() == 0).all()
        and (whole.to_numpy() >= 0).all()
        and found.differences().to_numpy().max() <= 0.02
    )
    diagonal = found.differences("diagonal", clip=None)
    np.testing.assert_array_equal(np.diag(diagonal), 0)
    np.testing.assert_allclose(diagonal.loc[1, 4], found.losses.loc[1, 4] - found.losses.loc[4, 4])
    assert found.differences("diagonal", clip=0.001).abs().to_numpy().max() <= 0.001
    with pytest.raises(ValueError, match="`to` must be one of 'best', 'diagonal', got 'mean'"):
        found.differences("mean")


# ---- interrupted, repeated, refused --------------------------------------------------------------


def test_a_study_that_is_there_is_not_made_again(client, capsys):
    first = mleval.surrogate_study(X, Y, **STUDY, progress=True)
    assert "surrogates for made" in capsys.readouterr().err
    before = {run.info.run_id: (run.info.end_time, run.data.tags) for run in runs_of(client)}
    again = mleval.surrogate_study(X, Y, **STUDY, progress=True)
    loaded = mleval.load_surrogate_study("surrogates", "made")
    assert capsys.readouterr().err == ""
    assert {
        run.info.run_id: (run.info.end_time, run.data.tags) for run in runs_of(client)
    } == before and len(before) == 5
    for other in (again, loaded):
        assert other.runs == first.runs
        pd.testing.assert_frame_equal(other.by_fold, first.by_fold)
        pd.testing.assert_frame_equal(other.best, first.best)


@pytest.mark.thorough
def test_a_study_that_was_killed_goes_on(client, tmp_path):
    script = tmp_path / "study.py"
    script.write_text(
        "import os\n"
        "from mlflow import MlflowClient\n"
        "from sklearn.datasets import make_multilabel_classification\n"
        "import mlflow_mleval as mleval\n"
        "end, ended = MlflowClient.set_terminated, []\n"
        "def killed_at_the_fourth(*args, **options):\n"
        "    if len(ended) == 3:\n"
        "        os.kill(os.getpid(), 9)\n"
        "    ended.append(end(*args, **options))\n"
        "MlflowClient.set_terminated = killed_at_the_fourth\n"
        "X, Y = make_multilabel_classification(90, 8, n_classes=8, n_labels=3, random_state=3)\n"
        "mleval.surrogate_study(X, Y, dataset='made', cv=5, n_neighbors=3, experiment_name="
        "'surrogates')\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    left = results_of(client)
    assert done.returncode == -signal.SIGKILL and len(left) == 4
    assert sorted(run.data.tags[schema.TAG_STATUS] for run in left.values()) == ["complete"] * 3 + [
        "incomplete"
    ]
    many_x, many_y = make_multilabel_classification(90, 8, n_classes=8, n_labels=3, random_state=3)
    options = {"cv": 5, "n_neighbors": 3, "experiment_name": "surrogates"}
    resumed = mleval.surrogate_study(many_x, many_y, dataset="made", **options)
    runs = [run for run in runs_of(client) if schema.TAG_METHOD in run.data.tags]
    assert sorted(run.data.tags[schema.TAG_METHOD] for run in runs) == [
        f"surrogate k={k}" for k in range(1, 9)
    ]
    assert {(run.data.tags[schema.TAG_STATUS], run.info.status) for run in runs} == {
        ("complete", "FINISHED")
    }
    assert {run.info.run_id for run in left.values()} <= set(resumed.runs.values())
    whole = mleval.surrogate_study(many_x, many_y, dataset="undisturbed", **options)
    pd.testing.assert_frame_equal(resumed.by_fold, whole.by_fold)
    for k, run_id in resumed.runs.items():
        mine, theirs = client.get_run(run_id).data, client.get_run(whole.runs[k]).data
        assert (
            mine.metrics == theirs.metrics
            and mine.tags[schema.TAG_PROFILE] == theirs.tags[schema.TAG_PROFILE]
        )


def test_a_run_that_was_begun_is_completed(client):
    first = mleval.surrogate_study(X, Y, **STUDY)
    client.set_tag(first.runs[2], schema.TAG_STATUS, schema.INCOMPLETE)
    client.set_tag(first.runs[2], schema.TAG_SURROGATE, "")  # killed right after the run was made
    client.delete_run(first.runs[3])
    assert mleval.load_surrogate_study("surrogates", "made").losses.index.tolist() == [1, 4]
    again = mleval.surrogate_study(X, Y, **STUDY)
    assert again.runs[2] == first.runs[2] and again.runs[3] != first.runs[3]
    pd.testing.assert_frame_equal(again.by_fold, first.by_fold)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"X": X + 1e-9}, "features"),
        ({"Y": 1 - Y}, "labels"),
        ({"label_names": list("abcd")}, "labels"),
        ({"seed": 1}, "folds"),
        ({"cv": 6}, "folds"),
        ({"n_neighbors": 6}, "n_neighbors"),
    ],
)
def test_another_study_of_the_same_name_is_refused(client, change, what):
    mleval.surrogate_study(X, Y, **STUDY, ks=[1])
    options = {"X": X, "Y": Y, **STUDY, **change}
    with pytest.raises(
        mleval.MlevalError,
        match=rf"holds runs of a surrogate study of 'made' with other {what}, such as",
    ):
        mleval.surrogate_study(**options)
    assert len(results_of(client)) == 1
    mleval.surrogate_study(**(options | {"dataset": "another", "ks": [1]}))
    assert (
        len(results_of(client)) == 1 and len(runs_of(client)) == 4
    )  # the same method on two datasets, two reports


def test_a_result_of_the_same_name_by_hand_is_refused(client):
    mleval.log_evaluation(
        mleval.evaluate(Y, y_pred=Y),
        method="surrogate k=2",
        dataset="made",
        experiment_name="surrogates",
    )
    with pytest.raises(mleval.MlevalError, match="with other labels, features, folds, n_neighbors"):
        mleval.surrogate_study(X, Y, **STUDY)
    with pytest.raises(mleval.MlevalError, match="holds no complete run of a surrogate study"):
        mleval.load_surrogate_study("surrogates", "made")


def test_mixed_runs_are_not_put_into_one_table(client):
    mleval.surrogate_study(X, Y, **STUDY, ks=[1])
    (run_id,) = mleval.surrogate_study(
        X, Y, **(STUDY | {"dataset": "other", "n_neighbors": 3}), ks=[2]
    ).runs.values()
    client.set_tag(run_id, schema.TAG_DATASET, "made")
    with pytest.raises(
        mleval.MlevalError, match="are of different data, folds or numbers of neighbours"
    ):
        mleval.load_surrogate_study("surrogates", "made")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ks": [0, 2]}, r"`k` must be an integer in 1\.\.4"),
        ({"ks": []}, "`k` must be a number or a sequence"),
        ({"X": X[1:]}, "inconsistent numbers of samples"),
        ({"X": np.where(X > 5, np.nan, X)}, "Input X contains NaN"),
        ({"Y": Y * 2}, "`Y` must hold only 0 and 1"),
        ({"n_neighbors": 80}, "`n_neighbors` must be an integer from 1 to the number of instances"),
        ({"max_candidates": 1}, "`max_candidates` must be at least"),
        ({"dataset": ""}, "`dataset` must be a name that MLflow can store"),
        ({"cv": 1}, "at least one train/test split"),
    ],
)
def test_bad_input_is_named_and_leaves_no_run(client, change, message):
    with pytest.raises(ValueError, match=message):
        mleval.surrogate_study(**({"X": X, "Y": Y, **STUDY} | change))
    assert client.get_experiment_by_name("surrogates") is None or not runs_of(client)


def test_a_study_that_is_not_there(client):
    mlflow.create_experiment("surrogates")
    with pytest.raises(
        mleval.MlevalError, match="holds no complete run of a surrogate study of 'made'"
    ):
        mleval.load_surrogate_study("surrogates", "made")


def test_the_experiment_that_mlflow_is_set_to(client):
    mlflow.set_experiment("mine")
    found = mleval.surrogate_study(
        pd.DataFrame(X), pd.DataFrame(Y, columns=list("abcd")), dataset="d", cv=KFold(3), ks=[1]
    )
    assert found.experiment == "mine" and found.n_folds == 3


def test_mlflow_autologging_makes_no_runs_of_its_own(client):
    mlflow.sklearn.autolog(log_models=False)
    try:
        mleval.surrogate_study(X, Y, **STUDY, ks=[1])
    finally:
        mlflow.sklearn.autolog(disable=True)
    assert len(runs_of(client)) == 2 and not runs_of(client, "Default")


def test_repeated_cross_validation_is_tested_by_its_own_ratio(client):
    found = mleval.surrogate_study(
        X, Y, **(STUDY | {"cv": RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)})
    )
    assert found.n_folds == 6
    pd.testing.assert_frame_equal(found.best, best_surrogates(found.by_fold, ratio=0.5))


def test_a_run_without_room_for_its_folds_leaves_no_uncertainty(client):
    found = mleval.surrogate_study(X, Y, **STUDY)
    tag = schema.decode_profile(client.get_run(found.runs[2]).data.tags[schema.TAG_PROFILE])
    together = np.sum([row + [0] * (5 - len(row)) for row in tag.rows], axis=0).tolist()
    pooled = {"schema": 1, "n_labels": 4, "pooled": True, "counts": [together]}
    client.set_tag(found.runs[2], schema.TAG_PROFILE, json.dumps(pooled))
    loaded = mleval.load_surrogate_study("surrogates", "made")
    np.testing.assert_allclose(loaded.losses, found.losses, rtol=1e-12)
    assert loaded.n_folds == 1 and set(loaded.best["not_separated"]) == {(1, 2, 3, 4)}
    assert (
        any("folds together" in text for text in loaded.warnings)
        and "folds together" in loaded.files()["surrogates.html"]
    )


# ---- which surrogates may be the best ------------------------------------------------------------


def frame(losses):
    """Of an array (surrogates, folds, targets)."""
    count, n_folds, n_targets = losses.shape
    index = pd.MultiIndex.from_product(
        [range(1, count + 1), range(n_folds)], names=["surrogate", "fold"]
    )
    return pd.DataFrame(losses.reshape(-1, n_targets), index, range(1, n_targets + 1))


@pytest.mark.parametrize("seed", range(5))
def test_not_separated_is_what_paired_tests_leave(seed):
    rng = np.random.default_rng(seed)
    losses = 0.5 + 0.02 * rng.normal(size=(6, 10, 3)) + 0.02 * rng.normal(size=(6, 1, 3))
    found = best_surrogates(frame(losses), ratio=0)
    for target in range(3):
        values = losses[:, :, target]
        kept = [
            a + 1
            for a in range(6)
            if all(
                stats.ttest_rel(values[a], values[b], alternative="greater").pvalue * 5 > 0.05
                for b in range(6)
                if a != b
            )
        ]
        assert found.loc[target + 1, "not_separated"] == tuple(kept)
        assert found.loc[target + 1, "surrogate"] == values.mean(axis=1).argmin() + 1
        assert found.loc[target + 1, "loss"] == pytest.approx(values.mean(axis=1).min())


def test_the_truly_best_is_lost_no_more_often_than_allowed():
    rng = np.random.default_rng(0)
    means = np.array([0.5, 0.5, 0.5, 0.5, 0.5, 0.51])[
        :, None, None
    ]  # five are equally good: the worst case
    found = best_surrogates(frame(means + 0.02 * rng.normal(size=(6, 10, 2000))), ratio=0)
    lost = np.mean([1 not in kept for kept in found["not_separated"]])
    assert 0.01 < lost < 0.06
    corrected = best_surrogates(frame(means + 0.02 * rng.normal(size=(6, 10, 200))))
    assert np.mean([1 not in kept for kept in corrected["not_separated"]]) < 0.02


@given(st.integers(1, 6), st.integers(1, 8), st.integers(0, 10**6))
def test_what_decides_is_the_difference_of_surrogates_by_fold(count, n_folds, seed):
    rng = np.random.default_rng(seed)
    losses = rng.random((count, n_folds, 2)).round(1) + 0.1 * rng.random((count, 1, 1))
    found = best_surrogates(frame(losses))
    assert all(
        set(row.equal) <= set(row.not_separated) and row.surrogate == min(row.equal)
        for row in found.itertuples()
    )
    harder = best_surrogates(
        frame(losses + rng.random((1, n_folds, 1)))
    )  # folds that are harder for all alike
    pd.testing.assert_frame_equal(harder.drop(columns="loss"), found.drop(columns="loss"))
    order = rng.permutation(count)
    turned = best_surrogates(frame(losses[order]))
    assert [{order[k - 1] + 1 for k in kept} for kept in turned["not_separated"]] == [
        *map(set, found["not_separated"])
    ]


def test_equal_surrogates_and_constant_differences():
    losses = np.full((3, 4, 1), 0.25)
    losses[2] += 0.1
    found = best_surrogates(frame(losses)).loc[1]
    assert found["surrogate"] == 1 and found["equal"] == (1, 2)
    assert found["not_separated"] == (
        1,
        2,
        3,
    )  # four folds with the same difference say nothing of its uncertainty


def test_equal_surrogates_are_named_together():
    losses = np.full((3, 4, 2), 0.25)
    losses[2] += 0.1
    best = best_surrogates(frame(losses))
    table = pd.DataFrame(losses.mean(axis=1), index=[1, 2, 3], columns=[1, 2])
    study = mleval.SurrogateStudy("made", table, frame(losses), best, 9, 0.05, {}, "surrogates")
    assert (
        study.sentences[0] == "The surrogate of least mean loss is k = 1, 2 alike for targets 1, 2."
    )


@pytest.mark.parametrize(
    "losses", [np.full((2, 3, 1), np.nan), frame(np.zeros((2, 3, 1))).drop((2, 1))]
)
def test_folds_that_are_missing_are_named(losses):
    with pytest.raises(
        ValueError,
        match="`by_fold` must hold a finite loss of every surrogate on each of the 3 folds",
    ):
        best_surrogates(losses if isinstance(losses, pd.DataFrame) else frame(losses))


# ---- files ---------------------------------------------------------------------------------------


def test_the_report_lies_in_the_store_once(client):
    found = mleval.surrogate_study(X, Y, **STUDY, ks=[1, 2])
    (cut,) = [
        run for run in runs_of(client) if run.data.tags[schema.TAG_KIND] == schema.KIND_REPORT
    ]
    client.set_terminated(cut.info.run_id, "FAILED")  # killed while it was written
    for _ in range(2):
        mleval.surrogate_study(X, Y, **STUDY, ks=[1, 2])
    reports = [
        run for run in runs_of(client) if run.data.tags[schema.TAG_KIND] == schema.KIND_REPORT
    ]
    (report,) = [run for run in reports if run.info.run_id != cut.info.run_id]
    assert (
        report.info.run_name == "surrogates for made"
        and found.sentences[0] in report.data.tags["mlflow.note.content"]
    )
    path = mlflow.artifacts.download_artifacts(
        run_id=report.info.run_id, artifact_path="mleval/surrogates.csv"
    )
    assert Path(path).read_bytes().decode() == found.files()["surrogates.csv"]
    page = mlflow.artifacts.download_artifacts(
        run_id=report.info.run_id, artifact_path="mleval_report.html"
    )
    assert Path(page).read_text() == found.files()["surrogates.html"]


def test_a_study_reports_itself(client):
    found = mleval.surrogate_study(X, Y, **STUDY)
    document = found.report()
    assert (
        document.to_html() == found.files()["surrogates.html"]
        and found.sentences[0] in document.to_markdown()
    )
    assert [
        row["loss"] for row in document.to_dict()["losses"]
    ] == found.losses.to_numpy().ravel().tolist()
    assert (
        "Best surrogate by target" in str(document)
        and r"\label{tab:mleval-surrogates}" in document.to_latex()
    )


def test_saved_files_hold_the_table_and_hostile_names_as_text(client, tmp_path):
    name = "<script>alert(1)</script> 'a\" = b"
    found = mleval.surrogate_study(X, Y, **(STUDY | {"dataset": name}))
    paths = found.save(tmp_path / "deep" / "folder")
    assert [path.name for path in paths] == ["surrogates.html", "surrogates.svg", "surrogates.csv"]
    assert "<script>alert" not in paths[0].read_text()
    assert ElementTree.parse(paths[1]).getroot().tag.endswith("svg")
    table = pd.read_csv(paths[2])
    assert table.columns.tolist() == [
        "surrogate",
        "target",
        "loss",
        "difference",
        "best",
        "not_separated",
    ]
    wide = table.pivot(index="surrogate", columns="target", values="loss")
    np.testing.assert_array_equal(wide.to_numpy(), found.losses.to_numpy())
    assert (
        table.groupby("target")["best"].sum().ge(1).all()
        and (table.loc[table["best"], "difference"].abs() < 1e-12).all()
    )
    assert mleval.load_surrogate_study("surrogates", name).runs == found.runs
