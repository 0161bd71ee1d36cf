"""Cost beside quality: who is on the frontier for sure, who may be, who is not."""

import numpy as np
import pandas as pd
import pytest
from command_line import mleval
from report_cases import render

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.recommendation import frontier
from mlflow_mleval.report.blocks import plain
from mlflow_mleval.report.content.decision import cost_sentence
from mlflow_mleval.store.query import load_study

#: Method -> quality, seconds; another may be added.
MADE = {"big": (0.8, 100.0), "small": (0.6, 1.0), "waste": (0.5, 200.0), "c": (0.7, 10.0)}


def results(n=12, **more):
    rng = np.random.default_rng(0)
    rows = []
    for d in range(n):
        for method, (f1, cost) in {**MADE, **more}.items():
            seconds = cost * np.exp(d / 4 + 0.1 * rng.standard_normal())
            made = {"dataset": f"d{d}", "method": method, "fit_time": seconds}
            rows.append({**made, "f1": f1 + 0.01 * rng.standard_normal()})
    return pd.DataFrame(rows)


def test_a_figure_and_a_sentence_tell_who_is_on_the_frontier():
    study = load_study(results(d=(0.7, 10.0)))
    assert list(study.costs) == ["fit_time"] and study.measures == ["f1"]
    c = compare(study)
    found = frontier(c)
    assert dict(found.table["place"]) == {
        **dict.fromkeys(("big", "small"), "on"),
        **dict.fromkeys(("c", "d"), "open"),
        "waste": "off",
    }
    table = found.table
    assert table.loc["big", "cost"] == pytest.approx(100 * np.exp(11 / 8), rel=0.1)
    assert (table["cost_low"] < table["cost"]).all() and (table["cost"] < table["cost_high"]).all()
    said = plain(cost_sentence(found))
    assert said.startswith("By fit_time: nobody is both better and cheaper than big and small;")
    assert "is both, for waste; for " in said and said.endswith(" tests cannot say.")
    page = render(c, "html")
    assert "Cost beside quality" in page and "net flow φ by f1 against fit_time" in page
    assert c.report().to_dict()["cost"]["name"] == "fit_time"


def test_few_datasets_leave_the_frontier_open_and_no_cost_leaves_it_out():
    few = compare(load_study(results(3)))
    assert set(frontier(few).table["place"]) == {"open"}
    assert plain(cost_sentence(frontier(few))).startswith("By fit_time, tests cannot say of any")
    none = compare(load_study(results().drop(columns="fit_time")))
    assert frontier(none) is None and none.report().to_dict()["cost"] is None
    assert "Cost beside quality" not in render(none, "html")


def test_the_command_draws_the_cost_that_was_named(tmp_path):
    file = tmp_path / "results.csv"
    sizes = np.tile([1e7, 2e5, 3e6, 4e6], 12)
    results().assign(tokens=5.0, price=np.arange(48.0) + 1, params=sizes).to_csv(file, index=False)
    told = ["report", str(file), "--output", "json", "--read"]
    assert '"name": "price"' in mleval(*told, "cost=price").stdout
    page = mleval("report", str(file), "--output", "html", "--read", "cost=params").stdout
    assert " at 10M;" in page and " at 200k;" in page and ">10M<" in page  # point and axis
    assert "it has fit_time, tokens, price, params." in mleval(*told, "cost=prices", code=1).output


def test_costs_of_zero_have_plain_means_and_a_plain_axis(recwarn):
    table = results(8)
    table.loc[0, "fit_time"] = 0.0
    c = compare(load_study(table))
    found = frontier(c)
    assert not found.geometric and (found.table["cost_low"] < 0).any()
    page = render(c, "html")
    assert "Costs are means over datasets." in page and not [*recwarn]
