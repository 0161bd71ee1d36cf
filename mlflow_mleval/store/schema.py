"""How one run carries results (metric keys, tags, artifact paths, their version), and what is
believed of what others may have written into a run: one method on one dataset under one protocol.
The tags `TAG_FOLDS`, `TAG_PROFILE` and `TAG_SOFT_PROFILE` repeat as JSON what metrics say by fold,
so that a reader of many runs needs one search and nothing per run."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mlflow_mleval.sentences import MAX_TAG, quoted, some

T = TypeVar("T")
#: Raised when an older reader would misread what a newer writer stores.
SCHEMA_VERSION = 1

#: Measures: means over the folds at step 0, and values by fold, step = fold.
METRIC_PREFIX, FOLD_PREFIX = "mleval/", "mleval.fold/"
#: Of the label sets ("hard") and of the scores ("soft"), step = parameter of the loss.
PROFILE_PREFIXES = {"hard": "mleval.profile/", "soft": "mleval.soft_profile/"}
#: No results, and not read as such: curves of the scores of all label cells together, step = whole
#: percents; how validation data were predicted while training, step = epoch; and what was evaluated
#: (instances, labels, cardinalities).
CURVE_PREFIX, EPOCH_PREFIX, DATA_PREFIX = "mleval.curve/", "mleval.epoch/", "mleval.data/"
EPOCH_PROFILE_PREFIXES = {"hard": "mleval.epoch.profile/", "soft": "mleval.epoch.soft_profile/"}

TAG_METHOD = "mleval.method"
TAG_DATASET = "mleval.dataset"
TAG_SCHEMA = "mleval.schema"
TAG_KIND = "mleval.kind"
TAG_STATUS = "mleval.status"
TAG_CONVENTIONS = "mleval.conventions"
TAG_FOLDS = "mleval.folds"
#: JSON: the instances of each fold in the test and, where known, the training part.
TAG_FOLD_SIZES = "mleval.fold_sizes"
#: JSON: true and false positives and negatives of each fold, summed over labels.
TAG_COUNTS = "mleval.counts"
#: Among how many candidates a search chose this method on these very folds.
TAG_SELECTED = "mleval.selected_among"
#: Number of this child among the trials of a search, whose result is its parent's.
TAG_TRIAL = "mleval.trial"
#: The epoch that the evaluated model is of, counted from 0.
TAG_EPOCH = "mleval.epoch"
#: JSON, by fold: the numbers of instances with 0, 1 .. wrong labels, and the mean largest, second
#: largest .. error of an instance; the loss profiles of label sets and of scores follow from them.
TAG_PROFILE, TAG_SOFT_PROFILE = "mleval.profile", "mleval.soft_profile"
TAG_PROFILES = {"hard": TAG_PROFILE, "soft": TAG_SOFT_PROFILE}
#: A token of the import or the result of a run: of several runs that claim the same, one is kept.
TAG_CLAIM = "mleval.claim"
#: Which repeat an imported run is: what its param `seed` says, from the moment at which it is made.
TAG_SEED = "mleval.seed"
#: SHA-256 of all that the run is to hold: logging the same again changes nothing.
TAG_DIGEST = "mleval.digest"
#: SHA-256 of what a report was asked for: the same again goes to the same run.
TAG_REPORT = "mleval.report"
#: What the last gate decided about the run.
TAG_GATE = "mleval.gate"
#: What a candidate remembers of looks at a gate against this champion.
TAG_LOOKS = "mleval.looks.{}"
LOOKS = {"over", "alpha", "improve", "margins", "slices", "time", "decided"}
#: JSON: what a gate of a ledger entered.
TAG_ENTRY = "mleval.entry"
#: Of an experiment: the run that holds the numbers of its register, so that lists leave it out.
TAG_REGISTER = "mleval.register"
#: "true" where the run was made for the evaluation and ends with it.
TAG_OWN_RUN = "mleval.own_run"
TAG_DATASET_DIGEST = "mleval.dataset_digest"
#: The run whose answers were evaluated, and where it recorded labels.
TAG_ANSWERS_OF, TAG_LABELS = "mleval.answers_of", "mleval.labels"
TAG_SPLIT_DIGEST = "mleval.split_digest"
TAG_HIERARCHY_DIGEST = "mleval.hierarchy_digest"
#: SHA-256 of what propensities follow from: training instances by label, a and b.
TAG_PROPENSITIES = "mleval.propensities"
#: SHA-256 of the weights of instances and their labels; a run without it counts each once.
TAG_WEIGHTS = "mleval.sample_weight"
#: JSON list of measures whose metrics are no longer valid: MLflow cannot delete a metric.
TAG_WITHDRAWN = "mleval.withdrawn"
#: Milliseconds since 1970 of the last change; later values get later timestamps than this.
TAG_UPDATED = "mleval.updated"
#: SHA-256 of the answers that were imported into the run.
TAG_ANSWERS = "mleval.answers"
#: JSON: the tags that only programs read, by their names without the prefix (see `packed`).
TAG_RUN = "mleval.run"

#: What MLflow calls the run that a run is part of, and what a dataset of a run is for.
MLFLOW_PARENT, MLFLOW_CONTEXT = "mlflow.parentRunId", "mlflow.data.context"

KIND_IMPORT, KIND_EVALUATION = "import", "evaluation"
#: Runs that hold no results, and are in no study, survey or list: reports, gates of a ledger, and
#: what holds the numbers of a register.
KIND_REPORT, KIND_GATE, KIND_REGISTER = "report", "gate", "register"
RECORDS = (KIND_REPORT, KIND_GATE, KIND_REGISTER)
COMPLETE, DNF, INCOMPLETE = "complete", "dnf", "incomplete"
UNKNOWN_CONVENTIONS = "unknown"
CONVENTIONS = ("sklearn", "mulan", UNKNOWN_CONVENTIONS)

ARTIFACT_REPORT = "mleval_report.html"
#: Where MLflow's UI shows a stored report, in its own address.
PLACE_OF_REPORT = "/experiments/{}/runs/{}/artifacts/" + ARTIFACT_REPORT
ARTIFACT_SUMMARY = "mleval_summary.md"
ARTIFACT_FOLDER = "mleval"
#: The verdict of a gate, beside the candidate's results.
ARTIFACTS_GATE = {"html": "mleval_gate.html", "md": "mleval_gate.md", "json": "mleval_gate.json"}
ARTIFACT_FOLDS = "mleval/folds.parquet"
ARTIFACT_COUNTS = "mleval/counts.parquet"
ARTIFACT_INSTANCES = "mleval/instances.parquet"
#: Of `ARTIFACT_INSTANCES`: the column of names, that of weights, where there are any, and the entry
#: of the file's metadata that tells which true labels each has.
INSTANCE, INSTANCE_WEIGHT, INSTANCE_TRUTH = "instance", "sample_weight", b"mleval.truth_sets"
ARTIFACT_PROFILE = "mleval/profile.csv"
#: The "family" in `ARTIFACT_PROFILE` of the mean i-th largest errors: all losses follow from them.
ERRORS = "errors"
#: What programs read, in one file, for each file is a request; and what of it readers ask for: a
#: run without the one has these by themselves, as `log_profile` writes them.
ARTIFACT_DATA = "mleval/data.zip"
IN_DATA = (ARTIFACT_COUNTS, ARTIFACT_FOLDS, ARTIFACT_PROFILE)

MAX_RUN_NAME = 250
#: Digits tried in turn until the folds fit a tag, where unrounded ones do not.
_DIGITS = (8, 6, 4)
#: Decimals tried in turn until the errors of a soft profile fit a tag; None is unrounded.
_DECIMALS = (None, 8, 6, 5, 4)
#: A tag that claims more labels, errors a row, or errors in all rows than these is not believed.
_MOST_LABELS, MOST_ERRORS, _MOST_CELLS = 10_000_000, 100_000, 1_000_000
#: Where values by fold can be, if not in the tag.
_ELSEWHERE = (FOLD_PREFIX, ARTIFACT_FOLDS)
#: Errors may miss their order and their range by rounding.
SLACK = 1e-9


#: How stores name runs, and we what is to be brought in once.
HEX_ID = re.compile("[0-9a-f]{32}")


def sha256_of(text: str) -> str:
    """The digest of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def epoch_profile_key(kind: str, k: int, n_labels: int) -> str:
    """Key of the binomial loss at k, step = epoch; the keys sort by k: ``…/k03`` of 14 labels."""
    return f"{EPOCH_PROFILE_PREFIXES[kind]}k{k:0{len(str(n_labels))}d}"


