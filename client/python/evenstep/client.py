"""The service's HTTP API from Python: submit a job, wait for its end, read its series.

    from evenstep.client import Client
    service = Client()                        # EVENSTEP_URL and EVENSTEP_TOKEN
    job = service.submit(spec)
    service.wait(job["id"])
    loss = service.series(job["id"], "train_loss")["train_loss"]   # x, mean, min, max

A program of one's own, as `evenstep run` does it:

    job = service.run("train.py", "--lr", "0.1", workers=4, strategy={"type": "dbs-sgd"})
    service.wait(job["id"])
    service.fetch(job["id"], "results")

An answer that is an error is raised as ServiceError, with the sentences of the service.
"""

import http.client
import json
import os
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request

from .bundle import bundle
from .pack import PackError, pack

READS_UPLOAD = 120  # seconds that the service may take to read all samples of an upload
ENDED = ("succeeded", "failed", "cancelled")
AWAY_MOST = 120  # seconds for which wait() tolerates a service that does not answer


class ServiceError(RuntimeError):
    """status: HTTP's; problem: the service's document about it."""

    def __init__(self, status, problem):
        self.status, self.problem = status, problem
        told = [problem.get("detail") or problem.get("title") or "HTTP status %d" % status]
        told += [
            ": ".join(filter(None, (e["pointer"], e["message"])))
            for e in problem.get("errors") or ()
            if e["message"] not in told[0]
        ]
        super().__init__("; ".join(told))


