"""Class hierarchies and their measures of sets, pairs and lowest common ancestors: published
cases, exact solvers, networkx, and every path and choice tried on tiny hierarchies.
"""

import itertools
import json
from itertools import product

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hierarchy_reference import ROOT, Reference, class_sets, hierarchies
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from places import GOLDEN
from scipy import sparse
from scipy.optimize import linear_sum_assignment, milp

import mlflow_mleval as mleval
from mlflow_mleval.measures import hierarchical
from mlflow_mleval.measures import lca as lca_minimal
from mlflow_mleval.measures.hierarchical import instance_measures
from mlflow_mleval.measures.hierarchy import Hierarchy, closure
from mlflow_mleval.measures.registry import MEASURES

GOLDEN = json.loads((GOLDEN / "hierarchical_cases.json").read_text())
BOTH = ["set", "pair"]
far_pairs = st.sampled_from(["forbid", "allow", "clip"])


def hierarchy(case):
    return Hierarchy([tuple(edge) for edge in case["edges"]])


def measured(true, pred, h, measures="lca", **options):
    return instance_measures([true], [pred], h, measures=measures, **options).loc[0]


def measure(case, measures=BOTH, **options):
    options = {"measures": measures, "max_distance": case["max_distance"]} | options
    return measured(case["true"], case["pred"], hierarchy(case), **options)


def distance(h, a, b):
    return measured([a], [b], h, "pair")["tree_induced_error"]


def rates(row, name):
    return [row[f"{name}_{rate}"] for rate in ("precision", "recall", "f1")]


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["id"])
def test_golden_sets(case):
    expected, row, rooted = case["definition"], measure(case), measure(case, count_root=True)
    for found, name, key in (
        (row, "h", "ancestors_no_virtual_root"),
        (rooted, "h", "ancestors_with_virtual_root"),
        (row, "descendant", "descendants"),
        (rooted, "descendant", "descendants"),
    ):
        assert rates(found, name) == pytest.approx([expected[key][k] for k in "PRF"], abs=1e-9)
        sizes = found[f"{name}_true_size"] + found[f"{name}_pred_size"]
        assert sizes - 2 * found[f"{name}_intersection"] == expected[key]["sdl"]
    for found in (row, rooted):
        wanted = expected["ancestors_no_virtual_root"]["sdl"]
        assert found["symmetric_difference_loss"] == wanted
    assert row["h_loss"] == rooted["h_loss"] == expected["h_loss_sets"]["sdl"]


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["id"])
@pytest.mark.parametrize(("far_pairs", "key"), [("forbid", "threshold"), ("allow", "flow")])
def test_golden_pairs(case, far_pairs, key):
    expected, row = case["definition"], measure(case, far_pairs=far_pairs)
    assert row["gie"] == pytest.approx(expected[f"gie_{key}"], abs=1e-9)
    assert row["mgia_error"] == pytest.approx(expected[f"mgia_{key}"]["error"], abs=1e-9)
    assert row["mgia"] == pytest.approx(expected[f"mgia_{key}"]["accuracy"], abs=1e-9)
    assert row["all_pairs_error"] == expected["sun_lim_sum_all_pairs"]
    wanted = expected.get("tree_induced_error", np.nan)
    assert row["tree_induced_error"] == pytest.approx(wanted, nan_ok=True)


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["id"])
def test_hemkit_where_it_follows_the_definition(case):
    tool, row = case["hemkit"], measure(case, count_root=True)
    if tool["agrees"]["hPRF_with_virtual_root"]:
        assert rates(row, "h") == pytest.approx([tool["hP"], tool["hR"], tool["hF"]], abs=1e-9)
    if tool["agrees"]["mgia_threshold_error"]:
        assert row["mgia_error"] == pytest.approx(tool["mgia_error"], abs=1e-9)


@pytest.mark.parametrize("case", GOLDEN["multi_instance"], ids=lambda case: case["id"])
def test_hemkit_means_over_instances(case):
    options = {"max_distance": case["max_distance"], "measures": ["set"], "count_root": True}
    means = instance_measures(case["true"], case["pred"], hierarchy(case), **options).mean()
    expected = [case["means"][k] for k in ("hP", "hR", "hF")]
    assert rates(means, "h") == pytest.approx(expected, abs=1e-9)
    assert means["symmetric_difference_loss"] == pytest.approx(case["means"]["sdl"])


