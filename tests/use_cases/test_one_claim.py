"""What pages claim of equal methods, in small: none claims a difference more often than it may."""

import os
import sys

import pytest
from places import STUDIES

pytestmark = pytest.mark.thorough

#: Null pages of each kind.
PAGES = int(os.environ.get("MLEVAL_NULL_PAGES", "4"))


@pytest.fixture(scope="module")
def study():
    sys.path.insert(0, str(STUDIES))
    import one_claim_study

    return one_claim_study


def test_no_page_of_equal_methods_claims_too_often(study):
    found = study.null_pages(PAGES, seed=1)
    assert list(found.index) == list(study.PAGES)
    assert not found["too many"].any(), found


def test_a_page_of_methods_that_differ_claims_it(study, tmp_path, monkeypatch):
    equal = study.results

    def differing(*args, **options):
        table = equal(*args, **options)
        table.loc[table["method"] == "m0", "f1"] += 0.2
        return table.assign(hamming_loss=1 - table["f1"])

    monkeypatch.setattr(study, "results", differing)
    rng = study.np.random.default_rng(0)
    few = "report, 3 datasets x 3 repeats, normal"
    for name in ("rank", "compare", "compare --over folds", few):
        assert study.PAGES[name](rng, tmp_path), name


def test_the_verdict_on_the_question_and_an_interval_alone_are_claims(study):
    page = {"separated": [], "verdict": [], "answer": {"sentences": []}}
    row = {"low": -0.1, "high": 0.2, "separated": False}
    question = {"verdict": "TOO CLOSE", "rows": [row]}
    assert not study.claims({**page, "question": question})
    assert study.claims({**page, "question": {"verdict": "NO", "rows": [row]}})
    assert study.claims({**page, "question": {**question, "crossing": {"a": ["d"], "b": ["e"]}}})
    question["rows"] = [{**row, "low": 0.01}]
    assert study.claims({**page, "question": question})


def test_few_datasets_on_which_methods_differ_are_told_apart_as_these_alone(study):
    assert study.null_pages(PAGES, made=study.INTERACT)["share"].max() > 0
    few = [name for name in study.PAGES if name.endswith("claims of others")]
    assert len(few) == 3 and not study.null_pages(PAGES, names=few)["share"].any()


def test_blocks_of_repeats_find_what_there_is_and_little_else(study):
    for design, none, cancels, better in study.few_datasets(draws=8, seed=2):
        assert max(none, cancels) <= 0.4 < 0.5 * better + 0.25, design
