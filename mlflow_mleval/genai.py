"""For runs of `mlflow.genai.evaluate`: our measures of label sets as scorers, or afterwards.

Loaded when first asked for, for MLflow's GenAI part takes seconds to import.
"""

from mlflow_mleval.package import lazily

#: Name -> its module.
WHERE = {"scorers": "training.label_answers", "evaluate_answers": "training.label_answers"}
__all__ = list(WHERE)
__getattr__, __dir__ = lazily(__name__, WHERE)