def overlap(a, b):
    both = len(a & b)
    if not a and not b:
        return [1, 1, 1]
    return [both / len(b) if b else 0, both / len(a) if a else 0, 2 * both / (len(a) + len(b))]


@given(
    hierarchies(weighted=True), st.booleans(), st.sampled_from([None, 0, 0.3, 1, 1.2, 2]), st.data()
)
def test_sets_by_brute_force(drawn, count_root, height, data):
    true, pred = (data.draw(class_sets(drawn[2], 5)) for _ in range(2))
    options = {"count_root": count_root, "max_ancestors": height, "measures": "set"}
    row = measured(true, pred, Hierarchy(*drawn), **options)
    reference = Reference(*drawn)
    above = [reference.extended(side, count_root, height) for side in (true, pred)]
    assert rates(row, "h") == pytest.approx(overlap(*above))
    assert row["symmetric_difference_loss"] == len(above[0] ^ above[1])
    expected = overlap(reference.below(true), reference.below(pred))
    assert rates(row, "descendant") == pytest.approx(expected)
    assert row["h_loss"] == reference.h_loss(true, pred, count_root, height)
    assert row["exact_match"] == (true == pred)


@given(hierarchies(weighted=True), st.sampled_from([0.3, 0.5, 1, 2.5, 5]), far_pairs, st.data())
def test_pairs_by_brute_force(drawn, limit, far, data):
    true, pred = (data.draw(class_sets(drawn[2])) for _ in range(2))
    options = {"max_distance": limit, "far_pairs": far, "measures": "pair"}
    row = measured(true, pred, Hierarchy(*drawn), **options)
    reference = Reference(*drawn)
    all_pairs = [reference.distance(y, p) for y in true for p in pred]
    expected = sum(all_pairs) if all_pairs else np.nan
    assert row["all_pairs_error"] == pytest.approx(expected, nan_ok=True)
    single = all_pairs[0] if len(true) == len(pred) == 1 else np.nan
    assert row["tree_induced_error"] == pytest.approx(single, nan_ok=True)
    assert row["gie"] == pytest.approx(reference.cheapest(true, pred, limit, far, one_to_one=True))
    error = reference.cheapest(true, pred, limit, far, one_to_one=False)
    assert row["mgia_error"] == pytest.approx(error)
    expected = 1 - error / (len(true ^ pred) * limit) if true != pred else 1
    assert row["mgia"] == pytest.approx(expected)


def edge_cover(cost, limit, forbid):
    """The cheapest pairs as an integer programme: each class is in one or pays the limit."""
    m, k = cost.shape
    pairs = np.where(forbid & (cost > limit), limit * 1e3, cost)
    rows = np.zeros((m + k, m * k + m + k))
    for i, j in itertools.product(range(m), range(k)):
        rows[i, i * k + j] = rows[m + j, i * k + j] = 1
    rows[:, m * k :] = np.eye(m + k)
    objective = np.append(pairs.ravel(), np.full(m + k, limit))
    return milp(
        objective, constraints=(rows, 1, np.inf), integrality=np.ones(len(objective)), bounds=(0, 1)
    ).fun


@settings(max_examples=40)
@given(hierarchies(most=25), st.sampled_from([1, 3, 5]), far_pairs, st.data())
def test_many_classes_against_an_assignment_and_an_integer_programme(drawn, limit, far, data):
    true, pred = (sorted(data.draw(class_sets(drawn[2], 9))) for _ in range(2))
    options = {"max_distance": limit, "far_pairs": far, "measures": "pair"}
    row = measured(true, pred, Hierarchy(*drawn), **options)
    reference, forbid = Reference(*drawn), far == "forbid"
    m, k = len(true), len(pred)
    cost = np.array([[reference.distance(y, p) for p in pred] for y in true]).reshape(m, k)
    cost = np.minimum(cost, limit) if far == "clip" else cost
    square = np.zeros((m + k, m + k))  # every class may also take a default class of its own
    square[:m, :k] = np.where(forbid & (cost > limit), limit * 1e3, cost)
    square[:m, k:] = square[m:, :k] = limit
    assert row["gie"] == pytest.approx(square[linear_sum_assignment(square)].sum())
    if m and k:
        assert row["mgia_error"] == pytest.approx(edge_cover(cost, limit, forbid))


