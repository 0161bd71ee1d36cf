"""The HTML report in a real browser: narrow and wide, by day, by night and in MLflow's sandbox."""

import base64
import html
import json
import re
from functools import cache

import pytest
import report_cases
import run_report_cases
from browser_scripts import CONTRAST, OPEN_ALL, TEXTS
from html_pages import render, study_page
from report_cases import NASTY, fold_study, nasty, published, study_of, three_methods
from report_cases import render as rendered

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.loss_profiles import compare_profiles
from mlflow_mleval.report.content.run import document
from mlflow_mleval.report.text import terminal

pytestmark = pytest.mark.browser
MANY = [f"method_with_a_long_name_{i}" for i in range(35)]
LONG = [
    f"run_2025-11-{i:02d}_transformer_large_with_a_very_long_configuration_name_lr0.001_bs{i}"
    for i in range(9)
]


@cache
def hostile_page() -> str:
    return render(nasty(stability=50), experiments=NASTY)


@cache
def long_page() -> str:
    study = study_of(9, 14, gap=0.004, names=LONG, measures=("f1", "hamming_loss", "recall"))
    return render(compare(study, stability=50))


def about_folds() -> list[str]:
    many = {name: (0.004 * i, -0.003 * i, 0.001 * i) for i, name in enumerate(MANY)}
    of_many = fold_study(many, ("precision", "recall", "f1"), split_digest="x")
    hostile = fold_study({name: (0.02 * i, -0.01 * i) for i, name in enumerate(NASTY)})
    studies = (three_methods(), of_many, hostile)
    return [compare(s, rope=0.01, seed=0).report().to_html() for s in studies]


def about_profiles() -> list[str]:
    behaviour = {name: (1 - 0.015 * i, 0.1 + 0.01 * i) for i, name in enumerate(MANY)}
    many = compare_profiles(report_cases.profiles({"d": 9, "e": 5}, behaviour, n=60))
    _, hostile = report_cases.hostile()
    return [found.report().to_html() for found in (report_cases.compared(), hostile, many)]


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


def of_studies() -> list[str]:
    study = study_of(30, 12, gap=0.002, measures=("f1", "hamming_loss", "recall"))
    return [study_page(), long_page(), render(compare(study, stability=20))]


#: What makes the pages, and where on each of them a drawing stands at least.
PAGES = {
    "study": (cache(of_studies), "figure svg"),
    "folds": (cache(about_folds), "#folds figure svg"),
    "profiles": (cache(about_profiles), "#profiles figure svg"),
    "run": (cache(of_a_run), None),
    "hostile": (cache(lambda: [hostile_page()]), None),
}


@pytest.mark.parametrize("width", [320, 600, 1400])
@pytest.mark.parametrize("about", PAGES)
def test_no_label_is_cut_or_covered_and_nothing_scrolls_sideways(show, about, width):
    pages, drawings = PAGES[about]
    for page in pages():
        browser = show(page, width)
        browser.execute_script(OPEN_ALL)
        assert browser.execute_script("return document.scrollingElement.scrollWidth") <= width
        if drawings:
            assert browser.find_elements("css selector", drawings)
        if width >= 600 and about != "hostile":
            assert browser.execute_script(TEXTS) == []


def test_at_600_pixels_type_in_figures_is_readable_and_the_ranking_fits(show):
    chrome = show(study_page(), 600)
    box = "document.querySelector('.ranking .scroll')"
    assert chrome.execute_script(f"return {box}.scrollWidth - {box}.clientWidth") <= 0
    chrome.execute_script(OPEN_ALL)
    sizes = chrome.execute_script(
        "return [...document.querySelectorAll('figure svg')].flatMap(s => "
        "[...s.querySelectorAll('text')].map(t =>"
        " parseFloat(getComputedStyle(t).fontSize) * s.getBoundingClientRect().width / "
        "s.viewBox.baseVal.width))"
    )
    assert min(sizes) >= 11 and max(sizes) <= 13


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("about", PAGES)
def test_every_text_stands_out_from_what_lies_under_it(show, about, scheme):
    pages, _ = PAGES[about]
    chrome = show(pages()[0], 600 if about != "study" else 1400, scheme)
    chrome.execute_script(OPEN_ALL)
    white = "return getComputedStyle(document.body).backgroundColor == 'rgb(255, 255, 255)'"
    assert chrome.execute_script(white) == (scheme == "light")
    assert chrome.execute_script(CONTRAST) == []


