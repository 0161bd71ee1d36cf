"""Numbers as a reader sees them."""

import math
from collections.abc import Iterable, Sequence

#: Stands where there is no number.
NONE = "–"
MINUS = "−"
#: Which way is better.
ARROWS = {"min": "↓", "max": "↑"}


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
    """A column of numbers with the same number of decimals; the largest has at most `digits`
    significant digits.

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
    while (
        decimals < 6
        and round(p, decimals) in (0.1, 0.05, 0.01)
        and not math.isclose(p, round(p, decimals), abs_tol=1e-12)
    ):
        decimals += 1
    text = "1" if p >= 1 else f"{p:.{decimals}f}".removeprefix("0")
    return text if bare else f"p = {text}"


def percent(x: float) -> str:
    """A share in percent, never rounded to all or nothing.

    >>> percent(0.8196), percent(0.9999), percent(1.0), percent(0.0001)
    ('82%', 'more than 99%', '100%', 'less than 1%')
    """
    if x in (0, 1):
        return f"{100 * x:g}%"
    return "less than 1%" if x < 0.01 else "more than 99%" if x > 0.99 else f"{100 * x:.0f}%"


def level(alpha: float) -> str:
    """A significance level as it is written: ".05".

    >>> level(0.05)
    '.05'
    """
    return f"{alpha:g}".removeprefix("0")


def with_intervals(table: Iterable[Sequence[float]], digits: int = 3) -> list[str]:
    """Rows of (value, low, high) as a column of text with the same number of decimals.

    >>> with_intervals([(0.25, 0.1, 0.4)])
    ['0.250 [0.100, 0.400]']
    """
    cells = iter(aligned([x for row in table for x in row], digits))
    return [
        f"{value} [{low}, {high}]" for value, low, high in zip(cells, cells, cells, strict=True)
    ]
