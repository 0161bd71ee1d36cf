"""Weights as sliders in a real browser: the page ranks as `compare` does, and goes back."""

import numpy as np
import pandas as pd
import pytest
from report_cases import published, render, study_of

from mlflow_mleval.analysis.comparison import Comparison, compare
from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.report.text import fixed
from mlflow_mleval.study import Study

pytestmark = pytest.mark.browser

#: Puts sliders at steps as a hand does (null: the measure is switched off, true: the slider stays),
#: and reads the table.
SET = """
document.getElementById("what-if").open = true;
const [steps, settle] = arguments, fire = (e, kind) => e.dispatchEvent(new Event(kind, {bubbles: true}));
const sliders = [...document.querySelectorAll(".weights input[type=range]")];
const boxes = [...document.querySelectorAll(".weights input[type=checkbox]")];
document.querySelector(".weights .moved button").click();
steps.forEach((step, j) => { if (step === null) boxes[j].click(); });
steps.forEach((step, j) => { if (typeof step === "number") { sliders[j].value = step; fire(sliders[j], "input"); } });
if (settle) fire(sliders[0], "change");
"""  # noqa: E501
READ = """
const table = document.querySelector("table[data-key=ranking]"), keys = [...table.tHead.rows[0].cells].map(h => h.dataset.key);
const numbers = [...document.querySelector("table[data-key=ranks]")?.tBodies[0].rows ?? []];
return [...table.tBodies[0].rows].map((row, i) => ({
  method: row.querySelector("[data-method]").dataset.method, first: row.classList.contains("first"),
  ...Object.fromEntries(keys.map((key, i) => [key, row.cells[i].textContent]).filter(([key]) => key)),
  ranks: numbers[i] && [numbers[i].cells[0].textContent, ...[...numbers[i].cells].slice(1).map(c => parseFloat(c.textContent))],
}));"""  # noqa: E501
SAID = """
const shown = e => e.checkVisibility() ? e.textContent.trim() : "", at = name => document.querySelector(".weights " + name);
return {moved: shown(at(".moved")), news: at(".news").textContent};"""  # noqa: E501
LISTEN = "addEventListener('mleval:weights', e => (window.told ??= []).push(e.detail))"
TOLD = "return window.told.at(-1)"


def tied(missing: str = "worst") -> Study:
    """Many ties, a measure that is constant on one dataset, and cells without results."""
    values = np.random.default_rng(4).integers(0, 4, (30, 4)) / 10
    frame = pd.DataFrame(values, columns=[*"abcd"])
    frame["dataset"] = [f"d{i // 6}" for i in range(30)]
    frame["method"] = [f"m{i % 6}" for i in range(30)]
    frame.loc[frame["dataset"] == "d1", "c"] = 0.5
    frame.loc[[3, 14], [*"abcd"]] = np.nan
    frame.loc[20, "b"] = np.nan
    return Study.from_frame(frame, minimize=["b"], maximize="acd", missing=missing)


def agrees(shown: list[dict], c: Comparison, settled: bool = True) -> None:
    """The rows on the page are those of the comparison."""
    ranking = c.ranking
    assert [row["method"] for row in shown] == ranking["method"].tolist()
    assert [int(row["position"]) for row in shown] == ranking["position"].tolist()
    assert [row["phi"] for row in shown] == [fixed(x, 3) for x in ranking["phi"]]
    assert [row["first"] for row in shown] == [i == 0 for i in range(len(shown))]
    for row in shown:
        ranks = c.ranks[row["method"]].tolist()
        if settled:
            assert row["ranks"] == [row["method"], *ranks]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weights": {"a": 1, "b": 2, "c": 5, "d": 1}, "drop_constant": True},
        {"weights": "equal", "preference": "usual"},
        {"preference": "level", "drop_constant": True},
    ],
    ids=str,
)
def test_the_page_ranks_as_compare_does(show, options):
    study, rng = tied(), np.random.default_rng(1)
    c = compare(fuse(study, **options))
    chrome = show(render(c, "html"))
    before = chrome.execute_script(READ)
    agrees(before, c)
    chrome.execute_script(LISTEN)
    drawn = rng.choice(np.array([None, 40, 80, 80, 200], object), (3, 4)).tolist()
    for steps in ([True, None, True, None], [90] * 4, *drawn):
        chrome.execute_script(SET, steps, True)
        said, told = chrome.execute_script(SAID), chrome.execute_script(TOLD)
        weights, without = told["weights"], told["exclude"]
        assert without == [m for m, step in zip("abcd", steps, strict=True) if step is None]
        expected = steps[0] is True and not isinstance(options.get("weights"), dict)
        assert (weights == {}) == expected
        chosen = options | ({"weights": weights} if weights else {})
        again = compare(fuse(study.select(exclude=without), **chosen))
        agrees(chrome.execute_script(READ), again)
        assert said["news"].startswith(
            f"With these weights {again.leader} ({fixed(again.ranking['phi'][0], 3)}) leads"
        )
    chrome.execute_script(SET, [], True)
    assert chrome.execute_script(READ) == before
    assert chrome.get_log("browser") == []


