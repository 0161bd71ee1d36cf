"""Drawings taken apart, and names that are hard to draw."""

import xml.etree.ElementTree as ET
from itertools import combinations

from markupsafe import escape
from report_cases import NASTY

from mlflow_mleval.report.figures import SIZE, SMALL, Svg, text_width

NS = "{http://www.w3.org/2000/svg}"


HOSTILE = [
    *NASTY,
    *("a\u200bb", "\"quoted'&amp;", "]]>", "{{7*7}}", "nul\x00\x0b\ufffe", "-->"),
    *("</script><script>alert(2)</script>", "</title><svg onload=alert(3)>"),
]


ALLOWED = {"svg", "title", "desc", "line", "rect", "circle", "path", "text", "tspan"}


def parse(svg: Svg) -> ET.Element:
    return ET.fromstring(str(escape(svg)))


def texts(root: ET.Element) -> list[ET.Element]:
    return list(root.iter(f"{NS}text"))


def content(node: ET.Element) -> str:
    """What a text shows: without its tooltip."""
    return (node.text or "") + "".join(
        child.text or "" for child in node if child.tag == f"{NS}tspan"
    )


def box(node: ET.Element) -> tuple[float, float, float, float]:
    """An upper estimate of where a text stands."""
    width = text_width(content(node), SMALL if "small" in node.get("class", "") else SIZE)
    x, y = float(node.get("x")), float(node.get("y"))
    left = x - width * {"end": 1, "middle": 0.5}.get(node.get("text-anchor"), 0)
    return left, y - 10, left + width, y + 3


def overlaps(nodes: list[ET.Element]) -> list[tuple[str, str]]:
    boxes = [(box(n), content(n)) for n in nodes if not n.get("transform")]
    return [
        (a, b)
        for (p, a), (q, b) in combinations(boxes, 2)
        if p[0] < q[2] and q[0] < p[2] and p[1] < q[3] and q[1] < p[3]
    ]


def outside(root: ET.Element) -> list[str]:
    _, _, width, height = map(float, root.get("viewBox").split())
    boxes = [(box(n), content(n)) for n in texts(root) if not n.get("transform")]
    return [t for b, t in boxes if b[0] < -1 or b[2] > width + 1 or b[1] < -2 or b[3] > height + 3]


def classes(root: ET.Element, tag: str, name: str) -> list[ET.Element]:
    return [n for n in root.iter(f"{NS}{tag}") if name in n.get("class", "").split()]


LONG = [f"run_{i}_" + "with_a_long_name" * 4 for i in range(30)]


def holds_only_text(svg: Svg) -> None:
    """Nothing in it acts, whatever the names are."""
    root = parse(svg)
    assert {node.tag.removeprefix(NS) for node in root.iter()} <= ALLOWED
    attributes = [a for node in root.iter() for a in node.attrib]
    assert not [a for a in attributes if a.startswith("on") or "href" in a]


def labels_stay_inside_and_apart(svg: Svg) -> None:
    root = parse(svg)
    assert not outside(root), svg.title
    assert not overlaps(texts(root)), svg.title
