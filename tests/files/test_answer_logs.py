"""Logs of lm-evaluation-harness 0.4.13 and Inspect 0.3.285 of a stub model (golden/answers)."""

import json
import shutil
import zipfile

import pytest
from places import GOLDEN

from mlflow_mleval.analysis.answer_comparison import aligned, graded
from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.files.harness_logs import is_answer_log, read_answer_log

LOGS = GOLDEN / "answers"


def left_out(answers):
    """The metrics that notes say are left out."""
    return [note.partition(" is left out:")[0] for note in answers.notes]


def test_samples_of_the_harness(tmp_path):
    found = {}
    for name, wrong in (("p2", 2), ("p3", 3)):
        (tmp_path / name).mkdir()
        written = tmp_path / name / "samples_toy_2026-11-22T04-10-13.760672.jsonl"
        path = shutil.copy(LOGS / f"samples_toy_{name}.jsonl", written)
        method, dataset, answers = read_answer_log(path)
        assert (method, dataset) == (name, "toy") and is_answer_log(path)
        assert answers.values["exact_match"].tolist() == [float(i % wrong != 0) for i in range(12)]
        assert answers.about["asked"].iloc[3] == "question 3"
        assert answers.about["passage"].iloc[11] == 3
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
    assert len(found.tables["p2"]) == 12
    assert found.tables["p3"]["match"].mean() == pytest.approx(2 / 3)


QUALITY = ["poor", "fair", "good"]


def test_metrics_of_pairs_and_lists_are_left_out_by_name_and_words_wait_for_their_grades():
    for name, numbers, words in (
        ("samples_graded_p2.jsonl", ["exact"], ("quality",)),
        ("graded_p2.eval", ["match", "passes", "parts/length"], ("quality", "parts/grade")),
    ):
        answers = read_answer_log(LOGS / name)[2]
        assert [*answers.values] == numbers and answers.words == words
        assert left_out(answers) == ["pair", "words"]
        assert "its values are lists, such as '[" in answers.notes[0]
        found = graded(answers, {"quality": QUALITY})
        assert found.values["quality"].tolist() == [0, 2, 0, 2, 1, 2]
        told = graded(answers, {}).notes[2]
        assert "quality is left out, for 'poor', 'good', 'fair' are no numbers" in told
        told = graded(answers, {"quality": ["poor", "good"]}).notes[2]
        assert told.startswith("quality is left out, for 'fair' are")
    for passing in ("passes", "match"):
        assert answers.values[passing].tolist() == [0, 1, 0, 1, 0, 1]
    # where words have an order of their own
    turned = graded(answers, {"match": ["C", "I"], "parts/grade": QUALITY})
    assert turned.values["match"].tolist() == [1, 0, 1, 0, 1, 0] and "match" not in turned.passing
    said = "rolling.* no metric of numbers or words. word_perplexity is left out: its val"
    with pytest.raises(ImportFileError, match=said):
        read_answer_log(LOGS / "samples_rolling_p2.jsonl")


def test_older_logs_of_the_harness_do_not_name_their_metrics(tmp_path):
    newer, path = LOGS / "samples_graded_p2.jsonl", tmp_path / "samples_graded_1.jsonl"
    lines = [json.loads(line) for line in newer.read_text().splitlines()]
    for line in lines:
        line.pop("metrics")
    path.write_text("\n".join(map(json.dumps, lines)))
    found, named = read_answer_log(path)[2], read_answer_log(newer)[2]
    assert found.values.equals(named.values) and found.words == named.words
    assert found.notes == named.notes


def test_numbers_that_are_none_and_names_that_no_store_takes(tmp_path):
    line = {"doc_id": 0, "doc": {}, "arguments": {}, "huge": 10**400, "none": None, "empty": " "}
    line |= {"nan": float("nan"), "true": True, "text": "0.5", "a b": 1.0}
    line["nested"] = {"x": 1, "y": {"z": 2}}
    path = tmp_path / "samples_odd_1.jsonl"
    path.write_text(json.dumps(line) + "\n")
    answers = read_answer_log(path)[2]
    values = answers.values.iloc[0]
    assert values.dropna().to_dict() == {"true": 1.0, "text": 0.5, "nested/x": 1.0}
    assert set(values.index[values.isna()]) == {"huge", "none", "nan", "empty"}
    assert left_out(answers) == ["a b", "nested/y"]


def test_what_is_no_log_is_named_in_one_line(tmp_path):
    whole = json.loads((LOGS / "qa_p2.json").read_text())
    bad = {
        "started.json": (json.dumps({**whole, "status": "started"}), "status is 'started'"),
        "list.json": ("[1]", "AttributeError"),
        "deep.json": ("[" * 9999, "RecursionError"),
        "cut.json": ("{", "JSONDecodeError"),
        "empty.json": (json.dumps({**whole, "samples": []}), "holds no scored answer"),
        "samples_x_1.jsonl": ('{"doc_id": 1, "metrics": ["f"]}', "KeyError: 'f'"),
    }
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
