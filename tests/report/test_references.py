"""Publications: cited by author and year, and all that is cited is there."""

import re

from places import GUIDES

from mlflow_mleval.analysis.posthoc import tests as every_test
from mlflow_mleval.analysis.posthoc.description import OverFolds, OverSeeds
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.report.content.study_report import _FIRST, _METHODS, _THEN, REFERENCES


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


def test_citations_are_author_and_year_in_letters_that_readers_see():
    for cite, reference in REFERENCES.items():
        assert re.fullmatch(r"[^\W\d_]+(-[^\W\d_]+)?( & [^\W\d_]+| et al\.)? \d{4}", cite), cite
        assert reference.cite == cite and reference.bibtex.startswith("@")
        assert reference.bibtex.endswith("}")


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
