"""Input that is wrong, odd or extreme: a right result, or an error that names what and where; and
thresholds that meet the label cardinality, against a search through all of them.
"""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

import mlflow_mleval as mleval
from mlflow_mleval.measures.inputs import calibrate_threshold, read_labels

Y = np.array([[0, 1, 1], [1, 0, 0]])
S = np.array([[0.1, 0.9, 0.3], [0.6, 0.2, 0.4]])


def put(matrix, cell, value):
    matrix = matrix.astype(np.result_type(matrix, type(value)))
    matrix[cell] = value
    return matrix


BINARY = "`y_true` must hold only 0 and 1, "
FINITE = "`y_score` must hold finite scores, "
NO_SCORES = {"y_score": None}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y_true": [0, 1, 2]}, "`y_score` must hold the 3 instances of `y_true`, got 2"),
        ({"y_true": Y[None]}, r"`y_true` must be a matrix N x K, got shape \(1, 2, 3\)"),
        ({"y_true": 1}, r"`y_true` must be a matrix N x K, got shape \(\)"),
        ({"y_true": [[0, 1], [1]]}, "must be a matrix N x K, got rows of different lengths"),
        ({"y_score": S[:1]}, r"`y_score` must have the shape \(2, 3\) of `y_true`, got \(1, 3\)"),
        ({"y_pred": Y.T}, r"`y_pred` must have the shape \(2, 3\) of `y_true`, got \(3, 2\)"),
        (NO_SCORES, "`y_score` or `y_pred` must be given, got neither"),
        (
            {"y_true": Y[:0]},
            r"`y_true` must have at least one row and one column, got shape \(0, 3\)",
        ),
        (
            {"y_true": Y[:, :0]},
            r"`y_true` must have at least one row and one column, got shape \(2, 0\)",
        ),
        ({"y_true": []}, "`y_true` must hold at least one instance, got none"),
        ({"y_true": put(Y, (1, 2), 2)}, BINARY + r"got 2 in row 1, column 2 \(1 such cell\)"),
        ({"y_true": Y * 2 - 1}, r"got -1 in row 0, column 0 \(3 such cells\)"),
        ({"y_true": put(Y, (0, 1), 0.5)}, "got 0.5 in row 0, column 1"),
        ({"y_true": put(Y, (0, 1), np.nan)}, BINARY + "got nan in row 0, column 1"),
        ({"y_pred": S}, r"`y_pred` must .* got 0.1 in row 0, column 0 \(6 such.*`y_score`"),
        ({"y_true": sparse.csr_array(put(Y, (1, 2), 3))}, BINARY + "got 3 in row 1, column 2"),
        ({"y_score": put(S, (1, 0), np.nan)}, FINITE + r"got nan in row 1, column 0 \(1 such"),
        ({"y_score": put(S, (1, 0), -np.inf)}, FINITE + "got -inf in row 1, column 0"),
        ({"y_score": sparse.csr_array(put(S, (0, 2), np.nan))}, "got nan in row 0, column 2"),
        ({"threshold": [0.5, 0.5]}, "must be one number or one for each of the 3 labels"),
        ({"threshold": np.nan}, "`threshold` must be one number"),
        ({"threshold": "a"}, "`threshold` must be one number or one for"),
        ({"label_names": ["a", "b"]}, "must hold one name for each of the 3 labels, got 2"),
        ({"label_names": ["a", "b", "a"]}, "`label_names` must differ, got 'a' more than once"),
        ({"folds": [1]}, r"`folds` must hold one value for each of the 2 rows, got shape \(1,\)"),
        ({"folds": [1, None]}, r"`folds` must not be missing, got none for row 1 \(1 such rows?\)"),
        ({"conventions": "weka"}, "`conventions` must be one of 'sklearn', 'mulan', got 'weka'"),
        ({"fit_time": -1}, "`fit_time` must be one number, in seconds and not negative, got -1"),
    ],
)
def test_values_and_shapes(arguments, message):
    with pytest.raises(ValueError, match=message):
        mleval.evaluate(**{"y_true": Y, "y_score": S, **arguments})


