"""Logs of other evaluation tools, one row an answer: lm-evaluation-harness (samples_*.jsonl) and
Inspect (.eval, .json).
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from mlflow_mleval.analysis.answers import PASS, Answers
from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.files.reading import unreadable
from mlflow_mleval.naming import measure_name_problem, quoted

#: Bytes of one file within a log, or of one line, once it is unpacked.
LARGEST = 200_000_000
#: Characters of a question that a table shows.
_ASKED = 200
#: What Inspect's scorers say in place of numbers: correct, incorrect, partial, no answer.
GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
#: What a line of lm-evaluation-harness holds beside its metrics.
_LINE = {
    "doc_id",
    "doc",
    "target",
    "arguments",
    "resps",
    "filtered_resps",
    "filter",
    "metrics",
    "doc_hash",
    "prompt_hash",
    "target_hash",
}
#: How a zip file says that a member is packed with zstandard, and the fixed part of what precedes
#: it.
_ZSTANDARD, _HEAD = 93, struct.Struct("<26xHH")


def is_answer_log(path: str | Path) -> bool:
    """Whether the file's name is that of a log."""
    name = Path(path).name
    return name.endswith((".eval", ".json")) or (
        name.startswith("samples_") and name.endswith(".jsonl")
    )


def read_answer_log(path: str | Path) -> tuple[str, str, Answers]:
    """The method, the data set and the answers of one log.

    The method is the model; lm-evaluation-harness names it by the folder. Epochs of Inspect are
    further answers to the same question. A metric whose values are lists is left out with a note;
    one of words waits for its grades, see `Answers.words`.

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
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        zipfile.BadZipFile,
        NotImplementedError,
    ) as error:
        reason = " ".join(str(error).split())[:150]
        raise ImportFileError(
            f"{path.name} is no log of answers that can be read: {type(error).__name__}: {reason}."
        ) from error
    if not found:
        raise ImportFileError(f"{path.name} holds no scored answer. Log the samples, too.")
    return method, dataset, _table(path, found)


def _harness(path: Path) -> tuple[str, str, list[dict[str, Any]]]:
    """Lines of lm-evaluation-harness; each names its metrics, or in older logs holds them beside
    what all lines hold.
    """
    found = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.strip():
                continue
            sample = json.loads(line)
            names = (
                sample["metrics"]
                if "metrics" in sample
                else [name for name in sample if name not in _LINE]
            )
            scores = _flat({m: sample[m] for m in names})
            key = str(sample.get("doc_hash") or sample["doc_id"])[:16]
            plain = {k: v for k, v in sample["doc"].items() if isinstance(v, str | int | float)}
            filtered = sample.get("filter", "none")
            if filtered != "none":
                scores = {f"{m}/{filtered}": v for m, v in scores.items()}
            found.append(
                {"key": key, "scores": scores, "about": plain, "asked": _asked(sample["arguments"])}
            )
    task = path.stem.removeprefix("samples_").rpartition("_")[0]
    return path.resolve().parent.name, task or path.stem, found


def _inspect(path: Path) -> tuple[str, str, list[dict[str, Any]]]:
    head, samples = _inspect_parts(path)
    if head.get("status") != "success":
        raise ValueError(f"its status is {head.get('status')!r}, not 'success'")
    found = []
    for sample in samples:
        scores = _flat(
            {name: score.get("value") for name, score in (sample.get("scores") or {}).items()}
        )
        about = {
            k: v
            for k, v in (sample.get("metadata") or {}).items()
            if isinstance(v, str | int | float)
        }
        found.append(
            {
                "key": str(sample["id"]),
                "scores": scores,
                "about": about,
                "asked": _asked(sample["input"]),
            }
        )
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
    """A JSON file within the log, also where it is packed with zstandard, which zipfile of Python
    below 3.14 cannot unpack.
    """
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
    return json.loads(
        pa.decompress(packed, decompressed_size=info.file_size, codec="zstd", asbytes=True)
    )


def _flat(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Values by measure; the parts of a mapping are measures of their own."""
    parts = {
        name: value if isinstance(value, dict) else {"": value} for name, value in scores.items()
    }
    return {
        f"{name}/{part}" if part else name: value
        for name, of in parts.items()
        for part, value in of.items()
    }


def _table(path: Path, found: Sequence[Mapping[str, Any]]) -> Answers:
    index = pd.Index([row["key"] for row in found], name="instance", dtype=object)
    rows = [{**row["about"], "link": "", "asked": row["asked"]} for row in found]
    about = pd.DataFrame(
        rows, index=index, dtype=object
    )  # whole numbers stay whole where some row has none
    values, words, notes = {}, [], []
    for measure in dict.fromkeys(name for row in found for name in row["scores"]):
        cells = [row["scores"].get(measure) for row in found]
        if problem := _problem(measure, cells):
            notes.append(f"{measure} is left out: {problem}.")
            continue
        if any(isinstance(value, str) for value in cells):
            about[measure] = ["" if value is None else str(value) for value in cells]
        numbers = [_number(value) for value in cells]
        if None in numbers:
            words.append(measure)
        else:
            values[measure] = numbers
    if not values and not words:
        raise ImportFileError(f"{path.name} holds no metric of numbers or words. {' '.join(notes)}")
    digest = hashlib.sha256(
        "\n".join(sorted(set(index))).encode("utf-8", "surrogatepass")
    ).hexdigest()[:8]
    table = pd.DataFrame(values, index=index, dtype=float)
    passing = tuple(
        m for m in table if table[m].notna().any() and table[m].dropna().isin([0.0, 1.0]).all()
    )
    return Answers(table, about, digest, passing=passing, notes=tuple(notes), words=tuple(words))


def _problem(measure: str, cells: Sequence[Any]) -> str | None:
    """Why the values are no measure of single answers, even if words are given an order; None where
    they are.
    """
    if problem := measure_name_problem(measure):
        return problem
    kinds: dict[type, str] = {list: "lists", dict: "mappings"}
    broken = [value for value in cells if type(value) in kinds]
    if broken:
        shown = json.dumps(broken[0], ensure_ascii=False, default=str)
        return f"its values are {kinds[type(broken[0])]}, such as {quoted(shown)}"
    return None


def _number(value: Any) -> float | None:
    """The number that a score stands for, NaN where there is none; None where it is a word without
    an order.
    """
    if value is None:
        return np.nan
    if isinstance(value, str):
        if (known := GRADES.get(value, PASS.get(value.strip().lower()))) is not None:
            return known
        if not value.strip():
            return np.nan
    try:
        number = float(value)
    except ValueError:
        return None
    except OverflowError:  # a whole number of hundreds of digits
        return np.nan
    return number if math.isfinite(number) else np.nan


def _asked(asked: Any) -> str:
    """The beginning of the question: text, the last message of a conversation, or the arguments of
    a request.
    """
    if isinstance(asked, list) and asked and isinstance(asked[-1], dict):
        asked = asked[-1].get("content", "")
    if isinstance(asked, dict) and asked:
        first = next(iter(asked.values()))
        asked = first.get("arg_0", "") if isinstance(first, dict) else first
    text = asked if isinstance(asked, str) else json.dumps(asked, ensure_ascii=False, default=str)
    return text if len(text) <= _ASKED else f"{text[: _ASKED - 1]}…"
