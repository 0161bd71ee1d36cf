"""LCA measures: published cases, and every path and every choice tried on tiny hierarchies."""

import json
from itertools import product

import numpy as np
import pytest
from hierarchy_reference import Reference, class_sets, hierarchies
from hypothesis import assume, given
from hypothesis import strategies as st
from places import GOLDEN

from mlflow_mleval.measures import lca as lca_minimal
from mlflow_mleval.measures.hierarchical import instance_measures
from mlflow_mleval.measures.hierarchy import Hierarchy

GOLDEN = json.loads((GOLDEN / "hierarchical_cases.json").read_text())


def measure(true, pred, h, **options):
    return instance_measures([true], [pred], h, measures="lca", **options).loc[0]


def solve(case, **options):
    return measure(
        case["true"], case["pred"], Hierarchy([tuple(edge) for edge in case["edges"]]), **options
    )


def sizes(row):
    return tuple(row[["lca_intersection", "lca_true_size", "lca_pred_size"]].astype(int))


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["id"])
def test_golden_extended(case):
    expected, row = case["definition"]["lca_extended"], solve(case)
    true, pred = set(expected["Yaug"]), set(expected["Paug"])
    assert sizes(row) == (len(true & pred), len(true), len(pred))
    found = row[["lca_precision", "lca_recall", "lca_f1"]].tolist()
    assert found == pytest.approx([expected[k] for k in "PRF"], abs=1e-9)


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["id"])
def test_golden_minimal(case):
    expected, row = case["definition"]["lca_minimal"], solve(case, lca="minimal")
    assert row["lca_f1"] == pytest.approx(expected["F"], abs=1e-9) and row["lca_exact"] == 1
    found = row[["lca_precision", "lca_recall", "lca_f1"]].tolist()
    assert any(found == pytest.approx(best, abs=1e-9) for best in expected["optimal_PRF"])
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
    row = solve(case, lca=lca, lca_max_distance=2 * (case["hemkit"]["max_distance"] + 1))
    found = row[["lca_precision", "lca_recall", "lca_f1"]].tolist()
    assert found == pytest.approx([case["hemkit"][k] for k in ("lcaP", "lcaR", "lcaF")], abs=1e-9)


@given(hierarchies(weighted=True), st.sampled_from([None, 0.5, 1, 2, 3, 4, 5.5]), st.data())
def test_extended_graphs_by_brute_force(drawn, limit, data):
    edges, lengths, nodes = drawn
    true, pred = (data.draw(class_sets(nodes, 4)) for _ in range(2))
    row = measure(true, pred, Hierarchy(edges, lengths, nodes), lca_max_distance=limit)
    t, p = Reference(edges, lengths, nodes).extended_graphs(true, pred, limit)
    assert sizes(row) == (len(t & p), len(t), len(p))


@given(hierarchies(most=14, weighted=True), st.sampled_from([None, None, 2, 3, 4, 5.5]), st.data())
def test_minimal_graphs_by_exhaustive_search(drawn, limit, data):
    edges, lengths, nodes = drawn
    true, pred = (data.draw(class_sets(nodes, 4)) for _ in range(2))
    best = Reference(edges, lengths, nodes).minimal_graphs(true, pred, limit)
    assume(best is not None)
    h = Hierarchy(edges, lengths, nodes)
    row = measure(true, pred, h, lca="minimal", lca_max_distance=limit)
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
    assert sizes(measure(true, pred, h, lca="minimal")) == min(best, key=lambda found: found[2])


def test_a_meeting_node_is_joined_to_one_class_of_each_side_whichever():
    edges = [(6, 7), (6, 5), (6, 1), (7, 2), (2, 4), (5, 3), (3, 8)]
    row = measure([1, 4], [2, 8], Hierarchy(edges), lca="minimal")
    # 2 need not climb to 6 over 7: 8 does
    assert sizes(row) == (2, 4, 5) and row["lca_f1"] == 4 / 9 and row["lca_exact"] == 1
    assert sizes(measure([1, 4], [2, 8], Hierarchy(edges))) == (2, 4, 6)


def test_all_far_pairs_meet_in_one_node():
    tree = {"r": "a b", "a": "a1", "a1": "a2", "b": "b1", "b1": "b2 b3"}
    h = Hierarchy([(up, down) for up, below in tree.items() for down in below.split()])
    # a2 a1 dummy; b2 b3 b1 dummy, and then over r, and below all
    for limit, expected in ((4, (1, 3, 4)), (6, (1, 4, 5)), (2, (1, 2, 3))):
        for lca in ("extended", "minimal"):
            row = measure(["a2"], ["b2", "b3"], h, lca=lca, lca_max_distance=limit)
            assert sizes(row) == expected
    assert sizes(measure(["r"], ["b2"], h, lca_max_distance=2)) == (1, 2, 2)


@pytest.mark.parametrize("limits", [{"_STEPS": 300, "_WAYS": 2}, {"_COVERS": 1}, {"_STEPS": 1}])
def test_a_search_that_is_cut_short_says_so_and_joins_every_class(monkeypatch, limits):
    exact = []
    for seed in range(25):
        h, true, pred = dense_case(seed)
        full, most = (measure(true, pred, h, lca=lca) for lca in ("minimal", "extended"))
        with monkeypatch.context() as patch:
            for name, value in limits.items():
                patch.setattr(lca_minimal, name, value)
            row = measure(true, pred, h, lca="minimal")
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
    row = measure(true, pred, h, lca="minimal")
    assert row["lca_exact"] == 1 and row["lca_f1"] > 0
    t, p = Reference([("r", 1), ("r", 2), *tree]).extended_graphs(set(true), set(pred))
    assert row["lca_true_size"] <= len(t) and row["lca_pred_size"] <= len(p)
