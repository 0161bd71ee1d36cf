"""The command line on a real store that holds the published study."""

import json
import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner
from command_line import as_json, mleval
from example_runs import loaded
from places import ROOT, STUDY

import mlflow_mleval
from mlflow_mleval.cli import main
from mlflow_mleval.cli.command import Option

MLEVAL = Path(sys.executable).with_name("mleval")
ALL = ["-n", "madjarov2012"]
WORST = [*ALL, "--missing", "worst"]
SOME = ["--dataset emotions --dataset scene --method RF-PCT --method BR --method PCT"]


@pytest.fixture(scope="module")
def store(own_store):
    """A folder whose SQLite store holds the published study, imported by the command itself."""
    assert "132 runs created" in mleval("import", STUDY, "--conventions mulan").stdout
    return own_store


def test_rank_json_keeps_its_contract(store):
    found = as_json("rank", *WORST)
    assert {
        *("ranking", "datasets", "weights", "friedman", "nemenyi", "excluded", "provenance")
    } <= set(found)
    first = found["ranking"][0]
    assert first["method"] == "RF-PCT" and first["rank"] == pytest.approx(4.0, abs=0.005)
    assert found["nemenyi"]["critical_difference"] == pytest.approx(5.025, abs=0.001)
    assert found["nemenyi"]["significant_pairs"] == [["RF-PCT", "PCT"]]
    assert len(found["provenance"]["run_ids"]) == 132 and found["provenance"]["policy"] == "worst"


def test_missing_results_ask_for_a_policy_and_name_the_cells(store):
    result = mleval("rank", "-n", "madjarov2012", code=1)
    assert "12 of 132 cells" in result.stderr and "RAkEL on bibtex" in result.stderr
    assert "--missing worst" in result.stderr
    error, *ways = result.stderr.strip().splitlines()
    assert result.stdout == "" and error.startswith("Error: ") and len(ways) == 6
    for command in ways[1::2]:  # each way is a command to copy
        mleval(*shlex.split(command)[1:])


def test_unknown_metric_needs_a_direction(store):
    error, meaning, command = mleval("rank", *WORST, "-m", "training_time", code=1).stderr.split(
        "\n"
    )[:3]
    assert error == "Error: no direction is known for 'training_time'."
    assert meaning.startswith("Take smaller values of training_time for the better ones")
    assert shlex.split(command)[-2:] == ["--directions", "proposed"]
    for given in (shlex.split(command)[2:], [*WORST, "-m training_time --min training_time"]):
        (measure,) = as_json("rank", *given)["measures"]
        assert (measure["measure"], measure["direction"]) == ("training_time", "min")


def test_unknown_names_are_named(store):
    assert "'nowhere'" in mleval("rank", "-n", "nowhere", code=1).stderr
    assert "nobody" in mleval("compare", *WORST, "--control", "nobody", code=1).stderr
    assert "no_measure" in mleval("compare", *WORST, "--on", "no_measure", code=1).stderr


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("rank --alpha 2", "--alpha"),
        ("rank --preference wild", "--preference"),
        ("rank --weights heavy", "--weights"),
        ("rank -o report.xyz", "report.xyz"),
        ("rank --preference :p=f1=x", ":p"),
        ("rank --method-by bogus", "Error: --method-by must "),
        ("runs --dataset-by tag:", "Error: --dataset-by must "),
        ("rank --preference :p=-1", "Error: --preference :p must "),
        ("rank --preference linear --preference :q=f1=-2", "Error: --preference :q must "),
        ("report --preference gaussian --preference :s=0", "Error: --preference :s must "),
        ("rank --weights f1=0", "Error: --weights must .*got 0 for 'f1'. Leave"),
        ("compare --weights nothing=1", "Error: --weights must "),
    ],
)
def test_a_value_that_nothing_takes_is_wrong_usage_of_the_option_that_was_typed(store, typed, said):
    command, *options = typed.split()
    told = mleval(command, *(ALL if command == "runs" else WORST), *options, code=2).stderr
    assert re.search(said, told) and "Usage: " in told and "Traceback" not in told


