"""Logs of lm-evaluation-harness 0.4.13 and Inspect 0.3.285, made by running them with a stub model (see golden/answers)."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from mlflow_mleval.analysis.answers import aligned
from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.files.answer_logs import is_answer_log, read_answer_log

LOGS = Path(__file__).parent / "golden" / "answers"


def test_samples_of_the_harness(tmp_path):
    found = {}
    for name, wrong in (("p2", 2), ("p3", 3)):
        (tmp_path / name).mkdir()
        path = shutil.copy(LOGS / f"samples_toy_{name}.jsonl", tmp_path / name / "samples_toy_2026-11-22T04-10-13.760672.jsonl")
        method, dataset, answers = read_answer_log(path)
        assert (method, dataset) == (name, "toy") and is_answer_log(path)
        assert answers.values["exact_match"].tolist() == [float(i % wrong != 0) for i in range(12)]
        assert answers.about["asked"].iloc[3] == "question 3" and answers.about["passage"].iloc[11] == 3
        found[method] = answers
    assert aligned(found).passing == ["exact_match"] and not aligned(found).notes


@pytest.mark.parametrize("suffix", ["eval", "json"])
def test_logs_of_inspect_with_two_epochs(suffix):
    method, dataset, answers = read_answer_log(LOGS / f"qa_p2.{suffix}")
    assert (method, dataset) == ("stub/p2", "qa") and len(answers.values) == 24
    assert sorted(answers.values) == ["includes", "match", "multi/len", "multi/ok"]
    assert answers.values["match"].mean() == 0.5 and answers.values["multi/len"].max() == 3
    other = read_answer_log(LOGS / "qa_p3.eval")[2]
    found = aligned({"p2": answers, "p3": other})
    assert found.several and len(found.tables["p2"]) == 12 and found.tables["p3"]["match"].mean() == pytest.approx(2 / 3)


def test_what_is_no_log_is_named_in_one_line(tmp_path):
    whole = json.loads((LOGS / "qa_p2.json").read_text())
    bad = {
        "started.json": (json.dumps({**whole, "status": "started"}), "status is 'started'"),
        "list.json": ("[1]", "AttributeError"), "deep.json": ("[" * 9999, "RecursionError"), "cut.json": ("{", "JSONDecodeError"),
        "empty.json": (json.dumps({**whole, "samples": []}), "holds no scored answer"),
        "samples_x_1.jsonl": ('{"doc_id": 1, "metrics": ["f"]}', "KeyError: 'f'"),
    }  # fmt: skip
    for name, (text, reason) in bad.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(ImportFileError, match=f"{name} .*{reason}"):
            read_answer_log(tmp_path / name)
    cut = (LOGS / "qa_p2.eval").read_bytes()
    (tmp_path / "cut.eval").write_bytes(cut[: len(cut) // 2])
    with pytest.raises(ImportFileError, match="cut.eval is no log"):
        read_answer_log(tmp_path / "cut.eval")
    with zipfile.ZipFile(tmp_path / "other.eval", "w") as log:
        log.writestr("readme.txt", "nothing")
    with pytest.raises(ImportFileError, match="other.eval is no log .*header.json"):
        read_answer_log(tmp_path / "other.eval")