@pytest.mark.parametrize(
    ("y_true", "message"),
    [
        ([["cat", "dog"], ["dog", ""]], "must hold numbers, got text.*MultiLabelBinarizer"),
        ([{"cat"}, {"dog"}], "must hold a mapping of label to score for each instance, got array"),
        (np.array([[0, "1", 1], [1, 0, 0]], object), "hold numbers, got '1' in row 0, column 1"),
        (pd.DataFrame([[0, 1, 1], [None, 0, 0]], dtype="boolean"), "got <NA> in row 1, column 0"),
        (Y + 1j, "`y_true` must hold numbers, got dtype complex"),
        (np.ma.masked_equal(Y, 0), "`y_true` must be an array without a mask"),
    ],
)
def test_what_is_no_number(y_true, message):
    with pytest.raises(TypeError, match=message):
        mleval.evaluate(y_true, S)


@pytest.mark.parametrize(
    "kind",
    [
        *(np.bool_, np.uint8, np.int64, np.float32, object, "boolean", "Int64"),
        *(lambda a: sparse.csr_array(a), lambda a: sparse.lil_array(a)),
    ],
)
def test_every_kind_of_number_will_do(kind):
    of_pandas, of_numpy = isinstance(kind, str), isinstance(kind, type)
    y = pd.DataFrame(Y).astype(kind) if of_pandas else Y.astype(kind) if of_numpy else kind(Y)
    expected = mleval.evaluate(Y, S, Y).measures
    assert mleval.evaluate(y, S, y).measures == expected
    assert mleval.evaluate(y, sparse.csr_array(S), Y).measures == expected
    assert mleval.evaluate(Y, S, y).measures == expected
    unsigned = mleval.evaluate(Y.astype(np.uint8), S.astype(np.float16)).measures
    assert unsigned["soft_subset_loss"] == pytest.approx(0.55, abs=1e-3)  # none wraps round
    integers = mleval.evaluate(Y, (S * 10).astype(int), threshold=5).measures
    assert [integers[m] for m in ("f1", "average_precision")] == [
        mleval.evaluate(Y, S).measures[m] for m in ("f1", "average_precision")
    ]


def test_frames_must_agree():
    y = pd.DataFrame(Y, columns=list("abc"), index=["i", "j"])
    s = pd.DataFrame(S, columns=list("abc"), index=["i", "j"])
    ev = mleval.evaluate(y, s)
    assert ev.label_names == ("a", "b", "c") and ev.instances.index.tolist() == ["i", "j"]
    said = r"columns of `y_true` in the same order, got 'b' where `y_true` has 'a' \(2 of 3 differ"
    with pytest.raises(ValueError, match=said):
        mleval.evaluate(y, s[["b", "a", "c"]])
    said = "`y_score` must have the index of `y_true` in the same order, got 'j' where .* 'i'"
    with pytest.raises(ValueError, match=said):
        mleval.evaluate(y, s.iloc[::-1])
    assert mleval.evaluate(y, s.to_numpy()).measures == ev.measures


@pytest.mark.parametrize("conventions", ["sklearn", "mulan"])
def test_extremes_give_numbers(conventions):
    def both(y, s):
        ev = mleval.evaluate(y, s, conventions=conventions)
        assert not any(np.isnan(v) for v in ev.measures.values())
        return ev.measures

    one = both([[1], [0]], [[0.9], [0.2]])  # K = 1
    assert one["ranking_loss"] == 0 and one["coverage"] == 0 and one["hamming_loss"] == 0
    assert one["one_error"] == 0.5
    assert one["binomial_area"] == 0 and one["soft_binomial_area"] == pytest.approx(0.15)
    empty = both(np.zeros((3, 4)), np.zeros((3, 4)))
    assert empty["f1"] == empty["micro_f1"] == empty["macro_f1"] == (conventions == "mulan")
    assert empty["subset_accuracy"] == 1 and empty["coverage"] == 0 and empty["one_error"] == 1
    full = both(np.ones((3, 4)), np.ones((3, 4)))
    assert full["f1"] == full["average_precision"] == 1 and full["coverage"] == 3
    assert full["ranking_loss"] == 0
    assert both(Y[:1], S[:1])["one_error"] == 0  # N = 1