def test_a_default_is_never_the_users_mistake(store):
    said = mleval("rank", *WORST, "--preference", "usual:p=1", code=2).stderr
    assert "Error: --preference :p is not a threshold of 'usual'" in said
    assert "Usage" not in mleval("rank", *WORST, "-m f1 --exclude measure=f1", code=1).stderr


def test_measures_that_weights_do_not_name_weigh_1(store):
    some = "-m f1 -m recall -m coverage --weights f1=2 --preference f1=gaussian"
    found = as_json("rank", *WORST, some)
    assert found["options"]["weights"] == {"f1": 2, "recall": 1, "coverage": 1}
    expected = {"f1": 0.5, "recall": 0.25, "coverage": 0.25}
    assert all(row == expected for row in found["weights"].values())


#: Each command in two formats, and each format with one command or two.
SPOKEN = {"runs": "table html", "rank": "json csv", "compare": "csv md", "report": "md latex"}
SPOKEN["measures"] = "latex html"


@pytest.mark.parametrize("command", SPOKEN)
def test_every_command_speaks_every_format(store, command):
    args = {"measures": [], "runs": [*ALL, *SOME]}.get(command, [*WORST, *SOME])
    extra = ["--seed", ":draws=20"] if command == "report" else []
    for format in SPOKEN[command].split():
        result = mleval(command, *args, *extra, "--output", format)
        assert len(result.stdout) > 200
        told = result.stderr.splitlines()  # in a pipe the verdict, on one line
        assert len(told) <= 1 and all(line.startswith(f"wrote {format}: ") for line in told)
        assert command == "measures" or "RF-PCT" in result.stdout


def test_a_report_is_a_page_with_its_data_and_a_run_that_later_selections_ignore(store, tmp_path):
    from mlflow import MlflowClient

    page, data = tmp_path / "study.html", tmp_path / "study_data"
    mleval("report", *WORST, *SOME, "--seed :draws=20 --log -o", page)
    assert page.read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html")
    ranking = json.loads((data / "report.json").read_text(encoding="utf-8"))["ranking"]
    assert ranking[0]["method"] == "RF-PCT"
    assert (data / "pairs.csv").exists() and not list(tmp_path.glob(".*.part"))
    client = MlflowClient()
    experiment = client.get_experiment_by_name("madjarov2012")
    (run,) = client.search_runs([experiment.experiment_id], "tags.`mleval.kind` = 'report'")
    found = {a.path for a in client.list_artifacts(run.info.run_id)}
    assert {"mleval_report.html", "mleval_summary.md"} <= found
    assert len(as_json("rank", *WORST)["provenance"]["run_ids"]) == 132