@given(hierarchies(), st.data())
def test_swapping_truth_and_prediction_swaps_precision_and_recall(drawn, data):
    true, pred = (
        data.draw(st.lists(class_sets(drawn[2]), min_size=3, max_size=3)) for _ in range(2)
    )
    h = Hierarchy(*drawn)
    one, other = instance_measures(true, pred, h), instance_measures(pred, true, h)
    swapped = {"precision": "recall", "true_size": "pred_size"}
    swapped |= {there: here for here, there in swapped.items()}
    for name in one:
        family, _, rest = name.partition("_")
        counterpart = f"{family}_{swapped[rest]}" if rest in swapped else name
        pd.testing.assert_series_equal(one[name], other[counterpart], check_names=False)


@given(hierarchies(), st.sampled_from(["extended", "minimal"]), st.data())
def test_bounds_and_perfection(drawn, lca, data):
    h = Hierarchy(*drawn)
    pairs = st.lists(class_sets(drawn[2], 4), min_size=2, max_size=2)
    true, pred = data.draw(pairs), data.draw(pairs)
    table = instance_measures(true, pred, h, lca=lca)
    perfect = instance_measures(true, true, h, lca=lca)
    for name in table.columns.intersection(MEASURES):
        low, high = MEASURES[name].range
        assert table[name].dropna().between(low - 1e-12, high + 1e-12).all(), name
        best = high if MEASURES[name].direction == "max" else low
        # between different classes of the same set there are distances
        if name != "all_pairs_error":
            assert np.allclose(perfect[name].dropna(), best, rtol=0, atol=1e-12), name


def random_case(seed, n=60, instances=40):
    rng = np.random.default_rng(seed)
    parents = [rng.integers(j, size=rng.integers(1, 4)).tolist() for j in range(1, n)]
    edges = sorted({(p, j) for j, own in enumerate(parents, 1) for p in own})
    sets = [rng.choice(n, rng.integers(0, 6), replace=False).tolist() for _ in range(2 * instances)]
    return Hierarchy(edges, nodes=range(n)), sets[:instances], sets[instances:]


def test_names_and_their_order_do_not_matter():
    h, true, pred = random_case(2)
    rng = np.random.default_rng(3)
    new = rng.permutation(len(h)).tolist()
    edges = [(f"c{new[p]}", f"c{new[c]}") for c in h.nodes for p in h.parents(c)]
    other = Hierarchy([edges[i] for i in rng.permutation(len(edges))])
    renamed = [[{f"c{new[c]}" for c in row} for row in side] for side in (true, pred)]
    expected = instance_measures(*renamed, other)
    pd.testing.assert_frame_equal(instance_measures(true, pred, h), expected)


@pytest.mark.parametrize("cells", [1, 100])
def test_small_blocks_change_nothing(monkeypatch, cells):
    h, true, pred = random_case(5)
    expected = instance_measures(true, pred, h)
    monkeypatch.setattr(hierarchical, "_BLOCK", cells)
    monkeypatch.setattr(hierarchical, "_PIECE", cells)
    monkeypatch.setattr("mlflow_mleval.measures.hierarchy._TABLE", cells)
    pd.testing.assert_frame_equal(instance_measures(true, pred, h), expected)


def test_two_to_the_forty_paths_take_no_time():
    steps = [(i, k) for i in range(40) for k in range(2)]
    edges = [edge for i, k in steps for edge in ((i, (i, k)), ((i, k), i + 1))]
    h = Hierarchy([*edges, (40, "x"), (40, "y")])
    for lca, nodes in (("extended", 122), ("minimal", 82)):
        sides = [["x"], ["x"], ["x", "y"]], [["y"], [0], [(20, 0), "x"]]
        table = instance_measures(*sides, h, lca=lca, max_distance=100)
        assert table["tree_induced_error"].tolist()[:2] == [2, 81]
        assert table["h_true_size"].tolist() == [122, 122, 123]
        assert table["h_intersection"].tolist() == [121, 1, 122]
        assert table["lca_true_size"].tolist()[:2] == [2, nodes]
        assert table["lca_intersection"].tolist()[:2] == [1, 1]


