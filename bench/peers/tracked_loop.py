"""The two loops of trackers.py, which train the same small perceptron on one thread:

    session     a session that reports three numbers of a step by run.report.
    plain       plain PyTorch that hands them to a tracker itself.

The benchmark sets the mode in a byte of FOLDER/control; the loop answers in the next byte, once it
is in it. Each step appends a RECORD to FOLDER/steps.
"""
import argparse
import enum
import itertools
import math
import mmap
import os
import pathlib
import struct
import time

CONTROL, STEPS = "control", "steps"
WANTED, REACHED = 0, 1  # Bytes of the control.
# The step's start in ns of CLOCK_MONOTONIC, its mode, and the ns of the call that takes the numbers
# (0: there was none).
RECORD = struct.Struct("<qqq")
PAUSE_S = 0.01
INPUTS, HIDDEN, CLASSES, BATCH = 256, 512, 10, 64


class Mode(enum.IntEnum):
    PAUSED = 0
    BARE = 1  # The numbers go nowhere.
    REPORTS = 2  # Session: each step reports.
    ALTERNATES = 3  # Session: every second step reports.
    TENSORBOARD = 4  # Plain: each step logs to it. MLFLOW and WANDB, too.
    MLFLOW = 5
    WANDB = 6
    ENDED = 7


class Steps:
    """Follows the mode and records the steps. `change` is called with each new mode."""

    def __init__(self, folder, change=lambda mode: None):
        with open(folder / CONTROL, "r+b") as file:
            self.control = mmap.mmap(file.fileno(), 2)
        self.file = os.open(folder / STEPS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.change = change
        self.mode = None
        self.start = 0

    def begin(self):
        """Returns the mode of the step that begins now."""
        while self.control[WANTED] != self.mode:
            self.mode = Mode(self.control[WANTED])
            self.change(self.mode)
            self.control[REACHED] = self.mode
            while self.mode == Mode.PAUSED == self.control[WANTED]:
                time.sleep(PAUSE_S)
        self.start = time.monotonic_ns()
        return self.mode

    def end(self, called_ns):
        os.write(self.file, RECORD.pack(self.start, self.mode, called_ns))


def perceptron():
    """(model, optimizer). The learning rate leaves the model as it is, and the time of a step."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(INPUTS, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, HIDDEN),
        torch.nn.ReLU(), torch.nn.Linear(HIDDEN, CLASSES))
    return model, torch.optim.SGD(model.parameters(), lr=1e-9, momentum=0.9)


def batches():
    import torch

    batch = torch.rand(BATCH, INPUTS), torch.randint(CLASSES, (BATCH,))
    while True:
        yield batch


def numbers_of(loss, step):
    return {"loss": loss, "perplexity": math.exp(loss), "epoch": step / 1000}


def in_session(folder):
    import paceline
    from torch.nn.functional import cross_entropy

    run = paceline.init()
    model, optimizer = perceptron()
    run.attach(model, optimizer)
    steps, drawn = Steps(folder), batches()
    for step in run.steps():
        mode, called = steps.begin(), 0
        with step:
            for inputs, targets in step.batches(drawn):
                loss = cross_entropy(model(inputs), targets)
                step.backward(loss)
            numbers = numbers_of(loss.item(), step.number)
            if mode == Mode.REPORTS or (mode == Mode.ALTERNATES and step.number % 2):
                before = time.monotonic_ns()
                run.report(**numbers)
                called = time.monotonic_ns() - before
            step.update()
        steps.end(called)


def plain(folder):
    import torch
    from torch.nn.functional import cross_entropy

    torch.set_num_threads(1)
    model, optimizer = perceptron()
    tracker = Tracker(folder)
    steps, drawn = Steps(folder, tracker.change), batches()
    for number in itertools.count():
        mode, called = steps.begin(), 0
        if mode == Mode.ENDED:
            return
        inputs, targets = next(drawn)
        loss = cross_entropy(model(inputs), targets)
        loss.backward()
        numbers = numbers_of(loss.item(), number)
        if tracker.log:
            before = time.monotonic_ns()
            tracker.log(numbers, number)
            called = time.monotonic_ns() - before
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        steps.end(called)


class Tracker:
    """The tracker of a mode, as scripts use it. `log(numbers, step)`: None in modes without one."""

    def __init__(self, folder):
        self.folder = folder
        self.log = self.close = None

    def change(self, mode):
        """Ends the run of the last mode, and begins one of this."""
        if self.close:
            self.close()
        begin = {Mode.TENSORBOARD: tensorboard_run, Mode.MLFLOW: mlflow_run,
                 Mode.WANDB: wandb_run}.get(mode)
        self.log, self.close = begin(self.folder) if begin else (None, None)


def tensorboard_run(folder):
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder / "tensorboard"))

    def log(numbers, step):
        for name, number in numbers.items():
            writer.add_scalar(name, number, step)

    return log, writer.close


def mlflow_run(folder):
    import mlflow

    mlflow.set_tracking_uri(f"file://{folder}/mlruns")
    mlflow.start_run()
    return lambda numbers, step: mlflow.log_metrics(numbers, step=step), mlflow.end_run


def wandb_run(folder):
    import wandb

    run = wandb.init(project="bench", mode="offline", dir=str(folder))
    return lambda numbers, step: wandb.log(numbers, step=step), run.finish


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=("session", "plain"))
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    options = parser.parse_args()
    {"session": in_session, "plain": plain}[options.way](options.folder)
