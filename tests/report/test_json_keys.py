"""The page about JSON and CSV is the one that the code gives, and JSON has its keys."""

import re
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from example_runs import loaded
from places import GUIDES, SCRIPTS
from report_cases import study_of

import mlflow_mleval as mleval
from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.report.blocks import glossary
from mlflow_mleval.report.data import plain


def test_the_page_is_up_to_date():
    script = loaded(SCRIPTS / "make_json_keys.py")
    assert script.page() == (GUIDES / "json_keys.md").read_text(encoding="utf-8"), (
        "run python examples/scripts/make_json_keys.py"
    )


def test_every_heading_of_the_glossary_has_its_paragraph():
    text = (files("mlflow_mleval.report") / "glossary.md").read_text("utf-8")
    headings = re.findall("^## (.+?): (.+)$", text, re.M)
    assert headings == [(topic, word) for topic in dict(headings) for word in glossary(topic)]


def test_json_keeps_its_keys_where_python_calls_it_otherwise():
    table = pd.DataFrame(np.random.default_rng(0).random((7, 3)), columns=list("abc"))
    found = mleval.bayesian_t(table, 0.1)
    expected = {"rope": 0.1, "threshold": 0.95, "ratio": None, "seed": 0, "warnings": []}
    expected |= {"table": 0, "methods": ["a", "b", "c"], "by_chance": found.by_chance}
    assert plain(found) | {"table": 0} == expected
    same = mleval.equivalence(table, 0.1)
    assert plain(same)["margin"] == same.rope == 0.1 and "rope" not in plain(same)
    instances = mleval.instance_tests({m: {"f1": table[m]} for m in table}, ["f1"], n_resamples=99)
    assert plain(instances)["n_draws"] == instances.n_resamples == 99
    c = compare(study_of(4, 10), stability=20, rope=0.01, max_correlation=0.7)
    record = c.report().to_dict()
    options = record["options"]
    assert (options["n_draws"], options["threshold"]) == (20, 0.7)
    assert record["redundancy"]["threshold"] == 0.7
    assert record["stability"]["acceptability"]["n_draws"] == 20
    assert {"threshold", "by_chance"} <= {*record["beyond"]["bayes"]}
    assert "margin" in record["beyond"]["equivalence"]
    with pytest.raises(ValueError, match="`direction` must be one of 'max', 'min', got True"):
        mleval.wilcoxon_pairs(table, True)
