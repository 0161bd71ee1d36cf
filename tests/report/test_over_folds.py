"""What reports say about tests over folds and about loss profiles: it agrees with the tests and the
profiles, in every format.
"""

import csv
import io
import json
import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from drawings import NS, outside, parse
from report_cases import BEHAVIOUR, cells, compared, fold_study, profiles, three_methods, whole

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.fold_comparison import compare_folds
from mlflow_mleval.analysis.loss_profiles import Profiles, compare_profiles, gather_profiles
from mlflow_mleval.report import FORMATS
from mlflow_mleval.report.blocks import glossary, plain
from mlflow_mleval.report.content import profiles as topic
from mlflow_mleval.report.content.decision import verdict
from mlflow_mleval.report.content.study_report import bibliography
from mlflow_mleval.report.content.study_report import document as whole_document
from mlflow_mleval.report.content.units import (
    _KINDS,
    NOT_TRUSTED,
    document,
    frames,
    pairs_table,
)
from mlflow_mleval.report.figures.lines import DETAILED, INSIDE, _ellipse, fold_scatter
from mlflow_mleval.report.text import columns

FOLDS = _KINDS["folds"]


def told(found) -> str:
    return plain(" ".join([found.verdict(), *FOLDS.sentences(found)]))


def answered(c) -> str:
    return plain(" ".join(s.text for s in verdict(c)))


def test_sentences_and_pairs_by_mean_rank_say_which_measure_favours_whom():
    found = compare_folds(three_methods(), "birds")
    said = told(found)
    assert "separates 2 of 3 pairs on 10 folds and 2 measures together" in said
    assert "Tested on precision and recall (Holm" in said
    assert not any(word in said for word in ("uncorrected", "refused", "MANOVA", "Mardia"))
    table = pairs_table({"": found})
    assert [c.head for c in table.columns][2:4] == ["p (Holm)", "separated"]
    assert [text.split()[0] for text in cells(table, "separated")] == ["yes", "yes", "no"]
    place, heads = {m: i for i, m in enumerate(found.order)}, ("method", "against", "carried by")
    for a, b, carried in zip(*(cells(table, head) for head in heads), strict=True):
        assert place[a] < place[b]
        assert carried == ("precision, recall" if "LP" in (a, b) else "")


def test_a_combination_is_named_where_no_measure_carries_the_difference():
    study = fold_study({"a": (0.02, -0.02), "b": (0.0, 0.0)})
    shared = np.random.default_rng(1).normal(0, 0.1, 10)
    study.folds.iloc[:10] += shared[:, None]
    found = compare_folds(study, "birds", ["precision", "recall"])
    assert found.table["separated"].all()
    assert cells(pairs_table({"": found}), "carried by") == ["a combination"]


def test_measures_speak_only_of_pairs_that_all_of_them_together_separate():
    study = fold_study({"a": (0.0, 0.0), "b": (0.025, 0.0)})
    alone = compare_folds(study, "birds", ["precision"])
    found = compare_folds(study, "birds", ["precision", "recall"])
    assert found.orderings["precision"].pvalues.loc["a", "b"] <= 0.05
    assert alone.separated and not found.separated
    assert not found.posthoc["significant"].any()
    assert found.orderings["precision"].groups == [["b", "a"]]
    assert len(alone.orderings["precision"].groups) == 2


def test_intervals_stand_beside_every_mean():
    found = compare_folds(three_methods(), "birds")
    (table,) = FOLDS.above({"": found})
    text = cells(table, "recall ↑")[cells(table, "method").index("LP")]
    shown = [float(x) for x in re.findall(r"[\d.]+", text)]
    row = found.means.loc[("LP", "recall")]
    assert shown == pytest.approx([row["mean"], row["low"], row["high"]], abs=5e-4)
    near = compare_folds(fold_study({"a": (0.395, 0.0), "b": (0.0, 0.0)}), "birds")
    assert near.means.loc[("a", "precision"), "high"] > 1  # which no precision is
    (table,) = FOLDS.above({"": near})
    assert cells(table, "precision ↑")[0].endswith(", 1.00]")


