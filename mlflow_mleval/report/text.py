"""Names of strangers and numbers as a reader sees them, in every format."""

import math
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate, takewhile
from numbers import Integral

import numpy as np
import wcwidth

from mlflow_mleval.sentences import grouped

# --------------------------------------------------------------------------------------------------
# Numbers as a reader sees them.

NONE = "–"  #: stands where there is no number
MINUS = "−"
ARROWS = {"min": "↓", "max": "↑"}  #: which way is better


def number(x: float | None, digits: int = 4) -> str:
    """A number to read: so many significant digits, no trailing zeros, a real minus sign."""
    if x is None or math.isnan(x):
        return NONE
    if math.isinf(x):
        return "∞" if x > 0 else f"{MINUS}∞"
    x = float(f"{x:.{digits}g}")
    text = f"{x:.0f}" if 10**digits <= abs(x) < 1e9 else f"{x:.{digits}g}"
    return "0" if x == 0 else text.replace("-", MINUS).replace("e+", "e")


def large(x: float, digits: int = 2) -> str:
    """A number to read that may be large: "12k", "10M", "7B"."""
    for letter, size in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(x) >= size:
            return number(x / size, digits) + letter
    return number(x, digits)


def fixed(x: float | None, decimals: int) -> str:
    """A number with so many decimals, for columns that line up; never a negative zero."""
    if x is None or not math.isfinite(x):
        return number(x)
    text = f"{x:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", MINUS)


def aligned(values: Iterable[float | None], digits: int = 4) -> list[str]:
    """Numbers with the same number of decimals, the largest with at most `digits` digits."""
    values = list(values)
    largest = max((abs(v) for v in values if v is not None and math.isfinite(v)), default=0.0)
    before = math.floor(math.log10(largest)) + 1 if largest > 0 else 1
    if abs(before) > 6:
        return [number(v, digits) for v in values]
    return [fixed(v, max(0, digits - max(0, before))) for v in values]


def pvalue(p: float | None, bare: bool = False) -> str:
    """A p-value to read, "p = .012"; `bare`, for cells, without "p =". It is not rounded onto .1,
    .05 or .01: there the reader sees more digits."""
    if p is None or math.isnan(p):
        return NONE
    if p < 0.001:
        return "<.001" if bare else "p < .001"
    if 0.9995 <= p < 1:
        return ">.999" if bare else "p > .999"
    decimals = 3
    while (
        decimals < 6
        and round(p, decimals) in (0.1, 0.05, 0.01)
        and not math.isclose(p, round(p, decimals), abs_tol=1e-12)
    ):
        decimals += 1
    text = "1" if p >= 1 else f"{p:.{decimals}f}".removeprefix("0")
    return text if bare else f"p = {text}"


def percent(x: float, bare: bool = False) -> str:
    """A share in percent, never rounded to all or nothing; `bare` has signs for words."""
    if 0 < x < 0.01:
        return "<1%" if bare else "less than 1%"
    if 0.99 < x < 1:
        return ">99%" if bare else "more than 99%"
    return f"{100 * x:.0f}%"


def probability_said(p: float) -> str:
    """A probability for a cell, never all or nothing: ">.99", ".26"."""
    if not math.isfinite(p):
        return NONE
    return ">.99" if p > 0.99 else "<.01" if p < 0.01 else f"{p:.2f}".removeprefix("0")


def level(alpha: float) -> str:
    """A significance level as it is written: ".05"."""
    return f"{alpha:g}".removeprefix("0")


def confidence(alpha: float) -> str:
    """The level of an interval: "95%"."""
    return f"{100 * (1 - alpha):g}%"


# --------------------------------------------------------------------------------------------------
# Names of strangers in every format, which takes what these return as text and nothing else.

#: Mark the beginning and the end of a stranger's name in a sentence; `terminal` lets neither pass.
OPEN = "\ufdd0"
CLOSE = "\ufdd1"
ELLIPSIS = "…"
#: How many columns of a terminal a text takes: wide characters and emoji two, combining marks none.
columns = wcwidth.width


def terminal(text: object) -> str:
    """Text on one line that cannot steer a terminal: control characters become their pictures (␛,
    ␊), what turns the direction of writing or cannot be encoded becomes �."""
    text = str(text)
    return text if text.isascii() and text.isprintable() else "".join(map(_visible_character, text))


@lru_cache(maxsize=4096)
def _visible_character(char: str) -> str:
    code = ord(char)
    if code < 0x20 or code == 0x7F:
        return chr(0x2400 + min(code, 0x21))
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    unsafe = unicodedata.category(char) in kinds and char not in "\u200c\u200d"
    if unsafe or code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF:
        return "\N{REPLACEMENT CHARACTER}"
    return char


