"""`mlflow.models.evaluate(..., evaluators="mleval")` for every shape that MLflow lets through."""

import io
import subprocess
import sys
from functools import partial

import mlflow
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsRegressor

import mlflow_mleval as mleval

N, K = 60, 4
NAMES = list("abcd")
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 5))
Y = (X[:, :K] + 0.5 * rng.normal(size=(N, K)) > 0).astype(int)
S = 1 / (1 + np.exp(-X[:, :K]))
P = (S >= 0.5).astype(int)
FEATURES = [f"x{i}" for i in range(5)]
FRAME = pd.DataFrame(X, columns=FEATURES)


def score(data):
    """A model that returns scores, whatever it is given."""
    return 1 / (1 + np.exp(-np.asarray(data, float)[:, :K]))


def seeing(data):
    """Such a model, which is given the features and nothing else."""
    assert list(data) == FEATURES
    return score(data)


def lists(matrix):
    return list(map(list, matrix.tolist()))


def evaluate(model=None, data=None, config=None, model_type="multilabel", **options):
    return mlflow.models.evaluate(
        model, data, model_type=model_type, evaluators="mleval", evaluator_config=config, **options
    )


def of(*args, **options):
    """The call, to be made later."""
    return partial(evaluate, *args, **options)


def same(result, expected, client):
    """The result, and what the run holds, are those of the evaluation, each metric once."""
    found = {name.removeprefix("mleval/"): value for name, value in result.metrics.items()}
    found.pop("predict_time", None)
    assert found == pytest.approx(expected.measures, rel=1e-14)
    run = client.get_run(result.run_id)
    assert run.data.tags["mleval.status"] == "complete" and run.info.status == "FINISHED"
    for name, value in result.metrics.items():
        assert [m.value for m in client.get_metric_history(result.run_id, name)] == [value]


LISTED = FRAME.assign(y=lists(Y))
COLUMNS = {"targets": "y", "predictions": "p"}
LABEL_COLUMNS = FRAME.assign(**{f"t_{n}": Y[:, i] for i, n in enumerate(NAMES)})
TARGETS = [f"t_{n}" for n in NAMES]
STATIC = LABEL_COLUMNS.assign(
    **{f"p_{n}": P[:, i] for i, n in enumerate(NAMES)},
    **{f"s_{n}": S[:, i] for i, n in enumerate(NAMES)},
)
PREDICTED, SCORED = [f"p_{n}" for n in NAMES], [f"s_{n}" for n in NAMES]