def test_verdicts_that_assumptions_do_not_carry_are_marked_on_their_rows():
    few = fold_study({"a": (0.0, 0.0), "b": (0.1, 0.0)}, n_folds=4)
    found = compare_folds(few, "birds", ["precision", "recall"])
    assert not found.table["doubt"].eq("").any()
    marked = cells(pairs_table({"": found}), "separated")
    assert all(text.endswith(NOT_TRUSTED) for text in marked)
    fine = compare_folds(three_methods(), "birds")
    assert NOT_TRUSTED not in "".join(cells(pairs_table({"": fine}), "separated"))


def test_repeated_cross_validation_says_that_the_uncorrected_test_was_refused():
    known = {"n_train": 90, "n_test": 10, "split_digest": "x"}
    study = fold_study({"a": (0.0, 0.0), "b": (0.1, 0.0)}, n_folds=30, **known)
    found = compare_folds(study, "birds", ["precision", "recall"])
    assert "The uncorrected test was refused" in told(found)
    assert "uncorrected" not in [c.head for c in pairs_table({"": found}).columns]


def test_a_comparison_holds_the_folds_of_every_dataset_and_why_others_have_none():
    study = three_methods()
    assert list(compare(study).folds) == ["birds", "flags"]
    lost = study.folds.drop(index=[("flags", "BR"), ("flags", "CC")])
    c = compare(type(study)(study.values, study.directions, folds=lost, runs=study.runs))
    assert list(c.folds) == ["birds"] and "two methods" in c.absent["folds.flags"]
    assert compare(type(study)(study.values, study.directions)).folds == {}


def test_options_reach_the_tests_over_folds():
    c = compare(three_methods(), over_folds={"measures": ["recall"], "protocol": "independent"})
    found = c.folds["birds"]
    assert found.measures == ["recall"] and found.protocol.ratio is None
    assert "Student's t" in told(found) and "tells the methods apart best" not in told(found)


def test_the_verdict_says_what_the_folds_say():
    several = answered(compare(three_methods()))
    assert "Tests over the folds of 2 datasets, α = .05: none of 3 pairs is separated." in several
    known = {"split_digest": "abc", "n_train": 90, "n_test": 10}
    shown = answered(compare(fold_study({"BR": (0.0, 0.0), "LP": (0.06, 0.06)}, **known)))
    assert "by precision and recall together, LP is separated from BR." in shown
    few = fold_study({"a": (0.0, 0.0), "b": (0.1, 0.1)}, n_folds=4)
    doubtful = compare(few, over_folds={"measures": ["precision", "recall"]})
    assert "(in doubt: see the tests by fold)." in answered(doubtful)


def test_json_holds_what_the_tests_hold():
    c = compare(three_methods())
    record, found = json.loads(c.report().render("json"))["folds"]["birds"], c.folds["birds"]
    expected = found.table["pvalue"].tolist()
    assert [row["pvalue"] for row in record["table"]] == pytest.approx(expected)
    assert record["manova"]["pvalue"] == pytest.approx(found.manova.pvalue)
    assert record["protocol"]["ratio"] == pytest.approx(1 / 9)
    assert record["cliques"] == found.cliques
    assert record["sentences"] == [*map(plain, FOLDS.sentences(found))]


def test_where_datasets_decide_nothing_by_fold_says_that_methods_differ():
    shifts = {"BR": (0.0, 0.0), "LP": (0.06, 0.06)}
    c = compare(fold_study(shifts, datasets=tuple(f"d{k}" for k in range(6))))
    assert c.decides_over == "datasets" and c.folds["d0"].table["separated"].any()
    record = json.loads(c.report().render("json"))["folds"]["d0"]
    assert "pvalue" in record["table"][0] and record["orderings"]["precision"]["order"]
    marks = {"separated", "significant", "better", "verdict", "decides", "cliques", "letters"}
    for held in (record, *record["table"], *record["posthoc"], *record["orderings"].values()):
        assert marks.isdisjoint(held)
    for frame in frames(c, "folds").values():
        assert marks.isdisjoint(frame.columns)


