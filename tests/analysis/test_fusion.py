"""A study fused, against the published rankings of Eftimov & Kocev 2019."""

import pandas as pd
import pytest
from places import GOLDEN
from report_cases import published_study
from scipy.stats import rankdata

from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.analysis.promethee import promethee
from mlflow_mleval.errors import MissingResultsError
from mlflow_mleval.study import Study

PUBLISHED = GOLDEN / "eftimov2019_rankings.csv"


@pytest.mark.parametrize(
    ("preference", "near_ties"),
    [
        ("usual", {("scene", "BR"), ("scene", "RAkEL")}),
        ("v_shape", {("delicious", "BR"), ("delicious", "CC")}),
    ],
)
def test_published_ranks(preference, near_ties):
    """All but two of 132 cells: one near-tie under three-digit rounding of the inputs."""
    ranks = fuse(published_study(), preference=preference).ranks
    published = (
        pd.read_csv(PUBLISHED)
        .query("preference == @preference")
        .pivot(index="dataset", columns="method", values="rank")
    )
    different = (ranks != published.loc[ranks.index, ranks.columns]).stack()
    assert set(different[different].index) == near_ties


@pytest.fixture
def small():
    """Two datasets in different units; c did not finish on e."""
    frame = pd.DataFrame(
        {
            "dataset": list("dddeee"),
            "method": list("abc") * 2,
            "f1": [0.5, 0.6, 0.9, 0.1, 0.3, None],
            "coverage": [3.0, 5.0, 4.0, 30.0, 20.0, None],
        }
    )
    return Study.from_frame(frame, missing="worst")


def test_ranking_is_the_mean_over_datasets(small):
    fusion = fuse(small)
    assert fusion.study.filled == (("e", "c"),)
    for dataset, result in fusion.results.items():
        alone = promethee(fusion.study.matrix(dataset), ["coverage"])
        assert result.flows.equals(alone.flows)
        assert fusion.ranks.loc[dataset].to_dict() == alone.flows["rank"].to_dict()
        assert fusion.phi.loc[dataset].to_dict() == alone.flows.phi.to_dict()
        assert fusion.weights.loc[dataset].to_dict() == alone.weights.to_dict()
    mean = fusion.phi.mean().sort_values(ascending=False)
    assert fusion.ranking.index.tolist() == mean.index.tolist()
    assert fusion.ranking.phi.tolist() == mean.tolist()
    assert fusion.ranking["rank"].tolist() == rankdata(-mean).tolist()
    assert fusion.ranking.mean_rank.to_dict() == fusion.ranks.mean().to_dict()


def test_thresholds_are_those_of_each_dataset_unless_given(small):
    free, fixed = fuse(small), fuse(small, p={"coverage": 4})
    assert [free.results[d].thresholds.p["coverage"] for d in "de"] == [2.0, 10.0]
    assert [fixed.results[d].thresholds.p["coverage"] for d in "de"] == [4.0, 4.0]
    assert fixed.results["d"].thresholds.p["f1"] == pytest.approx(0.4)


def test_refit_restricts_what_was_given_per_measure(small):
    preference = {"f1": "linear", "coverage": "level"}
    fusion = fuse(small, preference, [1, 3], q={"coverage": 1}, p=6, drop_constant=True)
    assert fusion.options == {
        "preference": preference,
        "weights": {"f1": 1, "coverage": 3},
        "drop_constant": True,
        "p": 6,
        "q": {"coverage": 1},
        "s": None,
    }
    less = fusion.refit(fusion.study.select(["f1"]))
    assert less.options["preference"] == {"f1": "linear"} and less.options["q"] is None
    assert less.weights.f1.tolist() == [1, 1]
    assert fusion.refit(fusion.study).ranking.equals(fusion.ranking)
    by_name = fuse(small, weights=pd.Series({"coverage": 3, "f1": 1}))
    assert by_name.weights.coverage.tolist() == [0.75, 0.75]


def test_gaps_without_a_policy_and_wrong_weights_are_errors(small):
    with pytest.raises(MissingResultsError, match="1 of 6 cells has no result"):
        fuse(Study(small.values, small.directions))
    with pytest.raises(ValueError, match="one number a measure, 2 in all"):
        fuse(small, weights=[1, 2, 3])


def test_warnings_say_where(small):
    values = small.values.copy()
    values.loc["d", "f1"] = 0.5
    study = Study(values, small.directions, "worst")
    assert fuse(study).warnings[0].startswith("On d: 'f1' has the same value for every method")
    values.loc["e", "f1"] = 0.5
    (told, *_) = fuse(Study(values, small.directions, "worst")).warnings
    assert told.startswith("On every dataset: 'f1' has the same")