@lru_cache
def measure_of(key: str) -> str | None:
    """The measure that a metric of ours carries; None for profiles, folds and others' metrics."""
    return key[len(METRIC_PREFIX) :] if key.startswith(METRIC_PREFIX) else None


def is_result_file(path: str) -> bool:
    """Whether this package writes artifacts at such a path."""
    in_folder = path.startswith(f"{ARTIFACT_FOLDER}/")
    return in_folder or path in (ARTIFACT_REPORT, ARTIFACT_SUMMARY)


def newer_schema(tags: Mapping[str, str]) -> str | None:
    """Why a run's tags must not be read by this version; None where they can be.
    >>> newer_schema({"mleval.schema": "2"})
    'schema 2, and this version of mlflow-mleval knows up to 1. Upgrade mlflow-mleval.'
    """
    version = tags.get(TAG_SCHEMA, str(SCHEMA_VERSION))
    if version.isdecimal() and len(version) < 10 and int(version) <= SCHEMA_VERSION:
        return None
    return (
        f"schema {version[:20]}, and this version of mlflow-mleval knows up to {SCHEMA_VERSION}. "
        "Upgrade mlflow-mleval."
    )


#: Characters of a digest of ours; MLflow's are shorter.
OWN_DIGEST = 64


def differ(digests: Iterable[str]) -> bool | None:
    """Whether digests are of different data; None where they do not compare: ours and MLflow's,
    which their lengths tell apart, do not. Runs without one do not count.
    >>> differ(["1a", "1a", ""]), differ(["1a", "2b"]), differ(["1a", "1"])
    (False, True, None)
    """
    distinct = {digest for digest in digests if digest}
    forms = {len(digest) for digest in distinct}
    return True if len(distinct) > len(forms) else None if len(forms) > 1 else False


