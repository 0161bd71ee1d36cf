"""Every measure of the registry is what its reference says, in every form, and merges; how measures
are asked for.
"""

import itertools
import json
import warnings

import numpy as np
import pandas as pd
import pytest
from measure_references import Case, interpolated, references
from scipy import sparse
from sklearn import metrics

import mlflow_mleval as mleval
from mlflow_mleval.evaluation import Evaluation
from mlflow_mleval.measures import curves
from mlflow_mleval.measures.curves import percent_curves
from mlflow_mleval.measures.inputs import Propensities
from mlflow_mleval.measures.registry import CLASS_SETS, LABEL_SETS, MEASURES, ONE_LABEL

#: Names with numbers beside the listed ones.
NUMBERED = [
    *("precision_at_2", "recall_at_17", "ndcg_at_4", "psp_at_2", "psndcg_at_20", "ece_4"),
    *("ece_40", "distance_at_1", "distance_at_2", "level_1_f1", "level_3_recall"),
    *("top_k_accuracy_1", "top_k_accuracy_3"),
]
OF_HIERARCHIES = {
    m for m in (*MEASURES, *NUMBERED) if MEASURES[m].family.startswith("hierarchical")
}
TYPES = (np.float16, np.float32, np.float64)


def measures_of(kind, with_hierarchy=True):
    names = [m for m in (*MEASURES, *NUMBERED) if with_hierarchy or m not in OF_HIERARCHIES]
    return [m for m in names if kind in MEASURES[m].kinds and MEASURES[m].family != "cost"]


def asked(kind):
    return [m for m in (*MEASURES, *NUMBERED) if kind in MEASURES[m].asked]


def some_hierarchy(rng, n_labels):
    """A graph with several roots and parents, classes without edges, and maybe further ones."""
    nodes = [f"c{i}" for i in range(n_labels + rng.integers(0, 3))]
    edges = [pair for pair in itertools.combinations(nodes, 2) if rng.random() < 0.35]
    return nodes, edges, list(rng.permutation(nodes)[:n_labels])


def at_most(matrix, most, rng):
    """The matrix with at most so many ones in a row."""
    for row in matrix:
        ones = np.flatnonzero(row)
        row[rng.permutation(ones)[most:]] = 0
    return matrix


def label_sets(seed):
    """Ties, zeros, negative scores, empty rows and columns, N = 1 and K = 1."""
    rng = np.random.default_rng(seed)
    n, k = (1 if rng.random() < 0.1 else rng.integers(2, most) for most in (9, 6))
    y = at_most((rng.random((n, k)) < rng.choice([0.1, 0.4, 0.8])).astype(int), 3, rng)
    s = rng.integers(0, 6, (n, k)) / 8 if rng.random() < 0.6 else rng.random((n, k))
    s = s * (rng.random((n, k)) < rng.choice([0.4, 0.8, 1]))
    if rng.random() < 0.2:
        s = 4 * s * rng.choice([-1, 1], (n, k))
    s = s.astype(TYPES[seed % 3])
    high = at_most((s >= 0.5).astype(int), 3, rng)
    s[(s >= 0.5) & (high == 0)] = 0.25
    train = (rng.random((20, k)) < 0.3).astype(int) if seed % 4 else None
    case = Case(y, s.astype(float), s >= 0.5, float(np.finfo(s.dtype).eps), train)
    if seed % 2:
        case.nodes, case.edges, case.names = some_hierarchy(rng, k)
    return case, s, rng


