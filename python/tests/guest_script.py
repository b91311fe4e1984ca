"""A user's training script that brings along what scripts bring along, and checks, while its rank
trains, that the engine leaves it alone. GUEST is the name of one of the classes below. An assertion
that fails ends the script, and so the job; at the end it prints "<name> is as it was".

DIES: `step R`: rank R kills itself in the backward pass of this step of generation 1. WORKERS: how
many processes the DataLoader spawns, which import this file anew.
"""

import atexit
import ctypes
import faulthandler
import http.client
import http.server
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time

import numpy
import torch
from torch import nn

import paceline

WAIT_S = 60  # For what surely comes.


def wait_for(condition):
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


class Guest:
    """What a script has of its own. Made before paceline.init()."""

    def begun(self, run):
        """Behind paceline.init()."""

    def in_step(self, step):
        """In each step, between its backward pass and its update."""

    def ended(self):
        """Behind the last step."""


class Connections(Guest):
    """A server, a client that keeps its connection, and a thread that posts all the time."""

    def __init__(self):
        posted = self._posted = []

        class Answers(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # Connections are kept.

            def do_POST(self):
                posted.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_args):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self._address = server.server_address
        self._client = self._connect()
        self._leaves = threading.Event()
        self._error = None
        self._poster = threading.Thread(target=self._post_all_the_time, daemon=True)
        self._poster.start()

    def in_step(self, step):
        self._post(self._client, b"step %d" % step.number)

    def ended(self):
        assert self._error is None, self._error
        before = len(self._posted)
        wait_for(lambda: len(self._posted) > before)  # By the thread, which lives.
        self._leaves.set()
        self._poster.join()
        assert self._error is None, self._error
        assert b"step 11" in self._posted

    def _connect(self):
        client = http.client.HTTPConnection(*self._address)
        client.auto_open = 0  # It would connect anew, without a word, when the connection is lost.
        client.connect()
        return client

    @staticmethod
    def _post(client, text):
        client.request("POST", "/", text)
        assert client.getresponse().read() == b"ok"

    def _post_all_the_time(self):
        try:
            client = self._connect()
            while not self._leaves.wait(0.001):
                self._post(client, b"metrics")
        except Exception as error:  # pylint: disable=broad-except
            self._error = error


def status_of(task, key):
    """A line of /proc/<pid>/task/<task>/status."""
    with open(f"/proc/self/task/{task}/status", encoding="ascii") as file:
        return next(line.split()[1] for line in file if line.startswith(f"{key}:"))


class Settings(Guest):
    """Threads of NumPy, numbers of threads, signals' masks, and what malloc does."""

    LARGE = 64 << 20  # Above any threshold that malloc adapts by itself: mapped, and given back.

    def __init__(self):
        numpy.ones((600, 600)) @ numpy.ones((600, 600))
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        self._threads = set(os.listdir("/proc/self/task"))
        self._before = self._see()
        assert self._before[-1]

    def in_step(self, step):
        assert self._see() == self._before
        assert self._threads <= set(os.listdir("/proc/self/task"))

    def _see(self):
        blocked = {task: status_of(task, "SigBlk") for task in self._threads}
        return (torch.get_num_threads(), torch.get_num_interop_threads(), blocked,
                self._maps_large_blocks())

    def _maps_large_blocks(self):
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        libc.free.argtypes = [ctypes.c_void_p]
        block = libc.malloc(ctypes.c_size_t(self.LARGE))
        # glibc keeps a block's size in front of it; the second bit says that it is mapped.
        mapped = ctypes.c_size_t.from_address(block - ctypes.sizeof(ctypes.c_size_t)).value & 2
        libc.free(block)
        return bool(mapped)


class Faults(Guest):
    """faulthandler, of a crash and of a time that has passed."""

    def __init__(self):
        self._file = open(f"{os.environ['PACELINE_DIR']}/faults", "w+b", buffering=0)
        faulthandler.enable(self._file)

    def in_step(self, step):
        if step.number == 3:
            # It walks the frames of threads that run, and may crash if they call or return
            # meanwhile: this one waits where it is, in the kernel and then for the walk's end.
            reads, writes = os.pipe()
            faulthandler.dump_traceback_later(0.01, file=writes)
            said = os.read(reads, len(b"Timeout"))
            faulthandler.cancel_dump_traceback_later()
            assert said == b"Timeout"
            os.close(reads)
            os.close(writes)
        if step.number == 5:
            child = os.fork()
            if child == 0:
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                os.kill(os.getpid(), signal.SIGSEGV)
                os._exit(0)
            assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGSEGV
            assert b"Segmentation fault" in self._said()

    def ended(self):
        assert faulthandler.is_enabled()

    def _said(self):
        with open(self._file.name, "rb") as file:
            return file.read()