def test_names_in_tables_never_wrap_and_those_in_the_verdict_move_as_a_whole(show):
    chrome = show(long_page(), 600)
    chrome.execute_script(OPEN_ALL)
    names = "return [...document.querySelectorAll(arguments[0])]"
    in_tables = "th .name, td:not(.wrap) .name"
    lines = chrome.execute_script(f"{names}.map(n => n.getClientRects().length)", in_tables)
    assert 1 in lines and set(lines) <= {0, 1}  # 0: in a row that is not shown
    long = ["alpha-beta-gamma-delta", "one-two-three-four-five", "x-y-z", "long-name-with-hyphens"]
    chrome = show(render(compare(study_of(4, 8, gap=0.02, names=long))), 420)
    height = "getBoundingClientRect().height"
    heights = chrome.execute_script(f"{names}.map(n => n.{height})", ".decision .name")
    assert heights and max(heights) < 40


@pytest.mark.parametrize(("width", "height"), [(360, 740), (800, 900), (1400, 900)])
def test_the_first_screen_holds_decision_doubts_and_ranking(show, width, height):
    """Without scrolling; the plot of the pair, too, where the screen is not narrow."""
    chrome = show(study_page(), width)
    bottoms = (
        "return [...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility())"
        ".map(e => e.getBoundingClientRect().bottom)"
    )
    for selector, number in {
        "#decision .verdict": 1,
        "#decision .asked > p": 2,
        "#decision .forest": int(width > 700),
        "#doubts > summary .hint": 1,
        "#ranking table[data-key=ranking] tbody tr": 12,
        "#ranking tbody circle[r='4.5']": 12,
    }.items():
        found = chrome.execute_script(bottoms, selector)
        assert len(found) == number and all(bottom <= height for bottom in found), selector
    if width <= 700:
        chrome.find_element("css selector", "#decision .plot > summary").click()
        assert chrome.find_element("css selector", "#decision .forest").is_displayed()


def test_wide_pages_have_the_ranking_beside_the_decision_and_sections_fold(show):
    def left_of(chrome):
        left = "document.getElementById(id).getBoundingClientRect().left"
        return chrome.execute_script(f"return ['decision', 'ranking'].map(id => {left})")

    a, b = left_of(show(study_page(), 1400))
    assert b > a + 400
    chrome = show(study_page(), 600)
    a, b = left_of(chrome)
    assert a == b
    sections = "[...document.querySelectorAll('details.section')]"
    opened = f"return {sections}.filter(d => d.open).map(d => d.id)"
    assert chrome.execute_script(opened) == ["decision", "ranking", "datasets"]
    for key in ("evidence", "verdict"):
        chrome.find_element("css selector", f"#{key} > summary").click()
    assert chrome.execute_script(opened)[3:] == ["evidence", "verdict"]
    assert chrome.find_element("css selector", "#verdict .body").is_displayed()


def test_the_answer_can_be_copied_as_text(show):
    from selenium.webdriver.common.keys import Keys

    chrome = show(study_page(), 800)
    chrome.find_element("css selector", "button.copy").click()
    assert chrome.find_element("css selector", "button.copy").text == "Copied ✓"
    area = "const a = document.createElement('textarea'); document.body.append(a); a.focus()"
    chrome.execute_script(area)
    chrome.switch_to.active_element.send_keys(Keys.CONTROL, "v")
    pasted = chrome.execute_script("return document.activeElement.value")
    assert pasted == rendered(published(stability=500), "text")