def test_empty_sets():
    h = Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("s", "c")])
    table = instance_measures([["c"], [], []], [[], ["a"], []], h, max_distance=3)
    # the roots above c, or above a, are wrong; what is below follows from it
    assert table["h_loss"].tolist() == [2, 1, 0]
    rooted = instance_measures([["c"], [], []], [[], ["a"], []], h, count_root=True)
    assert rooted["h_loss"].tolist() == [1, 1, 0] and rooted["h_true_size"].tolist() == [5, 0, 0]
    for family in ("h", "descendant", "lca"):
        for rate in ("precision", "recall", "f1"):
            assert table[f"{family}_{rate}"].tolist() == [0, 0, 1]
    assert table["symmetric_difference_loss"].tolist() == [4, 2, 0]
    assert table["gie"].tolist() == [3, 3, 0] and table["mgia"].tolist() == [0, 0, 1]
    # no path, rather than one of no length
    assert table[["all_pairs_error", "tree_induced_error"]].isna().all(axis=None)
    sizes = table[["lca_true_size", "lca_pred_size"]].to_numpy().tolist()
    assert sizes == [[1, 0], [0, 1], [0, 0]]
    empty = instance_measures([[]], [[]], Hierarchy([], nodes=["a"])).isna().loc[0]
    assert empty[empty].index.tolist() == ["tree_induced_error", "all_pairs_error"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_distance": 0}, "`max_distance` must be a positive distance, got 0"),
        ({"max_distance": np.nan}, "`max_distance` must be a positive distance, got nan"),
        ({"lca_max_distance": -1}, "`lca_max_distance` must be a positive distance, got -1"),
        ({"lca": "largest"}, "`lca` must be one of 'extended', 'minimal', got 'largest'"),
        ({"far_pairs": "ignore"}, "`far_pairs` must be one of 'forbid', 'allow', 'clip', got 'ig"),
        ({"max_ancestors": -1}, "`max_ancestors` must be a distance of at least 0, got -1"),
        ({"measures": ["h_f1"]}, "`measures` must be one of 'set', 'pair', 'lca', got 'h_f1'"),
    ],
)
def test_bad_options(options, text):
    with pytest.raises(ValueError, match=text):
        instance_measures([["a"]], [["a"]], Hierarchy([("a", "b")]), **options)


def test_a_graph_of_networkx_is_taken_as_it_is():
    edges = [("animal", "cat"), ("animal", "dog")]
    graph = nx.DiGraph(edges)
    sets = [["cat"], ["dog"]], [["dog"], ["dog"]]
    of_graph = mleval.evaluate_hierarchical(*sets, graph)
    expected = mleval.evaluate_hierarchical(*sets, mleval.Hierarchy(edges)).measures
    assert of_graph.measures == expected
    matrices = {"y_true": [[1, 0], [0, 1]], "y_pred": [[0, 1], [0, 1]]}
    found = mleval.evaluate(**matrices, label_names=["cat", "dog"], hierarchy=graph)
    assert found.measures["h_f1"] == of_graph.measures["h_f1"]


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
    told = "6 classes, 4 edges, 2 roots"
    assert repr(h) == f"Hierarchy({told})"


def test_lengths_come_with_edges_graphs_and_files(tmp_path):
    h = Hierarchy([("a", "b"), ("a", "c")], weights=[0.5, 2])
    assert distance(h, "b", "c") == 2.5 and distance(h, "b", "b") == 0
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([("a", "b", 0.5), ("a", "c", 2)])
    assert distance(Hierarchy(graph), "b", "c") == 2
    lengths = [graph.edges[edge]["weight"] for edge in graph.edges]
    assert Hierarchy(graph, lengths).digest == h.digest
    (tmp_path / "h.csv").write_text("parent,child,weight\na,b,0.5\na,c,2\n")
    assert Hierarchy.from_csv(tmp_path / "h.csv").digest == h.digest


