"""The simulation study in small finds what its page says; the script writes the page."""

import re
import sys

import numpy as np
import pytest
from example_runs import loaded
from places import STUDIES
from scipy import stats

from mlflow_mleval import hotelling_pairs

#: Repetitions that show what is asserted in seconds; the others run to see that they do.
SIZES = {
    "over_datasets": 40,
    "verdicts": 12,
    "over_folds": 20,
    "over_more_folds": 12,
    "over_instances": 20,
    "intervals": 60,
    "bayesian": 40,
    "over_several_datasets": 2,
    "unstable": 8,
    "next_dataset": 2,
    "over_clusters": 6,
    "over_repeats": 8,
    "along_profiles": 4,
    "few_clusters": 10,
}

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
