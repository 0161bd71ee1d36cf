"""Processes wait for each other by files in a folder of the user's own."""

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


SPOILT = ["others may enter it", "a link", "a file", "no folder", "no home"]


@pytest.mark.parametrize("spoilt", SPOILT)
def test_a_folder_for_locks_that_is_not_ours_is_not_used(tmp_path, monkeypatch, spoilt):
    cache, shared = tmp_path / "cache", tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setattr(store.tempfile, "tempdir", str(shared))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    own = store._lock_folder()
    own.rmdir()
    if spoilt == "others may enter it":
        own.mkdir()
        own.chmod(0o770)
    elif spoilt == "a link":
        own.symlink_to(tmp_path)
    elif spoilt == "a file":
        own.write_text("")
    elif spoilt == "no home":
        monkeypatch.setenv("XDG_CACHE_HOME", "~/.cache")
        monkeypatch.chdir(tmp_path)
    else:
        cache.rmdir()
        cache.write_text("")
    with store.alone("x"):
        pass
    (folder,) = shared.iterdir()
    assert not (tmp_path / "~").exists()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o750)
    with pytest.raises(PermissionError, match="not a folder of this user alone"), store.alone("x"):
        pass
