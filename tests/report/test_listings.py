"""Listings of runs and measures: for people, programs, and against strangers' names."""

import csv
import io
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from command_line import mleval

from mlflow_mleval.errors import MissingResultsError
from mlflow_mleval.measures.registry import MEASURES, SETS
from mlflow_mleval.report.content.listings import measures_document
from mlflow_mleval.study import Excluded, Study


def study(names):
    rows = [{"dataset": d, "method": m, "f1": 0.5} for d in ("d1", "d2") for m in names]
    frame = pd.DataFrame(rows)
    frame.loc[0, "f1"] = np.nan
    ids = [str(i) for i in range(len(frame))]
    runs = frame[["dataset", "method"]].assign(run_id=ids, conventions="sklearn")
    gone = (Excluded("run", "r9", "status FAILED"),)
    return replace(Study.from_frame(frame), runs=runs, excluded=gone, notes=("a note",))


def test_the_table_shows_counts_gaps_and_what_was_left_out():
    text = study(["A", "B"]).report().render("table")
    assert "3 of 4 cells" in text and "d1       1 of 2  A" in text
    assert "run r9: status FAILED" in text
    assert "Notes\n- a note" in text


def test_the_only_gap_of_the_only_dataset_is_a_row_of_its_own():
    rows = [{"dataset": "d", "method": m, "f1": v} for m, v in (("A", 0.5), ("B", np.nan))]
    assert "d        1 of 2  B" in Study.from_frame(pd.DataFrame(rows)).report().render("table")


def test_a_command_holds_nothing_that_turns_the_text_around_it(log):
    """Of runs whose every name does."""
    for method in ("\u202egnp.a", "b\u202e\u2066", "c\u200f"):
        for dataset in ("d\u202e1", "d2"):
            of = {"experiment": "ours\u202egnp.exe", "params": {"model": method, "data": dataset}}
            log(f"{method}\u202e", {"accuracy": 0.5}, **of)
    for args in (["-n", "ours\u202egnp.exe"], [], ["--exclude", "method=b\u202e\u2066"]):
        done = mleval("runs", *args, "--output", "md", code=None)
        text = done.stdout + done.stderr
        assert "mleval rank" in text or done.exit_code, text
        assert not re.search("[\u200e\u200f\u202a-\u202e\u2066-\u2069]", text), ascii(text)


def test_no_run_is_told_from_a_run_that_did_not_finish():
    few = study(["A", "B", "C"])
    values = few.values.copy()
    values.loc[("d2", ["A", "C"]), "f1"] = np.nan
    runs = few.runs.assign(status="complete").drop(index=0)
    runs.loc[3, "status"] = "dnf"
    found = Study(values, few.directions, runs=runs)
    text = found.report().render("table")
    assert "d1       2 of 3  A" in text and "d2       1 of 3  A, C" in text
    assert found.why_empty(found.gaps()) == "1 never run, 1 did not finish, 1 without a value of f1"
    said = r"3 of 6 cells have no result \(A on d1, .*; 1 never run, 1 did"
    with pytest.raises(MissingResultsError, match=said):
        found.complete()


def test_it_fits_the_terminal_with_many_methods():
    text = study([f"method-{i}" for i in range(300)]).report().render("table", 80)
    assert max(map(len, text.splitlines())) <= 80 and "299 of 300" in text


def test_rows_say_several_numbers_with_spaces_and_none_with_nothing():
    few = study(["A"])
    runs = few.runs.assign(n_test=[(10, 12), ()])
    text = Study(few.values, few.directions, runs=runs).report().render("csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["n_test"] for row in rows] == ["10 12", ""]


def test_every_measure_and_set_is_listed():
    listed = measures_document()
    text, narrow = listed.render("table"), listed.render("table", 80)
    assert all(name in text for name in [*MEASURES, *SETS])
    assert max(map(len, narrow.splitlines())) <= 80
    assert all(m.summary in " ".join(narrow.split()) for m in MEASURES.values())
    found = json.loads(listed.render("json"))["measures"]
    assert [m["name"] for m in found] == list(MEASURES)
    assert {m["direction"] for m in found} == {"min", "max"}
