"""Intervals for the measures of one evaluation, against formulas and the jackknife."""

import mlflow
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import mlflow_mleval as mleval
from mlflow_mleval.analysis.measure_intervals import measure_intervals, with_clusters
from mlflow_mleval.evaluation import evaluate
from mlflow_mleval.files.predictions import evaluate_file
from mlflow_mleval.report.blocks import Text
from mlflow_mleval.report.content.run import RunReport, measures
from mlflow_mleval.store import schema
from mlflow_mleval.training.log_evaluation import log_evaluation

ASKED = ["single_label", "macro_jaccard"]


def draw(n, seed=0, k=6, size=1):
    """Truth and scores in clusters of a size, which are alike in how hard they are."""
    rng = np.random.default_rng(seed)
    hard = rng.normal(size=(n // size, 1)).repeat(size, axis=0)
    true = rng.random((n, k)) < np.linspace(0.15, 0.5, k) + 0.1 * np.tanh(hard)
    return true, 1 / (1 + np.exp(-(2.0 * true - 1.0 + rng.normal(size=(n, k)) + 0.7 * hard)))


def test_means_have_the_intervals_of_student_and_wilson():
    ev = mleval.evaluate(*draw(80))
    found = measure_intervals(ev, alpha=0.1).table
    rows = ev.instances["coverage"]
    ends = stats.t.interval(0.9, 79, rows.mean(), stats.sem(rows))
    assert found.loc["coverage", ["ci_low", "ci_high"]].tolist() == pytest.approx(ends)
    exact = ev.instances["subset_accuracy"]
    wilson = stats.binomtest(int(exact.sum()), 80).proportion_ci(0.9, "wilson")
    given = found.loc["subset_accuracy", ["ci_low", "ci_high"]].tolist()
    assert given == pytest.approx(list(wilson), abs=0.003)
    inside = found.dropna()
    assert ((inside["ci_low"] <= inside["value"]) & (inside["value"] <= inside["ci_high"])).all()
    assert len(inside) >= 18


@pytest.mark.parametrize("one_label", [False, True])
def test_standard_errors_are_those_of_the_jackknife(one_label):
    true, score = draw(150)
    if one_label:
        true = (score + np.random.default_rng(1).normal(size=score.shape) / 3).argmax(axis=1)
    else:
        true[:, 0] |= score[:, 0] > 0.9
    options = {"probabilities": False} if one_label else {"measures": ASKED}
    found = measure_intervals(mleval.evaluate(true, score, **options)).table
    found, options["instances"] = found["standard_error"].dropna(), False
    parts = ([np.delete(x, i, 0) for x in (true, score)] for i in range(150))
    left = pd.DataFrame([mleval.evaluate(*part, **options).measures for part in parts])
    expected = np.sqrt(149 / 150 * ((left - left.mean()) ** 2).sum())
    names = [m for m in found.index if m in left]
    few = {"matthews", "kappa", "balanced_accuracy"} if one_label else {"micro_f1"}
    assert few | {"macro_f1"} <= {*names}
    np.testing.assert_allclose(found[names], expected[names], rtol=0.06)


def test_hierarchical_ratios():
    h = mleval.Hierarchy([("animal", "cat"), ("animal", "dog"), ("plant", "rose")])
    rng = np.random.default_rng(0)
    true, guess = (np.array(["cat", "dog", "rose"])[rng.integers(0, 3, 60)] for _ in range(2))
    pairs = [[[t], [t if i % 3 else g]] for i, (t, g) in enumerate(zip(true, guess, strict=True))]

    def judged(rows):
        return mleval.evaluate_hierarchical(*zip(*rows, strict=True), h, measures="set")

    left = [judged(pairs[:i] + pairs[i + 1 :]).measures["micro_h_f1"] for i in range(60)]
    found = measure_intervals(judged(pairs)).table.loc["micro_h_f1", "standard_error"]
    assert found == pytest.approx(np.sqrt(59) * np.std(left), rel=0.05)


def test_clusters_of_equal_instances_count_once():
    true, score = draw(60)
    twice = mleval.evaluate(true.repeat(3, axis=0), score.repeat(3, axis=0))
    once = measure_intervals(mleval.evaluate(true, score))
    found = measure_intervals(twice, clusters=np.arange(60).repeat(3))
    assert found.n_clusters == 60 and found.n_instances == 180
    means = ["f1", "coverage", "micro_f1", "soft_subset_loss", "binomial_slope"]
    columns = ["ci_low", "ci_high"]
    expected = once.table.loc[means, columns]
    np.testing.assert_allclose(found.table.loc[means, columns], expected, atol=0.002)
    alone = measure_intervals(twice).table["standard_error"]
    assert (alone < found.table["standard_error"] + 1e-12)[means].all()
    with pytest.raises(ValueError, match="at least two clusters"):
        measure_intervals(twice, clusters=[1] * 180)


def test_what_has_none_says_why():
    true, score = draw(60)
    ev = mleval.evaluate(true, score)
    merged = measure_intervals(mleval.merge([ev, ev]))
    assert "merged" in merged.absent["macro_f1"] and merged.table.loc["f1", "ci_low"] > 0
    bare = measure_intervals(mleval.evaluate(true, score, instances=False))
    assert set(bare.absent.values()) == {"the evaluation kept no instances"}
    assert bare.table["ci_low"].isna().all()
    true[:, :2], score[:, :2] = False, 0
    rare = measure_intervals(mleval.evaluate(true, score))
    assert rare.absent["macro_f1"].startswith("2 of 6 labels") and "micro_f1" not in rare.absent


def test_tables_of_a_run_have_them():
    ev = mleval.evaluate(*draw(60))
    report = ev.report("BR", "yeast")
    row = measure_intervals(ev).table.loc["f1"]
    told = report.to_dict()["intervals"]["f1"]
    assert told == {"ci_low": row["ci_low"], "ci_high": row["ci_high"]}
    assert f"(95% interval {row['ci_low']:.4f} to {row['ci_high']:.4f})" in report.to_markdown()
    frame = report.frames()["measures"].set_index("measure")
    assert frame.loc["f1", ["ci_low", "ci_high"]].tolist() == [row["ci_low"], row["ci_high"]]


def coverage(n, size, repeats):
    options = {"measures": ASKED}
    truth = mleval.evaluate(*draw(100_000, 1, size=size), instances=False, **options).measures
    hits = []
    for seed in range(repeats):
        ev = mleval.evaluate(*draw(n, 10 + seed, size=size), **options)
        of = np.arange(n) // size if size > 1 else None
        found = measure_intervals(ev, clusters=of).table.dropna()
        value = pd.Series(truth)[found.index]
        hits.append((found["ci_low"] <= value) & (value <= found["ci_high"]))
    return pd.DataFrame(hits).mean()


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("long", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_coverage(size, long):
    found = coverage(300, size, 1000) if long else coverage(200, size, 40)
    if long:  # two standard errors of the simulation
        assert found.min() >= 0.93 - 0.014 and found.max() <= 0.97 + 0.011
    assert found[["micro_f1", "macro_f1", "f1"]].min() >= 0.85 and 0.91 <= found.mean() <= 0.99


def clustered_predictions():
    """Sixty instances of two labels in twelve clusters that are wholly right or wholly wrong."""
    rng = np.random.default_rng(0)
    of, true = np.repeat(np.arange(12), 5), rng.random((60, 2)) < 0.5
    return true, np.where((of % 3 == 0)[:, None], ~true, true), of


def test_a_column_of_clusters_widens_the_intervals_wherever_it_comes_from(tmp_path):
    true, pred, of = clustered_predictions()
    ev = evaluate(true, y_pred=pred)
    alone, robust = (measure_intervals(ev, clusters=clusters) for clusters in (None, of))
    assert robust.table.loc["f1", "standard_error"] > 1.5 * alone.table.loc["f1", "standard_error"]
    own = measure_intervals(with_clusters(ev, of))
    pd.testing.assert_frame_equal(own.table, robust.table)
    assert own.n_clusters == 12
    with pytest.raises(ValueError, match="one value for each of the 60 instances"):
        with_clusters(ev, of[:5])
    path = tmp_path / "predictions.txt"  # what a file is, it says itself
    sides = {"true": true.astype(int), "pred": pred.astype(int)}
    columns = {f"{side}_{k}": x[:, k] for side, x in sides.items() for k in range(2)}
    pd.DataFrame({**columns, "patient": of}).to_csv(path, index=False)
    read = measure_intervals(evaluate_file(path, cluster="patient")).table
    np.testing.assert_allclose(read["ci_low"], robust.table["ci_low"].reindex(read.index))
    said = r"`cluster` must be a column of 'predictions\.txt', got 'ward'"
    with pytest.raises(ValueError, match=said):
        evaluate_file(path, cluster="ward")


def test_runs_keep_clusters_and_pages_say_what_has_no_interval(db):
    true, pred, of = clustered_predictions()
    ev = evaluate(true, y_pred=pred)
    run_id = log_evaluation(ev, method="m", dataset="d", clusters=of, log_instances=True)
    path = mlflow.artifacts.download_artifacts(
        run_id=run_id, artifact_path=schema.ARTIFACT_INSTANCES
    )
    assert pd.read_parquet(path)["cluster"].tolist() == of.tolist()
    page = RunReport.of(with_clusters(ev, of), "m", "d")
    assert page.intervals.n_clusters == 12 and page.intervals.absent
    section = measures(page)
    said = " ".join(
        text for block in section.blocks if isinstance(block, Text) for text in block.paragraphs
    )
    assert all(why in said for why in page.intervals.absent.values())
    told = " ".join(c.note for c in section.blocks[0].columns if c.note)
    assert "by 12 clusters of instances" in told
