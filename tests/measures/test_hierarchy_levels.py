"""Measures by level of a hierarchy, and of predictions that violate it, are for every kind of
prediction.
"""

import mlflow_mleval as mleval


def test_label_matrices_and_one_label_have_them_on_request():
    h = mleval.Hierarchy([("a", "b"), ("a", "c")])
    asked = ["hmc", "level_1_f1"]
    flat = mleval.evaluate(
        [[0, 1, 0]], [[0.1, 0.2, 0.9]], label_names=["a", "b", "c"], hierarchy=h, measures=asked
    )
    assert flat.measures["violation_rate"] == flat.measures["level_1_f1"] == 1
    assert "h_f1" in flat.measures
    one = mleval.evaluate(
        ["b", "c"],
        y_pred=["c", "c"],
        label_names=["a", "b", "c"],
        hierarchy=h,
        measures="level_2_recall",
    )
    assert one.measures["level_2_recall"] == 0.5
    assert (
        mleval.evaluate(["b"], y_pred=["c"], measures="level_2_recall").absent["level_2_recall"]
        == "no `hierarchy` was given"
    )
