"""Writes step rings in pure Python: worker/ring/step_ring.h describes them, ring_layout.h their
layout.

Readers rely on seeing the words of a change in the order in which they are written. A store to a
memoryview of 64-bit words is one aligned move, and x86-64 keeps moves in order. On other machines
Python cannot guarantee this.
"""

import fcntl
import mmap
import os
import struct
import sys
from time import monotonic_ns

# Same numbers as paceline.v1.Phase.
IDLE, DATA_WAIT, FORWARD, BACKWARD, OPTIMIZER, EVALUATING = 0, 1, 2, 3, 5, 8
PHASES = 8  # Phases of a step.

MAGIC = b"PCLRING1"
VERSION = 3
WORD = 8
WRITTEN, LIVE = 64 // WORD, (128 // WORD, 192 // WORD)  # Word indices: header, live cells.
SLOTS = 256
SLOT_BYTES = 192

HEADER = struct.Struct("=8sIIIIQ")  # Magic, version, slot bytes, capacity, -, file bytes.
# A slot after its sequence number: step, start, total, 8 phases, samples, tokens, wire bytes,
# averaging group size; workload; loss, gradient norm, learning rate; masked.
RECORD = struct.Struct("=15QdfffI")
NAN = float("nan")


def can_write():
    return os.uname().machine == "x86_64" and sys.maxsize > 1 << 32


def map_ring(path):
    """Maps and locks the ring at `path` for writing; returns None if another process writes it.

    The lock belongs to the process, not to a descriptor: children that outlive it do not hold it.
    """
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    size = os.fstat(file).st_size
    start = os.pread(file, HEADER.size, 0).ljust(HEADER.size, b"\0")
    magic, version, slot_bytes, capacity, _, file_bytes = HEADER.unpack(start)
    if magic != MAGIC:
        raise ValueError(f"{path} is not a step ring")
    if version != VERSION:
        raise ValueError(f"{path} is a step ring of version {version}, this one writes {VERSION}")
    if (capacity == 0 or slot_bytes != SLOT_BYTES or file_bytes != size
            or SLOTS + capacity * SLOT_BYTES != size):
        raise ValueError(f"{path} is damaged: it tells of {capacity} records in {size} bytes")
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        os.close(file)
        return None
    return mmap.mmap(file, size)  # `file` stays open: closing it would end the lock.


class Ring:
    """Measures and writes the phases of steps, like StepRingWriter. But each step begins where the
    previous one ends; and leaving EVALUATING, the initial phase, begins the step anew.

    Writes to scratch memory until it gets a ring's.
    """

    def __init__(self):
        self.phase = EVALUATING
        self.write_to(bytearray(SLOTS + SLOT_BYTES))
        self.begin(monotonic_ns())

    def write_to(self, memory):
        """Continues after the records of an earlier writer."""
        self.memory = memory
        self.words = words = memoryview(memory).cast("Q")
        self.capacity = (len(memory) - SLOTS) // SLOT_BYTES
        self.written = words[WRITTEN]
        # Redoes a change that a killed writer had begun.
        self.changes = max(words[at] for at in LIVE) // 2
        self.step = words[LIVE[self.changes % 2] + 1] >> 8

    def begin(self, now):
        """Begins a step, in the same phase."""
        self.start = self.since = now
        self.times = [0] * (EVALUATING + 1)
        self.samples = 0
        self.masked = 0

    def enter(self, phase):
        now = monotonic_ns()
        if self.phase == EVALUATING and phase != EVALUATING:
            self.begin(now)
            self.masked = 1  # Not a typical step.
        self.times[self.phase] += now - self.since
        self.show(phase, now)

    def show(self, phase, now):
        self.phase = phase
        self.since = now
        self.changes = change = self.changes + 1
        words = self.words
        at = 24 if change & 1 else 16
        words[at] = 2 * change - 1
        words[at + 1] = self.step << 8 | phase
        words[at + 2] = now
        words[at + 3] = 0
        words[at] = 2 * change

    def end_step(self, learning_rate, phase):
        """Ends the step and begins the next one in `phase`."""
        now = monotonic_ns()
        times = self.times
        times[self.phase] += now - self.since
        times.pop()  # Evaluations are not part of a step.
        record = (self.step, self.start, now - self.start, *times, self.samples, 0, 0, 0,
                  0.0, NAN, NAN, learning_rate, self.masked)
        self.begin(now)
        self.step += 1
        self.show(phase, now)
        self.append(record)

    def append(self, record):
        """Appends a record with the values of RECORD."""
        words, number = self.words, self.written
        at = SLOTS + number % self.capacity * SLOT_BYTES
        slot = at // WORD
        words[slot] = 2 * number + 1
        RECORD.pack_into(self.memory, at + WORD, *record)
        words[slot] = 2 * number + 2
        self.written = words[WRITTEN] = number + 1
