"""Two prompts, the same questions, four scorers: from mlflow.genai.evaluate to a verdict, without
any network.

    python examples/scripts/answers_genai.py [QUESTIONS]    # 200 by default; 1,000 take minutes

The answers come from stub functions. Everything goes to the store that MLFLOW_TRACKING_URI names,
by default sqlite:///mlflow.db in this folder.
"""

import os
import random
import subprocess
import sys

os.environ.setdefault("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")
os.environ.setdefault(
    "MLFLOW_GENAI_EVAL_MAX_WORKERS", "1"
)  # several workers and SQLite lose answers now and then

import mlflow
from mlflow.genai.scorers import scorer

import mlflow_mleval as mleval

TOPICS = ["planets", "rivers", "metals", "birds", "operas"]


def answer(question: str, share: float) -> str:
    """What a prompt answers: right topics with this probability each, the same every time."""
    draw = random.Random(f"{question}{share}")
    right = [topic for topic in TOPICS if topic in question]
    return ", ".join(topic if draw.random() < share else draw.choice(TOPICS) for topic in right)


@scorer
def exact(outputs, expectations):
    return set(outputs.split(", ")) == set(expectations["labels"])


@scorer
def brief(outputs):
    return len(outputs) <= 20


def evaluate(n: int) -> list[str]:
    """Evaluate both prompts on n questions; returns the ids of the runs."""
    draw = random.Random(0)
    asked = [draw.sample(TOPICS, draw.randint(1, 3)) for _ in range(n)]
    data = [
        {
            "inputs": {
                "question": f"Passage {i // 5}, question {i}: what of {' and '.join(labels)}?",
                "passage": i // 5,
            },
            "expectations": {"labels": labels},
        }
        for i, labels in enumerate(asked)
    ]
    mlflow.set_experiment("prompts")
    found = []
    for name, share in (("short prompt", 0.80), ("long prompt", 0.88)):
        with mlflow.start_run(run_name=name) as run:
            mlflow.genai.evaluate(
                data=data,
                predict_fn=lambda question, passage, share=share: answer(question, share),
                scorers=[exact, brief, *mleval.genai.scorers(["f1", "accuracy"])],
            )
        found.append(run.info.run_id)
    return found


if __name__ == "__main__":
    runs = evaluate(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
    command = ["mleval", "compare", "--over", "instances", *runs, "--cluster", "passage"]
    print("+", *command, flush=True)
    sys.exit(
        subprocess.run(
            [sys.executable, "-c", "from mlflow_mleval.cli import main; main()", *command[1:]]
        ).returncode
    )
