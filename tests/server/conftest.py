"""A real PostgreSQL for the tests of servers."""

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from places import DOCKER
from waiting import PATIENCE, free_port


def find_postgres() -> Path | None:
    """The folder of initdb and postgres: Debian keeps it off the PATH."""
    if on_path := shutil.which("initdb"):
        return Path(on_path).resolve().parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


@pytest.fixture(scope="module")
def database():
    """A PostgreSQL cluster of its own, with the compose file's kind of password; docker/database.sh
    fills it.
    """
    programs = find_postgres()
    if programs is None:
        pytest.skip("no PostgreSQL on this machine: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="mleval-postgres-"))
    password, superuser, port = secrets.token_urlsafe(16), secrets.token_urlsafe(16), free_port()
    (folder / "password").write_text(superuser)
    call = {"cwd": folder}
    if os.geteuid() == 0:  # as whom PostgreSQL refuses to run
        call |= {"user": "postgres", "group": "postgres", "extra_groups": []}
        for path in (folder, folder / "password"):
            shutil.chown(path, "postgres", "postgres")
    call["env"] = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "LC_ALL": "C.UTF-8",
        "PGHOST": "127.0.0.1",
        "PGPORT": str(port),
        "PGPASSWORD": superuser,
        "MLFLOW_DATABASE_PASSWORD": password,
    }
    log = open(folder / "postgres.log", "wb")  # noqa: SIM115
    process, told = None, {"stdout": log, "stderr": log, **call}
    making = f"initdb -D {folder / 'data'} -U postgres --pwfile {folder / 'password'}"
    making += " --auth=scram-sha-256 --no-sync -E UTF8"
    running = f"postgres -D {folder / 'data'} -p {port} -k {folder} -F"
    running += " -c listen_addresses=127.0.0.1"
    try:
        subprocess.run(f"{programs}/{making}".split(), check=True, **told)
        process = subprocess.Popen(f"{programs}/{running}".split(), **told)
        deadline = time.monotonic() + PATIENCE
        while subprocess.run([programs / "pg_isready"], capture_output=True, **call).returncode:
            if time.monotonic() > deadline or process.poll() is not None:
                said = (folder / "postgres.log").read_text()[-2000:]
                raise RuntimeError(f"PostgreSQL did not start:\n{said}")
            time.sleep(0.2)
        with open(DOCKER / "database.sh") as script:
            subprocess.run(["sh"], check=True, stdin=script, **told)
        about = {"port": port, "password": password, "superuser": superuser}
        yield SimpleNamespace(**about, programs=programs, log=folder / "postgres.log")
    finally:
        if process is not None:
            process.terminate()
            process.wait(PATIENCE)
        log.close()
        shutil.rmtree(folder)
