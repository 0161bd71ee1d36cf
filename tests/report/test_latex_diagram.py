"""LaTeX has the critical-difference diagram, and nothing of the command line; it compiles where a
LaTeX is there.
"""

import re
import shutil
import subprocess

import pytest
from report_cases import nasty, published, render

WHOLE = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage{booktabs,graphicx,tikz}
\begin{document}
%s
\end{document}
"""


def test_the_diagram_has_every_method_and_a_bar_over_each_group():
    found = published()
    text = render(found, "latex")
    picture = text[text.index(r"\begin{tikzpicture}") : text.index(r"\end{tikzpicture}")]
    assert all(f"{found.ranks.mean()[m]:.2f}" in picture and m in picture for m in found.order)
    solid = re.findall(r"line width=2pt\] \((-?[\d.]+),(-?[\d.]+)\)", picture)
    assert len({y for _, y in solid}) == sum(len(group) > 1 for group in found.cliques)
    assert "critical difference" not in picture
    assert "critical difference 5.02" in render(published(test="nemenyi"), "latex")


@pytest.mark.parametrize("what", ["report", "ranking", "pairs"])
def test_no_flags_of_the_command_line(what):
    text = "\n".join(
        line for line in render(published(), "latex", what).splitlines() if not line.startswith("%")
    )
    assert not re.search(r"-(\{\})?-[a-z]", text.replace(r"\textendash", ""))
    assert "command" not in text


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")
@pytest.mark.parametrize("comparison", [published, nasty], ids=["published", "nasty"])
def test_it_compiles(comparison, tmp_path):
    text = render(comparison(), "latex")
    text = text if comparison is published else text.encode("ascii", "ignore").decode()
    (tmp_path / "paper.tex").write_text(WHOLE % text, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True)
    assert done.returncode == 0 and (tmp_path / "paper.pdf").exists(), done.stdout.decode(
        errors="replace"
    )[-1500:]
