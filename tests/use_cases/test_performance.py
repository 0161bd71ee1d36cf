"""The page about performance has what was measured, and nothing else."""

import json

import pytest
from example_runs import loaded
from places import SCRIPTS, STUDIES


@pytest.fixture(scope="module")
def script():
    return loaded(SCRIPTS / "make_performance.py")


def test_the_page_is_up_to_date(script):
    measured = json.loads(script.MEASURED.read_text("utf-8"))
    assert script.page(measured) == (STUDIES / "performance.md").read_text("utf-8"), (
        "run python examples/scripts/make_performance.py --only"
    )


def test_its_benchmarks_exist_and_tell_their_rows(script):
    for benchmarks in script.PARTS.values():
        for name in benchmarks:
            assert "told(" in (script.BENCHMARKS / f"{name}.py").read_text("utf-8"), name


def test_a_missed_bound_has_a_reason_or_says_that_none_is_known(script, monkeypatch):
    monkeypatch.setattr(script, "REASONS", {"work that": "there is no other way"})
    monkeypatch.setattr(script, "PARTS", {"Here": {"bench": script.Benchmark()}})

    def page(**row):
        return script.page({"bench": {"with": "numpy 2", "rows": [row]}})

    assert "missed" not in page(work="any", ours=1.0, peer="scipy", theirs=2.0, bound=2)
    assert "missed" not in page(work="any", ours=1.5, peer="search", theirs=1.0, bound=1 / 1.5)
    text = page(work="work that waits", ours=1.0, bound=0.5)
    assert "≤ 0.5 s, **missed**" in text
    assert "- **work that waits**: there is no other way" in text
    text = page(work="any", ours=1.6, peer="search", theirs=1.0, bound=1 / 1.5)
    assert "- **any**: nobody has found out why." in text
