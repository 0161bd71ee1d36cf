"""The report on a terminal, in Markdown and in LaTeX: short, aligned, escaped, and LaTeX that
compiles.
"""

import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from report_cases import PROVENANCE, nasty, published, render, study_of, three_methods

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.report import text as escape
from mlflow_mleval.report.blocks import plain
from mlflow_mleval.report.content.decision import verdict
from mlflow_mleval.report.content.study_report import document

#: The formats, and the pairs alone on a terminal.
RENDERERS = {
    "terminal": ("table", "report"),
    "pairs": ("table", "pairs"),
    "markdown": ("md", "report"),
    "latex": ("latex", "report"),
    "page": ("html", "report"),
}
GIVEN = {"f1": 2, "hamming_loss": 1}
DESIGNS = {
    name: cache(made)
    for name, made in {
        "published": lambda: published(stability=True),
        "one measure": lambda: published(on="one_error"),
        "control": lambda: published(control="BR"),
        "control by ranks": lambda: published(control="BR", test="bonferroni-dunn"),
        "one dataset": lambda: compare(study_of(3, 1)),
        "folds": lambda: compare(three_methods()),
        "two methods": lambda: compare(study_of(2, 5, measures=("f1",))),
        "given weights": lambda: compare(fuse(study_of(9, 5), "linear", GIVEN, q=0.01, p=0.2)),
        "hostile names": lambda: nasty(stability=20),
    }.items()
}


def lines_of(text):
    assert not text.startswith("\n")
    return text.rstrip("\n").split("\n")


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("form", RENDERERS)
def test_every_format_takes_every_design(design, form):
    text = render(DESIGNS[design](), *RENDERERS[form])
    assert not re.search(r"\b(nan|None|inf)\b", text)
    for line in text.split("\n") if form != "page" else ():
        assert escape.terminal(line) == line
    if form == "latex":
        written = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
        assert not re.search(r"-(\{\})?-[a-z]", written.replace(r"\textendash", ""))
        assert "command" not in written  # nor a flag of the command line
    if design == "published":
        assert render(DESIGNS[design](), *RENDERERS[form], {})


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("what", ["report", "pairs"])
def test_a_terminal_of_any_width_holds_it(what, design):
    for width in (60, 100):
        for line in lines_of(render(DESIGNS[design](), "table", what, width=width)):
            assert escape.columns(line) <= width, line


def test_the_published_study_takes_a_screen_of_24_lines_and_more_on_request():
    found = published(stability=True)
    short = render(found)
    assert len(lines_of(short)) <= 24
    assert re.search(r"^2 doubts \(-v shows all\): 12 of 132 results are missing", short, re.M)
    text = document(found, PROVENANCE).in_full.render("table")
    assert short.split("\n\n")[0] in text and "| # |" not in text
    flat = " ".join(text.split())
    assert all(plain(sentence.text) in flat for sentence in verdict(found)[1:])
    assert "12 of 132 results are missing" in flat and PROVENANCE["command"] in flat
    assert all(re.search(rf"^ *\d+  {re.escape(m)} ", text, re.M) for m in found.order)


def test_the_ranking_holds_what_decides_and_the_ranks_that_are_left():
    assert "Ranks: those that the tests leave." in " ".join(render(published()).split())
    assert "mean rank  ranks" in render(published(order="mean-rank"))
    one = render(published(on="f1"))
    assert re.search(r"method +mean f1 ↑  ranks", one) and "[" not in one.partition("doubts")[2]
    alone = lines_of(render(compare(study_of(3, 1), on="f1"), provenance={}))
    assert any(re.match(r"m1 +0\.\d+$", line) for line in alone)  # no rank is ruled out
    assert not any(line.startswith("1 ") for line in alone)


@pytest.mark.parametrize("on", ["fused", "f1"])
def test_pages_have_intervals_of_pairs_where_the_deciding_test_has_some(on):
    page, other = render(published(on=on), "html"), published(on=on, test="wilcoxon")
    pairs = published(on=on).pairs
    beyond = (pairs["flow_low"] >= 0) | (pairs["flow_high"] <= 0)
    assert (beyond == pairs["separated"]).all() and beyond.any()
    assert "95% intervals hold together" in page and "the deciding test (α" in page
    assert other.pairs["flow_low"].isna().all()
    assert "p (Nemenyi)" in render(other, "html") and "p (Nemenyi)" not in page


