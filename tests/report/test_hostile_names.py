"""Whatever strangers call what a report tells of, it is text there: in all reports and formats."""

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from html_pages import Page
from report_cases import NASTY, PROVENANCE, fold_study, nasty, study_of
from report_cases import hostile as hostile_profiles
from run_report_cases import nasty as hostile_run

from mlflow_mleval.analysis.answer_comparison import Answers, aligned, compare_answers
from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.pairs_by_unit import instance_tests
from mlflow_mleval.report import FORMATS
from mlflow_mleval.report import text as escape
from mlflow_mleval.report.content import profiles, run, study_report, units

TOLD = {**PROVENANCE, "command": "mleval -n '</script><script>alert(1)</script>'"}
VALUES = np.random.default_rng(0).random((len(NASTY), 20))


def answers():
    keys = pd.Index([f"=1+{i}" for i in range(20)])
    about = pd.DataFrame({"asked": NASTY[0], "link": NASTY[6]}, keys)
    of = {}
    for name, column in zip(NASTY, VALUES, strict=True):
        values = pd.DataFrame(dict.fromkeys(NASTY[:3], column), keys)
        of[name] = Answers(values, about, notes=(name,), digest=name)
    return compare_answers(aligned(of), maximize=NASTY[:3], n_resamples=99).report()


def instances():
    of = {name: {NASTY[0]: column} for name, column in zip(NASTY, VALUES, strict=True)}
    return instance_tests(of, [NASTY[0]], maximize=[NASTY[0]], n_resamples=99).report()


def folds():
    shifts = {name: (0.05 * i, 0.0) for i, name in enumerate(NASTY)}
    return units.document(compare(fold_study(shifts, datasets=tuple(NASTY[:2]))).folds, TOLD)


def listing():
    study = study_of(len(NASTY), 2, names=NASTY)
    runs = study.values.reset_index()[["dataset", "method"]].assign(run_id=NASTY * 2)
    return replace(study, runs=runs, notes=(NASTY[0],)).report()


REPORTS = {
    "study": lambda: study_report.document(nasty(stability=20, rope=0.01), TOLD),
    "pair": lambda: nasty().detail(method=NASTY[0], against=NASTY[3]),
    "cell": lambda: nasty().detail(method=NASTY[0], dataset=NASTY[1]),
    "folds": folds,
    "profiles": lambda: profiles.document(hostile_profiles()[1], TOLD),
    "answers": answers,
    "instances": instances,
    "runs": listing,
    "one run": lambda: run.document(hostile_run()),
}


@pytest.mark.parametrize("report", REPORTS)
def test_names_of_strangers_are_text(report):
    document = REPORTS[report]()
    formats = [f for f in FORMATS if document.main or f not in ("csv", "json")]  # details have none
    texts = {format: document.render(format) for format in formats} | document.files()
    for name, text in texts.items():
        assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e]", text), name
    page = Page(texts["html"])
    assert not {"img", "a", "iframe", "form"} & {tag for tag, _ in page.elements}
    assert not [a for _, attributes in page.elements for a in attributes if a.startswith("on")]
    assert escape.terminal(NASTY[0]) in page.text and "alert(1)</" not in "".join(page.scripts)
    assert "<img" not in texts["md"] and "](http" not in texts["md"].replace("\\](", "")
    assert escape.markdown(NASTY[0]) in texts["md"] and r"\input{/" not in texts["latex"]
    assert not document.main or NASTY[0] in json.dumps(json.loads(texts["json"]))
    tables = [[*csv.reader(text.splitlines())] for name, text in texts.items() if "csv" in name]
    assert all(len({*map(len, rows)}) == 1 for rows in tables)
    cells = {cell for rows in tables for row in rows for cell in row}
    assert not [cell for cell in cells if cell[:1] in ("=", "@", "+", "\t")]
    assert not document.main or escape.csv_cell(NASTY[1]) in cells
