"""The hierarchical correlated t test: the paper's model on Stan, and known posteriors; what folds
or repeats of several datasets say about the next one.
"""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from places import GOLDEN
from report_cases import fold_study, render, study_of
from scipy import stats

from mlflow_mleval import hierarchical_t
from mlflow_mleval.analysis import hierarchical_t as module
from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.hierarchical_t import Data, hierarchical_pairs, next_dataset, posterior
from mlflow_mleval.analysis.posthoc.max_t import rows_of_pair
from mlflow_mleval.study import Study


def by_dataset(told, measure, a, b):
    """Raw and shrunken differences of a minus b."""
    return rows_of_pair(told.pairs[measure].shrunken, a, b).set_index("dataset")


def masses(found, of="p"):
    """Better, equivalent, worse, of the first pair."""
    return found.table[[f"{of}_{word}" for word in module.OUTCOMES]].iloc[0].tolist()


def test_it_finds_what_the_papers_model_finds_on_stan():
    known = json.loads((GOLDEN / "hierarchical_t.json").read_text())
    table = pd.read_csv(GOLDEN / "accuracies_hierarchical_t.csv", index_col=["dataset", "fold"])
    (pair,) = (p for p in known["pairs"] if {p["a"], p["b"]} <= {*table})
    differences = (table[pair["a"]] - table[pair["b"]]).unstack()
    found = hierarchical_t(differences, rho=known["rho"], rope=known["rope"])
    # Stan's Monte Carlo error is in it, of .005. A small shift of the whole posterior moves the
    # share of draws far more than the masses.
    assert masses(found) == pytest.approx(pair["mean_masses"], abs=0.006)
    assert masses(found, "share") == pytest.approx(pair["share_of_draws"], abs=0.02)
    assert len(found.shrunken) == 53 and (found.shrunken["low"] < found.shrunken["high"]).all()


def simulated(rng, datasets=6, folds=5, rho=0.1):
    """What priors of bounds 1 and the model give: mu_0, sigma_0, nu, mu_1, and the data."""
    typical, among = rng.uniform(-1, 1), rng.uniform(0, 1)
    freedom = 1 + rng.gamma(rng.uniform(1, 2), 1 / rng.uniform(0.01, 0.1))
    mu = typical + among * rng.standard_t(freedom, datasets)
    spread = rng.uniform(0, 1, (datasets, 1))
    shared, own = rng.normal(size=(datasets, 1)), rng.normal(size=(datasets, folds))
    x = mu[:, None] + spread * (np.sqrt(rho) * shared + np.sqrt(1 - rho) * own)
    return (typical, among, freedom, mu[0]), data_of(x, rho, 1.0, 1.0, 1.0)


def data_of(x, rho, *bounds):
    mean = x.mean(axis=1)
    squares = ((x - mean[:, None]) ** 2).sum(axis=1)
    n, rho = np.full(len(x), x.shape[1]), np.full(len(x), rho)
    return Data(mean, squares, n, rho, *bounds)


def distribution(values, mass, at):
    """The posterior distribution function at a place, linear between the middles of the masses."""
    points, where = np.unique(values, return_inverse=True)
    mass = np.bincount(where.ravel(), mass)
    return np.interp(at, points, np.cumsum(mass) - mass / 2)


@pytest.mark.parametrize(
    "n_sims",
    [pytest.param(200, marks=pytest.mark.thorough), pytest.param(2_000, marks=pytest.mark.slow)],
)
def test_posteriors_are_calibrated(n_sims):
    """The true values are uniform in their posteriors (Talts et al. 2018)."""
    rng, shares = np.random.default_rng(0), []
    for _ in range(n_sims):
        true, data = simulated(rng)
        found = posterior(data)
        mu, mass = found.means()
        parts = [(x, found.mass) for x in (found.centre, found.among, found.freedom)]
        parts.append((mu[0], mass[0]))
        shares.append([distribution(*part, at) for part, at in zip(parts, true, strict=True)])
    assert min(stats.kstest(share, "uniform").pvalue for share in np.transpose(shares)) > 0.001