AXIS = """
const line = document.querySelector("figure line.decision-axis"), at = key => line[key].baseVal.value;
return [at("x2") - at("x1"), at("y1") - at("y2")];"""  # noqa: E501


@pytest.fixture
def page(show):
    """The page about `tied`, its sliders in sight."""
    chrome = show(render(compare(tied()), "html"))
    chrome.find_element("css selector", "#what-if > summary").click()
    return chrome


def test_the_decision_axis_points_where_the_weights_lie(page):
    plane = compare(tied()).plane
    before = page.execute_script(AXIS)
    page.execute_script(LISTEN)
    for steps in ([200, 30, 30, 30], [50, 50, 180, None]):
        page.execute_script(SET, steps, True)
        weights = pd.Series(page.execute_script(TOLD)["weights"])
        wanted = weights @ plane.measures.loc[weights.index].to_numpy()
        found = np.array(page.execute_script(AXIS))
        assert found / np.hypot(*found) == pytest.approx(wanted / np.hypot(*wanted), abs=0.01)
    page.execute_script(SET, [], True)
    assert page.execute_script(AXIS) == before


def test_the_page_says_what_belongs_to_which_weights(page):
    said = page.execute_script(SAID)
    assert said == {"moved": "", "news": ""}
    page.execute_script(LISTEN)
    slider = page.find_element("css selector", ".weights li:nth-child(3) input[type=range]")
    slider.send_keys("\ue014")  # the arrow to the right: the keyboard moves it by a step
    said = page.execute_script(SAID)
    assert "tests and doubts belong to those" in said["moved"]
    assert said["news"].startswith("With these weights")
    told = page.execute_script(TOLD)
    assert {*told["weights"]} == {*"abcd"} and not told["own"] and told["exclude"] == []
    for number in range(1, 4):
        box = f".weights li:nth-child({number}) input[type=checkbox]"
        page.find_element("css selector", box).click()
    last = page.find_element("css selector", ".weights li:nth-child(4) input[type=checkbox]")
    assert not last.is_enabled()
    assert page.find_element("css selector", ".weights li:nth-child(4) output").text == "100.0%"
    assert page.execute_script(TOLD)["exclude"] == [*"abc"]
    page.find_element("css selector", ".weights .moved button").click()
    said = {"moved": "", "news": "The ranking is that of the report."}
    assert page.execute_script(SAID) == said
    told = page.execute_script(TOLD)
    assert told == {"own": True, "weights": {}, "exclude": []}
    assert page.execute_script("return document.querySelector('table.moved')") is None


def test_paper_shows_the_weights_of_the_report(page):
    own = page.execute_script(READ)
    page.execute_script(SET, [150, None, 30, 30], True)
    moved = page.execute_script(READ)
    page.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert page.execute_script(READ)[0]["phi"] == own[0]["phi"] != moved[0]["phi"]
    page.execute_script("dispatchEvent(new Event('afterprint'))")
    assert page.execute_script(READ) == moved
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert not page.find_element("css selector", ".weights").is_displayed()
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_ranks_that_the_tests_left_are_stale(show):
    page = show(render(published(), "html"))
    page.execute_script(SET, [150], False)
    stale = "return [...document.querySelectorAll('table.moved .stale')].map(c => c.cellIndex)"
    assert set(page.execute_script(stale)) == {4}


DIMMED = (
    "return [...document.querySelectorAll('.stale:not(td)')].map(e => e.closest('.section').id)"
)


def test_what_is_stale_is_dimmed_while_a_slider_moves(page):
    page.execute_script(SET, [150, None, 30, 30], False)
    dimmed = page.execute_script(DIMMED)
    assert {"decision", "differences"} <= {*dimmed} and "what-if" not in dimmed
    page.execute_script(SET, [], True)
    assert page.execute_script(DIMMED) == []


def test_what_is_too_large_says_so_and_what_cannot_be_weighed_has_none(monkeypatch):
    two = compare(study_of(3, 2))
    page, others = render(two, "html"), [render(two, format) for format in ("md", "latex", "table")]
    assert 'class="weights"' in page and not any("What if" in text for text in others)
    with monkeypatch.context() as patch:
        patch.setattr("mlflow_mleval.report.content.ranking.SLIDERS_FLOWS", 11)
        many = render(two, "html")
    assert "at most 100 methods, 60 measures and 11 net flows." in many
    assert 'class="weights"' not in many
    for c in (compare(study_of(3, 2, measures=("f1",))), compare(study_of(3, 2), on="f1")):
        assert "cannot be moved" not in render(c, "html")
        assert 'class="weights"' not in render(c, "html")
