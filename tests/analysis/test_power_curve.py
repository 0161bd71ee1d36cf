"""Power against the number of datasets: it is that of the deciding test, and its uncertainty is
told.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fold_cases import fold_study
from report_cases import study_of

from mlflow_mleval.analysis.beyond_pvalues import flows_by_run
from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.analysis.planning import paired_power, power_curve
from mlflow_mleval.analysis.posthoc.max_t import level_of_a_pair, max_t
from mlflow_mleval.report.blocks import plain
from mlflow_mleval.study import Study


def test_the_power_is_that_of_max_t():
    rng = np.random.default_rng(0)
    level = level_of_a_pair(pd.DataFrame(rng.normal(size=(400, 5))))
    assert 0.05 / 10 < level < 0.05
    found = []
    for _ in range(120):
        x = rng.normal(size=(20, 5))
        x[:, 0] += 0.8 * np.sqrt(2)
        found.append(max_t(pd.DataFrame(x), n_resamples=299).table["significant"][0])
    assert np.mean(found) == pytest.approx(float(paired_power(0.8, 20, alpha=level)), abs=0.12)


def test_a_curve_rises_to_what_it_takes_and_its_interval_holds_it():
    d = np.random.default_rng(0).normal(0.03, 0.04, 15)
    found = power_curve(d, ("x", "y"), level=0.01)
    assert (found.curve["power"].diff()[1:] >= 0).all()
    assert found.needed_low <= found.needed <= found.needed_high
    assert found.needed == np.ceil(found.needed)
    assert float(paired_power(found.effect, found.needed, alpha=0.01)) >= 0.8
    turned = power_curve(-d, ("x", "y"), level=0.01)
    assert (turned.method_a, turned.needed) == ("y", found.needed)
    assert power_curve(d, level=0.01, seed=0).curve.equals(found.curve)
    assert "no number of datasets would tell" in power_curve([1.0, -1.0, 2.0, -2.0]).sentence()
    with pytest.raises(ValueError, match="at least two values, got 1"):
        power_curve([0.1, np.nan])


def test_more_repeats_do_where_datasets_are_alike_and_not_where_they_differ():
    rng = np.random.default_rng(1)
    alike = power_curve(rng.normal(rng.normal(0.02, 0.005, (300, 1)), 0.05, (300, 4)), level=0.01)
    assert alike.needed < 300 and alike.sentence_on_more() == ""
    few = power_curve(
        rng.normal(rng.normal(0.02, 0.005, (12, 1)), 0.08, (12, 4)), level=0.01, least=6
    )
    assert few.needed > 12
    assert few.more.n == 4 < few.more.needed < np.inf
    assert few.more.needed_low <= few.more.needed
    assert (
        f"about {few.more.needed:.0f} repeats of each of the 12 datasets in place of 4"
        in few.sentence_on_more()
    )
    differ = power_curve(
        rng.normal(rng.normal(0.005, 0.02, (12, 1)), 0.01, (12, 4)), level=0.01, over="folds"
    )
    assert differ.more.needed == np.inf
    assert differ.more.share < 0.1
    assert differ.more.datasets <= differ.needed
    assert differ.sentence_on_more() == ""
    assert (differ.curve["limit"] >= differ.curve["power"]).all()


def test_the_repeats_that_it_takes_have_the_power():
    among, within, n = 0.01, 0.06, 12
    x = np.random.default_rng(0).normal(size=(n, 5))
    x = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, ddof=1, keepdims=True) * within
    centre = np.linspace(-1, 1, n)
    centre *= np.sqrt(among**2 + within**2 / 5) / centre.std(ddof=1)
    found = power_curve(x + (0.02 + centre)[:, None])
    assert found.more.share == pytest.approx(within**2 / 5 / (among**2 + within**2 / 5))
    powers = [
        paired_power(0.02 / np.sqrt(among**2 + within**2 / r), n)
        for r in (found.more.needed - 1, found.more.needed)
    ]
    assert powers[0] < 0.8 <= powers[1]


@pytest.mark.parametrize("kind", ["folds", "repeats"])
def test_flows_by_fold_or_repeat_are_those_of_their_values(kind):
    study = fold_study(
        {"a": (0.02, 0.0), "b": (0.0, 0.0), "c": (0.0, 0.03)}, n_folds=4, datasets=("x", "y")
    )
    by = study.folds
    study = study if kind == "folds" else replace(study, folds=None, repeats=by)
    linear = {"weights": "equal", "p": 1.0}  # then the flow of a mean is the mean of the flows
    found = flows_by_run(fuse(study, **linear), "a", "b")
    for dataset in ("x", "y"):
        each = [
            fuse(Study(by.xs(r, level="fold").loc[[dataset]], study.directions), **linear).phi.loc[
                dataset
            ]
            for r in range(4)
        ]
        assert found[dataset] == pytest.approx([phi["a"] - phi["b"] for phi in each])
    whole = fuse(study)
    gap = whole.phi["a"] - whole.phi["b"]
    assert {d: x.mean() for d, x in flows_by_run(whole, "a", "b").items()} == pytest.approx(
        gap.to_dict()
    )


def test_reports_say_whether_more_folds_would_do():
    shifts = {"a": (0.004, 0.004), "b": (0.0, 0.0), "c": (-0.1, -0.1)}
    c = compare(
        fold_study(shifts, datasets=tuple("stuvwxyz"), split_digest="s", n_train=90, n_test=10),
        rope=0.01,
        next_dataset=True,
    )
    assert c.beyond.curve.more.over == "folds" and c.next_dataset.curves["recall"].more.n == 10
    record = c.report().to_dict()
    assert c.beyond.curve.sentence_on_more() in record["beyond"]["sentences"]
    assert record["beyond"]["curve"]["more"]["needed"] == c.beyond.curve.more.needed
    assert "as many folds of each dataset as one likes" in c.report().to_html()


def test_reports_draw_it_and_say_it_in_words():
    c = compare(study_of(3, 12, gap=0.003), rope=0.01)
    assert c.beyond.curve.n == 12
    made = c.report()
    said = made.to_html()
    assert "How many datasets it takes" in said and "drawn again" in said
    assert "by step-down max-T with a chance of 80%" in plain(
        " ".join(made.to_dict()["beyond"]["sentences"])
    )
    assert made.to_dict()["beyond"]["curve"]["needed"] == c.beyond.curve.needed
