"""Names from strangers come out as text, and numbers as a reader expects them."""

import csv
import html as html_reader
import io
import math
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_cases import NASTY as CASES

from mlflow_mleval.report import text as escape
from mlflow_mleval.report import text as numerals
from mlflow_mleval.report.figures import Svg

NASTY = [
    *CASES,
    *("a\nb", "\tx", "a|b", "`rm -rf`", "# head", "1. item", "- item", "$\\write18{x}$"),
    *("[click](javascript:alert(1))", "https://evil.example/x", "www.evil.example"),
    *("%", "\ud800", "\x00", "&amp;", "\x9b2J", "--", "\uffff", "💥" * 30, "a" * 400, ""),
]
SPECIAL = "\\{}$&#%_~^<>|\"`[]*-',=+@\n\r\t\x1b ab1.:/!()"
names = st.one_of(st.text(), st.sampled_from(NASTY), st.text(alphabet=SPECIAL, max_size=12))


@given(names)
def test_terminal_leaves_one_line_without_anything_that_acts(name):
    text = escape.terminal(name)
    seen = text.replace("\u200c", "").replace("\u200d", "")
    assert not {*map(unicodedata.category, seen)} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert len(text.splitlines()) <= 1
    assert escape.terminal(text) == text
    text.encode("utf-8")


@given(st.text(alphabet=st.characters(whitelist_categories=["L", "N", "P", "S", "Zs"])))
def test_terminal_leaves_ordinary_names_alone(name):
    assert escape.terminal(name) == name


def test_terminal_keeps_joined_emoji_and_shows_what_it_disarms():
    assert escape.terminal("👩‍💻") == "👩‍💻"
    assert escape.terminal("a\nb\x1b[0m\x9b") == "a␊b␛[0m�"


@given(names)
def test_html_holds_no_markup_and_reads_back(name):
    svg = Svg("", "", 1)
    svg.text(0, 0, name)
    text = svg.parts[0].removeprefix('<text x="0" y="0">').removesuffix("</text>")
    assert not set("<>\"'") & set(text)
    assert html_reader.unescape(text) == escape.terminal(name)


@given(names)
def test_csv_cell_never_starts_a_formula_and_survives_a_csv_reader(name):
    cell = escape.csv_cell(name)
    assert cell[:1] not in tuple("=@＝＠\t\r\n")
    assert cell[:1] not in tuple("+-＋－") or re.fullmatch(r"[+-][\d.eE+-]+", cell)
    out = io.StringIO()
    csv.writer(out).writerow([cell, "x"])
    assert next(csv.reader(io.StringIO(out.getvalue(), newline=""))) == [cell, "x"]
    shown = escape.terminal(name)
    assert cell.removeprefix("'") in (shown, shown.removeprefix("'"))


def test_csv_cell_disarms_formulas():
    for name in ("=1+1", "+x", "-x", "@x", "\tx", "\rx", " =x", "＝x", "-1+1", "-2e"):
        assert escape.csv_cell(name).startswith("'"), name


@given(st.one_of(st.floats(), st.integers(-(10**20), 10**20)))
def test_csv_cell_keeps_numbers_unrounded(x):
    cell = escape.csv_cell(x)
    assert cell == "" if math.isnan(x) else type(x)(cell) == x


WORDS = "textbackslash textasciitilde textasciicircum textless textgreater textbar textendash ldots"
MATHS = (
    r"- \pm \times \leq \geq \infty \alpha \phi \chi \tau ^+ ^- ^1 ^2 \Lambda \cdot "
    r"\uparrow \downarrow"
)