def test_the_posterior_is_the_known_one_where_sigma_0_is_known_and_the_t_is_normal():
    """mu_i lies halfway between its data and mu_0 (Gelman et al. 2013, 5.4)."""
    rng, datasets, folds, among, spread = np.random.default_rng(3), 8, 4_000, 0.5, 12.0
    mu = rng.normal(0.3, among, datasets)
    x = stats.zscore(rng.normal(size=(datasets, folds)), axis=1, ddof=1)
    x = mu[:, None] + spread * x
    x += rng.normal(0, spread / np.sqrt(folds), (datasets, 1))
    data = data_of(x, 0.0, 100.0, 1e4, among, among * 0.999, (1e5, 2e5))
    found = posterior(data)
    typical, sd = found.centre @ found.mass, np.sqrt(found.centre**2 @ found.mass)
    sd = np.sqrt(sd**2 - typical**2)
    assert (np.abs(found.among - among) <= 0.001).all() and (found.freedom > 9e4).all()
    raw, error = x.mean(axis=1), spread / np.sqrt(folds)
    precision = 1 / (among**2 + error**2)
    assert typical == pytest.approx(raw.mean(), abs=0.001)
    assert sd == pytest.approx(1 / np.sqrt(datasets * precision), rel=0.01)
    keep = among**2 * precision
    mu, mass = found.means()
    shrunken = keep * raw + (1 - keep) * raw.mean()
    assert (mu * mass).sum(axis=1) == pytest.approx(shrunken, abs=0.005)


def test_it_agrees_with_an_integral_over_a_grid():
    rng = np.random.default_rng(5)
    x = rng.normal(0, 0.4, (3, 6)) + np.array([0.1, 0.3, 0.9])[:, None]
    data = data_of(x, 0.2, 1.0, 1e3, 2.0, 0.0, (30.0, 30.0001))
    found = posterior(data)
    mu0, scale = np.linspace(-1, 1, 41), np.linspace(0.025, 1.975, 40)
    at, factor = np.linspace(-8, 8, 1601), 0.2 + 0.8 / 6
    likelihood = (data.squares[:, None] / 0.8 + (data.mean[:, None] - at) ** 2 / factor) ** (-5 / 2)
    prior = stats.t.pdf((at - mu0[:, None, None]) / scale[:, None], 30) / scale[:, None]
    mass = (prior @ likelihood.T).prod(axis=2)
    mass /= mass.sum()
    assert found.centre @ found.mass == pytest.approx(mass.sum(axis=1) @ mu0, abs=0.003)
    assert found.among @ found.mass == pytest.approx(mass.sum(axis=0) @ scale, abs=0.005)


def test_pairs_and_measures_at_once_say_what_each_says_alone():
    rng = np.random.default_rng(1)
    values = {
        f"d{i}": pd.DataFrame(rng.normal([0.8, 0.8, 0.7], 0.02, (5, 3)), columns=["a", "b", "c"])
        for i in range(6)
    }
    values["d5"] = values["d5"].drop(columns="c")
    found = hierarchical_pairs(
        {"f1": values, "error": {d: 10 - 100 * t for d, t in values.items()}},
        rho=dict.fromkeys(values, 0.2),
        ropes={"f1": 0.01, "error": 1.0},
        directions={"f1": "max", "error": "min"},
    )
    table, rows = found["f1"].table, found["f1"].shrunken
    rows = rows.query("method_a == 'a' and method_b == 'c'").set_index("dataset")
    assert table["n"].tolist() == [6, 5, 5]
    assert table["p_better"].gt(0.8).tolist() == [False, True, True]
    expected = table["p_better"].tolist()
    assert found["error"].table["p_better"].tolist() == pytest.approx(expected, abs=1e-9)
    alone = hierarchical_t({d: t["a"] - t["c"] for d, t in values.items() if "c" in t}, rho=0.2)
    row = table.iloc[1]
    assert [row.p_better, row.p_equivalent, row.p_worse] == pytest.approx(masses(alone), abs=1e-9)
    expected = alone.shrunken.set_index("dataset")["mean"].to_dict()
    assert rows["mean"].to_dict() == pytest.approx(expected)
    assert rows["shrunken"].std() < rows["mean"].std()  # every dataset is drawn towards the others


def test_differences_that_do_not_vary_are_known_to_within_the_rope_and_said_so():
    x = np.random.default_rng(0).normal(0.01, 0.02, (5, 4))
    x[2] = 0.0
    found = hierarchical_t(x, rho=0.25, rope=0.01)
    assert sum(masses(found)) == pytest.approx(1) == sum(masses(found, "share"))
    assert any("On 2 a difference is the same" in text for text in found.warnings)
    assert abs(found.shrunken.loc[2, "shrunken"]) < 0.01
    same = hierarchical_t(np.zeros((4, 5)), rho=0.2, rope=0.01)
    assert masses(same)[1] > 0.5


