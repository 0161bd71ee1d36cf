# Written by tests/typed/make_stubs.py: what a type checker sees of names that load lazily.
from mlflow_mleval.training.callbacks.boosting import CatBoostCallback as catboost
from mlflow_mleval.training.callbacks.boosting import LightGBMCallback as lightgbm
from mlflow_mleval.training.callbacks.huggingface import HuggingFaceCallback as huggingface
from mlflow_mleval.training.callbacks.keras import KerasCallback as keras
from mlflow_mleval.training.callbacks.lightning import LightningCallback as lightning
from mlflow_mleval.training.callbacks.optuna import OptunaCallback as optuna
from mlflow_mleval.training.callbacks.xgboost import XGBoostCallback as xgboost

__all__ = [
    "catboost",
    "huggingface",
    "keras",
    "lightgbm",
    "lightning",
    "optuna",
    "xgboost",
]
