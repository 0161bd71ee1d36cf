"""Make the logs whose metrics are pairs, lists and words; needs lm-eval and inspect-ai.

python make_logs.py FOLDER
"""

import json
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelAPI, ModelOutput, modelapi
from inspect_ai.scorer import Score, match, metric, scorer
from inspect_ai.solver import generate
from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.api.task import ConfigurableTask
from lm_eval.loggers import EvaluationTracker

N = 6


def answered(question, wrong):
    """What the stub says: every `wrong`-th answer is another one."""
    i = int(question.split()[-1])
    return "no" + "e" * (i % 3) if i % wrong == 0 else f"answer {i}"


def quality(answer, target):
    return "good" if answer == target else ["poor", "fair"][len(answer) % 2]


class Stub(LM):
    """A model of lm-evaluation-harness."""

    def __init__(self, wrong):
        super().__init__()
        self.wrong = wrong

    def loglikelihood(self, requests):
        return [(-1.0, True) for _ in requests]

    def loglikelihood_rolling(self, requests):
        return [-len(request.args[0]) / self.wrong for request in requests]

    def generate_until(self, requests):
        return [answered(request.args[0], self.wrong) for request in requests]


def judged(doc, results):
    (answer,) = results
    target = doc["answer"]
    said = {"exact": answer == target, "quality": quality(answer, target)}
    return said | {"pair": (target, answer), "words": answer.split()}


def harness_tasks(docs):
    data = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(docs)}}}
    names = ("exact", "quality", "pair", "words")
    metrics = [{"metric": m, "aggregation": len, "higher_is_better": True} for m in names]
    graded = {"task": "graded", "output_type": "generate_until", "metric_list": metrics}
    graded |= {"process_results": judged, "generation_kwargs": {"until": ["\n"]}}
    graded |= {"doc_to_text": "{{question}}", "doc_to_target": "{{answer}}"}
    rolling = {"task": "rolling", "output_type": "loglikelihood_rolling"}
    rolling |= {"doc_to_text": "", "doc_to_target": "{{question}}"}
    rolling["metric_list"] = [{"metric": "word_perplexity"}, {"metric": "bits_per_byte"}]
    for asked in (graded, rolling):
        yield ConfigurableTask(config={**data, "test_split": "test", **asked})


def of_harness(folder, work, wrong):
    docs = work / "docs.jsonl"
    with docs.open("w") as file:
        for i in range(N):
            row = {"question": f"question {i}", "answer": f"answer {i}", "passage": f"p{i // 2}"}
            print(json.dumps(row), file=file)
    tracker = EvaluationTracker(output_path=str(work))
    found = simple_evaluate(
        model=Stub(wrong), tasks=[*harness_tasks(docs)], log_samples=True, bootstrap_iters=0
    )
    samples = found.pop("samples")
    tracker.general_config_tracker.model_name_sanitized = f"p{wrong}"
    tracker.save_results_aggregated(results=found, samples=samples)
    for task, of_task in samples.items():
        tracker.save_results_samples(task_name=task, samples=of_task)
        (path,) = work.glob(f"p{wrong}/samples_{task}_*.jsonl")
        shutil.copy(path, folder / f"samples_{task}_p{wrong}.jsonl")


@modelapi(name="stub")
class StubAPI(ModelAPI):
    """A model of Inspect."""

    async def generate(self, input, tools, tool_choice, config):
        said = answered(input[-1].text, int(self.model_name[-1]))
        return ModelOutput.from_content(self.model_name, said)


@metric
def nothing():
    return lambda scores: 0.0


def scored(name, value):
    @scorer(metrics=[nothing()], name=name)
    def made():
        async def score(state, target):
            return Score(value=value(state.output.completion, target.text))

        return score

    return made()


def of_inspect(folder, work, wrong):
    passages = [{"passage": f"p{i // 2}"} if i else {} for i in range(N)]
    samples = [
        Sample(id=f"q{i}", input=f"question {i}", target=f"answer {i}", metadata=passage)
        for i, passage in enumerate(passages)
    ]
    scorers = [
        match(),
        scored("quality", quality),
        scored("pair", lambda a, t: [len(a), len(t)]),
        scored("words", lambda a, t: a.split()),
        scored("passes", lambda a, t: "yes" if a == t else "no"),
        scored("parts", lambda a, t: {"length": len(a), "grade": quality(a, t)}),
    ]
    task = Task(dataset=MemoryDataset(samples), solver=generate(), scorer=scorers, name="graded")
    eval(task, model=f"stub/p{wrong}", log_dir=str(work), display="none", log_format="eval")
    (path,) = work.glob("*.eval")
    shutil.copy(path, folder / f"graded_p{wrong}.eval")


if __name__ == "__main__":
    for wrong in (2, 3):
        for make in (of_harness, of_inspect):
            with TemporaryDirectory() as work:
                make(Path(sys.argv[1]), Path(work), wrong)
