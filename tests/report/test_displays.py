"""Results on axes of matplotlib: what is drawn, in the order and on the side where it belongs."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from report_cases import compared, published, study_of

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.gate_tests import Differences, Terms, Verdict, gate_tests

pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _no_screen():
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def test_a_ranking_has_its_methods_best_first_with_intervals():
    c = published()
    display = c.plot()
    assert names(display.ax_) == c.order and display.figure_ is display.ax_.figure
    drawn = [line.get_xdata()[0] for line in display.ax_.get_lines()]
    assert drawn == c.flows.mean()[c.order].tolist() == sorted(drawn, reverse=True)
    assert len(display.ax_.collections) == len(c.order)
    top, bottom = display.ax_.get_ylim()[::-1]
    assert top < 0 < len(c.order) - 1 < bottom


def test_critical_differences_have_a_bar_over_what_is_not_separated():
    c = published(test="nemenyi")
    figure, ax = pyplot.subplots()
    display = c.plot("critical differences", ax=ax)
    assert display.ax_ is ax and display.figure_ is figure
    texts = [text.get_text().strip() for text in ax.texts]
    ranks = sorted(c.ranks.mean())
    ruler = f"critical difference {c.nemenyi.critical_difference:.2f}"
    assert {*texts} == {*c.order, *map("{:.2f}".format, ranks), ruler}
    bars = [line.get_xdata() for line in ax.get_lines() if line.get_linewidth() == 3]
    assert min(bar[0] for bar in bars) == pytest.approx(ranks[0], abs=0.1)
    display.figure_.canvas.draw()


def test_profiles_have_a_line_a_method():
    c = compared()
    ax = c.plot(dataset="scene").ax_
    assert {line.get_label() for line in ax.get_lines()} == {*c.methods_on("scene")}
    assert all(len(line.get_xdata()) == 6 for line in ax.get_lines())
    with pytest.raises(ValueError, match="`dataset` must be"):
        c.plot(dataset="none")


def test_a_forest_has_a_row_a_measure_with_its_margin():
    rng = np.random.default_rng(0)
    better = {"f1": rng.normal(0.2, 0.05, 30), "$x$": rng.normal(-0.2, 0.05, 30), "time": 1.0}
    tests = gate_tests(
        Differences(pd.DataFrame(better), means=True), Terms(margins={"f1": 0.01, "$x$": 0.02})
    )
    sides = {"candidate": "new", "champion": "old", "over": "folds"}
    verdict = Verdict(**sides, tests=tests, directions=dict.fromkeys(better, "max"))
    display = verdict.plot()
    assert names(display.ax_) == ["f1", r"\$x\$"]
    assert "1 without a margin" in display.ax_.get_xlabel()
    display.figure_.canvas.draw()


def test_errors_name_the_kinds():
    with pytest.raises(ValueError, match="`kind` must be .*critical differences.*got 'pie'"):
        compare(study_of(3, 6)).plot("pie")


def test_without_matplotlib_it_says_what_to_install():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import pandas as pd, mlflow_mleval as mleval\n"
        "board = pd.DataFrame({'d': [1, 2], 'e': [1, 2]}, ['a', 'b'])\n"
        "mleval.compare(mleval.Study.from_frame(board, maximize=['value'])).plot()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stderr.splitlines()[-1].endswith("Run: pip install matplotlib")