def test_every_table_has_a_file_with_all_rows():
    c = compare(three_methods())
    files, tables = c.report().files(), frames(c, "folds")
    assert {f"{name}.csv" for name in tables} <= set(files)
    for name, frame in tables.items():
        rows = list(csv.reader(io.StringIO(files[f"{name}.csv"])))
        assert glossary("files")[f"{name}.csv"].split(", ") == rows[0] == list(frame.columns)
        assert len(rows) == len(frame) + 1
    assert len(tables["fold_values"]) == 2 * 3 * 10 * 2
    assert set(tables["fold_pairs"]["dataset"]) == {"birds", "flags"}


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_tells_the_same_pairs(format):
    c = compare(three_methods())
    text = document(c.folds, {"time": "now"}, {"yeast": "no folds"}, ["a note"]).render(format)
    for name in ("birds", "LP") if format in ("text", "brief") else ("birds", "flags", "LP"):
        assert name in text
    if format == "table":
        assert max(map(len, text.split("\n"))) <= 100 and "yeast was not tested: no folds" in text
    if format == "json":
        assert json.loads(text)["absent"] == {"yeast": "no folds"}


@pytest.mark.parametrize("n_methods", [2, 7, 40])
def test_figures_hold_their_names(n_methods):
    names = {f"method number {i}": (0.02 * i, -0.01 * i) for i in range(n_methods)}
    values = fold_study(names).folds.loc["birds"]
    scatter = parse(fold_scatter(values, [*names], ["precision ↑", "recall ↑"], "t"))
    assert outside(scatter) == []
    ellipses = [p for p in scatter.iter(f"{NS}path") if "A" in p.get("d")]
    assert len(ellipses) == min(n_methods, DETAILED)
    never = str(fold_scatter(values * 0 + 0.5, [*names], ["x", "y"], "t").__html__())
    assert "nan" not in never.lower()


def test_the_ellipse_holds_its_share_of_the_fitted_distribution():
    covariance = np.array([[90_000.0, 50_000.0], [50_000.0, 40_000.0]])
    radius = np.sqrt(-2 * np.log(1 - INSIDE))
    x, y, rest = re.match(r"M(\S+) (\S+)A(.*)", _ellipse((0, 0), radius, covariance)).groups()
    along = np.array([float(x), float(y)])
    long, short = np.array(rest.split()[:2], dtype=float)
    assert long * short == pytest.approx(radius**2 * np.sqrt(np.linalg.det(covariance)), rel=0.03)
    assert np.sqrt(along @ np.linalg.solve(covariance, along)) == pytest.approx(radius, rel=0.03)
    points = np.random.default_rng(0).multivariate_normal([0, 0], covariance, 20_000)
    distances = (points @ np.linalg.inv(covariance) * points).sum(axis=1)
    assert (distances <= radius**2).mean() == pytest.approx(INSIDE, abs=0.02)


ORIGIN = {"time": "2026-01-01T00:00:00+00:00", "tracking_uri": "sqlite:///mlflow.db", "seed": 0}


def rendered(found, format: str, width: int = 100) -> str:
    return topic.document(found, ORIGIN).render(format, width)


def sentences(found) -> list[str]:
    return [*map(plain, topic.sentences(found))]


def told_of_crossings(found) -> list[str]:
    return [*map(plain, topic.crossings(found))]


def mean_losses(found, dataset: str):
    return found.curves.xs(dataset, level="dataset")["loss"].unstack("parameter")


def test_patterns_agree_with_the_profiles_themselves():
    found = compared()
    table = found.patterns.set_index(["dataset", "method", "against"])
    for dataset in ("yeast", "scene", "flags"):
        losses = mean_losses(found, dataset)
        for a, b in combinations(losses.index, 2):
            difference = (losses.loc[b] - losses.loc[a]).to_numpy()
            first, second = (a, b) if difference[0] > 0 else (b, a)
            row = table.loc[(dataset, first, second)]
            changes = np.flatnonzero(np.diff(np.sign(difference)))
            assert row["crossings"] == len(changes)
            if len(changes):
                assert changes[0] + 1 <= row["parameter"] <= changes[0] + 2
            else:
                assert np.isnan(row["parameter"]) and not row["certain"]


def test_the_sentence_names_the_last_k_before_the_change():
    found = compared()
    losses = mean_losses(found, "yeast")
    last = int(losses.columns[losses.loc["BR"] < losses.loc["LP"]].max())
    said = next(text for text in told_of_crossings(found) if "On yeast LP overtakes BR" in text)
    assert f"On yeast LP overtakes BR above k = {last} of 14" in said
    certain = topic.certain_spans(found, "yeast")
    row = found.claims.query("dataset == 'yeast' and better == 'LP' and worse == 'BR'").iloc[0]
    assert certain["LP", "BR"] == f"from k = {row['first']:g}" and row["last"] == 14
    assert ("BR", "LP") not in certain
    assert said.endswith(f"; the folds are sure of LP {certain['LP', 'BR']}.")


