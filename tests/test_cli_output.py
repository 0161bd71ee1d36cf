"""Where the command line's output goes when stdout is closed, full, or read by a program that stops early; texts of errors."""

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mlflow_mleval.cli import main, output
from mlflow_mleval.cli.command import in_flags


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


@pytest.mark.parametrize(("said", "shown"), [
    ("Choose `missing='worst'` or drop-datasets.", "Choose --missing worst or drop-datasets."),
    ("declare `minimize=` or `maximize=`", "declare --min or --max"),
    ("Name one: `experiment_names=[NAME]`.", "Name one: --experiment-name NAME."),
    ("`alpha` must be a number between 0 and 1, got 2.", "`alpha` must be a number between 0 and 1, got 2."),
    ("KNeighborsClassifier(weights='distance')", "KNeighborsClassifier(weights='distance')"),
    ("`n_jobs=2` is no argument of a command", "`n_jobs=2` is no argument of a command"),
])  # fmt: skip
def test_arguments_of_python_are_shown_as_options_that_can_be_typed(said, shown):
    root = main.make_context("mleval", ["compare"], resilient_parsing=True)
    with root, main.commands["compare"].make_context("compare", ["-n", "x"], parent=root):
        assert in_flags(said) == shown


def test_errors_of_a_command_go_through_it():
    """The text of a pure layer, as a user of the command gets it."""
    import click
    from click.testing import CliRunner

    from mlflow_mleval.cli.command import Command
    from mlflow_mleval.cli.options import missing
    from mlflow_mleval.errors import MissingResultsError

    @click.command(cls=Command, params=[missing])
    def command(**choices):
        raise MissingResultsError("Choose `missing='worst'`\x1b.")

    result = CliRunner().invoke(command, [])
    assert result.exit_code == 1 and result.stderr == "Error: Choose --missing worst␛.\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("stream", "quiet", "patience"), [(io.StringIO, False, 0), (Terminal, True, 0), (Terminal, False, 60)])
def test_progress_is_silent_off_a_terminal_when_quiet_and_while_it_is_early(stream, quiet, patience, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream())
    monkeypatch.setattr(output, "PATIENCE", patience)
    with output.progress("reading", quiet, "runs") as step:
        step(1, 2)
    assert sys.stderr.getvalue() == ""


def test_progress_tells_what_is_done_and_the_rate_and_begins_anew(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(output, "PATIENCE", 0)
    with output.progress("reading", unit="runs") as step:
        for done, total in ((1000, 0), (2000, 0), (1000, 2000), (2000, 2000)):
            step(done, total)
    shown = [line for line in sys.stderr.getvalue().split("\r") if "reading" in line]
    assert [re.search(r"] +(\S+)", line)[1] for line in shown] == ["1000", "2000", "1000/2000", "2000/2000"]
    assert all("runs/s" in line for line in shown)