# ---- types and names -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.longdouble])
def test_flat_and_hierarchical_parts_compare_in_the_type_of_the_scores(kind):
    h = mleval.Hierarchy([("r", "a"), ("r", "b")])
    y, s = np.array([[1, 0], [1, 1]]), np.array([[0.7, 0.2], [0.7, 0.7]]).astype(kind)
    for scores in (s, sparse.csr_array(s)) if kind in (np.float32, np.float64) else (s,):
        for threshold in (0.7, [0.7, 0.7]):
            more = {"threshold": threshold, "label_names": ["a", "b"], "hierarchy": h}
            ev = mleval.evaluate(y, scores, **more)
            assert ev.measures["subset_accuracy"] == ev.measures["exact_match"] == 1


def test_predictions_given_as_scores_are_doubted():
    said = "`y_score` holds integers that are all 0 or 1. Pass predicted labels as `y_pred`"
    with pytest.warns(UserWarning, match=said):
        mleval.evaluate(Y, Y)


def test_a_range_shows_that_it_leaves_the_unit_interval():
    absent = mleval.evaluate(Y, np.where(Y, 1.0000001, 0.2)).absent["soft_hamming_loss"]
    assert absent == "it needs scores in [0, 1], and `y_score` reaches from 0.2 to 1.0000001"


@pytest.mark.parametrize("width", [1, 2])
def test_the_list_of_predict_proba_is_named(width):
    by_label = [np.full((2, 2), 0.5), np.full((2, width), 0.5)]  # a label may have one class
    said = (
        r"`y_score` must be a matrix N x K, got a list of 2 arrays, the first of shape \(2, 2\): "
        r"what `predict_proba` gives .* np.column_stack\(\[p\[:, 1\] for p in y_score\]\)"
    )
    with pytest.raises(ValueError, match=said):
        mleval.evaluate([[1, 0], [0, 1]], by_label)


@pytest.fixture(params=["polars", "pyarrow"])
def frame(request):
    """Makes a data frame of another library from a dict of columns."""
    if request.param == "polars":
        return pytest.importorskip("polars").DataFrame
    return pytest.importorskip("pyarrow").table


def test_frames_of_other_libraries_keep_their_names(frame):
    y, s = ({c: m[:, j] for j, c in enumerate("abc")} for m in (Y, S))
    expected = mleval.evaluate(pd.DataFrame(y), pd.DataFrame(s))
    permuted = {c: s[c] for c in "bac"}
    for truth in (frame(y), pd.DataFrame(y)):
        ev = mleval.evaluate(truth, frame(s))
        assert ev.label_names == ("a", "b", "c") and ev.measures == expected.measures
        said = "`y_score` must have the columns of `y_true` in the same order, got 'b' where"
        with pytest.raises(ValueError, match=said):
            mleval.evaluate(truth, frame(permuted))
    with pytest.raises(ValueError, match=said):
        mleval.evaluate(frame(y), pd.DataFrame(permuted))
    with pytest.raises(ValueError, match=said):
        mleval.calibrate_threshold(frame(y), frame(permuted))


def test_tables_of_other_libraries_go_in_where_those_of_pandas_do(frame, tmp_path):
    """Their column `method` or `dataset` is the index that pandas has."""
    rng = np.random.default_rng(0)
    board = pd.DataFrame(rng.random((6, 3)), [f"d{i}" for i in range(6)], ["a", "b", "c"])
    board.iloc[:, 0] += 1
    columns = {"dataset": list(board.index), **{m: board[m].to_list() for m in board}}
    ours, theirs = mleval.friedman(board), mleval.friedman(frame(columns))
    assert ours.pvalue == theirs.pvalue and list(theirs.mean_ranks.index) == ["a", "b", "c"]
    by_method = {"method": list("abc"), **{d: board.loc[d].to_list() for d in board.index}}
    flows, same = (mleval.promethee(table).flows for table in (frame(by_method), board.T))
    pd.testing.assert_frame_equal(flows, same, check_names=False)
    for read in (
        lambda table: mleval.Study.from_frame(table, maximize=["value"]),
        lambda table: mleval.load_study(results=table, maximize=["value"]),
    ):
        study = read(frame(by_method))
        assert study.methods == ["a", "b", "c"] and len(study.datasets) == 6
        assert study.matrix("d0")["value"].to_dict() == board.loc["d0"].to_dict()
    x = {"precision": rng.random(8), "recall": rng.random(8)}
    y = {name: values + rng.normal(0, 0.1, 8) for name, values in x.items()}
    assert list(mleval.hotelling(frame(x), frame(y)).posthoc.index) == ["precision", "recall"]
    spread = mleval.stats.hierarchical_t(frame(columns), rho=0.1, rope=0.01)
    assert list(spread.shrunken["dataset"]) == list(board.index)


def test_series_of_class_sets_must_agree():
    h = mleval.Hierarchy([("r", "c"), ("r", "d"), ("r", "e")])
    true = pd.Series([["c"], ["d"]], index=["i", "j"])
    ev = mleval.evaluate_hierarchical(true, true.copy(), h)
    assert ev.measures["exact_match"] == 1 and ev.instances.index.tolist() == ["i", "j"]
    said = "`pred_sets` must have the index of `true_sets` in the same order, got 'j' where"
    with pytest.raises(ValueError, match=said):
        mleval.evaluate_hierarchical(true, true[::-1], h)
    said = "`pred_sets` must have the index of `true_sets`, got 1 instead of 2 of them"
    with pytest.raises(ValueError, match=said):
        mleval.evaluate_hierarchical(true, true[:1], h)
    assert mleval.evaluate_hierarchical(true, true[::-1].tolist(), h).measures["exact_match"] == 0


def test_a_measure_that_is_none_suggests_the_nearest_and_lists_all():
    def said(name):
        with pytest.raises(ValueError) as error:
            mleval.evaluate(Y, S, measures=name)
        return str(error.value)

    assert "got 'ndgc_at_5'. Did you mean 'ndcg_at_5'? There are" in said("ndgc_at_5")
    assert "Did you mean 'probabilistic'?" in said("probabilistc")
    assert "Did you mean 'hamming_loss'?" in said("Hamming loss")
    assert "Did you mean" not in said("latency") and "macro_auroc" in said("latency")


TREE = [("r", "c"), ("r", "d"), ("r", "e")]
SETS, CUT, STUDY = mleval.evaluate_hierarchical, calibrate_threshold, mleval.load_study


@pytest.mark.parametrize(
    ("call", "given", "error", "text"),
    [
        (mleval.Hierarchy, (None,), TypeError, "`edges` must be a directed graph or pairs"),
        (
            SETS,
            ([["c"], ["d"]], [["c"]], TREE),
            ValueError,
            r"instances as `true_sets` \(2\), got 1",
        ),
        (SETS, ([["x"]], [["c"]], TREE), ValueError, "`true_sets` must hold classes of the.*'x'"),
        (SETS, (["cat"], [["c"]], TREE), TypeError, "of classes for each instance, got 'cat'"),
        (SETS, (None, [["c"]], TREE), TypeError, "of classes for each instance, got NoneType"),
        (CUT, ([[0, 1, 0]], [[0.1, 0.2]]), ValueError, "have the 2 labels of `y_score`, got 3"),
        (CUT, ([[0, 1]], [[0.1, np.nan]]), ValueError, "nan in row 0, column 1"),
        (CUT, ([[0.2, 0.6]], [[1, 0]]), ValueError, "`y_true` must hold only 0 and 1, got 0.2"),
        (mleval.friedman, ("x",), ValueError, "`ranks` must be datasets x methods"),
        (mleval.compare, (pd.DataFrame(),), TypeError, "`study` must be a Study, .* got DataFrame"),
        (STUDY, ({"a": 1},), TypeError, "`results` must be a file or a data frame, got dict"),
        (STUDY, (pd.DataFrame(),), mleval.MlevalError, r"no column 'dataset' .* \(it has none\)"),
        (partial(STUDY, run_ids=[1]), (), TypeError, "`run_ids` must hold text, got 1"),
        (mleval.gate, (None, "a"), TypeError, "`candidate` must be the id of a run"),
    ],
)
def test_what_no_function_takes_is_named(call, given, error, text):
    with pytest.raises(error, match=text):
        call(*given)


