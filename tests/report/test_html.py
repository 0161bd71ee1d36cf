"""The HTML report as text: complete, self-contained, in order, and with every stranger's name as
text.
"""

import base64
import hashlib
import json
import re

import numpy as np
import pytest
from html_pages import Page, render, study_page
from report_cases import NASTY, PROVENANCE, fold_study, nasty, published, published_study, study_of
from report_cases import render as rendered

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.report.blocks import plain
from mlflow_mleval.report.content.decision import verdict
from mlflow_mleval.report.text import terminal


def test_the_answer_comes_first_and_all_of_it():
    page = Page(study_page())
    c = published(stability=500)
    keys = [attrs["id"] for tag, attrs in page.elements if tag == "details" and "id" in attrs]
    assert keys == [
        *("decision", "doubts", "ranking", "datasets", "units", "what-if", "evidence", "verdict"),
        *("differences", "measures", "stability", "provenance"),
    ]
    assert opened(page) == ["decision", "ranking", "datasets"]
    for sentence in verdict(c)[1:]:
        assert plain(sentence.text) in page.section("verdict")
    for doubt in c.doubts:
        assert doubt[1:] in page.section("doubts")
    for method in c.study.methods:
        assert method in page.section("ranking")
    places = [page.section("ranking").index(method) for method in ("RF-PCT", "BR", "HOMER")]
    assert places == sorted(places)


def test_a_heat_map_holds_each_method_on_each_dataset():
    """Ranks of what is fused, values of one measure; the better on a dataset, the stronger."""

    def tones(page):
        return [int(a["data-tone"]) for _, a in page.elements if "data-tone" in a]

    study, fused = published_study(), Page(study_page())
    assert len(tones(fused)) == len(study.methods) * len(study.datasets)
    assert "Rank on each dataset" in fused.section("datasets")
    study = study_of(5, 12, gap=0.02)
    page, values = Page(render(compare(study, on="hamming_loss"))), study.cells("hamming_loss")
    one, ranks, shown = page.section("datasets"), values.rank(axis=1).to_numpy(), tones(page)
    assert "hamming_loss ↓ on each dataset" in one and all(d in one for d in values.index)
    assert (shown.count(9), shown.count(1)) == ((ranks == 1).sum(), (ranks == 5).sum())
    assert "doubts" not in page.sections and opened(page) == ["decision", "ranking", "datasets"]


def opened(page: Page) -> list[str]:
    """Sections that are open from the start."""
    return [
        attrs["id"]
        for _, attrs in page.elements
        if "section" in attrs.get("class", "") and "open" in attrs
    ]


def words_of_prose(html: str) -> int:
    """Words outside tables, figures, buttons and what is to be copied."""
    apart = "head|script|style|table|svg|pre|button|summary"
    text = re.sub(rf"(?s)<({apart})\b.*?</\1>|<[^>]+>", " ", html)
    return len(text.split())


def test_a_report_is_read_in_minutes():
    """Six methods on two datasets with ten folds: 5,416 words once."""
    names, rng = ["forest", "boosting", "svm", "knn", "tree", "bayes"], np.random.default_rng(1)
    shifts = {name: tuple(0.03 * rng.standard_normal(3)) for name in names}
    known = {"split_digest": "abc", "n_train": 90, "n_test": 10}
    measures, on = ("precision", "recall", "accuracy"), ("birds", "flags")
    found = compare(fold_study(shifts, measures, datasets=on, **known), stability=100, rope=0.01)
    assert 500 < words_of_prose(render(found)) <= 1_100
    assert words_of_prose(study_page()) <= 1_000


def test_names_in_tables_say_what_they_name():
    elements, study = Page(study_page()).elements, published_study()
    for what, names in (("method", study.methods), ("dataset", study.datasets)):
        assert {a[f"data-{what}"] for _, a in elements if f"data-{what}" in a} == {*names}


def test_at_most_four_significant_digits():
    page = Page(study_page())
    shown = "  ".join(t for key in {*page.sections} - {"provenance"} for t in page.sections[key])
    numbers = re.findall(r"(?<![\w.-])\d*\.\d+(?![\w.])", shown)
    assert not [n for n in numbers if len(n.replace(".", "").lstrip("0")) > 4]


