"""Logs of other evaluation tools, one row an answer: lm-evaluation-harness (samples_*.jsonl) and Inspect (.eval, .json)."""

from __future__ import annotations

import hashlib
import io
import json
import math
import struct
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from mlflow_mleval.analysis.answers import Answers
from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.files.reading import unreadable
from mlflow_mleval.naming import quoted

#: Bytes of one file within a log, or of one line, once it is unpacked.
LARGEST = 200_000_000
#: Characters of a question that a table shows.
_ASKED = 200
#: What Inspect's scorers say in place of numbers: correct, incorrect, partial, no answer.
GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
#: How a zip file says that a member is packed with zstandard, and the fixed part of what precedes it.
_ZSTANDARD, _HEAD = 93, struct.Struct("<26xHH")


def is_answer_log(path: str | Path) -> bool:
    """Whether the file's name is that of a log."""
    name = Path(path).name
    return name.endswith((".eval", ".json")) or (name.startswith("samples_") and name.endswith(".jsonl"))


def read_answer_log(path: str | Path) -> tuple[str, str, Answers]:
    """The method, the data set and the answers of one log.

    The method is the model; lm-evaluation-harness names it by the folder. Epochs of Inspect are further answers to the same
    question.

    Raises
    ------
    ImportFileError
        The file cannot be read, or is no log of a finished evaluation.
    """
    path = Path(path)
    try:
        method, dataset, found = _harness(path) if path.suffix == ".jsonl" else _inspect(path)
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, zipfile.BadZipFile, NotImplementedError) as error:
        reason = " ".join(str(error).split())[:150]
        raise ImportFileError(f"{path.name} is no log of answers that can be read: {type(error).__name__}: {reason}.") from error
    if not found:
        raise ImportFileError(f"{path.name} holds no scored answer. Log the samples, too.")
    return method, dataset, _table(found)


def _harness(path: Path) -> tuple[str, str, list[dict[str, Any]]]:
    """Lines of lm-evaluation-harness; each names its metrics."""
    found = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.strip():
                continue
            sample = json.loads(line)
            scores = {m: _number(sample[m]) for m in sample["metrics"]}
            key = str(sample.get("doc_hash") or sample["doc_id"])[:16]
            plain = {k: v for k, v in sample["doc"].items() if isinstance(v, str | int | float)}
            filtered = sample.get("filter", "none")
            if filtered != "none":
                scores = {f"{m}/{filtered}": v for m, v in scores.items()}
            found.append({"key": key, "scores": scores, "about": plain, "asked": _asked(sample["arguments"])})
    task = path.stem.removeprefix("samples_").rpartition("_")[0]
    return path.resolve().parent.name, task or path.stem, found


def _inspect(path: Path) -> tuple[str, str, list[dict[str, Any]]]:
    head, samples = _inspect_parts(path)
    if head.get("status") != "success":
        raise ValueError(f"its status is {head.get('status')!r}, not 'success'")
    found = []
    for sample in samples:
        scores = {}
        for name, score in (sample.get("scores") or {}).items():
            value = score["value"]
            parts = {f"{name}/{part}": v for part, v in value.items()} if isinstance(value, dict) else {name: value}
            scores |= {measure: _number(v) for measure, v in parts.items()}
        about = {k: v for k, v in (sample.get("metadata") or {}).items() if isinstance(v, str | int | float)}
        found.append({"key": str(sample["id"]), "scores": scores, "about": about, "asked": _asked(sample["input"])})
    return str(head["eval"]["model"]), str(head["eval"]["task"]), found


def _inspect_parts(path: Path) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """What the log says of the whole, and its samples one by one."""
    with path.open("rb") as file:
        packed = file.read(4) == b"PK\x03\x04"
    if not packed:
        if (size := path.stat().st_size) > LARGEST:
            raise ValueError(f"it has {size:,} bytes, more than {LARGEST:,}")
        whole = json.loads(path.read_text("utf-8"))
        return whole, iter(whole.get("samples") or ())
    return _member(path, "header.json"), _members(path)


def _members(path: Path) -> Iterator[dict[str, Any]]:
    with zipfile.ZipFile(path) as log:
        names = [name for name in log.namelist() if name.startswith("samples/")]
    for name in names:
        yield _member(path, name)


def _member(path: Path, name: str) -> dict[str, Any]:
    """A JSON file within the log, also where it is packed with zstandard, which zipfile of Python below 3.14 cannot unpack."""
    with zipfile.ZipFile(path) as log:
        info = log.getinfo(name)
        if info.file_size > LARGEST:
            raise ValueError(f"its {name} has {info.file_size:,} bytes, more than {LARGEST:,}")
        if info.compress_type != _ZSTANDARD:
            return json.loads(log.read(info))
    with path.open("rb") as file:
        file.seek(info.header_offset)
        skipped = sum(_HEAD.unpack(file.read(_HEAD.size)))
        file.seek(skipped, io.SEEK_CUR)
        packed = file.read(info.compress_size)
    return json.loads(pa.decompress(packed, decompressed_size=info.file_size, codec="zstd", asbytes=True))


def _table(found: Sequence[Mapping[str, Any]]) -> Answers:
    index = pd.Index([row["key"] for row in found], name="instance", dtype=object)
    values = pd.DataFrame([row["scores"] for row in found], index=index, dtype=float)
    kinds: dict[str, set[float]] = defaultdict(set)
    for measure in values:
        kinds[measure] = set(values[measure].dropna())
    rows = [{**row["about"], "link": "", "asked": row["asked"]} for row in found]
    about = pd.DataFrame(rows, index=index, dtype=object)  # whole numbers stay whole where some row has none
    digest = hashlib.sha256("\n".join(sorted(set(index))).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return Answers(values, about, digest, None, {}, tuple(m for m in values if kinds[m] and kinds[m] <= {0.0, 1.0}))


def _number(value: Any) -> float:
    if isinstance(value, str):
        if value in GRADES:
            return GRADES[value]
        value = float(value)
    if isinstance(value, bool | int | float):
        return float(value) if math.isfinite(value) else np.nan
    if value is None:
        return np.nan
    raise ValueError(f"{quoted(value)} is no number")


def _asked(asked: Any) -> str:
    """The beginning of the question: text, the last message of a conversation, or the arguments of a request."""
    if isinstance(asked, list) and asked and isinstance(asked[-1], dict):
        asked = asked[-1].get("content", "")
    if isinstance(asked, dict) and asked:
        first = next(iter(asked.values()))
        asked = first.get("arg_0", "") if isinstance(first, dict) else first
    text = asked if isinstance(asked, str) else json.dumps(asked, ensure_ascii=False, default=str)
    return text if len(text) <= _ASKED else f"{text[: _ASKED - 1]}…"