def _may_pass(e, first, away):
    """Should the request be repeated? If nothing has answered yet, the address may be wrong."""
    passes = e.status in (502, 503, 504) if isinstance(e, ServiceError) else not first
    return passes and away < AWAY_MOST


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

    def ask(self, method, path, /, body=None, **query):
        """Calls any route beneath /api/v1; returns its answer as JSON (None: nothing)."""
        data = None if body is None else json.dumps(body).encode()
        with self._open(method, path, data, "application/json", query) as answer:
            content = answer.read()
        return json.loads(content) if content else None

    def _open(self, method, path, data=None, kind=None, query=None, size=None):
        """size: of data sent in pieces, which the service may take time to read."""
        url = "%s/api/v1%s" % (self.url, path)
        if query:
            url += "?" + urllib.parse.urlencode(query)
        request = urllib.request.Request(url, data, method=method)
        if self.token:
            request.add_header("Authorization", "Bearer " + self.token)
        if data is not None:
            request.add_header("Content-Type", kind)
        if size is not None:
            request.add_header("Content-Length", str(size))
        try:
            timeout = self.timeout if size is None else max(self.timeout, READS_UPLOAD)
            return urllib.request.urlopen(request, timeout=timeout)
        except urllib.error.HTTPError as e:
            raise ServiceError(e.code, self._problem(e.read())) from None

    @staticmethod
    def _problem(content):
        try:
            problem = json.loads(content)
        except ValueError:
            problem = {}
        return problem if isinstance(problem, dict) else {}

    def submit(self, spec):
        """Submits a job. Returns its document; its "id" names the job in every other call."""
        return self.ask("POST", "/jobs", spec)

    def upload(self, folder, leave_out=None):
        """Packs and uploads a program's folder, as `evenstep run` does. The answer's "digest" names
        it in a spec."""
        return self._upload(pack(folder, leave_out))

    def _upload(self, data):
        with self._open("POST", "/programs", data, "application/x-tar") as answer:
            return json.load(answer)

    def run(self, file, *args, folder=None, python="python3", output=None, **spec):
        """Uploads the folder that the program lies in (or `folder` above it) and submits the job.

        spec: the job's other keys, such as workers=4, strategy={"type": "sync"}. output: a folder
        for results, which is not uploaded. A file that does not end in .py is executed itself; of a
        Python program that never says evenstep each node would train the whole: a PackError.
        """
        file = os.path.join(os.path.realpath(os.path.dirname(file) or "."), os.path.basename(file))
        folder = os.path.realpath(folder or os.path.dirname(file))
        within = folder.rstrip("/") + "/"
        if not file.startswith(within):
            raise ValueError("the program '%s' is not in the folder '%s'" % (file, folder))
        if not os.path.isfile(file):
            raise FileNotFoundError("cannot find the program '%s'" % file)
        name = file[len(within) :]
        data = pack(folder, output)
        if name.endswith(".py") and b"evenstep" not in data.lower():
            raise PackError(
                "no file that would go to the nodes calls evenstep: each of them would run the "
                "whole of %s by itself; call evenstep.prepare(model, optimizer, loader) before the "
                "loop, or import evenstep there, too, where an installed module calls it" % name
            )
        command = [python, name] if name.endswith(".py") else ["./" + name]
        program = {
            "digest": self._upload(data)["digest"],
            "command": command,
            "args": [str(a) for a in args],
        }
        spec.setdefault("name", os.path.basename(file).removesuffix(".py"))
        return self.submit({**spec, "program": program})

    def datasets(self):
        """The data sets that the service has found; "path" names one in a spec."""
        return self.ask("GET", "/datasets")["datasets"]

    def dataset(self, name):
        """How many samples each class has, and some samples."""
        return self.ask("GET", "/datasets/samples", path=name)

    def upload_dataset(self, name, path, sent=None):
        """Uploads the files of a folder, or a tar archive, piece by piece. sent(bytes, of) is
        called with each piece. What the service read; spec: {"data": {"path": name, ...}}."""
        size, pieces = bundle(path)

        def told():
            so_far = 0
            for piece in pieces:
                yield piece
                so_far += len(piece)
                if sent:
                    sent(so_far, size)

        query = {"name": name}
        with self._open("POST", "/datasets", told(), "application/x-tar", query, size) as answer:
            return json.load(answer)

    def delete_dataset(self, name):
        self.ask("DELETE", "/datasets/" + urllib.parse.quote(name, safe=""))

    def fetch(self, id, folder):
        """Writes the job's artifacts into a folder, keeping their subfolders. Returns the paths."""
        path, paths = "/jobs/%s/artifacts" % urllib.parse.quote(id), []
        os.makedirs(folder, exist_ok=True)
        for artifact in self.ask("GET", path)["artifacts"]:
            name = artifact["name"]
            if any(not part or part.startswith(".") for part in name.split("/")):
                raise ValueError("an artifact cannot be named '%s'" % name)
            paths.append(os.path.join(folder, name))
            os.makedirs(os.path.dirname(paths[-1]), exist_ok=True)
            with self._open("GET", path + "/" + urllib.parse.quote(name)) as answer:
                with open(paths[-1], "wb") as file:
                    shutil.copyfileobj(answer, file)
        return paths

    def job(self, id):
        return self.ask("GET", "/jobs/" + urllib.parse.quote(id))

    def cancel(self, id):
        return self.ask("POST", "/jobs/%s/cancel" % urllib.parse.quote(id))

    def wait(self, id, timeout=None, every=0.5, shown=None):
        """Waits for the job's end and returns its document. Calls shown(job) after each request. If
        the service is away for a while because it or its store restarts, asks again."""
        begun, heard, state = time.monotonic(), None, "unknown"
        while True:
            try:
                job = self.job(id)
            except (OSError, http.client.HTTPException, ServiceError) as e:
                if not _may_pass(e, heard is None, time.monotonic() - (heard or begun)):
                    raise
            else:
                heard, state = time.monotonic(), job["state"]
                if shown:
                    shown(job)
                if state in ENDED:
                    return job
            if timeout is not None and time.monotonic() - begun > timeout:
                raise TimeoutError("job %s is still %s after %g s" % (id, state, timeout))
            time.sleep(every)

    def series(self, id, *names, x="step", points=600):
        """Curves as arrays, {name: {"x", "mean", "min", "max"}}; curves of nodes are
        "name@node"."""
        path = "/jobs/%s/series" % urllib.parse.quote(id)
        answer = self.ask("GET", path, names=",".join(names or ["train_loss"]), x=x, points=points)
        return {
            s["name"] + ("@" + s["node"] if s.get("node") else ""): {
                key: _array(s[key]) for key in ("x", "mean", "min", "max")
            }
            for s in answer["series"]
        }

    def logged(self, id, points=600):
        """The metrics that a program logged, as arrays: {name: {"x", "epoch", "time", "mean",
        "min", "max"}}, where x has the steps after which it logged them."""
        answer = self.ask("GET", "/jobs/%s/logged" % urllib.parse.quote(id), points=points)
        return {
            m["name"]: {key: _array(m[key]) for key in ("x", "epoch", "time", "mean", "min", "max")}
            for m in answer["metrics"]
        }
