"""Time and memory of calls, as all benchmarks take them."""

import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

#: How a benchmark ends that missed a bound; 1 is Python's own, after an error.
MISSED = 3


def cpu(*calls: Callable[[], object], repeats: int = 5) -> list[float]:
    """The median of several times of each call, in seconds of CPU; taken in turns, so that a busy
    machine slows all alike.
    """
    times = [[once(call) for call in calls] for _ in range(repeats)]
    return [median(taken) for taken in zip(*times, strict=True)]


def once(call: Callable[[], object]) -> float:
    """The seconds of CPU of one call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def largest() -> float:
    """MB of the largest resident set of this process; `ru_maxrss` begins with that of the
    parent.
    """
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024


def pages(client: Any, experiment_id: str) -> Iterator[Any]:
    """All runs of an experiment by MLflow's client, page by page."""
    token = None
    while token or token is None:
        page = client.search_runs([experiment_id], page_token=token)
        token = page.token or ""
        yield page


def peak(call: Callable[[], object]) -> float:
    """Memory at its highest above the start, in MB."""
    tracemalloc.start()
    call()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found / 1e6


def cpu_of(pid: int | str | None) -> float:
    """Seconds of CPU until now of a process and all that descend from it, also of those of them
    that have ended.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        threads = Path(f"/proc/{pid}/task").glob("*/children")
        below = " ".join(thread.read_text() for thread in threads).split()
    except OSError:  # there is none, or it has ended
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") + sum(map(cpu_of, below))


def of_own_process(script: str, *arguments: str, cwd: str | None = None, **settings: str) -> Any:
    """What a script prints last, as JSON, in a process of its own."""
    command, env = [sys.executable, script, *arguments], os.environ | settings
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=cwd)
    if done.returncode:
        raise RuntimeError(done.stderr[-2_000:])
    return json.loads(done.stdout.splitlines()[-1])


@dataclass(frozen=True)
class Row:
    """What one piece of work costs beside the best peer, in seconds of CPU unless `work` names
    another clock.
    """

    work: str
    ours: float
    peer: str = ""  # none: `bound` is in seconds
    theirs: float = 0.0
    bound: float | None = None  # how many times as fast it must be
    note: str = ""
    most: float | None = None  # how many times as long as the peer it may take
    before: float | None = None  # what it took when it was measured last
    memory: float = 0.0  # MB that it takes, and that it may take
    room: float | None = None

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours

    @property
    def has_moved(self) -> bool:
        """Whether it takes more than a quarter more or less than it did."""
        return self.before is not None and not 0.75 <= self.ours / self.before <= 1.25

    @property
    def is_met(self) -> bool:
        if self.room is not None and self.memory > self.room:
            return False
        if self.most is not None:
            return self.ours <= self.most * self.theirs
        if self.bound is None:
            return True
        return self.ratio >= self.bound if self.peer else self.ours <= self.bound

    @property
    def limit(self) -> str:
        """The bounds in words."""
        bounds = []
        if self.most is not None:
            bounds.append(f"≤ {self.most:g} × the peer")
        elif self.bound is not None:
            bounds.append(f"≥ {self.bound:.3g}" if self.peer else f"≤ {self.bound:.3g} s")
        if self.room is not None:
            bounds.append(f"≤ {self.room:g} MB")
        return ", ".join(bounds)


def told(rows: Iterable[Row]) -> int:
    """Print the rows as they come, as JSON with --json; `MISSED` where a bound was."""
    missed = False
    for row in rows:
        missed |= not row.is_met
        if "--json" in sys.argv:
            print(json.dumps(asdict(row)), flush=True)
            continue
        beside = f"{row.peer} {row.theirs:.3f} s, {row.ratio:.2f} times" if row.peer else ""
        verdict = f"{row.limit} {'ok' if row.is_met else 'MISSED'}" if row.limit else ""
        print(f"{row.work:60} {row.ours:7.3f} s  {beside:40} {row.note} {verdict}", flush=True)
    return MISSED if missed else 0
