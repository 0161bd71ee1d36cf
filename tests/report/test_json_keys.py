"""The page about JSON and CSV is the one that the code gives."""

import importlib.util
import re
from importlib.resources import files

import pytest
from places import GUIDES, SCRIPTS
from report_cases import study_of

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.report.blocks import glossary


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("make_json_keys", SCRIPTS / "make_json_keys.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(script):
    assert script.page() == (GUIDES / "json_keys.md").read_text(encoding="utf-8"), (
        "run python examples/scripts/make_json_keys.py"
    )


def test_a_report_has_these_keys_and_no_others():
    assert set(compare(study_of(3, 6), stability=20).report().to_dict()) == set(glossary("keys"))


def test_files_beside_a_report_have_these_columns():
    beside, known = compare(study_of(3, 6)).report().files(), glossary("files")
    for name in beside.keys() & known.keys():
        assert beside[name].splitlines()[0].replace(",", ", ") == known[name], name
    assert {"ranking.csv", "pairs.csv", "values.csv"} <= beside.keys() & known.keys()


def test_every_heading_of_the_glossary_has_its_paragraph():
    text = (files("mlflow_mleval.report") / "glossary.md").read_text("utf-8")
    headings = re.findall("^## (.+?): (.+)$", text, re.M)
    assert headings == [(topic, word) for topic in dict(headings) for word in glossary(topic)]