def withdrawn(tags: Mapping[str, str]) -> frozenset[str]:
    """Measures whose stored metrics are no longer valid; empty where the tag cannot be read."""
    with suppress(ValueError):
        return decode_withdrawn(tags.get(TAG_WITHDRAWN, ""))
    return frozenset()


def decode_withdrawn(text: str) -> frozenset[str]:
    """The measures that the tag `TAG_WITHDRAWN` names."""
    with _read(text or "[]", "list of withdrawn measures") as names:
        if not isinstance(names, list) or any(type(name) is not str for name in names):
            raise ValueError("no list of names")
        return frozenset(names)


def run_name(method: str, dataset: str) -> str:
    """What the UI calls the run; the tags carry the whole names."""
    name = f"{method} · {dataset}"
    return name if len(name) <= MAX_RUN_NAME else name[: MAX_RUN_NAME - 1] + "…"


@dataclass(frozen=True)
class FoldValues:
    """Values by measure and fold as a tag carries them; NaN where there is none."""

    folds: Sequence[int]
    values: Mapping[str, Sequence[float]]
    digits: int | None = None  # significant, to which values were rounded; None where exact
    omitted: str | None = None  # where to find them, if they were too many for a tag


def encode_folds(
    folds: Sequence[int], values: Mapping[str, Sequence[float]], elsewhere: str = FOLD_PREFIX
) -> str:
    """The tag `TAG_FOLDS`: exact if that fits, else with fewer digits, else a pointer.
    >>> encode_folds([1, 2], {"f1": [0.5, float("nan")]})
    '{"schema":1,"folds":[1,2],"values":{"f1":[0.5,null]}}'
    """
    exact = {
        m: [None if math.isnan(v) else float(v) for v in column] for m, column in values.items()
    }
    whole = {"folds": [int(f) for f in folds], "values": exact}
    mark = {"sha256": sha256_of(_text(whole))}
    rounded = (
        whole
        | {"values": {m: _rounded(column, digits) for m, column in exact.items()}}
        | {"digits": digits, **mark}
        for digits in _DIGITS
    )
    return _first_fitting({}, [whole], rounded, [{"omitted": elsewhere, **mark}])


