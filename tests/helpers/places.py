"""Where things lie that tests read."""

from pathlib import Path

import mlflow_mleval

#: The project's root, and what lies there.
ROOT = Path(__file__).parents[2]
TESTS, EXAMPLES, DOCKER = ROOT / "tests", ROOT / "examples", ROOT / "docker"
#: Pages for users, what was studied with the package, and scripts to start from.
GUIDES, STUDIES, SCRIPTS = EXAMPLES / "guides", EXAMPLES / "studies", EXAMPLES / "scripts"
#: Published figures and files that others made, which the results are compared with.
GOLDEN = TESTS / "golden"
#: More of them, which are not always there.
SHARED = ROOT.parent / "shared"
#: The published study that the package brings.
STUDY = Path(mlflow_mleval.__file__).parent / "data" / "madjarov2012.csv"
