"""HTML reports for tests, and a parser that takes them apart."""

from functools import cache
from html.parser import HTMLParser

from report_cases import PROVENANCE, published
from report_cases import render as rendered

VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """Elements, attributes, and visible text by section."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.elements: list[tuple[str, dict]] = []
        self.pieces: list[str] = []
        self.sections: dict[str, list[str]] = {}
        self.scripts: list[str] = []
        self._section = ""
        self.feed(html)
        self.close()
        assert not self.stack, f"unclosed {self.stack}"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "details" and "section" in (dict(attrs).get("class") or ""):
            self._section = dict(attrs)["id"]
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if self.stack and self.stack[-1] == "script":
            self.scripts.append(data)
        elif self.stack and self.stack[-1] != "style":
            self.pieces.append(data)
            self.sections.setdefault(self._section, []).append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.pieces).split())

    def section(self, key: str) -> str:
        return " ".join("".join(self.sections[key]).split())


def render(comparison, **provenance) -> str:
    return rendered(comparison, "html", provenance={**PROVENANCE, **provenance})


@cache
def study_page() -> str:
    return render(published(stability=500))
