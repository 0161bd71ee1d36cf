"""Publications: cited by author and year, and all that is cited is there."""

import re

from fold_cases import three_methods
from places import GUIDES
from report_cases import published, study_of

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.posthoc import tests as every_test
from mlflow_mleval.analysis.posthoc.max_t import OverFolds, OverSeeds
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.report.content.study_report import (
    _FIRST,
    _METHODS,
    _THEN,
    REFERENCES,
    bibliography,
)


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