def latex_reader(source: str) -> str:
    """What LaTeX would print: an independent, strict reader that refuses everything but text."""
    words = dict(zip(WORDS.split(), "\\~^<>|–…", strict=True))
    maths = dict(zip(MATHS.split(), "−±×≤≥∞αφχτ⁺⁻¹²Λ·↑↓", strict=True))
    out, at = [], 0
    while at < len(source):
        rest = source[at:]
        if found := re.match(r"\\char(\d+)\{\}", rest):
            out.append(chr(int(found[1])))
        elif found := re.match(r"\\([a-z]+)\{\}", rest):
            out.append(words[found[1]])
        elif found := re.match(r"\\([{}$&#%_])", rest):
            out.append(found[1])
        elif found := re.match(r"\$([^$]+)\$", rest):
            out.append(maths[found[1]])
        elif found := re.match(r"\{([\[\]*]?)\}", rest):
            out.append(found[1])
        else:
            found = re.match(r"(?s)[^\\{}$&#%_~^<>|\"`\[\]*]", rest)
            assert found, f"special character in {source!r} at {at}"
            assert not re.match(r"--|''|,,", rest), "a ligature would change the name"
            out.append(found[0])
        at += found.end()
    return "".join(out)


@given(names)
def test_latex_prints_the_name_and_nothing_acts(name):
    shown = re.sub("[\u2400-\u2421\ufffd]", "?", escape.terminal(name))
    assert latex_reader(escape.latex(name)) == shown


@given(names)
def test_markdown_reads_back_and_every_active_character_is_escaped(name):
    text = escape.markdown(name)
    plain = html_reader.unescape(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text))
    assert plain == escape.terminal(name) or "&" in escape.terminal(name)
    bare = re.sub(r"\\[!-/:-@\[-`{-~]", "", text)
    assert not set("`*_[]|~$<>") & set(bare)
    assert "://" not in text.replace(r"\://", "")
    assert not re.search(r"(?i)\bwww\.", text)
    assert not re.match(r"\s*(#|[+=-](\s|$|[+=-])|[0-9]+[.)](\s|$))", text)


@pytest.mark.parametrize(
    ("p", "full"),
    [
        *((0.012, "p = .012"), (0.00099, "p < .001"), (0.001, "p = .001"), (1, "p = 1")),
        *((0.9999, "p > .999"), (0.04999, "p = .04999"), (0.0501, "p = .0501"), (0.05, "p = .050")),
        *((0.0645, "p = .065"), (float("nan"), "–"), (None, "–"), (0, "p < .001")),
    ],
)
def test_pvalue(p, full):
    bare = full.removeprefix("p").replace("= ", "").replace(" ", "")
    assert (numerals.pvalue(p), numerals.pvalue(p, bare=True)) == (full, bare)


@given(st.floats(0, 1), st.sampled_from([0.1, 0.05, 0.01]))
def test_a_pvalue_never_reads_as_on_the_other_side_of_a_level(p, alpha):
    shown = numerals.pvalue(p, bare=True)
    if shown[0] == "." and not math.isclose(p, alpha, abs_tol=1e-6):
        assert (float(shown) < alpha) == (p < alpha) or float(shown) == p


@given(st.floats().filter(lambda x: not 1e300 < abs(x) < math.inf), st.integers(1, 6))
def test_number_is_right_to_its_digits_and_holds_no_more(x, digits):
    text = numerals.number(x, digits)
    if not math.isfinite(x):
        assert text in ("–", "∞", "−∞")
        return
    value = float(text.replace("−", "-"))
    assert math.isclose(value, x, rel_tol=0.5001 * 10 ** (1 - digits)) or value == x
    mantissa = text.lstrip("−").partition("e")[0].replace(".", "").lstrip("0")
    assert len(mantissa.rstrip("0")) <= digits


@given(st.lists(st.floats(-1e5, 1e5), min_size=1, max_size=8))
def test_a_column_lines_up(values):
    texts = numerals.aligned(values)
    assert len({len(t.partition(".")[2]) for t in texts}) == 1 or any("e" in t for t in texts)
    assert not any(re.fullmatch(r"−0\.?0*", t) for t in texts)


@given(names, st.integers(1, 30))
def test_shorten_fits_and_keeps_both_ends(name, width):
    short = escape.shorten(name, width)
    assert escape.columns(short) <= width
    if escape.columns(name) <= width:
        assert short == name
    elif width >= 3:
        head, _, tail = short.partition("…")
        assert name.startswith(head)
        assert name.endswith(tail)


@given(names, st.integers(0, 30), st.sampled_from("<>^"))
def test_pad_fills_to_the_width(name, width, align):
    name = escape.terminal(name)
    assert escape.columns(escape.pad(name, width, align)) == max(width, escape.columns(name))
