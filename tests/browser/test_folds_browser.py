"""The sections about folds and beyond p-values in a real browser: nothing is cut, covered, pale or
wider than the page.
"""

import pytest
from browser_scripts import CONTRAST, OPEN_ALL, TEXTS
from fold_cases import fold_study, three_methods
from report_cases import NASTY

from mlflow_mleval.analysis.comparison import compare

pytestmark = pytest.mark.browser
MANY = {f"method_with_a_long_name_{i}": (0.004 * i, -0.003 * i, 0.001 * i) for i in range(35)}


@pytest.fixture(scope="module")
def pages() -> list[str]:
    nasty = {name: (0.02 * i, -0.01 * i) for i, name in enumerate(NASTY)}
    studies = (
        three_methods(),
        fold_study(MANY, ("precision", "recall", "f1"), split_digest="x"),
        fold_study(nasty),
    )
    return [compare(s, rope=0.01, seed=0).report().to_html() for s in studies]


@pytest.mark.parametrize("width", [320, 600, 1400])
def test_the_page_never_scrolls_sideways(show, pages, width):
    for page in pages:
        driver = show(page, width)
        driver.execute_script(OPEN_ALL)
        assert driver.execute_script("return document.scrollingElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [600, 1400])
def test_no_label_is_cut_or_covered(show, pages, width):
    for page in pages:
        driver = show(page, width)
        driver.execute_script(OPEN_ALL)
        assert (
            driver.execute_script("return document.querySelectorAll('#folds figure svg').length")
            >= 3
        )
        assert driver.execute_script(TEXTS) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out(show, pages, scheme):
    driver = show(pages[0], 600, scheme)
    driver.execute_script(OPEN_ALL)
    assert driver.execute_script(CONTRAST) == []
