"""Which paths from outside may be joined to a folder: every place that joins one does it here."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Collection
from pathlib import Path
from urllib.parse import unquote

from mlflow_mleval.sentences import quoted, some, text_problem

#: What reads as a drive on Windows, at the start of any part; and the bytes of one part that file
#: systems take.
_DRIVE = re.compile(r"(^|/)[A-Za-z]:")
_LONGEST_PART = 255


def inside(folder: str | Path, path: str) -> Path:
    """A path from outside, joined to the folder: every place that joins one does it here.

    Raises
    ------
    ValueError
        It is not below the folder, or a link on its way leads out of it.

    >>> inside("/data", "mleval/folds.parquet").as_posix()
    '/data/mleval/folds.parquet'
    >>> inside("/data", "../.bashrc")
    Traceback (most recent call last):
    ValueError: the path '../.bashrc' holds an empty part, . or .., and must lie below a folder
    """
    check_paths([path])
    joined = Path(folder, path)
    if not Path(os.path.realpath(joined)).is_relative_to(os.path.realpath(folder)):
        raise ValueError(f"the path {quoted(path)} leads out of {folder} by a link")
    return joined


def check_paths(paths: Collection[str]) -> None:
    """Raise a ValueError that names every path which cannot be a file below a folder, or lies below
    a file among them.
    """
    problems = {path: path_problem(path) for path in paths}
    if wrong := [
        f"the path {quoted(path)} {problem}" for path, problem in problems.items() if problem
    ]:
        raise ValueError(f"{some(wrong)}, and must lie below a folder")
    slashes = ((path, at) for path in paths for at, sign in enumerate(path) if sign == "/")
    parents = {path[:at]: path for path, at in slashes}
    if clash := [
        f"{quoted(path)} and {quoted(parents[path])}" for path in paths if path in parents
    ]:
        raise ValueError(f"of {some(clash)} the first is a file and a folder")


def path_problem(path: str) -> str | None:
    """Why a path cannot be a file below a folder, on any system, as it stands or percent-decoded;
    None where it can.

    >>> path_problem("mleval/100%.csv")
    >>> path_problem("C:/x"), path_problem("%2e%2e/x")
    ('names a drive', 'holds an empty part, . or ..')
    """
    decoded = path
    while (once := unquote(decoded)) != decoded:
        decoded = once
    for text in (path, decoded):
        if problem := text_problem(text):
            return problem
        parts = text.split("/")
        longest = max(len(part.encode()) for part in parts)
        problems = {
            "holds a control character": any(unicodedata.category(sign) == "Cc" for sign in text),
            "is absolute": text.startswith("/"),
            "holds a backslash": "\\" in text,
            "names a drive": _DRIVE.search(text) is not None,
            "holds an empty part, . or ..": not {"", ".", ".."}.isdisjoint(parts),
            f"has a part of more than {_LONGEST_PART} bytes": longest > _LONGEST_PART,
        }
        if found := [problem for problem, holds in problems.items() if holds]:
            return found[0]
    return None