def _rounded(column: Sequence[float | None], digits: int) -> list[float | None]:
    return [v if not v else float(f"{v:.{digits}g}") for v in column]


def decode_folds(text: str) -> FoldValues:
    """What `encode_folds` wrote."""
    with _read(text, "tag of the folds") as content:
        if "omitted" in content:
            if content["omitted"] not in _ELSEWHERE:
                raise ValueError(f"it points to {quoted(content['omitted'])}, where nothing is")
            return FoldValues([], {}, omitted=content["omitted"])
        if (digits := content.get("digits")) not in (None, *_DIGITS):
            raise ValueError("digits that are none")
        folds, values = _by_fold(content["folds"], content["values"], gaps=True)
        return FoldValues(folds, values, digits=digits)


def _by_fold(
    folds: object, columns: Mapping[str, Sequence[Any]], gaps: bool = False
) -> tuple[list[int], dict[str, list[float]]]:
    """Folds, each once, and columns of as many numbers."""
    distinct = whole_numbers(folds)
    values = {name: _plain_numbers(column, gaps) for name, column in columns.items()}
    if {len({*distinct}), *map(len, values.values())} != {len(distinct)}:
        raise ValueError("columns of different length")
    return distinct, values


def encode_fold_sizes(n_test: Sequence[int], n_train: Sequence[int]) -> str:
    """The tag `TAG_FOLD_SIZES`; `n_train` may be empty."""
    return _text({"n_test": list(map(int, n_test)), "n_train": list(map(int, n_train))})


def decode_fold_sizes(text: str) -> dict[str, tuple[int, ...]]:
    """What `encode_fold_sizes` wrote.
    >>> decode_fold_sizes('{"n_test":[10,10],"n_train":[20,20]}')
    {'n_train': (20, 20), 'n_test': (10, 10)}
    """
    with _read(text, "tag of the folds' sizes") as content:
        return {name: tuple(whole_numbers(content[name], 0)) for name in ("n_train", "n_test")}


#: What `TAG_COUNTS` and `ARTIFACT_COUNTS` count.
CELLS = ("tp", "fp", "fn", "tn")


def encode_counts(folds: Sequence[int], counts: Mapping[str, Sequence[float]]) -> str:
    """The tag `TAG_COUNTS`.
    >>> encode_counts([0, 1], {"tp": [3, 4], "fp": [1, 0], "fn": [0, 0], "tn": [6, 6]})
    '{"folds":[0,1],"tp":[3,4],"fp":[1,0],"fn":[0,0],"tn":[6,6]}'
    """
    whole = {
        cell: [int(v) if float(v).is_integer() else float(v) for v in counts[cell]]
        for cell in CELLS
    }
    return _text({"folds": list(map(int, folds)), **whole})


def decode_counts(text: str) -> tuple[list[int], dict[str, list[float]]]:
    """The folds, and what `encode_counts` wrote of each.
    >>> decode_counts('{"folds":[7],"tp":[3],"fp":[1],"fn":[0],"tn":[6]}')
    ([7], {'tp': [3.0], 'fp': [1.0], 'fn': [0.0], 'tn': [6.0]})
    """
    with _read(text, "tag of the counts") as content:
        folds, counts = _by_fold(content["folds"], {cell: content[cell] for cell in CELLS})
        if any(v < 0 for row in counts.values() for v in row):
            raise ValueError("counts that are none")
        return folds, counts