def test_certain_crossings_are_told_first_and_the_others_counted():
    found = compared()
    said = sentences(found)
    assert (
        len(told_of_crossings(found)) == 8 and len(cells(topic.pairs_table(found), "dataset")) == 9
    )
    assert "the folds are sure of" in said[0] and said[2] == "The table tells of 6 more changes."
    assert "no change of order is certain" not in " ".join(said)
    unsure = replace(found, crossings=found.crossings.assign(certain=False))
    assert "no change of order is certain" in " ".join(sentences(unsure))


def joined(n_labels, *parts):
    """Profiles of several as one."""
    errors, folds = (
        {key: rows for part in parts for key, rows in getattr(part, name).items()}
        for name in ("errors", "folds")
    )
    return Profiles(errors, n_labels, folds)


def of_some(dataset, *methods, n_labels=6, **how):
    return profiles({dataset: n_labels}, {m: BEHAVIOUR[m] for m in methods}, **how)


def test_no_crossing_is_said_and_equal_methods_are_equal():
    found = compare_profiles(profiles({"d": 6}, {"a": (1.0, 0.1), "b": (1.0, 0.3)}))
    assert "No two of the profiles cross" in sentences(found)[0]
    assert cells(topic.pairs_table(found), "overtaken above") == ["never"]
    assert cells(topic.pairs_table(found), "certainly better") == ["for every k"]
    same = profiles({"d": 6}, {"a": (1.0, 0.1)})
    errors, folds = ({("d", m): part["d", "a"] for m in "ab"} for part in (same.errors, same.folds))
    found = compare_profiles(Profiles(errors, {"d": 6}, folds))
    assert cells(topic.pairs_table(found), "overtaken above") == ["equal"]
    assert not re.search(r"\bnan\b", rendered(found, "table") + rendered(found, "html"))


def test_claims_come_with_their_error_rate():
    found = compared()
    said = " ".join(sentences(found))
    pairs = {(r.dataset, *sorted((r.better, r.worse))) for r in found.claims.itertuples()}
    assert f"separate {len(pairs)} of 9 pairs" in said and "at most .05" in said


def test_profiles_without_folds_are_drawn_and_not_tested():
    found = compare_profiles(profiles({"d": 6, "e": 7}, n_folds=1))
    assert "is not tested here" in " ".join(sentences(found))
    alone = compare_profiles(profiles({"d": 6}, n_folds=1))
    assert "folds are sure" not in " ".join([*sentences(alone), *sentences(found)])
    assert len(topic.pairs_table(alone).columns) == 3


def test_the_flattest_method_stands_first():
    slopes = compared().awareness["slope"].groupby(level="method").mean()
    assert cells(topic.awareness_table(compared()), "method") == [*slopes.sort_values().index]


def test_means_are_over_datasets_that_all_methods_share():
    n_labels = {"d": 6, "e": 7}
    more = of_some("f", "BR", seed=1)
    found = compare_profiles(joined({**n_labels, "f": 6}, profiles(n_labels), more))
    shared = found.awareness.loc[["d", "e"]].groupby(level="method")["area"].mean()
    assert found.awareness_means["area"].to_dict() == pytest.approx(shared.to_dict())
    said = plain(topic.awareness_table(found).note)
    assert "Means over 2 of 3 datasets that all methods share." in said


def test_methods_without_a_common_dataset_are_not_set_against_each_other():
    parts = of_some("d", "BR", "LP"), of_some("e", "CC")
    found = compare_profiles(joined({"d": 6, "e": 6}, *parts))
    assert "the means cannot be compared" in plain(topic.awareness_table(found).note)


def test_alpha_is_named_for_the_polynomial_family():
    found = compared(family="polynomial")
    assert not re.search(r"\bk\b", " ".join(sentences(found)))
    at = found.crossings.query("dataset == 'yeast' and method_a == 'BR' and method_b == 'LP'")[
        "parameter"
    ].iloc[0]
    said = " ".join(told_of_crossings(found))
    assert f"LP overtakes BR above α = {float(f'{at:.3g}'):g}" in said


