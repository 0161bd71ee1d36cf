"""The challenge cases of Kosmopoulos et al. (2015), rebuilt from its words: every hierarchical
measure on each.

Writes case_studies_hierarchical.md beside this script, or FILE, and its drawings into pictures
beside that.

    python examples/studies/case_studies_hierarchical.py [FILE]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import networkx as nx
import pandas as pd

from mlflow_mleval import Hierarchy, evaluate_hierarchical
from mlflow_mleval.report.figures import Svg

HERE = Path(__file__).resolve().parent
D_MAX = 5  # "this threshold is set to 5" (section 3)
#: What the tables show, by the names of the paper where it has one.
SHOWN = {
    "P_H": "h_precision",
    "R_H": "h_recall",
    "F_H": "h_f1",
    "l_Δ": "symmetric_difference_loss",
    "H-loss": "h_loss",
    "P, descendants": "descendant_precision",
    "R, descendants": "descendant_recall",
    "F, descendants": "descendant_f1",
    "exact match": "exact_match",
    "tree-induced error": "tree_induced_error",
    "GIE": "gie",
    "MGIA": "mgia",
    "MGIA, error": "mgia_error",
    "all pairs": "all_pairs_error",
    "P_LCA": "lca_precision",
    "R_LCA": "lca_recall",
    "F_LCA": "lca_f1",
    "P_LCA, minimal": "minimal_precision",
    "R_LCA, minimal": "minimal_recall",
    "F_LCA, minimal": "minimal_f1",
}
EXISTING, LCA = (
    ("P_H", "R_H", "F_H", "l_Δ"),
    ("P_LCA", "R_LCA", "F_LCA", "P_LCA, minimal", "R_LCA, minimal", "F_LCA, minimal"),
)
PAIRS = "GIE", "MGIA", "MGIA, error"
OF_PAPER = (*EXISTING, *PAIRS, *LCA)


@dataclass(frozen=True)
class Variant:
    """A hierarchy, written as "parent>child child, ...", with the true and the predicted classes of
    one instance.
    """

    edges: str
    true: str
    pred: str
    options: dict[str, Any] = field(default_factory=dict)
    drawn: bool = True

    @cached_property
    def hierarchy(self) -> Hierarchy:
        parts = (part.split(">") for part in self.edges.split(","))
        return Hierarchy(
            [(parent.strip(), child) for parent, children in parts for child in children.split()]
        )

    @cached_property
    def row(self) -> pd.Series:
        """The measures by the names of `SHOWN`, and the sizes of the sets."""
        sets, options = (
            ([self.true.split()], [self.pred.split()]),
            {"max_distance": D_MAX, **self.options},
        )
        row = evaluate_hierarchical(*sets, self.hierarchy, **options).instances.loc[0]
        minimal = evaluate_hierarchical(
            *sets, self.hierarchy, **options, lca="minimal", measures="lca"
        ).instances.loc[0]
        row = pd.concat([row, minimal.rename(lambda name: name.replace("lca_", "minimal_"))])
        return row.rename({name: shown for shown, name in SHOWN.items()})

    def __getitem__(self, name: str) -> float:
        return round(float(self.row[name]), 9)

    def lca_sets(self) -> tuple[set[str], set[str]]:
        """The extended sets of the true and the predicted classes, by way of networkx, where none
        is below another.
        """
        graph = nx.DiGraph(
            [(p, c) for c in self.hierarchy.nodes for p in self.hierarchy.parents(c)]
        )
        up, found = dict(nx.all_pairs_shortest_path_length(graph.reverse())), (set(), set())
        apart = {
            (t, p): min(up[t][a] + up[p][a] for a in up[t].keys() & up[p].keys())
            for t, p in product(self.true.split(), self.pred.split())
        }
        for t, p in apart:
            nearest = (
                min(d for (a, b), d in apart.items() if a == t),
                min(d for (a, b), d in apart.items() if b == p),
            )
            for top in up[t].keys() & up[p].keys() if apart[t, p] in nearest else ():
                if up[t][top] + up[p][top] == apart[t, p]:
                    for nodes, c in zip(found, (t, p), strict=True):
                        nodes.update(*nx.all_shortest_paths(graph, top, c))
        assert tuple(map(len, found)) == (self["lca_true_size"], self["lca_pred_size"])
        return found


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, the figures that it is about, and whether they bear it out; `but`
    says where they do not.
    """

    text: str
    figures: str
    holds: Callable[..., bool]
    but: str = ""


