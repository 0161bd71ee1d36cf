"""What users may rely on: a screen of names, two namespaces, and all that ever was public."""

import subprocess
import sys
from pathlib import Path

import pytest

import mlflow_mleval as mleval

EVER = [
    *("compare", "Evaluation", "evaluate", "evaluate_batches", "evaluate_hierarchical", "merge"),
    *("calibrate_threshold", "Study", "import_results", "with_counts", "load_profiles"),
    *("load_study", "log_evaluation", "log_profile", "autolog", "cross_validate", "log_search"),
    *("scoring", "compare_profiles", "Profiles", "profiles_of", "promethee", "MlevalError"),
    *("friedman", "nemenyi", "compare_folds", "hotelling", "hotelling_pairs", "manova", "mardia"),
    *("wilcoxon_pairs", "bayesian_t", "equivalence", "instance_tests", "sign_test", "Hierarchy"),
    *("Capacity", "choquet_loss", "Profile", "binomial_loss", "loss_profile", "owa_loss"),
    *("polynomial_loss", "NearestNeighbourMinimiser", "bayes_optimal", "evaluate_spark"),
    *("spark_instances", "measure_intervals"),
]


def test_a_screen_of_names_is_told():
    told = [name for name in mleval.__all__ if name != "__version__"]
    assert 25 <= len(told) <= 36 and set(told) <= set(dir(mleval))


@pytest.mark.parametrize("name", EVER)
def test_what_was_public_still_is(name):
    assert getattr(mleval, name).__name__ == name


@pytest.mark.parametrize("space", [mleval.stats, mleval.losses], ids=lambda space: space.__name__)
def test_a_namespace_has_the_names_it_tells(space):
    assert all(getattr(space, name) is getattr(mleval, name) for name in space.__all__)
    assert set(space.__all__) <= set(dir(space))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'; it has"):
        space.nothing  # noqa: B018


def test_a_name_that_is_none_is_refused():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        mleval.nothing  # noqa: B018
    with pytest.raises(TypeError, match="'quick'. It takes y_true, y_score,"):
        mleval.evaluate([[1, 0]], quick=True)


def loaded(*steps):
    """The modules that a process has loaded after each of these steps."""
    script = ["import sys, mlflow_mleval as mleval"]
    for step in steps:
        script += [step, "print('loaded:', *sys.modules)"]
    command = [sys.executable, "-c", "\n".join(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    return [{*line.split()} for line in lines if line.startswith("loaded:")]


def ours(modules):
    return {name for name in modules if name.startswith("mlflow_mleval")}


def test_without_runs_nothing_heavy_is_loaded_and_no_mlflow(tmp_path):
    compared = """
import pandas as pd
rows = [(d, m, i) for d in "de" for i, m in enumerate("ab")]
frame = pd.DataFrame(rows, columns=["dataset", "method", "f1"])
report = mleval.compare(mleval.Study.from_frame(frame), stability=True).report()
report.to_html(), report.files()
"""
    table = Path(mleval.__file__).parent / "data" / "madjarov2012.csv"
    ranked = f"""
from mlflow_mleval.cli import main
gaps = ["--missing", "worst"]
page = ["-o", {str(tmp_path / "report.html")!r}]
for command in (["rank", *gaps], ["report", *gaps, *page], ["runs"]):
    main([*command, {str(table)!r}], standalone_mode=False)
"""
    at_first, after_a_report, at_last = loaded("mleval.callbacks", compared, ranked)
    heavy = {"mlflow", "numpy", "pandas", "scipy", "keras", "lightning", "xgboost"}
    assert not heavy & at_first
    idle = ("content.profiles", "fold_comparison", "figures.lines")
    own = ours(after_a_report)
    assert len(own) <= 65 and not [name for name in own if name.endswith(idle)]
    assert "mlflow" not in at_last and (tmp_path / "report.html").exists()


def test_autologging_imports_no_database_and_no_report_and_logging_no_comparison(db):
    logged = f"""
import mlflow
mlflow.set_tracking_uri("sqlite:///{db}")
ev = mleval.evaluate([[1, 0], [0, 1]], [[0.9, 0.2], [0.3, 0.8]])
mleval.log_evaluation(ev, method="a", dataset="b")
"""
    first, then = loaded("mleval.autolog()", logged)
    later = {"sqlalchemy", "networkx", "mlflow_mleval.training.run_content", "mlflow_mleval.report"}
    assert not later & first
    assert "mlflow_mleval.analysis.comparison" not in then and len(ours(then)) <= 65


@pytest.mark.parametrize(
    ("name", "needed", "wrong", "meant"),
    [
        ("load_study", 0, "experiment_name", "experiment_names"),
        ("compare", 0, "aplha", "alpha"),
        ("log_evaluation", 0, "metod", "method"),
        ("log_profile", 0, "data_set", "dataset"),
        ("promethee", 0, "preferrence", "preference"),
        ("evaluate", 1, "theshold", "threshold"),
        ("evaluate_hierarchical", 3, "max_distence", "max_distance"),
        ("cross_validate", 3, "label_name", "label_names"),
        ("autolog", 0, "log_instance", "log_instances"),
    ],
)
def test_an_unknown_argument_leads_to_the_nearest(name, needed, wrong, meant):
    with pytest.raises(TypeError, match=f"{name}.. has no argument '{wrong}'. .*'{meant}'"):
        getattr(mleval, name)(*[None] * needed, **{wrong: 1})
