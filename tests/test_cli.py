"""The command line on a real store that holds the published study."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import mlflow_mleval
from mlflow_mleval.cli import main

GOLDEN = Path(__file__).parent / "golden"
STUDY = Path(mlflow_mleval.__file__).parent / "data" / "madjarov2012.csv"
WORST = ["-n", "madjarov2012", "--missing", "worst"]
SOME = ["--dataset", "emotions", "--dataset", "scene", "--method", "RF-PCT", "--method", "BR", "--method", "PCT"]


@pytest.fixture(scope="module")
def store(tmp_path_factory, empty_store):
    """A folder whose SQLite store holds the published study, imported by the command itself."""
    folder = tmp_path_factory.mktemp("store")
    shutil.copy(empty_store, folder / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
        patch.chdir(folder)
        result = CliRunner().invoke(main, ["import", str(STUDY), "--conventions", "mulan"], catch_exceptions=False)
        assert "132 runs created" in result.stdout
        yield folder


def mleval(*args, code=0):
    result = CliRunner().invoke(main, list(args), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def as_json(*args):
    return json.loads(mleval(*args, "--output", "json").stdout)


@pytest.mark.parametrize("preference", ["usual", "v_shape"])
def test_rank_gives_the_published_tables(store, preference):
    found = as_json("rank", *WORST, "--preference", preference)
    published = pd.read_csv(GOLDEN / "eftimov2019_rankings.csv")
    published = published[published.preference == preference].set_index(["dataset", "method"])["rank"]
    ours = pd.Series({(d, row["method"]): row["rank"] for d, rows in found["datasets"].items() for row in rows})
    assert len(ours) == 132
    assert (ours.reindex(published.index) == published).sum() >= 130


def test_rank_json_keeps_its_contract(store):
    found = as_json("rank", *WORST)
    assert {"ranking", "datasets", "weights", "friedman", "nemenyi", "excluded", "provenance"} <= set(found)
    first = found["ranking"][0]
    assert first["method"] == "RF-PCT" and first["rank"] == pytest.approx(4.0, abs=0.005)
    assert found["nemenyi"]["critical_difference"] == pytest.approx(5.025, abs=0.001)
    assert found["nemenyi"]["significant_pairs"] == [["RF-PCT", "PCT"]]
    assert len(found["provenance"]["run_ids"]) == 132 and found["provenance"]["policy"] == "worst"


def test_missing_results_ask_for_a_policy_and_name_the_cells(store):
    result = mleval("rank", "-n", "madjarov2012", code=1)
    assert "12 of 132 cells" in result.stderr and "RAkEL on bibtex" in result.stderr and "--missing worst" in result.stderr
    assert result.stdout == "" and len(result.stderr.strip().splitlines()) == 1


def test_a_second_import_changes_nothing(store):
    assert "0 runs created, 0 updated, 132 unchanged" in mleval("import", str(STUDY)).stdout


def test_unknown_metric_needs_a_direction(store):
    assert "--min NAME" in mleval("rank", *WORST, "-m", "training_time", code=1).stderr
    found = as_json("rank", *WORST, "-m", "training_time", "--min", "training_time")
    assert [m["measure"] for m in found["measures"]] == ["training_time"]


def test_unknown_names_are_named(store):
    assert "'nowhere'" in mleval("rank", "-n", "nowhere", code=1).stderr
    assert "nobody" in mleval("compare", *WORST, "--control", "nobody", code=1).stderr
    assert "no_measure" in mleval("compare", *WORST, "--on", "no_measure", code=1).stderr


def test_usage_errors_exit_with_2(store):
    for args in (["--alpha", "2"], ["--preference", "wild"], ["--weights", "heavy"], ["-o", "report.xyz"],
                 ["-o", "a.json", "--output", "csv"], ["--p", "f1=x"]):
        mleval("rank", *WORST, *args, code=2)


@pytest.mark.parametrize("option, value, command", [
    ("--method-by", "bogus", "rank"), ("--dataset-by", "tag:", "runs"), ("--p", "-1", "rank"), ("--q", "f1=-2", "rank"),
    ("--s", "0", "report"), ("--weights", "f1=0", "rank"), ("--weights", "nothing=1", "compare"),
])
def test_values_that_no_analysis_takes_are_wrong_usage_of_the_option_that_was_typed(store, option, value, command):
    function = ["--preference", {"--s": "gaussian", "--q": "linear"}.get(option, "v_shape")]
    said = mleval(command, *WORST, *(function if command != "runs" else []), option, value, code=2).stderr
    assert f"Error: {option} must " in said and "Usage: " in said and "Traceback" not in said
    assert value != "f1=0" or "got 0 for 'f1'. Leave" in said


def test_a_default_is_never_the_users_mistake(store):
    said = mleval("rank", *WORST, "--preference", "usual", "--p", "1", code=2).stderr
    assert "Error: --p is not a threshold of 'usual'" in said
    assert "Usage" not in mleval("rank", *WORST, "-m", "f1", "--exclude-measure", "f1", code=1).stderr


def test_measures_that_weights_do_not_name_weigh_1_as_functions_are_v_shape(store):
    some = ["-m", "f1", "-m", "recall", "-m", "coverage"]
    found = as_json("rank", *WORST, *some, "--weights", "f1=2", "--preference", "f1=gaussian")
    assert found["options"]["weights"] == {"f1": 2, "recall": 1, "coverage": 1}
    assert all(row == {"f1": 0.5, "recall": 0.25, "coverage": 0.25} for row in found["weights"].values())
    text = mleval("rank", *WORST, *some, "--weights", "f1=2", "--preference", "f1=gaussian").stdout
    assert "preference Gaussian for f1, V-shape for all others, weights 2 for f1, 1 for all others" in " ".join(text.split())


def test_gate_exits_with_3_only_when_asked(store):
    few = ["-n", "madjarov2012", "--dataset", "emotions", "--dataset", "scene"]
    mleval("compare", *few)
    assert mleval("compare", *few, "--require-significant", code=3).stdout
    mleval("compare", *WORST, "--require-significant")


@pytest.mark.parametrize("command", ["runs", "rank", "compare", "report", "measures"])
@pytest.mark.parametrize("format", ["table", "json", "csv", "md", "latex", "html"])
def test_every_command_speaks_every_format(store, command, format):
    args = [] if command == "measures" else [*WORST, *SOME]
    extra = ["--draws", "20"] if command == "report" else []
    result = mleval(command, *args, *extra, "--output", format)
    assert len(result.stdout) > 200 and result.stderr == ""
    if command != "measures":
        assert "RF-PCT" in result.stdout


def test_report_writes_the_page_and_its_data_whole(store, tmp_path):
    page = tmp_path / "study.html"
    mleval("report", *WORST, "--draws", "200", "-o", str(page))
    assert page.read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html")
    data = tmp_path / "study_data"
    assert json.loads((data / "report.json").read_text(encoding="utf-8"))["ranking"][0]["method"] == "RF-PCT"
    assert (data / "pairs.csv").exists() and not list(tmp_path.glob(".*.part"))


def test_logged_report_is_a_run_that_later_selections_ignore(store, tmp_path):
    from mlflow import MlflowClient

    mleval("report", *WORST, "--draws", "200", "--log", "-o", str(tmp_path / "r.html"))
    client = MlflowClient()
    experiment = client.get_experiment_by_name("madjarov2012")
    (run,) = client.search_runs([experiment.experiment_id], "tags.`mleval.kind` = 'report'")
    assert {"mleval_report.html", "mleval_summary.md"} <= {a.path for a in client.list_artifacts(run.info.run_id)}
    assert len(as_json("rank", *WORST)["provenance"]["run_ids"]) == 132


def test_help_is_instant_because_nothing_heavy_is_imported():
    code = "import sys, mlflow_mleval.cli; print([m for m in ('mlflow', 'numpy', 'pandas', 'scipy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_demo_runs_ranks_reports_and_says_what_next(tmp_path):
    command = [str(Path(sys.executable).with_name("mleval")), "demo"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    printed, shown = (re.sub(r"\d{4}-\d\d-\d\dT[\d:+]+", "", text) for text in (done.stdout, readme))
    assert f"```text\n{printed}```" in shown, "put what mleval demo prints into README.md"
    assert {"mlflow.db", "mleval_report.html", "mleval_report_data"} <= {p.name for p in tmp_path.iterdir()}