@dataclass(frozen=True)
class Case:
    title: str
    number: str
    words: str
    variants: dict[str, Variant]
    claims: list[Claim]


def same(*variants: Variant, of: tuple[str, ...]) -> bool:
    """Whether all variants agree in these measures."""
    return all(v[name] == variants[0][name] for v in variants for name in of)


FIGURE_8 = "1>1.1 1.2, 2>2.1, 3>2.1 3.1 3.2 3.3 3.2.2, 3.2>3.2.1 3.2.2"
CASES = [
    Case(
        "The worked example: extended and minimal graphs",
        "8",
        "Figure 8(b) of section 2.4.2: 2.1 has the parents 2 and 3, 3.2.2 has 3.2 and 3. True "
        "are 2.1, 3.2.1 and 3.3, predicted 3.1, 3.2.1 and 3.2.2. Figure 9 shows the extended "
        "graphs, Figure 10 the minimal ones.",
        {"": Variant(FIGURE_8, "2.1 3.2.1 3.3", "3.1 3.2.1 3.2.2")},
        [
            Claim(
                "Figure 9: the sets are {3, 2.1, 3.2, 3.3, 3.2.1} and {3, 3.1, 3.2, 3.2.1, 3.2.2}.",
                "",
                lambda v: (
                    v.lca_sets()
                    == ({"3", "2.1", "3.2", "3.3", "3.2.1"}, {"3", "3.1", "3.2", "3.2.1", "3.2.2"})
                ),
            ),
            Claim(
                "Figure 9: P_LCA, R_LCA and F_LCA are .6.",
                "P_LCA R_LCA F_LCA",
                lambda v: v["P_LCA"] == v["R_LCA"] == v["F_LCA"] == 0.6,
            ),
            Claim(
                "Figure 10: without 3.2, all three are .5.",
                "P_LCA,minimal R_LCA,minimal F_LCA,minimal",
                lambda v: v["P_LCA, minimal"] == v["R_LCA, minimal"] == v["F_LCA, minimal"] == 0.5,
            ),
        ],
    ),
    Case(
        "Pairing, case 1",
        "11",
        "The numbers of true and predicted classes differ, all on one level below B. The third "
        "column is (a) with another node above A.",
        {
            "a": Variant("A>B, B>T1 P1 P2", "T1", "P1 P2"),
            "b": Variant("A>B, B>T1 T2 P1", "T1 T2", "P1"),
            "a, deeper": Variant("Z>A, A>B, B>T1 P1 P2", "T1", "P1 P2", drawn=False),
        },
        [
            Claim(
                "(a) and (b) give different but symmetric P_H and R_H.",
                "P_H R_H",
                lambda a, b, _: a["P_H"] == b["R_H"] != a["R_H"] == b["P_H"],
            ),
            Claim(
                "The same is true of P_LCA and R_LCA.",
                "P_LCA R_LCA",
                lambda a, b, _: a["P_LCA"] == b["R_LCA"] != a["R_LCA"] == b["P_LCA"],
            ),
            Claim(
                "The hierarchical versions count A, too, and are higher than the LCA versions.",
                "F_H F_LCA",
                lambda *vs: all(v["F_H"] > v["F_LCA"] for v in vs),
            ),
            Claim(
                "Each node above B raises the hierarchical versions and leaves the LCA versions.",
                "F_H F_LCA",
                lambda a, _, deeper: deeper["F_H"] > a["F_H"] and same(a, deeper, of=LCA),
            ),
            Claim(
                "All other measures are the same in both.",
                "l_Δ GIE MGIA",
                lambda a, b, _: same(a, b, of=("l_Δ", *PAIRS)),
            ),
            Claim(
                "GIE pairs one of two classes and charges the other the maximum cost.",
                "GIE",
                lambda a, b, _: a["GIE"] == b["GIE"] == 2 + D_MAX,
            ),
            Claim(
                "MGIA is more suitable: several classes may be paired with the nearest one.",
                "MGIA,error GIE",
                lambda a, b, _: a["MGIA, error"] == b["MGIA, error"] == 2 + 2,
            ),
        ],
    ),
    Case(
        "Pairing, case 2",
        "12",
        "TP is predicted rightly, P1 wrongly; in (b), P1 lies farther from TP. The paper names "
        "the sets.",
        {
            "a": Variant("A>B, B>D, D>TP P1", "TP", "TP P1"),
            "b": Variant("A>B, B>D P1, D>TP", "TP", "TP P1"),
        },
        [
            Claim(
                "(a): the LCA sets are {TP, D} and {TP, D, P1}.",
                "",
                lambda a, b: a.lca_sets() == ({"TP", "D"}, {"TP", "D", "P1"}),
            ),
            Claim(
                "(b): they become {TP, D, B} and {TP, B, P1}.",
                "",
                lambda a, b: b.lca_sets() == ({"TP", "D", "B"}, {"TP", "B", "P1"}),
            ),
            Claim(
                "All other set-based measures give the same in (a) and (b), from {TP, D, B, A} "
                "and {TP, P1, D, B, A}.",
                "P_H R_H F_H l_Δ H-loss",
                lambda a, b: (
                    same(
                        a,
                        b,
                        of=(*EXISTING, "H-loss", "F, descendants", "h_true_size", "h_pred_size"),
                    )
                    and (a["h_true_size"], a["h_pred_size"]) == (4, 5)
                ),
            ),
            Claim(
                "The LCA measures see that the mistake in (b) is worse.",
                "F_LCA F_LCA,minimal",
                lambda a, b: b["F_LCA"] < a["F_LCA"] and b["F_LCA, minimal"] < a["F_LCA, minimal"],
            ),
        ],
    ),
    Case(
        "Alternative paths",
        "13",
        "In (a), two paths lead from the root to P1; (b) is a tree.",
        {
            "a": Variant("A>B C, B>T1 P1, C>P1", "T1", "P1"),
            "b": Variant("A>B C, B>T1 P1", "T1", "P1"),
        },
        [
            Claim(
                "Pair-based measures are unaffected.", "GIE MGIA", lambda a, b: same(a, b, of=PAIRS)
            ),
            Claim(
                "Existing set-based measures are affected: they count both paths.",
                "P_H F_H l_Δ",
                lambda a, b: a["F_H"] < b["F_H"] and a["l_Δ"] > b["l_Δ"],
            ),
            Claim(
                "LCA measures behave like the pair-based ones.",
                "F_LCA F_LCA,minimal",
                lambda a, b: same(a, b, of=LCA),
            ),
        ],
    ),
    Case(
        "Combined, set-based measures agree",
        "14",
        "T1 hangs below A and B, which are the lowest common ancestors; the right part, with C, "
        "P1 and P2, is joined to the left one through both. The words leave the edges open; "
        "these are the fewest that fit them.",
        {"": Variant("A>T1 P2, B>T1 C, C>P1", "T1", "P1 P2")},
        [
            Claim(
                "GIE suffers from the matching problem of case 1.",
                "GIE MGIA,error",
                lambda v: v["GIE"] > v["MGIA, error"],
            ),
            Claim(
                "The set-based methods give similar results to each other.",
                "F_H F_LCA F_LCA,minimal",
                lambda v: (
                    v["P_H"] == v["P_LCA"] == v["P_LCA, minimal"]
                    and v["R_H"] == v["R_LCA"] == v["R_LCA, minimal"]
                ),
            ),
        ],
    ),
    Case(
        "Combined, set-based measures differ",
        "15",
        "As Figure 14, but the right part is joined to the left one through A only, and P1 to C "
        "through D and E.",
        {"": Variant("A>T1 P2 C, B>T1, C>D E, D>P1, E>P1", "T1", "P1 P2")},
        [
            Claim(
                "The hierarchical versions differ from the LCA versions.",
                "F_H F_LCA F_LCA,minimal",
                lambda v: v["F_H"] != v["F_LCA"] and v["F_H"] != v["F_LCA, minimal"],
            ),
            Claim(
                "LCA versions ignore node D.",
                "F_LCA F_LCA,minimal",
                lambda v: v["minimal_pred_size"] == 5 and v["lca_pred_size"] == 5,
                "It holds of the minimal graphs. The extended ones hold all shortest paths, so "
                "both D and E (Definition 5).",
            ),
            Claim(
                "All other set-based measures count both D and E.",
                "F_H l_Δ",
                lambda v: v["h_pred_size"] == 6,
            ),
        ],
    ),
    Case(
        "Counting a path several times",
        "16",
        "In (a), the edge from T1 to B lies on both paths, in (b) the way from T1 to D. The "
        "third column is (b) with P1 as a child of C, the fourth (a) with another predicted "
        "child of B.",
        {
            "a": Variant("A>B C, B>T1 P1, C>D, D>P2", "T1", "P1 P2"),
            "b": Variant("A>B C, B>T1, C>D, D>P1 P2", "T1", "P1 P2"),
            "b, P1 below C": Variant("A>B C, B>T1, C>D P1, D>P2", "T1", "P1 P2", drawn=False),
            "a, one more": Variant("A>B C, B>T1 P1 P3, C>D, D>P2", "T1", "P1 P2 P3", drawn=False),
        },
        [
            Claim(
                "From (a) to (b), MGIA's error rises from 7 to 10.",
                "MGIA,error",
                lambda a, b, *_: (a["MGIA, error"], b["MGIA, error"]) == (7, 10),
            ),
            Claim("l_Δ rises from 5 to 6.", "l_Δ", lambda a, b, *_: (a["l_Δ"], b["l_Δ"]) == (5, 6)),
            Claim(
                "F_LCA falls from .44 to .25.",
                "F_LCA F_LCA,minimal",
                lambda a, b, *_: (
                    [round(v[f], 2) for f in ("F_LCA", "F_LCA, minimal") for v in (a, b)]
                    == [0.44, 0.25] * 2
                ),
            ),
            Claim(
                "All set-based measures would give the same if P1 were a child of C; MGIA's "
                "error would be smaller.",
                "F_H l_Δ F_LCA MGIA,error",
                lambda a, b, c, _: (
                    same(b, c, of=(*EXISTING, *LCA)) and c["MGIA, error"] < b["MGIA, error"]
                ),
            ),
            Claim(
                "Another predicted child of B raises pair-based errors by at least 2, the "
                "extended set by 1.",
                "GIE MGIA,error l_Δ",
                lambda a, b, _, more: (
                    all(more[name] - a[name] >= 2 for name in ("GIE", "MGIA, error"))
                    and more["h_pred_size"] - a["h_pred_size"] == 1
                ),
            ),
        ],
    ),
    Case(
        "Very distant predictions",
        "17",
        "(a) has pairs of classes 6 edges apart; in (b), a node 0 joins B and E, so that they "
        "are 4 apart. The third column is "
        '(a) with options instead: `max_distance=4, far_pairs="clip"` takes every larger '
        "distance for 4, `max_ancestors=1` extends sets by what is nearer than half of that, "
        "`lca_max_distance=4` lets far pairs meet at a dummy node. (a) is measured with "
        "`max_distance=6`; with the 5 of the other cases its pairs would be too far apart to be "
        "paired.",
        {
            "a": Variant("A>C D, C>B, B>T1, D>E, E>P1 P2", "T1", "P1 P2", {"max_distance": 6}),
            "b": Variant("0>B E, B>T1, E>P1 P2", "T1", "P1 P2", {"max_distance": 4}),
            "a, with options": Variant(
                "A>C D, C>B, B>T1, D>E, E>P1 P2",
                "T1",
                "P1 P2",
                {"max_distance": 4, "far_pairs": "clip", "max_ancestors": 1, "lca_max_distance": 4},
                False,
            ),
        },
        [
            Claim(
                "With a distance of 4, l_Δ falls by 2.",
                "l_Δ",
                lambda a, b, c: a["l_Δ"] - b["l_Δ"] == a["l_Δ"] - c["l_Δ"] == 2,
            ),
            Claim(
                "MGIA's error falls by 4.",
                "MGIA,error",
                lambda a, b, c: (
                    a["MGIA, error"] - b["MGIA, error"] == a["MGIA, error"] - c["MGIA, error"] == 4
                ),
            ),
            Claim(
                "So pair-based measures are affected more than set-based ones.",
                "l_Δ MGIA,error",
                lambda a, b, _: a["MGIA, error"] - b["MGIA, error"] > a["l_Δ"] - b["l_Δ"],
            ),
            Claim(
                "All measures can be run with a threshold.",
                "F_LCA MGIA",
                lambda a, b, c: same(b, c, of=("l_Δ", *PAIRS, *LCA)),
            ),
        ],
    ),
    Case(
        "Over- and under-specialisation",
        "18",
        "In (a), the prediction lies below the true class, in (b) above it, in (c) higher still.",
        {
            "a": Variant("A>B, B>T1, T1>P1", "T1", "P1"),
            "b": Variant("A>B, B>P1, P1>T1", "T1", "P1"),
            "c": Variant("A>P1, P1>B, B>T1", "T1", "P1"),
        },
        [
            Claim(
                "(a) and (b) receive the same scores.",
                "P_H R_H F_H l_Δ GIE MGIA F_LCA",
                lambda a, b, c: same(a, b, of=OF_PAPER),
                "It holds of F, l_Δ, GIE and MGIA; precision and recall change places.",
            ),
            Claim(
                "All measures treat (a) as a misclassification, although P1 implies T1.",
                "F_H l_Δ GIE MGIA F_LCA",
                lambda a, b, c: (
                    max(a["F_H"], a["MGIA"], a["F_LCA"], a["F_LCA, minimal"]) < 1
                    and min(a["l_Δ"], a["GIE"]) > 0
                ),
            ),
            Claim(
                "All measures lead to a higher error in (c) than in (b).",
                "P_H F_H l_Δ GIE MGIA F_LCA H-loss",
                lambda a, b, c: all(
                    (c[m] > b[m]) if m in ("l_Δ", "GIE", "MGIA, error") else (c[m] < b[m])
                    for m in OF_PAPER
                ),
                "It holds of recall, F, l_Δ, GIE and MGIA; precision is 1 in both, for all that "
                "is predicted is right. H-loss, which section 3 does not use, is the same in "
                "both.",
            ),
        ],
    ),
]

