"""The Evaluation: one pass, folds, merging, batches, tables, serialisation, hierarchies, digests of
the truth.
"""

import json
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import mlflow_mleval as mleval
from mlflow_mleval.evaluation import Evaluation
from mlflow_mleval.measures import inputs, owa
from mlflow_mleval.measures.registry import MEASURES, SETS

RNG = np.random.default_rng(3)
N, K = 60, 7
Y = (RNG.random((N, K)) < 0.3).astype(int)
S = RNG.random((N, K)).round(1)
P = (RNG.random((N, K)) < 0.3).astype(int)
FOLDS = RNG.integers(0, 4, N)


def same(a, b, tolerance=1e-12):
    """Two evaluations of the same instances: counts equal, everything else close."""
    assert a.measures == pytest.approx(b.measures, abs=tolerance, rel=tolerance)
    assert a.absent == b.absent and a.statistics == b.statistics and list(a.sums) == list(b.sums)
    pd.testing.assert_frame_equal(a.folds, b.folds, rtol=tolerance, atol=tolerance)
    pd.testing.assert_frame_equal(a.labels, b.labels, rtol=tolerance)
    for kind in ("hard", "soft") if a.total.errors is not None else ("hard",):
        np.testing.assert_allclose(
            a.profile(kind=kind).losses, b.profile(kind=kind).losses, atol=tolerance
        )


def test_means_of_instances_are_the_measures():
    ev = mleval.evaluate(Y, S, P)
    for name in (*SETS["example"], *SETS["ranking"], "soft_hamming_loss", "soft_subset_loss"):
        assert ev.instances[name].mean() == pytest.approx(ev.measures[name], abs=1e-12)
    assert ev.instances.true_labels.tolist() == Y.sum(axis=1).tolist()
    assert ev.instances.predicted_labels.tolist() == P.sum(axis=1).tolist()
    assert "fold" not in ev.instances and mleval.evaluate(Y, S, instances=False).instances is None


def test_labels_count_what_happens_to_each_label():
    table = mleval.evaluate(Y, y_pred=P, label_names=list("abcdefg")).labels
    assert table.index.tolist() == list("abcdefg") and table.index.name == "label"
    assert table.tp.tolist() == (Y & P).sum(axis=0).tolist()
    assert table.fp.tolist() == ((1 - Y) & P).sum(axis=0).tolist()
    assert table.fn.tolist() == (Y & (1 - P)).sum(axis=0).tolist()
    assert (table.tp + table.fp + table.fn + table.tn == N).all()
    assert table.precision["a"] == pytest.approx(table.tp["a"] / (table.tp["a"] + table.fp["a"]))


def test_statistics():
    y, p = [[0, 0], [1, 0], [1, 1], [0, 0]], [[0, 1], [0, 0], [0, 0], [0, 0]]
    sizes = {"n_instances": 4, "n_labels": 2, "empty_truth": 2, "empty_prediction": 3}
    means = {"cardinality_true": 0.75, "cardinality_pred": 0.25}
    assert mleval.evaluate(y, y_pred=p).statistics == sizes | means


def test_doubts_are_listed():
    assert mleval.evaluate(Y[Y.any(axis=1)], S[Y.any(axis=1)]).warnings == ()
    y = [[1, 0], [0, 0]]
    assert ["no true label" in w for w in mleval.evaluate(y, y_pred=y).warnings] == [True, False]
    assert "no probabilities" in mleval.evaluate(Y, S * 3).warnings[-1]
    assert "no probabilities" not in str(mleval.evaluate(Y, S * 3, threshold=1.5).warnings)


def test_every_measure_is_there_or_absent_with_a_reason():
    for ev in (mleval.evaluate(Y, S, P), mleval.evaluate(Y, y_pred=P), mleval.evaluate(Y, S * 3)):
        assert ev.measures.keys() | ev.absent.keys() == MEASURES.keys()
        assert not ev.measures.keys() & ev.absent.keys()
        assert not any(np.isnan(v) for v in ev.measures.values()) and all(ev.absent.values())