def quietly(y, s, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # scores that are all 0 or 1
        return mleval.evaluate(y, s, **options)


def options_of(case, kind):
    measures = [m for m in asked(kind) if not (case.train is None and m.startswith("ps"))]
    if case.edges is None:
        return {"measures": measures}
    h = mleval.Hierarchy(case.edges, nodes=case.nodes)
    return {"measures": measures, "hierarchy": h, "label_names": case.names}


def compare(ev, case, kind, names, seed):
    expected = references(case, kind, names)
    assert not set(names) - set(expected), "a measure has no reference"
    for name in names:
        value = expected[name]
        if np.isnan(value):
            assert name in ev.absent, (seed, name, ev.measures.get(name))
        else:
            expected_one = pytest.approx(value, rel=1e-9, abs=1e-10)
            assert ev.measures.get(name) == expected_one, (seed, name, ev.absent.get(name))


def check_label_sets(seed):
    case, s, _ = label_sets(seed)
    y, form = case.y, seed // 3 % 4
    if form == 1:
        names = case.names or [f"l{i}" for i in range(y.shape[1])]
        y, s = pd.DataFrame(y, columns=names), pd.DataFrame(s, columns=names)
    elif form == 2:
        s = s.astype(np.float32) if s.dtype == np.float16 else s  # scipy has no sparse halves
        y, s = sparse.csr_array(y), sparse.coo_array(s)
        case.epsilon = float(np.finfo(s.dtype).eps)
    elif form == 3:
        y = y.astype(bool)
    options = options_of(case, LABEL_SETS)
    if case.train is not None:
        options["train_labels"] = case.train
    if seed % 5 == 0:  # label sets alone
        case.s = None
        ev = mleval.evaluate(y, y_pred=sparse.csr_array(case.p) if form == 2 else case.p, **options)
    else:
        ev = quietly(y, s, **options)
    names = measures_of(LABEL_SETS, case.edges is not None)
    if case.train is None:
        names = [m for m in names if not m.startswith("ps")]
    compare(ev, case, LABEL_SETS, names, seed)
    if case.probable:
        columns = list(zip(case.y.T, case.s.T, strict=True))
        np.testing.assert_allclose(
            ev.labels["brier_score"], [((a - b) ** 2).mean() for a, b in columns], atol=1e-12
        )


def check_one_label(seed):
    """Truth as numbers, text or a Series; probabilities or values; classes that never occur."""
    rng = np.random.default_rng(seed)
    n, k = (1 if rng.random() < 0.1 else rng.integers(2, 12)), rng.integers(2, 8)
    truth = rng.integers(0, k if rng.random() < 0.6 else 2, n)
    score = rng.integers(0, 4, (n, k)) + 1.0 if seed % 2 else rng.random((n, k))
    score = score.astype(TYPES[seed % 3])
    whole = score.sum(axis=1, keepdims=True, dtype=score.dtype)
    score = score - 2 if seed % 7 == 0 else score / whole
    hot = np.eye(k, dtype=int)
    epsilon = float(np.finfo(score.dtype).eps)
    case = Case(hot[truth], score.astype(float), hot[score.argmax(axis=1)], epsilon)
    case.nodes, case.edges, names = some_hierarchy(rng, k)
    case.names = sorted(names)
    y = [case.names[i] for i in truth]
    y = pd.Series(y) if seed % 3 == 0 else np.array(y) if seed % 3 == 1 else y
    if seed % 5 == 0:
        case.s, pred = None, [case.names[i] for i in case.p.argmax(axis=1)]
        ev = mleval.evaluate(y, y_pred=pred, **options_of(case, ONE_LABEL))
    else:
        ev = mleval.evaluate(y, score, **options_of(case, ONE_LABEL))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compare(ev, case, ONE_LABEL, measures_of(ONE_LABEL), seed)


def check_class_sets(seed):
    case, _, _ = label_sets(2 * seed + 1)
    h = mleval.Hierarchy(case.edges, nodes=case.nodes)
    sides = case.sets(case.y), case.sets(case.p)
    sides = [h.indicator(side) for side in sides] if seed % 2 else map(pd.Series, sides)
    names = ["set", "pair", "lca", *asked(CLASS_SETS)]
    ev = mleval.evaluate_hierarchical(*sides, h, measures=names)
    compare(ev, case, CLASS_SETS, measures_of(CLASS_SETS), seed)


CHECKS = {LABEL_SETS: check_label_sets, ONE_LABEL: check_one_label, CLASS_SETS: check_class_sets}


@pytest.mark.filterwarnings("ignore:A single label was found:UserWarning")
@pytest.mark.parametrize("kind", CHECKS)
@pytest.mark.parametrize("cases", [24, pytest.param(200, marks=pytest.mark.slow)])
def test_every_measure_is_what_its_reference_says(kind, cases):
    for seed in range(cases):
        CHECKS[kind](seed)


# ---- merging -------------------------------------------------------------------------------------


def regrouped(rng, evaluate_part, n):
    """The instances in random groups, merged in random order, some written and read back."""
    ends = np.sort(rng.choice(np.arange(1, n), 5, replace=False))
    parts = [evaluate_part(at) for at in np.split(rng.permutation(n), ends)]
    parts = [
        Evaluation.from_dict(json.loads(json.dumps(part.to_dict()))) if i % 2 else part
        for i, part in enumerate(parts)
    ]
    while len(parts) > 1:
        take = int(rng.integers(2, len(parts) + 1))
        rng.shuffle(parts)
        parts = [mleval.merge(parts[:take]), *parts[take:]]
    return parts[0]


@pytest.mark.parametrize("form", ["dense", "sparse", "one label", "class sets"])
@pytest.mark.parametrize("exact", [True, False])
def test_random_groups_in_random_order_give_the_same_to_the_bit(monkeypatch, form, exact):
    if not exact:
        monkeypatch.setattr(curves, "EXACT", 60)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        n, k = 40, 12
        nodes, edges, names = some_hierarchy(rng, k)
        names = sorted(names)
        kind = {"one label": ONE_LABEL, "class sets": CLASS_SETS}.get(form, LABEL_SETS)
        h = mleval.Hierarchy(edges, nodes=nodes)
        options = {"hierarchy": h, "label_names": names, "measures": asked(kind)}
        options["instances"] = False
        if kind == ONE_LABEL:
            y, s = rng.choice(names, n), rng.dirichlet(np.ones(k), n)
        else:
            y = (rng.random((n, k)) < 0.2).astype(int)
            s = rng.random((n, k)) * (rng.random((n, k)) < 0.6)
            s = s.round(1) if seed % 2 else s
            options["train_labels"] = Propensities.of(rng.integers(0, 2, (30, k)))
        if form == "sparse":
            y, s = sparse.csr_array(y), sparse.csr_array(s)
        if form == "class sets":
            case = Case(y, s, s >= 0.5, names=names)
            sides = case.sets(case.y), case.sets(case.p)
            own = {"h": h, "measures": ["set", "pair", "lca", *asked(kind)], "instances": False}

            def part(at, sides=sides, own=own):
                return mleval.evaluate_hierarchical(
                    *([side[i] for i in at] for side in sides), **own
                )
        else:

            def part(at, y=y, s=s, options=options):
                return mleval.evaluate(y[at], s[at], **options)

        whole = part(np.arange(n))
        whole = whole if exact else Evaluation.from_dict(json.loads(json.dumps(whole.to_dict())))
        found = regrouped(rng, part, n)
        assert len(whole.measures) > (25 if kind == CLASS_SETS else 40)
        assert found.measures == pytest.approx(whole.measures, abs=1e-12)
        assert found.absent == whole.absent and found.warnings == whole.warnings
        pd.testing.assert_frame_equal(found.labels, whole.labels, rtol=1e-12)
        for table in (mleval.Evaluation.curves, mleval.Evaluation.reliability):
            pd.testing.assert_frame_equal(table(found), table(whole), rtol=1e-12)
        assert percent_curves(found.total) == percent_curves(whole.total)
        assert kind == CLASS_SETS or len(whole.curves()) > 50


# ---- beyond the stated size ----------------------------------------------------------------------


def test_the_bounds_of_the_grid_hold_on_adversarial_splits(monkeypatch):
    """Scores that differ by less than a step, for and against the truth or at random."""
    h = mleval.Hierarchy([("a", "b"), ("a", "c"), ("d", "c")])
    for seed in range(9):
        rng = np.random.default_rng(seed)
        y = (rng.random((90, 4)) < 0.4).astype(int)
        steps = rng.integers(0, 3, y.shape) if seed % 3 else np.zeros(y.shape)
        turn = (2 * y - 1) * (1, -1, 0)[seed % 3] * (1 + rng.random(y.shape))
        turn += rng.normal(0, 1, y.shape) * (seed % 2 or seed % 3 == 2)
        s = np.clip(0.2 + steps / 4 + 1e-3 * turn, 0, 1)
        options = {
            "measures": ["probabilistic", "hmc", "ece_3"],
            "hierarchy": h,
            "label_names": list("abcd"),
            "train_labels": y,
        }
        exact = mleval.evaluate(y, s, **options)
        assert not exact._figures[1] or not max(exact._figures[1].values())
        with monkeypatch.context() as patch:
            patch.setattr(curves, "EXACT", 50)
            patch.setattr(curves, "STEPS", 64)
            coarse = mleval.merge([mleval.evaluate(y[i::4], s[i::4], **options) for i in range(4)])
            bounds = coarse._figures[1]
            bounded = {"f_max", "s_min", "ece_15", "ece_3", "macro_auroc", "micro_ap"}
            assert bounded | {"auprc_curve"} <= set(bounds)
            assert max(bounds.values()) > 0 and any("f_max" in text for text in coarse.warnings)
            for name, bound in bounds.items():
                off = abs(coarse.measures[name] - exact.measures[name])
                assert off <= bound + 1e-12, (seed, name, bound)


def test_few_different_scores_are_exact_in_any_number(monkeypatch):
    s = np.repeat(np.r_[np.arange(20), np.arange(7)][:, None] / 20, 2, axis=1)
    y = np.random.default_rng(0).integers(0, 2, s.shape)
    exact = mleval.evaluate(y, s, measures="probabilistic")
    monkeypatch.setattr(curves, "EXACT", 50)
    rows = slice(20), slice(20, None)
    parts = [mleval.evaluate(y[at], s[at], measures="probabilistic") for at in rows]
    found = Evaluation.from_dict(mleval.merge(parts).to_dict())
    assert found.measures == pytest.approx(exact.measures, abs=1e-12)
    assert found.warnings == exact.warnings


# ---- curves --------------------------------------------------------------------------------------


def test_the_points_of_curves_are_those_of_scikit_learn():
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n, k = (900, 2) if seed < 3 else (rng.integers(2, 30), rng.integers(1, 4))
        y = (rng.random((n, k)) < 0.3).astype(int)
        s = rng.random((n, k)).round(9 if seed < 3 else 1)
        form = sparse.csr_array if seed % 2 else np.asarray
        ev = mleval.evaluate(form(y), form(s), measures="micro_ap")
        columns = {None: (y.ravel(), s.ravel())} | {
            j: (y[:, j], s[:, j]) for j in range(k) if y[:, j].any()
        }
        table = ev.curves()
        expected = {*columns} if y.any() else set()
        assert set(table["label"].astype(object).where(table["label"].notna(), None)) == expected
        for label, (t, p) in columns.items() if y.any() else ():
            own = table[table["label"].isna() if label is None else table["label"] == label]
            assert set(own["scope"]) == {"micro" if label is None else "label"}
            assert len(own) <= 200 and (seed > 2 or len(own) > 150)
            assert own["threshold"].is_monotonic_decreasing
            assert own.iloc[-1][["threshold", "recall"]].tolist() == [p.min(), 1]
            for row in own.itertuples():
                assert row.recall == pytest.approx((t & (p >= row.threshold)).sum() / t.sum())
                assert row.precision == pytest.approx(t[p >= row.threshold].mean())
                assert t.all() or row.fpr == pytest.approx((p[t == 0] >= row.threshold).mean())
        if y.any() and not y.all():
            curves = percent_curves(ev.total)
            micro = metrics.roc_curve(*columns[None], drop_intermediate=False)[:2]
            roc = list(curves["recall_at_false_positive_percent"].values())
            upper = [max(micro[1][micro[0] <= i / 100]) for i in range(101)]
            assert roc[-1] == 1 and all(a >= b - 1e-9 for a, b in zip(roc, upper, strict=True))
            assert np.mean(roc) == pytest.approx(metrics.roc_auc_score(*columns[None]), abs=0.02)
            recall_of = list(curves["precision_at_recall_percent"].values())
            assert np.mean(recall_of) == pytest.approx(interpolated(*columns[None]), abs=0.02)


def test_bins_of_the_reliability_are_those_of_the_calibration_error():
    rng = np.random.default_rng(0)
    y, s = (rng.random((300, 3)) < 0.4).astype(int), rng.random((300, 3)).round(2)
    ev = mleval.evaluate(y, s, measures="probabilistic")
    table = ev.reliability()
    micro = table[table["scope"] == "micro"]
    assert len(micro) == 15 and micro["n"].sum() == 900
    off = (micro["n"] * (micro["share"] - micro["mean_score"]).abs()).sum() / 900
    assert off == pytest.approx(ev.measures["ece_15"])
    assert table.groupby("label")["n"].sum().tolist() == [300] * 3
    assert ev.labels["average_precision"].mean() == pytest.approx(ev.measures["macro_ap"])
    assert mleval.evaluate(y, 2 * s, measures="probabilistic").reliability().empty
    assert mleval.evaluate(y, s).curves().empty


# ---- what is particular --------------------------------------------------------------------------


def test_costs_of_classes_weigh_errors():
    h = mleval.Hierarchy([("a", "b"), ("a", "c"), ("b", "d"), ("e", "c")])
    true, pred = [{"d"}, {"c"}, {"a"}], [{"c"}, {"c"}, {"e"}]

    def loss(costs):
        ev = mleval.evaluate_hierarchical(true, pred, h, class_costs=costs)
        return ev.instances["h_loss"].tolist()

    assert loss(None) == loss(dict.fromkeys("abcde", 1)) == [3, 0, 2]
    # d is below b, which is wrong already
    assert loss(dict(zip("abcde", (1, 2, 3, 4, 5), strict=True))) == [2 + 3 + 5, 0, 6]
    for costs, message in (
        ({"a": 1}, "must name all classes, got no 'b', 'c', 'd', 'e'"),
        ("parents", "must be a cost by class, got str"),
        (dict.fromkeys("abcde", -1), "at least 0, got -1 for 'a'"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            loss(costs)
    costs = dict.fromkeys("abcde", 2)
    weighted = mleval.evaluate_hierarchical(true, pred, h, class_costs=costs)
    with pytest.raises(ValueError, match="must agree in hierarchy, got class_costs"):
        mleval.merge([weighted, mleval.evaluate_hierarchical(true, pred, h)])


UNDEFINED = "it is not defined for these instances together"


def test_reasons_say_what_is_missing():
    h = mleval.Hierarchy([("a", "b"), ("a", "c")])
    options = {"hierarchy": h, "label_names": ["b", "c"], "measures": ["hmc", "distance_at_3"]}
    y, s = [[1, 0], [0, 1]], [[0.9, 0.2], [0.4, 0.6]]
    assert mleval.evaluate(y, s, **options).absent["s_min"] == "no `train_labels` were given"
    without = mleval.evaluate(y, y_pred=y, **options).absent
    assert without["f_max"] == without["distance_at_3"] == "no scores were given"
    wide = mleval.evaluate(y, np.array(s) * 2, **options).absent
    assert wide["f_max"].startswith("it needs scores in [0, 1]")
    assert mleval.evaluate([[0, 0]], [[0.9, 0.2]], **options).absent["f_max"] == UNDEFINED
    assert mleval.evaluate(y, s, measures="hmc").absent["f_max"] == "no `hierarchy` was given"
    sets = mleval.evaluate_hierarchical([["b"]], [["c"]], h, measures="hmc").absent
    assert sets["f_max"] == "it is of label sets, not of class sets"
    one = mleval.evaluate(["b", "c"], [0.1, 0.8], **options).absent
    assert one["distance_at_3"] == UNDEFINED
    cut = mleval.evaluate([0, 1], [20.0, 90.0], threshold=50.0, measures="top_k_accuracy_1")
    assert (
        "top_k_accuracy_1" in cut.absent and cut.measures["top1_accuracy"] == 1
    )  # no rank is told


def test_sparse_scores_that_are_never_made_dense():
    """Of 150,000 labels nearly all are predicted, because a score of 0 is."""
    rng = np.random.default_rng(0)
    s, other = (
        sparse.random_array((40, 150_000), density=1e-4, rng=rng, format="csr") for _ in range(2)
    )
    s.data -= 0.5
    y = (s > 0) + (other > 0.5)
    ev = mleval.evaluate(y, s, threshold=-0.1, conventions="mulan")
    true, pred = y.toarray(), s.toarray() >= -0.1
    assert ev.measures["hamming_loss"] == pytest.approx((true != pred).mean(), rel=1e-12)
    expected = 2 * (true & pred).sum() / (true.sum() + pred.sum())
    assert ev.measures["micro_f1"] == pytest.approx(expected, rel=1e-12)
    assert ev.total.by_label[1].tolist() == pred.sum(axis=0).tolist()


def test_sparse_and_dense_scores_give_the_same():
    for seed in range(42):
        case, s, rng = label_sets(seed)
        y, s = case.y, (8 * s).astype(int) if seed % 4 == 3 else s
        s = s.astype(np.float32) if s.dtype == np.float16 else s  # scipy has no sparse halves
        each = rng.choice([0.25, 0.5, 0.75, 0, -0.5], y.shape[1])
        options = {
            "conventions": ("sklearn", "mulan")[seed % 2],
            "measures": asked(LABEL_SETS),
            "train_labels": np.vstack([y, y, 1 - y]),
            "threshold": (0.5, -0.5)[seed % 5 == 0] if seed % 3 else each,
        }
        dense = quietly(y, s, **options)
        there = sparse.csr_matrix(s) if seed % 7 else sparse.coo_array(s)
        stored = quietly(sparse.csr_matrix(y) if seed % 2 else y, there, **options)
        assert dense.measures == pytest.approx(stored.measures, rel=1e-12, abs=1e-12), seed
        assert dense.absent == stored.absent and dense.warnings == stored.warnings
        tables = dense.instances.to_numpy(), stored.instances[dense.instances.columns].to_numpy()
        np.testing.assert_allclose(*tables, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(dense.total.wrong, stored.total.wrong)


def test_what_is_usual_does_not_grow_and_the_rest_says_that_it_was_not_asked_for():
    y = [[1, 0], [0, 1]]
    ev = mleval.evaluate(y, [[0.9, 0.2], [0.4, 0.6]])
    expected = {"it was not asked for"}
    assert {ev.absent[m.name] for m in MEASURES.values() if LABEL_SETS in m.asked} == expected
    more = mleval.evaluate(y, [[0.9, 0.2], [0.4, 0.6]], measures="ndcg_at_7")
    assert more.measures.keys() - ev.measures.keys() == {"ndcg_at_7"}


def test_many_labels_are_judged_at_k_and_training_labels_add_propensities():
    rng = np.random.default_rng(0)
    y = sparse.random_array((5, 1000), density=0.01, rng=rng, format="csr").astype(bool)
    ev = mleval.evaluate(y, y.astype(float), train_labels=y)
    assert {ev.measures[m] for m in ("precision_at_1", "psp_at_5", "psndcg_at_3")} == {1}
    assert set(ev.propensities) == {"a", "b", "digest"}
    other = mleval.evaluate(y, y.astype(float), train_labels=y[::-1][:4])
    with pytest.raises(ValueError, match="must agree in propensities"):
        mleval.merge([ev, other])


def test_lists_of_labels_with_scores_are_matrices():
    for seed in range(20):
        case, s, _ = label_sets(seed)
        y = case.y
        names = [f"n{i}" for i in range(y.shape[1])]
        sets = [[names[j] for j in np.flatnonzero(row)] for row in y]
        scores = [{names[j]: float(row[j]) for j in np.flatnonzero(row)[::-1]} for row in s]
        lists = quietly(sets, scores, label_names=names, measures="at_k")
        whole = quietly(y, s.astype(float), label_names=names, measures="at_k")
        assert lists.measures == pytest.approx(whole.measures, rel=1e-12)
        assert lists.truth_digest == whole.truth_digest
    named = mleval.evaluate([{"a"}, {"b", "c"}], y_pred=[["a"], ["b"]]).label_names
    assert named == ("a", "b", "c")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y_true": [{"a"}], "y_score": [{"a": 1.0}, {}]}, r"`y_score` must have the shape \(1, 1"),
        ({"y_true": [{"a"}], "y_score": [["a"]]}, r"got \['a'\] for instance 0"),
        ({"y_true": [{"a"}, "b"], "y_score": [{}, {}]}, "a collection of labels for .*, got 'b'"),
        ({"y_true": [{"a"}], "y_score": [{"a": np.nan}]}, "`y_score` must hold finite scores"),
        ({"y_true": [set()], "y_score": [{}]}, "must name the labels"),
        ({"measures": "f11"}, "must name measures or sets of them, got 'f11'"),
        ({"measures": []}, "must name at least one"),
        ({"measures": "psp_at_3"}, "`train_labels` must be given for psp_at_3"),
        ({"train_labels": [[1, 0, 1]]}, "`train_labels` must have the 2 labels of `y_true`, got 3"),
        ({"train_labels": [[2, 0]]}, "`train_labels` must hold only 0 and 1"),
    ],
)
def test_bad_lists_and_requests_are_refused(given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        mleval.evaluate(**{"y_true": [[1, 0]], "y_score": [[0.5, 0.4]]} | given)