@dataclass(frozen=True)
class ProfileTag:
    """What loss profiles of every family follow from, as a tag carries it."""

    n_labels: int
    folds: Sequence[int]  # one a row; empty where the one row is that of all instances
    n: Sequence[int]  # instances of each row
    # Hard: the numbers of instances with 0, 1 .. wrong labels. Soft: the mean over instances of the
    # largest error, the second largest .. Zeros at the end of a row are left out.
    rows: Sequence[Sequence[float]]
    pooled: bool = False  # there are folds that did not fit
    omitted: bool = False  # nothing fitted: `ARTIFACT_PROFILE` holds the row of all instances


def encode_profile(counts: Sequence[Sequence[float]], folds: Sequence[int] = ()) -> str:
    """The tag `TAG_PROFILE`: exact; the folds added up if they do not fit, else a pointer.
    >>> encode_profile([[5, 1, 0], [4, 0, 2]], [1, 2])
    '{"schema":1,"n_labels":2,"folds":[1,2],"counts":[[5,1],[4,0,2]]}'
    """
    rows = np.asarray(counts)
    forms = (
        parts | {name: [written(row).tolist() for row in table.astype(int)]}
        for parts, table in _by_fold_then_pooled(folds, rows, rows.sum(axis=0, keepdims=True))
        for name, written in (("counts", _without_zeros), ("sparse", _places_and_values))
    )
    return _profile_text(rows.shape[1] - 1, rows, forms)


def encode_soft_profile(
    errors: Sequence[Sequence[float]], n: Sequence[float], folds: Sequence[int] = ()
) -> str:
    """The tag `TAG_SOFT_PROFILE`: exact, else with fewer decimals, else pooled, else a pointer.
    >>> encode_soft_profile([[0.75, 0.25]], [20])
    '{"schema":1,"n_labels":2,"n":[20],"errors":[[0.75,0.25]]}'
    """
    exact, sizes = np.asarray(errors, float), np.asarray(n)
    pooled = sizes.sum(keepdims=True), np.average(exact, axis=0, weights=sizes)[None]
    forms = (
        parts
        | {"n": of_rows.astype(int).tolist()}
        | {
            "errors": [
                _without_zeros(row).tolist() for row in (rows if d is None else rows.round(d))
            ]
        }
        for parts, (of_rows, rows) in _by_fold_then_pooled(folds, (sizes, exact), pooled)
        for d in _DECIMALS
    )
    return _profile_text(exact.shape[1], sizes, forms)


def decode_profile(text: str, kind: str = "hard") -> ProfileTag:
    """What `encode_profile` wrote, or of the kind "soft" `encode_soft_profile`."""
    rows: list[Any]
    with _read(text, "profile") as content:
        (n_labels,) = whole_numbers([content["n_labels"]], 1)
        if n_labels > _MOST_LABELS:
            raise ValueError("its number of labels is none")
        if "omitted" in content:
            return ProfileTag(n_labels, [], [], [], omitted=True)
        folds, most = whole_numbers(content.get("folds", [])), n_labels + (kind == "hard")
        if kind == "soft":
            rows, n = [*map(_plain_numbers, content["errors"])], whole_numbers(content["n"], 1)
            check_errors(rows)
        else:
            rows = [whole_numbers(row, 0) for row in content.get("counts", content.get("sparse"))]
            if "counts" not in content:
                _refuse_more([max(row[::2], default=-1) + 1 for row in rows], most)
                rows = [np.bincount(row[::2], row[1::2]).astype(int).tolist() for row in rows]
            n = [sum(row) for row in rows]
        _refuse_more([*map(len, rows)], most)
        if not len(rows) == len(n) == (len(folds) or 1) or len({*folds}) < len(folds) or min(n) < 1:
            raise ValueError("rows, sizes and folds of different number")
        return ProfileTag(n_labels, folds, n, rows, content.get("pooled") is True)


def check_errors(rows: Sequence[Sequence[float]]) -> None:
    """Raise a ValueError where the errors of a row do not fall, or are none."""
    for row in map(np.asarray, rows):
        are_shares = ((row >= -SLACK) & (row <= 1 + SLACK)).all()
        if not (are_shares and (np.diff(row) <= SLACK).all()):
            raise ValueError("its errors are none")