def test_classes_without_edges_and_the_order_of_classes():
    h = Hierarchy([("b", "a")], nodes=["z", "a"])
    assert h.nodes == ["z", "a", "b"]
    assert h.ancestors("z") == h.parents("z") == set()
    assert distance(h, "z", "a") == 3
    assert Hierarchy([], nodes=["only"]).nodes == ["only"]
    graph = nx.DiGraph([("b", "a")])
    graph.add_node("z")
    assert Hierarchy(graph).nodes == ["b", "a", "z"]


AB = ("a", "b")
CYCLES = [("r", "a"), AB, ("b", "a"), ("b", "x"), ("x", "y"), ("y", "x")]


INDICATOR = Hierarchy([AB, ("a", "c")]).indicator


@pytest.mark.parametrize(
    ("call", "given", "text"),
    [
        (Hierarchy, ([("a", "a"), AB, ("b", "b")],), r"to itself, got 2 edges: \('a', 'a'\)"),
        (
            Hierarchy,
            ([AB, ("b", "c"), AB, AB],),
            r"an edge, got again 2 edges: \('a', 'b'\), \('a'",
        ),
        (Hierarchy, ([AB, ("b", "c"), ("c", "a")],), "'a' -> 'b' -> 'c' -> 'a'"),
        (Hierarchy, (CYCLES,), "'a' -> 'b' -> 'a'"),
        (Hierarchy, ([AB, ("b", "a"), ("b", "c"), ("c", "d")],), "'a' -> 'b' -> 'a'"),
        (Hierarchy, ([],), "at least one class, got none"),
        (Hierarchy, ([AB], [0]), r"positive and finite, got others on 1 edge: \('a', 'b'\)"),
        (Hierarchy, ([AB, ("a", "c")], [1, np.nan]), r"finite, got others on 1 edge: \('a', 'c'\)"),
        (Hierarchy, ([AB], [1, 1]), r"must hold 1 lengths, got \(2,\)"),
        (Hierarchy, ([AB, "ab"],), r"`edges\[1\]` must be a pair \(parent, child\), got 'ab'"),
        (Hierarchy, ([(*AB, 2)],), r"`edges\[0\]` must be a pair .* got \('a', 'b', 2\)"),
        (Hierarchy, ([{*AB}],), r"`edges\[0\]` must be a pair .* got {'"),
        (Hierarchy, (nx.Graph([AB]),), "directed graph, .* got an undirected one"),
        (Hierarchy.from_paths, (["a/b", "a//b"],), "non-empty parts joined by '/', got 'a//b'"),
        (Hierarchy([AB]).ancestors, ("x",), "`name` must hold classes .* got 1 unknown class: 'x'"),
        (
            INDICATOR,
            ([["a"], ["x", "b", "y"], ["x"]],),
            "the hierarchy, got 2 unknown classes: 'x'",
        ),
        (INDICATOR, ([["a"], "b"],), "of classes for each instance, got 'b' for instance 1"),
        (INDICATOR, ([3, ["a"], 4],), "got 3 for instance 0 .2 such instances: 0, 2."),
        (INDICATOR, ([],), "at least one instance"),
        (INDICATOR, (np.eye(3),), "dense array of numbers"),
        (INDICATOR, (sparse.csr_array(np.eye(2)),), "must have 3 columns, got .2, 2."),
        (INDICATOR, (sparse.csr_array([[2, 0, 0]]),), "`sets` must hold only 0 and 1"),
    ],
)
def test_what_is_no_hierarchy_and_no_class_of_one_is_named(call, given, text):
    with pytest.raises((TypeError, ValueError), match=text):
        call(*given)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("parent,kid\na,b\n", r"columns parent and child, got \['parent', 'kid'\]"),
        ("parent,child\na,b\na,\n", "others on 1 line: 3"),
        ("parent,child,weight\na,b,2\na,c,near\n", "others on 1 line: 3"),
    ],
)
def test_wrong_files_are_refused(tmp_path, content, text):
    (tmp_path / "h.csv").write_text(content)
    with pytest.raises(ValueError, match=text):
        Hierarchy.from_csv(tmp_path / "h.csv")


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


