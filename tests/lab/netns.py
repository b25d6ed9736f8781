"""A network of its own for tests and benches: hosts are network namespaces on one bridge, each with
its own address and a link of a known rate.

    with Network("a", "b", rate="1gbit") as net:
        server = subprocess.Popen(net["a"].command("redis-server", "--bind", net["a"].address))
        with net["b"]:                      # this thread's new sockets and processes belong to b
            socket.create_connection((net["a"].address, 6379))
        net["b"].down()                     # as if its cable were pulled; up() puts it back

        a: eth0 10.77.0.1 ──── p1 ┐       in a namespace of its own, so that the machine's
                                  ├ br0   network is not touched; both ends of a link send
        b: eth0 10.77.0.2 ──── p2 ┘       at its rate (tc tbf)

The namespaces have no names: this process holds them by open files, and the kernel takes them away
with the last process inside, however that ended. Hence nothing is ever left, and there is nothing
to clean up after a kill -9. `ip netns exec` is not used: it mounts /sys anew, where control groups
are missing then (tests/lab/quota.py). What belongs to a namespace is a socket when it is made, and
a process when it is started: threads that were started before `with host` are where they were."""
import ctypes
import functools
import os
import shutil
import subprocess
import threading

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
SUBNET = "10.77.0"


def call(function, *arguments):
    if function(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{function.__name__}: {os.strerror(code)}")


def own_namespace():
    """The calling thread's, as an open file."""
    return os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY)


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(map(str, command))}: {done.stderr.strip() or f'code {done.returncode}'}")
    return done.stdout


class Namespace:
    def __init__(self):
        self.before, self.file = threading.local(), None
        # a thread is moved when it makes one; this one ends there
        thread = threading.Thread(target=self._make)
        thread.start()
        thread.join()
        if self.file is None:
            raise self.error
        self.path = f"/proc/{os.getpid()}/fd/{self.file}"
        self.run("ip", "link", "set", "lo", "up")

    def _make(self):
        try:
            call(LIBC.unshare, CLONE_NEWNET)
            self.file = own_namespace()
        except OSError as e:
            self.error = e

    def command(self, *command):
        """The command, run inside."""
        return ["nsenter", f"--net={self.path}", *map(str, command)]

    def run(self, *command):
        """Its standard output; an exception with what it said if it fails."""
        return run(*self.command(*command))

    def __enter__(self):
        stack = self.before.__dict__.setdefault("stack", [])
        stack.append(own_namespace())
        call(LIBC.setns, self.file, CLONE_NEWNET)
        return self

    def __exit__(self, *_):
        before = self.before.stack.pop()
        call(LIBC.setns, before, CLONE_NEWNET)
        os.close(before)

    def close(self):
        if self.file is not None:
            os.close(self.file)
            self.file = None


class Host(Namespace):
    def __init__(self, network, name, number):
        super().__init__()
        self.name, self.switch, self.port = name, network.switch, f"p{number}"
        self.address, self.network = f"{SUBNET}.{number}", f"{SUBNET}.0/24"
        self.switch.run("ip", "link", "add", self.port, "type", "veth", "peer", "name", "eth0",
                        "netns", self.path)
        self.switch.run("ip", "link", "set", self.port, "master", "br0", "up")
        self.run("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")

    def set_rate(self, rate):
        """In both directions, as tc writes it: "1gbit"."""
        shape = ("root", "tbf", "rate", rate, "burst", "256kb", "latency", "50ms")
        self.run("tc", "qdisc", "replace", "dev", "eth0", *shape)
        self.switch.run("tc", "qdisc", "replace", "dev", self.port, *shape)

    def down(self):
        self.switch.run("ip", "link", "set", self.port, "down")

    def up(self):
        self.switch.run("ip", "link", "set", self.port, "up")


class Network:
    def __init__(self, *names, rate=None):
        self.hosts, self.switch = {}, Namespace()
        try:
            self.switch.run("ip", "link", "add", "br0", "type", "bridge")
            self.switch.run("ip", "link", "set", "br0", "up")
            for number, name in enumerate(names, 1):
                self.hosts[name] = Host(self, name, number)
                if rate:
                    self.hosts[name].set_rate(rate)
        except BaseException:
            self.close()
            raise

    def route(self):
        """From one subnet to routed hosts, as pods are: each has an address with 32 bits, and its
        way to anybody leads through the switch."""
        gateway = "169.254.1.1"
        self.switch.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        for host in self.hosts.values():
            number = host.address.rsplit(".", 1)[1]
            host.address = f"10.88.{number}.2"
            self.switch.run("ip", "link", "set", host.port, "nomaster")
            self.switch.run("ip", "address", "add", f"{gateway}/32", "dev", host.port)
            self.switch.run("ip", "route", "add", f"{host.address}/32", "dev", host.port)
            host.run("ip", "address", "flush", "dev", "eth0", "scope", "global")
            host.run("ip", "address", "add", f"{host.address}/32", "dev", "eth0")
            host.run("ip", "route", "add", gateway, "dev", "eth0", "scope", "link")
            host.run("ip", "route", "add", "default", "via", gateway)

    def __getitem__(self, name):
        return self.hosts[name]

    def close(self):
        for namespace in [*self.hosts.values(), self.switch]:
            namespace.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


@functools.cache
def reason_against():
    """Why this cannot work here, as a sentence; None where it works, which is tried."""
    if os.geteuid() != 0:
        return "network namespaces are made by root only"
    missing = [p for p in ("ip", "tc", "nsenter") if not shutil.which(p)]
    if missing:
        return f"{' and '.join(missing)} not installed (deploy/setup test)"
    try:
        with Network("probe", rate="1gbit"):
            return None
    except (OSError, RuntimeError) as e:
        return (
            f"network namespaces, veth pairs, bridges or rates of links are not offered here ({e})")