def _by_fold_then_pooled(
    folds: Sequence[int], by_fold: T, of_all: T
) -> Iterator[tuple[dict[str, object], T]]:
    """What is said of the folds, and what goes with it: each fold, then all together."""
    yield ({"folds": list(map(int, folds))} if len(folds) else {}), by_fold
    if len(folds) > 1:
        yield {"pooled": True}, of_all


def _profile_text(n_labels: int, sizes: np.ndarray, forms: Iterable[Mapping[str, object]]) -> str:
    """A profile, else where to find it, as where its sizes are sums of weights."""
    fit = () if (sizes % 1).any() else forms
    return _first_fitting({"n_labels": n_labels}, fit, [{"omitted": ARTIFACT_PROFILE}])


def _first_fitting(head: Mapping[str, object], *forms: Iterable[Mapping[str, object]]) -> str:
    """The first form that a tag has room for, as the last one is."""
    texts = (_text({"schema": SCHEMA_VERSION, **head, **form}) for form in chain(*forms))
    return next(text for text in texts if len(text) <= MAX_TAG)


_text = partial(json.dumps, separators=(",", ":"))
_without_zeros = partial(np.trim_zeros, trim="b")


def _places_and_values(row: np.ndarray) -> np.ndarray:
    places = np.flatnonzero(row)
    return np.column_stack([places, row[places]]).ravel()


def _refuse_more(lengths: Sequence[int], most: int) -> None:
    """ValueError where rows are longer than they can be, or would take much memory."""
    longest = max(lengths, default=0)
    if longest > min(most, MOST_ERRORS) or longest * len(lengths) > _MOST_CELLS:
        raise ValueError(f"{len(lengths)} rows of up to {longest:,} numbers are too many")


#: What reading JSON of another form raises.
_MALFORMED = LookupError, TypeError, AttributeError, ValueError, OverflowError, RecursionError


@contextmanager
def _read(text: str, what: str) -> Iterator[Any]:
    """The content of a tag; whatever is wrong with it in the block is a ValueError."""
    try:
        content = bounded_json(text)
        if isinstance(content, dict) and content.get("schema", 0) > SCHEMA_VERSION:
            raise ValueError(f"it has schema {content['schema']}, newer than {SCHEMA_VERSION}")
        yield content
    except _MALFORMED as error:
        raise ValueError(f"the {what} is not in the form this package writes ({error}).") from error


def _plain_numbers(values: Sequence[Any], gaps: bool = False) -> list[float]:
    """Numbers of JSON as floats, and `null` as NaN if there may be gaps."""
    kinds = (int, float, type(None)) if gaps else (int, float)
    if wrong := [value for value in values if type(value) not in kinds]:
        raise ValueError(f"{quoted(wrong[0])} is no number")
    return [math.nan if value is None else float(value) for value in values]


# --------------------------------------------------------------------------------------------------
# The tags that only programs read, kept in one, so that a run's page shows what a person wants.
# What is written goes through `packed` and what is read through `unpacked`: all other code knows
# each tag by its name. One for which the one has no room stands apart, and stays so.

#: What the names of all tags begin with.
TAG_PREFIX = "mleval."
#: Those that go into `schema.TAG_RUN`. Not by what somebody may have to choose runs: hierarchy,
#: propensities, among how many.
PACKED = frozenset(
    (
        *(TAG_ANSWERS, TAG_CLAIM, TAG_COUNTS, TAG_DIGEST, TAG_EPOCH, TAG_FOLD_SIZES, TAG_OWN_RUN),
        *(TAG_PROFILE, TAG_SOFT_PROFILE, TAG_TRIAL, TAG_UPDATED, TAG_WITHDRAWN),
    )
)


