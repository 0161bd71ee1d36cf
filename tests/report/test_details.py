"""A closer look at a comparison: what is said of a cell, a method, a dataset, a pair and its costs
is what the study holds.
"""

import re
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
from command_line import mleval
from html_pages import Page
from report_cases import NASTY, nasty, published, render, three_methods, whole

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.recommendation import (
    frontier,
    measures_of_cell,
    measures_of_pair,
    over_time,
    runs_of_cell,
)
from mlflow_mleval.errors import IncomparableRunsError
from mlflow_mleval.report.blocks import plain
from mlflow_mleval.report.content.decision import cost_sentence, over_time_section
from mlflow_mleval.report.content.study_report import detail_section as section
from mlflow_mleval.report.html import fragment
from mlflow_mleval.report.text import terminal
from mlflow_mleval.store.query import load_study
from mlflow_mleval.study import Study


@cache
def repeated():
    """Three methods on two datasets, three seeds each; one run of b on e did not finish, nor any of
    c.
    """
    rng = np.random.default_rng(0)
    key = ["dataset", "method", "repeat"]
    rows = [(*cell, *rng.uniform(size=2).round(3)) for cell in product("de", "abc", "012")]
    frame = pd.DataFrame(rows, columns=[*key, "f1", "hamming_loss"])
    cells = frame[key].agg("".join, axis=1)
    gone = cells.str.startswith("ec") | (cells == "eb1")
    status, ids = np.where(gone, "dnf", "complete"), [f"{i:032x}" for i in range(len(frame))]
    where = {"run_id": ids, "experiment_id": "7", "experiment": "x"}
    runs = frame[key].assign(**where, status=status)
    repeats = frame[~gone].set_index(key)
    means = repeats.groupby(level=[0, 1], sort=False).mean()
    values = means.reindex(pd.MultiIndex.from_product([[*"de"], [*"abc"]], names=key[:2]))
    ways = {"f1": "max", "hamming_loss": "min"}
    return compare(Study(values, ways, "worst", runs=runs, repeats=repeats))


def told(c, **what) -> str:
    return " ".join(c.detail(**what).to_text(200).split())


def test_a_cell_has_its_runs_with_their_values_and_where_they_lie():
    c = repeated()
    runs = runs_of_cell(c, "e", "b")
    assert runs["status"].tolist() == ["complete", "dnf", "complete"]
    assert np.isnan(runs["f1"][1])
    assert runs["f1"].mean() == pytest.approx(c.study.values.loc[("e", "b"), "f1"])
    found = measures_of_cell(c, "e", "b")
    assert found["n"].tolist() == [2, 2] and found["sd"]["f1"] == pytest.approx(runs["f1"].std())
    html = fragment(section(c, "cell", method="b", dataset="e", base="../"))
    for run in runs["run_id"]:
        sought = f'<a href="../#/experiments/7/runs/{run}?workflowType=machine_learning">{run}</a>'
        assert sought in html
    assert "means over 2 runs" in html and "dnf" in html
    plain = c.detail(method="b", dataset="e")
    assert "<a " not in plain.to_html() and runs["run_id"][0] in plain.to_text()
    policy = "has no result: what is missing counts as the worst of the dataset (policy worst)"
    assert policy in told(c, method="c", dataset="e")


@pytest.mark.filterwarnings("error")
def test_repeats_in_any_order_are_found_without_a_warning():
    rows = [(d, m, seed, (ord(m) + seed) / 200) for seed in (0, 1) for d in "ed" for m in "ba"]
    c = compare(load_study(pd.DataFrame(rows, columns=["dataset", "method", "seed", "f1"])))
    assert "The values of a on e are means over 2 runs" in told(c, method="a", dataset="e")


def test_a_method_has_its_ranks_and_pairs():
    c = published(stability=500)
    pairs = c.pairs[c.pairs[["method_a", "method_b"]].isin(["PCT"]).any(axis=1)]
    assert len(pairs) == 11
    phi = c.fusion.phi.drop(index=[d for d, m in c.study.filled if m in ("PCT", "BR")])
    expected = (phi["PCT"] - phi["BR"]).mean()
    (row,) = pairs[pairs[["method_a", "method_b"]].isin(["BR"]).any(axis=1)].to_dict("records")
    sign = 1 if row["method_a"] == "PCT" else -1
    assert sign * row["mean_difference"] == pytest.approx(expected)
    text = told(c, method="PCT")
    assert "PCT has place 12 of 12" in text
    page = Page(fragment(section(c, "method", method="PCT")))
    named = [a for t, a in page.elements if t == "bdi" and len(a) > 1]
    marks = [{k: v for k, v in a.items() if k.startswith("data-")} for a in named]
    assert {"data-method": "PCT", "data-dataset": "yeast"} in marks


def test_a_pair_has_its_differences_and_what_each_test_says():
    c = published(stability=500)
    found, back = (measures_of_pair(c, *pair) for pair in (("BR", "ECC"), ("ECC", "BR")))
    filled = {d for d, m in c.study.filled if m in ("BR", "ECC")}
    kept = [d for d in c.study.datasets if d not in filled]
    assert filled and (found["n"] == len(kept)).all()
    cells = c.study.cells("hamming_loss").loc[kept]
    expected = (cells["ECC"] - cells["BR"]).mean()
    assert found.loc["hamming_loss", "difference"] == pytest.approx(expected)
    assert found["difference"].to_numpy() == pytest.approx(-back["difference"])
    assert (found["low"] < found["difference"]).all()
    assert found["low"].to_numpy() == pytest.approx(-back["high"])
    text = told(c, method="RF-PCT", against="PCT")
    for said in (
        "The separation stays under 16 of 16",
        "Nemenyi, critical difference 5.02",
        "step-down max-T (decides)",
    ):
        assert said in text


