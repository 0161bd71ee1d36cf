"""The README's commands run, and its list of commands is the CLI's."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from mlflow_mleval.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINES = [line for block in re.findall(r"```sh\n(.*?)```", README, re.S) for line in block.splitlines() if line]
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.S)
WITH_KERAS = [block for block in BLOCKS if "KerasCallback" in block]


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


@pytest.mark.slow
def test_the_demo_command_works_in_a_clean_copy(tmp_path):
    """The first of the two commands as it stands, in a clone of what git tracks. The second one is running this test."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    demo = next(line for line in LINES if line.endswith("mleval demo"))
    done = subprocess.run(["bash", "-c", demo], cwd=clone, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "leads the fused ranking of 12 methods over 11 datasets" in done.stdout.replace("\n", " ")
    assert (clone / "mleval_report.html").exists()


def data() -> dict:
    """What the blocks take as given."""
    import numpy as np
    from sklearn.neighbors import KNeighborsClassifier

    import mlflow_mleval as mleval

    rng = np.random.default_rng(0)
    X, Y = rng.random((60, 4)), rng.integers(0, 2, (60, 5))
    return {
        "y_true": Y, "y_score": rng.random((60, 5)), "fold_of_each_instance": np.arange(60) % 4, "X": X, "Y": Y,
        "X_train": X[:40], "Y_train": Y[:40], "X_test": X[40:], "Y_test": Y[40:], "estimator": KNeighborsClassifier(),
        "label_names": list("abcde"), "mleval": mleval,
    }  # fmt: skip


def test_the_python_examples_run(db):
    """In their order, the study being the bundled one."""
    import mlflow_mleval as mleval

    mleval.import_results(ROOT / "mlflow_mleval" / "data" / "madjarov2012.csv", experiment_name="mystudy")
    names = data()
    for block in BLOCKS:
        if block not in WITH_KERAS:
            exec(compile(block, "README.md", "exec"), names)
    assert len(names["study"].datasets) == 11
    logged = mleval.load_study(experiment_names=["Default"])
    assert set(logged.datasets) == {"yeast", "birds"} and "BR" in logged.methods


def test_the_example_of_a_callback_runs(db, monkeypatch):
    (block,) = WITH_KERAS
    pytest.importorskip("torch")
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras")
    import mlflow_mleval as mleval

    network = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(5, "sigmoid")])
    network.compile("adam", "binary_crossentropy")
    exec(compile(block, "README.md", "exec"), data() | {"network": network})
    assert mleval.load_study(experiment_names=["Default"]).methods == ["MLP"]


def test_the_files_of_the_evaluation_examples_can_be_evaluated(db):
    """`mleval evaluate` as the README has it, on files in the forms that it describes."""
    Path("predictions.csv").write_text("true_a,score_a,true_b,score_b\n1,0.9,0,0.4\n0,0.2,1,0.7\n")
    Path("true.txt").write_text("b c\n")
    Path("predicted.txt").write_text("b d\n")
    Path("edges.txt").write_text("a b\na c\na d\n")
    lines = [line.partition("#")[0] for line in LINES if line.startswith("mleval evaluate")]
    assert len(lines) == 2
    for line in lines:
        assert main(shlex.split(line)[1:], standalone_mode=False) is None


def test_the_keys_of_the_json_are_those_of_the_code():
    from mlflow_mleval.report.data import KEYS

    for key, text in KEYS.items():
        assert f"| `{key}` | {text} |" in README
