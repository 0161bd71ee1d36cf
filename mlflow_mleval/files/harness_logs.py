"""Results an answer: logs of other evaluation tools, and tables with a column instance."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import struct
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from mlflow_mleval.analysis.answer_comparison import PASS, Answers
from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.files.results import (
    INSTANCE,
    PARQUET,
    columns_shown,
    read_cells,
    reason,
    tool_results,
    unreadable,
    with_names_known_here,
)
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.sentences import measure_name_problem, quoted, some

# ---- logs of lm-evaluation-harness (samples_*.jsonl) and Inspect (.eval, .json) ------------------

#: Bytes of one file within a log, or of one line, once it is unpacked.
LARGEST = 200_000_000
#: Characters of a question that a table shows.
SHOWN = 200
#: What Inspect's scorers say in place of numbers: correct, incorrect, partial, no answer.
GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
#: What a line of lm-evaluation-harness holds beside its metrics.
_LINE = {
    *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
    *("doc_hash", "prompt_hash", "target_hash"),
}
#: How a zip file says that a member is packed with zstandard, and the fixed part of its header.
_ZSTANDARD = 93
_HEAD = struct.Struct("<26xHH")


def is_answer_log(path: str | Path) -> bool:
    """Whether the file's name is that of a log."""
    name = Path(path).name
    is_harness = name.startswith("samples_") and name.endswith(".jsonl")
    return is_harness or name.endswith((".eval", ".json"))


def read_answer_log(path: str | Path) -> tuple[str, str, Answers]:
    """The method (the model, or its folder), the data set and the answers of one log."""
    path = Path(path)
    try:
        method, dataset, rows = _harness(path) if path.suffix == ".jsonl" else _inspect(path)
    except OSError as error:
        raise unreadable(path, error) from error
    except Exception as error:  # a damaged log fails in many ways
        why = f"is no log of answers that can be read: {type(error).__name__}: {reason(error)}"
        raise ImportFileError(f"{path.name} {why}.") from error
    if not rows:
        raise ImportFileError(f"{path.name} holds no scored answer. Log the samples, too.")
    return method, dataset, _answers(path, rows)


def _harness(path: Path) -> tuple[str, str, list[dict[str, Any]]]:
    """Lines of lm-evaluation-harness; those of older logs do not name their metrics."""
    rows = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.strip():
                continue
            sample = json.loads(line)
            names = sample.get("metrics", [name for name in sample if name not in _LINE])
            scores = flat({m: sample[m] for m in names})
            key = str(sample.get("doc_hash") or sample["doc_id"])[:16]
            if (filtered := sample.get("filter", "none")) != "none":
                scores = {f"{m}/{filtered}": v for m, v in scores.items()}
            rows.append(_row_of(key, scores, sample["doc"], sample["arguments"]))
    task = path.stem.removeprefix("samples_").rpartition("_")[0]
    return path.resolve().parent.name, task or path.stem, rows


def _inspect(path: Path) -> tuple[str, str, list[dict[str, Any]]]:
    samples: Iterable[dict[str, Any]]
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as log:
            names = [name for name in log.namelist() if name.startswith("samples/")]
        head, samples = _member(path, "header.json"), (_member(path, name) for name in names)
    else:
        if (size := path.stat().st_size) > LARGEST:
            raise ValueError(f"it has {size:,} bytes, more than {LARGEST:,}")
        head = json.loads(path.read_text("utf-8"))
        samples = head.get("samples") or ()
    if head.get("status") != "success":
        raise ValueError(f"its status is {head.get('status')!r}, not 'success'")
    rows = []
    for sample in samples:
        given = sample.get("scores") or {}
        scores = flat({name: score.get("value") for name, score in given.items()})
        about = sample.get("metadata") or {}
        rows.append(_row_of(str(sample["id"]), scores, about, sample["input"]))
    return str(head["eval"]["model"]), str(head["eval"]["task"]), rows


def _row_of(
    key: str, scores: Mapping[str, Any], about: Mapping[str, Any], asked: Any
) -> dict[str, Any]:
    """An answer of a log, with what is plain of what is about it, and how its question begins."""
    # text, the last message, or the arguments of a request
    if isinstance(asked, list) and asked and isinstance(asked[-1], dict):
        asked = asked[-1].get("content", "")
    if isinstance(asked, dict) and asked:
        first = next(iter(asked.values()))
        asked = first.get("arg_0", "") if isinstance(first, dict) else first
    told = {k: v for k, v in about.items() if isinstance(v, str | int | float)}
    return {"key": key, "scores": scores, "about": {**told, "link": "", "asked": shortened(asked)}}


