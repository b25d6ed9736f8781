"""A redis-server over TCP in its own folder, for tests that need its users or TLS."""
import subprocess

import redis

from service import until


class RedisServer:
    """Starts on ports that were free a moment before, and on others if somebody has taken one of
    them meanwhile. A subclass defines how it starts and how to check that it is up."""

    def __init__(self, folder):
        self.folder = folder
        self.log = open(folder / "redis.log", "wb")
        self.listen()
        until("Redis answers", self.answers)

    def options(self):
        """Options of redis-server; the ports are new each time."""
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