def csv_cell(value: object) -> str:
    """A value for a cell of CSV, before quoting: numbers unrounded; text starts no formula."""
    if value is None or isinstance(value, bool | np.bool_):
        return "" if value is None else str(value).lower()
    if not isinstance(value, str):
        if isinstance(value, Iterable):
            return csv_cell(" ".join(map(str, value)))
        if isinstance(value, Integral):
            return str(int(value))
        real = float(value)  # type: ignore[arg-type]
        return "" if math.isnan(real) else repr(real)
    text = terminal(value)
    if re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", text):
        return text
    starts = value[:1] in ("\t", "\r", "\n") or value.lstrip()[:1] in tuple("=+-@＝＋－＠")
    return f"'{text}" if starts else text


_LATEX = {c: "\\" + c for c in "{}$&#%_"} | {c: f"{{{c}}}" for c in "[]*"}
_LATEX |= {'"': r"\char34{}", "`": r"\char96{}"}
# Others by name, and what the reports say beyond ASCII, for compilers that know ASCII only.
_TEXTS = "backslash asciitilde asciicircum less greater bar endash"
_MATHS = "pm times leq geq infty alpha phi chi tau Lambda cdot uparrow downarrow bullet circ"
_LATEX |= {c: rf"\text{word}{{}}" for c, word in zip("\\~^<>|–", _TEXTS.split(), strict=True)}
_LATEX |= {c: rf"$\{word}$" for c, word in zip("±×≤≥∞αφχτΛ·↑↓●○", _MATHS.split(), strict=True)}
_LATEX |= {MINUS: "$-$", ELLIPSIS: r"\ldots{}", "⁺": "$^+$", "⁻": "$^-$", "¹": "$^1$", "²": "$^2$"}


def latex(text: object) -> str:
    """Text for LaTeX: every special character as itself; letters of other scripts stay."""
    picture = re.sub("[\u2400-\u2421\ufffd]", "?", terminal(text))
    return re.sub(r"([-',])(?=\1)", r"\1{}", "".join(_LATEX.get(c, c) for c in picture))


def markdown(text: object) -> str:
    """Text for Markdown, in sentences and cells of tables: no markup, no HTML, no links."""
    text = re.sub(r"([\\`*_\[\]|~$])", r"\\\1", terminal(text))
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"(?i)\bwww\.", lambda m: m[0][:-1] + r"\.", text.replace("://", r"\://"))
    text = re.sub(r"^(\s*)(#|[+=-](?![\w.]))", r"\1\\\2", text)
    return re.sub(r"^(\s*[0-9]+)([.)])(?!\S)", r"\1\\\2", text)


def shorten(name: object, width: int) -> str:
    """A name in at most so many columns, cut in the middle: names of runs differ at their ends."""
    text = str(name)
    if columns(text) <= width:
        return text
    if width < 3:
        return ELLIPSIS[:width]
    clusters = list(wcwidth.iter_graphemes(text))
    tail = _fitting(clusters[::-1], (width - 1) // 2)[::-1]
    head = _fitting(clusters, width - 1 - columns("".join(tail)))
    return "".join([*head, ELLIPSIS, *tail])


def shortened(names: Iterable[str], width: int) -> dict[str, str]:
    """Each name in at most so many columns; no two that differ are cut to the same."""
    found: dict[str, str] = {}
    room = width // 3
    alike = grouped((shorten(name, width), name) for name in dict.fromkeys(names))
    for cut, group in alike.items():
        found |= dict.fromkeys(group, cut)
        if len(group) == 1 or width < 8:
            continue
        same = takewhile(lambda chars: len({*chars}) == 1, zip(*group, strict=False))
        start = sum(1 for _ in same)
        word = re.search(r"\w*?[^\W_]*$", group[0][:start])
        start = word.start() if word and start - word.start() < 8 else start
        if start > room:  # their beginning, and what follows where they part
            head = "".join(_fitting(list(wcwidth.iter_graphemes(group[0][:start])), room))
            rests = shortened((name[start:] for name in group), width - columns(head) - 1)
            found |= {name: f"{head}{ELLIPSIS}{rests[name[start:]]}" for name in group}
    taken: set[str] = set()
    for name, cut in found.items():
        number = 2
        while cut in taken:
            cut = f"{shorten(name, width - len(str(number)))}{number}"
            number += 1
        found[name] = cut
        taken.add(cut)
    return found


def _fitting(clusters: list[str], width: int) -> list[str]:
    """The leading pieces that fit into so many columns."""
    return clusters[: bisect_right([*accumulate(map(columns, clusters))], width)]


def pad(text: str, width: int, align: str = "<") -> str:
    """The text filled with blanks to so many columns: "<" left, ">" right, "^" centred."""
    fill = {">": wcwidth.rjust, "^": wcwidth.center}.get(align, wcwidth.ljust)
    return fill(text, width)


def wrap(prefix: str, text: object, width: int) -> list[str]:
    """Text in lines of so many columns, broken at blanks; the first starts with the prefix, the
    others below its end. Longer words are cut in the middle; "p = .012" stays together."""
    left = columns(prefix)
    room = max(1, width - left)
    words = re.sub(r" ([=<>]) (?=[.\d])", "\0\\1\0", terminal(text)).split()
    lines = [""]
    for word in (shorten(word.replace("\0", " "), room) for word in words):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if columns(longer) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return [prefix + lines[0], *(" " * left + line for line in lines[1:])]
