"""How sure a fused ranking is."""

import numpy as np
import pandas as pd
import pytest

from mlflow_mleval.analysis import stability
from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.study import Study


def random_study(seed, m=5, n=3, datasets=3, decimals=None):
    """A study of random values; few decimals make ties."""
    rng = np.random.default_rng(seed)
    values = rng.random((datasets * m, n))
    frame = pd.DataFrame(values if decimals is None else values.round(decimals), columns=["f1", "accuracy", "one_error"][:n])
    frame.insert(0, "method", [f"m{i}" for i in range(m)] * datasets)
    frame.insert(0, "dataset", np.repeat([f"d{i}" for i in range(datasets)], m))
    return Study.from_frame(frame)


def test_leave_one_out_matches_fusing_the_rest():
    study = random_study(0)
    found = stability.leave_one_out(fuse(study))
    for left_out in study.methods:
        rest = fuse(study.select(methods=[m for m in study.methods if m != left_out])).ranking["rank"]
        assert found.ranks.loc[left_out].dropna().to_dict() == rest.to_dict()


def test_acceptability_sums_to_one():
    found = stability.rank_acceptability(fuse(random_study(1, decimals=1)), n_draws=500)
    assert np.allclose(found.acceptability.sum(axis=0), 1)
    assert np.allclose(found.acceptability.sum(axis=1), 1)


@pytest.mark.parametrize("seed", range(3))
def test_joint_change_of_weights_reaches_the_leader(seed):
    fusion = fuse(random_study(seed))
    found = stability.dethrone(fusion)
    if found.rival is not None:
        moved = sum(result.unicriterion @ (result.weights + found.change) for result in fusion.results.values())
        assert moved[found.rival] == pytest.approx(moved[found.leader_by_flow])
