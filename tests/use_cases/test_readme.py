"""README and guides: commands and Python run or say why not; links lead somewhere."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
from command_line import mleval
from places import EXAMPLES, GUIDES, ROOT, STUDY
from sklearn.neighbors import KNeighborsClassifier

import mlflow_mleval as package
from mlflow_mleval.cli import main

README = (ROOT / "README.md").read_text(encoding="utf-8")
NAMES = (
    *("reading_a_report", "training", "foreign_runs", "page", "statistics", "json_keys"),
    *("agents", "answers", "gate"),
)
#: Pages by their path, and the guides among the examples; the pages that scripts write from runs
#: are tested with these.
PAGES = {
    path: path.read_text(encoding="utf-8")
    for path in (
        *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
        EXAMPLES / "README.md",
        *(GUIDES / f"{name}.md" for name in NAMES),
    )
}


#: A block: a comment that says why it is not run here, the language, and the text.
BLOCK = re.compile(r"(?:^<!-- ([^\n]*) -->\n)?^```(\w*)\n(.*?)^```$", re.M | re.S)


def blocks(language: str, text: str | None = None) -> list[str]:
    """The blocks that run here."""
    texts = PAGES.values() if text is None else [text]
    found = (block for page in texts for block in BLOCK.findall(page))
    return [text for reason, written_in, text in found if written_in == language and not reason]


def lines(text: str) -> list[str]:
    return [line for *_, block in BLOCK.findall(text) for line in block.splitlines() if line]


LINES = [line for text in PAGES.values() for line in lines(text)]
BLOCKS = [block for block in blocks("python") if "network.fit" not in block]
WITH_KERAS = [block for block in blocks("python") if "network.fit" in block]


def test_the_command_table_is_the_cli_and_two_commands_need_nothing_but_python():
    listed = re.findall(r"^\| `mleval (\w+)` \|", README, re.M)
    assert sorted(listed) == sorted(main.commands)
    demo, tests = [line for line in README.splitlines() if line.startswith("python3 -m venv")]
    assert demo.endswith("mleval demo") and tests.endswith("-m pytest")


def test_the_readme_fits_a_screen():
    """In words of prose: without blocks, pictures and the addresses of links."""
    prose = re.sub(r"!\[.*?\]\(.*?\)|\]\([^)]*\)|<!--.*?-->", " ", BLOCK.sub("", README))
    assert len([word for word in prose.split() if re.search(r"\w", word)]) <= 600
    screen = "\n".join(README.splitlines()[:40])
    assert screen.count("python3 -m venv") == 2


def test_every_block_is_run_or_says_why_not():
    assert {path.stem for path in GUIDES.glob("*.md")} == {*NAMES, "walkthrough"}
    for path, text in PAGES.items():
        assert len(BLOCK.findall(text)) * 2 == len(re.findall("^```", text, re.M)), path.name
        for reason, language, block in BLOCK.findall(text):
            runs = language in ("python", "sh", "text", "")
            assert runs or reason.startswith(("run ", "not run: ")), (path.name, block)


def test_every_option_it_shows_exists():
    for line in LINES:
        if match := re.match(r"mleval (\w+) (.*)", line.partition("#")[0]):
            known = {name for p in main.commands[match[1]].params for name in p.opts}
            used = set(re.findall(r"(?<!\S)(--?[a-z][a-z-]*)", match[2]))
            assert used <= known, (line, used - known)


def test_links_and_pictures_exist_and_every_guide_is_in_both_indexes():
    for path, text in PAGES.items():
        for target in re.findall(r"\]\((?!http)([^)]*)\)", text):
            assert (path.parent / target.partition("#")[0]).exists(), (path.name, target)
    for name in (*NAMES, "walkthrough"):
        assert f"(examples/guides/{name}.md)" in README, name
        assert f"(guides/{name}.md)" in PAGES[EXAMPLES / "README.md"], name


def test_what_people_look_for_is_found_by_its_words():
    page = PAGES[EXAMPLES / "README.md"]
    assert "examples/README.md#by-question" in README
    for sought, found in {
        "leave a run out": "--exclude run=ID",
        "Databricks": "DATABRICKS_TOKEN",
        "token": "MLFLOW_TRACKING_TOKEN",
        "PyTorch tensors": "on a device",
        "networkx graph": "hierarchy=graph",
        "LaTeX": "report.tex",
        "remove our tags": "--forget",
        "upgrade from 0.1": "changelog",
        "pull requests": "copy [the action]",
    }.items():
        assert any(sought in line and found in line for line in page.splitlines()), sought


def data() -> dict:
    """What the blocks take as given."""
    rng = np.random.default_rng(0)
    X, Y = rng.random((60, 4)), rng.integers(0, 2, (60, 5))
    given = {"y_true": Y, "y_score": rng.random((60, 5)), "mleval": package}
    given |= {"X_train": X[:40], "Y_train": Y[:40], "X_test": X[40:], "Y_test": Y[40:]}
    given |= {"X": X, "Y": Y, "estimator": KNeighborsClassifier(), "label_names": list("abcde")}
    return given | {"fold_of_each_instance": np.arange(60) % 4}


def test_the_python_examples_run(db):
    """In their order; each sees what the ones before it have made."""
    package.import_results(STUDY, experiment_name="mystudy")
    (db.parent / "leaderboard.csv").write_text("method,iris,wine\nsvm,0.9,0.8\nrf,0.8,0.7\n")
    names = data()
    try:
        for block in BLOCKS:
            exec(compile(block, "README.md", "exec"), names)
    finally:
        package.autolog(disable=True)
    assert len(names["study"].datasets) == 11
    assert "<html" in (db.parent / "report.html").read_text(encoding="utf-8")
    # guides log methods of the same names, each on data of its own
    logged = package.load_study(experiment_names=["Default"], duplicates="latest-data")
    assert set(logged.datasets) == {"yeast", "birds", "iris"} and "BR" in logged.methods
    assert package.load_study(experiment_names=["zoo"]).methods == ["kNN"]


def test_the_example_of_a_callback_runs(db, monkeypatch):
    (block,) = WITH_KERAS
    pytest.importorskip("torch")
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras")
    network = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(5, "sigmoid")])
    network.compile("adam", "binary_crossentropy")
    exec(compile(block, "README.md", "exec"), data() | {"network": network})
    assert package.load_study(experiment_names=["Default"]).methods == ["MLP"]


FILES = {
    "leaderboard.csv": "method,iris,wine,glass\nsvm,0.9,0.8,0.7\nrf,0.8,0.7,0.9\n",
    "wandb_export.csv": "Name,State,model,data,val_acc\n"
    "a,finished,svm,iris,0.9\nb,finished,rf,iris,0.8\nc,finished,svm,wine,0.7\nd,finished,rf,wine,0.9\n",
    "predictions.csv": "true_a,score_a,true_b,score_b\n1,0.9,0,0.4\n0,0.2,1,0.7\n",
    "true.txt": "b c\n",
    "predicted.txt": "b d\n",
    "edges.txt": "a b\na c\na d\n",
}


@pytest.fixture
def readers_store(db):
    """A store and a folder with what the commands of the guides name."""
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")
    table = pd.read_csv(STUDY)
    table = table[table["method"].isin(["RF-PCT", "BR", "CC"])]
    table = table[table["dataset"].isin(["emotions", "scene", "yeast", "bibtex"])]
    table.to_csv("mystudy.csv", index=False)
    table[table["dataset"] != "bibtex"].to_csv("results.csv", index=False)
    mleval("import", "mystudy.csv", "-n", "mystudy")
    for experiment in ("exp-yeast", "exp-scene"):
        mlflow.set_experiment(experiment)
        for model, loss in (("tree", 0.5), ("forest", 0.4)):
            with mlflow.start_run():
                mlflow.log_param("model", model)
                mlflow.log_metrics({"val_loss": loss, "val_auc": 1 - loss})


@pytest.mark.thorough
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_commands_run(path, readers_store):
    """In their order; the store that a reader exports is the test's."""
    for line in "\n".join(blocks("sh", PAGES[path])).splitlines():
        if line and not line.startswith("export MLFLOW_TRACKING_URI="):
            command, *arguments = shlex.split(line, comments=True)
            assert command == "mleval", line
            mleval(*arguments)


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["concurrent.futures", "dask"])
def test_the_blocks_of_other_engines_run_as_scripts(tmp_path, engine):
    pytest.importorskip(engine)
    guide = PAGES[GUIDES / "training.md"].partition("## Beyond one machine")[2]
    (parts,) = re.findall(r"```python\n(.*?)```", guide, re.S)
    (block,) = [text for text in re.findall(r"```py\n(.*?)```", guide, re.S) if engine in text]
    script = tmp_path / "script.py"
    script.write_text(f"{parts}{block}    print('merged', ev.total.n)\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert done.stdout == "merged 8000\n", done.stderr
