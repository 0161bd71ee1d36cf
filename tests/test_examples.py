"""The examples run as they stand, and what they wrote is what they write."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import mlflow
import pytest

import mlflow_mleval as mleval

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name, *args, cwd):
    env = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # small matrices gain nothing from threads
    command = [sys.executable, str(EXAMPLES / name), *args]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_published_against_obtained_is_up_to_date(tmp_path):
    run("reproduce_eftimov2019.py", str(tmp_path / "out.md"), cwd=tmp_path)
    committed = (EXAMPLES / "reproduce_eftimov2019.md").read_text(encoding="utf-8")
    assert (tmp_path / "out.md").read_text(encoding="utf-8") == committed
    assert committed.count("130 of 132") == 2


def test_the_case_studies_over_folds_run(tmp_path):
    run("case_studies_folds.py", str(tmp_path / "out.md"), "wine 0", cwd=tmp_path)
    text = (tmp_path / "out.md").read_text(encoding="utf-8")
    committed = (EXAMPLES / "case_studies_folds.md").read_text(encoding="utf-8")
    for heading in ("## Table 1: error and (tpr, fpr)", "## Table 2: F and (precision, recall)", "## Learned measures on"):
        assert heading in text and heading in committed


def test_two_lines_make_a_script_into_a_comparison(db):
    shown = run("autolog_sklearn.py", "2", cwd=db.parent)
    assert [line.split()[0] for line in shown.splitlines()[:10]] == ["digits"] * 5 + ["4"] * 5
    for said in ("$ mleval rank", "the fused ranking of 5 methods over 2 datasets", "$ mleval compare", "$ mleval report"):
        assert said in " ".join(shown.split())
    study = mleval.load_study(experiment_names=["autolog_sklearn"])
    assert len(study.datasets) == 2 and len(study.methods) == 5 and study.folds.shape[0] == 100
    assert study.runs["split_digest"].nunique() == 2  # the methods saw the same folds
    page = (db.parent / "mleval_report.html").read_text(encoding="utf-8")
    assert all(method in page for method in study.methods)


def test_the_walkthrough_prints_what_it_shows(tmp_path, unset):
    """Its text, code and tables; the wording of sentences is for others to test, and for a new walkthrough.md to show."""
    run("make_walkthrough.py", str(tmp_path / "out.md"), cwd=tmp_path)
    found, committed = (path.read_text(encoding="utf-8") for path in (tmp_path / "out.md", EXAMPLES / "walkthrough.md"))
    same_versions = found.splitlines()[-1] == committed.splitlines()[-1]
    (cells, printed), (cells_shown, printed_shown) = map(parts, (found, committed))
    assert cells == cells_shown, "run python examples/make_walkthrough.py"
    if same_versions:  # others of numpy or scikit-learn give other numbers
        assert printed == printed_shown, "run python examples/make_walkthrough.py"


def parts(page):
    """What is not printed, and the lines of printed tables."""
    rest, blocks = page.rpartition("\nMade by")[0], re.findall(r"```text\n(.*?)```", page, re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    return re.sub(r"```text\n.*?```", "", rest, flags=re.S), [line for line in lines if re.search(r"\S {2,}\S", line)]


@pytest.mark.parametrize("framework, needs, best", [
    ("xgboost", "xgboost", "depth 6"), ("keras", "torch", "64 units"), ("lightning", "torch", "64 units")
])  # fmt: skip
def test_the_callbacks_watch_a_training(db, monkeypatch, framework, needs, best):
    for name in {framework, needs}:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    run(f"callbacks_{framework}.py", cwd=db.parent)
    study = mleval.load_study(experiment_names=[framework])
    assert study.values["f1"].idxmax() == ("digits", best)
    client = mlflow.MlflowClient()
    (winner,) = study.runs.loc[study.runs["method"] == best, "run_id"]
    losses = [m.value for m in client.get_metric_history(winner, "mleval.epoch/hamming_loss")]
    assert len(losses) >= 10 and losses[-1] < losses[0]


def test_the_surrogate_study_runs_and_goes_on_where_it_stopped(db):
    shown = run("surrogate_study.py", cwd=db.parent)
    first = mleval.load_surrogate_study("surrogates", "noisy digits")
    assert first.losses.shape == (7, 7) and all(sentence in shown for sentence in first.sentences)
    assert (db.parent / "surrogates" / "noisy_digits_scaled" / "surrogates.svg").exists()
    assert run("surrogate_study.py", cwd=db.parent) == shown
    assert mleval.load_surrogate_study("surrogates", "noisy digits").runs == first.runs


def test_the_surrogates_of_real_data_are_up_to_date(db):
    data = EXAMPLES.parents[1] / "shared" / "data" / "mulan"
    if not data.exists():
        pytest.skip("the data sets of Mulan are not at hand")
    run("surrogate_study.py", "--repeats", "10", "-o", "out.md", str(data), "flags", cwd=db.parent)
    found = (db.parent / "out.md").read_text(encoding="utf-8")
    committed = (EXAMPLES / "surrogate_study.md").read_text(encoding="utf-8")
    assert found[found.index("### flags, features as they are") :] in committed
    assert all(line in committed for line in found.splitlines())
