"""What other libraries call their metrics."""

import pytest

from mlflow_mleval.measures import metric_names as names
from mlflow_mleval.store import reader, runs_table


@pytest.mark.parametrize(
    ("name", "measure", "direction", "data", "variable"),
    [
        ("LogisticRegression_score_X_test", "score", "max", names.HELD_OUT, "X_test"),
        ("SVC_score_Xb", "score", "max", names.HELD_OUT, "Xb"),
        ("accuracy_score-2_X_test", "accuracy_score", "max", names.HELD_OUT, "X_test"),
        ("mean_squared_error_unknown_dataset", "mean_squared_error", "min", names.HELD_OUT, None),
        ("RandomForestRegressor_score_X_train", "score", "max", names.TRAINING, "X_train"),
        ("f1_score_X_val", "f1_score", "max", names.VALIDATION, "X_val"),
        ("training_log_loss", "log_loss", "min", names.TRAINING, ""),
        ("best_cv_score", "best_cv_score", "max", names.VALIDATION, ""),
        ("validation_0-logloss", "logloss", "min", names.VALIDATION, ""),
        ("valid_0-ndcg_at_5", "ndcg", "max", names.VALIDATION, ""),
        ("train-auc", "auc", "max", names.TRAINING, ""),
        ("val_loss", "loss", "min", names.VALIDATION, ""),
        ("val_sparse_categorical_accuracy", None, "max", names.VALIDATION, ""),
        ("train_loss_epoch", "loss", "min", names.TRAINING, ""),
        ("eval_f1", "f1", "max", names.VALIDATION, ""),
        ("test_precision_weighted", "precision", "max", names.HELD_OUT, ""),
        ("accuracy_test", "accuracy", "max", names.HELD_OUT, ""),
        ("precision_recall_auc", "precision_recall_auc", "max", names.HELD_OUT, ""),
    ],
)
def test_terms_of_libraries(name, measure, direction, data, variable):
    known = names.term(name)
    assert (known.direction, known.data) == (direction, data)
    assert measure in (None, known.measure) and variable in (None, known.variable)


@pytest.mark.parametrize("name", ["val_acc", "latency_s", "loss", "f1_score_macroo1", "rows"])
def test_what_stands_in_no_documentation_has_no_direction_unless_it_is_confirmed(name):
    assert names.term(name) is None or name.startswith("f1_score")
    if name in ("val_acc", "latency_s"):
        assert names.direction_of(name) is None
        assert names.directions([name], proposed=True) == {name: "max" if "acc" in name else "min"}


def test_averages_and_folds_are_no_variables():
    assert not names.calls_by_measure(["f1_score_macro", "accuracy_score_fold1"])


def test_the_last_call_on_test_data_stands_last():
    calls = names.calls_by_measure(["SVC_score_X_test", "f1", "RF_score_Xb"])
    assert calls == {"score": [("RF_score_Xb", "Xb"), ("SVC_score_X_test", "X_test")]}


def test_what_libraries_call_one_measure_has_one_name():
    alike = map(names.joined_term, ["valid-logloss", "valid_0-binary_logloss", "val_loss"])
    assert [*alike] == ["val_log_loss", "val_log_loss", ""]


@pytest.mark.parametrize("name", ["eval_runtime", "example_count", "lr", "best_iteration", "epoch"])
def test_how_a_training_went_is_no_measure(name):
    assert names.is_bookkeeping(name) and names.direction_of(name, proposed=True) is None


def test_training_data_are_known_by_name_and_by_what_stands_beside():
    keras = ["loss", "accuracy", "val_loss", "val_accuracy"]
    assert names.of_training(keras) == {"loss", "accuracy"}
    assert names.of_training(["loss", "accuracy"]) == set()
    # of several evaluation sets the first is usually the training set; the last one counts
    sets = ["validation_0-logloss", "validation_1-logloss", "train_whatever"]
    assert names.of_training(sets) == {"validation_0-logloss", "train_whatever"}


def test_calls_of_one_run_are_joined_under_their_measure():
    metrics = {
        "training_score": 1.0,
        "SVC_score_X_train": 0.99,
        "SVC_score_X_test": 0.8,
        "SVC_score_X_ood": 0.3,
        "accuracy_score_X_test": 0.7,
        "accuracy_score-2_X_test": 0.8,
    }
    run = runs_table.RunRow("r", "r", "FINISHED", 0, "0", metrics, {}, {})
    values, _, keys = reader.measured(runs_table.RunsTable.of([run], {}))
    held_out = {"score": 0.8, "SVC_score_X_ood": 0.3, "accuracy_score": 0.8}
    assert values.iloc[0].to_dict() == held_out | {"training_score": 1.0}
    assert keys.to_numpy().tolist() == [["SVC_score_X_test", "accuracy_score-2_X_test"]]


def test_every_library_names_its_documentation():
    libraries = [library for library, _ in names.LIBRARY_TERMS]
    assert len({*libraries}) == len(libraries)
    for (_, source), (larger, smaller) in names.LIBRARY_TERMS.items():
        assert source.startswith("https://") and not {*larger.split()} & {*smaller.split()}


def test_words_of_names_tell_costs_shares_and_ranges():
    costs = ("fit_time", "latency_ms2", "totalTokens", "cost_sensitive_accuracy", "f1")
    assert [*map(names.is_cost, costs)] == [True, True, True, False, False]
    assert [*map(names.is_share, ("TotalF1", "micro_f1", "loss"))] == [True, True, False]
    unbounded = (-float("inf"), float("inf"))
    assert names.range_of("test_acc", [0.9]) == (0, 1)
    for name, value in (("test_acc", 93.0), ("val_loss", 0.9)):
        assert names.range_of(name, [value]) == unbounded
    assert names.range_of("valid_0-binary_logloss", [0.1])[0] == 0
