"""Results that other tools write: each is known by what it holds, and read as a long table."""

import json

import pytest

from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.files.harness_logs import holds_instances
from mlflow_mleval.files.results import read_results
from mlflow_mleval.store.query import load_study

HARNESS = {
    "results": {
        "mmlu": {"acc,none": 0.5, "acc_stderr,none": 0.01, "alias": "mmlu"},
        "mmlu_law": {"acc,none": 0.4, "acc_stderr,none": 0.02},
        "gsm8k": {"exact_match,strict-match": 0.25, "exact_match_stderr,strict-match": "N/A"},
    },
    "group_subtasks": {"mmlu": ["mmlu_law"], "gsm8k": []},
    "config": {"model": "hf", "model_args": "pretrained=tiny"},
    "model_name": "tiny",
}
LIGHTEVAL = {
    "config_general": {"model_name": "org/tiny"},
    "results": {"arc|25": {"acc": 0.5, "acc_stderr": 0.1}, "all": {"acc": 0.5}},
}
PROMPTFOO = {
    "evalId": "e",
    "results": {
        "version": 3,
        "results": [
            {"provider": {"id": p}, "promptIdx": 0, "score": s, "success": s > 0.5}
            for p, s in (("a", 1), ("a", 0.5), ("b", 0))
        ],
    },
}
PROVIDERS = {"a": {"score": 0.75, "pass_rate": 0.5}, "b": {"score": 0, "pass_rate": 0}}
EVALS = [
    {"spec": {"completion_fns": ["gpt"], "eval_name": "arithmetic.dev"}},
    {"type": "match", "data": {"correct": True}},
    {"final_report": {"accuracy": 0.75}},
]
HELM = {
    "title": "Accuracy",
    "header": [{"value": h} for h in ("Model", "Mean win rate", "MMLU - EM", "BoolQ - F1")],
    "rows": [[{"value": "tiny"}, {"value": 0.5}, {"value": 0.25}, {"value": None}]],
}


@pytest.mark.parametrize(
    ("held", "rows"),
    [
        (HARNESS, {"tiny mmlu_law acc": 0.4, "tiny gsm8k exact_match/strict-match": 0.25}),
        (LIGHTEVAL, {"org/tiny arc|25 acc": 0.5}),
        (PROMPTFOO, {f"{m} tests {k}": v for m, of in PROVIDERS.items() for k, v in of.items()}),
        (EVALS, {"gpt arithmetic.dev accuracy": 0.75}),
        (HELM, {"tiny MMLU EM": 0.25}),
    ],
    ids=["harness", "lighteval", "promptfoo", "evals", "helm"],
)
def test_files_of_other_tools_are_read_as_results(tmp_path, held, rows):
    path = tmp_path / "results.json"
    path.write_text("\n".join(map(json.dumps, held)) if held is EVALS else json.dumps(held))
    table = read_results(path)
    named = table["method"] + " " + table["dataset"] + " " + table["measure"]
    assert dict(zip(named, table["value"], strict=True)) == rows
    assert not holds_instances(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"results": {"t": 3}, "config": {}}', "lm-evaluation-harness that can be read"),
        ('{"results": {"t": {"acc": "high"}}, "config": {}}', "holds 0 results"),
        ('{"x": 1}', "JSON of none of the tools"),
        ("no JSON", "JSON of none of the tools"),
        ("[" * 100_000, "JSON of none of the tools"),
    ],
)
def test_what_is_broken_or_of_no_tool_is_said(tmp_path, text, said):
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(ImportFileError, match=said):
        read_results(path)


def test_tables_of_benchmarks_are_read_by_their_columns(tmp_path):
    amlb = tmp_path / "amlb.csv"
    head = "id,task,framework,constraint,fold,type,result,metric,duration"
    rows = [f"x,{t},{m},1h,{f},binary,0.{f + 5},auc,9" for t in "de" for m in "ab" for f in (0, 1)]
    amlb.write_text("\n".join([head, *rows]))
    study = load_study(amlb, maximize=["auc"])
    assert (study.methods, study.datasets, study.measures) == (["a", "b"], ["d", "e"], ["auc"])
    assert len(study.folds) == 8
    arena = tmp_path / "arena.csv"
    rows = [f"{d},{m},{f},0.{f + 1},rmse,regression" for d in "de" for m in "ab" for f in (0, 1)]
    arena.write_text("\n".join(["dataset,method,fold,metric_error,metric,problem_type", *rows]))
    values = load_study(arena, minimize=["metric_error"]).values["metric_error"]
    assert values.tolist() == pytest.approx([0.15] * 4)