INTRODUCTION = """\
# The challenge cases of hierarchical evaluation

Section 3 of Kosmopoulos et al. (2015) shows on small graphs what hierarchical measures make of five difficulties. The graphs are
rebuilt here from the paper's words, measured with every hierarchical measure, and each statement is checked. Written by
`python examples/studies/case_studies_hierarchical.py`; another measure to try needs only its name in `SHOWN`.

True classes are round, predicted ones boxed, right ones both. Errors (l_Δ, H-loss, tree-induced error, GIE, MGIA's error, all
pairs) are best at 0, the others at 1; P, R and F stand for precision, recall and F1, LCA for lowest common ancestors, all of them
or as few as will do ("minimal"). What is left unpaired costs 5 in GIE and MGIA unless said otherwise. Tables 1 to 8 of the paper
are not at hand; every figure that its text mentions is among the statements.
"""  # noqa: E501
STYLE = """\
text{font:13px sans-serif;fill:#1a1d21}.edge{stroke:#808890}.node{fill:#fff}.true,.pred{fill:#fff;stroke-width:2}
.true{stroke:#0072b2}.pred{stroke:#b84e00}
@media(prefers-color-scheme:dark){text{fill:#e6e8ea}.node,.true,.pred{fill:#15181b}.true{stroke:#5bb8ec}.pred{stroke:#f0a15a}}"""  # noqa: E501
OUTLOOK = """\
## Not checked

What section 3 judges rather than states: that counting common paths more than once is undesirable most of the time, that no case
was found where an existing set-based measure behaves better than the LCA versions, and that one should mostly prefer those to
MGIA. Its Table 9 sums up the statements above.
"""  # noqa: E501


