"""The map of the package in CONTRIBUTING.md is what its files give."""

from house_map import GUIDE, written
from test_layers import LAYERS


def test_the_map_is_true():
    assert written(LAYERS) == GUIDE.read_text("utf-8"), "run python tests/helpers/house_map.py"
