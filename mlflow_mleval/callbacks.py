"""Callbacks that log how a model develops while it is trained, by framework:
``mleval.callbacks.keras(X_val, Y_val, ...)``.

Each framework is imported when its callback is first asked for.
"""

from mlflow_mleval.package import lazily

#: Framework -> the module and the class of its callback.
WHERE = {
    "keras": "training.callbacks.keras:KerasCallback",
    "lightning": "training.callbacks.lightning:LightningCallback",
    "huggingface": "training.callbacks.huggingface:HuggingFaceCallback",
    "xgboost": "training.callbacks.xgboost:XGBoostCallback",
    "lightgbm": "training.callbacks.boosting:LightGBMCallback",
    "catboost": "training.callbacks.boosting:CatBoostCallback",
    "optuna": "training.callbacks.optuna:OptunaCallback",
}
__all__ = list(WHERE)
__getattr__, __dir__ = lazily(__name__, WHERE)