def test_without_scores_the_ranking_is_absent_not_nan():
    ev = mleval.evaluate(Y, y_pred=P)
    for name in (*SETS["ranking"], "soft_hamming_loss", "soft_binomial_area"):
        assert ev.absent[name] == "no scores were given"
    assert "binomial_area" in ev.measures and ev.profile().kind == "hard"


def test_scores_of_any_range_give_the_ranking_but_no_soft_loss():
    ev = mleval.evaluate(Y, S * 2 - 0.5)
    assert set(SETS["ranking"]) <= ev.measures.keys()
    found = ev.absent["soft_hamming_loss"]
    assert found == "it needs scores in [0, 1], and `y_score` reaches from -0.5 to 1.5"
    assert "soft_hamming_loss" not in ev.instances
    with pytest.raises(ValueError, match="`kind` must be 'hard', got.*reaches from -0.5 to 1.5"):
        ev.profile()


def test_mulan_leaves_empty_truths_out_of_average_precision():
    y, s = [[1, 0], [0, 0]], [[0.2, 0.9], [0.5, 0.1]]
    ev = mleval.evaluate(y, s, conventions="mulan")
    assert ev.measures["average_precision"] == 0.5 and np.isnan(ev.instances.average_precision[1])
    ev = mleval.evaluate(y[1:], s[1:], conventions="mulan")
    assert ev.absent["average_precision"] == "it is not defined for 1 of 1 instances"


def test_the_threshold_itself_is_predicted():
    assert mleval.evaluate([[1, 1]], [[0.5, 0.499]]).labels.predicted.tolist() == [1, 0]
    assert mleval.evaluate([[1, 1]], [[0.5, 0.5]], threshold=[0.4, 0.6]).threshold == (0.4, 0.6)


STORED = [sparse.csr_array, sparse.csc_matrix, sparse.coo_array, pd.DataFrame, np.asfortranarray]


@pytest.mark.parametrize("kind", [*STORED, np.float64, np.float32, np.ndarray.tolist])
def test_every_kind_of_matrix_gives_the_same(kind):
    reference = mleval.evaluate(Y, np.float32(S), P, folds=FOLDS)
    same(mleval.evaluate(kind(Y), kind(np.float32(S)), kind(P), folds=FOLDS), reference)
    hard = mleval.evaluate(Y, y_pred=P, folds=FOLDS)
    same(mleval.evaluate(kind(Y), y_pred=kind(P), folds=FOLDS), hard)
    same(mleval.evaluate(kind(Y), np.float32(S), P, folds=FOLDS), reference)


def test_the_caller_keeps_his_matrix():
    y = sparse.csr_array((np.array([1, 1, 0]), ([0, 0, 1], [1, 2, 0])), shape=(2, 3))  # a stored 0
    ev = mleval.evaluate(y, y_pred=y)
    assert ev.statistics["cardinality_true"] == 1 and y.nnz == 3 and y.dtype == int


def test_profiles_are_those_of_the_arrays():
    ev = mleval.evaluate(Y, S, P, folds=FOLDS)
    np.testing.assert_allclose(ev.profile().losses, owa.loss_profile(Y, S).losses, atol=1e-12)
    hard = ev.profile("polynomial", alphas=[1, 3], kind="hard")
    expected = owa.loss_profile(Y, P, "polynomial", [1, 3]).losses
    np.testing.assert_allclose(hard.losses, expected, atol=1e-12)
    assert ev.profile(ks=[2]).parameters.tolist() == [2]
    with pytest.raises(ValueError, match="`alphas` must not be given for the binomial family"):
        ev.profile(alphas=[2])


