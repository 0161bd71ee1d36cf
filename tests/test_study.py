"""The Study and its missing-value policies."""

import numpy as np
import pandas as pd
import pytest

from mlflow_mleval.errors import IncomparableRunsError, MeasureError, MissingResultsError
from mlflow_mleval.study import Study


@pytest.fixture
def study():
    cells = {"dataset": ["d1", "d1", "d2", "d2"], "method": [*"abab"]}
    cells |= {"f1": [0.5, 0.6, 0.7, np.nan], "hamming_loss": [0.1, 0.3, 0.2, np.nan]}
    return Study.from_frame(pd.DataFrame(cells))


def test_error_policy_names_the_cells_and_the_choices(study):
    said = r"1 of 4 cells has no result \(b on d2\).*`missing='worst'`"
    with pytest.raises(MissingResultsError, match=said):
        study.complete()


def test_worst_is_the_least_where_more_is_better_and_the_most_where_less_is():
    columns = {"f1": [0.7, 0.4, np.nan], "hamming_loss": [0.1, 0.3, np.nan]}
    frame = pd.DataFrame({"dataset": "d", "method": list("abc"), **columns})
    done = Study.from_frame(frame).complete("worst")
    assert done.values.loc[("d", "c")].to_dict() == {"f1": 0.4, "hamming_loss": 0.3}


def test_a_pair_without_any_row_is_a_gap_too(study):
    short = Study(study.values.iloc[:3], study.directions, "worst")
    assert short.gaps() == [("d2", "b")]
    assert study.complete("worst").filled == (("d2", "b"),)
    assert short.matrix("d2").loc["b"].tolist() == [0.7, 0.2]


def test_drop_policies_list_what_they_dropped(study):
    assert study.complete("drop-datasets").datasets == ["d1"]
    dropped = study.complete("drop-methods")
    assert dropped.methods == ["a"]
    assert [(e.kind, e.name) for e in dropped.excluded] == [("method", "b")]


@pytest.mark.parametrize(
    ("gone", "policy", "said"),
    [
        (("d1", "a"), "drop-datasets", "would leave nothing"),
        ("d2", "worst", "no method has a value of f1 on d2, hamming_loss on d2"),
    ],
)
def test_a_policy_that_has_nothing_to_go_by_is_an_error(study, gone, policy, said):
    values = study.values.copy()
    values.loc[gone] = np.nan
    with pytest.raises(MissingResultsError, match=said):
        Study(values, study.directions).complete(policy)


def test_unknown_measure_without_direction_says_how_to_declare_it():
    frame = pd.DataFrame({"dataset": ["d"], "method": ["a"], "latency": [1.0]})
    with pytest.raises(ValueError, match=r"'latency'.*`minimize=\[NAME\]`"):
        Study.from_frame(frame)
    assert Study.from_frame(frame, minimize=["latency"]).minimize == ["latency"]


def test_select_takes_sets_and_names(study):
    assert study.select(["f1"]).measures == ["f1"]
    assert study.select(exclude=["f1"]).measures == ["hamming_loss"]
    with pytest.raises(MeasureError, match="no measure 'recall'"):
        study.select(["recall"])
    with pytest.raises(IncomparableRunsError, match="no method 'z'"):
        study.select(methods=["z"])


def test_duplicates_are_refused(study):
    with pytest.raises(IncomparableRunsError, match="more than one row"):
        Study(pd.concat([study.values, study.values.iloc[:1]]), study.directions)