def test_profiles_of_scores_say_so():
    rng = np.random.default_rng(0)
    errors = {("d", m): np.sort(rng.uniform(0, 1, (5, 4)))[:, ::-1] for m in "ab"}
    folds = dict.fromkeys(errors, tuple(range(5)))
    found = compare_profiles(gather_profiles(errors, dict.fromkeys(errors, 4), folds, "soft"))
    assert "Losses of scores" in rendered(found, "table")
    assert "Mean loss of scores" in rendered(found, "html")
    assert "Losses of scores" not in rendered(compared(), "table")


@pytest.mark.parametrize(
    ("datasets", "methods"), [({"d": 1}, "ab"), ({"d": 5}, "a"), ({"d": 5, "e": 4}, "a")]
)
def test_one_label_or_one_method_has_a_report_too(datasets, methods):
    found = compare_profiles(profiles(datasets, dict.fromkeys(methods, (1.0, 0.1))))
    assert all(rendered(found, format) for format in FORMATS)
    none = ["No two methods have a profile on the same dataset."]
    assert len(methods) > 1 or sentences(found) == none


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_names_datasets_and_methods(format):
    text = rendered(compared(), format)
    datasets = ("yeast", "scene", "flags") if format in ("html", "json", "csv", "md") else ()
    assert all(name in text for name in ("BR", "CC", *datasets))
    assert format != "md" or "\n\n\n" not in text
    nobody = rendered(compare_profiles(profiles({"d": 6, "e": 7}, n_folds=1)), format)
    assert not re.search(r"\bnan\b", nobody)


def test_five_methods_on_five_datasets_fit_a_terminal():
    five = {**BEHAVIOUR, "RAkEL": (0.55, 0.3), "EPCT": (0.9, 0.15)}
    found = compare_profiles(profiles({f"data-{i}": 5 + 2 * i for i in range(5)}, five))
    for width in (60, 80, 100):
        lines = rendered(found, "table", width).split("\n")
        assert max(map(columns, lines)) <= width and (len(lines) <= 30 or width < 100)


def test_json_holds_the_frames():
    found = compared()
    record = json.loads(rendered(found, "json"))
    assert record["profiles"]["sentences"] == sentences(found)
    expected = found.curves["loss"].tolist()
    assert [row["loss"] for row in record["profiles"]["curves"]] == pytest.approx(expected)
    assert record["profiles"]["options"]["alpha"] == 0.05
    assert len(record["profiles"]["crossings"]) == len(found.crossings)


def test_the_files_have_the_columns_that_the_module_promises():
    frames = compared().frames
    for name, frame in frames.items():
        assert glossary("files")[f"{name}.csv"] == ", ".join(frame.columns)
    rows = list(csv.reader(io.StringIO(rendered(compared(), "csv"))))
    assert rows[0][:3] == ["dataset", "method", "against"] and len(rows) == 1 + 9


def test_the_whole_report_holds_the_profiles():
    c = whole()
    files = c.report().files()
    assert {f"{name}.csv" for name in c.profiles.frames} <= set(files)
    expected = sentences(topic.described(c.profiles))
    assert json.loads(files["report.json"])["profiles"]["sentences"] == expected
    page = c.report().to_html()
    places = [page.index(f'id="{key}"') for key in ("differences", "profiles", "measures")]
    assert places == sorted(places) and "LP overtakes BR" in re.sub("<[^>]*>", "", page)
    for format, head in (("md", "## Loss profiles"), ("latex", r"\label{tab:mleval-profiles}")):
        assert head in c.report().render(format)
        assert head not in whole_document(c, {}, "pairs").render(format)
    assert {"Hüllermeier et al. 2022", "Hothorn et al. 2008"} <= {r.cite for r in bibliography(c)}


def test_a_report_without_profiles_says_nothing_of_them():
    c = replace(whole(), profiles=None)
    assert c.report().to_dict()["profiles"] is None
    assert not [name for name in c.report().files() if name.startswith("profile")]
    assert "Loss profiles" not in c.report().to_html()
    assert "Hothorn et al. 2008" not in {r.cite for r in bibliography(c)}