class Children(Guest):
    """Processes that the script forks in the middle of a step, and that end in several ways."""

    def in_step(self, step):
        if step.number not in (4, 5):
            return
        child = os.fork()
        if child == 0:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        forked = multiprocessing.get_context("fork").Process(target=numpy.ones, args=(3,))
        forked.start()
        forked.join()
        assert forked.exitcode == 0
        child = os.fork()
        if child == 0:
            # As daemons end: with SIGTERM, whose handler is the parent's engine.
            signal.pause()
        os.kill(child, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
        assert subprocess.run(["true"], check=False).returncode == 0


class Debugger(Guest):
    """breakpoint(), driven through standard input."""

    def in_step(self, step):
        if step.number != 4:
            return
        reads, writes = os.pipe()
        os.write(writes, b"p 'stopped in', step.number\nn\np 'passed', passed\nc\n")
        os.close(writes)
        os.dup2(reads, 0)
        breakpoint()
        passed = step.number * 2
        assert passed == 8


class Handlers(Guest):
    """The script's own handlers of SIGTERM: one from before init, one from within the training on
    rank 1. What comes when the engine has ended is theirs."""

    def __init__(self):
        self._told = []
        signal.signal(signal.SIGTERM, lambda *_: self._told.append("early"))
        atexit.register(self._tell_at_exit)  # Runs behind the engine's.

    def begun(self, run):
        self._run = run

    def in_step(self, step):
        if step.number == 3 and self._run.rank == 1:
            signal.signal(signal.SIGTERM, lambda *_: self._told.append("late"))
            self._send_and_wait()

    def ended(self):
        assert self._told == ["late"] * self._run.rank, self._told

    def _send_and_wait(self):
        before = len(self._told)
        os.kill(os.getpid(), signal.SIGTERM)
        wait_for(lambda: len(self._told) > before)

    def _tell_at_exit(self):
        self._send_and_wait()
        print("at exit SIGTERM is told to", self._told[-1], flush=True)


class StoppedEarly(Guest):
    """SIGTERM before the first step is the script's."""

    def __init__(self):
        self._told = []
        signal.signal(signal.SIGTERM, lambda *_: self._told.append("early"))

    def begun(self, run):
        os.kill(os.getpid(), signal.SIGTERM)
        wait_for(lambda: self._told)
        print("SIGTERM is told to", self._told[-1], flush=True)
        sys.exit(0)


class Twice(Guest):
    """A process is one rank, and stays it."""

    def begun(self, run):
        try:
            paceline.init()
        except RuntimeError as error:
            assert "was called before" in str(error)
        else:
            raise AssertionError("a second paceline.init() went through")


class Interrupted(Guest):
    """SIGINT, as by Ctrl-C, on rank 1."""

    def __init__(self):
        signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell may have it ignored.

    def begun(self, run):
        self._run = run

    def in_step(self, step):
        if step.number == 5 and self._run.rank == 1:
            os.kill(os.getpid(), signal.SIGINT)
            wait_for(lambda: False)  # The exception comes between two instructions of Python.


class Samples(torch.utils.data.Dataset):
    """In a spawned worker, it is made from this file, imported anew."""

    def __len__(self):
        return 203

    def __getitem__(self, i):
        x = torch.randn(8, generator=torch.Generator().manual_seed(i))
        return x, x[:3].argmax()


def main():
    guest = globals()[os.environ["GUEST"]]()
    run = paceline.init()
    guest.begun(run)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    run.attach(model, optimizer)
    workers = int(os.environ.get("WORKERS", "0"))
    loader = run.loader(Samples(), num_workers=workers,
                        multiprocessing_context="spawn" if workers else None)
    dies = os.environ.get("DIES", "").split()

    def die(number):
        if dies == [str(number), str(run.rank)] and run.generation == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    for step in run.steps():
        with step:
            for x, y in step.batches(loader):
                hidden = model[0](x)
                hidden.register_hook(lambda _gradient, number=step.number: die(number))
                step.backward(nn.functional.cross_entropy(model[1:](hidden), y))
            guest.in_step(step)
            step.update()
    guest.ended()
    with open(f"{os.environ['OUT']}/final.rank{run.rank}.safetensors", "wb") as file:
        for p in model.parameters():
            file.write(p.detach().numpy().tobytes())
    print(os.environ["GUEST"], "is as it was", flush=True)


if __name__ == "__main__":
    main()
