"""The site has every guide and every public name; .ci/run builds it."""

import re

import pytest
from example_runs import loaded
from places import GUIDES, ROOT, STUDIES

import mlflow_mleval as mleval

SITE = ROOT / ".ci" / "site"
NAMESPACES = {"stats", "losses", "genai", "callbacks"}


@pytest.fixture(scope="module")
def script():
    return loaded(SITE / "make_site.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module")
def pages(script, folder):
    pages = script.stage(folder)
    assert all((folder / name).read_text(encoding="utf-8") == pages[name] for name in pages)
    return pages


def test_every_page_is_in_the_navigation(pages):
    config = (SITE / "zensical.toml").read_text(encoding="utf-8")
    navigation = config[config.index("nav = [") : config.index("[project.theme]")]
    listed = re.findall(r'"([\w/]+\.md)"', navigation)
    assert sorted(listed) == sorted(name for name in pages if not name.startswith("files/"))


def test_links_of_pages_lead_to_pages_and_pictures(script, pages, folder):
    for name, text in pages.items():
        for _, target in script.linked(text, folder / name):
            assert target.is_file(), (name, target)


def test_the_reference_has_every_public_name(pages):
    reference = pages["reference/mleval.md"] + pages["reference/results.md"]
    for name in mleval._PUBLIC.keys() - NAMESPACES:
        assert f'"mleval.{name}"' in reference or f'"{name}"' in reference, name
    for namespace in NAMESPACES:
        page = pages[f"reference/{namespace}.md"]
        for name in getattr(mleval, namespace).__all__:
            assert f'"mleval.{namespace}.{name}"' in page


def test_the_index_for_programs_says_what_each_page_is_about(script, pages):
    index = script.index_for_programs(pages, "https://example.org/")
    lines = re.findall(r"^- \[(.+?)\]\((\S+)\): (.+)$", index, re.M)
    assert len(lines) == index.count("\n- ") >= len([*GUIDES.glob("*.md"), *STUDIES.glob("*.md")])
    assert "https://example.org/guides/gate/index.md" in [address for _, address, _ in lines]


def test_the_menu_of_versions_has_the_newest_first(script):
    menu = [{"version": "0.2.0", "title": "0.2.0", "aliases": ["latest"]}]
    menu = script.listed(script.listed(menu, "0.10.0"), "0.9.1")
    assert [entry["version"] for entry in menu] == ["0.10.0", "0.9.1", "0.2.0"]
    assert [entry["aliases"] for entry in menu] == [["latest"], [], []]
    assert script.listed(menu, "0.9.1") == menu


def test_doctests_become_a_section_of_examples():
    pytest.importorskip("griffe")
    extension = loaded(SITE / "docstring_examples.py")
    text = "Add.\n\nReturns\n-------\nint\n\n>>> 1 + 1\n2"
    shown = extension.with_heading(text)
    assert shown == text.replace("\n\n>>>", "\n\nExamples\n--------\n>>>")
    assert extension.with_heading(shown) == shown and extension.with_heading("Add.") == "Add."
