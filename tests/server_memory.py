"""How much memory a server gains by uploads and questions; run as a process of its own.

It calls what the page calls: `short_config` for an upload, `kept` around the engine. Prints one
line of JSON: megabytes of resident memory at the start, after the uploads, halfway through the
questions and at the end.
"""

import gc
import json
import resource
import sys
from itertools import cycle
from pathlib import Path

from advisor import api
from advisor.architecture.config.fields import load_config_text
from advisor.ui.forms.reading import short_config
from advisor.ui.session.kept import kept

PRESETS = ("llama-3.1-8b", "qwen2.5-7b", "resnet-50", "mixtral-8x7b", "vit-base-patch16-224")


def resident_mb() -> float:
    """Resident memory now. [MB]"""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def config_file(number: int, labels: int = 22_000) -> bytes:
    """A configuration of 2.3 MB, as classifiers of tens of thousands of labels have."""
    names = {
        str(item): f"label {number}-{item}, and a few more words for it" for item in range(labels)
    }
    config = {"model_type": "resnet", "depths": [3, 4, 6, 3], "id2label": names,
              "hidden_sizes": [256, 512, 1024, 1024 + 8 * number]}  # fmt: skip
    return json.dumps(
        config | {"label2id": {text: int(key) for key, text in names.items()}}
    ).encode()


def ask(case: dict[str, object]) -> None:
    """Ask as the page does."""
    checked = api.load_case(case)
    kept(lambda: api.recommend(checked, brief=True), "brief", checked.to_json(indent=None))


def main(uploads: int, questions: int) -> None:
    """Upload and ask, and print the memory."""
    for preset in PRESETS:
        ask({"model": {"preset": preset}, "workload": {"kind": "pretraining"}})
    short_config(config_file(0, 10))
    marks = [resident_mb()]
    sessions = []
    for number in range(uploads):
        text = short_config(config_file(number))
        sessions.append(text)
        ask({"model": {"config": load_config_text(text)}, "workload": {"kind": "pretraining"}})
    marks.append(resident_mb())
    for number, preset in zip(range(questions), cycle(PRESETS), strict=False):
        if number == questions // 2:
            marks.append(resident_mb())
        training = {"kind": "pretraining", "global_batch": 64 + number}
        ask({"model": {"preset": preset}, "workload": training})
    print(json.dumps([*marks, resident_mb()]))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
