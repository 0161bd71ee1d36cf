"""The HTML report as text: complete, self-contained, in order, and with every stranger's name as
text.
"""

import base64
import hashlib
import json
import re

import numpy as np
import pytest
from fold_cases import fold_study, three_methods
from html_pages import Page, render, study_page
from report_cases import NASTY, PROVENANCE, nasty, published, published_study, study_of
from report_cases import render as rendered

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.report.blocks import plain
from mlflow_mleval.report.content.decision import verdict
from mlflow_mleval.report.content.study_report import REFERENCES, bibliography
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
    assert (
        page.section("ranking").index("RF-PCT")
        < page.section("ranking").index("BR")
        < page.section("ranking").index("HOMER")
    )


def test_a_heat_map_holds_each_method_on_each_dataset():
    """Ranks of what is fused, values of one measure; the better on a dataset, the stronger."""
    c = published(stability=500)
    fused = Page(study_page())
    tones = [int(a["data-tone"]) for _, a in fused.elements if "data-tone" in a]
    assert len(tones) == len(c.study.methods) * len(c.study.datasets)
    assert "Rank on each dataset" in fused.section("datasets")
    study = study_of(5, 12, gap=0.02)
    one = Page(render(compare(study, on="hamming_loss"))).section("datasets")
    values = study.cells("hamming_loss")
    assert "hamming_loss ↓ on each dataset" in one and all(d in one for d in values.index)
    ranks = values.rank(axis=1).to_numpy()
    page = Page(render(compare(study, on="hamming_loss")))
    tones = [int(a["data-tone"]) for _, a in page.elements if "data-tone" in a]
    assert (tones.count(9), tones.count(1)) == ((ranks == 1).sum(), (ranks == 5).sum())


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
    """Six methods on two datasets with ten folds, with and without a rope: 5,416 words once."""
    names, rng = ["forest", "boosting", "svm", "knn", "tree", "bayes"], np.random.default_rng(1)
    shifts = {name: tuple(0.03 * rng.standard_normal(3)) for name in names}
    known = {"split_digest": "abc", "n_train": 90, "n_test": 10}
    measures, on = ("precision", "recall", "accuracy"), ("birds", "flags")
    found = compare(fold_study(shifts, measures, datasets=on, **known), stability=True, rope=0.01)
    assert 500 < words_of_prose(render(found)) <= 1_100
    plain = compare(fold_study(shifts, measures, datasets=on, **known), stability=True)
    assert words_of_prose(render(plain)) <= 1_000
    assert words_of_prose(study_page()) <= 1_000


def test_names_in_tables_say_what_they_name():
    page, c = Page(study_page()), published(stability=500)
    told = {
        what: {a[f"data-{what}"] for _, a in page.elements if f"data-{what}" in a}
        for what in ("method", "dataset")
    }
    assert told == {"method": set(c.study.methods), "dataset": set(c.study.datasets)}
    hostile = Page(render(nasty()))
    expected = {*map(terminal, NASTY)}
    assert {a["data-method"] for _, a in hostile.elements if "data-method" in a} == expected


def test_without_doubts_there_is_no_box():
    c = compare(fuse(study_of(6, 20, gap=0.02), weights="equal"))
    assert not c.doubts
    page = Page(render(c))
    assert "doubts" not in page.sections
    assert opened(page) == ["decision", "ranking", "datasets"]


def test_tables_hold_the_figures_of_the_comparison():
    c, page = published(stability=500), Page(study_page())
    ranking = c.fusion.ranking
    for method in ranking.index:
        assert f"{abs(ranking.phi[method]):.3f}" in page.section("ranking")
    nemenyi = published(test="nemenyi")
    assert f"{c.nemenyi.critical_difference:.2f}" in Page(render(nemenyi)).section("differences")
    assert "4 of 66 pairs separated" in page.section("differences")
    assert "11/0/0" in page.section("differences")
    first = c.stability.acceptability.acceptability.loc["RF-PCT", 1]
    assert f"{first:.0%}" in page.section("stability")


def test_at_most_four_significant_digits():
    page = Page(study_page())
    shown = "  ".join(
        text for key, texts in page.sections.items() if key != "provenance" for text in texts
    )
    long = [
        n
        for n in re.findall(r"(?<![\w.-])\d*\.\d+(?![\w.])", shown)
        if len(n.replace(".", "").lstrip("0")) > 4
    ]
    assert not long


def test_provenance_reproduces_the_report():
    section = Page(study_page()).section("provenance")
    for value in (PROVENANCE["command"], "sqlite:///mlflow.db", "2 runs of madjarov2012"):
        assert value in section
    assert "worst value that any method reached there" in section
    assert "500 draws, seed 0" in section
    made = json.loads(rendered(published(), "json"))["provenance"]
    assert made["run_ids"] == PROVENANCE["run_ids"] and made["versions"]["python"] == "3.11.2"
    assert not any(run_id in study_page() for run_id in PROVENANCE["run_ids"])