def test_a_fold_is_evaluated_like_its_instances_alone():
    ev = mleval.evaluate(Y, S, P, folds=FOLDS, conventions="mulan")
    assert ev.folds.index.tolist() == [0, 1, 2, 3]
    assert ev.fold_sizes.tolist() == np.bincount(FOLDS).tolist()
    for key in range(4):
        rows = key == FOLDS
        alone = mleval.evaluate(Y[rows], S[rows], P[rows], conventions="mulan")
        assert ev.folds.loc[key].to_dict() == pytest.approx(alone.measures, abs=1e-12)
        assert ev.fold(key).measures == pytest.approx(alone.measures, abs=1e-12)
        found = ev.fold(key).instances.drop(columns="fold").reset_index(drop=True)
        pd.testing.assert_frame_equal(found, alone.instances)
    assert ev.instances.fold.tolist() == FOLDS.tolist()
    expected = mleval.evaluate(Y, S, P, conventions="mulan").measures
    assert ev.measures == pytest.approx(expected, abs=1e-12)
    with pytest.raises(KeyError, match="no fold 9; there are 0, 1, 2, 3"):
        ev.fold(9)


def test_without_folds_there_is_no_row():
    ev = mleval.evaluate(Y, S)
    assert ev.folds.empty and ev.fold_sizes.empty and list(ev.folds) == list(ev.measures)


def test_times_are_of_folds_and_add_up():
    ev = mleval.evaluate(Y, S, folds=FOLDS, fit_time={0: 1.0, 1: 2.0, 2: 3.0, 3: 4.0})
    assert ev.measures["fit_time"] == 10 and ev.folds.fit_time.tolist() == [1, 2, 3, 4]
    assert ev.absent["predict_time"] == "it was not measured, or not of all parts"
    assert mleval.evaluate(Y, S, folds=2, predict_time=1.5).folds.predict_time.tolist() == [1.5]
    said = "`fit_time` must be a mapping with one number for each of the 4 folds"
    with pytest.raises(ValueError, match=said):
        mleval.evaluate(Y, S, folds=FOLDS, fit_time=1.0)


@given(
    st.lists(st.integers(0, 5), min_size=N, max_size=N),
    st.randoms(use_true_random=False),
    st.sampled_from(["sklearn", "mulan"]),
    st.booleans(),
    st.sampled_from([1.0, 3.0]),
)
def test_parts_in_any_order_and_grouping_are_the_whole(part, random, conventions, folded, scale):
    part = np.array(part)
    options = {"conventions": conventions}
    whole = mleval.evaluate(Y, S * scale, P, folds=FOLDS if folded else None, **options)
    pool = []
    for rows in (np.flatnonzero(part == i) for i in {*part}):
        folds = FOLDS[rows] if folded else None
        pool.append(mleval.evaluate(Y[rows], S[rows] * scale, P[rows], folds=folds, **options))
    while len(pool) > 1:
        random.shuffle(pool)
        take = random.randint(2, len(pool))
        pool = [mleval.merge(pool[:take]), *pool[take:]]
    same(pool[0], whole)


def test_merging_folds_is_evaluating_with_folds():
    rows = {key: key == FOLDS for key in (2, 0, 3, 1)}
    parts = [mleval.evaluate(Y[r], S[r], folds=key, fit_time=1) for key, r in rows.items()]
    ev = mleval.merge(parts)
    same(ev, mleval.evaluate(Y, S, folds=FOLDS, fit_time=dict.fromkeys(range(4), 1)))
    assert len(ev.instances) == N and sorted(ev.instances.fold) == sorted(FOLDS)
    found = mleval.merge([parts[0], mleval.evaluate(Y, S, folds=9, instances=False)]).instances
    assert found is None


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"label_names": list("abcdefh")}, "agree in label_names, got .* at positions 0 and 1"),
        ({"conventions": "mulan"}, "agree in conventions, got 'sklearn' and 'mulan'"),
        ({"threshold": 0.25}, "agree in threshold, got 0.5 and 0.25"),
        ({"y_pred": P}, r"agree in inputs, got \('y_score',\) and \('y_score', 'y_pred'\)"),
        ({"folds": 1}, "must all have folds or none, got both at 0 and 1"),
    ],
)
def test_unlike_parts_are_refused_and_the_difference_is_named(other, message):
    first = mleval.evaluate(Y, S, label_names=list("abcdefg"))
    with pytest.raises(ValueError, match=message):
        mleval.merge([first, mleval.evaluate(Y, S, **({"label_names": list("abcdefg")} | other))])


