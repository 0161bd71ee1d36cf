"""What reports say about loss profiles: it agrees with the profiles, in every format, whatever the
names are.
"""

import csv
import io
import json
import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from markupsafe import escape
from profile_cases import BEHAVIOUR, compared, hostile, profiles, whole
from report_cases import cells

from mlflow_mleval.analysis.loss_profiles import Profiles, compare_profiles
from mlflow_mleval.report import FORMATS
from mlflow_mleval.report.blocks import glossary, plain
from mlflow_mleval.report.content import profiles as topic
from mlflow_mleval.report.content.profiles import (
    awareness_table,
    certain_spans,
    described,
    document,
    pairs_table,
)
from mlflow_mleval.report.content.study_report import bibliography
from mlflow_mleval.report.content.study_report import document as whole_document
from mlflow_mleval.report.text import columns, terminal

ORIGIN = {"time": "2026-01-01T00:00:00+00:00", "tracking_uri": "sqlite:///mlflow.db", "seed": 0}


def rendered(found, format: str, width: int = 100) -> str:
    return document(found, ORIGIN).render(format, width)


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
    certain = certain_spans(found, "yeast")
    row = found.claims.query("dataset == 'yeast' and better == 'LP' and worse == 'BR'").iloc[0]
    assert certain["LP", "BR"] == f"from k = {row['first']:g}" and row["last"] == 14
    assert ("BR", "LP") not in certain
    assert said.endswith(f"; the folds are sure of LP {certain['LP', 'BR']}.")


def test_certain_crossings_are_told_first_and_the_others_counted():
    found = compared()
    told = sentences(found)
    assert len(told_of_crossings(found)) == 8 and len(cells(pairs_table(found), "dataset")) == 9
    assert "the folds are sure of" in told[0] and told[2] == "The table tells of 6 more changes."
    assert "no change of order is certain" not in " ".join(told)
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
    assert cells(pairs_table(found), "overtaken above") == ["never"]
    assert cells(pairs_table(found), "certainly better") == ["for every k"]
    same = profiles({"d": 6}, {"a": (1.0, 0.1)})
    errors, folds = ({("d", m): part["d", "a"] for m in "ab"} for part in (same.errors, same.folds))
    found = compare_profiles(Profiles(errors, {"d": 6}, folds))
    assert cells(pairs_table(found), "overtaken above") == ["equal"]
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
    assert len(pairs_table(alone).columns) == 3


def test_the_flattest_method_stands_first():
    slopes = compared().awareness["slope"].groupby(level="method").mean()
    assert cells(awareness_table(compared()), "method") == [*slopes.sort_values().index]


def test_means_are_over_datasets_that_all_methods_share():
    n_labels = {"d": 6, "e": 7}
    more = of_some("f", "BR", seed=1)
    found = compare_profiles(joined({**n_labels, "f": 6}, profiles(n_labels), more))
    shared = found.awareness.loc[["d", "e"]].groupby(level="method")["area"].mean()
    assert found.awareness_means["area"].to_dict() == pytest.approx(shared.to_dict())
    told = plain(awareness_table(found).note)
    assert "Means over 2 of 3 datasets that all methods share." in told


def test_methods_without_a_common_dataset_are_not_set_against_each_other():
    parts = of_some("d", "BR", "LP"), of_some("e", "CC")
    found = compare_profiles(joined({"d": 6, "e": 6}, *parts))
    assert "the means cannot be compared" in plain(awareness_table(found).note)


def test_alpha_is_named_for_the_polynomial_family():
    found = compared(family="polynomial")
    assert not re.search(r"\bk\b", " ".join(sentences(found)))
    at = found.crossings.query("dataset == 'yeast' and method_a == 'BR' and method_b == 'LP'")[
        "parameter"
    ].iloc[0]
    told = " ".join(told_of_crossings(found))
    assert f"LP overtakes BR above α = {float(f'{at:.3g}'):g}" in told


def test_profiles_of_scores_say_so():
    rng = np.random.default_rng(0)
    errors = {("d", m): np.sort(rng.uniform(0, 1, (5, 4)))[:, ::-1] for m in "ab"}
    found = compare_profiles(Profiles.from_errors(errors))
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
    expected = sentences(described(c.profiles))
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


@pytest.mark.parametrize("format", FORMATS)
def test_names_of_strangers_are_text(format):
    names, found = hostile()
    text = rendered(found, format)
    assert "\x1b" not in text and "\u202e" not in text
    if format in ("html", "md"):
        assert "<script>alert" not in text and "<img" not in text
    if format == "html":
        assert all(str(escape(terminal(name))) in text for name in names[:6])
