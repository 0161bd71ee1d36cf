"""The versions that the package declares are those that are tested, and of the oldest set."""

import re

from packaging.requirements import Requirement
from places import ROOT

import mlflow_mleval


def declared(project: str) -> dict[str, Requirement]:
    """What the package needs, by name."""
    block = re.search(r"^dependencies = \[\n(.*?)^\]", project, re.S | re.M)[1]
    requirements = map(Requirement, re.findall(r'^  "(.+)",$', block, re.M))
    return {requirement.name: requirement for requirement in requirements}


def test_the_oldest_set_pins_what_is_declared():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    wanted = declared(project)
    lines = (ROOT / ".ci" / "oldest.txt").read_text().splitlines()
    oldest = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert set(oldest) == set(wanted)
    for name, version in oldest.items():
        lower = [bound.version for bound in wanted[name].specifier if bound.operator == ">="]
        assert re.fullmatch(re.escape(lower[0]) + r"(\.0)*", version), (name, version, lower)
        assert wanted[name].specifier.contains(version)


def test_the_whole_check_uses_them():
    check = (ROOT / ".ci" / "run").read_text()
    assert "-c .ci/oldest.txt" in check
    named = re.search(r"tests/\{([\w/,]+)\}\.py", check)[1].split(",")
    assert all((ROOT / "tests" / f"{name}.py").exists() for name in named)


def test_the_recipe_for_conda_needs_what_the_package_needs():
    recipe = (ROOT / ".ci" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    run = recipe[recipe.index("\n  run:") : recipe.index("\ntests:")]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    needed = {(needs.name, str(needs.specifier)) for needs in declared(project).values()}
    python = re.search(r'^requires-python = "(.+)"$', project, re.M)[1]
    listed = [Requirement(line) for line in re.findall(r"^    - (.+)$", run, re.M)[1:]]
    assert {(needs.name, str(needs.specifier)) for needs in listed} == needed
    variants = (ROOT / ".ci" / "conda" / "variants.yaml").read_text(encoding="utf-8")
    assert f'python_min: ["{python.removeprefix(">=")}"]' in variants


def test_every_place_names_the_version_of_the_package():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {mlflow_mleval.__version__}\n" in citation
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", changes, re.M)[1] == mlflow_mleval.__version__
