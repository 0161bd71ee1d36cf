"""Where output of the command line goes: stdout that is closed or full, files, links, pipes and
devices; its errors.
"""

import io
import os
import re
import stat
import subprocess
import sys
from contextlib import redirect_stderr
from pathlib import Path

import click
import pandas as pd
import pytest
from click.testing import CliRunner
from command_line import mleval

from mlflow_mleval.cli import command as output
from mlflow_mleval.cli import main
from mlflow_mleval.cli.command import in_options
from mlflow_mleval.cli.options import missing
from mlflow_mleval.errors import MissingResultsError
from mlflow_mleval.sentences import Argument, Message
from mlflow_mleval.store.importing import import_results


def shell(line):
    command = f'"{sys.executable}" -c "from mlflow_mleval.cli import main; main()"'
    return subprocess.run(
        ["bash", "-c", line.format(mleval=command)], capture_output=True, text=True
    )


def test_a_pipe_tells_the_verdict_beside_the_data(tmp_path, monkeypatch):
    board, file = tmp_path / "board.csv", tmp_path / "r.json"
    board.write_text("method,a,b\nx,1,2\ny,3,4\n")
    done = shell(f"{{mleval}} rank {board} --max value -o json | head -c 1")
    assert done.stdout == "{" and done.stderr.startswith("wrote json: Is y better than x?")
    command = "rank", board, "--max", "value", "-o", file
    done = mleval(*command)
    assert done.stdout == "" and done.stderr.splitlines()[0] == f"wrote {file}"
    assert mleval(*command, "-q").output == ""
    monkeypatch.setenv("MLEVAL_QUIET", "1")
    assert mleval(*command).output == ""


@pytest.mark.parametrize(
    ("where", "said"), [(">&-", "stdout is closed"), (">/dev/full", "cannot write to stdout")]
)
def test_output_that_cannot_be_written_is_one_line(where, said):
    if where == ">/dev/full" and not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    done = shell("{mleval} measures " + where)
    assert done.returncode == 1 and done.stderr.startswith(f"Error: {said}")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("encoding", "shown"), [("latin-1", "phi|y 1.000|x -1.000"), ("utf-8", "φ|y 1.000|x −1.000")]
)
def test_a_terminal_that_lacks_a_character_shows_another(encoding, shown, tmp_path, monkeypatch):
    table = tmp_path / "results.csv"
    rows = (f"{method},{d},{value},{value}" for d in "ab" for method, value in (("x", 1), ("y", 2)))
    table.write_text("\n".join(["method,dataset,f1,precision", *rows]))
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    command = [sys.executable, "-m", "mlflow_mleval", "rank", str(table)]
    done = subprocess.run(command, capture_output=True, check=True)
    told = " ".join(done.stdout.decode(encoding).split())
    assert re.search(r"# method {}\b.* 1 {}\b.* 2 {}\b".format(*shown.split("|")), told)


def test_a_reader_that_stops_early_is_no_error():
    done = shell("{mleval} measures --output html | head -c 10")
    assert done.stdout == "<!doctype " and done.stderr == ""


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (("Choose ", Argument("missing", "worst"), "."), "Choose --missing worst."),
        ((Argument("minimize"), " or ", Argument("maximize")), "--min or --max"),
        (("Name: ", Argument("experiment_names", ("NAME",))), "Name: --experiment-name NAME"),
        ((Argument("n_jobs", "2"), " is no option"), "`n_jobs='2'` is no option"),
        (("KNN(a='b'), `missing='worst'`",), "KNN(a='b'), `missing='worst'`"),
    ],
)
def test_arguments_of_python_are_shown_as_options_that_can_be_typed(said, shown):
    message = Message("rf (run 1): ", Message(*said))
    root = main.make_context("mleval", ["compare"], resilient_parsing=True)
    with root, main.commands["compare"].make_context("compare", ["-n", "x"], parent=root):
        assert in_options(message) == in_options(ValueError(message)) == f"rf (run 1): {shown}"


def test_errors_of_a_command_go_through_it():
    """The text of a pure layer, as a user of the command gets it."""

    @click.command(cls=output.Command, params=missing)
    def command(**choices):
        raise MissingResultsError(Message("Choose ", Argument("missing", "worst"), "\x1b."))

    result = CliRunner().invoke(command, [])
    assert result.exit_code == 1 and result.stderr == "Error: Choose --missing worst␛.\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("stream", "patience"), [(io.StringIO, 0), (Terminal, 60)])
def test_progress_is_silent_off_a_terminal_and_while_it_is_early(stream, patience, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream())
    monkeypatch.setattr(output, "PATIENCE", patience)
    with output.progress("reading", "runs") as step:
        step(1, 2)
    assert sys.stderr.getvalue() == ""


@pytest.mark.parametrize(("flags", "lines"), [([], 2), (["-q"], 0)])
def test_a_terminal_is_silent_where_that_is_asked_for(flags, lines, monkeypatch):
    monkeypatch.setattr(output, "PATIENCE", 0)

    @click.command(cls=output.Command)
    def command():
        with redirect_stderr(Terminal()) as told:
            output.say("begins")
            with output.progress("reading") as step:
                step(1, 1)
        click.echo(told.getvalue(), nl=False)

    done = CliRunner().invoke(command, flags, catch_exceptions=False)
    assert ("begins" in done.output) + ("reading" in done.output) == lines


