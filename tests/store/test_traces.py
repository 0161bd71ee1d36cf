"""Answers read from a store: traces, tables of `mlflow.models.evaluate` and of `log_table`."""

import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
from command_line import mleval as mleval_says
from example_runs import loaded
from mlflow.entities import AssessmentSource
from mlflow.genai.scorers import scorer
from mlflow.metrics import MetricValue, make_metric
from mlflow.tracking import fluent
from places import SCRIPTS

import mlflow_mleval as mleval
from mlflow_mleval.analysis.answer_comparison import aligned
from mlflow_mleval.store.run_answers import (
    RawAnswers,
    read_answer_tables,
    read_traces,
)

#: Long inputs share their first 1,000 characters, more than any preview keeps.
N, LONG = 24, "x" * 5000
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e=cmd()"


exact = scorer(lambda outputs, expectations: outputs == expectations["answer"], name="exact")
length = scorer(lambda outputs: len(outputs) / 10, name="length")
polite = scorer(lambda outputs: "yes" if "1" in outputs else "no", name="polite")
graded = scorer(lambda outputs: "good" if outputs.startswith("a") else "poor", name="graded")


@scorer
def fails(outputs):
    if outputs.endswith("3"):
        raise ValueError(HOSTILE)
    return 0.5


def asked(i):
    return (LONG if i % 2 else "") + f"{HOSTILE} {i}"


def answered(i, wrong):
    return f"b{i}" if i % wrong == 0 else f"a{i}"