def test_help_is_instant_because_nothing_heavy_is_imported():
    code = """
import sys
from click.testing import CliRunner
from mlflow_mleval.cli import main
for args in ([], ["--help"], ["rank", "--help"], ["--version"]):
    assert "mleval" in CliRunner().invoke(main, args).output
print([m for m in ("mlflow", "numpy", "pandas", "scipy") if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n" and done.returncode == 0, done.stderr


def test_the_version_is_that_of_mleval_and_of_mlflow():
    expected = f"mleval, version {mlflow_mleval.__version__} (MLflow {version('mlflow')})\n"
    assert mleval("--version").stdout == expected


@pytest.mark.parametrize("command", [None, *main.commands])
def test_help_fits_the_terminal_and_cuts_no_sentence(command):
    asked = [*filter(None, [command]), "--help"]
    for columns in (80, 110):
        text = CliRunner().invoke(main, asked, terminal_width=columns).stdout
        assert max(map(len, text.splitlines())) <= columns
        assert "..." not in text.replace("[ARGS]...", "")


@pytest.mark.parametrize("command", main.commands)
def test_a_command_has_at_most_thirty_options_and_a_short_help_with_two_examples(command):
    params = main.commands[command].params
    flags = [flag for p in params for flag in p.opts]
    assert len({p.name for p in params}) == len(params) and len({*flags}) == len(flags)
    options = [p for p in params if isinstance(p, Option) and p.flag != "-h" and not p.hidden]
    assert len(options) <= 30
    main.commands[command].make_context(command, [], resilient_parsing=True)  # as assistants do
    short, whole = (mleval(command, flag).stdout for flag in ("-h", "--help"))
    if len(options) > 15:
        assert len(short.splitlines()) <= 32 and short.count("\n  mleval ") == 2
        assert "--help " in short and len(whole.splitlines()) > 2 * len(short.splitlines())


def test_runs_are_chosen_by_when_they_started_and_left_out_by_id(store):
    ids = as_json("rank", *WORST)["provenance"]["run_ids"]
    some = ["--method PCT --method BR -m f1 --missing drop-datasets"]
    found = as_json("rank", *ALL, *some, "--since", "1d")["provenance"]["run_ids"]
    fewer = as_json("rank", *ALL, *some, "--exclude", f"run={found[0]}")["provenance"]["run_ids"]
    assert {*found} < {*ids} and found[0] not in fewer and len(fewer) == len(found) - 1
    by_id = as_json("rank", "-n 1 --missing worst")["provenance"]
    assert by_id["run_ids"] == ids and by_id["experiments"] == ["madjarov2012"]
    assert "holds no run" in mleval("rank", *WORST, "--since", "2999-01-01", code=1).stderr
    assert "--since must be a span" in mleval("rank", *ALL, "--since", "soon", code=2).stderr
    told = mleval("rank", *ALL, "--exclude=run=nothing", code=1).stderr
    assert "no run nothing to leave out" in told
    wrong = mleval("rank", *ALL, "--read", "nonsense=1", code=2).stderr
    assert "'nonsense=1' is none of duplicates=" in " ".join(wrong.split())


def test_joined_options_are_those_that_they_join(store):
    some, s = "-m f1 -m recall", "s=f1=0.1,recall=0.2"
    found, *others = (
        as_json("rank", *WORST, some, *given)
        for given in (
            ("--preference", f"gaussian:{s}"),
            (f"--preference=:{s}", "--preference=gaussian"),
            ("--preference=gaussian", "--s", s.removeprefix("s=")),
        )
    )
    assert found["options"]["s"] == {"f1": 0.1, "recall": 0.2}
    assert all(other["ranking"] == found["ranking"] for other in others)
    fewer = as_json("rank", *WORST, some, "--missing-is-failure", "--exclude-dataset=yeast")
    assert fewer["options"]["missing_is_failure"] and "yeast" not in fewer["datasets"]
    assert "requires an argument" in mleval("rank", *ALL, "--read", code=2).stderr
    papers = as_json("rank", *WORST, "--as-in-papers", "--weights", "equal:drop-constant")
    papers = papers["options"]
    assert (papers["order"], papers["ties"]) == ("mean-rank", "ignore")
    assert papers["weights"] == "equal" and papers["drop_constant"]


def test_help_lists_options_under_headings_in_one_column():
    text = CliRunner().invoke(main, ["rank", "--help"], terminal_width=110).stdout
    headings = re.compile(r"^(\S.*):$", re.M)
    found = ["Selection", "Measures", "Fusion", "Tests", "Store", "Output"]
    assert headings.findall(text) == found
    given = {*headings.findall(mleval("compare", "--help").stdout)}
    assert {"Folds", "Beyond p-values", "Random numbers"} <= given
    sections = headings.split(text)[2::2]
    assert "--missing" in sections[1] and "--alpha" in sections[3] and "--help" in sections[5]
    starts = re.findall(r"^  -\S.*? {2,}(?=\S)", text, re.M)
    assert len(starts) > 20 and {*map(len, starts)} == {34}


#: The commands in the help without "mleval", and without the remark that stands three spaces
#: behind.
EXAMPLES = [
    shlex.split(re.split(r"\s{3,}", line.strip())[0])[1:]
    for command in (main, *main.commands.values())
    for line in re.sub(r"\\\n\s*", "", command.help).splitlines()
    if line.strip().startswith("mleval ")
]


def test_examples_in_the_help_are_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (
        *("results.csv", "leaderboard.csv", "wandb_export.csv", "answers.csv", "predictions.csv"),
        *("predicted.txt", "true.txt", "edges.txt"),
    ):
        (tmp_path / name).touch()
    assert len(EXAMPLES) >= 18
    for name, *args in EXAMPLES:
        with main.commands[name].make_context(
            name, args, parent=main.make_context("mleval", ["runs"])
        ):
            pass


@pytest.mark.thorough
def test_examples_in_the_help_work_when_copied(store, tmp_path, monkeypatch):
    """All but those that need other files or runs than the published study has; reports with few
    draws.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results.csv").write_bytes(STUDY.read_bytes())
    (tmp_path / "leaderboard.csv").write_text("method,iris,wine\nsvm,0.9,0.8\nrf,0.8,0.7\n")
    (tmp_path / "wandb_export.csv").write_text(
        "Name,State,model,data,f1\none,finished,svm,iris,0.9\ntwo,finished,rf,iris,0.8\n"
    )
    (tmp_path / "answers.csv").write_text("method,dataset,instance,f1\na,d,1,0.5\n")
    for name, *args in EXAMPLES:
        whole = name in ("import", "runs", "measures", "rank")
        if whole or (name == "compare" and "macro_f1" in args):
            mleval(name, *args)
        elif name == "report":
            mleval(name, *args, "--seed", ":draws=20")
        elif name == "gate" and "-n" in args:
            mleval(name, *args, code=4)  # eleven datasets are too few to ship


