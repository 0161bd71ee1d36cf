"""Sections and reports in a real browser: nothing is cut, covered, pale or wider than the page,
however long and odd the names are.
"""

from functools import cache

import profile_cases
import pytest
import run_report_cases
from browser_scripts import CONTRAST, OPEN_ALL, TEXTS
from fold_cases import fold_study, three_methods
from report_cases import NASTY

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.loss_profiles import compare_profiles
from mlflow_mleval.report.content.run import document

pytestmark = pytest.mark.browser
MANY = [f"method_with_a_long_name_{i}" for i in range(35)]


def about_folds() -> list[str]:
    many = {name: (0.004 * i, -0.003 * i, 0.001 * i) for i, name in enumerate(MANY)}
    hostile = {name: (0.02 * i, -0.01 * i) for i, name in enumerate(NASTY)}
    studies = (
        three_methods(),
        fold_study(many, ("precision", "recall", "f1"), split_digest="x"),
        fold_study(hostile),
    )
    return [compare(s, rope=0.01, seed=0).report().to_html() for s in studies]


def about_profiles() -> list[str]:
    behaviour = {name: (1 - 0.015 * i, 0.1 + 0.01 * i) for i, name in enumerate(MANY)}
    many = compare_profiles(profile_cases.profiles({"d": 9, "e": 5}, behaviour, n=60))
    _, hostile = profile_cases.hostile()
    return [found.report().to_html() for found in (profile_cases.compared(), hostile, many)]


def of_a_run() -> list[str]:
    names = [f"a very long label name that nobody would type twice, number {i}" for i in range(120)]
    reports = (
        run_report_cases.example(measures="micro_ap"),
        run_report_cases.example(k=120, names=names, measures="ece_10"),
        run_report_cases.example(k=2, folds=2),
        run_report_cases.hierarchical(),
        run_report_cases.nasty(),
    )
    return [document(report).to_html() for report in reports]


#: What makes the pages, and where on each of them three drawings stand at least.
PAGES = {
    "folds": (cache(about_folds), "#folds figure svg"),
    "profiles": (cache(about_profiles), "#profiles figure svg"),
    "run": (cache(of_a_run), None),
}


@pytest.mark.parametrize("width", [320, 600, 1400])
@pytest.mark.parametrize("about", PAGES)
def test_no_label_is_cut_or_covered_and_nothing_scrolls_sideways(show, about, width):
    pages, drawings = PAGES[about]
    for page in pages():
        browser = show(page, width)
        browser.execute_script(OPEN_ALL)
        assert browser.execute_script("return document.scrollingElement.scrollWidth") <= width
        assert browser.get_log("browser") == []
        if drawings:
            assert len(browser.find_elements("css selector", drawings)) >= 3
        if width >= 600:
            assert browser.execute_script(TEXTS) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("about", PAGES)
def test_every_text_stands_out(show, about, scheme):
    pages, _ = PAGES[about]
    browser = show(pages()[0], 600, scheme)
    browser.execute_script(OPEN_ALL)
    assert browser.execute_script(CONTRAST) == []
