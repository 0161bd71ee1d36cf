"""Names in sentences, which names a store can keep, and which paths from outside may be joined to a
folder.
"""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import unquote

#: How many cells or names an error lists before it only counts.
SHOWN = 12
#: Characters of a name that an error shows.
LONG = 80
#: The longest tag that MLflow stores, and the longest name of a measure: a metric's key less our
#: longest prefix.
MAX_TAG, MAX_MEASURE = 8_000, 238
#: Letters that have no shape: fillers of Hangul and the empty pattern of Braille.
_SHAPELESS = frozenset("\u115f\u1160\u3164\uffa0\u2800")
_MEASURE = re.compile(r"[A-Za-z0-9_./-]+")
#: What reads as a drive on Windows, at the start of any part; and the bytes of one part that file
#: systems take.
_DRIVE, _LONGEST_PART = re.compile(r"(^|/)[A-Za-z]:"), 255


def some(names: Iterable[object], most: int = SHOWN) -> str:
    """The first few names, long ones cut in the middle, and how many more there are.

    >>> some(range(14))
    '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more'
    """
    names = list(names)
    shown = [
        n if len(n) <= LONG else f"{n[: LONG // 2]}…{n[-LONG // 2 + 1 :]}"
        for n in map(str, names[:most])
    ]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(shown) + more


def quoted(value: object) -> str:
    """A cell or name of a file as an error shows it, a long one cut.

    >>> quoted("f1"), len(quoted("x" * 100))
    ("'f1'", 58)
    """
    text = str(value)
    return repr(text if len(text) <= 60 else f"{text[:40]}…{text[-15:]}")


def nearest(wrong: Iterable[object], names: Iterable[object]) -> list[str]:
    """For each wrong name the one that was probably meant, however it is spelled; none where
    nothing is near.

    >>> nearest(["ndgc_at_5", "Hamming loss", "latency"], ["ndcg_at_5", "hamming_loss", "f1"])
    ['ndcg_at_5', 'hamming_loss']
    """
    plain = {_plain(name): str(name) for name in names}
    wrong = list(map(str, wrong))
    near = (get_close_matches(_plain(name), plain, n=1, cutoff=0.7) for name in wrong)
    found = dict.fromkeys(plain[name] for matches in near for name in matches)
    return [name for name in found if name not in wrong]


def _plain(name: object) -> str:
    return re.sub(r"[\s-]+", "_", str(name).lower())


def did_you_mean(wrong: Iterable[object], names: Iterable[object]) -> str:
    """A question to stand behind the sentence that names what is wrong; empty where nothing is
    near.

    >>> did_you_mean(["theshold"], ["threshold", "folds"])
    " Did you mean 'threshold'?"
    """
    near = nearest(wrong, names)
    return f" Did you mean {some(map(repr, near))}?" if near else ""


def count(n: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "measure"), count(1200, "method"), count(2, "class")
    ('1 measure', '1,200 methods', '2 classes')
    """
    return f"{n:,} {noun}{'' if n == 1 else 'es' if noun.endswith('s') else 's'}"


def measure_name_problem(name: str) -> str | None:
    """Why a measure's name cannot be part of a metric key; None where it can.

    >>> measure_name_problem("f1")
    >>> measure_name_problem("f1 (%)")
    'a name may hold letters A-Z a-z, digits and _ . / - only'
    """
    if not _MEASURE.fullmatch(name):
        return "a name may hold letters A-Z a-z, digits and _ . / - only"
    if posixpath.normpath(f"-/{name}") != f"-/{name}":
        return "a name must not read as a path with empty or dotted parts"
    if len(name) > MAX_MEASURE:
        return f"a name may have at most {MAX_MEASURE} characters"
    return None


def text_problem(text: str) -> str | None:
    """Why a method's or dataset's name cannot be stored as a tag; None where it can."""
    if not text:
        return "is empty"
    if len(text) > MAX_TAG:
        return f"has {len(text):,} characters, more than the {MAX_TAG:,} that MLflow stores"
    if "\0" in text:
        return "holds a NUL character"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "holds half a surrogate pair, which is no text"
    return None


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
    parents = {parent: path for path in paths for parent in _parents(path)}
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
    return next(
        (problem for text in (path, decoded) if (problem := _plain_path_problem(text))), None
    )


def _plain_path_problem(text: str) -> str | None:
    if problem := text_problem(text):
        return problem
    parts = text.split("/")
    problems = {
        "holds a control character": any(
            unicodedata.category(character) == "Cc" for character in text
        ),
        "is absolute": text.startswith("/"),
        "holds a backslash": "\\" in text,
        "names a drive": _DRIVE.search(text) is not None,
        "holds an empty part, . or ..": not {"", ".", ".."}.isdisjoint(parts),
        f"has a part of more than {_LONGEST_PART} bytes": max(len(part.encode()) for part in parts)
        > _LONGEST_PART,
    }
    return next((problem for problem, holds in problems.items() if holds), None)


def _parents(path: str) -> list[str]:
    return [path[:end] for end, character in enumerate(path) if character == "/"]


def look_alikes(names: Iterable[str]) -> list[list[str]]:
    """Names that are different text and look the same: composed or not, or with characters that are
    not to be seen.

    >>> look_alikes(["caf\u00e9", "cafe\u0301", "tea", "te\u200ba"]) == [["caf\u00e9", "cafe\u0301"], ["tea", "te\u200ba"]]
    True
    """  # noqa: E501
    groups: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        groups.setdefault(
            name if name.isascii() and name.isprintable() else _seen(name), []
        ).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _seen(name: str) -> str:
    """What is seen of a name."""
    plain = unicodedata.normalize("NFKC", name)
    hidden = ("Cc", "Cf", "Cn", "Co")
    return "".join(
        c
        for c in plain
        if unicodedata.category(c) not in hidden
        and c not in _SHAPELESS
        and not 0xFE00 <= ord(c) <= 0xFE0F
        and not 0xE0100 <= ord(c) <= 0xE01EF
    ).strip()
