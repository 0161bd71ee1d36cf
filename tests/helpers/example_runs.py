"""The examples, run as a reader runs them."""

import importlib.util
import os
import subprocess
import sys


def run(script, *args, cwd):
    # small matrices gain nothing from threads
    env = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(script), *args]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded(script):
    """An example as a module; what it does when run as a script is left out."""
    spec = importlib.util.spec_from_file_location(script.stem, script)
    module = importlib.util.module_from_spec(spec)
    sys.modules[script.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
