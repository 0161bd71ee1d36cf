"""A standalone Spark cluster on this machine, of processes of pyspark's own classes."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

#: Java that compiles little, because a test is over before that pays.
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
#: What a driver is started with: 470 MB, about the least that Spark takes, and executors that fit a
#: worker.
SUBMIT = (
    "--driver-memory 470m --executor-memory 512m --conf spark.ui.enabled=false --conf "
    "spark.driver.host=127.0.0.1 pyspark-shell"
)
SUBMIT_BRIEF = (
    f"--driver-java-options '{BRIEF}' --conf 'spark.executor.extraJavaOptions={BRIEF}' {SUBMIT}"
)


class Cluster:
    """A master and workers of one core each; those still alive end with the block.

    A worker says that it has one core, and takes more for its Java and its Python side by side,
    unless it is `pinned` to one.
    """

    def __init__(self, folder: Path, workers: int = 2, memory: str = "600m", pinned: bool = False):
        self._folder, self._count, self._memory, self._pinned = folder, workers, memory, pinned

    def __enter__(self) -> "Cluster":
        self.master = self._start("master", "--port", "0")
        try:
            self.url = self._wait("master", r"Starting Spark master at (spark://\S+)")
            each = ("-c", "1", "-m", self._memory)
            self.workers = [
                self._start(f"worker{i}", self.url, *each, core=i) for i in range(self._count)
            ]
            for i in range(self._count):
                self._wait(f"worker{i}", "(Successfully registered)")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        for process in [*getattr(self, "workers", ()), self.master]:
            self.kill(process)

    def kill(self, process: subprocess.Popen) -> None:
        """End one of them at once, with the executors that it started."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)

    def session(self, **options: str):
        """A session on it."""
        from pyspark.sql import SparkSession

        settings = {"spark.ui.showConsoleProgress": "false", **options}
        builder = SparkSession.builder.master(self.url).appName("mleval")
        session = builder.config(map=settings).getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        return session

    def _start(self, name: str, *arguments: str, core: int | None = None) -> subprocess.Popen:
        import pyspark

        home = Path(pyspark.__file__).parent
        kind = "master.Master" if name == "master" else "worker.Worker"
        command = [home / "bin" / "spark-class", f"org.apache.spark.deploy.{kind}"]
        command += ["--host", "127.0.0.1", "--webui-port", "0"]
        if name != "master":
            command += ["--work-dir", str(self._folder / name)]
        command += arguments
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_MEMORY": "200m",
            "SPARK_DAEMON_JAVA_OPTS": BRIEF,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        }
        if self._pinned and core is not None:
            command = ["taskset", "-c", str(core), *command]
        with open(self._folder / f"{name}.log", "wb") as log:
            how = {"stdout": log, "stderr": log, "start_new_session": True}
            return subprocess.Popen(command, env=environment, **how)

    def _wait(self, name: str, pattern: str, seconds: int = 60) -> str:
        deadline, path = time.monotonic() + seconds, self._folder / f"{name}.log"
        while time.monotonic() < deadline:
            if found := re.search(pattern, path.read_text(errors="replace")):
                return found[1]
            time.sleep(0.1)
        raise RuntimeError(f"{name} did not start:\n{path.read_text(errors='replace')[-2000:]}")