def packed(changes: Mapping[str, str], tags: Mapping[str, str] | None = None) -> dict[str, str]:
    """What to write so that a run with these tags, as `unpacked` gives them, gets the changes.
    >>> packed({"mleval.method": "BR", "mleval.updated": "9"})
    {'mleval.method': 'BR', 'mleval.run': '{"schema":1,"updated":"9"}'}
    """
    tags = tags or {}
    before = _packed_tags(tags)
    stands_apart = tags.keys() - before.keys()
    apart = {k: v for k, v in changes.items() if k not in PACKED or k in stands_apart}
    whole = {k: v for k, v in {**before, **changes}.items() if v and k not in apart}
    inside = {key.removeprefix(TAG_PREFIX): value for key, value in whole.items()}
    while len(text := _text({"schema": SCHEMA_VERSION, **inside})) > MAX_TAG:
        longest = max(inside, key=lambda key: len(inside[key]))
        apart[TAG_PREFIX + longest] = inside.pop(longest)
    return apart | ({TAG_RUN: text} if inside or TAG_RUN in tags else {})


def unpacked(tags: Mapping[str, str]) -> dict[str, str]:
    """All tags of a run by their names; one that stands apart counts."""
    return {**_packed_tags(tags), **tags}


def decode(text: str) -> dict[str, str]:
    """The tags that the text of `schema.TAG_RUN` holds."""
    with _read(text, "tag") as content:
        del content["schema"]
        if wrong := [value for value in content.values() if not isinstance(value, str)]:
            raise ValueError(f"{quoted(wrong[0])} is no text")
        named = {TAG_PREFIX + key: value for key, value in content.items()}
        return {key: value for key, value in named.items() if key in PACKED}


def filter_of_packed(tag: str, value: str = "") -> str:
    """A filter in MLflow's syntax of runs with this packed tag; a value has digits and letters.
    >>> filter_of_packed("mleval.digest", "ab")
    'tags.`mleval.run` LIKE \\'%"digest":"ab%\\''
    """
    inside = f'"{tag.removeprefix(TAG_PREFIX)}":"{value}'
    return f"tags.`{TAG_RUN}` LIKE '%{inside}%'"


def _packed_tags(tags: Mapping[str, str]) -> dict[str, str]:
    try:
        return decode(tags[TAG_RUN]) if TAG_RUN in tags else {}
    except ValueError:
        return {}


# --------------------------------------------------------------------------------------------------
# Bounds on what is read: anybody may write anything into a run.

#: Brackets within each other; what this package writes has four at most.
MAX_DEPTH = 20
#: Digits of a whole number: more are no 64-bit integer.
MAX_DIGITS = 18
#: Cells of a table that is read at once, bytes of a CSV file, and bytes of all names of a column.
MAX_CELLS, MAX_CSV, MAX_NAMES = 20_000_000, 64_000_000, 200_000_000
#: Larger numbers are no results: their squares and sums are beyond what a float can hold.
LARGEST = 1e150
_TEXT, _NO_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL), re.compile(r"[^][{}]+")
_STEP = {"[": 1, "{": 1, "]": -1, "}": -1}
_LONG = re.compile(rf"(?<![\d.])\d{{{MAX_DIGITS + 1},}}(?![\d.eE])")
#: Only such text can hold numbers that are too large; all other is spared the slower way.
_LARGE = re.compile(rf"[eE]|(?<!\d)\d{{{MAX_DIGITS + 1}}}")


def bounded_json(text: str, longest: int = MAX_TAG) -> Any:
    """The content of JSON text: finite numbers, integers of 64 bits, few brackets within each
    other.
    >>> bounded_json("[1, Infinity]")
    Traceback (most recent call last):
    ValueError: Infinity is no finite number
    """
    if len(text) > longest:
        raise ValueError(f"it has {len(text):,} characters, more than {longest:,}")
    bare = _TEXT.sub('""', text)
    depth = max(accumulate(_STEP[char] for char in _NO_BRACKETS.sub("", bare)), default=0)
    if depth > MAX_DEPTH:
        raise ValueError(f"{depth:,} brackets are open within each other, more than {MAX_DEPTH}")
    if long := _LONG.search(bare):
        raise ValueError(f"a whole number has {len(long[0]):,} digits, more than {MAX_DIGITS}")
    parse = _finite if _LARGE.search(bare) else None
    return json.loads(text, parse_constant=_finite, parse_float=parse)


