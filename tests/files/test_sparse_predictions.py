"""Files of sparse truth and scores: CSR, text of the XMC repository, svmlight, lists."""

import numpy as np
import pandas as pd
import pytest
from command_line import as_json
from scipy import sparse

import mlflow_mleval as mleval
from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.files.predictions import evaluate_file

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
    with pytest.raises(ImportFileError, match="p, behind row 0: the file is damaged"):
        evaluate_file(tmp_path / "p")
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
        with pytest.raises(ImportFileError, match=message):
            evaluate_file(tmp_path / "r")


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
    with pytest.raises(ImportFileError, match=message):
        evaluate_file(tmp_path / "score", truth=tmp_path / "true")


def test_an_npz_without_a_matrix_is_refused(tmp_path):
    np.savez(tmp_path / "s.npz", x=1)
    with pytest.raises(ImportFileError, match="holds no sparse matrix"):
        evaluate_file(tmp_path / "s.npz", truth=written(tmp_path, "pairs", Y))


def test_the_command_logs_them(db):
    true, score = written(db.parent, "data", Y), written(db.parent, "npz", S)
    files = [score, "--truth", true, "--train-labels", true]
    values = as_json("evaluate", *files, "-m ndcg_at_4 --method a --dataset d")["measures"]
    assert values["ndcg_at_4"] == pytest.approx(WHOLE.measures["ndcg_at_4"], rel=1e-12)
    assert values["psp_at_5"] == pytest.approx(WHOLE.measures["psp_at_5"], rel=1e-12)
