"""Starts ranks of sessions for tests that need hundreds: importing torch is most of the cost of a
short job. This program imports it once and then forks each rank.

Its standard input is a Unix socket of packets. Each packet is a command line of session_rank.sh, with
a zero byte after each argument, and further pairs `--set NAME=VALUE` for the rank's environment; an
empty value unsets the variable. The answer is the rank's process id, a pid_t. The rank goes to the
nearest subreaper, the test. Ends when the socket closes.
"""

import os
import runpy
import socket
import struct
import sys

import numpy  # noqa: F401
import torch

import paceline._engine  # noqa: F401

_VARIABLES = {"--dir": "PACELINE_DIR", "--socket": "PACELINE_SOCKET", "--ring": "PACELINE_RING"}


def fork_rank():
    """Returns the process id, or in the rank 0."""
    read, write = os.pipe()
    parent = os.fork()
    if parent == 0:
        rank = os.fork()
        if rank == 0:
            os.close(read)
            os.close(write)
            return 0
        os.write(write, struct.pack("i", rank))
        os._exit(0)
    rank, = struct.unpack("i", os.read(read, 4))
    os.waitpid(parent, 0)
    os.close(read)
    os.close(write)
    return rank


def become_rank(words):
    """Sets the environment, and writes into the rank's log from now on."""
    for key, value in zip(words[::2], words[1::2]):
        name, value = value.split("=", 1) if key == "--set" else (_VARIABLES.get(key), value)
        if name and value:
            os.environ[name] = value
        elif name:
            os.environ.pop(name, None)
    directory = os.environ["PACELINE_DIR"]
    os.makedirs(f"{directory}/log", exist_ok=True)
    log = os.open(f"{directory}/log/0", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)


def serve():
    """Returns in each rank, its command line."""
    torch.optim.AdamW([torch.zeros(1)])  # Imports torch._dynamo.
    # A fork lacks its parent's threads and could wait for one of them for ever.
    assert len(os.listdir("/proc/self/task")) == 1
    with socket.socket(fileno=os.dup(0)) as tests:
        while packet := tests.recv(1 << 16):
            rank = fork_rank()
            if rank == 0:
                return packet.decode().split("\0")[:-1]
            tests.sendall(struct.pack("i", rank))
    return None


command = serve()
if command is not None:
    with open(os.devnull, "rb") as null:
        os.dup2(null.fileno(), 0)
    become_rank(command[1:])
    script = os.environ.get("SCRIPT") or "python/tests/session_script.py"
    sys.argv[:] = [script]
    runpy.run_path(script, run_name="__main__")