def computable(value: Any) -> Any:
    """Whether sums and squares of a value, or of each of an array, are numbers.
    >>> computable(-0.5), computable(1e308), computable(float("nan"))
    (True, False, False)
    """
    return (value <= LARGEST) & (value >= -LARGEST)


def whole_numbers(values: Any, least: int = -(2**63)) -> list[int]:
    """The values as they are, if they are a list of whole numbers of at least `least`."""
    if not isinstance(values, list) or any(type(v) is not int or v < least for v in values):
        raise ValueError(f"{quoted(values)} are no whole numbers, or too small")
    return values


def read_table(
    path: str | Path, columns: Collection[str], names: Collection[str] = ()
) -> pd.DataFrame:
    """Columns of finite or missing numbers, and of names as text, of a parquet or CSV file."""
    wanted = [*names, *columns]
    if Path(path).suffix == ".csv":
        if (size := Path(path).stat().st_size) > MAX_CSV:
            raise ValueError(f"it has {size:,} bytes, more than {MAX_CSV:,}")
        table = decoded(lambda: pd.read_csv(path, usecols=wanted))
    else:
        file = open_parquet(path, wanted, names)
        table = decoded(lambda: plain_names(file.read(wanted), names).to_pandas())
    for name in columns:
        if not pd.api.types.is_numeric_dtype(table[name]):
            raise ValueError(f"its column {name} holds something else than numbers")
        if (np.abs(table[name].to_numpy(float)) > LARGEST).any():
            raise ValueError(f"its column {name} holds a number that is infinite or too large")
    return table.astype(dict.fromkeys(names, str))


def open_parquet(
    path: str | Path, columns: Sequence[str], names: Collection[str] = ()
) -> pq.ParquetFile:
    """A parquet file whose columns can be read, as its head says; no row is read for it. Names are
    a dictionary: one that is repeated a million times takes its room once."""
    file = decoded(lambda: pq.ParquetFile(path, read_dictionary=list(names)))
    schema, rows = file.schema_arrow, file.metadata.num_rows
    if lacking := [name for name in columns if len(schema.get_all_field_indices(name)) != 1]:
        raise ValueError(f"it has no column {some(lacking)}, or more than one")
    refuse_cells(rows, len(columns))
    for name in columns:
        kind = schema.field(name).type
        is_text = pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type)
        if not (is_number(kind) or (name in names and is_text)):
            raise ValueError(f"its column {name} is of type {str(kind)[:40]}")
    return file


def refuse_cells(rows: int, columns: int) -> None:
    """Raise a ValueError for a table with more cells than are read at once."""
    if rows * columns > MAX_CELLS:
        raise ValueError(f"it has {rows:,} rows, more than {MAX_CELLS // columns:,}")


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type holds numbers."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def plain_names(table: pa.Table, names: Collection[str]) -> pa.Table:
    """The table with names as plain text, if there is room for them."""
    for place, name in enumerate(table.schema.names):
        column = table[name]
        if name not in names or not pa.types.is_dictionary(column.type):
            continue
        lengths = (pc.take(pc.binary_length(c.dictionary), c.indices) for c in column.chunks)
        if (size := sum(pc.sum(length).as_py() or 0 for length in lengths)) > MAX_NAMES:
            raise ValueError(
                f"the names in its column {name} take {size:,} bytes, more than {MAX_NAMES:,}"
            )
        table = table.set_column(place, name, column.cast(pa.string()))
    return table


def decoded(read: Any) -> Any:
    """What is read from a file; a ValueError where it is damaged."""
    try:
        return read()
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError, MemoryError) as error:
        raise ValueError(f"it is damaged: {' '.join(str(error).split())[:200]}") from error


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is no finite number")
    if not computable(value):
        raise ValueError(f"{text[:40]} is too large")
    return value
