"""The examples name what exists; `pytest -m slow` runs them and compares what they write."""

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
from example_runs import loaded, run
from places import EXAMPLES, GOLDEN, GUIDES, SCRIPTS, SHARED, STUDIES
from scipy import stats
from sklearn.datasets import make_multilabel_classification
from sklearn.model_selection import KFold

import mlflow_mleval as mleval
from mlflow_mleval.losses import NearestNeighbourMinimiser, binomial_loss
from mlflow_mleval.measures.owa import profile_from_histogram

ANEW = "run python examples/scripts/make_walkthrough.py"


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.name)
def test_what_an_example_takes_from_the_package_exists(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "mlflow_mleval":
            try:
                exec(compile(ast.Module([node], []), path.name, "exec"), {})
            except ModuleNotFoundError as error:
                if error.name.startswith("mlflow_mleval"):  # and not the framework of a callback
                    raise
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", None) == "mleval":
            assert hasattr(mleval, node.attr), f"line {node.lineno}: mleval.{node.attr}"


def test_the_walkthrough_shows_its_own_cells():
    make = loaded(SCRIPTS / "make_walkthrough.py")
    cells = make.cells(make.SOURCE.read_text(encoding="utf-8"))
    shown = [cell if is_text else f"```python\n{cell}\n```" for is_text, cell in cells]
    committed = (GUIDES / "walkthrough.md").read_text(encoding="utf-8").rpartition("\nMade by")[0]
    without_output = re.sub(r"\n```text\n.*?```\n", "", committed, flags=re.S)
    assert without_output.strip() == "\n\n".join(shown), ANEW
    assert "Traceback" not in committed


#: Runs the cells of a notebook as Jupyter's kernel does, and stops at the first that fails.
RUN_CELLS = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code":
        done = shell.run_cell("".join(cell["source"]))
        done.raise_error()
        print("CELL", cell["id"], hasattr(done.result, "_repr_html_"))
"""


@pytest.mark.thorough
def test_the_notebook_runs_from_pip_install_to_a_report(tmp_path):
    pytest.importorskip("IPython")
    pytest.importorskip("matplotlib")
    path = SCRIPTS / "from_install_to_report.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells)
    command = [sys.executable, "-c", RUN_CELLS, str(path)]
    env = {**os.environ, "MPLBACKEND": "agg", "IPYTHONDIR": str(tmp_path / "ipython")}
    how = {"capture_output": True, "text": True, "timeout": 600}
    done = subprocess.run(command, cwd=tmp_path, env=env, **how)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    for shown in ("study", "compare", "gate"):
        assert f"CELL {shown} True" in done.stdout
    assert "eleven of the twelve" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert (tmp_path / "diagram.pdf").stat().st_size > 1_000


def written_and_committed(folder, page, name=None):
    """What a study has written, and what is committed of it."""
    return (path.read_text(encoding="utf-8") for path in (folder / (name or page), STUDIES / page))


def headings(text, marks="#"):
    return [line for line in text.splitlines() if line.startswith(marks)]


@pytest.mark.slow
def test_published_against_obtained_is_up_to_date(tmp_path):
    run(STUDIES / "reproduce_eftimov2019.py", str(tmp_path / "out.md"), cwd=tmp_path)
    found, committed = written_and_committed(tmp_path, "reproduce_eftimov2019.md", "out.md")
    assert found == committed and committed.count("130 of 132") == 2


@pytest.mark.slow
def test_the_case_studies_over_folds_run(tmp_path):
    run(STUDIES / "case_studies_folds.py", str(tmp_path / "out.md"), "wine 0", cwd=tmp_path)
    text, committed = written_and_committed(tmp_path, "case_studies_folds.md", "out.md")
    tables = "## Table 1: error and (tpr, fpr)", "## Table 2: F and (precision, recall)"
    for heading in (*tables, "## Learned measures on"):
        assert heading in text and heading in committed


@pytest.fixture(scope="module")
def challenges():
    module = loaded(STUDIES / "case_studies_hierarchical.py")
    return module, {case.number: case for case in module.CASES}


def test_the_challenge_cases_of_hierarchical_evaluation_are_up_to_date(challenges, tmp_path):
    challenges[0].main(tmp_path / "out.md")
    written = tmp_path.rglob("*.*")
    made = {path.relative_to(tmp_path): path.read_text(encoding="utf-8") for path in written}
    made[Path("case_studies_hierarchical.md")] = made.pop(Path("out.md"))
    assert made == {path: (STUDIES / path).read_text(encoding="utf-8") for path in made}
    assert len(made) == 10


def test_the_figures_that_the_hierarchical_paper_mentions_are_reproduced(challenges):
    cases = challenges[1]
    example = cases["8"].variants[""]
    assert [example[f"{rate}_LCA"] for rate in "PRF"] == [0.6] * 3
    assert [example[f"{rate}_LCA, minimal"] for rate in "PRF"] == [0.5] * 3
    near, far = cases["12"].variants.values()
    assert near.lca_sets() == ({"TP", "D"}, {"TP", "D", "P1"})
    assert far.lca_sets() == ({"TP", "D", "B"}, {"TP", "B", "P1"})
    a, b, *_ = cases["16"].variants.values()
    found = [(v["l_Δ"], round(v["F_LCA"], 2), v["MGIA, error"]) for v in (a, b)]
    assert found == [(5, 0.44, 7), (6, 0.25, 10)]
    a, b, options = cases["17"].variants.values()
    for v in (b, options):
        assert a["l_Δ"] - v["l_Δ"] == 2 and a["MGIA, error"] - v["MGIA, error"] == 4


def test_statements_of_the_hierarchical_paper_hold_but_for_three(challenges):
    cases = challenges[0].CASES
    claims = [(one, one.holds(*case.variants.values())) for case in cases for one in case.claims]
    assert [claim.text for claim, held in claims if not held] == [
        "LCA versions ignore node D.",
        "(a) and (b) receive the same scores.",
        "All measures lead to a higher error in (c) than in (b).",
    ]
    # what does not hold is explained, and nothing else
    assert all(held != bool(claim.but) for claim, held in claims)


@pytest.mark.slow
def test_two_lines_make_a_script_into_a_comparison(db):
    shown = run(SCRIPTS / "autolog_sklearn.py", "2", cwd=db.parent)
    assert [line.split()[0] for line in shown.splitlines()[:10]] == ["digits"] * 5 + ["4"] * 5
    for said in ("$ mleval rank", "trained again, ", "$ mleval compare", "$ mleval report"):
        assert said in " ".join(shown.split())
    study = mleval.load_study(experiment_names=["autolog_sklearn"])
    assert len(study.datasets) == 2 and len(study.methods) == 5 and study.folds.shape[0] == 100
    assert study.runs["split_digest"].nunique() == 2  # the methods saw the same folds
    page = (db.parent / "mleval_report.html").read_text(encoding="utf-8")
    assert all(method in page for method in study.methods)


@pytest.mark.slow
def test_the_walkthrough_prints_what_it_shows(tmp_path, unset):
    """Its text, code and tables; the wording of sentences is for others to test."""
    run(SCRIPTS / "make_walkthrough.py", str(tmp_path / "out.md"), cwd=tmp_path)
    pages = tmp_path / "out.md", GUIDES / "walkthrough.md"
    found, committed = (path.read_text(encoding="utf-8") for path in pages)
    same_versions = found.splitlines()[-1] == committed.splitlines()[-1]
    (cells, printed), (cells_shown, printed_shown) = map(parts, (found, committed))
    assert cells == cells_shown, ANEW
    # others of numpy or scikit-learn give other numbers, and other processors other last digits
    if same_versions:
        (words, numbers), (words_shown, numbers_shown) = map(apart, (printed, printed_shown))
        assert words == words_shown, ANEW
        np.testing.assert_allclose(numbers, numbers_shown, rtol=0.1, atol=0.05, err_msg=ANEW)


def parts(page):
    """What is not printed, and the lines of printed tables."""
    rest, blocks = page.rpartition("\nMade by")[0], re.findall(r"```text\n(.*?)```", page, re.S)
    lines = [line for line in "".join(blocks).splitlines() if re.search(r"\S {2,}\S", line)]
    return re.sub(r"```text\n.*?```", "", rest, flags=re.S), lines


def apart(lines):
    """The words of lines without their numbers and spaces, and the numbers."""
    number = re.compile(r"[−-]?\d*\.?\d+")
    numbers = [float(n.replace("−", "-")) for line in lines for n in number.findall(line)]
    return [" ".join(number.sub("#", line).split()) for line in lines], numbers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("framework", "needs", "best"),
    [
        ("xgboost", "xgboost", "depth 6"),
        ("keras", "torch", "64 units"),
        ("lightning", "torch", "64 units"),
        ("lightgbm", "lightgbm", "8 leaves"),
        ("catboost", "catboost", "depth 6"),
        ("huggingface", "transformers", "width 64"),
    ],
)
def test_the_callbacks_watch_a_training(db, monkeypatch, framework, needs, best):
    for name in {framework, needs} - {"huggingface"}:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    run(f"callbacks_{framework}.py", cwd=db.parent)
    study = mleval.load_study(experiment_names=[framework])
    assert study.values["macro_f1"].idxmax() == ("digits", best)
    client = mlflow.MlflowClient()
    (winner,) = study.runs.loc[study.runs["method"] == best, "run_id"]
    quality = [m.value for m in client.get_metric_history(winner, "mleval.epoch/macro_f1")]
    assert len(quality) >= 10 and quality[-1] > quality[0]


@pytest.mark.slow
def test_the_trials_of_a_search_are_children(db):
    pytest.importorskip("optuna")
    run(SCRIPTS / "callbacks_optuna.py", cwd=db.parent)
    study = mleval.load_study(experiment_names=["optuna"])
    assert len(study.values) == 1
    assert sum("trials of a search" in left.reason for left in study.excluded) == 8


@pytest.mark.slow
def test_the_surrogates_of_real_data_are_up_to_date(db):
    data = SHARED / "data" / "mulan"
    if not data.exists():
        pytest.skip("the data sets of Mulan are not at hand")
    options = ("--repeats", "10", "-o", "out.md")
    run(STUDIES / "surrogate_study.py", *options, str(data), "flags", cwd=db.parent)
    found, committed = written_and_committed(db.parent, "surrogate_study.md", "out.md")
    assert found[found.index("### flags, features as they are") :] in committed
    assert all(line in committed for line in found.splitlines())


def test_clus_files_are_read(tmp_path):
    study = loaded(STUDIES / "hierarchical_study.py")
    head = "@relation r\n@attribute x numeric\n@ATTRIBUTE y {n,s}\n"
    head += "@attribute class hierarchical {}\n@DATA\n"
    tree, graph = (
        head.replace("{}", classes) for classes in ("1,1/a,1/b,2", "root/1,root/2,1/a,2/a,1/b")
    )
    for name, text, a in (("tree", tree, "1/a"), ("graph", graph, "a")):
        (tmp_path / f"{name}.train.arff").write_text(f"{text}1,n,1@{a}\n?,s,2\n")
        (tmp_path / f"{name}_Test.arff").write_text(f"{text}3,n,{a}@2\n")
        d = study.read_clus(tmp_path, name)
        assert d.hierarchy.nodes == ["1", a, "2"]  # no instance has b
        assert d.X.tolist() == [[0, 1, -1], [0, -1, 1]] and d.X_test.tolist() == [[2, 1, -1]]
        names = [[d.hierarchy.nodes[j] for j in np.flatnonzero(row)] for row in (*d.Y, *d.Y_test)]
        # the most specific ones
        assert names == [[a], ["2"], [a, "2"] if name == "tree" else [a]]
        assert d.closed(d.Y)[0].sum() == (2 if name == "tree" else 3)
    with pytest.raises(SystemExit, match="holds no other.train.arff"):
        study.read_clus(tmp_path, "other")


@pytest.mark.slow
def test_the_study_of_hierarchical_systems_runs_on_made_data_and_goes_on_where_it_stopped(
    db, capsys
):
    shown = run(STUDIES / "hierarchical_study.py", cwd=db.parent)
    assert "$ mleval rank -n 'hierarchical_study (made)' -m class-sets" in shown
    study = mleval.load_study(experiment_names=["hierarchical_study (made)"])
    module = loaded(STUDIES / "hierarchical_study.py")
    assert set(study.methods) == set(module.SYSTEMS)
    assert set(study.datasets) == {"made graph", "made tree"}
    one, other = (study.values.xs(name, level="method") for name in ("k-NN", "k-NN + ancestors"))
    np.testing.assert_allclose(one["h_f1"], other["h_f1"])  # the same sets, extended
    found, committed = written_and_committed(db.parent, "hierarchical_study.md")
    assert headings(found, "## ") == headings(committed, "## ")[:-1]
    assert len(headings(found, "## ")) == 4
    capsys.readouterr()
    module.train(module.made_sets(), "hierarchical_study (made)")
    assert "f1" not in capsys.readouterr().err


@pytest.mark.slow
def test_the_study_of_hierarchical_systems_on_gene_functions_is_up_to_date(db):
    data = SHARED / "data" / "hmc"
    if not data.exists():
        pytest.skip("the hierarchical data sets of Clus are not at hand")
    run(STUDIES / "hierarchical_study.py", str(data), "pheno_GO", cwd=db.parent)
    found, committed = written_and_committed(db.parent, "hierarchical_study.md")
    table = found[found.index("### pheno_GO") : found.index("## Rankings")]
    assert table in committed


@pytest.fixture(scope="module")
def real_data():
    return loaded(STUDIES / "real_data_study.py")


@pytest.mark.slow
def test_the_study_of_real_data_runs_on_made_data_and_goes_on_where_it_stopped(
    db, capsys, real_data
):
    shown = run(STUDIES / "real_data_study.py", cwd=db.parent)
    for command in ("rank", "compare", "compare", "profile", "report"):
        shown = shown[shown.index(f"$ mleval {command} -n 'real_data_study (made)'") :]
    profiles = mleval.load_profiles(experiment_names=["real_data_study (made)"])
    assert len(profiles.errors) == 27 and profiles.methods == list(real_data.METHODS)
    assert not profiles.absent
    found, committed = written_and_committed(db.parent, "real_data_study.md")
    assert headings(found) == headings(committed)[:4]
    losses = profiles.losses("made 5/2")
    first, last = (losses.loc["LP", k] / losses.loc["BR", k] for k in (1, 5))
    assert f"| made 5/2 | 5 | {first:.3f} | {last:.3f} |" in found
    capsys.readouterr()
    real_data.train(real_data.made_sets(), "real_data_study (made)")
    assert "Hamming" not in capsys.readouterr().err


def test_intervals_of_changing_ratios_hold_what_they_promise(real_data):
    rng = np.random.default_rng(0)
    shares, held = [[0.4, 0.3, 0.3], [0.3, 0.4, 0.3]], []
    # folds that share no training data, for which the interval is wide enough by far
    for _ in range(300):
        counts = rng.multinomial(60, shares, size=(10, 2)).transpose(1, 0, 2)
        profiles = mleval.Profiles.from_counts({("d", "a"): counts[0], ("d", "b"): counts[1]})
        first, last, low, high = real_data.ratios(profiles, "d", "a", "b")
        held.append(low <= 0.7 / 0.6 - 0.5 / 0.45 <= high)
        assert low <= last - first <= high
    assert np.mean(held) > 0.95


def test_mulan_files_are_read_from_a_folder_of_the_folder(tmp_path, real_data):
    labels, folder = '<label name="Hammond\'s"></label><label name="b"/>', tmp_path / "mulan"
    folder.mkdir()
    (folder / "d.xml").write_text(f'<labels xmlns="http://m">{labels}</labels>')
    head = "@relation r\n@attribute size numeric\n@attribute 'odd name' {x, 'y z'}\n"
    head += "@attribute 'Hammond\\'s' {0,1}\n@attribute b {0, 1}\n@DATA\n"
    (folder / "d-train.arff").write_text(head + "1.5,x,0,1\n")
    (folder / "d-test.arff").write_text(head + "% a remark\n-2,'y z',1,1\n")
    X, Y = real_data.read_mulan(tmp_path, "d")
    assert X.to_numpy().tolist() == [[1.5, 1, 0], [-2, 0, 1]]
    assert Y.to_numpy().tolist() == [[0, 1], [1, 1]]
    assert list(Y) == ["Hammond's", "b"]
    (folder / "d.arff").write_text(head + "2.5,x,1,0\n")
    assert real_data.read_mulan(folder, "d")[0]["size"].tolist() == [2.5, 1.5, -2]
    with pytest.raises(SystemExit, match="holds no other.xml"):
        real_data.read_mulan(tmp_path, "other")


@pytest.mark.slow
def test_the_published_profiles_are_up_to_date(tmp_path, unset):
    run(STUDIES / "profiles_published.py", str(tmp_path / "out.md"), cwd=tmp_path)
    committed = (STUDIES / "profiles_published.md").read_text(encoding="utf-8")
    assert (tmp_path / "out.md").read_text(encoding="utf-8") == committed
    claim = "LP gains on BR as the loss asks for more"
    assert f"| {claim} | **holds**: 6 of 6 | **holds**: 6 of 6 |" in committed
    for name in re.findall(r"\((pictures/.*?)\)", committed):
        assert "<svg" in (STUDIES / name).read_text(encoding="utf-8")


def test_the_counts_of_the_published_profiles_give_the_published_losses():
    golden = SHARED / "golden" / "huellermeier2022_profiles.json"
    if not golden.exists():
        pytest.skip("the published losses are not at hand")
    published = json.loads(golden.read_text(encoding="utf-8"))
    table = pd.read_csv(STUDIES / "data" / "huellermeier2022_counts.csv", comment="#")
    table = table.set_index(["dataset", "algorithm"])
    assert len(table) == len(published["records"]) == 62
    for record in published["records"]:
        row = table.loc[record["dataset"], record["algorithm"]]
        counts = np.zeros(row["n_labels"] + 1, dtype=int)
        found = np.array(row["counts"].split(), dtype=int)
        counts[: len(found)] = found
        assert counts.tolist() == record["error_count_hist"] and row["folds"] == record["folds"]
        expected = record["binomial"]
        np.testing.assert_allclose(profile_from_histogram(counts).losses, expected, atol=1e-14)
        losses = profile_from_histogram(counts, "polynomial", published["alpha"]).losses
        np.testing.assert_allclose(losses, record["polynomial"], atol=1e-14)


PAPER = json.loads((GOLDEN / "huellermeier2022.json").read_text())


@pytest.fixture(scope="module")
def example():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(STUDIES)
        yield loaded(STUDIES / "surrogate_study.py")


def test_the_table_is_what_plain_cross_validation_gives_and_is_made_once(example, client):
    X, Y = make_multilabel_classification(90, 8, n_classes=4, n_labels=2, random_state=3)
    folds = KFold(5, shuffle=True, random_state=7)
    found = example.surrogate_study(X, Y, "made", folds, n_neighbors=5)
    for k in (1, 2, 3, 4):
        expected = []
        for train, test in folds.split(X):
            minimiser = NearestNeighbourMinimiser(5, parameter=k).fit(X[train], Y[train])
            found_labels = minimiser.predict(X[test])
            expected.append([binomial_loss(Y[test], found_labels, t) for t in (1, 2, 3, 4)])
        np.testing.assert_allclose(found.losses.loc[k], np.mean(expected, axis=0), rtol=1e-12)
    study = mleval.load_study(experiment_names=["surrogates"])
    assert study.methods == [f"surrogate k={k}" for k in (1, 2, 3, 4)]
    client.delete_run(study.runs["run_id"].iloc[2])
    again = example.surrogate_study(X, Y, "made", folds, n_neighbors=5)
    pd.testing.assert_frame_equal(again.losses, found.losses)
    later = mleval.load_study(experiment_names=["surrogates"]).runs["run_id"]
    assert len(later) == 4 and len({*later} & {*study.runs["run_id"]}) == 3
    assert (found.behind.min() == 0).all() and example.heatmap_table(found)[2].startswith("| 1 |")


def test_marginal_and_joint_mode_of_the_paper():
    rows = PAPER["joint_vs_marginal_mode"]["distribution"]
    truth = np.repeat([row["y"] for row in rows], [round(16 * row["p"]) for row in rows], axis=0)
    learner = NearestNeighbourMinimiser(16).fit(np.zeros((16, 1)), truth)
    by_k = learner.predict_all(np.zeros((1, 1)), [1, 3])
    assert by_k[:, 0].astype(int).tolist() == [[1, 1, 1], [0, 0, 0]]


def frame(losses):
    """Of an array (surrogates, folds, targets)."""
    count, n_folds, n_targets = losses.shape
    index = pd.MultiIndex.from_product([range(1, count + 1), range(n_folds)])
    return pd.DataFrame(losses.reshape(-1, n_targets), index, range(1, n_targets + 1))


def test_not_separated_is_what_paired_tests_leave(example):
    rng = np.random.default_rng(0)
    losses = 0.5 + 0.02 * rng.normal(size=(6, 10, 3)) + 0.02 * rng.normal(size=(6, 1, 3))
    found = example.best_surrogates(frame(losses), ratio=0)
    for target in range(3):
        values = losses[:, :, target]
        kept = []
        for a in range(6):
            others, how = np.delete(values, a, 0), {"axis": 1, "alternative": "greater"}
            if (stats.ttest_rel(values[a], others, **how).pvalue * 5 > 0.05).all():
                kept.append(a + 1)
        assert found.loc[target + 1, "not_separated"] == tuple(kept)
        assert found.loc[target + 1, "surrogate"] == values.mean(axis=1).argmin() + 1


@pytest.fixture(scope="module")
def script():
    return loaded(SCRIPTS / "make_performance.py")


def test_the_page_is_up_to_date(script):
    measured = json.loads(script.MEASURED.read_text("utf-8"))
    assert script.page(measured) == (STUDIES / "performance.md").read_text("utf-8"), (
        "run python examples/scripts/make_performance.py --only"
    )


def test_its_benchmarks_exist_and_tell_their_rows(script):
    for benchmarks in script.PARTS.values():
        for name in benchmarks:
            assert "told(" in (script.BENCHMARKS / f"{name}.py").read_text("utf-8"), name


def test_a_missed_bound_has_a_reason_or_says_that_none_is_known(script, monkeypatch):
    monkeypatch.setattr(script, "REASONS", {"work that": "there is no other way"})
    monkeypatch.setattr(script, "PARTS", {"Here": {"bench": script.Benchmark()}})

    def page(**row):
        return script.page({"bench": {"with": "numpy 2", "rows": [row]}})

    assert "missed" not in page(work="any", ours=1.0, peer="scipy", theirs=2.0, bound=2)
    assert "missed" not in page(work="any", ours=1.5, peer="search", theirs=1.0, bound=1 / 1.5)
    text = page(work="work that waits", ours=1.0, bound=0.5)
    assert "≤ 0.5 s, **missed**" in text
    assert "- **work that waits**: there is no other way" in text
    text = page(work="any", ours=1.6, peer="search", theirs=1.0, bound=1 / 1.5)
    assert "- **any**: nobody has found out why." in text
