"""Agents for tests: `evenstep-agent` processes on this machine, each a host of its own name, and
the messages of the join written once more in Python, so that they can be forged."""
import hashlib
import hmac
import json
import os
import secrets
import signal
import subprocess
import time

import redis

from service import BUILD, DEADLINE, PATIENCE, until


class Agent:
    def __init__(self, service, host, *nodes, secret=None, options=(), store=None, env=None):
        self.service, self.host, self.nodes = service, host, nodes
        self.dir = service.dir / ("agent-" + host)
        self.command = [str(BUILD / "evenstep-agent"), "--store",
                        store or f"unix:{service.dir}/redis.sock", "--secret-file",
                        str(secret or service.dir / "secret"), "--host", host, "--data-dir",
                        str(self.dir), *options]
        for node in nodes:
            self.command += ["--node", node]
        self.env = dict(os.environ, **(env or {}))
        self.process = None

    def start(self):
        self.log = open(str(self.dir) + ".log", "ab")
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=subprocess.STDOUT,
                                        env=self.env)
        return self

    def text(self):
        with open(str(self.dir) + ".log", errors="replace") as f:
            return f.read()

    def says(self, *words, seconds=DEADLINE):
        until(f"the agent of {self.host} says {words}",
              lambda: all(w in self.text() for w in words), seconds)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE * PATIENCE)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, value, trace):
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            self.kill()
        self.log.close()
        if kind:
            print(f"agent of {self.host}:\n" + self.text()[-4000:])


def states(service):
    return {n["name"]: n["state"] for n in service.get("nodes").json()["nodes"]}


def ready(service, *names):
    until(f"{names} are ready", lambda: all(states(service).get(n) == "ready" for n in names))


class Wire:
    """The contents of the boxes, as an outsider sees them."""

    def __init__(self, service):
        self.redis = redis.Redis(unix_socket_path=str(service.dir / "redis.sock"),
                                 decode_responses=True)
        self.dir = service.dir
        self.secret = mac(b"evenstep cluster secret",
                          (service.dir / "secret").read_text().strip().encode())

    def host_key(self, host):
        return bytes.fromhex((self.dir / "hosts" / (host + ".key")).read_text().strip())

    def refused(self):
        return {k: int(v) for k, v in self.redis.hgetall("es:refused").items()}

    def put(self, box, text):
        self.redis.rpush("es:mail:" + box, text)

    def join(self, host, secret=None, wait=True, **changes):
        """Sends a join; returns the coordinator's answer."""
        nonce = secrets.token_hex(32)
        body = {"host": host, "instance": secrets.token_hex(32), "address": "127.0.0.1",
                "network": "127.0.0.0/8",
                "versions": {"evenstep": "0.1.0", "openmpi": openmpi(), "protocol": 2}, "nodes": [],
                "nonce": nonce, "at": now(), **changes}
        secret = secret or self.secret
        text = seal(derive(secret, "join", ""), "join", body)
        self.put("join", text)
        if not wait:
            return text
        box = "es:mail:welcome." + body["nonce"]
        answer = until("the coordinator answers", lambda: self.redis.lpop(box))
        return json.loads(answer.split("\n", 1)[1])

    def launch(self, host, key=None, **changes):
        """A request to start a daemon, as the launch agent makes it; returns its nonce and text."""
        body = {"host": host, "job": "0123456789abcdef", "attempt": 1, "family": 77, "daemon": 1,
                "daemons": 2, "nodes": "vm,es-" + host + "@0(2)",
                "mpirun": "77.0;tcp://127.0.0.1:9", "seal": secrets.token_hex(32),
                "nonce": secrets.token_hex(32), "at": now(), **changes}
        text = seal(key or self.host_key(host), "launch", body)
        self.put("host." + host, text)
        return body["nonce"], text

    def answer(self, nonce):
        text = until("the agent answers", lambda: self.redis.lpop("es:mail:answer." + nonce))
        return json.loads(text.split("\n", 1)[1])


def now():
    return int(time.time() * 1000)


def openmpi():
    text = subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout
    return text.split("(Open MPI) ")[1].split()[0]


def mac(key, data):
    return hmac.new(key, data, hashlib.sha256).digest()


def derive(key, label, data):
    return mac(key, label.encode() + b"\0" + data.encode())


def seal(key, kind, body):
    text = json.dumps({**body, "kind": kind}, separators=(",", ":"))
    return mac(key, text.encode()).hex() + "\n" + text
