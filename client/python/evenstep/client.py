"""The service's HTTP API from Python: submit a job, wait for its end, read its series.

    from evenstep.client import Client
    service = Client()                        # EVENSTEP_URL and EVENSTEP_TOKEN
    job = service.submit(spec)
    service.wait(job["id"])
    loss = service.series(job["id"], "train_loss")["train_loss"]   # x, mean, min, max

An answer that is an error is raised as ServiceError, with the sentences of the service.
"""

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request

ENDED = ("succeeded", "failed", "cancelled")


class ServiceError(RuntimeError):
    """status: HTTP's; problem: the service's document about it."""

    def __init__(self, status, problem):
        self.status, self.problem = status, problem
        told = [problem.get("detail") or problem.get("title") or "HTTP status %d" % status]
        told += ["%(pointer)s: %(message)s" % e for e in problem.get("errors") or ()]
        super().__init__("; ".join(told))


def _array(values):
    try:
        import numpy
    except ImportError:
        return values
    return numpy.array(values, dtype=float)


class Client:
    def __init__(self, url=None, token=None, timeout=30):
        self.url = (url or os.environ.get("EVENSTEP_URL") or "http://127.0.0.1:8080").rstrip("/")
        self.token, self.timeout = token or os.environ.get("EVENSTEP_TOKEN"), timeout

    def ask(self, method, path, body=None, **query):
        """Any route beneath /api/v1; what it answers as JSON (None: nothing)."""
        url = "%s/api/v1%s" % (self.url, path)
        if query:
            url += "?" + urllib.parse.urlencode(query)
        request = urllib.request.Request(url, method=method)
        if self.token:
            request.add_header("Authorization", "Bearer " + self.token)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                content = answer.read()
        except urllib.error.HTTPError as e:
            raise ServiceError(e.code, self._problem(e.read())) from None
        return json.loads(content) if content else None

    @staticmethod
    def _problem(content):
        try:
            problem = json.loads(content)
        except ValueError:
            problem = {}
        return problem if isinstance(problem, dict) else {}

    def submit(self, spec):
        """The job's document; its "id" names it in every other call."""
        return self.ask("POST", "/jobs", spec)

    def job(self, id):
        return self.ask("GET", "/jobs/" + urllib.parse.quote(id))

    def cancel(self, id):
        return self.ask("POST", "/jobs/%s/cancel" % urllib.parse.quote(id))

    def wait(self, id, timeout=None, every=0.5, shown=None):
        """The job's document once it has ended. shown(job) is called whenever it was asked for."""
        begun = time.monotonic()
        while True:
            job = self.job(id)
            if shown:
                shown(job)
            if job["state"] in ENDED:
                return job
            if timeout is not None and time.monotonic() - begun > timeout:
                raise TimeoutError("job %s is still %s after %g s" % (id, job["state"], timeout))
            time.sleep(every)

    def series(self, id, *names, x="step", points=600):
        """Curves as arrays, {name: {"x", "mean", "min", "max"}}; those of nodes as "name@node"."""
        path = "/jobs/%s/series" % urllib.parse.quote(id)
        answer = self.ask("GET", path, names=",".join(names or ["train_loss"]), x=x, points=points)
        return {
            s["name"] + ("@" + s["node"] if s.get("node") else ""): {
                key: _array(s[key]) for key in ("x", "mean", "min", "max")
            }
            for s in answer["series"]
        }
