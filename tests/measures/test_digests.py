"""Digests of the truth: one for the same data in whatever form, batches and order."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import mlflow_mleval as mleval
from mlflow_mleval.evaluation import Evaluation
from mlflow_mleval.measures import inputs

RNG = np.random.default_rng(0)
Y = RNG.random((60, 5)) < 0.4
S = RNG.random((60, 5))
WHOLE = mleval.evaluate(Y, S)


def digest(y, **options):
    return mleval.evaluate(y, S[: np.shape(y)[0]], **options).truth_digest


@given(
    st.lists(st.integers(0, 3), min_size=60, max_size=60),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_any_batches_in_any_order_are_the_whole(batch, random, with_folds):
    folds, rows = np.arange(60) % 3, [np.flatnonzero(np.equal(batch, b)) for b in {*batch}]
    random.shuffle(rows)
    parts = [mleval.evaluate(Y[at], S[at], folds=folds[at] if with_folds else None) for at in rows]
    found = mleval.merge(parts)
    assert found.truth_digest == WHOLE.truth_digest
    if not with_folds:
        assert (found.instance_truth == WHOLE.instance_truth[np.concatenate(rows)]).all()


def test_the_form_of_the_truth_does_not_matter(monkeypatch):
    forms = [Y, Y.astype(float), Y.tolist(), np.asfortranarray(Y), pd.DataFrame(Y.astype(int))]
    forms += [sparse.csr_array(Y), sparse.csc_matrix(Y)]
    assert len({digest(form, label_names=range(5)) for form in forms}) == 1
    for name in ("_ROWS", "_CELLS"):
        monkeypatch.setattr(inputs, name, 7)
    assert len({digest(form, label_names=range(5)) for form in forms} | {digest(Y)}) == 1
    h = mleval.Hierarchy([("all", c) for c in "abcde"])
    sets = [["abcde"[i] for i in np.flatnonzero(row)] for row in Y]
    matrix = h.indicator(sets)
    found = {mleval.evaluate_hierarchical(s, matrix, h).truth_digest for s in (sets, matrix)}
    assert len(found) == 1


def test_other_data_have_another_digest():
    flipped, one, other = Y.copy(), Y.copy(), Y.copy()
    flipped[7, 3] ^= True
    one[:2], other[:2] = 0, 0
    one[0, 0] = one[0, 2] = other[0, 0] = other[1, 2] = True
    assert (one.sum(axis=0) == other.sum(axis=0)).all()  # each label is as frequent
    assert len({digest(y) for y in (Y, flipped, one, other, Y[:59], Y[:, ::-1])}) == 6
    assert digest(Y) != digest(Y, label_names=list("abcde")) and digest(Y[::-1]) == digest(Y)


def test_the_digest_travels_and_an_older_evaluation_has_none():
    ev = mleval.evaluate(Y, S, folds=np.arange(60) % 3)
    written = json.loads(json.dumps(replace(ev, split="s").to_dict()))
    back = Evaluation.from_dict(written)
    assert (back.truth_digest, back.split) == (ev.truth_digest, "s") and len(ev.truth_digest) == 64
    for part in written["sums"]:
        del part["truth"]
    del written["split"]
    older = Evaluation.from_dict(written)
    assert older.truth_digest is None and older.split is None and older.measures == ev.measures
    assert mleval.merge([older, ev]).truth_digest is None
    for part in written["sums"]:
        part["truth"] = "a" * 64  # of another form
    assert Evaluation.from_dict(written).truth_digest is None


def test_parts_know_what_is_theirs():
    ev = replace(mleval.evaluate(Y, S, folds=np.arange(60) % 3), split="s")
    part = ev.fold(1)
    assert part.truth_digest == digest(Y[1::3]) and part.split is None
    assert (part.instance_truth == mleval.evaluate(Y[1::3], S[1::3]).instance_truth).all()
    assert mleval.merge([ev]).split == "s" and mleval.merge([part, ev.fold(2)]).split is None


@pytest.mark.parametrize("change", ["count", "order"])
def test_the_digest_of_a_split_tells_folds_apart(change):
    parts = [np.arange(3), np.arange(3, 7)]
    other = [parts[0], parts[1][:-1]] if change == "count" else parts[::-1]
    assert inputs.split_digest(parts) != inputs.split_digest(other)
