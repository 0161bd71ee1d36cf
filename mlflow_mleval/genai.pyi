# Written by tests/typed/make_stubs.py: what a type checker sees of names that load lazily.
from mlflow_mleval.training.label_answers import evaluate_answers as evaluate_answers
from mlflow_mleval.training.label_answers import scorers as scorers

__all__ = [
    "evaluate_answers",
    "scorers",
]