def number(value: float) -> str:
    """Three decimals without what says nothing; a dash where a measure is not defined."""
    return "–" if value != value else f"{value:.3f}".rstrip("0").rstrip(".")


def evidence(figures: str, variants: dict[str, Variant]) -> str:
    names = [name.replace(",", ", ") for name in figures.split()]
    return "; ".join(
        f"{name} {', '.join(number(v[name]) for v in variants.values())}" for name in names
    )


def section(case: Case) -> list[str]:
    """A case as Markdown."""
    vs = case.variants
    lines = [
        f"## {case.title} (Figure {case.number})",
        "",
        case.words,
        "",
        f"![Figure {case.number}](pictures/case_studies_hierarchical_{case.number}.svg)",
        "",
        "| measure | "
        f"{' | '.join(f'({name})' if len(name) == 1 else name or 'value' for name in vs)} |",
        "|---" * (len(vs) + 1) + "|",
        *(f"| {shown} | {' | '.join(number(v[shown]) for v in vs.values())} |" for shown in SHOWN),
        "",
        "| the paper says | figures here | |",
        "|---|---|---|",
    ]
    for claim in case.claims:
        held = "holds" if claim.holds(*vs.values()) else "**does not hold as said.** " + claim.but
        lines.append(f"| {claim.text} | {evidence(claim.figures, vs)} | {held.strip()} |")
    return [*lines, ""]


