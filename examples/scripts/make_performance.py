"""Write the guide performance.md: what work costs beside the best peer, as measured here.

    python examples/scripts/make_performance.py

It takes some minutes and wants scikit-learn; a machine that is busy with other things makes all
figures worse, the ratios less so.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ("bench_curves.py", "bench_sparse.py", "bench_page.py")
PEERS = ("numpy", "scipy", "scikit-learn", "napkinxc")
HEAD = """# Performance

Seconds of CPU of one process and one core: the median of several calls that take turns with the
peer's, on the same arrays. A ratio says how many times as long the peer takes; ours are whole
evaluations, with all usual measures, although the peer computes those named alone. A bound is what
a change may not fall below: a ratio, or seconds where there is no peer.

`python examples/scripts/make_performance.py` measured and wrote this page. {machine}

| work | ours | best peer | peer's | ratio | bound | command |
|---|---|---|---|---|---|---|
"""
TAIL = """
{missing} pyxclib has no release that a package index offers: the sparse measures have a bound in
seconds in its place.
"""


def processor() -> str:
    """What the machine calls its processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name in PEERS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def line(row: dict, script: str) -> str:
    work = row["work"] + (f" ({row['note']})" if row["note"] else "")
    bound = "" if row["bound"] is None else f"{row['bound']:g}"
    peer, theirs, ratio = row["peer"] or "none", "", ""
    if row["peer"]:
        theirs, ratio = f"{row['theirs']:.3f} s", f"{row['theirs'] / row['ours']:.1f}"
        bound = bound and f"≥ {bound}"
    elif bound:
        bound = f"≤ {bound} s"
    command = f"`python tests/benchmarks/{script}`"
    return f"| {work} | {row['ours']:.3f} s | {peer} | {theirs} | {ratio} | {bound} | {command} |"


def main() -> None:
    installed = versions()
    named = ", ".join(f"{name} {number}" for name, number in installed.items() if number)
    machine = f"{processor()}, Python {platform.python_version()}, {named}."
    lines = []
    for script in BENCHMARKS:
        path = ROOT / "tests" / "benchmarks" / script
        done = subprocess.run([sys.executable, path, "--json"], stdout=subprocess.PIPE, text=True)
        if done.returncode not in (0, 1):  # 1: a bound was missed
            raise SystemExit(f"{script} failed; nothing was written.")
        lines += [line(json.loads(text), script) for text in done.stdout.splitlines()]
    absent = [name for name, number in installed.items() if number is None]
    missing = (
        f"Not installed here, and so not compared with: {', '.join(absent)}." if absent else ""
    )
    text = HEAD.format(machine=machine) + "\n".join(lines) + "\n" + TAIL.format(missing=missing)
    (ROOT / "examples" / "guides" / "performance.md").write_text(
        text.rstrip() + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