def test_paper_has_the_answer_with_its_plot_and_doubts_and_what_was_opened(show, until):
    chrome = show(study_page(), 600)
    shown = """const seen = part => part?.checkVisibility();
        return [...document.querySelectorAll("main .section, .plot")]
        .filter(part => seen(part) && seen(part.querySelector("li, p, table, svg")))
        .map(part => part.id || "plot")"""
    before = chrome.execute_script(shown)
    paper = chrome.execute_cdp_cmd("Page.printToPDF", {})["data"]
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(paper))) <= 3
    assert chrome.execute_script(shown) == before
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        chrome.execute_script("dispatchEvent(new Event('beforeprint'))")
        answer = ["decision", "plot", "doubts", "ranking", "datasets"]
        assert chrome.execute_script(shown) == answer
        seen = "[...document.querySelectorAll('h2')].filter(e => e.checkVisibility())"
        headings = chrome.execute_script(f"return {seen}.length")
        assert headings == 2  # doubts, and the ranks on each dataset
        keys = "['evidence', 'stability']"
        opening = f"for (const key of {keys}) document.getElementById(key).open = true"
        chrome.execute_script(opening)
        assert chrome.execute_script(shown) == [*answer, "stability"]
        chrome.execute_script("dispatchEvent(new Event('afterprint'))")
    finally:
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    chrome.execute_script(opening.replace("true", "false"))
    until(lambda d: d.execute_script(shown) == before, "the page as it was")


def test_nothing_is_fetched_and_nothing_complains(show):
    for page in (study_page(), hostile_page()):
        chrome = show(page)
        chrome.execute_script(OPEN_ALL)
        asked = [json.loads(entry["message"])["message"] for entry in chrome.get_log("performance")]
        sent = [m["params"] for m in asked if m["method"] == "Network.requestWillBeSent"]
        urls = {params["request"]["url"] for params in sent}
        assert {url.split(":")[0] for url in urls} <= {"file", "data"}
        assert sum(url.startswith("file") for url in urls) == 1
        assert chrome.get_log("browser") == []


def test_hostile_names_run_nothing_and_read_as_text(show):
    from selenium.common.exceptions import NoAlertPresentException

    chrome = show(hostile_page())
    chrome.execute_script(OPEN_ALL)
    with pytest.raises(NoAlertPresentException):
        _ = chrome.switch_to.alert.text
    assert chrome.execute_script("return document.scripts.length") == 2
    found = chrome.execute_script(
        "return document.querySelectorAll('img,iframe,a,input:not(.weights *, .all *)').length"
    )
    assert found == 0
    seen = chrome.execute_script("return document.body.textContent")
    for name in NASTY[:-2]:
        assert terminal(name) in seen
    assert "{0} %s {}" in seen and "49" not in chrome.title


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_works_in_the_sandbox_of_mlflow(show, scheme):
    frame = (
        '<iframe sandbox="allow-scripts" width="600" height="880" srcdoc='
        f'"{html.escape(study_page())}"></iframe>'
    )
    chrome = show(f"<!doctype html>{frame}", 640, scheme)
    chrome.switch_to.frame(0)
    try:
        assert chrome.execute_script("return self.origin") == "null"
        chrome.find_element("css selector", "#evidence > summary").click()
        chrome.find_element("css selector", "#differences > summary").click()
        assert chrome.execute_script("return document.getElementById('differences').open")
        assert chrome.execute_script("return document.scrollingElement.scrollWidth <= innerWidth")
        assert "RF-PCT" in chrome.find_element("id", "decision").text
        chrome.find_element("css selector", "#what-if > summary").click()
        chrome.find_element("css selector", ".weights input[type=checkbox]").click()
        told = chrome.find_element("css selector", ".weights .moved").text
        assert "These are not the weights of this report" in told
    finally:
        chrome.switch_to.default_content()
    assert chrome.get_log("browser") == []