def test_folds_and_profiles_are_in_what_they_belong_to():
    c = compare(three_methods())
    text = told(c, method="LP", against="BR")
    assert "10 folds of birds" in text and "LP better on recall, worse on precision" in text
    assert "over 10 folds" in told(c, method="LP", dataset="birds")
    drawn = whole().detail(method="LP", against="BR").figures()
    assert "Ratio of losses" in drawn


def test_a_name_is_found_as_it_is_shown():
    c, name = nasty(), NASTY[3]
    assert c.detail(method=terminal(name)).to_html() == c.detail(method=name).to_html()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({}, "must be of a method"),
        ({"against": "BR"}, "must be of a method"),
        ({"method": "BR", "dataset": "yeast", "against": "CC"}, "must be of a method"),
        ({"method": "nobody"}, "has no method 'nobody'; it has"),
        ({"dataset": "\x1b"}, "has no dataset '␛'"),
        ({"method": "BR", "against": "BR"}, "needs two methods"),
    ],
)
def test_what_is_not_there_is_refused(asked, says):
    with pytest.raises((ValueError, IncomparableRunsError), match=says):
        published(stability=500).detail(**asked)


def test_what_a_policy_supplied_has_a_star_wherever_it_stands():
    c = published()
    dataset, method = c.study.filled[0]
    value = f"{c.study.cells('accuracy').loc[dataset, method]:.4f}*"
    for asked in ({"dataset": dataset}, {"method": method}):
        text = c.detail(**asked).to_text()
        assert value in text and "* no result: the dataset's worst value" in text
    cell = c.detail(dataset=dataset, method=method).to_text()
    assert len(re.findall(r"\d\*", cell)) == len(c.study.measures)
    page = render(c, "html")
    stars = [f"{c.ranks.loc[cell]:.4g}*" for cell in c.study.filled]
    assert sorted(re.findall(r"<td[^>]*>([\d.]+\*)</td>", page)) == sorted(stars)
    alone = compare(c.study.select(datasets=[dataset]), on="f1")
    assert re.search(rf"{method} +0\.\d+\*", render(alone))


def _over_days(late: str = "") -> Study:
    """Two methods on eight datasets, one dataset a day; the one that is `late` came at the end."""
    names = [f"d{i}" for i in range(8)]
    rows = [
        {"dataset": d, "method": m, "f1": 0.5 + (0.1 + 0.01 * i) * (m == "good") + 0.02 * (i % 3)}
        for i, d in enumerate(names)
        for m in ("bad", "good")
    ]
    study = Study.from_frame(pd.DataFrame(rows))
    first = pd.Timestamp("2026-01-01 12:00", tz="UTC")
    runs = pd.DataFrame(study.values.reset_index()[["dataset", "method"]])
    days = [names.index(d) if m != late else 7 for d, m in runs.to_numpy()]
    started = [first + pd.Timedelta(days=day) for day in days]
    ids = [f"run{i}" for i in range(len(runs))]
    return replace(study, runs=runs.assign(run_id=ids, start_time=started))


def test_over_time_tells_who_led_by_what_was_there_by_days_and_by_runs():
    c = compare(_over_days())
    days = over_time(c)
    assert [*days["n_datasets"]] == [*range(1, 9)] and {*days["leader"]} == {"good"}
    assert days["best_set"].iloc[0] == ["good", "bad"]  # one dataset tells nobody apart
    assert days["best_set"].iloc[-1] == c.best_set == ["good"]
    page = fragment(over_time_section(c))
    assert "Who led over time" in page
    then = over_time(c, 4)  # a dataset has two runs
    assert [*then["moment"]] == ["run 4", "run 8", "run 12", "run 16"]
    assert [*then["n_datasets"]] == [2, 4, 6, 8] and {*then["leader"]} == {"good"}
    assert then["best_set"].iloc[-1] == c.best_set
    assert len(over_time(c, 1)) == 8 == over_time(c, 1)["n_datasets"].iloc[-1]  # the last of 16
    page = fragment(over_time_section(c, 4))
    assert "run 16: good" in page
    page = fragment(section(c, "method", method="good", base="../"))
    assert page.count("run1") >= 1 and ">Runs<" in page and "run0<" not in page
    assert ">Runs<" not in fragment(section(c, "method", method="good"))


def test_over_time_needs_several_days_on_which_there_was_something_to_compare():
    c = compare(_over_days(late="bad"))
    assert over_time(c)["n_datasets"].tolist() == [8]  # before there was one method only
    assert "too little was there" in fragment(over_time_section(c))
    study = _over_days()
    at_once = study.runs.assign(start_time=study.runs["start_time"].max())
    assert over_time_section(compare(replace(study, runs=at_once))) is None
    assert over_time_section(compare(replace(study, runs=pd.DataFrame()))) is None


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
    assert "is both better and cheaper than waste; of " in said and said.endswith(" cheaper.")
    page = render(c, "html")
    assert "Cost beside quality" in page and "net flow φ by f1 against fit_time" in page
    assert c.report().to_dict()["cost"]["name"] == "fit_time"


def test_few_datasets_leave_the_frontier_open_and_no_cost_leaves_it_out():
    few = compare(load_study(results(3)))
    assert set(frontier(few).table["place"]) == {"open"}
    assert plain(cost_sentence(frontier(few))).startswith("By fit_time: of ")
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