def questions(order=range(N)):
    return [
        {"inputs": {"question": asked(i), "passage": i // 4}, "expectations": {"answer": f"a{i}"}}
        for i in order
    ]


@pytest.fixture(autouse=True)
def fixed_seeds():
    """None: ids of traces come from Python's generator, and would be the same again."""
    random.seed()


@pytest.fixture(scope="module")
def store(empty_store, tmp_path_factory):
    """Two prompts on the same questions, the second in another order, in a store on disk."""
    patch = pytest.MonkeyPatch()
    patch.setenv("MLFLOW_GENAI_EVAL_MAX_WORKERS", "1")
    patch.setenv("MLFLOW_EXPERIMENT_ID", "")  # set_experiment sets it: undone at the end
    path = shutil.copy(empty_store, tmp_path_factory.mktemp("genai"))
    patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{path}")
    mlflow.create_experiment("qa", artifact_location=str(tmp_path_factory.mktemp("artifacts")))
    mlflow.set_experiment("qa")
    scorers = [exact, length, polite, graded, fails]
    for wrong, order in ((3, range(N)), (2, [*range(N)][::-1])):

        def predict(question, passage, wrong=wrong):
            return answered(int(question.split()[-1]), wrong)

        with mlflow.start_run(run_name=f"prompt{wrong}"):
            mlflow.genai.evaluate(data=questions(order), predict_fn=predict, scorers=scorers)
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("qa").experiment_id
    yield client, {run.info.run_name: run for run in client.search_runs([experiment])}
    patch.undo()
    fluent._active_experiment_id = None


@pytest.fixture(scope="module")
def read(store):
    client, runs = store
    return {name: read_traces(client, run) for name, run in runs.items()}


def test_rows_align_although_order_differs_and_previews_are_cut(store, read):
    found = aligned(read)
    notes = "\n".join(found.notes)
    assert "fails of prompt3: 3 of 24" in notes
    assert re.search("graded is left out, for '.*', '.*' are no numbers", notes)
    assert all(run.data.tags["mlflow.runType"] == "genai_evaluate" for run in store[1].values())
    assert set(found.measures) == {"exact", "length", "polite", "fails"}
    assert set(found.passing) == {"exact", "polite"} and len(found.tables["prompt3"]) == N
    number = found.answers["prompt3"].about["asked"].reindex(found.tables["prompt3"].index)
    assert number.str.len().max() == 200
    expected = {f"prompt{w}": [answered(i, w) for i in range(N)] for w in (2, 3)}
    for name, outputs in expected.items():
        table = found.tables[name].sort_values("length")
        assert table["exact"].sum() == sum(o.startswith("a") for o in outputs)
        assert table["polite"].sum() == sum("1" in o for o in outputs)
        assert table["fails"].isna().sum() == sum(o.endswith("3") for o in outputs)


def test_grades_may_be_declared_and_an_input_can_be_the_key_and_then_counts_once(store):
    client, runs = store
    found = read_traces(client, runs["prompt2"], grades={"graded": ["poor", "good"]})
    assert found.values["graded"].sum() == N / 2 and "graded" not in found.passing
    assert not found.notes
    keyed = {name: read_traces(client, run, instance_by="passage") for name, run in runs.items()}
    assert len(aligned(keyed).tables["prompt2"]) == N // 4
    with pytest.raises(ValueError, match="no input and no tag 'nothing'"):
        read_traces(client, runs["prompt2"], instance_by="nothing")


def test_human_feedback_is_a_measure_of_its_own_and_its_repeats_are_averaged(store):
    client, runs = store
    run = runs["prompt3"]
    of_run = {"locations": [run.info.experiment_id], "run_id": run.info.run_id}
    trace = client.search_traces(**of_run, include_spans=False)[0].info.trace_id
    for value in (True, False, True, True):
        person = AssessmentSource(source_type="HUMAN", source_id=f"person{value}")
        mlflow.log_feedback(trace_id=trace, name="exact", value=value, source=person)
    found = read_traces(client, run)
    assert found.values["exact (human)"].dropna().tolist() == [0.75]
    assert found.values["exact"].notna().all()


def evaluated(client, name, outputs):
    def eval_fn(predictions, targets):
        scores = [float(a == b) for a, b in zip(predictions, targets, strict=True)]
        return MetricValue(scores=scores, aggregate_results={"mean": float(np.mean(scores))})

    rows = [(asked(i), f"a{i}", output) for i, output in enumerate(outputs)]
    data = pd.DataFrame(rows, columns=["question", "target", "answer"])
    match = make_metric(eval_fn=eval_fn, greater_is_better=True, name="match")
    columns = {"predictions": "answer", "targets": "target"}
    with mlflow.start_run(run_name=name) as run:
        mlflow.models.evaluate(data=data, **columns, evaluators="default", extra_metrics=[match])
    return client.get_run(run.info.run_id)


def gate(*args, code):
    return json.loads(mleval_says("gate", *args, "--output json --all", code=code).stdout)


def test_prompts_are_gated_by_their_traces(store):
    client, runs = store
    scorers = [exact, polite, fails]
    with mlflow.start_run(run_name="wrong") as run:
        always = {"predict_fn": lambda question, passage: "b0"}
        mlflow.genai.evaluate(data=questions(), **always, scorers=scorers)
    criteria = "exact/mean >= 0.5 AND polite >= 0.99 AND fails < 0.9"
    client.set_tag(run.info.run_id, "mlflow.genaiEvaluate.qualityCriteria", criteria)
    champion = ["--champion", runs["prompt3"].info.run_id, "--margin", "exact=0.1"]
    wrong = gate(run.info.run_id, *champion, "--slice", "passage", code=3)
    assert wrong["over"] == "answers" and wrong["units"] == N
    assert wrong["text"].startswith("BLOCK: exact is worse by .67 (at least .")
    assert any("fewer than 30 units are not judged" in said for said in wrong["notes"])
    answers = {row["criterion"]: row["answer"] for row in wrong["criteria"]}
    assert answers["exact/mean >= 0.5"] == "missed"
    (exact_row,) = [row for row in wrong["rows"] if row["measure"] == "exact" and not row["slice"]]
    assert exact_row["difference"] == pytest.approx(-16 / N)
    together = gate(run.info.run_id, *champion, "--cluster", "passage", code=4)
    assert f"on {N} answers in 6 clusters" in together["text"]
    alike = gate(runs["prompt2"].info.run_id, *champion, "-m", "exact", code=4)
    assert alike["needed"]["zero"] > N and len(alike["rows"]) == 1


def test_tables_of_models_evaluate_align_by_what_all_runs_share_and_are_gated(store):
    client, _ = store
    runs = {f"w{w}": evaluated(client, f"w{w}", [answered(i, w) for i in range(N)]) for w in (1, 3)}
    found = aligned(read_answer_tables(client, runs))
    assert found.measures == ["match"] and len(found.tables["w1"]) == N
    assert {w: found.tables[f"w{w}"]["match"].sum() for w in (1, 3)} == {1: 0, 3: 16}
    bad, good = (run.info.run_id for run in runs.values())
    asked_of = "--max", "match", "--margin", "match=0.1"
    blocked = gate(bad, "--champion", good, *asked_of, code=3)
    assert blocked["units"] == N
    assert "Only 0 and 1 were seen, which count as pass or fail: match." in blocked["notes"]
    better = gate(good, "--champion", bad, *asked_of, "--improve", "match", code=0)
    assert better["rows"][0]["verdict"] == "better"


def test_a_gate_names_other_scorers_other_data_and_another_agent(store):
    client, _ = store
    sides = []
    for name in "xy":
        with mlflow.start_run(run_name=name) as run:
            mlflow.log_table(pd.DataFrame({"id": ["i", "j"], "ok": ["yes", "no"]}), "told.json")
            mlflow.log_input(mlflow.data.from_pandas(pd.DataFrame({"q": [name]}), name="d"))
        tags = {"scorersDigest": json.dumps({"digest": f"sha256:{name}", "hashed": 1, "total": 1})}
        tags |= {"agent.digest": f"sha256:{name * 64}"}
        for tag, digest in tags.items():
            client.set_tag(run.info.run_id, f"mlflow.genaiEvaluate.{tag}", digest)
        sides.append(run.info.run_id)
    table = ["--read", "table=told.json", "--read", "instance-by=id"]
    notes = gate(sides[1], "--champion", sides[0], *table, code=4)["notes"]
    told = {note.split()[1]: note for note in notes if note.startswith("Other ")}
    assert [*told] == ["data:", "scorers:", "agent,"]
    assert f"x of {sides[0]}; y of {sides[1]}" in told["scorers:"]
    assert f"{'y' * 8} of {sides[1]}" in told["agent,"]


@pytest.fixture(scope="module")
def runs_with_a_table(store):
    """Two runs that logged a table of scores."""
    client, _ = store
    runs = {}
    for name in "ab":
        with mlflow.start_run(run_name=name) as run:
            order = [2, 0, 1] if name == "a" else [0, 1, 2]
            table = pd.DataFrame({"id": [f"i{k}" for k in order], "said": [HOSTILE, name, "c"]})
            more = {"ok": ["yes", "no", "yes"], "grade": ["poor", "fair", None]}
            mlflow.log_table(table.assign(**more, score=[k / 2 for k in order]), "scored.json")
        runs[name] = client.get_run(run.info.run_id)
    return runs


def test_any_logged_table_is_read_by_a_column(store, runs_with_a_table, tmp_path):
    (client, _), runs = store, runs_with_a_table
    how = {"table": "scored.json", "instance_by": "id", "grades": {"grade": ["poor", "fair"]}}
    found = aligned(read_answer_tables(client, runs, **how))
    assert found.measures == ["ok", "grade", "score"] and found.passing == ["ok"]
    assert found.tables["a"]["score"].equals(found.tables["b"]["score"])
    for options, why in (
        ({"table": "scored.json", "instance_by": "key"}, "has no column 'key'"),
        ({"table": "other.json"}, "its table other.json cannot be read: it is not there"),
    ):
        assert all(why in said for said in read_answer_tables(client, runs, **options).values())
    for bad in ("[" * 5000, json.dumps({"columns": ["a", "a"], "data": []}), "{}"):
        Path(tmp_path / "bad.json").write_text(bad)
        client.log_artifact(runs["a"].info.run_id, str(tmp_path / "bad.json"))
        assert "cannot be read: it" in read_answer_tables(client, runs, table="bad.json")["a"]


def printed(*args, code=0):
    """What a command prints, or why it stops without the ends of lines."""
    result = mleval_says(*args, code=code)
    return result.stdout if code == 0 else " ".join(result.output.split())


def compare(*args, code=0):
    return printed("compare", "--over instances", *args, code=code)


def test_a_run_of_which_half_the_answers_are_lost_is_compared_on_the_shared_ones(store):
    client, runs = store
    experiment = runs["prompt2"].info.experiment_id
    right = [row | {"outputs": f"a{i}"} for i, row in enumerate(questions())]
    with mlflow.start_run(experiment_id=experiment, run_name="lost"):
        copy = mlflow.genai.evaluate(data=right, scorers=[exact])
    of_run = {"locations": [experiment], "run_id": copy.run_id, "include_spans": False}
    traces = [trace.info.trace_id for trace in client.search_traces(**of_run)]
    client.delete_traces(experiment, trace_ids=traces[: N // 2])
    told = compare("-n", "qa", "--method", "prompt2", "--method", "lost", code=1)
    assert "lost answers of lost: 12 of 24" in told
    assert "compare on the shared instances (--read shared)." in told
    client.delete_run(copy.run_id)


def test_two_runs_are_compared_from_the_command_line(store):
    _, runs = store
    ids = [runs["prompt2"].info.run_id, runs["prompt3"].info.run_id]
    few = ["--seed", ":draws=199"]
    left_out = re.search(r"Left out, for no direction is known: ([^.]*)", compare(*ids, *few))
    assert {*left_out[1].split(", ")} == {"length", "fails"}
    assert "no direction is known for length" in compare(*ids, "-m", "length", code=1)
    args = [*ids, *few, "-m exact -m length --max length"]
    clustered = [*args, "--cluster passage --output json", "--over", ":difference=exact=0.05"]
    found = json.loads(compare(*clustered))
    assert found["n_instances"] == N and len(found["pairs"]) == 2
    data = found["datasets"]["qa"]
    given = {row["measure"]: row["difference"] for row in data["table"]}["exact"]
    assert given == pytest.approx(4 / N)
    assert data["ranking"]["table"][0]["method"] == "prompt3"
    assert any("larger values of exact" in said for said in found["doubts"])
    asked = compare(*args)
    assert "they answered here" in " ".join(asked.split()) and "\x1b" not in asked
    assert "\u202e" not in asked
    page = compare(*args, "--output html")
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page
    assert data["n_clusters"] == N // 4 and data["cluster"] == "passage"
    assert [row["measure"] for row in data["needed"]] == ["exact", "length"]
    assert data["needed"][0]["difference"] == 0.05
    told = compare(*args, "--over", ":difference=x=1", code=1)
    assert "`difference` must be of the measures exact, length" in told
    assert "no answer tells 'chapter'" in compare(*args, "--cluster chapter", code=1)
    assert "not MEASURE=WORST" in compare(*ids, "--read grades=graded", code=2)
    grades = ["--read", "grades=graded=poor,good"]
    graded = json.loads(compare(*ids, *few, "-m graded --max graded --output json", *grades))
    assert graded["datasets"]["qa"]["measures"] == ["graded"]


def test_a_report_has_a_section_on_answers(store, monkeypatch):
    _, runs = store
    ids = ["--run-id", runs["prompt2"].info.run_id, "--run-id", runs["prompt3"].info.run_id]
    ids += ["--seed", ":draws=199"]
    found = json.loads(printed("report", *ids, "--output", "json"))
    assert set(found["study"]["measures"]) == {"exact/mean", "polite/mean"}
    assert found["instances"] == {}
    answers = found["answers"]["qa"]
    assert answers["measures"] == ["exact", "polite"] or answers["measures"] == ["polite", "exact"]
    assert answers["compared"] == ["prompt3", "prompt2"] and answers["n_instances"] == N
    assert len(answers["needed"]) == 2
    assert any("larger values of " in said and "exact/mean" in said for said in found["doubts"])
    assert found["answer"]["evidence"] == "answers" and found["answer"]["worse"] == []
    assert found["question"]["verdict"] == "TOO CLOSE"
    text = printed("report", *ids, "--output html --max length/mean --cluster passage")
    assert "in 6 clusters" in text and "length" in text
    assert "\x1b" not in text and "\u202e" not in text and "<script>alert" not in text
    monkeypatch.setattr("mlflow_mleval.assembling.MOST_ANSWERS", N)
    few = printed("report", *ids, "--max", "exact/mean", "--output", "table")
    told = " ".join(few.split())
    assert "qa was not tested: its runs hold 48 answers, and no more than 24 are read here" in told


def test_a_survey_names_the_comparison_answer_by_answer(store):
    for more in ((), ("--since", "7d")):
        shown = printed("runs", "-n", "qa", *more)
        (way,) = re.findall("# who answers better, answer by answer\n(.*)\n", shown)
        words = shlex.split(way)
        expected = sorted(["mleval", "compare", "-n", "qa", "--over", "instances", *more])
        assert sorted(words) == expected


def test_answers_of_a_selection_with_a_table_of_its_own(store, runs_with_a_table):
    table = ["--read", "table=scored.json", "--read", "instance-by=id"]
    found = " ".join(compare("-n qa", *table, "-m score --min score").split())
    assert "does not separate a and b on 3 instances" in found
    assert "Left out: runs" in found and "cannot be read: it is not there" in found
    ids = [f"--run-id={store[1][name].info.run_id}" for name in ("prompt2", "prompt3")]
    both = [*ids, *table, "--max", "exact/mean", "--output", "table"]
    said = " ".join(printed("report", *both).split())
    assert "qa was not tested: none of its runs can be read. Left out: runs" in said


def test_answers_that_are_label_sets_are_evaluated_afterwards(store, tmp_path):
    client, runs = store
    ids = [runs[name].info.run_id for name in ("prompt2", "prompt3")]
    args = ["--run", ids[0], "--run", ids[1], "--labels", "outputs,expectations"]
    found = json.loads(printed("evaluate", *args, "--output", "json"))["evaluations"]
    wanted = sorted(ids, key=[e["answers_of"] for e in found].index)
    assert [e["answers_of"] for e in found] == wanted
    said = {w: [answered(i, w) for i in range(N)] for w in (2, 3)}
    labels = sorted({f"a{i}" for i in range(N)}.union(*said.values()))
    truth = [{f"a{i}"} for i in range(N)]
    for w, run_id in zip((2, 3), ids, strict=True):
        (one,) = (e for e in found if e["answers_of"] == run_id)
        found_labels = [{label} for label in said[w]]
        expected = mleval.evaluate(truth, y_pred=found_labels, label_names=labels)
        assert (one["method"], one["dataset"]) == (f"prompt{w}", "qa")
        assert one["measures"] == pytest.approx(expected.measures)
        run = client.get_run(one["run_id"])
        assert run.data.tags["mlflow.parentRunId"] == run_id
        assert run.info.experiment_id == runs["prompt2"].info.experiment_id
        assert run.data.metrics["mleval/hamming_loss"] == expected.measures["hamming_loss"]
    study = mleval.load_study(experiment_names=["qa"])
    assert sorted(study.methods) == ["prompt2", "prompt3"] and len(study.values) == 2
    ids_of_sets = [part for e in found for part in ("--run-id", e["run_id"])]
    same = json.loads(compare(*ids_of_sets, "-m", "subset_accuracy", "--output", "json"))
    assert same["n_instances"] == N
    assert {row["wins"] + row["losses"] for row in same["datasets"]["qa"]["table"]} == {12}
    tree = tmp_path / "tree.csv"
    tree.write_text("parent,child\n" + "".join(f"{label[0]}?,{label}\n" for label in labels))
    third = json.loads(printed("evaluate", *args, "--hierarchy", str(tree), "--output", "json"))
    third = third["evaluations"]
    assert all(0 < e["measures"]["h_f1"] < 1 for e in third)
    of_sets = "tags.`mleval.labels` = 'outputs,expectations'"
    children = client.search_runs([runs["prompt2"].info.experiment_id], of_sets)
    assert {run.info.run_id for run in children} == {e["run_id"] for e in third}
    tree.write_text("parent,child\nx,a1\n")
    told = printed("evaluate", *args, "--hierarchy", str(tree), code=2)
    assert "--hierarchy must hold all labels, got no 'a0'" in told


def test_answers_without_labels_are_said_and_measures_are_linked_to_the_model(store, monkeypatch):
    client, runs = store
    run = runs["prompt3"]
    run_id = run.info.run_id
    for labels, said in (
        ("outputs.topics,expectations", "24 of 24 answers without labels that can be read"),
        ("topics,expectations", "such as outputs.labels, not 'topics'"),
    ):
        assert said in printed("evaluate", "--run", run_id, "--labels", labels, code=1)
    for wrong, said in (
        (["--labels", "x"], "is not FOUND,TRUE"),
        (["--threshold", "1"], "--threshold must be left out with"),
    ):
        assert said in printed("evaluate", "--run", run_id, *wrong, code=2)
    model = client.create_logged_model(run.info.experiment_id, "tagger")
    # as mlflow.genai.evaluate links a run to its model
    client.log_metric(run_id, "accuracy/mean", 0.5, model_id=model.model_id)
    rows = [["a, b", '["a"]', ["b"], ""] * 10, [["a", "b"], ["b"], ["b"], []] * 10]
    rows[0][3] = {"no": "list"}
    held = RawAnswers(*rows, 40)
    monkeypatch.setattr("mlflow_mleval.training.label_answers.read_raw_answers", lambda *args: held)
    one = json.loads(printed("evaluate", "--run", run_id, "--output", "json"))
    assert one["measures"]["subset_accuracy"] == pytest.approx(29 / 39) and one["n_labels"] == 2
    measured = {m.key: m.value for m in client.get_logged_model(model.model_id).metrics}
    assert measured["mleval/subset_accuracy"] == one["measures"]["subset_accuracy"]
    assert "1 of 40 answers are left out, for no labels can be read" in one["warnings"][-1]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["file", "server"])
def test_a_thousand_questions_through_the_example(where, request, tmp_path):
    """Two prompts x 1,000 questions x 4 scorers equal the tests on the arrays."""
    uri = f"sqlite:///{tmp_path / 'm.db'}"
    uri = uri if where == "file" else request.getfixturevalue("server_url")
    env = os.environ | {"MLFLOW_TRACKING_URI": uri}
    example = SCRIPTS / "answers_genai.py"
    command = [sys.executable, str(example), "1000"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ids = re.search(r"instances (\w{32}) (\w{32})", done.stdout).groups()
    client = mlflow.MlflowClient(uri)
    named = zip(("short", "long"), ids, strict=True)
    found = aligned({name: read_traces(client, client.get_run(i)) for name, i in named})
    assert len(found.tables["short"]) == 1000
    assert {*found.measures} == {"exact", "brief", "f1", "accuracy"}
    module = loaded(example)
    draw = random.Random(0)
    asked_for = [draw.sample(module.TOPICS, draw.randint(1, 3)) for _ in range(1000)]
    for name, share in (("short", 0.80), ("long", 0.88)):
        right = 0
        for i, topics in enumerate(asked_for):
            question = f"Passage {i // 5}, question {i}: what of {' and '.join(topics)}?"
            right += set(module.answer(question, share).split(", ")) == set(topics)
        assert found.tables[name]["exact"].sum() == right
