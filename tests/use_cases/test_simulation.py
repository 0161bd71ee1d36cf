"""The simulation studies in small find what their pages say; a script writes the page."""

import os
import re
import sys

import numpy as np
import pytest
from example_runs import loaded
from places import STUDIES
from scipy import stats

from mlflow_mleval import hotelling_pairs

#: Repetitions that show what is asserted in seconds; the others run to see that they do.
SIZES = {"over_datasets": 40, "over_folds": 20, "over_more_folds": 12, "over_instances": 20}
SIZES |= {"over_several_datasets": 2, "next_dataset": 2, "over_clusters": 6, "over_repeats": 8}
SIZES |= {"verdicts": 12, "intervals": 60, "bayesian": 40, "unstable": 8, "along_profiles": 4}
SIZES |= {"few_clusters": 10}

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def study():
    sys.path.insert(0, str(STUDIES))  # where its parts lie
    module = loaded(STUDIES / "simulation_study.py")
    sys.modules["simulation_folds"].DRAWS = 200
    return module


@pytest.fixture(scope="module")
def tables(study):
    """By name of the study: its table."""
    return {
        run.__name__: run(np.random.default_rng(0), SIZES.get(run.__name__, 2))
        for run in study.TABLES
    }


def rate(table, test, data):
    return np.mean(table.errors[test, data])


#: Where the page itself says that a default errs more often than 5%.
KNOWN = r"best feature|(10 times|30 splits|5 times).*(5-NN|1-NN)"


def test_defaults_hold_their_level(tables):
    for name in SIZES:
        found = tables[name].rates()
        for (test, data), row in found[found["claimed"]].iterrows():
            most = stats.binom.ppf(0.9999, row["n"], 0.06)
            known = re.search(KNOWN, f"{test} {data}")
            assert known or row["rate"] * row["n"] <= most, (test, data)


def test_the_f_of_iman_and_davenport_errs_on_three_datasets_and_the_exact_test_does_not(tables):
    found = tables["over_datasets"]
    assert rate(found, "Iman-Davenport F, 3 datasets", "3 x 3") > 0.08
    assert rate(found, "Friedman: Iman-Davenport, exact if small", "3 x 3") < 0.08


def test_folds_that_share_training_data_mislead_uncorrected_tests(tables):
    one, many = tables["over_folds"], tables["over_more_folds"]
    for test in ("paired t", "T²"):
        expected = 1.5 * rate(one, f"{test}, corrected", "normal, 4 x 3")
        assert rate(one, f"{test}, naive", "normal, 4 x 3") > expected
        for data in ("nearest mean", "1-NN", "normal"):
            assert rate(many, f"10 times 10-fold: {test}, naive", data) > 0.4
            assert rate(many, f"10 times 10-fold: {test}, twice the ratio", data) < 0.08
    expected = 2 * rate(one, "MANOVA, Wilks", "normal, 4 x 3")
    assert rate(one, "MANOVA, Roy", "normal, 4 x 3") > expected


def test_a_choice_that_all_folds_share_misleads_corrected_tests_too(study):
    rng = np.random.default_rng(0)
    cross_validated = sys.modules["simulation_folds"].cross_validated
    made = [cross_validated(rng, "best feature", "10 times 10-fold") for _ in range(60)]
    pvalues = [hotelling_pairs(x[..., :1], ratio=1 / 9).table["pvalue"] for x in made]
    assert np.mean([pvalue <= 0.05 for pvalue in pvalues]) > 0.1


def test_signed_ranks_compare_more_than_means_and_permutations_do_not(tables):
    found = tables["over_instances"]
    assert rate(found, "Wilcoxon + Holm", "1,000, other shapes") == 1
    assert rate(found, "permutations, maximum over measures", "1,000, other shapes") < 0.25


def test_t_squared_sees_what_the_sum_of_measures_hides(study):
    found = study.power(np.random.default_rng(0), 40).set_index(["difference", "size"])
    mean = "t of the measures' mean"
    against, along = found.loc["one up, one down: their sum stays", 2.0], found.loc["both up", 2.0]
    assert against["T²"] > against["t of each, Holm"] > 0.3 and against[mean] < 0.2
    assert along[mean] > along["T²"]
    only = found.loc[("one of four", 4.0)]
    assert only["t of the first"] > only["T²"] > only[mean]


def test_the_page_is_what_the_script_writes(study, tables):
    """Its words and the rows and columns of its tables: numbers take all repetitions."""
    page = (STUDIES / "simulation_study.md").read_text(encoding="utf-8")
    assert page.startswith(study.ABOUT + study.FINDINGS)
    for table in tables.values():
        for line in table.markdown():
            head = line.split(" | ")[0] if line.startswith("| ") else line
            assert head in page or "repetitions; standard" in line, head
    for line in study.power_markdown(study.power(np.random.default_rng(0), 2), 2):
        if not line.startswith("| ") and "repetitions" not in line:
            assert line in page


#: Null pages of each kind.
PAGES = int(os.environ.get("MLEVAL_NULL_PAGES", "4"))


@pytest.fixture(scope="module")
def claims():
    sys.path.insert(0, str(STUDIES))
    import one_claim_study

    return one_claim_study


def test_no_page_of_equal_methods_claims_too_often(claims):
    found = claims.null_pages(PAGES, seed=1)
    assert list(found.index) == list(claims.PAGES)
    assert not found["too many"].any(), found


def test_a_page_of_methods_that_differ_claims_it(claims, tmp_path, monkeypatch):
    equal = claims.results

    def differing(*args, **options):
        table = equal(*args, **options)
        table.loc[table["method"] == "m0", "f1"] += 0.2
        return table.assign(hamming_loss=1 - table["f1"])

    monkeypatch.setattr(claims, "results", differing)
    rng = claims.np.random.default_rng(0)
    few = "report, 3 datasets x 3 repeats, normal"
    for name in ("rank", "compare", "compare --over folds", few):
        assert claims.PAGES[name](rng, tmp_path), name


def test_the_verdict_on_the_question_and_an_interval_alone_are_claims(claims):
    page = {"separated": [], "verdict": [], "answer": {"sentences": []}}
    row = {"low": -0.1, "high": 0.2, "separated": False}
    question = {"verdict": "TOO CLOSE", "rows": [row]}
    assert not claims.claims({**page, "question": question})
    assert claims.claims({**page, "question": {"verdict": "NO", "rows": [row]}})
    assert claims.claims({**page, "question": {**question, "crossing": {"a": ["d"], "b": ["e"]}}})
    question["rows"] = [{**row, "low": 0.01}]
    assert claims.claims({**page, "question": question})


def test_few_datasets_on_which_methods_differ_are_told_apart_as_these_alone(claims):
    assert claims.null_pages(PAGES, made=claims.INTERACT)["share"].max() > 0
    few = [name for name in claims.PAGES if name.endswith("claims of others")]
    assert len(few) == 3 and not claims.null_pages(PAGES, names=few)["share"].any()


def test_blocks_of_repeats_find_what_there_is_and_little_else(claims):
    for design, none, cancels, better in claims.few_datasets(draws=8, seed=2):
        assert max(none, cancels) <= 0.4 < 0.5 * better + 0.25, design
