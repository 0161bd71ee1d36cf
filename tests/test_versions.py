"""The versions that the package declares are those that are tested: the bounds, and the pins of the
oldest set.
"""

import re

from packaging.requirements import Requirement
from places import ROOT


def test_the_oldest_set_pins_what_is_declared():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = re.search(r"^dependencies = \[\n(.*?)^\]", project, re.S | re.M)[1]
    declared = {
        wanted.name: wanted for wanted in map(Requirement, re.findall(r'^  "(.+)",$', block, re.M))
    }
    pins = [
        line
        for line in (ROOT / ".ci" / "oldest.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    oldest = dict(line.split("==") for line in pins)
    assert set(oldest) == set(declared)
    for name, version in oldest.items():
        lower = [bound.version for bound in declared[name].specifier if bound.operator == ">="]
        assert re.fullmatch(re.escape(lower[0]) + r"(\.0)*", version), (name, version, lower)
        assert declared[name].specifier.contains(version)


def test_the_whole_check_uses_them():
    check = (ROOT / ".ci" / "run").read_text()
    assert "-c .ci/oldest.txt" in check
    named = re.search(r"tests/\{([\w/,]+)\}\.py", check)[1].split(",")
    assert all((ROOT / "tests" / f"{name}.py").exists() for name in named)
