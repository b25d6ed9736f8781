"""A job's page from documents of our own: the browser's requests for one job are answered inside
the page, so that a test can show any course of a run at once. Everything else goes to the real
service."""

import json

ID = "canned0000000000"

ANSWERS = """
const [id, answers] = arguments;
window.real = window.real || window.fetch;
window.posted = [];
window.asked = [];
window.fetch = async (url, options = {}) => {
  const [path, query] = String(url).split('?');
  const at = '/api/v1/jobs/' + id;
  const json = (status, body) =>
      new Response(JSON.stringify(body), {status, headers: {'Content-Type': 'application/json'}});
  if (path === '/api/v1/jobs' && options.method === 'POST' && !query) {
    window.posted.push(JSON.parse(options.body));
    return json(201, answers[''] );
  }
  if (path !== at && !path.startsWith(at + '/')) {
    return window.real(url, options);
  }
  const part = path.slice(at.length + 1);
  window.asked.push(part + '?' + (query || ''));
  if (part === 'logs') {
    const lines = Object.entries(answers.logs || {}).flatMap(([rank, text]) =>
        text.split('\\n').filter(Boolean).map((line) => 'rank-' + rank + ': ' + line));
    return new Response(new URLSearchParams(query).has('all') ? lines.join('\\n') : '');
  }
  return part in answers ? json(200, answers[part]) : json(404, {detail: 'no ' + part});
};
"""


def worker(rank, node, batch=64, compute=0.010, exchange=0.001, wait=0.0, **more):
    return {
        "rank": rank,
        "node": node,
        "device": "cpu:1",
        "state": "computing",
        "batch": batch,
        "samples_per_second": batch / compute,
        "compute_seconds": compute,
        "exchange_seconds": exchange,
        "wait_seconds": wait,
        "staleness": {"mean": 0, "max": 0},
        "heartbeat_age_seconds": 0.1,
        **more,
    }


def job(**changes):
    """A run of two even nodes that has ended well."""
    made = {
        "id": ID,
        "name": "canned",
        "state": "succeeded",
        "attempt": 1,
        "priority": 0,
        "restarts": 0,
        "spec": {
            "name": "canned",
            "model": "mlp",
            "data": {"format": "glyphs"},
            "optimizer": {"type": "sgd", "learning_rate": 0.05},
            "strategy": {"type": "sync"},
            "batching": {"global_batch": 128, "policy": "dynamic"},
            "workers": 2,
            "epochs": 10,
            "seed": 1,
        },
        "created": "2026-01-02T03:00:00.000Z",
        "started": "2026-01-02T03:00:01.000Z",
        "finished": "2026-01-02T03:05:01.000Z",
        "error": None,
        "waiting": None,
        "pruned": None,
        "seconds": 300.0,
        "servers": [],
        "workers": [worker(0, "a"), worker(1, "b")],
        "progress": {"epoch": 10, "epochs": 10, "step": 1000, "samples": 128000, "fraction": 1},
        "metrics": {
            "train_loss": 0.1,
            "test_loss": 0.12,
            "test_accuracy": 0.96,
            "samples_per_second": 1000.0,
            "step_seconds": 0.1,
        },
        "staleness": {"p50": 0, "p95": 0, "max": 0, "node_mean": 0},
        "staleness_recent": {},
        "assignment": {"version": 1, "global_batch": 128},
    }
    made.update(changes)
    return made


def curve(name, values, node=None, every=10):
    return {
        "name": name,
        "node": node,
        "total_points": len(values),
        "x": [every * i for i in range(len(values))],
        "min": values,
        "max": values,
        "mean": values,
    }


def metric(name, values, every=100):
    """A metric that a program logged once an epoch of `every` steps; None: it was not finite."""
    at = range(1, len(values) + 1)
    return {"name": name, "total_points": len(values), "x": [every * i for i in at],
            "epoch": list(at), "time": [30.0 * i for i in at], "min": values, "max": values,
            "mean": values}


def evaluations(accuracies, losses=None):
    losses = losses or [0.5] * len(accuracies)
    return [
        {
            "step": 100 * (i + 1),
            "epoch": i + 1,
            "time": 30.0 * (i + 1),
            "samples": 12800 * (i + 1),
            "loss": l,
            "accuracy": a,
        }
        for i, (a, l) in enumerate(zip(accuracies, losses))
    ]


def show(
    page,
    document,
    series=(),
    tests=(),
    assignments=(),
    steps=(),
    logs=None,
    artifacts=(),
    staleness=(),
    logged=(),
):
    """Opens the page of `document`."""
    answers = {
        "": document,
        "series": {"x": "step", "series": list(series)},
        "evaluations": {"evaluations": list(tests)},
        "assignments": {"assignments": list(assignments)},
        "steps": {"nodes": list(steps)},
        "staleness": {"nodes": list(staleness)},
        "artifacts": {"artifacts": list(artifacts)},
        "logged": {"metrics": list(logged)},
        "logs": logs or {},
    }
    page.script(ANSWERS, ID, json.loads(json.dumps(answers)))
    page.script("location.hash = '#/nodes'")
    page.wait_for("main .nodes-table")
    page.script("location.hash = '#/jobs/' + arguments[0]", ID)
    page.wait_for("#verdict")
