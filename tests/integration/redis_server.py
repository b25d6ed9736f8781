"""A redis-server over TCP in a folder of its own, for tests that need its users or TLS."""
import subprocess

import redis

from service import until


class RedisServer:
    """Is started on ports that were free a moment before, and on others where somebody else has
    taken one of them meanwhile. A subclass says how it is started and how it is asked whether it is
    there."""

    def __init__(self, folder):
        self.folder = folder
        self.log = open(folder / "redis.log", "wb")
        self.listen()
        until("Redis answers", self.answers)

    def options(self):
        """Options of redis-server; their ports are new ones each time."""
        raise NotImplementedError

    def connection(self):
        """A client that may ping."""
        raise NotImplementedError

    def listen(self):
        self.process = subprocess.Popen(
            ["redis-server", *map(str, self.options()), "--dir", str(self.folder), "--save", ""],
            stdout=self.log, stderr=subprocess.STDOUT)

    def answers(self):
        try:
            return self.connection().ping()
        except redis.ConnectionError:
            if self.process.poll() is not None:
                said = (self.folder / "redis.log").read_text()
                assert "Address already in use" in said, said
                self.listen()

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()
