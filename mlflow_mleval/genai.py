"""For runs of `mlflow.genai.evaluate`: our measures of label sets as scorers, or afterwards.

Loaded when first asked for, for MLflow's GenAI part takes seconds to import.
"""

from importlib import import_module

from mlflow_mleval.words import lazily

_WHERE = {"scorers": "training.set_scorers", "evaluate_answers": "training.evaluate_answers"}
__all__ = list(_WHERE)
__getattr__, __dir__ = lazily(
    __name__, __all__, lambda name: getattr(import_module(f"mlflow_mleval.{_WHERE[name]}"), name)
)