def test_progress_tells_what_is_done_and_the_rate_and_begins_anew(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(output, "PATIENCE", 0)
    with output.progress("reading", unit="runs") as step:
        for done, total in ((1000, 0), (2000, 0), (1000, 2000), (2000, 2000)):
            step(done, total)
    shown = [line for line in sys.stderr.getvalue().split("\r") if "reading" in line]
    told = [re.search(r"] +(\S+)", line)[1] for line in shown]
    assert told == ["1000", "2000", "1000/2000", "2000/2000"]
    assert all("runs/s" in line for line in shown)


@pytest.fixture
def device(tmp_path):
    """A device like /dev/null, in a folder of the test's own: a fault must not harm the
    machine's.
    """
    path = tmp_path / "null"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        path.write_text("x")
    except OSError as error:
        pytest.skip(f"no device can be made here: {error}")
    return path


def measures(path, *options):
    done = CliRunner().invoke(main, ["measures", "-o", str(path), *options], catch_exceptions=False)
    assert list(Path(path).parent.glob(".*.part")) == []
    return done


def test_a_device_stays_one(device):
    before = device.stat()
    for options in ((), ("--output", "html")):
        assert measures(device, *options).exit_code == 0
    after = device.stat()
    assert stat.S_ISCHR(after.st_mode)
    assert (after.st_ino, after.st_rdev) == (before.st_ino, before.st_rdev)


def test_a_report_into_a_device_leaves_no_data_beside_it(device, db):
    values = [(d, m, i * j / 8) for i, d in enumerate("defgh") for j, m in enumerate("abc")]
    import_results(pd.DataFrame(values, columns=["dataset", "method", "f1"]), experiment_name="x")
    command = ["report", "-n", "x", "--seed", ":draws=10", "--output", "html", "-o"]
    before = sorted(device.parent.iterdir())
    mleval(*command, device)
    assert stat.S_ISCHR(device.stat().st_mode) and sorted(device.parent.iterdir()) == before
    (device.parent / "r.html").symlink_to(device)
    mleval(*command, device.parent / "r.html")
    assert (device.parent / "r.html").is_symlink() and not (device.parent / "r_data").exists()


def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with open(reader, "rb") as file:
        assert measures(pipe).exit_code == 0
        assert file.read().startswith(b"name,")
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_the_path_of_stdout_adds_to_it(tmp_path):
    """By a link of the test's own to our descriptor, as /dev/stdout is one."""
    link, told = tmp_path / "stdout.csv", tmp_path / "told"
    link.symlink_to("/proc/self/fd/1")
    if not link.exists():
        pytest.skip("no /proc here")
    done = shell(f"(echo before; {{mleval}} measures -o {link}; echo after) > {told}")
    lines = told.read_text().splitlines()
    assert done.stderr == "" and link.is_symlink()
    assert (lines[0], lines[1].split(",")[0], lines[-1]) == ("before", "name", "after")
    done = shell(f"{{mleval}} measures -o {link} | head -c 5")
    assert done.stdout == "name," and done.stderr == ""


def test_a_file_keeps_its_mode_and_links_to_it(tmp_path):
    names = ("folder/m.csv", "link.csv", "second.csv")
    file, link, second = (tmp_path / name for name in names)
    file.parent.mkdir()
    link.symlink_to(file)
    second.symlink_to("link.csv")
    for mode in (0o600, 0o640, 0o666, 0o755):
        file.write_text("old")
        file.chmod(mode)
        assert measures(second).exit_code == 0
        assert file.read_text().startswith("name,") and stat.S_IMODE(file.stat().st_mode) == mode
        assert link.is_symlink() and os.readlink(second) == "link.csv"
        assert list(file.parent.iterdir()) == [file]


def test_a_new_file_has_the_mode_of_new_files_also_at_the_end_of_a_link(tmp_path):
    (tmp_path / "plain").touch()
    (tmp_path / "link.csv").symlink_to(tmp_path / "new.csv")
    assert measures(tmp_path / "link.csv").exit_code == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "new.csv").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_what_cannot_be_written_stays_as_it_was(tmp_path):
    (tmp_path / "a.csv").symlink_to("b.csv")
    (tmp_path / "b.csv").symlink_to("a.csv")
    (tmp_path / "gone.csv").symlink_to(tmp_path / "nowhere" / "x.csv")
    (tmp_path / "folder.csv").mkdir()
    before = sorted(tmp_path.iterdir())
    for name in ("a.csv", "gone.csv", "folder.csv"):
        done = measures(tmp_path / name)
        assert done.exit_code and "Error" in done.stderr and "Traceback" not in done.stderr
    assert sorted(tmp_path.iterdir()) == before and (tmp_path / "a.csv").is_symlink()


def test_all_files_or_none(tmp_path):
    (tmp_path / "a").write_text("old")

    def broken():
        yield "new"
        raise ValueError("made while it is written")

    with pytest.raises(ValueError, match="made while"):
        output.write_all([(str(tmp_path / "a"), ["new"]), (str(tmp_path / "data" / "b"), broken())])
    assert [*tmp_path.iterdir()] == [tmp_path / "a"] and (tmp_path / "a").read_text() == "old"


def test_the_data_beside_a_report_follow_no_link(tmp_path, db):
    results = pd.DataFrame({"dataset": "d", "method": ["a", "b"], "f1": [0.5, 0.6]})
    import_results(results, experiment_name="e")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "values.csv").write_text("mine")
    (tmp_path / "r2_data").symlink_to(elsewhere)
    said = mleval("report", "-n", "e", "-o", tmp_path / "r2.html", code=1).output
    assert "r2_data" in said and "is a link" in said
    assert [file.name for file in elsewhere.iterdir()] == ["values.csv"]
    assert (elsewhere / "values.csv").read_text() == "mine"
    assert not (tmp_path / "r2.html").exists()
