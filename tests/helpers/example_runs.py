"""The examples, run as a reader runs them."""

import os
import subprocess
import sys


def run(script, *args, cwd):
    env = os.environ | {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }  # small matrices gain nothing from threads
    command = [sys.executable, str(script), *args]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout
