"""Files of predictions: all formats say the same, and what is broken is named by its line."""

import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import as_json
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import mlflow_mleval as mleval
from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.files import predictions
from mlflow_mleval.files.predictions import evaluate_file, open_predictions, read_hierarchy

SMALL = "true_a,true_b,score_a,score_b\n1,0,0.9,0.2\n0,1,0.3,0.4\n1,1,0.6,0.7\n"


def made(n=500, k=5, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.random((n, k)) < 0.4
    s = np.clip(0.3 * y + 0.7 * rng.random((n, k)), 0, 1)
    return y, s, s >= 0.45, np.arange(n) % 4


def frame(y, s=None, p=None, folds=None, names=None):
    names = names or [f"label {i}" for i in range(y.shape[1])]
    parts = {"true": y.astype(int), "score": s, "pred": None if p is None else p.astype(int)}
    tables = [
        pd.DataFrame(matrix, columns=[f"{kind}_{name}" for name in names])
        for kind, matrix in parts.items()
        if matrix is not None
    ]
    table = pd.concat(tables, axis=1)
    return table if folds is None else table.assign(fold=folds)


def save(table, path):
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path, index=False)
    return path


def refused(said, path, **options):
    with pytest.raises(ImportFileError, match=said):
        evaluate_file(path, **options)


def same(found, expected):
    assert found.label_names == expected.label_names and found.inputs == expected.inputs
    assert found.measures == pytest.approx(expected.measures, rel=1e-13)
    assert found.statistics == expected.statistics
    assert found.truth_digest == expected.truth_digest
    pd.testing.assert_frame_equal(found.folds, expected.folds, rtol=1e-13)
    pd.testing.assert_frame_equal(found.labels, expected.labels)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few rows, so that small files have many."""
    for name, size in (("_BLOCK", 200), ("_CELLS", 64), ("_LINES", 3)):
        monkeypatch.setattr(predictions, name, size)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("given_", ["scores", "predictions", "both"])
def test_tables_give_the_evaluation_of_the_arrays(tmp_path, small_blocks, suffix, given_):
    y, s, p, folds = made()
    s, p = (s if given_ != "predictions" else None), (p if given_ != "scores" else None)
    table = frame(y, s, p, folds).sample(frac=1, axis=1, random_state=1)  # columns in any order
    names = [c[5:] for c in table if c.startswith("true_")]
    order = [int(name[-1]) for name in names]
    path = save(table.assign(note="x"), tmp_path / f"p.{suffix}")
    y, s, p = (None if m is None else m[:, order] for m in (y, s, p))
    same(evaluate_file(path), mleval.evaluate(y, s, p, label_names=names, folds=folds))
    assert open_predictions(path).ignored == ("note",)


@pytest.mark.parametrize(
    ("dtype", "order"), [(bool, "C"), (np.int8, "F"), (np.float32, "C"), (">i4", "F")]
)
def test_npz_gives_the_evaluation_of_the_arrays(tmp_path, small_blocks, dtype, order):
    y, s, p, folds = made()
    arrays = {"y_pred": p, "folds": folds, "label_names": list("abcde"), "extra": 1}
    arrays["y_true"] = np.asarray(y, dtype, order=order)
    arrays["y_score"] = np.asarray(s, order=order)
    expected = mleval.evaluate(y, s, p, folds=folds, label_names=list("abcde"))
    for write in (np.savez, np.savez_compressed):
        write(tmp_path / "p.npz", **arrays)
        same(evaluate_file(tmp_path / "p.npz"), expected)
        assert open_predictions(tmp_path / "p.npz").ignored == ("extra",)


def drawn_classes(n=200, n_classes=3):
    rng = np.random.default_rng(0)
    scores = rng.dirichlet(np.ones(n_classes), n)
    return np.array([*"abcdefgh"])[rng.integers(0, n_classes, n)], scores


def class_table(true, scores):
    named = {f"score_{c}": column for c, column in zip("abcdefgh", scores.T, strict=False)}
    return pd.DataFrame({"true": true, **named})


def test_rounded_probabilities_of_classes_are_divided_by_their_sums_and_that_is_said_once(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(predictions, "_BLOCK", 500)
    true, scores = drawn_classes()
    said = ["probabilities were rounded: in each row they are divided by their sum, such as"]
    for format in ("%.3f", "%.2f", "%.17g"):
        class_table(true, scores).to_csv(tmp_path / "p.csv", index=False, float_format=format)
        notes = []
        found = evaluate_file(tmp_path / "p.csv", say=notes.append)
        rounded = np.array([[float(format % x) for x in row] for row in scores])
        shares = rounded / rounded.sum(axis=1, keepdims=True)
        expected = mleval.evaluate(true, shares, label_names=["a", "b", "c"])
        assert found.measures == pytest.approx(expected.measures)
        assert [note.rpartition(" ")[0] for note in notes] == ([] if format == "%.17g" else said)


def test_probabilities_of_single_precision_are_accepted(tmp_path):
    true, scores = drawn_classes(n_classes=8)
    expected = mleval.evaluate(true, scores, label_names=[*"abcdefgh"]).measures["log_loss"]
    for name in ("p.csv", "p.parquet"):
        path = save(class_table(true, scores.astype(np.float32)), tmp_path / name)
        assert evaluate_file(path).measures["log_loss"] == pytest.approx(expected, rel=1e-5)


def test_sums_that_rounding_does_not_explain_are_refused_unless_the_scores_are_none(tmp_path):
    true, scores = drawn_classes()
    three = scores.round(3)
    said = r"must sum to 1 .* or pass `probabilities=False` if these are other scores"
    for wrong in (0.9 * scores, three * 0.99, (three - 0.002).clip(0), (scores > 0.4) * 1.0):
        class_table(true, wrong).to_csv(tmp_path / "p.csv", index=False)
        refused(said, tmp_path / "p.csv")
        found = evaluate_file(tmp_path / "p.csv", probabilities=False)
        assert "log_loss" not in found.measures and "top1_accuracy" in found.measures
        told = found.absent["log_loss"]
        assert "probabilities, and `y_score` is said to hold other scores" in told
    (tmp_path / "sets.csv").write_text("true_a,score_a\n0,0.2\n1,0.7\n")
    with pytest.raises(ValueError, match="`probabilities` is for one label"):
        evaluate_file(tmp_path / "sets.csv", probabilities=False)


def test_labels_may_be_classes_of_a_hierarchy(tmp_path):
    y, s, *_ = made(k=3)
    names = ["animal", "cat", "dog"]
    path = save(frame(y, s, names=names), tmp_path / "p.csv")
    (tmp_path / "edges.txt").write_text("animal cat\nanimal\tdog\n\n")
    (tmp_path / "edges.csv").write_text("\ufeffchild,parent,weight\ncat,animal,1\ndog,animal,1.0\n")
    h = mleval.Hierarchy([("animal", "cat"), ("animal", "dog")])
    expected = mleval.evaluate(y, s, hierarchy=h, max_distance=3, label_names=names)
    for edges in ("edges.txt", "edges.csv"):
        found = evaluate_file(path, hierarchy=tmp_path / edges, max_distance=3)
        assert found.measures == pytest.approx(expected.measures) and "h_f1" in found.measures


def test_lines_of_classes_are_class_sets(tmp_path, small_blocks):
    h = mleval.Hierarchy.from_paths(["1/1", "1/2", "1/3/1", "1/3/2", "2/1", "2/2"])
    rng = np.random.default_rng(0)
    true, pred = ([[c for c in h.nodes if rng.random() < 0.3] for _ in range(40)] for _ in range(2))
    for name, sets in (("true", true), ("pred", pred)):
        (tmp_path / name).write_text("".join(" ".join(row) + "\r\n" for row in sets))
    expected = mleval.evaluate_hierarchical(true, pred, h, count_root=True)
    found = evaluate_file(tmp_path / "pred", truth=tmp_path / "true", hierarchy=h, count_root=True)
    assert found.measures == pytest.approx(expected.measures, rel=1e-13)
    assert found.inputs == ("pred_sets",)
    assert found.hierarchy == expected.hierarchy and found.label_names == tuple(h.nodes)


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + SMALL,
        SMALL.replace("\n", "\r\n"),
        SMALL.rstrip("\n"),
        "\n" + SMALL.replace("\n", "\n\n"),
        SMALL.replace("1,0,", " 1 ,0.0,").replace("0,1,", '"0","1",'),
        SMALL.replace("1,0,", "True,False,").replace("0,1,", "FALSE,TRUE,"),
        SMALL.replace("1,1,", "true,true,"),
        SMALL.replace("1,0,", "True,0,"),
        SMALL.replace("0.9", "9e-1").replace("0.2", "+.2").replace("0.4", "4.E-1"),
        SMALL.replace("\n", ',"a ""text"",\nwith ""lines"""\n'),
    ],
)
def test_every_way_of_writing_csv(tmp_path, monkeypatch, text):
    path = tmp_path / "p.csv"
    path.write_text(text, encoding="utf-8", newline="")
    true, scores = [[1, 0], [0, 1], [1, 1]], [[0.9, 0.2], [0.3, 0.4], [0.6, 0.7]]
    expected = mleval.evaluate(true, scores, label_names=["a", "b"])
    for size in (7, 64, 1 << 20):
        monkeypatch.setattr(predictions, "_BLOCK", size)
        same(evaluate_file(path), expected)


BROKEN = {
    "a short row": (SMALL + "1,0,0.5\n", "line 5: the row has 3 cells, the header has 4"),
    "a long row": (SMALL + "1,0,0.5,0.5,0.5\n1,0,0.5\n", "line 5: the row has 5 cells"),
    **{
        f"cell {cell!r}": (SMALL.replace("0.4", cell), f"line 3, column 'score_b': '{cell}' is not")
        for cell in ("much", "", "nan", "-inf", "1e999", "1_0", "0x1p-1")
    },
    "a score as truth": (SMALL.replace("0,1,", "0,0.5,"), "column 'true_b': '0.5' is not 0 or 1"),
    "two as truth": (SMALL.replace("0,1,", "2,1,"), "line 3, column 'true_a': '2' is not 0 or 1"),
    "an open quote": (SMALL + '1,0,"0.5,0.5\n1,1,1,1\n', "line 5: a quote is opened and never"),
    "UTF-16": (SMALL.encode("utf-16"), "line 1, column 1: byte 0xff is not UTF-8"),
    "Latin-1 in a row": (
        SMALL.encode() + b"1,0,0.5,\xff\n",
        "line 5, column 4: byte 0xff is not UTF-8",
    ),
    "Latin-1 in the header": (
        b"true_\xe4," + SMALL.encode(),
        "line 1, column 1: byte 0xe4 is not UTF-8",
    ),
    "no rows": (SMALL.split()[0] + "\n", "has a header but no rows"),
    "nothing": ("", "is empty"),
    "only empty lines": ("\n\n", "is empty"),
    "semicolons": (SMALL.replace(",", ";"), "(it has 'true_a;true_b;score_a;score_b')"),
    "no truth": (SMALL.replace("true", "truth"), "no column of the truth"),
    "no predictions": ("true_a,true_b\n1,0\n", "no column of scores or predictions"),
    "a label without scores": (SMALL.replace("score_b", "x"), "label 'b' has no column score_b"),
    "a label without truth": (SMALL.replace("true_b", "x"), "label 'b' has no column true_b"),
    "a label twice": (SMALL.replace("true_b", "true_a"), "two columns hold true of the label"),
    "no fold": (
        SMALL.replace("\n", ",1\n").replace("_b,1", "_b,fold").replace("0.4,1", "0.4, "),
        "line 3, column 'fold': '' is no fold",
    ),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_csv_is_named_by_its_line(tmp_path, monkeypatch, text, message):
    path = tmp_path / "p.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    for size in (40, 1 << 20):
        monkeypatch.setattr(predictions, "_BLOCK", size)
        with pytest.raises(ImportFileError) as error:
            evaluate_file(path)
        assert message in str(error.value) and "p.csv" in str(error.value)


def test_lines_are_counted_over_blocks_and_quoted_newlines(tmp_path, small_blocks):
    rows = ['1,0,0.5,0.5,"some\ntext"'] * 100
    path = tmp_path / "p.csv"
    path.write_text("\n".join(["true_a,true_b,score_a,score_b,note", *rows, "1,0,0.5,bad,x"]))
    refused("line 202, column 'score_b': 'bad'", path)


def test_a_line_without_end_is_no_table(tmp_path, monkeypatch):
    monkeypatch.setattr(predictions, "_LONGEST", 10_000)
    monkeypatch.setattr(predictions, "_BLOCK", 1_000)
    path = tmp_path / "p.csv"
    quote = '1,0,"' + "0\n" * 50_000
    for tail, reason in (("1," * 50_000, "no row of a table"), (quote, "never closed")):
        path.write_text(SMALL + tail)
        refused(f"line 5: .*{reason}", path)


NUMBERS = ["0", "1", "0.5", " 1", "1e0", "-0.0", ".5", '"1"', '"0.5"']
cells = st.sampled_from([*NUMBERS, "True", "false", "", "nan", "inf", "1e999", "x"])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(cells, min_size=3, max_size=5), min_size=1, max_size=6))
def test_cells_are_what_python_reads_or_the_first_broken_line_is_named(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "p.csv"
    path.write_text("\n".join(["true_a,score_a,pred_a,note", *map(",".join, rows)]))

    def number(cell):
        try:
            return float({"True": 1, "false": 0}.get(cell, cell.strip('"')))
        except ValueError:
            return np.nan

    table = [[number(cell) for cell in row[:3]] for row in rows]
    short = {at for at, row in enumerate(rows, 2) if len(row) != 4}
    sound = [{true, pred} <= {0, 1} and np.isfinite(score) for true, score, pred in table]
    wrong = {at for at, is_sound in enumerate(sound, 2) if not is_sound}
    try:
        (batch,) = open_predictions(path).batches
    except ImportFileError as error:
        assert any(f"line {at}" in str(error) for at in (short and {min(short)}) or wrong)
    else:
        assert not short and not wrong
        found = np.column_stack([batch[f"y_{name}"] for name in ("true", "score", "pred")])
        assert found.tolist() == table


def test_broken_parquet_is_named_by_its_row(tmp_path, small_blocks):
    y, s, *_ = made()
    table = frame(y, s)
    at = np.arange(500)
    nan, two = np.where(at == 321, np.nan, 0.5), np.where(at == 499, 2, 0)
    for broken, said in (
        ({"score_label 2": nan}, "row 322, column 'score_label 2': .* is not a finite number"),
        ({"true_label 4": two}, "row 500, column 'true_label 4': 2 is not 0 or 1"),
        (
            {"fold": pd.array([1] * 499 + [None], "Int64")},
            "row 500, column 'fold': None is no fold",
        ),
        ({"score_label 1": "x"}, "column 'score_label 1': the type is (large_)?string"),
    ):
        refused(said, save(table.assign(**broken), tmp_path / "p.parquet"))
    refused("has a header but no rows", save(table[:0], tmp_path / "p.parquet"))


def test_damaged_files_are_reported_as_such(tmp_path, small_blocks):
    y, s, *_ = made(5000)
    parquet, npz = save(frame(y, s), tmp_path / "p.parquet"), tmp_path / "p.npz"
    np.savez_compressed(npz, y_true=y, y_score=s)
    for path in (parquet, npz):
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        refused("can be read", path)
        path.write_bytes(whole[:3000] + bytes(2000) + whole[5000:])
        refused("damaged|can be read", path)
    for path in (tmp_path / "nowhere.csv", tmp_path):
        refused("cannot read", path)
    with zipfile.ZipFile(npz, "w") as archive:
        archive.writestr("y_true.npy", b"no array")
    refused("not an npz file that can be read", npz)


NAN_AT_2402 = np.where(np.arange(2500).reshape(500, 5) == 2402, np.nan, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_true": None}, "has the arrays 'y_score'"),
        ({"y_score": None}, "has the arrays 'y_true'"),
        ({"y_score": np.zeros((500, 4))}, "must have the shape .* of `y_true`, got"),
        ({"y_true": np.zeros(500)}, "p.npz, rows from 1 on: `y_score` must sum to 1"),
        ({"y_score": np.full((500, 5), "x")}, "`y_score` must hold numbers, got text"),
        ({"y_true": np.zeros((500, 0))}, r"the shapes are y_true \(500, 0\)"),
        ({"y_true": np.full((500, 5), 2)}, "p.npz, .* got 2 in row 0, column 0"),
        ({"y_score": NAN_AT_2402}, "p.npz, rows from 481 on: .* got nan in row 0, column 2"),
        ({"label_names": np.array(list("abcd"))}, "one name for each of the 5 labels, got 4"),
        ({"label_names": np.array(list("abcde"), object)}, "can be read: Object arrays"),
        ({"folds": np.zeros(499, int)}, "the shapes are .*, folds \\(499,\\)"),
    ],
)
def test_broken_npz_is_explained(tmp_path, small_blocks, change, message):
    y, s, *_ = made()
    arrays = {"y_true": y, "y_score": s} | change
    np.savez(tmp_path / "p.npz", **{k: v for k, v in arrays.items() if v is not None})
    refused(message, tmp_path / "p.npz")


@pytest.mark.parametrize(
    ("true", "pred", "message"),
    [
        ("a\nb\nc\nd\n", "a\nb\nx\nd\n", "pred, line 3: 'x' is no class of the hierarchy"),
        ("a\nb\nc\nd\n", "a\nb\nc\n", "pred ends behind line 3, and true goes on"),
        ("a\nb\nc\n", "a\nb\nc\n\n", "true ends behind line 3, and pred goes on"),
        ("a\n\x00\n", "a\nb\n", "true, line 2"),
        ("", "", "pred is empty"),
    ],
)
def test_broken_lines_of_classes_are_named(tmp_path, small_blocks, true, pred, message):
    (tmp_path / "true").write_text(true)
    (tmp_path / "pred").write_text(pred)
    h = mleval.Hierarchy([("a", "b"), ("a", "c"), ("c", "d")])
    refused(message, tmp_path / "pred", truth=tmp_path / "true", hierarchy=h)


def test_lines_of_classes_need_a_hierarchy_and_nothing_of_matrices(tmp_path):
    (tmp_path / "p").write_text("a\n")
    refused("line 1: 'a' is not LABEL:VALUE pairs", tmp_path / "p", truth=tmp_path / "p")
    h = mleval.Hierarchy([("a", "b")])
    with pytest.raises(ValueError, match="must be left out with `truth`"):
        evaluate_file(tmp_path / "p", truth=tmp_path / "p", hierarchy=h, threshold=0.3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b\na b c\n", "line 2: an edge is two classes, parent and child, got 3: 'a b c'"),
        ("a\n", "line 1: an edge is two classes"),
        ("a b\nb a\n", "cycle"),
        ("a,b\n1,2\n", "columns parent and child"),
        ("", "at least one class"),
    ],
)
def test_broken_hierarchies_are_explained(tmp_path, text, message):
    (tmp_path / "edges").write_text(text)
    with pytest.raises(ImportFileError, match=message):
        read_hierarchy(tmp_path / "edges")
    with pytest.raises(ImportFileError, match="cannot read"):
        read_hierarchy(tmp_path / "nowhere")


def test_progress_ends_at_the_whole(tmp_path, small_blocks):
    y, s, *_ = made()
    np.savez(tmp_path / "p.npz", y_true=y, y_score=s)
    (tmp_path / "true").write_text("a b\n" * 20)
    calls = {"truth": tmp_path / "true", "hierarchy": mleval.Hierarchy([("a", "b")])}
    sources = [(save(frame(y, s), tmp_path / f"p.{suffix}"), {}) for suffix in ("csv", "parquet")]
    for path, options in [*sources, (tmp_path / "p.npz", {}), (tmp_path / "true", calls)]:
        seen = []
        evaluate_file(path, progress=lambda *step, seen=seen: seen.append(step), **options)
        assert seen == sorted(seen) and seen[-1][0] == seen[-1][1]


def test_folds_may_be_numbers_or_names(tmp_path):
    y, s, *_ = made(6)
    for folds, kind in ((["a", "b", "a", "b", "a", "b"], str), ([10, 2, 10, 2, 10, 2], int)):
        for suffix in ("csv", "parquet"):
            found = evaluate_file(save(frame(y, s, folds=folds), tmp_path / f"p.{suffix}"))
            assert list(found.sums) == sorted(set(folds))
            assert all(isinstance(f, kind) for f in found.sums)


def test_a_file_that_declares_hundreds_of_times_its_size_is_not_unpacked(tmp_path):
    zeros = np.zeros(1_000_000, np.int8)
    part = pa.table({"true_a": zeros, "score_a": zeros.astype(float)})
    path = tmp_path / "runs.parquet"
    pq.write_table(pa.concat_tables([part] * 40), path)
    refused("declares 640,000,000 bytes .* more than 500 times", path)
    lists = pa.ListArray.from_arrays(pa.array([0, 40_000_000]), pa.array(np.tile(zeros, 40)))
    pq.write_table(pa.table({"true": lists, "pred": lists}), path)
    refused("declares 640,000,000 bytes", path)
    many = np.zeros(30_000_000)
    np.savez_compressed(tmp_path / "p.npz", y_true=many, y_pred=many.astype(bool))
    refused("declares 270,000,", tmp_path / "p.npz")
    (tmp_path / "s.txt").write_text("1 999999999999\n0:1\n")
    refused("declares 999,999,999,999 labels", tmp_path / "s.txt", truth=tmp_path / "s.txt")


