"""How sure a fused ranking is: every claim tried out by fusing again."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata

from mlflow_mleval.analysis import fusion as stability
from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.analysis.posthoc.max_t import critical, max_t
from mlflow_mleval.analysis.promethee import PREFERENCES
from mlflow_mleval.study import Study

NAMES = ["f1", "accuracy", "one_error", "recall"]


def random_study(seed, m=5, n=3, datasets=3, decimals=None):
    """A study of random values; few decimals make ties."""
    rng = np.random.default_rng(seed)
    values = rng.random((datasets * m, n))
    frame = pd.DataFrame(values if decimals is None else values.round(decimals), columns=NAMES[:n])
    frame.insert(0, "method", [f"m{i}" for i in range(m)] * datasets)
    frame.insert(0, "dataset", np.repeat([f"d{i}" for i in range(datasets)], m))
    return Study.from_frame(frame)


def sure(fusion):
    return stability.Stability(fusion, fusion.given, None, None, 60, 5)


def mean_flows(fusion, change):
    """Mean net flows when the weights of every dataset are changed by a function."""
    total = 0.0
    for dataset, result in fusion.results.items():
        weights = change(fusion.weights.loc[dataset].to_numpy())
        total = total + result.unicriterion.to_numpy() @ weights / weights.sum()
    return pd.Series(total / len(fusion.results), fusion.study.methods)


def leaders(flows):
    return set(flows.index[flows > flows.max() - 1e-9])


def pattern(flows):
    """The weak order of the methods."""
    return rankdata(-flows.round(9)).tolist()


def moved(fusion, measure, weight):
    """Moves all weights toward one measure, or away from it, until its mean weight is this one."""
    own = fusion.weights.columns == measure
    now = fusion.weights[measure].mean()
    if weight >= now:
        return lambda weights: weights + (weight - now) / (1 - now) * (own - weights)
    return lambda weights: (
        weights + (1 - weight / now) * (np.where(own, 0, weights) / (1 - weights @ own) - weights)
    )


CASES = [
    (seed, decimals, preference)
    for seed in range(4)
    for decimals in (None, 1)
    for preference in ("usual", "v_shape")
]


@pytest.mark.parametrize(
    ("seed", "decimals", "preference"),
    [case if case[0] < 1 else pytest.param(*case, marks=pytest.mark.thorough) for case in CASES],
)
def test_weight_intervals_end_where_the_ranking_changes(seed, decimals, preference):
    fusion = fuse(random_study(seed, decimals=decimals), preference)
    now = fusion.ranking.phi
    found = sure(fusion).intervals
    assert set(found.leaders) == leaders(now)
    for measure, row in found.table.iterrows():
        assert row.weight == pytest.approx(fusion.weights[measure].mean())
        for prefix, seen in (("", leaders), ("order_", pattern)):
            low, high = row[f"{prefix}weight_low"], row[f"{prefix}weight_high"]
            assert 0 <= low <= row.weight <= high <= 1
            for weight in np.linspace(low, high, 22)[1:-1]:
                after = mean_flows(fusion, moved(fusion, measure, weight)).reindex(now.index)
                assert seen(after) == seen(now), (measure, weight)
            for end, step in ((low, -1e-6), (high, 1e-6)):
                if 1e-6 < end < 1 - 1e-6:
                    after = mean_flows(fusion, moved(fusion, measure, end + step))
                    assert seen(after.reindex(now.index)) != seen(now), (measure, end)
        low, high = (row.weight_low, -1e-6, row.rival_low), (row.weight_high, 1e-6, row.rival_high)
        for end, step, rival in (low, high):
            assert (rival is None) == (end in (0, 1))
            if rival is not None:
                assert rival in leaders(mean_flows(fusion, moved(fusion, measure, end + step)))


def test_weight_intervals_by_hand():
    """f1 prefers b, one_error prefers a by as much: they change places at equal weights."""
    frame = pd.DataFrame(
        {"dataset": "d", "method": ["a", "b"], "f1": [0.5, 0.6], "one_error": [0.2, 0.4]}
    )
    table = sure(fuse(Study.from_frame(frame), weights=[3, 1])).intervals.table
    assert table.loc["f1", ["weight_low", "weight_high"]].tolist() == pytest.approx([0.5, 1])
    assert table.loc["one_error", ["weight_low", "weight_high"]].tolist() == pytest.approx([0, 0.5])
    assert table.rival_low.tolist() == ["a", None] and table.rival_high.tolist() == [None, "a"]
    tied = sure(fuse(Study.from_frame(frame), weights="equal")).intervals
    assert tied.leaders == ("a", "b") and tied.table.rival_high.tolist() == ["b", "a"]
    ends = ["weight_low", "weight_high", "order_weight_low", "order_weight_high"]
    assert (tied.table[ends] == 0.5).all(axis=None)


def test_one_measure_cannot_be_moved():
    found = sure(fuse(random_study(1, n=1)))
    assert found.intervals.table.loc["f1", ["weight_low", "weight_high"]].tolist() == [1, 1]
    assert found.smallest_change is None


@pytest.mark.parametrize("seed", range(4))
def test_smallest_single_change(seed):
    fusion = fuse(random_study(seed))
    found, table = sure(fusion).smallest_change, sure(fusion).intervals.table
    ways = [
        (table[f"weight_{side}"] - table["weight"])[table[f"rival_{side}"].notna()].abs()
        for side in ("low", "high")
    ]
    assert abs(found.change) == pytest.approx(pd.concat(ways).min())
    assert found.to - found.weight == pytest.approx(found.change)


@pytest.mark.parametrize("decimals", [None, 1])
def test_acceptability_is_what_fusing_with_the_same_weights_gives(decimals):
    fusion = fuse(random_study(1, m=4, decimals=decimals))
    found = sure(fusion).acceptability
    draws = np.random.default_rng(5).dirichlet(np.ones(3), size=60)
    expected = pd.DataFrame(0.0, found.acceptability.index, range(1, 5))
    for w in draws:
        mean = -mean_flows(fusion, lambda _, w=w: w).round(9)
        for method, value in mean.items():
            better, same = (mean < value).sum(), (mean == value).sum()
            expected.loc[method, better + 1 : better + same] += 1 / same / 60
    assert np.allclose(found.acceptability, expected)
    assert np.allclose(found.acceptability.sum(axis=0), 1)
    assert np.allclose(found.acceptability.sum(axis=1), 1)


@pytest.mark.parametrize("seed", range(3))
def test_leave_one_out_matches_fusing_the_rest(seed):
    study = random_study(seed, m=6)
    fusion = fuse(study, weights={"f1": 1, "accuracy": 2, "one_error": 3}, p={"f1": 0.4})
    found = sure(fusion).leave_one_out
    reversals = set()
    for left_out in study.methods:
        others = [m for m in study.methods if m != left_out]
        rest = fusion.refit(study.select(methods=others)).ranking
        assert found.ranks.loc[left_out].dropna().to_dict() == rest["rank"].to_dict()
        assert found.winners[left_out] == rest.index[0]
        before, after = fusion.ranking["rank"], rest["rank"]
        reversals |= {
            (left_out, a, b)
            for a in after.index
            for b in after.index
            if before[a] < before[b] and after[a] > after[b]
        }
        leader = fusion.ranking.index[0]
        passed = left_out != leader and after[leader] > after.min()
        assert passed == (left_out in found.winner_changes)
    assert set(found.reversals.itertuples(index=False, name=None)) == reversals


def with_gaps(cells):
    study = random_study(3)
    values = study.values.copy()
    for cell in cells:
        values.loc[cell] = np.nan
    return Study(values, study.directions, "worst")


def test_sensitivity_has_every_function_weight_and_policy():
    study = with_gaps([("d0", "m1")])
    found = stability.sensitivity(study, "linear", "equal", q=0.2)
    table = found.table
    assert found.impossible == {}
    functions = table[table.varies == "function"]
    pairs = {(function, weights) for function in PREFERENCES for weights in ("entropy", "equal")}
    assert set(zip(functions.preference, functions.weights, strict=True)) == pairs
    assert len(functions) == 12 * 5 and len(table) == 15 * 5
    for (preference, weights), rows in functions.groupby(["preference", "weights"]):
        q = 0.2 if preference == "linear" else None
        expected = fuse(study, preference, weights, q=q).ranking
        for column in ("rank", "phi", "mean_rank"):
            assert rows.set_index("method")[column].to_dict() == expected[column].to_dict()
        assert set(rows.chosen) == {(preference, weights) == ("linear", "equal")}
    policies = table[table.varies == "policy"].set_index(["missing", "method"])
    for policy in ("worst", "drop-datasets", "drop-methods"):
        expected = fuse(study.complete(policy), "linear", "equal", q=0.2).ranking["rank"]
        assert policies.loc[policy, "rank"].dropna().to_dict() == expected.to_dict()
    assert np.isnan(policies.loc[("drop-methods", "m1"), "rank"])
    left = policies.groupby("missing").n_datasets.first().to_dict()
    assert left == {"drop-datasets": 2, "drop-methods": 3, "worst": 3}


def test_sensitivity_lists_policies_that_leave_nothing():
    gaps = [("d0", "m1"), ("d1", "m2"), ("d2", "m3"), ("d0", "m4")]
    found = stability.sensitivity(with_gaps(gaps))
    assert "would leave nothing" in found.impossible["drop-datasets"]
    assert "one method only" in found.impossible["drop-methods"]
    assert set(found.table.missing) == {"worst"}


def test_sensitivity_keeps_what_was_given():
    study = random_study(4)
    found = stability.sensitivity(
        study, dict.fromkeys(NAMES[:3], "usual"), {"f1": 1, "accuracy": 1, "one_error": 4}
    )
    chosen = found.table[found.table.chosen]
    assert set(chosen.preference) == set(chosen.weights) == {"given"}
    assert len(found.table[found.table.varies == "function"]) == 13 * 5
    assert len(found.table[found.table.varies == "policy"]) == 5


def test_separations_are_tried_without_each_dataset_and_each_other_method():
    study = random_study(1, m=4, datasets=12)
    values = study.values.copy()
    values.loc[(slice(None), "m0"), "f1"] += 1.0
    values.loc[(slice(None), "m1"), "f1"] += 0.6
    fusion = fuse(replace(study, values=values))
    result = max_t(fusion.phi)
    found = stability.needed_by(fusion.phi, result, fusion)
    assert list(zip(found.better, found.worse, strict=True)) == result.significant_pairs
    statistic = result.table.set_index(["method_a", "method_b"])["statistic"]
    c, n = critical(result), len(fusion.phi)
    for row in found.itertuples():
        gaps = fusion.phi[row.better] - fusion.phi[row.worse]
        for name in study.datasets:
            d = gaps.drop(name)
            reached = d.sum() / np.sqrt((d**2).sum()) * np.sqrt(n / (n - 1)) >= c
            assert (name in row.jackknife) != reached
        for name in set(study.methods) - {row.better, row.worse}:
            rest = fuse(fusion.study.select(methods=[m for m in study.methods if m != name])).phi
            d = rest[row.better] - rest[row.worse]
            assert (name in row.companions) == (d.sum() < c * np.sqrt((d**2).sum()))
    assert len(found) > 1 and statistic.max() >= c
