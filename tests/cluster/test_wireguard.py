"""The recipe of docs/deployment.md for networks that others can read: all traffic between the hosts
through WireGuard. What crosses the wire is looked at, beneath it."""
import shutil
import socket
import subprocess
import threading

import pytest

from rack import RATE, Hub, Machine, Network, reason_against, states, until
from service import spec

HOSTS = ("hub", "left", "right")
PORT, NETWORK = 51820, "10.201.9"
ETH_ALL, IPV4, ARP, IPV6, UDP = 3, b"\x08\x00", b"\x08\x06", b"\x86\xdd", 17
IGMP = "ip 2"  # what the kernel tells of its groups, as it does whenever an interface comes up


def wg(*words, **kw):
    return subprocess.run(["wg", *words], capture_output=True, text=True, check=True, **kw).stdout


def tunnel(net, folder, running):
    """A tunnel on every host, each with a key of its own that the others know. Names differ, since
    the sockets of wireguard-go are in a folder that the namespaces share."""
    keys = {}
    for name in HOSTS:
        private = folder / f"{name}.key"
        private.write_text(wg("genkey"))
        keys[name] = (private, wg("pubkey", input=private.read_text()).strip())
    outside = {name: net[name].address for name in HOSTS}
    for i, name in enumerate(HOSTS):
        place = net[name]
        device = "wg-" + name
        running.append(subprocess.Popen(place.command("wireguard-go", "-f", device)))
        until("the tunnel answers", lambda: subprocess.run(
            place.command("wg", "show", device), capture_output=True).returncode == 0)
        place.run("wg", "set", device, "listen-port", str(PORT), "private-key",
                  str(keys[name][0]))
        for k, peer in enumerate(HOSTS):
            if peer != name:
                place.run("wg", "set", device, "peer", keys[peer][1], "allowed-ips",
                          f"{NETWORK}.{k + 1}/32", "endpoint", f"{outside[peer]}:{PORT}")
        place.run("ip", "address", "add", f"{NETWORK}.{i + 1}/24", "dev", device)
        place.run("ip", "link", "set", device, "up")
        place.address = f"{NETWORK}.{i + 1}"


class Wire(threading.Thread):
    """What goes through a host's own link, by kind."""

    def __init__(self, place):
        super().__init__(daemon=True)
        self.kinds, self.over = {}, False
        with place:
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_ALL))
            self.socket.bind(("eth0", 0))
        self.socket.settimeout(0.2)

    def run(self):
        while not self.over:
            try:
                frame = self.socket.recv(65536)
            except socket.timeout:
                continue
            kind = frame[12:14]
            if kind == IPV4:
                header = (frame[14] & 15) * 4
                ports = [int.from_bytes(frame[14 + header + at:16 + header + at], "big")
                         for at in (0, 2)]
                kind = "wireguard" if frame[23] == UDP and PORT in ports else f"ip {frame[23]}"
            self.kinds[kind] = self.kinds.get(kind, 0) + 1

    def stop(self):
        self.over = True
        self.join()
        self.socket.close()
        return self.kinds


@pytest.fixture
def tunnelled(tmp_path):
    absent = reason_against() or next(
        (f"{tool} is not installed" for tool in ("wireguard-go", "wg") if not shutil.which(tool)),
        None)
    if absent:
        pytest.skip(f"WireGuard is not tried: {absent}")
    with Network(*HOSTS, rate=RATE) as made:
        running = []
        try:
            tunnel(made, tmp_path, running)
            yield made
        finally:
            for process in running:
                process.terminate()
                process.wait()


def test_nothing_but_wireguard_crosses_the_wire_while_two_hosts_train(tunnelled):
    inside = ["--interface", f"{NETWORK}.0/24"]
    wire = Wire(tunnelled["left"])
    wire.start()
    hub = Hub(tunnelled["hub"])
    hub.options += inside
    with hub, Machine(hub, tunnelled["left"], options=inside), \
            Machine(hub, tunnelled["right"], options=inside):
        until("both hosts are ready",
              lambda: [states(hub).get(n) for n in ("left", "right")] == ["ready"] * 2, 60)
        job = hub.wait(hub.submit(spec(epochs=2)), "succeeded")
        assert {w["node"] for w in job["workers"]} == {"left", "right"}
    kinds = wire.stop()
    assert kinds.get("wireguard", 0) > 100 and set(kinds) <= {"wireguard", ARP, IPV6, IGMP}, kinds