@pytest.mark.parametrize("shape", ["(-3, 2)", "(3, -2)", "(9223372036854775807, 9)"])
def test_an_array_of_an_impossible_shape_is_refused(tmp_path, shape):
    y, s, *_ = made(3, 2)
    np.savez(tmp_path / "p.npz", y_true=y, y_score=s)
    p, q = zipfile.ZipFile(tmp_path / "p.npz"), zipfile.ZipFile(tmp_path / "q.npz", "w")
    with p, q:
        for name in p.namelist():
            q.writestr(name, p.read(name).replace(b"(3, 2)", shape.encode().ljust(6), 1))
    refused("q.npz is not an npz file that can be read", tmp_path / "q.npz")


def test_bytes_are_refused_in_parquet_and_text_in_npz(tmp_path):
    plain, lists = pa.array([b"a", b"x"]), pa.array([[b"a"], [b"x"]])
    for column in (plain, plain.dictionary_encode(), lists):
        pq.write_table(pa.table({"true": column, "pred": column}), tmp_path / "p.parquet")
        refused("column 'true': the type is .*binary.*, not text", tmp_path / "p.parquet")
    np.savez(tmp_path / "p.npz", y_true=np.array([b"a", b"b"]), y_pred=np.array([b"a", b"a"]))
    assert evaluate_file(tmp_path / "p.npz").label_names == ("a", "b")


def test_scores_of_a_file_are_scores_also_where_they_are_0_and_1(tmp_path):
    y, s = np.array([0, 1, 1, 0]), np.array([0, 1, 0, 1])
    np.savez(tmp_path / "p.npz", y_true=y, y_score=s)
    pd.DataFrame({"true": y, "score": s}).to_csv(tmp_path / "p.csv", index=False)
    for name in ("p.npz", "p.csv"):
        assert evaluate_file(tmp_path / name).measures["macro_auroc"] == 0.5


RNG = np.random.default_rng(5)
Y = (RNG.random((30, 12)) < 0.2).astype(int)
Y[3], Y[:, 11] = 0, 1
S = (RNG.random((30, 12)) * (RNG.random((30, 12)) < 0.5)).round(3)
S[:, 11] = 0.25
WHOLE = mleval.evaluate(Y, sparse.csr_array(S), train_labels=Y, measures=["ndcg_at_4"])


def pairs(matrix):
    return [" ".join(f"{j}:{row[j]:g}" for j in np.flatnonzero(row)) for row in matrix]