@pytest.mark.parametrize(
    ("differences", "options", "said"),
    [
        (np.zeros((1, 5)), {}, "at least two datasets, got 1"),
        ({"birds": [0.1], "yeast": [0.1, 0.2]}, {}, "got fewer or others for birds"),
        ([[0.1, np.nan], [0.1, 0.2]], {}, "others for 0"),
        (np.zeros((3, 5)), {"rope": 0}, "must vary"),
        (np.ones((3, 5)), {"rho": 1.0}, r"`rho` must be one number in \[0, 1\)"),
        (np.ones((3, 5)), {"rho": [0.1, 0.1]}, "or one for each of the 3 datasets"),
        (np.ones((3, 5)), {"rope": -1}, "`rope` must be zero or positive"),
    ],
)
def test_it_refuses_what_it_cannot_use(differences, options, said):
    with pytest.raises(ValueError, match=said):
        hierarchical_t(differences, **{"rho": 0.1} | options)


DATASETS = ("birds", "flags", "scene", "yeast")
KNOWN = {"split_digest": "abc", "n_train": 90, "n_test": 10}
ALIKE, BETTER = (0.0, 0.0), (0.06, 0.06)


def folds_of(*methods, datasets=DATASETS, **options):
    """A study by folds, in which LP is better than all others."""
    shifts = {m: BETTER if m == "LP" else ALIKE for m in methods}
    return fold_study(shifts, datasets=datasets, **KNOWN, **options)


@pytest.fixture(scope="module")
def found():
    return compare(folds_of("BR", "CC", "LP"), next_dataset=True)


@pytest.mark.thorough
def test_the_better_method_is_better_on_the_next_dataset_and_equal_ones_are_not(found):
    told = found.next_dataset
    assert told.over == "folds" and told.rho == dict.fromkeys(DATASETS, pytest.approx(0.1))
    for measure in ("precision", "recall"):
        assert told.pair(measure, "LP", "BR").p_better > 0.9
        assert told.pair(measure, "BR", "LP").p_worse > 0.9
        assert told.pair(measure, "BR", "CC").p_equivalent > 0.4
        rows = by_dataset(told, measure, "LP", "BR")
        assert list(rows.index) == list(DATASETS) and (rows["shrunken"].std() < rows["mean"].std())
        expected = -rows["mean"].to_numpy()
        assert by_dataset(told, measure, "BR", "LP")["mean"].to_numpy() == pytest.approx(expected)


def test_the_report_says_it_in_every_format(found):
    sentence = "On the next dataset LP would be better than"
    page, record = render(found, "html"), found.report().to_dict()["next_dataset"]
    assert sentence in render(found, "latex") and sentence in render(found, "md", "pairs")
    (text, *_) = record["sentences"]
    assert all(word in text for word in ("better than", "within 0.01 (1% of its range)", "worse"))
    assert 'id="next_dataset"' in page
    assert record["ropes"] == {"precision": 0.01, "recall": 0.01}
    assert record["ropes_from"]["recall"] == "1% of its range"
    assert {"p_better", "share_better"} <= set(record["pairs"]["recall"]["table"][0])
    assert len(found.report().frames()["next_dataset_shrunken"]) == 2 * 3 * 4
    assert "Corani" in page


def test_a_ranking_and_studies_on_one_dataset_have_none(found):
    asked = {"next_dataset": True}
    assert compare(found.study).report().to_dict()["next_dataset"] is None
    assert compare(found.study.select(datasets=["birds"]), **asked).next_dataset is None
    assert "next_dataset" not in render(found, "html", "ranking")


def test_the_rope_is_a_share_of_the_range_or_in_units_of_the_measure_that_is_tested():
    study = folds_of("BR", "LP", datasets=DATASETS[:2], measures=("matthews", "latency"))
    told = next_dataset(study, study.measures, ["BR", "LP"])
    assert told.ropes["matthews"] == pytest.approx(0.02)  # from -1 to 1
    assert told.ropes["latency"] == pytest.approx(0.006, rel=0.1)
    assert "no bounds" in told.ropes_from["latency"]
    given = next_dataset(study, ["matthews"], ["BR", "LP"], rope=0.3, in_units=True).ropes
    assert given == {"matthews": 0.3}


