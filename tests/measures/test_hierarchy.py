"""The class hierarchy: how it is built, how it can be wrong, and networkx's closure."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hierarchy_reference import ROOT, Reference, hierarchies
from hypothesis import given
from scipy import sparse

import mlflow_mleval as mleval
from mlflow_mleval.measures.hierarchy import Hierarchy, closure

EDGES = [("01", "01/01"), ("01/01", "01/01/03"), ("01", "01/02"), ("02", "02/13")]


def same(a, b):
    return a.nodes == b.nodes and all(a.parents(c) == b.parents(c) for c in a.nodes)


def test_every_source_gives_the_same_hierarchy(tmp_path):
    h = mleval.Hierarchy(EDGES)
    assert h.nodes == ["01", "01/01", "01/01/03", "01/02", "02", "02/13"] and len(h) == 6
    assert "02/13" in h and "03" not in h
    assert same(h, Hierarchy(nx.DiGraph(EDGES))) and same(h, Hierarchy(np.array(EDGES)))
    assert same(h, Hierarchy(iter(EDGES)))
    assert same(h, Hierarchy.from_paths(["01/01/03", "01/02", "02/13", "01/01"]))
    pd.DataFrame(EDGES, columns=["parent", "child"]).to_csv(tmp_path / "h.csv", index=False)
    assert same(h, Hierarchy.from_csv(tmp_path / "h.csv"))
    told = "6 classes, 4 edges, 2 roots, 3 leaves, 0 with several parents, 3 levels"
    assert repr(h) == f"Hierarchy({told})"


def test_lengths_come_with_edges_graphs_and_files(tmp_path):
    h = Hierarchy([("a", "b"), ("a", "c")], weights=[0.5, 2])
    assert h.distance("b", "c") == 2.5 and h.distance("b", "b") == 0
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([("a", "b", 0.5), ("a", "c", 2)])
    assert Hierarchy(graph).distance("b", "c") == 2
    lengths = [graph.edges[edge]["weight"] for edge in graph.edges]
    assert Hierarchy(graph, lengths).digest == h.digest
    (tmp_path / "h.csv").write_text("up,down,far\na,b,0.5\na,c,2\n")
    assert Hierarchy.from_csv(tmp_path / "h.csv", "up", "down", "far").digest == h.digest


def test_classes_without_edges_and_the_order_of_classes():
    h = Hierarchy([("b", "a")], nodes=["z", "a"])
    assert h.nodes == ["z", "a", "b"]
    assert h.ancestors("z") == h.descendants("z") == h.parents("z") == set()
    assert h.distance("z", "a") == 3
    assert Hierarchy([], nodes=["only"]).nodes == ["only"]
    graph = nx.DiGraph([("b", "a")])
    graph.add_node("z")
    assert Hierarchy(graph).nodes == ["b", "a", "z"]


AB = ("a", "b")
CYCLES = [("r", "a"), AB, ("b", "a"), ("b", "x"), ("x", "y"), ("y", "x")]


@pytest.mark.parametrize(
    ("edges", "weights", "text"),
    [
        ([("a", "a"), AB, ("b", "b")], None, r"join a class to itself, got 2 edges: \('a', 'a'\)"),
        ([AB, ("b", "c"), AB, AB], None, r"repeat an edge, got again 2 edges: \('a', 'b'\), \('a'"),
        ([AB, ("b", "c"), ("c", "a")], None, r"'a' -> 'b' -> 'c' -> 'a' \(3 classes lie on cycles"),
        (CYCLES, None, r"'a' -> 'b' -> 'a' \(4 classes lie on cycles\)"),
        ([AB, ("b", "a"), ("b", "c"), ("c", "d")], None, "2 classes lie on cycles"),
        ([], None, "at least one class, got none"),
        ([AB], [0], r"positive and finite, got others on 1 edge: \('a', 'b'\)"),
        ([AB, ("a", "c")], [1, np.nan], r"positive and finite, got others on 1 edge: \('a', 'c'\)"),
        ([AB], [1, 1], r"must hold 1 lengths, got \(2,\)"),
    ],
)
def test_wrong_hierarchies_are_refused_by_name(edges, weights, text):
    with pytest.raises(ValueError, match=text):
        Hierarchy(edges, weights)


def test_wrong_sources_are_refused(tmp_path):
    with pytest.raises(TypeError, match=r"`edges\[1\]` must be a pair \(parent, child\), got 'ab'"):
        Hierarchy([("a", "b"), "ab"])
    with pytest.raises(TypeError, match=r"`edges\[0\]` must be a pair .* got \('a', 'b', 2\)"):
        Hierarchy([("a", "b", 2)])
    with pytest.raises(TypeError, match=r"`edges\[0\]` must be a pair .* got {'"):
        Hierarchy([{"a", "b"}])
    with pytest.raises(TypeError, match="directed graph, .* got an undirected one"):
        Hierarchy(nx.Graph([("a", "b")]))
    with pytest.raises(ValueError, match="non-empty parts joined by '/', got 'a//b'"):
        Hierarchy.from_paths(["a/b", "a//b"])
    (tmp_path / "h.csv").write_text("parent,kid\na,b\n")
    with pytest.raises(ValueError, match="'child' is missing"):
        Hierarchy.from_csv(tmp_path / "h.csv")
    (tmp_path / "h.csv").write_text("parent,child\na,b\na,\n")
    with pytest.raises(ValueError, match="empty cells on 1 line: 3"):
        Hierarchy.from_csv(tmp_path / "h.csv")
    (tmp_path / "h.csv").write_text("parent,child,far\na,b,2\na,c,near\n")
    said = "`weight` must name numbers, got 1 other: 'near'"
    with pytest.raises(ValueError, match=said):
        Hierarchy.from_csv(tmp_path / "h.csv", weight="far")
    said = "`name` must hold classes of the hierarchy, got 1 unknown class: 'x'"
    with pytest.raises(ValueError, match=said):
        Hierarchy([("a", "b")]).ancestors("x")


def test_indicator_takes_sets_lists_and_matrices():
    h = Hierarchy([("a", "b"), ("a", "c")])
    dense = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]])
    forms = [[{"a", "c"}, set(), ["b"]], [["a", "c", "a"], (), np.array(["b"])]]
    forms.append(pd.Series([["c", "a"], [], ["b"]]))
    forms += [kind(dense * 1.0) for kind in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array)]
    for form in forms:
        assert (h.indicator(form).toarray() == dense).all()
    stored = [1, 0, 1], [2, 1, 0], [0, 3]  # one of them a stored 0
    explicit = sparse.csr_array(tuple(map(np.array, stored)), shape=(1, 3))
    assert (h.indicator(explicit).toarray() == [[1, 0, 1]]).all()


@pytest.mark.parametrize(
    ("sets", "text"),
    [
        ([["a"], ["x", "b", "y"], ["x"]], "classes of the hierarchy, got 2 unknown classes: 'x', "),
        ([["a"], "b"], "collection of classes for each instance, got 'b' for instance 1"),
        ([3, ["a"], 4], "got 3 for instance 0 .2 such instances: 0, 2."),
        ([], "at least one instance"),
        (np.eye(3), "dense array of numbers"),
        (sparse.csr_array(np.eye(2)), "must have 3 columns, got .2, 2."),
        (sparse.csr_array([[2, 0, 0]]), "`sets` must hold only 0 and 1"),
    ],
)
def test_indicator_refuses(sets, text):
    with pytest.raises((ValueError, TypeError), match=text):
        Hierarchy([("a", "b"), ("a", "c")]).indicator(sets)


@given(hierarchies(weighted=True))
def test_distances_and_relatives_are_those_of_networkx(drawn):
    edges, lengths, nodes = drawn
    h, reference = Hierarchy(edges, lengths, nodes), Reference(edges, lengths, nodes)
    for a in nodes:
        assert h.ancestors(a) == nx.ancestors(reference.graph, a) - {ROOT}
        assert h.descendants(a) == nx.descendants(reference.graph, a)
        for b in nodes:
            assert h.distance(a, b) == pytest.approx(reference.distance(a, b), abs=1e-12)


def test_long_edges_need_wider_numbers():
    edges = [(i, i + 1) for i in range(30)]
    for length, kind in ((1, np.int16), (1000, np.int32), (0.5, np.float64), (1e12, np.float64)):
        h = Hierarchy(edges, [length] * 30)
        assert closure(h._up).dtype == kind
        assert h.distance(0, 30) == pytest.approx(30 * length, rel=1e-12)


def test_deep_chains_build_at_once():
    h = Hierarchy([(i, i + 1) for i in range(20000)])
    assert h.distance(0, 50) == 50 and h.ancestors(3) == {0, 1, 2}
