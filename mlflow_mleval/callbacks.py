"""Callbacks that log how a model develops while it is trained, by framework:
``mleval.callbacks.keras(X_val, Y_val, ...)``.

Each framework is imported when its callback is first asked for.
"""

from importlib import import_module

from mlflow_mleval.words import lazily

#: Framework -> the class of its callback.
CALLBACKS = {
    "keras": "KerasCallback",
    "lightning": "LightningCallback",
    "huggingface": "HuggingFaceCallback",
    "xgboost": "XGBoostCallback",
    "lightgbm": "LightGBMCallback",
    "catboost": "CatBoostCallback",
    "optuna": "OptunaCallback",
}
__all__ = list(CALLBACKS)
__getattr__, __dir__ = lazily(
    __name__,
    CALLBACKS,
    lambda name: getattr(
        import_module(f"mlflow_mleval.training.callbacks.{name}"), CALLBACKS[name]
    ),
)
