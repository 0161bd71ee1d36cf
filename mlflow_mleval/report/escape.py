"""Words and numbers as a reader sees them, and strangers' names as plain text in every format.

Nothing here computes; everything that a report prints passes through here. Names come from people and programs that
this project does not know: each function returns text that its format takes as text and as nothing else.
"""

from __future__ import annotations

import html as _html
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from numbers import Integral

#: Stands where there is no number.
NONE = "–"
ELLIPSIS = "…"
MINUS = "−"
_LOST = "\N{REPLACEMENT CHARACTER}"
_JOINERS = "\u200c\u200d"
_ROUND = (0.1, 0.05, 0.01)


def number(x: float | None, digits: int = 4) -> str:
    """A number to read: at most so many significant digits, no trailing zeros, a real minus sign.

    >>> [number(x) for x in (4, 0.123456, -1234.56, 1e-7, float("nan"))]
    ['4', '0.1235', '−1235', '1e−07', '–']
    """
    if x is None or math.isnan(x):
        return NONE
    if math.isinf(x):
        return "∞" if x > 0 else f"{MINUS}∞"
    x = float(f"{x:.{digits}g}")
    text = f"{x:.0f}" if 10**digits <= abs(x) < 1e9 else f"{x:.{digits}g}"
    return "0" if x == 0 else text.replace("-", MINUS).replace("e+", "e")


def fixed(x: float | None, decimals: int) -> str:
    """A number with so many decimals, for columns that line up; never a negative zero.

    >>> [fixed(x, 2) for x in (4, -0.001, -1.5, None)]
    ['4.00', '0.00', '−1.50', '–']
    """
    if x is None or not math.isfinite(x):
        return number(x)
    text = f"{x:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", MINUS)


def aligned(values: Iterable[float | None], digits: int = 4) -> list[str]:
    """A column of numbers with the same number of decimals; the largest has at most `digits` significant digits.

    >>> aligned([0.25, -0.1234567, None])
    ['0.2500', '−0.1235', '–']
    >>> aligned([123.456, 2])
    ['123.5', '2.0']
    """
    values = list(values)
    largest = max((abs(v) for v in values if v is not None and math.isfinite(v)), default=0.0)
    before = math.floor(math.log10(largest)) + 1 if largest > 0 else 1
    if abs(before) > 6:
        return [number(v, digits) for v in values]
    return [fixed(v, max(0, digits - max(0, before))) for v in values]


def pvalue(p: float | None, bare: bool = False) -> str:
    """A p-value to read; `bare` leaves out "p =" for the cells of a table.

    A value is not rounded onto .1, .05 or .01: there the reader sees one digit more.

    >>> pvalue(0.0123), pvalue(0.0004), pvalue(0.0499), pvalue(1.0)
    ('p = .012', 'p < .001', 'p = .0499', 'p = 1')
    >>> pvalue(0.0004, bare=True), pvalue(0.25, bare=True), pvalue(None)
    ('<.001', '.250', '–')
    """
    if p is None or math.isnan(p):
        return NONE
    if p < 0.001:
        return "<.001" if bare else "p < .001"
    if 0.9995 <= p < 1:
        return ">.999" if bare else "p > .999"
    decimals = 3
    while decimals < 6 and round(p, decimals) in _ROUND and not math.isclose(p, round(p, decimals), abs_tol=1e-12):
        decimals += 1
    text = "1" if p >= 1 else f"{p:.{decimals}f}".removeprefix("0")
    return text if bare else f"p = {text}"


def terminal(text: object) -> str:
    """Text on one line that cannot steer a terminal: what is not a visible character becomes one.

    Control characters, line ends and the start of escape sequences become their pictures (␛, ␊), characters that turn
    the direction of writing or cannot be encoded become �. The base of all the functions below.

    >>> terminal("a\\x1b[31mred\\n\\u202eb")
    'a␛[31mred␊�b'
    """
    text = str(text)
    return text if text.isascii() and text.isprintable() else "".join(map(_visible, text))


@lru_cache(maxsize=4096)
def _visible(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    unsafe = unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") and char not in _JOINERS
    return _LOST if unsafe or code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF else char


def html(text: object) -> str:
    """Text for HTML and SVG, in elements and in quoted attributes.

    >>> html('<img src=x onerror="a()">')
    '&lt;img src=x onerror=&quot;a()&quot;&gt;'
    """
    return _html.escape(terminal(text))


def csv_cell(value: object) -> str:
    """A value for a cell of a CSV file, before quoting. Numbers stay unrounded; text never starts a formula.

    >>> csv_cell("=cmd()"), csv_cell("-1.5"), csv_cell(-1.5), csv_cell("-x"), csv_cell(float("nan")), csv_cell(True)
    ("'=cmd()", '-1.5', '-1.5', "'-x", '', 'true')
    """
    if value is None or isinstance(value, bool):
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
    return f"'{text}" if value[:1] in ("\t", "\r", "\n") or value.lstrip()[:1] in tuple("=+-@＝＋－＠") else text


_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    '"': r"\char34{}", "`": r"\char96{}", "[": "{[}", "]": "{]}", "*": "{*}",
    # what the reports themselves say beyond ASCII, for compilers that know ASCII only
    MINUS: "$-$", NONE: r"\textendash{}", ELLIPSIS: r"\ldots{}", "±": r"$\pm$", "×": r"$\times$", "≤": r"$\leq$",
    "≥": r"$\geq$", "∞": r"$\infty$", "α": r"$\alpha$", "φ": r"$\phi$", "χ": r"$\chi$", "τ": r"$\tau$", "⁺": r"$^+$",
    "⁻": r"$^-$", "¹": r"$^1$", "²": r"$^2$", "Λ": r"$\Lambda$", "·": r"$\cdot$", "↑": r"$\uparrow$", "↓": r"$\downarrow$",
}


