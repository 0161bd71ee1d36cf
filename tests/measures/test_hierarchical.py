"""Set- and pair-based measures: published cases, exact solvers, brute force, properties."""

import itertools
import json

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hierarchy_reference import Reference, class_sets, hierarchies
from hypothesis import given, settings
from hypothesis import strategies as st
from places import GOLDEN
from scipy.optimize import linear_sum_assignment, milp

import mlflow_mleval as mleval
from mlflow_mleval.measures import hierarchical
from mlflow_mleval.measures.hierarchical import instance_measures
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.registry import MEASURES

GOLDEN = json.loads((GOLDEN / "hierarchical_cases.json").read_text())
BOTH = ["set", "pair"]
far_pairs = st.sampled_from(["forbid", "allow", "clip"])


def hierarchy(case):
    return Hierarchy([tuple(edge) for edge in case["edges"]])


def measure(case, **options):
    options = {"max_distance": case["max_distance"], "measures": BOTH} | options
    return instance_measures([case["true"]], [case["pred"]], hierarchy(case), **options).loc[0]


def rates(row, name):
    return [row[f"{name}_{rate}"] for rate in ("precision", "recall", "f1")]


# ---- published and independently solved cases ----------------------------------------------------


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


# ---- brute force ---------------------------------------------------------------------------------


def overlap(a, b):
    both = len(a & b)
    if not a and not b:
        return [1, 1, 1]
    return [both / len(b) if b else 0, both / len(a) if a else 0, 2 * both / (len(a) + len(b))]


@given(
    hierarchies(weighted=True), st.booleans(), st.sampled_from([None, 0, 0.3, 1, 1.2, 2]), st.data()
)
def test_sets_by_brute_force(drawn, count_root, height, data):
    edges, lengths, nodes = drawn
    true, pred = (data.draw(class_sets(nodes, 5)) for _ in range(2))
    options = {"count_root": count_root, "max_ancestors": height, "measures": "set"}
    row = instance_measures([true], [pred], Hierarchy(edges, lengths, nodes), **options).loc[0]
    reference = Reference(edges, lengths, nodes)
    above = [reference.extended(side, count_root, height) for side in (true, pred)]
    assert rates(row, "h") == pytest.approx(overlap(*above))
    assert row["symmetric_difference_loss"] == len(above[0] ^ above[1])
    expected = overlap(reference.below(true), reference.below(pred))
    assert rates(row, "descendant") == pytest.approx(expected)
    assert row["h_loss"] == reference.h_loss(true, pred, count_root, height)
    assert row["exact_match"] == (true == pred)


@given(hierarchies(weighted=True), st.sampled_from([0.3, 0.5, 1, 2.5, 5]), far_pairs, st.data())
def test_pairs_by_brute_force(drawn, limit, far, data):
    edges, lengths, nodes = drawn
    true, pred = (data.draw(class_sets(nodes)) for _ in range(2))
    options = {"max_distance": limit, "far_pairs": far, "measures": "pair"}
    row = instance_measures([true], [pred], Hierarchy(edges, lengths, nodes), **options).loc[0]
    reference = Reference(edges, lengths, nodes)
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


@settings(deadline=None, max_examples=40)
@given(hierarchies(most=25), st.sampled_from([1, 3, 5]), far_pairs, st.data())
def test_many_classes_against_an_assignment_and_an_integer_programme(drawn, limit, far, data):
    edges, lengths, nodes = drawn
    true, pred = (sorted(data.draw(class_sets(nodes, 9))) for _ in range(2))
    options = {"max_distance": limit, "far_pairs": far, "measures": "pair"}
    row = instance_measures([true], [pred], Hierarchy(edges, lengths, nodes), **options).loc[0]
    reference, forbid = Reference(edges, lengths, nodes), far == "forbid"
    m, k = len(true), len(pred)
    cost = np.array([[reference.distance(y, p) for p in pred] for y in true]).reshape(m, k)
    cost = np.minimum(cost, limit) if far == "clip" else cost
    square = np.zeros((m + k, m + k))  # every class may also take a default class of its own
    square[:m, :k] = np.where(forbid & (cost > limit), limit * 1e3, cost)
    square[:m, k:] = square[m:, :k] = limit
    assert row["gie"] == pytest.approx(square[linear_sum_assignment(square)].sum())
    if m and k:
        assert row["mgia_error"] == pytest.approx(edge_cover(cost, limit, forbid))


# ---- what must hold always -----------------------------------------------------------------------


@given(hierarchies(), st.data())
def test_swapping_truth_and_prediction_swaps_precision_and_recall(drawn, data):
    edges, lengths, nodes = drawn
    true, pred = (data.draw(st.lists(class_sets(nodes), min_size=3, max_size=3)) for _ in range(2))
    h = Hierarchy(edges, lengths, nodes)
    one, other = instance_measures(true, pred, h), instance_measures(pred, true, h)
    swapped = {"precision": "recall", "true_size": "pred_size"}
    swapped |= {there: here for here, there in swapped.items()}
    for name in one:
        family, _, rest = name.partition("_")
        counterpart = f"{family}_{swapped[rest]}" if rest in swapped else name
        pd.testing.assert_series_equal(one[name], other[counterpart], check_names=False)


@given(hierarchies(), st.sampled_from(["extended", "minimal"]), st.data())
def test_bounds_and_perfection(drawn, lca, data):
    edges, lengths, nodes = drawn
    h = Hierarchy(edges, lengths, nodes)
    pairs = st.lists(class_sets(nodes, 4), min_size=2, max_size=2)
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


# ---- conventions, options and errors -------------------------------------------------------------


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
        ({"measures": []}, "`measures` must name at least one of 'set', 'pair', 'lca', got none"),
    ],
)
def test_bad_options(options, text):
    with pytest.raises(ValueError, match=text):
        instance_measures([["a"]], [["a"]], Hierarchy([("a", "b")]), **options)
    with pytest.raises(ValueError, match="`pred` must hold the 1 instances of `true`, got 2"):
        instance_measures([["a"]], [["a"], ["b"]], Hierarchy([("a", "b")]))


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