def test_bibtex_of_the_methods_that_were_used_and_no_others():
    def keys(c):
        entries = json.loads(rendered(c, "json"))["references"]
        return set(re.findall(r"@\w+\{(\w+),", "\n".join(entries)))

    fused, one = keys(published(stability=500)), keys(published(on="macro_f1"))
    assert {
        *("brans1985", "eftimov2019", "nemenyi1963", "friedman1937", "holm1979", "lahdelma2001"),
        "madjarov2012",
    } <= fused
    assert not {"skillings1981", "dunn1961", "kosmopoulos2015"} & fused
    assert "skillings1981" in one and "lahdelma2001" not in one
    control = keys(compare(study_of(4, 9), control="m1"))
    assert "dunn1961" in control and "nemenyi1963" not in control
    single = keys(compare(study_of(2, 1, measures=("f1",))))
    assert single == {"brans1985", "eftimov2019", "madjarov2012"}


def test_what_tests_over_folds_rest_on_is_cited_where_there_are_folds():
    def cited(c):
        return {r.cite for r in bibliography(c)}

    over_folds = {
        "Hotelling 1931",
        "Yıldız & Alpaydın 2014",
        "Nadeau & Bengio 2003",
        "Wilks 1932",
        "Mardia 1970",
    }
    beyond = {"Benavoli et al. 2017", "Schuirmann 1987"}
    assert not (over_folds | beyond) & cited(published())
    found = cited(compare(three_methods()))
    assert over_folds <= found and not beyond & found
    assert over_folds | {"Schuirmann 1987"} <= cited(compare(three_methods(), rope=0.01))


def test_bibtex_entries_are_whole():
    for reference in REFERENCES.values():
        assert reference.bibtex.count("{") == reference.bibtex.count("}")
        assert re.search(r"year = \{\d{4}\}", reference.bibtex)
        assert re.search(r"title = \{", reference.bibtex)
        assert reference.cite[-4:] in reference.bibtex


def test_nothing_is_fetched_and_nothing_navigates():
    html = study_page()
    page = Page(html)
    assert {tag for tag, _ in page.elements}.isdisjoint(
        {"a", "img", "iframe", "object", "embed", "form", "base"}
    )
    for tag, attrs in page.elements:
        assert not [
            name
            for name in attrs
            if name.startswith("on") or name in ("src", "srcdoc", "action", "xlink:href")
        ]
        assert tag == "link" or "href" not in attrs
    expected = ["http://www.w3.org/2000/svg"] * html.count("<svg xmlns")
    assert re.findall(r"https?://[^\"'<> ]+", html) == expected
    assert not re.search(r"@import|url\(|localStorage|fetch\(|window\.open|location", html)


def test_the_policy_lets_only_our_script_run():
    page = Page(study_page())
    data, script = page.scripts
    assert json.loads(data)["measures"] == published().study.measures
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [
        a["content"]
        for t, a in page.elements
        if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    ]
    assert f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy


def test_hostile_names_are_text_everywhere():
    benign = Page(study_page())
    command = "mleval report -n '</script><script>alert(1)</script>'"
    hostile = Page(render(nasty(stability=50), command=command, experiments=NASTY))
    assert {t for t, _ in hostile.elements} <= {t for t, _ in benign.elements}
    expected = {a for _, attrs in benign.elements for a in attrs}
    assert {a for _, attrs in hostile.elements for a in attrs} <= expected
    assert len([t for t, _ in hostile.elements if t == "script"]) == 2
    for name in NASTY[:-2]:
        assert terminal(name) in " ".join(hostile.pieces), name
    raw = render(nasty())
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", raw)


def test_names_cut_in_the_middle_keep_their_whole_in_a_tooltip():
    page = Page(render(nasty()))
    whole = "run-" + "x" * 300
    assert any(attrs.get("title") == whole for tag, attrs in page.elements if tag == "bdi")


@pytest.mark.parametrize("missing", ["worst", "drop-datasets", "drop-methods"])
def test_every_policy_has_its_page(missing):
    page = Page(render(compare(published_study(missing), stability=50)))
    assert f"policy {missing}" in page.section("provenance")


@pytest.mark.parametrize(
    ("study", "options", "says"),
    [
        (study_of(2, 1, measures=("f1",)), {}, "No test over datasets is possible"),
        (study_of(2, 3), {}, "2 methods compared on 3 datasets"),
        (study_of(30, 5), {"stability": 20}, "30 methods compared"),
        (study_of(5, 12, gap=0.02), {"control": "m2"}, "Every method against the control"),
        (study_of(5, 12, gap=0.02), {"on": "hamming_loss", "stability": 20}, "by hamming_loss"),
        (study_of(3, 6, decimals=1), {"stability": 20}, "3 methods"),
        (fuse(study_of(4, 6), weights={"f1": 2, "hamming_loss": 1}), {}, "hamming_loss 1"),
        (fuse(study_of(4, 6), "linear", q=0.01, p=0.2), {}, "p = 0.2; q = 0.01"),
    ],
)
def test_small_and_odd_comparisons_have_a_page(study, options, says):
    assert says in Page(render(compare(study, **options))).text


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
    assert "The other 100 have mean ranks from" in page.section("ranking")
    assert "The best 30 of 400 methods are shown" in page.section("differences")
    assert len(html) < 1_000_000


def test_the_page_is_small_and_the_same_each_time():
    html = study_page()
    assert len(html.encode()) < 400_000
    assert html == render(published(stability=500))


def test_provenance_may_be_bare():
    c = published()
    assert Page(rendered(c, "html", provenance={})).section("provenance")