def latex(text: object) -> str:
    """Text for LaTeX: every special character as itself. Letters of other scripts stay; they need LuaLaTeX or XeLaTeX.

    >>> latex("a_b & 5%")
    'a\\\\_b \\\\& 5\\\\%'
    >>> print(latex(r"\\input{x}"))
    \\textbackslash{}input\\{x\\}
    """
    picture = re.sub("[\u2400-\u2421\ufffd]", "?", terminal(text))
    return re.sub(r"([-',])(?=\1)", r"\1{}", "".join(_LATEX.get(c, c) for c in picture))


def markdown(text: object) -> str:
    """Text for Markdown, in running text and in the cells of a table: no markup, no HTML, no links.

    >>> markdown("a|b *c* <d> [e](f)")
    'a\\\\|b \\\\*c\\\\* &lt;d&gt; \\\\[e\\\\](f)'
    """
    text = terminal(text)
    text = re.sub(r"([\\`*_\[\]|~$])", r"\\\1", text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"(?i)\bwww\.", lambda m: m[0][:-1] + r"\.", text.replace("://", r"\://"))
    text = re.sub(r"^(\s*)(#|[+=-](?![\w.]))", r"\1\\\2", text)
    return re.sub(r"^(\s*[0-9]+)([.)])(?!\S)", r"\1\\\2", text)


def columns(text: str) -> int:
    """How many columns of a terminal a text takes: wide characters and emoji two, combining marks none.

    >>> columns("ML-kNN"), columns("木"), columns("e\\u0301")
    (6, 2, 1)
    """
    return len(text) if text.isascii() and text.isprintable() else sum(map(_cluster_columns, _clusters(text)))


def shorten(name: object, width: int) -> str:
    """A name in at most so many columns, cut in the middle: names of runs differ at their ends.

    >>> shorten("RFML-C4.5", 6), shorten("PCT", 6)
    ('RFM….5', 'PCT')
    """
    text = str(name)
    if columns(text) <= width:
        return text
    clusters = list(_clusters(text))
    if width < 3:
        return ELLIPSIS[:width]
    tail = _fitting(reversed(clusters), (width - 1) // 2)[::-1]
    head = _fitting(clusters, width - 1 - sum(map(_cluster_columns, tail)))
    return "".join([*head, ELLIPSIS, *tail])


def pad(text: str, width: int, align: str = "<") -> str:
    """The text filled with blanks to so many columns: "<" left, ">" right, "^" centred.

    >>> pad("木", 4) + "|", pad("ab", 4, ">")
    ('木  |', '  ab')
    """
    room = max(0, width - columns(text))
    left = {"<": 0, ">": room, "^": room // 2}[align]
    return " " * left + text + " " * (room - left)


def wrap(prefix: str, text: object, width: int) -> list[str]:
    """Text in lines of so many columns, broken at blanks; the first starts with the prefix, the others below its end.

    A word that is longer than a line is cut in the middle; "p = .012" stays together.

    >>> wrap("- ", "the quick brown fox, p = .012", 18)
    ['- the quick brown', '  fox, p = .012']
    """
    left = columns(prefix)
    lines, line, used = [], prefix, left
    for word in re.sub(r" ([=<>]) (?=[.\d])", "\0\\1\0", terminal(text)).split():
        word = shorten(word.replace("\0", " "), max(1, width - left))
        wide = columns(word)
        if used > left and used + 1 + wide > width:
            lines.append(line)
            line, used = " " * left, left
        gap = "" if used == left else " "
        line, used = f"{line}{gap}{word}", used + len(gap) + wide
    return [*lines, line.rstrip()]


def _clusters(text: str) -> Iterator[str]:
    """The text in pieces that a reader sees as one character (enough of UAX 29 for names)."""
    cluster = ""
    for char in text:
        joins = cluster and (
            cluster[-1] == "\u200d"
            or char in _JOINERS
            or unicodedata.category(char) in ("Mn", "Me")
            or 0x1F3FB <= ord(char) <= 0x1F3FF
            or (len(cluster) == 1 and _is_flag_letter(cluster) and _is_flag_letter(char))
        )
        if joins:
            cluster += char
        else:
            if cluster:
                yield cluster
            cluster = char
    if cluster:
        yield cluster


def _is_flag_letter(char: str) -> bool:
    return 0x1F1E6 <= ord(char) <= 0x1F1FF


def _cluster_columns(cluster: str) -> int:
    first = cluster[0]
    if unicodedata.category(first) in ("Mn", "Me") or first in _JOINERS:
        return 0
    wide = unicodedata.east_asian_width(first) in "WF" or "\ufe0f" in cluster or _is_flag_letter(first)
    return 2 if wide else 1


def _fitting(clusters: Iterable[str], width: int) -> list[str]:
    """The leading pieces that fit into so many columns."""
    kept, used = [], 0
    for cluster in clusters:
        used += _cluster_columns(cluster)
        if used > width:
            break
        kept.append(cluster)
    return kept
