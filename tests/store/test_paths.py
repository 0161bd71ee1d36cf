"""Paths from outside never lead out of the folder that they are joined to."""

import os
from pathlib import Path

import pytest
from command_line import mleval
from hypothesis import example, given
from hypothesis import strategies as st

from mlflow_mleval.errors import ImportFileError, StoreError
from mlflow_mleval.store import artifacts, runs, schema
from mlflow_mleval.training import delivery
from mlflow_mleval.validation import check_paths, inside

LEADING_OUT = [
    *("../x", "/etc/x", "a/../../x", "..", ".", "", "a//b", "a/", "C:/x", "c:x", "a/C:x", "..\\x"),
    *("a\\..\\..\\x", "\\\\host\\x", "a\0b", "%2e%2e/x", "%252e%252e/x", "%2Fetc/x", "a%5c..%5cx"),
    *("a\nb", "\x9b", "\ud800", "x" * 300, "é" * 200, "/" * 5000),
]
PIECES = ["..", ".", "/", "\\", "a", "C:", "%2e", "%2f", "%25", "\0", "mleval", "é", " ", "~"]
paths = st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join))
FOLDER = Path(__file__).parent


@pytest.mark.parametrize("path", LEADING_OUT)
def test_what_leads_out_is_refused_by_name(path):
    with pytest.raises(ValueError, match="^the path .* must lie below a folder$"):
        inside(FOLDER, path)


@given(paths)
@example("mleval/folds.parquet")
@example("100%.csv")
def test_a_path_lies_below_the_folder_or_is_refused(path):
    try:
        joined = inside(FOLDER, path)
    except ValueError:
        return
    assert joined != FOLDER and Path(os.path.normpath(joined)).is_relative_to(FOLDER)
    assert joined == FOLDER / path and joined.relative_to(FOLDER).as_posix() == path


plain = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=20)


@given(st.lists(plain, min_size=1))
def test_plain_names_pass_and_a_path_is_a_file_or_a_folder(parts):
    check_paths(["/".join(parts)])
    with pytest.raises(ValueError, match="the first is a file and a folder"):
        check_paths(["/".join(parts), "/".join([*parts, "b"])])


def test_a_link_that_leads_out_is_refused_and_one_that_stays_is_not(tmp_path):
    folder = tmp_path / "folder"
    (folder / "real").mkdir(parents=True)
    (folder / "stays").symlink_to(folder / "real")
    (folder / "leaves").symlink_to(tmp_path)
    (folder / "endless").symlink_to("endless")
    assert inside(folder, "stays/x") == folder / "stays" / "x"
    assert inside(folder, "endless/x")
    with pytest.raises(ValueError, match="'leaves/x' leads out of .* by a link"):
        inside(folder, "leaves/x")


def keep(folder, monkeypatch, files):
    """A kept result that holds these files, with the right digest."""
    monkeypatch.setenv(delivery.SETTING, str(folder))
    payload = runs.Payload("A", "d", {"f1": 0.5}, files={path: lambda: "#!" for path in files})
    return delivery.keep(payload, run_id=None, experiment_name="kept")


@pytest.mark.parametrize(
    "path", ["{out}/x", "../../x", "mleval/../../../x", "model/MLmodel", "mleval\\x"]
)
def test_a_kept_result_writes_nowhere_else(client, tmp_path, monkeypatch, path):
    folder = tmp_path / "kept"
    out = tmp_path / "out"
    out.mkdir()
    kept = keep(folder, monkeypatch, [schema.ARTIFACT_DATA, path.format(out=out)])
    assert "holds no result that can be read" in mleval("import", folder, code=1).stderr
    assert kept.exists() and not list(out.iterdir()) and not list(tmp_path.rglob("x"))
    # nothing is written before all paths are checked
    assert client.get_experiment_by_name("kept") is None


def test_a_kept_result_is_a_regular_file(client, tmp_path, monkeypatch):
    folder = tmp_path / "kept"
    kept = keep(folder, monkeypatch, [])
    kept.rename(tmp_path / "elsewhere.json")
    kept.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(ImportFileError, match="it is no regular file"):
        delivery.send_unsent(folder)
    kept.unlink()
    os.mkfifo(kept)
    with pytest.raises(ImportFileError, match="it is no regular file"):
        delivery.send_unsent(folder)


def test_a_run_takes_no_path_that_leads_out_and_a_download_stays_in_its_folder(client, tmp_path):
    files = dict.fromkeys(("../x", schema.ARTIFACT_DATA), lambda: "")
    payload = runs.Payload("A", "d", {"f1": 0.5}, files=files)
    with pytest.raises(ValueError, match=r"the path '\.\./x' holds"):
        runs.write(payload, experiment_name="y")
    assert client.get_experiment_by_name("y") is None
    with pytest.raises(ValueError, match="holds an empty part"):
        artifacts.download(client, "0" * 32, "../x", str(tmp_path))


def test_no_artifact_is_written_or_removed_beyond_a_link(client, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "data.zip").write_text("theirs")
    run = client.create_run(client.create_experiment("linked"))
    root = Path(artifacts.repository(run.info.run_id, run.info.artifact_uri).artifact_dir)
    root.mkdir(parents=True)
    (root / "mleval").symlink_to(out)
    payload = runs.Payload("A", "d", {"f1": 0.5}, files={schema.ARTIFACT_DATA: lambda: "ours"})
    for act in (
        lambda: runs.write(payload, run_id=run.info.run_id),
        lambda: artifacts.remove(run, [schema.ARTIFACT_DATA]),
    ):
        with pytest.raises((StoreError, ValueError), match="by a link"):
            act()
    assert [path.read_text() for path in out.iterdir()] == ["theirs"]