def _member(path: Path, name: str) -> dict[str, Any]:
    """A JSON file within the log; zipfile of Python below 3.14 cannot unpack zstandard."""
    with zipfile.ZipFile(path) as log:
        info = log.getinfo(name)
        if info.file_size > LARGEST:
            raise ValueError(f"its {name} has {info.file_size:,} bytes, more than {LARGEST:,}")
        if info.compress_type != _ZSTANDARD:
            return json.loads(log.read(info))
    with path.open("rb") as file:
        file.seek(info.header_offset)
        file.seek(sum(_HEAD.unpack(file.read(_HEAD.size))), io.SEEK_CUR)
        packed = file.read(info.compress_size)
    return json.loads(pa.decompress(packed, info.file_size, codec="zstd", asbytes=True))


def flat(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Values by measure; the parts of a mapping are measures of their own."""
    found = {}
    for name, value in scores.items():
        for part, of in value.items() if isinstance(value, dict) else [("", value)]:
            found[f"{name}/{part}" if part else name] = of
    return found


def _answers(path: Path, rows: Sequence[Mapping[str, Any]]) -> Answers:
    """The answers of a log, each given by its key, its scores and what is about it."""
    index = pd.Index([row["key"] for row in rows], name="instance", dtype=object)
    # as objects, whole numbers stay whole where some row has none
    about = pd.DataFrame([row["about"] for row in rows], index=index, dtype=object)
    values: dict[str, list[float | None]] = {}
    words = []
    notes = []
    for measure in dict.fromkeys(name for row in rows for name in row["scores"]):
        cells = [row["scores"].get(measure) for row in rows]  # None where a row has none
        if problem := _problem(measure, cells):
            notes.append(f"{measure} is left out: {problem}.")
            continue
        if str in map(type, cells):
            about[measure] = ["" if value is None else str(value) for value in cells]
        scores = [_answer_logs_number(value) for value in cells]
        if None in scores:
            words.append(measure)
        else:
            values[measure] = scores
    if not values and not words:
        raise ImportFileError(f"{path.name} holds no metric of numbers or words. {' '.join(notes)}")
    keys = "\n".join(sorted(set(index))).encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(keys).hexdigest()[:8]
    table = pd.DataFrame(values, index=index, dtype=float)
    passing = tuple(
        m for m in table if table[m].notna().any() and table[m].dropna().isin([0.0, 1.0]).all()
    )
    return Answers(table, about, digest, passing=passing, notes=tuple(notes), words=tuple(words))


def _problem(measure: str, cells: Sequence[Any]) -> str | None:
    """Why the values are no measure of single answers, whatever words mean; None if they are."""
    broken = next((value for value in cells if type(value) in (list, dict)), None)
    problem = measure_name_problem(measure)
    if broken is None or problem:
        return problem
    kind = "lists" if isinstance(broken, list) else "mappings"
    shown = json.dumps(broken, ensure_ascii=False, default=str)
    return f"its values are {kind}, such as {quoted(shown)}"


def _answer_logs_number(value: Any) -> float | None:
    """The number that a score stands for, NaN without one; None for a word without an order."""
    if value is None:
        return np.nan
    if isinstance(value, str):
        if (grade := GRADES.get(value, PASS.get(value.strip().lower()))) is not None:
            return grade
        if not value.strip():
            return np.nan
    try:
        number = float(value)
    except ValueError:
        return None
    except OverflowError:  # a whole number of hundreds of digits
        return np.nan
    return number if math.isfinite(number) else np.nan


def shortened(asked: Any) -> str:
    """What was asked or answered as a table shows it."""
    text = asked if isinstance(asked, str) else json.dumps(asked, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


# ---- these, and tables with a column `instance` --------------------------------------------------

_NAMES = ("method", "dataset", INSTANCE)
#: What else a table may say of an instance, whatever it holds.
ABOUT = ("cluster", "asked", "link")
_LONG = ("measure", "value")
#: What is a value of a measure, or was meant as one.
_VALUE = r"[-+]?[\d.,]*\d[\d.,eE+-]*%?|[-+]?inf(inity)?|nan"


def holds_instances(path: str | Path) -> bool:
    """Whether the file holds a result an answer: a log, or a table with a column instance."""
    path = Path(path)
    try:
        if is_answer_log(path):
            is_json = path.suffix == ".json"  # it may hold results of another tool
            return not is_json or tool_results(path.read_text("utf-8"), path.name) is None
        if path.suffix in PARQUET:
            header = pq.read_schema(path).names
        else:
            with path.open(encoding="utf-8-sig", newline="") as file:
                header = next(csv.reader(file), [])
        return INSTANCE in [cell.strip().lower() for cell in header]
    except (OSError, ValueError, csv.Error):  # whoever reads it in full says what is wrong
        return is_answer_log(path)


def read_instance_results(path: str | Path) -> dict[tuple[str, str], Answers]:
    """By method and data set, the answers in a log, or in a table, CSV or parquet, with the columns
    method, dataset, instance and one a measure, or measure and value; more columns say more."""
    path = Path(path)
    if is_answer_log(path):
        method, dataset, answers = read_answer_log(path)
        return {(method, dataset): answers}
    table, measures, about = _table_of_instances(path)
    is_long = {*_LONG} <= {*table}
    for name in ["value"] if is_long else measures:
        column = table[name]
        is_given = column.str.strip() != ""
        values = pd.to_numeric(column.where(is_given, None), errors="coerce")
        values = values.fillna(column.str.strip().str.lower().map(PASS))
        bad = column[(values.isna() & is_given) | values.abs().eq(float("inf"))]
        if len(bad):
            more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
            where = f"{path.name}, {bad.index[0]}, column {quoted(name)}"
            raise ImportFileError(
                f"{where}: {quoted(bad.iloc[0])} is no finite number{more}. Leave the cell empty "
                "if there is none; call the column cluster if it is no measure and says which "
                "instances belong together, otherwise remove it."
            )
        table[name] = values.astype(float)
    results = {}
    for (method, dataset), rows in table.groupby(["method", "dataset"], sort=False):
        if is_long:
            rows = _wide(path, rows, measures, about)
        index = pd.Index(rows[INSTANCE], name=INSTANCE, dtype=object)
        values = rows[measures].dropna(axis=1, how="all").set_axis(index).astype(float)
        told = rows[[c for c in about if c in rows]].set_axis(index)
        usual = {"link": "", "asked": index}
        told = told.assign(**{c: cells for c, cells in usual.items() if c not in told})
        passing = tuple(m for m in values if values[m].dropna().isin([0.0, 1.0]).all())
        results[(method, dataset)] = Answers(values, told, passing=passing)
    return results


def _table_of_instances(path: Path) -> tuple[pd.DataFrame, list[str], list[str]]:
    """A table of instances as text, its measures, and the columns that say more."""
    source = with_names_known_here(read_cells(path))
    source.check_names()
    if lacking := [c for c in _NAMES if c not in source.cells]:
        there = columns_shown(source.header)
        raise ImportFileError(f"{path.name} has no column {lacking[0]!r}; it has {there}. Add it.")
    for name in _NAMES:
        source.cells[name] = source.texts(source.cells[name])
    table = source.cells.where(source.cells.notna(), "").astype(str)
    is_long = {*_LONG} <= {*table}
    taken = [*_NAMES, *ABOUT, *(_LONG if is_long else ())]
    others = table.columns.difference(taken, sort=False)
    if is_long:
        texts, measures = [*others], sorted(set(table["measure"]))
    else:  # text that is, and was meant as, no value of a measure describes instances
        cells = table[others].apply(lambda column: column.str.strip())
        meant = cells.apply(
            lambda column: (
                column.str.fullmatch(_VALUE, case=False) | column.str.lower().map(PASS).notna()
            )
        )
        described = (cells != "").any() & ~meant.any()
        texts = [c for c in others if described[c] and c not in MEASURES]
        measures = [c for c in others if c not in texts]
    source.check_measures(measures)
    if not measures:
        held = f" ({some(map(quoted, texts))} holds text)" if texts else ""
        hint = "Add one column a measure, or measure and value."
        raise ImportFileError(f"{path.name} has no column of a measure{held}. {hint}")
    return table, measures, table.columns.intersection([*ABOUT, *texts], sort=False).tolist()


def _wide(
    path: Path, rows: pd.DataFrame, measures: list[str], about_columns: list[str]
) -> pd.DataFrame:
    """A row an answer; the k-th value of a measure for an instance belongs to its k-th answer. What
    rows of an answer do not agree in is left out."""
    rows = rows.assign(_answer=rows.groupby([INSTANCE, "measure"]).cumcount())
    keys = [INSTANCE, "_answer"]
    values = rows.pivot(index=keys, columns="measure", values="value").reindex(columns=measures)
    cells = rows[about_columns]
    filled = rows[keys].join(cells.where(cells.apply(lambda column: column.str.strip() != "")))
    several = filled.groupby(keys, sort=False)[about_columns].nunique() > 1
    if "cluster" in several and len(wrong := several.index[several["cluster"]]):
        listed = some((key for key, _ in wrong), 5)
        why = f"the instances {listed} are in several clusters"
        raise ImportFileError(f"{path.name}: {why}. Put each into one.")
    agreed = [c for c in about_columns if c in ("asked", "link") or not several[c].any()]
    return filled.groupby(keys, sort=False)[agreed].first().fillna("").join(values).reset_index()
