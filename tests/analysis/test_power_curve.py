"""Power against the number of datasets: it is that of the deciding test, and its uncertainty is
told.
"""

import numpy as np
import pandas as pd
import pytest
from report_cases import study_of

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.planning import paired_power, power_curve
from mlflow_mleval.analysis.posthoc.max_t import level_of_a_pair, max_t
from mlflow_mleval.report.blocks import plain


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
