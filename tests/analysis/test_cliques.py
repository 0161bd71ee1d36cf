"""Maximal cliques against networkx, and letters against what they must say."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_mleval.analysis import pairs as module
from mlflow_mleval.analysis.pairs import cliques, letters


@st.composite
def graphs(draw):
    """Random graphs, half of them intervals on a line."""
    n = draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if draw(st.booleans()):
        x = rng.random(n)
        apart = np.abs(x[:, None] - x) > rng.random()
    else:
        apart = np.triu(rng.random((n, n)) < rng.random(), 1)
        apart = apart | apart.T
    names = [f"m{i}" for i in rng.permutation(n)]
    return pd.DataFrame(apart, names, names)


def reference(apart):
    graph = nx.from_numpy_array(~apart.to_numpy() & ~np.eye(len(apart), dtype=bool))
    return [apart.index[c].tolist() for c in sorted(sorted(c) for c in nx.find_cliques(graph))]


@given(graphs())
def test_cliques_are_the_maximal_cliques(apart):
    assert cliques(apart) == reference(apart)


@given(graphs())
def test_methods_share_a_letter_exactly_where_they_are_not_separated(apart):
    shown = letters(cliques(apart), list(apart.index))
    for a in apart.index:
        assert shown[a]
        for b in apart.index:
            assert bool(set(shown[a]) & set(shown[b])) == (a == b or not apart.loc[a, b])


def test_more_cliques_than_the_limit_are_all_shown_where_methods_are_as_many(monkeypatch):
    monkeypatch.setattr(module, "MAX_CLIQUES", 1)
    x = np.arange(9.0)
    apart = pd.DataFrame(np.abs(x[:, None] - x) > 1)
    assert cliques(apart) == [[i, i + 1] for i in range(8)]


def test_overlapping_groups_and_a_lone_method():
    x = np.array([1.0, 2.0, 2.5, 3.2, 9.0])
    apart = pd.DataFrame(np.abs(x[:, None] - x) > 1.6, list("abcde"), list("abcde"))
    groups = cliques(apart)
    assert groups == [["a", "b", "c"], ["b", "c", "d"], ["e"]]
    assert letters(groups, list("abcde")) == {"a": "a", "b": "ab", "c": "ab", "d": "b", "e": "c"}
    assert letters(groups, list("edcba"))["e"] == "a"


def test_a_graph_with_too_many_cliques_gives_some_that_hold_every_pair():
    n = 2 * int(np.log2(module.MAX_CLIQUES) + 2)
    apart = np.zeros((n, n), dtype=bool)
    for i in range(0, n, 2):
        apart[i, i + 1] = apart[i + 1, i] = True
    with pytest.warns(UserWarning, match="more than 1000 maximal cliques"):
        found = cliques(pd.DataFrame(apart))
    held = np.eye(n, dtype=bool)
    for clique in found:
        assert not apart[np.ix_(clique, clique)].any()
        others = np.setdiff1d(np.arange(n), clique)
        assert apart[np.ix_(others, clique)].any(axis=1).all()
        held[np.ix_(clique, clique)] = True
    assert (held == ~apart).all()


def test_more_groups_than_letters():
    groups = [[i] for i in range(110)]
    shown = letters(groups, list(range(110)))
    assert [shown[i] for i in (0, 25, 26, 51, 52, 104)] == ["a", "z", "A", "Z", "a2", "a3"]
    assert len(set(shown.values())) == 110
