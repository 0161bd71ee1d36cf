"""Our measures as scorers of MLflow."""

import numpy as np
import pytest

import mlflow_mleval as mleval

H = mleval.Hierarchy([("animal", "cat"), ("animal", "dog"), ("root", "animal"), ("root", "plant")])


def values(scorer, outputs, labels):
    return {f.name: f.value for f in scorer(outputs=outputs, expectations={"labels": labels})}


def test_the_scorers_give_what_evaluate_gives_for_each_answer():
    labels, rng = np.array(list("abcd")), np.random.default_rng(0)
    true, pred = rng.integers(0, 2, (2, 30, 4)).astype(bool)
    names = ["f1", "accuracy", "hamming_loss", "subset_accuracy"]
    rows = mleval.evaluate(true, y_pred=pred, label_names=labels).instances[names]
    (flat,) = mleval.genai.scorers(names, labels=list(labels))
    for (_, row), t, p in zip(rows.iterrows(), true, pred, strict=True):
        assert values(flat, list(labels[p]), list(labels[t])) == row.to_dict()


def test_hierarchical_measures_know_what_is_near():
    flat, tree = mleval.genai.scorers(hierarchy=H)
    near, far = values(tree, ["dog"], ["cat"]), values(tree, ["plant"], ["cat"])
    assert near["h_f1"] > far["h_f1"] and near["exact_match"] == 0
    assert values(flat, ["dog"], ["cat"])["f1"] == 0
    expected = mleval.evaluate_hierarchical([["cat"]], [["dog"]], H).instances.iloc[0]
    assert near == {m: expected[m] for m in near}


def test_rankings_are_scored_at_k():
    (ranked,) = mleval.genai.scorers(["precision_at_2", "recall_at_3", "ndcg_at_3"])
    scores = {"b": 0.9, "a": 0.5, "d": 0.2, "x": 0.1}
    rows = mleval.evaluate(
        [{"a", "c"}], [scores], measures=["precision_at_2", "recall_at_3", "ndcg_at_3"]
    ).instances
    for answer in (["b", "a", "d", "x"], "b, a, d, x"):
        found = values(ranked, answer, ["a", "c"])
        assert found == {m: rows.loc[0, m] for m in found} and found["precision_at_2"] == 0.5
        assert found["recall_at_3"] == 0.5
    assert values(ranked, [], ["a"])["ndcg_at_3"] == 0
    with pytest.raises(ValueError, match="best first, got a set"):
        ranked(outputs={"a", "b"}, expectations={"labels": ["a"]})
    with pytest.raises(ValueError, match="precision_at_5, .* got psp_at_5"):
        mleval.genai.scorers(["psp_at_5"])
    (keyed,) = mleval.genai.scorers(["precision_at_1"], predicted="found", labels=["a", "b"])
    assert values(keyed, {"found": ["b", "a"]}, ["b"]) == {"precision_at_1": 1.0}


def test_answers_are_read_as_people_write_them():
    (flat,) = mleval.genai.scorers(["f1"])
    for answer in ("a, b", '["a", "b"]', {"a", "b"}, ("b", "a")):
        assert values(flat, answer, ["a", "b"]) == {"f1": 1.0}
    (keyed,) = mleval.genai.scorers(["f1"], predicted="labels")
    assert values(keyed, {"labels": ["a"], "why": "<script>"}, "a") == {"f1": 1.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"measures": ["h_f1"]}, "got h_f1.* need `hierarchy`"),
        ({"measures": ["micro_f1"]}, "measures of an instance"),
        ({"measures": ["hamming_loss"]}, "Name all labels"),
    ],
)
def test_what_cannot_be_scored_is_refused_at_once(options, message):
    with pytest.raises(ValueError, match=message):
        mleval.genai.scorers(**options)


@pytest.mark.parametrize(
    ("outputs", "message"),
    [(3, "list of labels"), ("[1,", "no list of labels"), (["x"], "no label 'x'")],
)
def test_an_answer_without_labels_is_an_error_of_that_answer(outputs, message):
    (flat,) = mleval.genai.scorers(["f1"], labels=["a"])
    with pytest.raises(ValueError, match=message):
        flat(outputs=outputs, expectations={"labels": ["a"]})
    with pytest.raises(ValueError, match="must hold 'labels', got truth"):
        flat(outputs=["a"], expectations={"truth": ["a"]})
