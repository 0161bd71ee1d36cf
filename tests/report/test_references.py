"""What a report refers to: publications, all that is cited and no others, and the page of the keys
of JSON and CSV.
"""

import re
from importlib.resources import files

import numpy as np
import pandas as pd
from example_runs import loaded
from places import GUIDES, SCRIPTS
from report_cases import published, study_of, three_methods

import mlflow_mleval as mleval
from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.posthoc import tests as every_test
from mlflow_mleval.analysis.posthoc.max_t import OverFolds, OverSeeds
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.report.blocks import glossary
from mlflow_mleval.report.content.study_report import (
    _FIRST,
    _METHODS,
    _THEN,
    REFERENCES,
    bibliography,
)
from mlflow_mleval.report.data import plain


def test_all_that_is_cited_is_there():
    assert [*_FIRST, *_THEN] == [*_METHODS]
    cited = {cite for _, sources in _METHODS.values() for cite in sources}
    cited |= {cite for test in (*every_test(), OverFolds, OverSeeds) for cite in test.sources}
    sources = {
        m.source.partition(",")[0] for m in MEASURES.values() if re.search(r" \d{4}", m.source)
    }
    assert cited <= {*REFERENCES} and cited | sources >= {*REFERENCES}
    assert {
        "Madjarov et al. 2012",
        "Hüllermeier et al. 2022",
        "Kosmopoulos et al. 2015",
    } <= sources & {*REFERENCES}


def test_citations_are_author_and_year_in_letters_that_readers_see_and_entries_are_whole():
    for cite, reference in REFERENCES.items():
        assert re.fullmatch(r"[^\W\d_]+(-[^\W\d_]+)?( & [^\W\d_]+| et al\.)? \d{4}", cite), cite
        entry = reference.bibtex
        assert reference.cite == cite and entry.startswith("@") and entry.endswith("}")
        assert entry.count("{") == entry.count("}") and f"year = {{{cite[-4:]}}}" in entry
        assert "title = {" in entry


def test_a_report_cites_the_methods_that_it_used_and_no_others():
    def cited(c):
        found = {reference.cite for reference in bibliography(c)}
        keys = re.findall(r"@\w+\{(\w+),", "\n".join(c.report().to_dict()["references"]))
        assert len(keys) == len({*keys}) == len(found)
        return found

    fused, one = cited(published(stability=20)), cited(published(on="macro_f1"))
    assert {"Brans & Vincke 1985", "Eftimov & Kocev 2019", "Nemenyi 1963"} <= fused
    assert {"Friedman 1937", "Holm 1979", "Lahdelma & Salminen 2001"} <= fused
    assert "Madjarov et al. 2012" in fused
    assert not {"Skillings & Mack 1981", "Dunn 1961", "Kosmopoulos et al. 2015"} & fused
    assert "Skillings & Mack 1981" in one and "Lahdelma & Salminen 2001" not in one
    control = cited(compare(study_of(4, 9), control="m1"))
    assert "Dunn 1961" in control and "Nemenyi 1963" not in control
    least = {"Brans & Vincke 1985", "Eftimov & Kocev 2019", "Madjarov et al. 2012"}
    assert cited(compare(study_of(2, 1, measures=("f1",)))) == least
    folds = {"Hotelling 1931", "Yıldız & Alpaydın 2014", "Nadeau & Bengio 2003", "Wilks 1932"}
    folds |= {"Mardia 1970"}
    beyond = {"Benavoli et al. 2017", "Schuirmann 1987"}
    assert not (folds | beyond) & fused
    found = cited(compare(three_methods()))
    assert folds <= found and not beyond & found
    assert folds | {"Schuirmann 1987"} <= cited(compare(three_methods(), rope=0.01))


def test_what_the_guides_cite_stands_among_the_sources():
    text = (GUIDES / "statistics.md").read_text("utf-8")
    sources = " ".join(text.partition("## Sources")[2].split())
    name = r"[A-Z][^\W\d_]+(?:-[A-Z][^\W\d_]+)?"
    found = set()
    for guide in ("statistics.md", "gate.md", "answers.md", "reading_a_report.md"):
        flat = " ".join((GUIDES / guide).read_text("utf-8").partition("## Sources")[0].split())
        found |= set(
            re.findall(rf"({name})(?: & {name}| et al\.)?(?:,| \()? ?((?:19|20)\d\d)\b", flat)
        )
    entries = re.split(r" - (?=[A-Z]\.)", f" {sources}")
    lacking = [pair for pair in found if not any(pair[0] in e and pair[1] in e for e in entries)]
    assert len(found) > 20 and lacking == []


def test_the_page_is_up_to_date():
    script = loaded(SCRIPTS / "make_json_keys.py")
    assert script.page() == (GUIDES / "json_keys.md").read_text(encoding="utf-8"), (
        "run python examples/scripts/make_json_keys.py"
    )


def test_every_heading_of_the_glossary_has_its_paragraph():
    text = (files("mlflow_mleval.report") / "glossary.md").read_text("utf-8")
    headings = re.findall("^## (.+?): (.+)$", text, re.M)
    assert headings == [(topic, word) for topic in dict(headings) for word in glossary(topic)]


def test_json_keeps_its_keys_where_python_calls_it_otherwise():
    table = pd.DataFrame(np.random.default_rng(0).random((7, 3)), columns=list("abc"))
    found = mleval.bayesian_t(table, 0.1)
    expected = {"rope": 0.1, "threshold": 0.95, "ratio": None, "seed": 0, "warnings": []}
    expected |= {"table": 0, "methods": ["a", "b", "c"], "by_chance": found.by_chance}
    assert plain(found) | {"table": 0} == expected
    same = mleval.equivalence(table, 0.1)
    assert plain(same)["margin"] == same.rope == 0.1 and "rope" not in plain(same)
    instances = mleval.instance_tests({m: {"f1": table[m]} for m in table}, ["f1"], n_resamples=99)
    assert plain(instances)["n_draws"] == instances.n_resamples == 99
    c = compare(study_of(4, 10), stability=20, rope=0.01, max_correlation=0.7)
    record = c.report().to_dict()
    options = record["options"]
    assert (options["n_draws"], options["threshold"]) == (20, 0.7)
    assert record["redundancy"]["threshold"] == 0.7
    assert record["stability"]["acceptability"]["n_draws"] == 20
    assert {"threshold", "by_chance"} <= {*record["beyond"]["bayes"]}
    assert "margin" in record["beyond"]["equivalence"]
