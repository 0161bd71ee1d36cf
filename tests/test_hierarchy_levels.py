"""Measures by level of a hierarchy, and of predictions that violate it, against sets made by hand."""

import numpy as np
import pytest

import mlflow_mleval as mleval

NAMES = [f"level_{level}_{rate}" for level in (1, 2, 3, 4) for rate in ("precision", "recall", "f1")]


def test_levels_and_violations_are_those_of_the_sets():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        edges = [(parent, child) for child in range(1, 9) for parent in range(child) if rng.random() < 0.3]
        h = mleval.Hierarchy(edges, nodes=range(9))
        level = {c: 1 + max((len(path) for path in _paths(h, c)), default=0) for c in range(9)}
        sides = [[{int(c) for c in np.flatnonzero(rng.random(9) < 0.2)} for _ in range(6)] for _ in range(2)]
        true, pred = ([{a for c in row for a in (c, *h.ancestors(c))} for row in side] for side in sides)
        ev = mleval.evaluate_hierarchical(*sides, h, measures=[*NAMES, "violation_rate", "missing_ancestors"], folds=[0, 1] * 3)
        expected = {}
        for at in (1, 2, 3, 4):
            here = {c for c in range(9) if level[c] == at}
            both, t, p = (sum(len(here & f(a, b)) for a, b in zip(true, pred, strict=True))
                          for f in (lambda a, b: a & b, lambda a, b: a, lambda a, b: b))  # fmt: skip
            expected |= {f"level_{at}_precision": (both, p), f"level_{at}_recall": (both, t), f"level_{at}_f1": (2 * both, t + p)}
        for name, (part, whole) in expected.items():
            assert ev.measures[name] == pytest.approx(part / whole) if whole else name in ev.absent
        missing = [len(full) - len(given) for full, given in zip(pred, sides[1], strict=True)]
        assert ev.measures["violation_rate"] == pytest.approx(np.mean(np.array(missing) > 0))
        assert ev.measures["missing_ancestors"] == pytest.approx(np.mean(missing))


def _paths(h, c):
    """Ways from the roots to a class, without the class."""
    parents = h.parents(c)
    return [[*path, p] for p in parents for path in (_paths(h, p) or [[]])]


def test_label_matrices_and_one_label_have_them_on_request():
    h = mleval.Hierarchy([("a", "b"), ("a", "c")])
    asked = ["hmc", "level_1_f1"]
    flat = mleval.evaluate([[0, 1, 0]], [[0.1, 0.2, 0.9]], label_names=["a", "b", "c"], hierarchy=h, measures=asked)
    assert flat.measures["violation_rate"] == flat.measures["level_1_f1"] == 1 and "h_f1" in flat.measures
    one = mleval.evaluate(["b", "c"], y_pred=["c", "c"], label_names=["a", "b", "c"], hierarchy=h, measures="level_2_recall")
    assert one.measures["level_2_recall"] == 0.5
    assert mleval.evaluate(["b"], y_pred=["c"], measures="level_2_recall").absent["level_2_recall"] == "no `hierarchy` was given"