def drawing(case: Case) -> str:
    """The hierarchies of a case side by side."""
    drawn = {name: v for name, v in case.variants.items() if v.drawn}
    width, step, deepest = 600 / len(drawn), 62, 0
    words = [
        f"{name and f'({name}) '}edges {v.edges}; true {v.true}; predicted {v.pred}"
        for name, v in drawn.items()
    ]
    svg = Svg(f"Figure {case.number}", "; ".join(words), 0)
    svg.add("style", STYLE)
    for i, (name, v) in enumerate(drawn.items()):
        graph = nx.DiGraph(
            [(p, c) for c in v.hierarchy.nodes for p in sorted(v.hierarchy.parents(c))]
        )
        levels = list(nx.topological_generations(graph))
        gap = min(90, width / (max(map(len, levels)) + 0.2))
        at: dict[str, tuple[float, float]] = {}
        for level, nodes in enumerate(levels):
            below = {c: [at[p][0] for p in graph.predecessors(c)] for c in sorted(nodes)}
            middle = {c: sum(xs) / len(xs) if xs else width * (i + 0.5) for c, xs in below.items()}
            xs, nodes = [], sorted(middle, key=middle.get)
            for (
                c
            ) in nodes:  # children of the same parents around them, and none too near to another
                twins = [other for other in nodes if middle[other] == middle[c]]
                wanted = middle[c] + gap * (twins.index(c) - (len(twins) - 1) / 2)
                xs.append(max(wanted, xs[-1] + gap if xs else width * i + gap / 2))
            end = width * (i + 1) + gap / 2
            for c, x in zip(reversed(nodes), reversed(xs), strict=True):
                end = min(x, end - gap)
                at[c] = end, 24 + step * level
        deepest = max(deepest, len(levels) - 1)
        for parent, child in graph.edges:
            svg.line(*at[parent], *at[child], "edge")
        for c, (x, y) in at.items():
            true, pred, wide = c in v.true.split(), c in v.pred.split(), 7 + 3.7 * len(c)
            for drawn_as, more, corner in (
                ("node", 0, 0),
                *[("pred", 4 * true, 0)] * pred,
                *[("true", 0, 13)] * true,
            ):
                svg.rect(
                    x - wide - more,
                    y - 13 - more,
                    2 * (wide + more),
                    26 + 2 * more,
                    drawn_as,
                    rx=corner or None,
                )
            svg.text(x, y + 4, c, None, "middle")
        if name:
            svg.text(width * i + 4, 20, f"({name})")
    svg.height = 48 + step * deepest
    return str(svg.__html__())


def main(path: Path) -> None:
    (path.parent / "pictures").mkdir(exist_ok=True)
    for case in CASES:
        picture = path.parent / "pictures" / f"case_studies_hierarchical_{case.number}.svg"
        picture.write_text(drawing(case) + "\n", encoding="utf-8")
    lines = [INTRODUCTION, *(line for case in CASES for line in section(case)), OUTLOOK]
    path.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "case_studies_hierarchical.md")
