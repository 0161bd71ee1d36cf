"""Results in a file or a DataFrame give what a store of them would give, and none is made."""

from importlib.resources import as_file, files
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
from command_line import as_json
from command_line import mleval as run

import mlflow_mleval as mleval
from mlflow_mleval.errors import ImportFileError, MeasureError, NoRunsError

BOARD = pd.DataFrame(
    {"iris": [0.9, 0.8, 0.7], "wine": [0.8, 0.7, 0.6]}, index=["svm", "rf", "naive bayes"]
)
#: As the UI of Weights & Biases lets one download the runs of a project.
WANDB = """\
"Name","State","Notes","User","Tags","Created","Runtime","Sweep","model","data","seed","lr","val_acc","_step"
"eager-sun-1","finished","-","ann","","2024-05-01T10:00:00.000Z","61","","svm","wine","1","0.1","0.91","9"
"calm-sea-2","finished","-","ann","","2024-05-01T11:00:00.000Z","62","","svm","wine","2","0.1","0.89","9"
"red-hill-3","finished","-","ann","","2024-05-01T12:00:00.000Z","63","","rf","wine","1","0.2","0.80","9"
"lost-one-4","crashed","-","ann","","2024-05-01T13:00:00.000Z","3","","rf","wine","2","0.2","","1"
"""


@pytest.fixture
def nowhere(tmp_path, monkeypatch, unset):
    """A folder without a store, in which none may be made."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    left = {path.name for path in tmp_path.iterdir()}
    assert not left & {"mlflow.db", "mlruns", "mlartifacts"}, left


def test_a_file_gives_the_ranking_that_importing_it_gives(db, monkeypatch):
    with as_file(files("mlflow_mleval") / "data" / "madjarov2012.csv") as path:
        mleval.import_results(path, experiment_name="m")
        stored = mleval.load_study(experiment_names=["m"], missing="worst")
        monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:////nowhere/mlflow.db")
        study = mleval.load_study(path, missing="worst")
    pd.testing.assert_frame_equal(study.values, stored.values.reindex(study.values.index))
    assert study.measures == stored.measures and study.excluded == stored.excluded
    assert study.statuses() == stored.statuses() and "run_id" not in study.runs


def test_folds_and_repeats_of_a_table_are_read(nowhere):
    cells = product(enumerate("ab"), (1, 2), range(3))
    rows = [("d", m, s, f, 0.1 * i + 0.01 * s + 0.001 * f ** (i + 1)) for (i, m), s, f in cells]
    table = pd.DataFrame(rows, columns=["dataset", "method", "seed", "fold", "f1"])
    study = mleval.load_study(table)
    assert study.values.f1.tolist() == pytest.approx([0.016, 0.115 + 0.005 / 3])
    assert len(study.repeats) == 4 and len(study.folds) == 6
    table.to_csv("runs.csv", index=False)
    for over in ("folds", "repeats"):
        found = as_json("compare", "runs.csv", "--over", over, "-m", "f1")
        assert [row["n"] for row in found["pairs"]]


@pytest.mark.parametrize("shape", ["index", "column", "csv", "unnamed", "parquet"])
def test_a_leaderboard_is_read_and_says_how(nowhere, shape):
    named, path = BOARD.rename_axis("method").reset_index(), f"board.{shape}"
    if shape == "csv":
        named.to_csv(path, index=False)
    elif shape == "unnamed":
        BOARD.to_csv(path)
    elif shape == "parquet":
        named.to_parquet(path)
    table = {"index": BOARD, "column": BOARD.rename_axis("model").reset_index()}.get(shape, path)
    study = mleval.load_study(table, maximize=["value"])
    assert study.cells("value").T.to_dict() == BOARD.to_dict()
    assert any("rows were read as methods, its columns (iris, wine)" in n for n in study.notes)
    said = r"way it is better. Choose: `maximize=\['value'\]` to take larger"
    with pytest.raises(MeasureError, match=said):
        mleval.load_study(table)


def test_a_leaderboard_as_people_write_it_is_read_without_its_means(nowhere):
    Path("board.csv").write_text(
        "model,iris,wine,Avg\nsvm,90.0% ± 1.2%,80.0%*,85.0%\nrf,80.0% (2.0%),70%,75.0%\n"
        "nb,70.0%,n/a,70.0%\nAverage,80.0%,75.0%,76.7%\n"
    )
    study = mleval.load_study("board.csv", maximize=["value"], missing="worst")
    assert (study.methods, study.datasets) == (["svm", "rf", "nb"], ["iris", "wine"])
    assert study.values["value"].dropna().tolist() == pytest.approx([0.9, 0.8, 0.8, 0.7, 0.7])
    said = " ".join(study.notes)
    assert "called the mean of the others: Avg, Average." in said
    assert "as shares: iris, wine." in said
    assert "spread is not read: iris." in said
    Path("board.csv").write_text("model,iris,wine\nsvm,0.9,0.8\nrf,0.8,zero\nnb,0.7,0.7\n")
    with pytest.raises(ImportFileError, match="board.csv, line 3, column 'wine': 'zero' is not"):
        mleval.load_study("board.csv", maximize=["value"])
    Path("board.csv").write_text(  # one of models, whose data sets are kept alone
        "eval_name,Precision,Model,Average ⬆️,Hub ❤️,#Params (B),IFEval Raw,IFEval,BBH Raw,BBH\n"
        "x,bf16,a,40.5,3,7,0.41,41,0.4,40\ny,bf16,b,50,1,8,0.5,50,0.5,50\n"
    )
    study = mleval.load_study("board.csv", maximize=["value"])
    assert (study.methods, study.datasets) == (["a", "b"], ["IFEval", "BBH"])
    assert "holds no number: eval_name, Precision." in " ".join(study.notes)


def test_a_study_is_made_of_a_frame_of_any_of_the_three_shapes():
    long = BOARD.rename_axis("method").melt(
        var_name="dataset", value_name="value", ignore_index=False
    )
    long = long.reset_index().assign(measure="value")
    wide = long.rename(columns={"value": "f1"})[["dataset", "method", "f1"]]
    for frame in (BOARD, BOARD.rename_axis("method").reset_index(), long):
        study = mleval.Study.from_frame(frame, maximize=["value"])
        assert study.cells("value").T.to_dict() == BOARD.to_dict()
    assert mleval.Study.from_frame(wide).cells("f1").T.to_dict() == BOARD.to_dict()
    with pytest.raises(ValueError, match="no column 'method'"):
        mleval.Study.from_frame(wide.drop(columns="method"))
    study = mleval.load_study(BOARD, maximize=["value"])
    shown = mleval.compare(study)._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "naive bayes" in shown and "<svg" in shown
    assert "naive bayes" in study._repr_html_()


def test_an_export_of_weights_and_biases_is_read_by_rules(nowhere):
    path = nowhere / "wandb_export.csv"
    path.write_text(WANDB)
    rules = {"method_by": "param:model", "dataset_by": "param:data", "maximize": ["val_acc"]}
    study = mleval.load_study(path, **rules)
    assert study.values["val_acc"].to_dict() == {("wine", "svm"): 0.9, ("wine", "rf"): 0.8}
    assert study.repeats.index.get_level_values("repeat").tolist() == ["1", "2", "1"]
    assert any("status FAILED" in gone.reason for gone in study.excluded)
    named = mleval.load_study(path, maximize=["val_acc"])
    assert named.datasets == ["wandb_export"] and "calm-sea-2" in named.methods


def test_the_table_that_the_interface_of_weights_and_biases_shows_is_read(nowhere):
    rows = [
        {"summary": {"f1": 0.9, "_step": 3}, "config": {"model": "svm"}, "name": "one"},
        {"summary": {"f1": 0.7, "loss": float("nan")}, "config": {"model": "rf"}, "name": "two"},
    ]
    read_by_rules(pd.DataFrame(rows))


def read_by_rules(frame):
    frame.to_csv("project.csv", index=False)
    for table in (frame, "project.csv"):
        study = mleval.load_study(table, method_by="param:model", maximize=["f1"])
        assert study.values["f1"].tolist() == [0.9, 0.7] and study.methods == ["svm", "rf"]


def test_an_export_of_neptune_is_read_by_rules(nowhere):
    frame = pd.DataFrame({"sys/id": ["T-1", "T-2", "T-3"], "sys/name": ["one", "two", "three"]})
    frame["sys/state"], frame["sys/failed"] = "Inactive", [False, False, True]
    frame["sys/creation_time"] = "2024-05-01 10:00:00+00:00"
    frame["monitoring/cpu"], frame["parameters/model"] = [50.0, 60.0, 1.0], ["svm", "rf", "nb"]
    read_by_rules(frame.assign(**{"metrics/f1": [0.9, 0.7, 0.1]}))


@pytest.mark.parametrize("seed", ["", "nan", "None", None])
def test_nothing_is_said_of_seeds_that_are_not_there(nowhere, seed):
    frame = pd.DataFrame({"run_id": [*"1234"], "params.model": [*"abab"]})
    frame = frame.assign(**{"metrics.test_acc": [0.9, 0.8, 0.7, 0.6]})
    frame = frame if seed is None else frame.assign(**{"params.seed": seed})
    study = mleval.load_study(frame, method_by="param:model", maximize=["test_acc"])
    said = " ".join(study.notes)
    assert len(study.repeats) == 4 and "same seed" not in said and "nan" not in said
    repeats = next(factor for factor in study.factors if factor.what == "repeat")
    assert repeats.by.startswith("nothing")


def test_what_only_a_store_has_is_refused(nowhere):
    for name in ("experiment_names", "run_ids"):
        with pytest.raises(ValueError, match=f"`{name}` must not be given with a table of results"):
            mleval.load_study(BOARD, **{name: ["x"]})
    with pytest.raises(ValueError, match="`folds_by` must be key:PATTERN for a table"):
        mleval.load_study(BOARD, folds_by="steps", maximize=["value"])
    crashed = pd.DataFrame({"Name": ["a"], "State": ["crashed"], "f1": [0.5]})
    with pytest.raises(NoRunsError, match="DataFrame holds no run that can be used"):
        mleval.load_study(crashed, measures=["f1"])


def test_the_commands_take_a_file_and_write_what_is_asked_for(nowhere):
    BOARD.rename_axis("method").to_csv("board.csv")
    ranked = as_json("rank", "board.csv", "--max", "value")
    assert [row["method"] for row in ranked["ranking"]] == [*BOARD.index]
    assert ranked["provenance"]["results"] == "board.csv" and ranked["provenance"]["sha256"]
    assert "svm" in run("compare", "board.csv", "--max", "value").output
    run("report", "board.csv", "--max", "value", "-o", "report.html")
    assert {p.name for p in Path().iterdir()} == {"board.csv", "report.html", "report_data"}
    stopped = run("rank", "board.csv", code=1).stderr
    assert "rows were read as methods" in stopped
    assert "mleval rank board.csv --max value" in stopped.splitlines()
    assert "Import the file first" in run("report", "board.csv", "--log", code=2).output
    told = run("compare", "board.csv", "--over", "instances", code=2).output
    assert "Import the file first" in told


@pytest.mark.parametrize(
    ("text", "methods", "datasets", "options"),
    [
        (
            "model,iris,wine\nsvm,90,80\nrf,80,70\n",
            *("2 (svm, rf), by the rows", "2 (iris, wine), by the columns"),
            ["--max value", "--min value"],
        ),
        (
            "dataset,method,zap\na,x,1\na,y,2\nb,x,1\nb,y,3\n",
            *("2 (x, y), by the table", "2 (a, b), by the table"),
            ["--max zap", "--min zap"],
        ),
        (
            "dataset,method,acc,fit_time\na,x,1,3\na,y,2,4\n",
            *("2 (x, y), by the table", "1 (a), by the table"),
            ["--directions proposed"],
        ),
    ],
)
def test_runs_describes_a_file_without_a_direction_and_its_commands_work(
    nowhere, text, methods, datasets, options
):
    Path("b.csv").write_text(text)
    found = run("runs", "b.csv").stdout
    assert f"method {methods} dataset {datasets}" in " ".join(found.split()) and "1970" not in found
    commands = [line for line in found.splitlines() if line.startswith("mleval ")]
    assert commands == [f"mleval rank b.csv {option}" for option in options]
    for command in commands:
        run(*command.split()[1:])


def test_params_that_hold_the_name_of_the_run_tell_no_candidates_apart(nowhere):
    names = [f"{m}_{d}_s{s}" for m in ("bert", "lstm") for d in ("imdb", "yelp") for s in range(3)]
    rows = [(f"{i}", n, n, f"out/{n}", 0.5 + i / 100) for i, n in enumerate(names)]
    params = ["params.run_name", "params.output_dir", "metrics.test_acc"]
    frame = pd.DataFrame(rows, columns=["run_id", "tags.mlflow.runName", *params])
    study = mleval.load_study(frame, name_as="{method}_{dataset}_s{seed}", maximize=["test_acc"])
    assert {*study.n_repeats} == {3} and len(study.n_repeats) == 4
    frame.to_csv("runs.csv", index=False)
    stopped = run("rank", "runs.csv", "--max", "test_acc", code=1).stderr
    (command,) = [line for line in stopped.splitlines() if line.startswith("mleval")]
    assert "'name-as={method}_{dataset}_s{seed}'" in command


def test_a_param_that_repeats_the_name_still_names_the_method_of_candidates(nowhere):
    Path("runs.csv").write_text(
        "run_id,tags.mlflow.runName,params.model,params.data,params.max_depth,metrics.test_acc\n"
        "w,rf,rf,a,2,0.5\nx,rf,rf,a,4,0.6\ny,lr,lr,a,2,0.7\nz,rf,rf,b,2,0.8\n"
    )
    told = run("runs", "runs.csv", "--max", "test_acc").stdout
    command = told.splitlines()[-1]
    assert "--method-by param:model --method-by param:max_depth" in command
    assert "--dataset a" in command
