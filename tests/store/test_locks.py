"""Processes wait for each other by files in a folder of the user's own."""

import os
import stat

import pytest

from mlflow_mleval.errors import StoreError
from mlflow_mleval.store import store


def test_locks_lie_in_a_folder_of_the_users_own_and_one_not_given_back_is_an_error(
    tmp_path, monkeypatch
):
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setattr(store.tempfile, "tempdir", str(shared))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with store.alone("x"):
        pass
    (folder,) = (tmp_path / "cache").iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and len(list(folder.iterdir())) == 1
    assert not list(shared.iterdir())
    refused = pytest.raises(StoreError, match="another process has been busy with the same")
    with store.alone("x"), store.alone("y"), refused, store.alone("x", 0.1):
        pass


SPOILT = {
    "others may enter it": lambda own: (own.mkdir(), own.chmod(0o770)),
    "a link": lambda own: own.symlink_to(own.parents[1]),
    "a file": lambda own: own.write_text(""),
    "no folder": lambda own: (own.parent.rmdir(), own.parent.write_text("")),
    "no home": lambda own: os.environ.update({"XDG_CACHE_HOME": "~/.cache"}),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_folder_for_locks_that_is_not_ours_is_not_used(tmp_path, monkeypatch, spoil):
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setattr(store.tempfile, "tempdir", str(shared))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    own = store._lock_folder()
    own.rmdir()
    spoil(own)
    with store.alone("x"):
        pass
    (folder,) = shared.iterdir()
    assert not (tmp_path / "~").exists()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o750)
    with pytest.raises(PermissionError, match="not a folder of this user alone"), store.alone("x"):
        pass
