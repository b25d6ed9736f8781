"""A finished job as a page for docs/results/: its spec, its nodes, and what the test set said when.

    EVENSTEP_URL=… EVENSTEP_TOKEN=… \\
        /usr/bin/python3 tests/bench/curve.py JOB… > docs/results/NAME.md"""
import json
import os
import sys

import requests

from bench import machine, versions

http = requests.Session()
http.headers["Authorization"] = "Bearer " + os.environ["EVENSTEP_TOKEN"]


def get(path):
    answer = http.get(f"{os.environ['EVENSTEP_URL']}/api/v1/{path}", timeout=60)
    answer.raise_for_status()
    return answer.json()


def series(id, name, x):
    found = get(f"jobs/{id}/series?names={name}&x={x}&points=20000")["series"]
    return list(zip(found[0]["x"], found[0]["mean"])) if found else []


def page(id):
    job = get(f"jobs/{id}")
    epochs_per_step = job["progress"]["epoch"] / job["progress"]["step"]
    losses, train, times = series(id, "test_loss", "step"), series(
        id, "train_loss", "step"), series(id, "test_accuracy", "time")
    print(f"## {job['name']}\n\n```json\n{json.dumps(job['spec'], indent=1)}\n```\n")
    print("Nodes: " + "; ".join(f"{w['node']} ({w['device']}, minibatch {w['batch']} at the end)"
                                for w in job["workers"]) + ".\n")
    print(
        "| step | epoch | seconds | training loss, mean since the last row | test loss | test "
        "accuracy |\n|---|---|---|---|---|---|")
    before = 0
    for (step, accuracy), (_, loss), (second, _) in zip(series(id, "test_accuracy", "step"), losses,
                                                        times):
        part = [v for s, v in train if before < s <= step]
        print(
            f"| {step:.0f} | {step * epochs_per_step:.2f} | {second:.0f} | "
            f"{sum(part) / max(1, len(part)):.4f} | {loss:.4f} | {100 * accuracy:.2f} % |")
        before = step
    s = job["staleness"]
    print(
        f"\n{job['state']} after {job['progress']['samples']} samples; staleness: mean "
        f"{s['update_mean']:.2f} over updates, {s['node_mean']:.2f} over nodes, p99 {s['p99']}, "
        f"at most {s['max']}.\n")


print(f"- Machine: {machine()}\n- Versions: {versions()}\n")
for job_id in sys.argv[1:]:
    page(job_id)