def test_pairs_say_first_which_are_separated():
    text = render(published(), what="pairs")
    assert text.startswith("Step-down max-T, α = .05: 4 of 66 pairs are separated: RF-PCT,")
    signed = render(published(test="wilcoxon"), what="pairs")
    assert signed.startswith("12 methods on 11 datasets cannot give a significant pair: the")
    flat = " ".join(text.split())
    assert "Friedman χ²(11) = 26.88, p = .005; Iman–Davenport F(11, 110) = 2.856, p = .003." in flat
    five = compare(published().study.select(methods=["BR", "CC", "ECC", "RAkEL", "PCT"]))
    rough = "The chi-square approximation of Friedman's test is rough"
    assert rough in " ".join(render(five, what="pairs").split())
    assert not any("chi-square" in doubt for doubt in five.doubts)
    assert re.search(r"^RF-PCT +PCT +0\.51 \[0\.26, 0\.77\] +\.002 +yes +11 +11/0/0$", text, re.M)
    assert "… and 46 more; --output csv lists all" in text
    gaps = render(published(on="f1"), what="pairs", provenance={})
    assert "Skillings–Mack χ²(11) = " in gaps  # tested as they are


@pytest.mark.parametrize("form", ["table", "md", "latex", "html"])
def test_separated_pairs_that_assumptions_do_not_carry_are_marked_on_their_rows(form):
    found = published(test="nemenyi", alpha=0.2)
    frame = found.pairs
    filled = {method for _, method in found.study.filled}
    rests = frame["separated"] & (frame["method_a"].isin(filled) | frame["method_b"].isin(filled))
    assert 0 < rests.sum() < frame["separated"].sum()
    assert (
        frame["doubts"] == np.where(rests, "results of the two were filled by the policy worst", "")
    ).all()
    text = render(found, form, "pairs")
    cells = re.findall(r"yes(?: \[!\])?</td>" if form == "html" else r"\byes\b(?: \W*!\W)?", text)
    assert sum("!" in cell for cell in cells) == rests.sum()
    assert len(cells) == frame["separated"].sum()
    assert "filled by the policy worst" in " ".join(text.split())


def test_ids_of_runs_are_cut_on_a_terminal_and_whole_elsewhere():
    whole = f"a on d (run {'0123456789abcdef' * 2})"
    found = replace(published(), doubts=(f"Left out: run {whole}: status FAILED.",))
    assert "run a on d (run 01234567…): status FAILED." in render(found, provenance={})
    assert whole in render(found, "md") and whole in render(found, "json")


def test_wide_and_joined_characters_keep_the_columns_in_line():
    names = ["木村木村", "👩‍💻 run", "e\u0301tude", "plain", "🇩🇪"]
    lines = lines_of(render(compare(study_of(5, 6, names=names)), provenance={}))
    rows = [line for line in lines if re.match(r" ?\d  ", line)]
    assert len(rows) == 5
    places = [escape.columns(re.split(r"\d\.\d\d", row)[0]) for row in rows]
    assert len(set(places)) == 1


def test_many_methods_show_the_best_and_count_the_rest():
    found = compare(study_of(60, 3, gap=0.001))
    text = render(found)
    assert "… and 45 more; --output csv lists all" in text
    assert len(lines_of(text)) < 40
    assert "… and 1,670 more pairs." in render(found, "md")
    assert "The first 40 of 60 methods are shown." in render(found, "latex")


def run_names(n):
    """Names as sweeps write them: long, and alike at both ends."""
    return [
        f"resnet50_imagenet_lr0.0{1 + i // 12}_bs{32 * (1 + i % 4)}_seed{i}_long_run"
        for i in range(n)
    ]


def test_sixty_methods_keep_their_names_and_their_ranks_on_100_columns():
    found = compare(study_of(60, 10, gap=0.004, names=run_names(60)))
    assert len(found.cliques) > 10
    lines = lines_of(document(found, {}).render("table", 100))
    head = next(line for line in lines if line.startswith(" #"))
    assert re.search(r"ranks +better than +worse than", head) and "groups" not in head
    rows = [line for line in lines if re.match(r" *\d+  resnet", line)]
    names = [line.split()[1] for line in rows]
    assert len(names) == len(set(names)) == 15
    assert all(re.search(r"\d+–\d+ +\d+ +\d+", line) for line in rows)
    above = sum(worse == found.order[0] for worse, _ in found.separated)
    assert f" {above} " in rows[0]


def test_names_that_differ_are_never_cut_to_the_same():
    for names in (run_names(60), [f"{'x' * 50}{i}{'y' * 50}" for i in range(200)], ["a", "b"]):
        for width in (6, 16, 28, 60):
            cut = escape.shortened(names, width)
            assert len(set(cut.values())) == len(names)
            assert max(map(escape.columns, cut.values())) <= width