@given(hierarchies(weighted=True))
def test_distances_and_relatives_are_those_of_networkx(drawn):
    h, reference = Hierarchy(*drawn), Reference(*drawn)
    for a in drawn[2]:
        assert h.ancestors(a) == nx.ancestors(reference.graph, a) - {ROOT}
        for b in drawn[2]:
            assert distance(h, a, b) == pytest.approx(reference.distance(a, b), abs=1e-12)


def test_long_edges_need_wider_numbers():
    edges = [(i, i + 1) for i in range(30)]
    for length, kind in ((1, np.int16), (1000, np.int32), (0.5, np.float64), (1e12, np.float64)):
        h = Hierarchy(edges, [length] * 30)
        assert closure(h._up).dtype == kind
        assert distance(h, 0, 30) == pytest.approx(30 * length, rel=1e-12)


def test_deep_chains_build_at_once():
    h = Hierarchy([(i, i + 1) for i in range(20000)])
    assert distance(h, 0, 50) == 50 and h.ancestors(3) == {0, 1, 2}


def sizes(row):
    return tuple(row[["lca_intersection", "lca_true_size", "lca_pred_size"]].astype(int))


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["id"])
def test_golden_extended(case):
    expected, row = case["definition"]["lca_extended"], measure(case, "lca")
    true, pred = set(expected["Yaug"]), set(expected["Paug"])
    assert sizes(row) == (len(true & pred), len(true), len(pred))
    assert rates(row, "lca") == pytest.approx([expected[k] for k in "PRF"], abs=1e-9)


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["id"])
def test_golden_minimal(case):
    expected, row = case["definition"]["lca_minimal"], measure(case, "lca", lca="minimal")
    assert row["lca_f1"] == pytest.approx(expected["F"], abs=1e-9) and row["lca_exact"] == 1
    best = expected["optimal_PRF"]
    assert any(rates(row, "lca") == pytest.approx(one, abs=1e-9) for one in best)
    if case["hemkit"]["agrees"]["lca_minimal_F"]:
        assert row["lca_f1"] == pytest.approx(case["hemkit"]["lcaF"], abs=1e-9)


@pytest.mark.parametrize(
    "case",
    [c for c in GOLDEN["cases"] if c["id"].startswith(("chain_md", "fig17like"))],
    ids=lambda case: case["id"],
)
@pytest.mark.parametrize("lca", ["extended", "minimal"])
def test_dummy_node_stands_where_hemkit_puts_it(case, lca):
    # Its option is the height above which ancestors are cut off on each side; the dummy node is one
    # level higher.
    row = measure(case, "lca", lca=lca, lca_max_distance=2 * (case["hemkit"]["max_distance"] + 1))
    expected = [case["hemkit"][k] for k in ("lcaP", "lcaR", "lcaF")]
    assert rates(row, "lca") == pytest.approx(expected, abs=1e-9)


@given(hierarchies(weighted=True), st.sampled_from([None, 0.5, 1, 2, 3, 4, 5.5]), st.data())
def test_extended_graphs_by_brute_force(drawn, limit, data):
    true, pred = (data.draw(class_sets(drawn[2], 4)) for _ in range(2))
    row = measured(true, pred, Hierarchy(*drawn), lca_max_distance=limit)
    t, p = Reference(*drawn).extended_graphs(true, pred, limit)
    assert sizes(row) == (len(t & p), len(t), len(p))


@given(hierarchies(most=14, weighted=True), st.sampled_from([None, None, 2, 3, 4, 5.5]), st.data())
def test_minimal_graphs_by_exhaustive_search(drawn, limit, data):
    true, pred = (data.draw(class_sets(drawn[2], 4)) for _ in range(2))
    best = Reference(*drawn).minimal_graphs(true, pred, limit)
    assume(best is not None)
    h = Hierarchy(*drawn)
    row = measured(true, pred, h, lca="minimal", lca_max_distance=limit)
    # of the best with the fewest nodes, the fewest predicted ones
    assert row["lca_exact"] == 1 and sizes(row) == min(best, key=lambda found: found[2])