def test_merge_needs_evaluations():
    with pytest.raises(ValueError, match="at least one"):
        mleval.merge([])
    with pytest.raises(TypeError, match="got dict at 1"):
        mleval.merge([mleval.evaluate(Y, S), {}])


def test_batches_are_the_whole():
    given = {"y_true": Y, "y_score": S, "folds": FOLDS}
    batches = ({n: x[i : i + 7] for n, x in given.items()} for i in range(0, N, 7))
    whole = mleval.evaluate(Y, S, folds=FOLDS, threshold=0.3)
    same(mleval.evaluate_batches(batches, threshold=0.3), whole)
    twice = mleval.evaluate(np.vstack([Y, Y]), np.vstack([S, S]))
    same(mleval.evaluate_batches([(Y, S), (Y, S)]), twice)


def test_a_bad_batch_is_numbered():
    with pytest.raises(ValueError, match="batch 1: `y_score` must have the shape"):
        mleval.evaluate_batches([(Y, S), (Y, S[:3])])
    with pytest.raises(ValueError, match="at least one batch"):
        mleval.evaluate_batches([])


def test_an_evaluation_survives_json_and_pickle():
    h = mleval.Hierarchy([("root", name) for name in "abcdefg"])
    more = {"label_names": list("abcdefg"), "fit_time": dict.fromkeys(range(4), 2)}
    ev = mleval.evaluate(Y, S, folds=FOLDS, hierarchy=h, **more)
    read = Evaluation.from_dict(json.loads(json.dumps(ev.to_dict())))
    for copy in (read, pickle.loads(pickle.dumps(ev))):
        same(copy, ev, tolerance=0)
        same(mleval.merge([copy, ev]), mleval.merge([ev, copy]))


def test_repr_is_short():
    text = repr(mleval.evaluate(Y, S, folds=FOLDS))
    assert text.startswith("Evaluation(60 instances, 7 labels, 4 folds, f1 ") and len(text) < 100


TREE = [("r", "a"), ("r", "b"), ("a", "c"), ("a", "d"), ("b", "e"), ("b", "f"), ("f", "g")]
LEAVES = list("abcdefg")


def sets(matrix):
    return [[LEAVES[j] for j in np.flatnonzero(row)] for row in matrix]


def test_flat_and_hierarchical_measures_together():
    h = mleval.Hierarchy(TREE)
    both = mleval.evaluate(Y, S, P, label_names=LEAVES, hierarchy=h)
    own = mleval.evaluate_hierarchical(sets(Y), sets(P), h)
    pd.testing.assert_frame_equal(both.instances[list(own.instances)], own.instances)
    assert own.absent["f1"] == "it is of label sets, not of class sets"
    assert own.absent["tree_induced_error"].startswith("it is not defined for ")
    assert mleval.evaluate(Y, S).absent["h_f1"] == "no `hierarchy` was given"


def test_parts_of_other_hierarchies_do_not_merge():
    h, other = mleval.Hierarchy(TREE), mleval.Hierarchy([*TREE[:-1], ("e", "g")])
    whole = mleval.evaluate_hierarchical(sets(Y), sets(P), h, max_distance=3)
    for part, said in ((h, "max_distance 3 and 5"), (other, "hierarchy '.*' and '.*'")):
        with pytest.raises(ValueError, match=f"agree in hierarchy, got {said}"):
            options = {"max_distance": 3} if part is other else {}
            mleval.merge([whole, mleval.evaluate_hierarchical(sets(Y), sets(P), part, **options)])


def test_chosen_families_only():
    h = mleval.Hierarchy(TREE)
    ev = mleval.evaluate_hierarchical(sets(Y), sets(P), h, measures="set")
    assert "h_f1" in ev.measures
    assert ev.absent["lca_f1"] == ev.absent["gie"] == "it was not asked for"
    read = Evaluation.from_dict(json.loads(json.dumps(ev.to_dict())))
    same(mleval.merge([ev, read]), mleval.merge([ev, ev]))


