"""From the end of the leading controller to the next one that serves, beside etcd's own leader change.

Three controllers over three members of etcd. Ours: the controller that leads is killed with SIGKILL,
or asked to end with SIGTERM; the time until another one answers that it is ready. The peer: the
member that leads etcd is killed with SIGKILL; the time until another member answers a read that all
must agree on. The systems take turns; who was killed is started again and waited for.
"""
import argparse
import base64
import contextlib
import json
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import paceline_bench

MEMBERS = 3
PATIENCE_S = 60
PAUSE_S = 0.005  # Between two requests: the resolution of the measurement.
SETTLE_S = 3  # One lease: by then a new leader behaves like one that has led for long.


def free_addresses(count):
    """Addresses that nobody listens at; etcd's members have to know each other's beforehand."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]


def answer(address, path, body=None):
    """(status, text) of an HTTP request; nothing when nobody answers."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(f"http://{address}{path}", data, timeout=1) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return None


def wait(condition):
    """The condition's value once it is true."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        value = condition()
        if value is not None:
            return value
        time.sleep(PAUSE_S)
    raise TimeoutError(condition)


class Group:
    """Processes of which one leads. Subclasses say how one is started and who leads."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = [None] * MEMBERS

    def command(self, member):
        raise NotImplementedError

    def serves(self, member):
        """Whether requests that only a leader can answer are answered there."""
        raise NotImplementedError

    def leader(self):
        raise NotImplementedError

    def start(self, member):
        with open(self.folder / f"{type(self).__name__}{member}.log", "ab") as log:
            self.processes[member] = subprocess.Popen(
                self.command(member), stdout=log, stderr=subprocess.STDOUT)

    def stop(self):
        for process in self.processes:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()

    def revive(self):
        """Restarts like a service manager: a slow change of etcd's leader ends a controller."""
        for member, process in enumerate(self.processes):
            if process.poll() is not None:
                self.start(member)

    def switch(self, how):
        """Milliseconds from the leader's end by this signal to the next one that serves."""
        self.revive()
        leader = wait(self.leader)
        time.sleep(SETTLE_S)
        begun = time.monotonic()
        self.processes[leader].send_signal(how)
        others = [member for member in range(MEMBERS) if member != leader]
        wait(lambda: next((member for member in others if self.serves(member)), None))
        took = time.monotonic() - begun
        self.processes[leader].wait()
        self.start(leader)
        wait(self.leader)
        return took * 1000


class Etcd(Group):
    """The members of etcd."""

    def __init__(self, folder):
        super().__init__(folder)
        addresses = free_addresses(2 * MEMBERS)
        self.clients, self.peers = addresses[:MEMBERS], addresses[MEMBERS:]
        for member in range(MEMBERS):
            self.start(member)
        wait(self.leader)

    def command(self, member):
        cluster = ",".join(f"m{i}=http://{peer}" for i, peer in enumerate(self.peers))
        return ["etcd", f"--name=m{member}", f"--data-dir={self.folder}/etcd{member}",
                f"--listen-client-urls=http://{self.clients[member]}",
                f"--advertise-client-urls=http://{self.clients[member]}",
                f"--listen-peer-urls=http://{self.peers[member]}",
                f"--initial-advertise-peer-urls=http://{self.peers[member]}",
                f"--initial-cluster={cluster}", "--initial-cluster-state=new"]

    def serves(self, member):
        # Linearisable: a leader has to agree.
        key = base64.b64encode(b"failover").decode()
        found = answer(self.clients[member], "/v3/kv/range", {"key": key})
        return found is not None and found[0] == 200

    def leader(self):
        for member in range(MEMBERS):
            found = answer(self.clients[member], "/v3/maintenance/status", {})
            if found is None or found[0] != 200:
                continue
            status = json.loads(found[1])
            if status.get("leader") == status["header"]["member_id"] and self.serves(member):
                return member
        return None


class Controllers(Group):
    """Controllers over the members of etcd."""

    def __init__(self, folder, program, etcd):
        super().__init__(folder)
        self.program = program
        self.etcd = etcd
        addresses = free_addresses(2 * MEMBERS)
        self.grpc, self.http = addresses[:MEMBERS], addresses[MEMBERS:]
        for member in range(MEMBERS):
            self.start(member)
        wait(self.leader)

    def command(self, member):
        return [self.program, "--plaintext", "--store=etcd",
                f"--etcd-endpoints={','.join(self.etcd.clients)}",
                f"--listen={self.grpc[member]}", f"--http={self.http[member]}",
                f"--state-dir={self.folder}/controller{member}"]

    def serves(self, member):
        found = answer(self.http[member], "/readyz")
        return found is not None and found[0] == 200

    def leader(self):
        return next((member for member in range(MEMBERS) if self.serves(member)), None)


def etcd_version():
    told = subprocess.run(["etcd", "--version"], check=True, capture_output=True, text=True).stdout
    return told.split("\n", 1)[0].rpartition(" ")[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="switches of each kind")
    args = parser.parse_args()
    program = str(paceline_bench.build("//controller:paceline-controller") / "controller/paceline-controller")
    killed, ended, peer = [], [], []
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        etcd = Etcd(folder)
        stack.callback(etcd.stop)
        controllers = Controllers(folder, program, etcd)
        stack.callback(controllers.stop)
        for _ in range(args.rounds):
            killed.append(controllers.switch(signal.SIGKILL))
            ended.append(controllers.switch(signal.SIGTERM))
            peer.append(etcd.switch(signal.SIGKILL))
    rows = [
        paceline_bench.Row(case="SIGKILL, lease 3 s", metric="switch", unit="ms", ours=killed,
                           peers={"etcd": peer}, limit=5000),
        paceline_bench.Row(case="SIGTERM", metric="switch", unit="ms", ours=ended, limit=5000),
    ]
    return paceline_bench.report("failover", rows, {"etcd": etcd_version()})


if __name__ == "__main__":
    sys.exit(main())