def written(folder, kind, matrix):
    path = folder / kind
    rows = pairs(matrix)
    sets = [",".join(map(str, np.flatnonzero(row))) for row in matrix]
    if kind == "npz":
        sparse.save_npz(path, sparse.csr_matrix(matrix))
        return path.with_name("npz.npz")
    lines = {
        "pairs": rows,
        "repository": [f"{len(matrix)} {matrix.shape[1]}", *rows],
        "svmlight": [f"{labels} 1:0.5 7:2" for labels in sets],
        "data": [f"{len(matrix)} 90 {matrix.shape[1]}", *(f"{labels} 3:1" for labels in sets)],
    }
    path.write_text("\n".join(lines[kind]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("truth", ["npz", "pairs", "repository", "svmlight", "data"])
@pytest.mark.parametrize("scores", ["npz", "pairs", "repository"])
def test_every_form_gives_the_measures_of_the_arrays(tmp_path, truth, scores):
    for folder in ("true", "score"):
        (tmp_path / folder).mkdir()
    true, score = written(tmp_path / "true", truth, Y), written(tmp_path / "score", scores, S)
    ev = evaluate_file(score, truth=true, train_labels=true, measures=["ndcg_at_4"])
    assert ev.measures == pytest.approx(WHOLE.measures, rel=1e-12)
    assert ev.truth_digest == WHOLE.truth_digest


def test_lists_in_parquet_give_the_measures_of_the_arrays(tmp_path):
    names = np.array([f"label {i:02}" for i in range(12)])
    table = pd.DataFrame({"true": [names[row == 1].tolist() for row in Y], "text": "x"})
    table["scored"] = [names[row > 0].tolist() for row in S]
    table["score"], table["fold"] = [row[row > 0].tolist() for row in S], np.arange(30) % 2
    table.to_parquet(tmp_path / "p")
    ev = evaluate_file(tmp_path / "p", measures=["ndcg_at_4"])
    assert {m: WHOLE.measures[m] for m in ev.measures} == pytest.approx(ev.measures, rel=1e-12)
    assert ev.label_names == tuple(names) and len(ev.folds) == 2
    whole = (tmp_path / "p").read_bytes()
    (tmp_path / "p").write_bytes(whole[:4] + bytes(60) + whole[64:])
    refused("p, behind row 0: the file is damaged", tmp_path / "p")
    table.rename(columns={"scored": "pred"}).drop(columns="score").to_parquet(tmp_path / "q")
    expected = (S > 0).sum(axis=0).tolist()
    assert evaluate_file(tmp_path / "q").labels["predicted"].tolist() == expected
    for change, message in (
        ({"score": [[0.5]] * 30}, "row 1, column scored: scored and score have different"),
        ({"true": [["a", "a"]] * 30}, "column true: a list names a label twice"),
        ({"true": [["a", None]] * 30}, "a list of labels holds null"),
        ({"score": [[np.nan] * len(v) for v in table.scored]}, "score nan is not a finite number"),
        ({"scored": "x"}, "column .scored.: the type is .*string, not lists"),
    ):
        table.assign(**change).to_parquet(tmp_path / "r")
        refused(message, tmp_path / "r")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0:0.5\n1\n", "line 2: '1' is not LABEL:VALUE pairs"),
        ("0:nan\n", "line 1: '0:nan' is not"),
        ("-1:1\n", "line 1"),
        ("2 4\n0:1\n", "promises 2 rows, and there are 1"),
        ("1 1\n1:1\n", "line 2: label 1 where the first line promises 1"),
        ("0:1\n", "has 1 rows and .* 2"),
        ("", "is empty"),
    ],
)
def test_broken_text_is_named_by_its_line(tmp_path, text, message):
    (tmp_path / "score").write_text(text)
    (tmp_path / "true").write_text("0 1:1\n0,1 1:1\n")
    refused(message, tmp_path / "score", truth=tmp_path / "true")


def test_an_npz_without_a_matrix_is_refused(tmp_path):
    np.savez(tmp_path / "s.npz", x=1)
    refused("holds no sparse matrix", tmp_path / "s.npz", truth=written(tmp_path, "pairs", Y))


def test_the_command_logs_them(db):
    true, score = written(db.parent, "data", Y), written(db.parent, "npz", S)
    files = [score, "--truth", true, "--train-labels", true]
    values = as_json("evaluate", *files, "-m ndcg_at_4 --method a --dataset d")["measures"]
    assert values["ndcg_at_4"] == pytest.approx(WHOLE.measures["ndcg_at_4"], rel=1e-12)
    assert values["psp_at_5"] == pytest.approx(WHOLE.measures["psp_at_5"], rel=1e-12)