def predicted_by_search(scores, wanted):
    """Number of scores at or above the best threshold; the smaller of two as good."""
    counts = {0} | {int((scores >= v).sum()) for v in scores}
    return min(sorted(counts), key=lambda count: abs(count - wanted))


scores = st.one_of(
    st.floats(-3, 3), st.sampled_from([0.0, 0.5, 1.0, np.nextafter(1.0, 2), 1e308, -1e308])
)


@st.composite
def problems(draw):
    n, m, k = draw(st.integers(1, 10)), draw(st.integers(1, 10)), draw(st.integers(1, 4))
    return draw(arrays(float, (n, k), elements=scores)), draw(arrays(bool, (m, k)))


@settings(max_examples=200)
@given(problems())
def test_no_threshold_comes_closer(problem):
    s, y = problem
    n, m = len(s), len(y)
    assert (s >= calibrate_threshold(y, s)).sum() == predicted_by_search(s.ravel(), y.sum() * n / m)
    own = calibrate_threshold(y, s, per_label=True)
    for j in range(s.shape[1]):
        assert (s[:, j] >= own[j]).sum() == predicted_by_search(s[:, j], y[:, j].sum() * n / m)


def test_the_threshold_lies_half_way():
    assert calibrate_threshold([[1, 0]], [[0.2, 0.6]]) == pytest.approx(0.4)
    assert calibrate_threshold([[1, 1]], [[0.2, 0.6]]) == 0.2
    assert calibrate_threshold([[0, 0]], [[0.2, 0.6]]) == np.nextafter(0.6, 1)


def test_evaluate_takes_both_kinds():
    rng = np.random.default_rng(0)
    s, y = rng.random((200, 5)), rng.random((200, 5)) < [0.1, 0.2, 0.3, 0.5, 0.9]
    ev = mleval.evaluate(y, s, threshold=calibrate_threshold(y, s))
    assert ev.statistics["cardinality_pred"] == ev.statistics["cardinality_true"]
    ev = mleval.evaluate(y, s, threshold=calibrate_threshold(y, s, per_label=True))
    assert (ev.labels.support == ev.labels.predicted).all()


def test_sparse_scores_count_zeros():
    rng = np.random.default_rng(1)
    s, y = rng.random((30, 6)) * (rng.random((30, 6)) < 0.3), rng.random((30, 6)) < 0.2
    for per_label in (False, True):
        found = calibrate_threshold(y, sparse.csr_array(s), per_label=per_label)
        np.testing.assert_array_equal(found, calibrate_threshold(y, s, per_label=per_label))


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_thresholds_between_neighbours_of_a_narrow_type(kind):
    low, middle = kind(0.7), np.nextafter(kind(0.7), kind(1))
    s = np.array([[low, middle], [middle, np.nextafter(middle, kind(1))]])
    for wanted in ([[1, 1], [1, 0]], [[1, 0], [0, 0]], [[0, 0], [0, 0]]):
        ev = mleval.evaluate(wanted, s, threshold=calibrate_threshold(wanted, s))
        assert ev.statistics["cardinality_pred"] == ev.statistics["cardinality_true"]


@pytest.mark.parametrize(
    ("answer", "labels"), [('["b", "a"]', ["b", "a"]), ("a, b", ["a", "b"]), ("", [])]
)
def test_an_answer_names_labels_in_a_list_or_between_commas(answer, labels):
    assert read_labels(answer) == labels
