"""Where the command line's output goes when stdout is closed, full, or read by a program that stops early."""

import subprocess
import sys
from pathlib import Path

import pytest


def shell(line):
    command = f'"{sys.executable}" -c "from mlflow_mleval.cli import main; main()"'
    return subprocess.run(["bash", "-c", line.format(mleval=command)], capture_output=True, text=True)


@pytest.mark.parametrize(("where", "said"), [(">&-", "stdout is closed"), (">/dev/full", "cannot write to stdout")])
def test_output_that_cannot_be_written_is_one_line(where, said):
    if where == ">/dev/full" and not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    done = shell("{mleval} measures " + where)
    assert done.returncode == 1 and done.stderr.startswith(f"Error: {said}") and len(done.stderr.splitlines()) == 1


def test_a_reader_that_stops_early_is_no_error():
    done = shell("{mleval} measures --output html | head -c 10")
    assert done.stdout == "<!doctype " and done.stderr == ""