def test_provenance_reproduces_the_report():
    section = Page(study_page()).section("provenance")
    for value in (PROVENANCE["command"], "sqlite:///mlflow.db", "2 runs of madjarov2012"):
        assert value in section
    assert "worst value that any method reached there" in section
    assert "500 draws, seed 0" in section
    made = json.loads(rendered(published(), "json"))["provenance"]
    assert made["run_ids"] == PROVENANCE["run_ids"] and made["versions"]["python"] == "3.11.2"
    assert not any(run_id in study_page() for run_id in PROVENANCE["run_ids"])


def test_nothing_is_fetched_and_nothing_navigates():
    html = study_page()
    elements = Page(html).elements
    navigating = {"a", "img", "iframe", "object", "embed", "form", "base"}
    assert not navigating & {tag for tag, _ in elements}
    names = {name for tag, attrs in elements if tag != "link" for name in attrs}
    assert not {"src", "srcdoc", "action", "href", "xlink:href"} & names
    assert not [name for _, attrs in elements for name in attrs if name.startswith("on")]
    expected = ["http://www.w3.org/2000/svg"] * html.count("<svg xmlns")
    assert re.findall(r"https?://[^\"'<> ]+", html) == expected
    assert not re.search(r"@import|url\(|localStorage|fetch\(|window\.open|location", html)


def test_the_policy_lets_only_our_script_run():
    page = Page(study_page())
    data, script = page.scripts
    assert json.loads(data)["measures"] == published().study.measures
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    metas = [attrs for tag, attrs in page.elements if tag == "meta"]
    named = "Content-Security-Policy"
    (policy,) = [meta["content"] for meta in metas if meta.get("http-equiv") == named]
    assert f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy


def test_hostile_names_are_text_everywhere():
    benign = Page(study_page())
    command = "mleval report -n '</script><script>alert(1)</script>'"
    raw = render(nasty(stability=50), command=command, experiments=NASTY)
    hostile = Page(raw)
    assert {t for t, _ in hostile.elements} <= {t for t, _ in benign.elements}
    expected = {a for _, attrs in benign.elements for a in attrs}
    assert {a for _, attrs in hostile.elements for a in attrs} <= expected
    assert len([t for t, _ in hostile.elements if t == "script"]) == 2
    for name in NASTY[:-2]:
        assert terminal(name) in " ".join(hostile.pieces), name
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", raw)
    # what is cut in the middle is whole in a tooltip
    tips = {attrs.get("title") for tag, attrs in hostile.elements if tag == "bdi"}
    assert "run-" + "x" * 300 in tips
    named = {a["data-method"] for _, a in hostile.elements if "data-method" in a}
    assert named == {*map(terminal, NASTY)}


@pytest.mark.parametrize("missing", ["worst", "drop-datasets", "drop-methods"])
def test_every_policy_has_its_page(missing):
    page = Page(render(compare(published_study(missing))))
    assert f"policy {missing}" in page.section("provenance")


def test_each_of_many_rows_can_be_told():
    names = [f"classifier_with_a_long_name_{i:03d}_and_the_same_end" for i in range(180)]
    html = render(compare(study_of(180, 41, gap=0.001, names=names)))
    table = html.partition('<table data-key="ranking"')[2].partition("</table>")[0]
    shown = re.findall(r'<bdi class="name" title="([^"]+)"[^>]*>([^<]+)</bdi>', table)
    assert {whole for whole, _ in shown} == set(names) and len(shown) == 180
    assert len({short for _, short in shown}) == 180
    assert table.count('class="more"') + table.count("shaded more") == 120
    assert html.count("all 180 methods") == 1 and len(html) < 2_500_000


def test_four_hundred_methods_are_summarised():
    html = render(compare(study_of(400, 6, gap=0.001)))
    page = Page(html)
    assert "The first 300 of 400 methods" in page.section("ranking")
    assert "The best 30 of 400 methods are shown" in page.section("differences")
    assert len(html) < 1_000_000


def test_the_page_is_small_and_the_same_each_time():
    html = study_page()
    assert len(html.encode()) < 400_000
    assert html == render(published(stability=500))


def test_methods_that_come_out_alike_and_many_methods_have_a_page():
    alike = compare(study_of(3, 6, decimals=1), stability=20)
    assert "come out alike." in Page(render(alike)).text
    assert "30 methods compared" in Page(render(compare(study_of(30, 5), stability=20))).text
