"""Emulated links for trainers that trainer_run starts: each rank is in a network namespace of its
own, joined by a pair of virtual Ethernet devices to a bridge in another one. Both ends are shaped
by a token bucket (tbf), so that a rank sends and receives at no more than the link's rate.

As a program: sets the networks up and becomes trainer_run. over() starts it by `unshare`, in a
network and with mounts of its own: nothing outside is touched, and the kernel takes all of it away
with the last process that is in it. Needs root, ip and tc (iproute2), unshare and nsenter.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

INTERFACE = "eth0"
ADDRESS = "10.77.0.{}"  # 1 to 254, of ranks 0 to 253.
NAMESPACES = "/run/netns"  # Where `ip netns` keeps them.
RANK = pathlib.Path(__file__).with_name("link_rank.sh")
UNITS = {"kbit": 1_000, "mbit": 1_000_000, "gbit": 1_000_000_000}
# A packet that the kernel has not yet cut into frames is at most so large.
LEAST_BURST = 65_536  # Bytes.
BURST_S = 0.001
QUEUE_MS = 50  # The longest that a packet waits for its turn; more are dropped.


class LinkError(Exception):
    """Why there are no links here, and what to do."""


def bits_per_second(rate):
    """Of a rate as tc writes it: "100mbit", "1gbit". ValueError with any other text."""
    match = re.fullmatch(r"([1-9][0-9]*)(kbit|mbit|gbit)", rate)
    if match is None:
        raise ValueError(f"{rate!r} is not a rate such as 100mbit or 1gbit")
    return int(match[1]) * UNITS[match[2]]


def over(rate, ranks, trainer, command):
    """The command line by which trainer_run, called by `command`, starts its ranks over links."""
    return ["unshare", "--net", "--mount", sys.executable, __file__, "--rate", rate, "--ranks",
            str(ranks), "--trainer", trainer, "--", *command]


def require(rate, ranks):
    """Raises LinkError unless links can be made: makes them once, and starts nothing over them."""
    missing = [name for name in ("ip", "tc", "unshare", "nsenter") if shutil.which(name) is None]
    if missing:
        raise LinkError(f"links need {' and '.join(missing)}: install iproute2 and util-linux")
    tried = subprocess.run(over(rate, ranks, "-", ["true"]), check=False, text=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if tried.returncode != 0:
        raise LinkError("cannot make network namespaces and shape their links; run it as root, "
                        "outside of a container or in a privileged one: " + tried.stderr.strip())


def make_links(rate, ranks):
    """Networks rank0, rank1, ... and their links, for a process that over() has started."""
    burst = max(LEAST_BURST, int(bits_per_second(rate) / 8 * BURST_S))
    shape = f"root tbf rate {rate} burst {burst} latency {QUEUE_MS}ms"
    os.makedirs(NAMESPACES, exist_ok=True)
    call(f"mount -t tmpfs links {NAMESPACES}")  # Hides those of the machine.
    call("ip link add name bridge0 type bridge")
    call("ip link set bridge0 up")
    for rank in range(ranks):
        own, port = f"rank{rank}", f"port{rank}"
        call(f"ip netns add {own}")
        call(f"ip link add name {port} type veth peer name {INTERFACE} netns {own}")
        call(f"ip -n {own} address add {ADDRESS.format(rank + 1)}/24 dev {INTERFACE}")
        call(f"tc qdisc add dev {port} {shape}")
        call(f"tc -n {own} qdisc add dev {INTERFACE} {shape}")
        call(f"ip link set {port} master bridge0 up")
        call(f"ip -n {own} link set lo up")
        call(f"ip -n {own} link set {INTERFACE} up")


def call(command):
    """Raises LinkError with what the command says."""
    done = subprocess.run(command.split(), check=False, text=True, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise LinkError(f"`{command}` failed: {done.stderr.strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", required=True, help="of each link, such as 100mbit")
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--trainer", required=True, help="the trainer program")
    parser.add_argument("command", nargs="+", help="trainer_run, with its other options")
    args = parser.parse_args()
    if os.readlink("/proc/self/ns/net") == os.readlink(f"/proc/{os.getppid()}/ns/net"):
        parser.error("start it by over(): without `unshare` it would change this machine's network")
    try:
        make_links(args.rate, args.ranks)
    except LinkError as error:
        return str(error)
    options = ["--trainer", RANK, "--interface", INTERFACE, "--store-host", ADDRESS.format(1)]
    os.environ["LINKED_TRAINER"] = args.trainer
    os.execvp(args.command[0], [*args.command, *options])


if __name__ == "__main__":
    sys.exit(main())
