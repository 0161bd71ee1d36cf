"""The page about JSON and CSV is the one that the code gives."""

import importlib.util
from pathlib import Path

import pytest
from report_cases import study_of

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.report.content.study_report import described

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("make_json_keys", EXAMPLES / "make_json_keys.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(script):
    assert script.page() == (EXAMPLES / "json_keys.md").read_text(encoding="utf-8"), "run python examples/make_json_keys.py"


def test_a_report_has_these_keys_and_no_others():
    assert set(compare(study_of(3, 6), stability=True, n_resamples=20).report().to_dict()) == set(described())


def test_files_beside_a_report_have_these_columns():
    files, known = compare(study_of(3, 6)).report().files(), described("FILES")
    for name in files.keys() & known.keys():
        assert files[name].splitlines()[0].replace(",", ", ") == known[name], name
    assert {"ranking.csv", "pairs.csv", "values.csv"} <= files.keys() & known.keys()