def test_an_option_of_another_command_is_refused_with_the_commands_that_heed_it(store):
    said = mleval("runs", *WORST, code=2).stderr
    assert (
        "--missing does nothing in `main runs`, only in compare, rank, report. Leave it out."
        in said
    )
    for command, option in (("rank", "--seed"), ("rank", "--rope"), ("profile", "--missing")):
        assert f"{option} does nothing" in mleval(command, *ALL, option, "1", code=2).stderr
    assert "No such option" in mleval("runs", *ALL, "--nonsense", code=2).stderr


def test_completion_knows_commands_options_and_values(monkeypatch):
    def completed(words):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
        return BashComplete(main, {}, "mleval", "_MLEVAL_COMPLETE").complete()

    assert "plain,report" in completed("mleval re")
    assert "plain,--missing" in completed("mleval rank --mis")
    assert "plain,proposed" in completed("mleval rank --directions ")
    assert "file," in completed("mleval report -o ")
    line = re.search(r'eval "\$\((.*)\)"', mleval("--help").stdout)[1]
    env = os.environ | {"PATH": f"{MLEVAL.parent}{os.pathsep}{os.environ['PATH']}"}
    told = subprocess.run(
        line, shell=True, env=env, capture_output=True, text=True, check=True
    ).stdout
    assert "complete" in told


@pytest.mark.thorough
def test_demo_runs_ranks_reports_and_says_what_next(tmp_path):
    done = subprocess.run(
        [MLEVAL, "demo"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    printed, shown = (
        re.sub(r"\d{4}-\d\d-\d\dT[\d:+]+", "", text) for text in (done.stdout, readme)
    )
    assert f"```text\n{printed}```" in shown, "put what mleval demo prints into README.md"
    found = {p.name for p in tmp_path.iterdir()}
    assert {"mlflow.db", "mleval_report.html", "mleval_report_data"} <= found
    pytest.importorskip("selenium")
    pictures = loaded(ROOT / "examples" / "pictures" / "make_pictures.py")
    page = (tmp_path / "mleval_report.html").read_text(encoding="utf-8")
    assert not pictures.stale(page), "run python examples/pictures/make_pictures.py report page ui"