def dense_case(seed, levels=5, width=4):
    rng = np.random.default_rng(seed)
    joints = product(range(levels), range(width), range(width))
    edges = [((i, a), (i + 1, b)) for i, a, b in joints if rng.random() < 0.6]
    edges += [("top", (0, a)) for a in range(width)]
    h = Hierarchy(edges)
    classes = [c for c in h.nodes if c != "top" and c[0] >= levels - 1]
    return h, *([classes[i] for i in rng.choice(len(classes), 3, replace=False)] for _ in range(2))


@pytest.mark.parametrize("seed", range(25))
def test_minimal_graphs_where_many_paths_tie(seed):
    h, true, pred = dense_case(seed)
    edges = [(p, c) for c in h.nodes for p in h.parents(c)]
    best = Reference(edges).minimal_graphs(set(true), set(pred))
    if best is None:
        pytest.skip("too many choices to try them all")
    assert sizes(measured(true, pred, h, lca="minimal")) == min(best, key=lambda found: found[2])


def test_a_meeting_node_is_joined_to_one_class_of_each_side_whichever():
    edges = [(6, 7), (6, 5), (6, 1), (7, 2), (2, 4), (5, 3), (3, 8)]
    row = measured([1, 4], [2, 8], Hierarchy(edges), lca="minimal")
    # 2 need not climb to 6 over 7: 8 does
    assert sizes(row) == (2, 4, 5) and row["lca_f1"] == 4 / 9 and row["lca_exact"] == 1
    assert sizes(measured([1, 4], [2, 8], Hierarchy(edges))) == (2, 4, 6)


def test_all_far_pairs_meet_in_one_node():
    tree = {"r": "a b", "a": "a1", "a1": "a2", "b": "b1", "b1": "b2 b3"}
    h = Hierarchy([(up, down) for up, below in tree.items() for down in below.split()])
    # a2 a1 dummy; b2 b3 b1 dummy, and then over r, and below all
    for limit, expected in ((4, (1, 3, 4)), (6, (1, 4, 5)), (2, (1, 2, 3))):
        for lca in ("extended", "minimal"):
            row = measured(["a2"], ["b2", "b3"], h, lca=lca, lca_max_distance=limit)
            assert sizes(row) == expected
    assert sizes(measured(["r"], ["b2"], h, lca_max_distance=2)) == (1, 2, 2)


@pytest.mark.parametrize("limits", [{"_STEPS": 300, "_WAYS": 2}, {"_COVERS": 1}, {"_STEPS": 1}])
def test_a_search_that_is_cut_short_says_so_and_joins_every_class(monkeypatch, limits):
    exact = []
    for seed in range(25):
        h, true, pred = dense_case(seed)
        full, most = (measured(true, pred, h, lca=lca) for lca in ("minimal", "extended"))
        with monkeypatch.context() as patch:
            for name, value in limits.items():
                patch.setattr(lca_minimal, name, value)
            row = measured(true, pred, h, lca="minimal")
        assert row["lca_intersection"] >= 1
        for name in ("lca_true_size", "lca_pred_size"):
            assert 1 <= row[name] <= most[name]
        assert row["lca_exact"] == 0 or sizes(row) == sizes(full)
        exact.append(row["lca_exact"])
    assert 0 in exact


def test_many_classes_with_one_way_each():
    tree = [(i // 3, i) for i in range(3, 400)]
    h = Hierarchy([("r", 1), ("r", 2), *tree])
    rng = np.random.default_rng(0)
    true, pred = (rng.choice(np.arange(100, 400), 40, replace=False).tolist() for _ in range(2))
    row = measured(true, pred, h, lca="minimal")
    assert row["lca_exact"] == 1 and row["lca_f1"] > 0
    t, p = Reference([("r", 1), ("r", 2), *tree]).extended_graphs(set(true), set(pred))
    assert row["lca_true_size"] <= len(t) and row["lca_pred_size"] <= len(p)