SHAPES = {
    "arrays": of(score, X, targets=Y),
    "lists of lists": of(score, X.tolist(), targets=Y.tolist()),
    "named labels": of(score, X, {"label_names": NAMES}, targets=Y),
    "a column of lists": of(seeing, LISTED, targets="y"),
    "a column of arrays": of(score, FRAME.assign(y=list(Y)), targets="y"),
    "label columns": of(seeing, LABEL_COLUMNS, {"targets": TARGETS}),
    "a column of lists in the config": of(score, LISTED, {"targets": ["y"]}),
    "static lists": of(None, LISTED.assign(p=lists(P)), **COLUMNS),
    "static from_pandas": of(None, mlflow.data.from_pandas(LISTED.assign(p=lists(S)), **COLUMNS)),
    "static columns": of(
        None, STATIC, {"targets": TARGETS, "predictions": PREDICTED, "scores": SCORED}
    ),
    "one label": of(None, STATIC, {"targets": ["t_a"], "scores": ["s_a"], "label_names": range(1)}),
    "scores as predictions": of(None, STATIC, {"targets": TARGETS, "predictions": SCORED}),
    "zeros and ones as scores": of(None, STATIC, {"targets": TARGETS, "scores": PREDICTED}),
    "returned columns in another order": of(
        lambda x: pd.DataFrame(score(x), columns=NAMES)[[*"cabd"]],
        X,
        {"label_names": NAMES},
        targets=Y,
    ),
    "returned more columns": of(
        lambda x: STATIC, X, {"predictions": PREDICTED, "scores": SCORED}, targets=Y
    ),
    "returned a column of lists": of(
        lambda x: pd.DataFrame({"out": lists(score(x)), "id": 1}), X, targets=Y, predictions="out"
    ),
    "returned a series of lists": of(lambda x: pd.Series(lists(score(x))), X, targets=Y),
    "returned predict_proba by label": of(
        lambda x: [np.column_stack([1 - c, c]) for c in score(x).T], X, targets=Y
    ),
    "returned labels": of(lambda x: score(x) >= 0.5, X, targets=Y),
    "returned scipy.sparse": of(lambda x: sparse.csr_array(score(x)), X, targets=Y),
}
#: What these give where it is not the scores S of labels 0..K-1.
OTHERS = {
    "named labels": ({"y_score": S}, NAMES),
    "label columns": ({"y_score": S}, TARGETS),
    "static lists": ({"y_pred": P}, range(K)),
    "static columns": ({"y_pred": P, "y_score": S}, TARGETS),
    "one label": ({"y_score": S[:, :1]}, range(1)),
    "scores as predictions": ({"y_score": S}, TARGETS),
    "zeros and ones as scores": ({"y_score": P}, TARGETS),
    "returned columns in another order": ({"y_score": S}, NAMES),
    "returned more columns": ({"y_pred": P, "y_score": S}, range(K)),
    "returned labels": ({"y_pred": P}, range(K)),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_gives_the_evaluation_of_the_arrays(client, shape):
    given, names = OTHERS.get(shape, ({"y_score": S}, range(K)))
    same(SHAPES[shape](), mleval.evaluate(Y[:, : len(names)], **given, label_names=names), client)


def test_options_are_those_of_evaluate_and_log_evaluation(client):
    how = {"threshold": 0.4, "conventions": "mulan", "label_names": NAMES}
    config = {"method": "logistic", "dataset": "mine", "log_instances": True, **how}
    config["measures"] = ["f1", "ranking", "micro_ap"]
    result = evaluate(score, X, config, targets=Y)
    ev = mleval.evaluate(Y, S, **how, measures="micro_ap")
    wanted = ("f1", *mleval.measures.registry.SETS["ranking"], "micro_ap")
    assert result.metrics == {f"mleval/{m}": ev.measures[m] for m in wanted}
    tags = client.get_run(result.run_id).data.tags
    assert tags["mleval.method"] == "logistic" and tags["mleval.dataset"] == "mine"
    assert tags["mleval.conventions"] == "mulan"
    assert "mleval/instances.parquet" in result.artifacts
    study = mleval.load_study(experiment_ids=["0"])
    assert study.values.loc[("mine", "logistic"), "f1"] == ev.measures["f1"]


def labels_of(result):
    """The names of the labels as the run holds them."""
    counts = result.artifacts["mleval/data.zip"].content["counts.parquet"]
    return pd.read_parquet(io.BytesIO(counts))["label"].tolist()


def test_artifacts_are_those_of_the_run(client, tmp_path):
    result = evaluate(score, X, {"label_names": NAMES}, targets=Y)
    found = result.artifacts
    assert {"mleval_report.html", "mleval/data.zip"} == set(found)
    data = found["mleval/data.zip"].content
    assert labels_of(result) == NAMES
    assert data["profile.csv"].startswith(b"family,kind,parameter")
    assert "<html" in found["mleval_report.html"].content
    result.save(tmp_path / "saved")
    loaded = mlflow.models.EvaluationResult.load(tmp_path / "saved")
    assert loaded.metrics == result.metrics and loaded.artifacts.keys() == found.keys()
    assert loaded.artifacts["mleval/data.zip"].content == data


H = mleval.Hierarchy([("r", "a"), ("r", "b"), ("b", "c"), ("b", "d")])


def class_sets(matrix):
    return [[n for n, on in zip(NAMES, row, strict=True) if on] for row in matrix]


@pytest.mark.parametrize("kind", [list, pd.Series, lambda sets: pd.DataFrame({"out": sets})])
def test_class_sets_of_a_hierarchy(client, kind):
    how = {"hierarchy": H, "max_distance": 3}, "hierarchical"
    expected = mleval.evaluate_hierarchical(class_sets(Y), class_sets(P), H, max_distance=3)
    data = FRAME.assign(y=class_sets(Y))
    same(evaluate(None, data.assign(p=class_sets(P)), *how, **COLUMNS), expected, client)
    model = lambda x: kind(class_sets(score(x) >= 0.5))  # noqa: E731
    same(evaluate(model, data, *how, targets="y"), expected, client)


def test_label_matrices_of_a_hierarchy(client):
    expected = mleval.evaluate(Y, S, label_names=NAMES, hierarchy=H, count_root=True)
    config = {"hierarchy": H, "label_names": NAMES, "count_root": True}
    for model_type in ("hierarchical", "multilabel"):
        same(evaluate(score, X, config, model_type, targets=Y), expected, client)
    same(evaluate(score, LISTED, config, "hierarchical", targets="y"), expected, client)


@pytest.fixture(scope="module")
def estimator():
    return MultiOutputClassifier(LogisticRegression(C=10)).fit(X, Y)


def logged(estimator, **options):
    with mlflow.start_run():
        return mlflow.sklearn.log_model(estimator, name="model", pip_requirements=[], **options)


def test_a_logged_estimator_gives_scores_and_its_metrics_once(client, estimator):
    s = np.column_stack([part[:, 1] for part in estimator.predict_proba(X)])
    expected = mleval.evaluate(Y, s, estimator.predict(X))
    info = logged(estimator)
    for model in (info.model_uri, mlflow.pyfunc.load_model(info.model_uri)):
        result = evaluate(model, X, targets=Y)
        same(result, expected, client)
        tags = client.get_run(result.run_id).data.tags
        assert tags["mleval.method"] == "MultiOutputClassifier(estimator=LogisticRegression(C=10))"
        assert tags["mleval.dataset"] == f"60x4 labels-{tags['mleval.dataset_digest'][:8]}"
    metrics = {m.key: m for m in client.get_logged_model(info.model_id).metrics}
    assert metrics["mleval/f1"].value == expected.measures["f1"]  # the model's own page shows them
    wanted = [expected.measures["f1"]]
    assert mleval.load_study(experiment_ids=["0"]).values["f1"].tolist() == wanted
    cut = evaluate(info.model_uri, X, {"threshold": 0.2}, targets=Y)
    assert cut.metrics["mleval/f1"] == mleval.evaluate(Y, s, threshold=0.2).measures["f1"]
    scoring = logged(estimator, pyfunc_predict_fn="predict_proba").model_uri
    same(evaluate(scoring, X, targets=Y), mleval.evaluate(Y, s), client)


def test_a_logged_estimator_gets_the_columns_of_its_signature(client, estimator):
    s = np.column_stack([part[:, 1] for part in estimator.predict_proba(X)])
    info = logged(estimator, signature=mlflow.models.infer_signature(FRAME, Y))
    data = LABEL_COLUMNS[[*TARGETS, *FEATURES[::-1]]].assign(id="x")
    expected = mleval.evaluate(Y, s, estimator.predict(X), label_names=TARGETS)
    same(evaluate(info.model_uri, data, {"targets": TARGETS}), expected, client)


def test_a_logged_estimator_without_scores_says_so(client):
    nearest = KNeighborsRegressor(1, algorithm="brute").fit(X, Y)
    said = "there are no scores .*neither predict_proba nor decision_function"
    with pytest.warns(UserWarning, match=said):
        result = evaluate(logged(nearest).model_uri, X, targets=Y)
    same(result, mleval.evaluate(Y, y_pred=Y), client)


def test_the_active_run_takes_it_and_stays_active(client):
    with mlflow.start_run(run_name="mine") as run:
        result = evaluate(score, X, targets=Y)
        assert mlflow.active_run().info.run_id == run.info.run_id == result.run_id
        with pytest.raises(mleval.MlevalError, match="holds the evaluation of"):
            evaluate(score, X, {"method": "other"}, targets=Y)
    assert client.get_run(run.info.run_id).data.tags["mleval.method"] == "mine"


def test_datasets_have_the_names_and_label_columns_those_that_the_user_gives(client):
    result = evaluate(score, mlflow.data.from_numpy(X, targets=Y, name="emotions"))
    same(result, mleval.evaluate(Y, S), client)
    assert client.get_run(result.run_id).data.tags["mleval.dataset"] == "emotions"
    columns = mlflow.data.from_pandas(LABEL_COLUMNS, name="scene")
    result = evaluate(score, columns, {"targets": TARGETS, "label_names": NAMES})
    assert client.get_run(result.run_id).data.tags["mleval.dataset"] == "scene"
    assert labels_of(result) == NAMES


WRONG = {
    "`targets` must be given, got none": of(score, X),
    "got one value an instance": of(score, X, targets=Y[:, 0]),
    "as many numbers for each instance": of(score, FRAME.assign(y=class_sets(Y)), targets="y"),
    "must be given without a model": of(None, LABEL_COLUMNS, {"targets": TARGETS}),
    "got 'treshold'": of(score, X, {"treshold": 0.3}, targets=Y),
    "must name columns of the data, got 't_a'": of(score, FRAME, {"targets": ["t_a", "t_b"]}),
    "unless the data is a DataFrame": of(score, X, {"targets": TARGETS}),
    "unless the model's output is a DataFrame": of(score, X, {"predictions": ["a"]}, targets=Y),
    "must be left out where": of(score, LABEL_COLUMNS, {"targets": TARGETS}, targets="t_a"),
    "one column for each of the 4 labels": of(lambda x: score(x)[:, :3], X, targets=Y),
    "must hold only 0 and 1": of(score, X, targets=Y * 2),
    "`measures` must name": of(score, X, {"measures": ["f9"]}, targets=Y),
    "'hierarchy'.* must be a Hierarchy, got NoneType": of(
        score, X, None, "hierarchical", targets=Y
    ),
    "must be 0 and 1 beside": of(
        None, STATIC, {"targets": TARGETS, "predictions": SCORED, "scores": SCORED}
    ),
    "'threshold'.* must be left out": of(
        None,
        FRAME.assign(y=class_sets(Y), p=class_sets(P)),
        {"hierarchy": H, "threshold": 0.3},
        "hierarchical",
        **COLUMNS,
    ),
}


def test_what_cannot_be_used_is_explained_and_nothing_is_logged(client):
    for message, call in WRONG.items():
        with pytest.raises((ValueError, TypeError), match=message) as error:
            call()
        assert "Traceback" not in str(error.value)
    logged = [run.data for run in client.search_runs(["0"])]
    assert not any(data.metrics or "mleval.method" in data.tags for data in logged)


def test_extra_metrics_are_not_dropped_in_silence(client):
    metric = mlflow.models.make_metric(
        eval_fn=lambda predictions, targets: 1.0, greater_is_better=True, name="one"
    )
    with pytest.warns(UserWarning, match="does not compute `extra_metrics`"):
        evaluate(score, X, targets=Y, extra_metrics=[metric])


@pytest.mark.parametrize("evaluators", [None, ["mleval"], ["default", "mleval"]])
def test_a_classifier_is_one_label_where_mleval_is_named_and_else_none_of_ours(client, evaluators):
    y, p = [0, 1, 1, 0, 1], [0, 1, 0, 0, 1]
    quick = {"log_model_explainability": False}
    named = {"default": quick} if evaluators and "default" in evaluators else {}
    how = {"evaluators": evaluators, "evaluator_config": named if evaluators else quick, **COLUMNS}
    data = pd.DataFrame({"x": 0.5, "y": y, "p": p})
    result = mlflow.models.evaluate(None, data, model_type="classifier", **how)
    assert ("accuracy_score" in result.metrics) == (evaluators != ["mleval"])
    if evaluators:
        expected = mleval.evaluate(y, y_pred=p).measures["macro_f1"]
        assert result.metrics["mleval/macro_f1"] == expected
    else:
        tags = client.get_run(result.run_id).data.tags
        assert not [name for name in (*result.metrics, *tags) if name.startswith("mleval")]


def test_weights_of_instances_weigh_all_measures(client):
    w = np.random.default_rng(0).gamma(0.5, 3.0, len(Y))
    expected = mleval.evaluate(Y, S, sample_weight=w)
    same(evaluate(score, X, {"sample_weights": w}, targets=Y), expected, client)
    kinds = [0, 1, 1, 0, 1]
    frame = pd.DataFrame({"x": [0.1, 0.9, 0.2, 0.3, 0.8], "kind": kinds, "w": [1.0, 2, 3, 0.5, 4]})
    ours = mleval.evaluate(kinds, y_pred=[0, 1, 0, 0, 1], sample_weight=frame["w"])
    config = {"targets": ["kind"], "sample_weights": "w"}

    def model(data):
        assert list(data) == ["x"]  # neither truth nor weights
        return (data["x"] > 0.5).astype(int)

    same(evaluate(model, frame, config, "one_label"), ours, client)
    with pytest.raises(ValueError, match="Did you mean 'sample_weights'"):
        evaluate(score, X, {"sample_weight": w}, targets=Y)


def test_types_that_are_not_ours_are_named(client):
    frame = pd.DataFrame({"x": 0.5, "y": [0.5, 1.5], "p": [0.4, 1.4]})
    said = "model types 'multilabel', .*'classifier', got 'regressor'"
    with (
        pytest.warns(UserWarning, match=said),
        pytest.raises(mlflow.MlflowException, match="could not be evaluated"),
    ):
        evaluate(None, frame, model_type="regressor", **COLUMNS)
    with pytest.raises(ValueError, match="Label sets are model_type='multilabel'"):
        evaluate(score, X, targets=Y, model_type="classifier")


def test_of_all_evaluators_only_ours_takes_our_types(client):
    result = mlflow.models.evaluate(score, X, targets=Y, model_type="multilabel")
    assert result.metrics["mleval/f1"] == mleval.evaluate(Y, S).measures["f1"]


def test_mlflow_finds_the_evaluator_at_no_cost():
    code = """
import sys
from mlflow.models import list_evaluators
assert "mleval" in list_evaluators()
assert not {"networkx", "mlflow_mleval.evaluation", "mlflow_mleval.training.log_evaluation"}.intersection(sys.modules)
"""  # noqa: E501
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "Failure attempting to register" not in done.stderr, done.stderr


@pytest.mark.server
def test_over_a_server(server):
    config = {"label_names": NAMES, "dataset": "d", "method": "over HTTP"}
    result = evaluate(score, X, config, targets=Y)
    same(result, mleval.evaluate(Y, S, label_names=NAMES), mlflow.MlflowClient())
    assert labels_of(result) == NAMES


def test_one_label_of_several_classes(client):
    iris, kinds = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=500).fit(iris, kinds)
    p, predicted = model.predict_proba(iris), model.predict(iris)
    frame = pd.DataFrame(p, columns=["a", "b", "c"]).assign(kind=kinds, predicted=predicted)
    names = {"label_names": [0, 1, 2]}
    scored = {"targets": ["kind"], "scores": ["a", "b", "c"], **names}
    for config in (scored, scored | {"predictions": ["predicted"]}):
        result = evaluate(None, frame, config, "one_label")
        same(result, mleval.evaluate(kinds, p, predicted), client)
    for output, given in (("predict", {"y_pred": predicted}), ("predict_proba", {"y_score": p})):
        result = evaluate(getattr(model, output), iris, names, "one_label", targets=kinds)
        same(result, mleval.evaluate(kinds, **given), client)