@pytest.mark.parametrize("design", DESIGNS)
def test_markdown_tables_have_the_same_cells_in_every_row(design):
    text = render(DESIGNS[design](), "md")
    for block in text.split("\n\n"):
        if block.startswith("|"):
            cells = [len(re.findall(r"(?<!\\)\|", line)) for line in block.split("\n")]
            assert len({*cells}) == 1
    assert text.startswith("# ") and "\n## Ranking\n" in text and text.endswith("\n")


KNOWN = set(
    re.findall(
        r"\w+",
        """
    begin end paragraph item centering small setlength tabcolsep caption label resizebox ifdim width linewidth else fi
    toprule midrule bottomrule footnotesize raggedright par textbackslash textasciitilde textasciicircum textless
    textgreater textbar char textendash ldots pm times leq geq infty alpha phi chi tau Lambda cdot uparrow downarrow draw quad
""",  # noqa: E501
    )
)


@pytest.mark.parametrize("design", DESIGNS)
def test_latex_is_balanced_and_only_our_commands_act(design):
    text = render(DESIGNS[design](), "latex")
    bare = re.sub(r"(?m)^%.*\n|\\[\\{}$&#%_]", "", text)  # no comments, no escaped characters
    assert bare.count("{") == bare.count("}") and bare.count("$") % 2 == 0
    begun, ended = (re.findall(rf"\\{word}\{{(\w+)\}}", bare) for word in ("begin", "end"))
    assert sorted(begun) == sorted(ended)
    assert set(re.findall(r"\\([a-zA-Z]+)", bare)) <= KNOWN
    rules = (rf"\{where}rule" for where in ("top", "mid", "bottom"))
    tables, figures = text.count(r"\begin{table}"), text.count(r"\begin{figure}")
    assert [*map(text.count, rules)] == [tables] * 3
    assert text.count(r"\caption{") == tables + figures
    for body in re.findall(r"\\toprule\n(.*?)\\bottomrule", text, re.S):
        rows = [line for line in body.split("\n") if line and line != r"\midrule"]
        assert len({len(re.findall(r"(?<!\\)&", row)) for row in rows}) == 1
        assert all(row.endswith(r" \\") and row[0] not in "[*" for row in rows)


def test_folds_have_their_tables_in_markdown_and_latex_reports_but_not_beside_a_ranking():
    found = compare(three_methods())
    once = "Means with 95", "intervals, each alone", "Hotelling's T"
    for text, tables in ((render(found, "md"), 0), (render(found, "latex"), 2)):
        for said in ("By fold", "On birds", "On flags it separates", "carried by"):
            assert said in text
        assert [text.count(said) for said in once] == [1, 1, 1]
        assert text.count("tab:mleval-fold-") == tables
    assert "By fold" not in render(found, "md", "ranking") + render(found, "latex", "pairs")


def test_the_diagram_in_latex_has_every_method_and_a_bar_over_each_group():
    found = published()
    text = render(found, "latex")
    picture = text[text.index(r"\begin{tikzpicture}") : text.index(r"\end{tikzpicture}")]
    assert all(f"{found.ranks.mean()[m]:.2f}" in picture and m in picture for m in found.order)
    solid = re.findall(r"line width=2pt\] \((-?[\d.]+),(-?[\d.]+)\)", picture)
    assert len({y for _, y in solid}) == sum(len(group) > 1 for group in found.cliques)
    assert "critical difference" not in picture
    assert "critical difference 5.02" in render(published(test="nemenyi"), "latex")


LATIN = [
    *("<img src=x>", "=cmd()", r"\input{/etc/passwd}", "\x1b[31mred", "a&b|c_d^2~$x$#1%", "*"),
    *("[x]", "--''``,,"),
]


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
@pytest.mark.parametrize("design", ["published", "control", "one dataset", "folds", "hostile"])
def test_latex_compiles(design, tmp_path):
    hostile = study_of(len(LATIN), 4, names=LATIN, gap=0.02)
    found = compare(hostile) if design == "hostile" else DESIGNS[design]()
    packages = "".join(re.findall(r"^% +(\\usepackage.*)$", text := render(found, "latex"), re.M))
    (tmp_path / "report.tex").write_text(text, encoding="utf-8")
    (tmp_path / "main.tex").write_text(
        rf"\documentclass{{article}}{packages}\begin{{document}}\input{{report}}\end{{document}}"
    )
    how = ["-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "-draftmode"]
    told = {"capture_output": True, "text": True, "errors": "replace", "timeout": 120}
    done = subprocess.run(["pdflatex", *how, "main.tex"], cwd=tmp_path, **told)
    if "not found" in done.stdout and ".sty" in done.stdout:
        pytest.skip("the LaTeX installation lacks a package")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
