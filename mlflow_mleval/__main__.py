"""``python -m mlflow_mleval`` is the command `mleval`."""

from mlflow_mleval.cli import main

if __name__ == "__main__":
    main(prog_name="python -m mlflow_mleval")
