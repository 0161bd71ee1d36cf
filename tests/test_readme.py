"""The README's commands run, and its list of commands is the CLI's."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from mlflow_mleval.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINES = [line for block in re.findall(r"```sh\n(.*?)```", README, re.S) for line in block.splitlines() if line]


def test_the_command_table_is_the_cli():
    listed = re.findall(r"^\| `mleval (\w+)` \|", README, re.M)
    assert sorted(listed) == sorted(main.commands)


def test_the_two_commands_are_single_lines_that_need_nothing_but_python():
    demo, tests = [line for line in LINES if line.startswith("python3 -m venv")]
    assert demo.endswith("mleval demo") and tests.endswith("pytest")


def test_every_option_it_shows_exists():
    for line in LINES:
        if match := re.match(r"mleval (\w+) (.*)", line.partition("#")[0]):
            known = {name for p in main.commands[match[1]].params for name in p.opts}
            used = set(re.findall(r"(?<!\S)(--?[a-z][a-z-]*)", match[2]))
            assert used <= known, (line, used - known)


def test_pictures_exist():
    for target in re.findall(r"\]\(([^)h][^)]*)\)", README):
        assert (ROOT / target).exists(), target


def test_the_demo_command_works_in_a_clean_copy(tmp_path):
    """The first of the two commands as it stands, in a clone of what git tracks. The second one is running this test."""
    if os.environ.get("CI") != "true":
        pytest.skip("installs MLflow anew; runs where CI=true")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    demo = next(line for line in LINES if line.endswith("mleval demo"))
    done = subprocess.run(["bash", "-c", demo], cwd=clone, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "leads the fused ranking of 12 methods over 11 datasets" in done.stdout.replace("\n", " ")
    assert (clone / "mleval_report.html").exists()


def test_the_python_example_runs(tmp_path, monkeypatch):
    """The blocks about a study, on the bundled one."""
    import numpy as np
    from sklearn.neighbors import KNeighborsClassifier

    import mlflow_mleval as mleval

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    rng = np.random.default_rng(0)
    mleval.import_results(ROOT / "mlflow_mleval" / "data" / "madjarov2012.csv", experiment_name="mystudy")
    X, Y = rng.random((60, 4)), rng.integers(0, 2, (60, 5))
    names = {
        "y_true": Y, "y_score": rng.random((60, 5)), "fold_of_each_instance": np.arange(60) % 4, "X": X, "Y": Y,
        "X_train": X[:40], "Y_train": Y[:40], "X_test": X[40:], "Y_test": Y[40:], "estimator": KNeighborsClassifier(),
    }
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len(blocks) >= 2
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert len(names["study"].datasets) == 11


def test_the_keys_of_the_json_are_those_of_the_code():
    from mlflow_mleval.report.data import KEYS

    for key, text in KEYS.items():
        assert f"| `{key}` | {text} |" in README