def test_label_names_must_be_classes():
    h = mleval.Hierarchy(TREE)
    said = "`label_names` must be classes of `hierarchy`, got 2 others: 0, 3"
    with pytest.raises(ValueError, match=said):
        mleval.evaluate(Y, S, label_names=[0, "a", "b", 3, "c", "d", "e"], hierarchy=h)
    with pytest.raises(TypeError, match="`hierarchy` must be given with 'max_distance'"):
        mleval.evaluate(Y, S, max_distance=4)


def digest(y, **options):
    return mleval.evaluate(y, S[: np.shape(y)[0]], **options).truth_digest


@given(
    st.lists(st.integers(0, 3), min_size=N, max_size=N),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_any_batches_in_any_order_are_the_whole(batch, random, with_folds):
    folds, rows = np.arange(N) % 3, [np.flatnonzero(np.equal(batch, b)) for b in {*batch}]
    random.shuffle(rows)
    parts = [mleval.evaluate(Y[at], S[at], folds=folds[at] if with_folds else None) for at in rows]
    found, whole = mleval.merge(parts), mleval.evaluate(Y, S)
    assert found.truth_digest == whole.truth_digest
    if not with_folds:
        assert (found.instance_truth == whole.instance_truth[np.concatenate(rows)]).all()


def test_the_form_of_the_truth_does_not_matter(monkeypatch):
    forms = [Y, Y.astype(float), Y.tolist(), np.asfortranarray(Y), pd.DataFrame(Y), Y == 1]
    forms += [sparse.csr_array(Y), sparse.csc_matrix(Y)]
    assert len({digest(form, label_names=range(K)) for form in forms}) == 1
    for name in ("_ROWS", "_CELLS"):
        monkeypatch.setattr(inputs, name, 7)
    assert len({digest(form, label_names=range(K)) for form in forms} | {digest(Y)}) == 1
    h = mleval.Hierarchy([("all", c) for c in LEAVES])
    matrix = h.indicator(sets(Y))
    found = {mleval.evaluate_hierarchical(s, matrix, h).truth_digest for s in (sets(Y), matrix)}
    assert len(found) == 1


def test_other_data_have_another_digest():
    flipped, one, other = Y.copy(), Y.copy(), Y.copy()
    flipped[7, 3] ^= 1
    one[:2], other[:2] = 0, 0
    one[0, 0] = one[0, 2] = other[0, 0] = other[1, 2] = 1
    assert (one.sum(axis=0) == other.sum(axis=0)).all()  # each label is as frequent
    assert len({digest(y) for y in (Y, flipped, one, other, Y[:59], Y[:, ::-1])}) == 6
    assert digest(Y) != digest(Y, label_names=LEAVES) and digest(Y[::-1]) == digest(Y)


def test_the_digest_travels():
    ev = mleval.evaluate(Y, S, folds=np.arange(N) % 3)
    back = Evaluation.from_dict(json.loads(json.dumps(replace(ev, split="s").to_dict())))
    assert (back.truth_digest, back.split) == (ev.truth_digest, "s") and len(ev.truth_digest) == 64


def test_parts_know_what_is_theirs():
    ev = replace(mleval.evaluate(Y, S, folds=np.arange(N) % 3), split="s")
    part = ev.fold(1)
    assert part.truth_digest == digest(Y[1::3]) and part.split is None
    assert (part.instance_truth == mleval.evaluate(Y[1::3], S[1::3]).instance_truth).all()
    assert mleval.merge([ev]).split == "s" and mleval.merge([part, ev.fold(2)]).split is None


@pytest.mark.parametrize("change", ["count", "order"])
def test_the_digest_of_a_split_tells_folds_apart(change):
    parts = [np.arange(3), np.arange(3, 7)]
    other = [parts[0], parts[1][:-1]] if change == "count" else parts[::-1]
    assert inputs.split_digest(parts) != inputs.split_digest(other)
