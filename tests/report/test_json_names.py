"""What Python calls otherwise keeps its key in JSON."""

import numpy as np
import pandas as pd
import pytest
from report_cases import study_of

import mlflow_mleval as mleval
from mlflow_mleval.report.data import plain

TABLE = pd.DataFrame(np.random.default_rng(0).random((7, 3)), columns=list("abc"))


def test_a_flag_in_place_of_a_direction_is_refused():
    with pytest.raises(ValueError, match="`direction` must be one of 'max', 'min', got True"):
        mleval.wilcoxon_pairs(TABLE, True)


def test_json_keeps_its_keys():
    found = mleval.bayesian_t(TABLE, 0.1)
    assert plain(found) | {"table": 0} == {
        "table": 0,
        "rope": 0.1,
        "threshold": 0.95,
        "methods": ["a", "b", "c"],
        "ratio": None,
        "seed": 0,
        "by_chance": found.by_chance,
        "warnings": [],
    }
    same = mleval.equivalence(TABLE, 0.1)
    assert plain(same)["margin"] == same.rope == 0.1 and "rope" not in plain(same)
    instances = mleval.instance_tests({m: {"f1": TABLE[m]} for m in TABLE}, ["f1"], n_resamples=99)
    assert plain(instances)["n_draws"] == instances.n_resamples == 99
    record = (
        mleval.compare(study_of(4, 10), stability=20, rope=0.01, max_correlation=0.7)
        .report()
        .to_dict()
    )
    assert (
        record["options"]["n_draws"],
        record["options"]["threshold"],
        record["redundancy"]["threshold"],
    ) == (20, 0.7, 0.7)
    assert record["stability"]["acceptability"]["n_draws"] == 20
    assert {"threshold", "by_chance"} <= {*record["beyond"]["bayes"]}
    assert "margin" in record["beyond"]["equivalence"]
