"""Publications: cited by author and year, and all that is cited is there."""

import re

from mlflow_mleval.analysis.posthoc import tests as every_test
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.report.content.provenance import _FIRST, _METHODS, _THEN, REFERENCES


def test_all_that_is_cited_is_there():
    assert [*_FIRST, *_THEN] == [*_METHODS]
    cited = {cite for _, sources in _METHODS.values() for cite in sources}
    cited |= {cite for test in every_test() for cite in test.sources}
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
        assert (
            reference.cite == cite
            and reference.bibtex.startswith("@")
            and reference.bibtex.endswith("}")
        )