@pytest.mark.parametrize(("rare", "tells"), [(-0.08, False), (0.005, True)])
def test_it_cannot_tell_where_differences_are_far_from_a_t_distribution(rare, tells):
    """85% of 40 datasets gain .005, and 15% lose .08: it said better .26, alike .42, worse .32."""
    rng = np.random.default_rng(0)
    names, runs = [f"d{k}" for k in range(40)], range(5)
    index = pd.MultiIndex.from_product([names, ["a", "b"], runs], names=["dataset", "method", "r"])
    gain = np.repeat(np.where(np.arange(40) < 34, 0.005, rare), 5)
    values = 0.6 + rng.normal(0, 0.003, len(index))
    values[index.get_level_values(1) == "a"] += gain
    repeats = pd.DataFrame({"f1": values}, index)
    study = Study(repeats.groupby(level=[0, 1]).mean(), {"f1": "max"}, repeats=repeats)
    found = compare(study, next_dataset=True)
    row = found.next_dataset.pair("f1", "a", "b")
    text = render(found, "md")
    assert np.isfinite(row.p_better) == tells == ("this cannot tell" not in text)
    assert np.isfinite(row.low) == tells
    assert tells or any("far from the t" in doubt for doubt in found.next_dataset.doubts)
    assert (text.count("far from the t"), "P first" in text) == (int(not tells), tells)


def test_without_folds_and_repeats_it_says_what_it_takes():
    study = study_of(2, 8)
    assert "It takes folds or repeats" in render(compare(study, next_dataset=True), "html")
    assert "On the next dataset" not in render(compare(study), "html")


def test_what_is_left_out_is_told():
    study = folds_of("BR", "LP", "CC")
    runs = study.runs.copy()
    runs.loc[(runs["dataset"] == "birds") & (runs["method"] == "CC"), "split_digest"] = "other"
    folds = study.folds.drop(index="yeast")
    told = next_dataset(replace(study, runs=runs, folds=folds), ["recall"], ["LP", "BR", "CC"])
    assert any("On birds, CC had another split" in text for text in told.doubts)
    assert "yeast is left out: no run on it has folds" in told.doubts
    assert told.pairs["recall"].table["n"].tolist() == [3, 2, 2]


def test_repeats_are_independent_and_make_as_many_differences_as_there_are():
    rng = np.random.default_rng(0)
    names = ["dataset", "method", "repeat"]
    index = pd.MultiIndex.from_product([DATASETS, ["BR", "LP"], range(4)], names=names)
    better = 0.05 * (index.get_level_values(1) == "LP")
    repeats = pd.DataFrame({"f1": rng.normal(0.6, 0.01, len(index)) + better}, index)
    repeats = repeats.drop(index=("birds", "LP", 3))
    study = Study(repeats.groupby(level=[0, 1]).mean(), {"f1": "max"}, repeats=repeats)
    told = next_dataset(study, ["f1"], ["LP", "BR"])
    assert told.over == "repeats" and set(told.rho.values()) == {0.0}
    assert by_dataset(told, "f1", "LP", "BR")["n"].tolist() == [3, 4, 4, 4]
    assert told.pair("f1", "LP", "BR").p_better > 0.8


def test_a_method_that_lacks_a_fold_is_compared_on_the_others():
    study = folds_of("BR", "LP", "CC", datasets=DATASETS[:2])
    less = replace(study, folds=study.folds.drop(("birds", "CC", 3)))
    told = next_dataset(less, ["recall"], ["LP", "BR", "CC"])
    assert by_dataset(told, "recall", "LP", "CC")["n"].tolist() == [9, 10]
    assert told.rho == dict.fromkeys(DATASETS[:2], pytest.approx(0.1))
    gap = study.folds["recall"].loc["birds", "LP"] - study.folds["recall"].loc["birds", "CC"]
    expected = gap.drop(3).mean()
    assert by_dataset(told, "recall", "LP", "CC")["mean"].iloc[0] == pytest.approx(expected)
    assert by_dataset(told, "recall", "LP", "BR")["n"].tolist() == [10, 10]
    assert any("CC has all values of 9 of the 10 folds" in text for text in told.doubts)
