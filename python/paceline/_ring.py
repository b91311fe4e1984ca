"""The writer of a step ring in pure Python: worker/ring/step_ring.h tells what it is, ring_layout.h
where its words lie.

A reader asks that the words of a change become visible in the order in which they are written. A
store to a memoryview of 64-bit words is one aligned move, and x86-64 keeps the order of moves.
Elsewhere Python has no way to ask for that.
"""

import fcntl
import mmap
import os
import struct
import sys

MAGIC = b"PCLRING1"
VERSION = 3
WORD = 8
LIVE_WORDS = (128 // WORD, 192 // WORD)  # Where the two live cells begin.
WRITTEN_WORD = 64 // WORD
SLOTS = 256
SLOT_BYTES = 192

HEADER = struct.Struct("=8sIIIIQ")  # Magic, version, bytes of a slot, capacity, -, bytes of the file.
# A slot after its sequence: step, start, total, 8 phases, samples, tokens, wire bytes, size of the
# averaging group; workload; loss, norm of the gradients, learning rate; masked.
RECORD = struct.Struct("=15QdfffI")


class Ring:
    """The words of a ring that this process writes, and how far it was written before.

    Without a file it is a scratch of the same shape with room for one record.
    """

    def __init__(self, memory=None):
        self._memory = memory or bytearray(SLOTS + SLOT_BYTES)
        self.words = memoryview(self._memory).cast("Q")
        self.capacity = (len(self.words) * WORD - SLOTS) // SLOT_BYTES
        self.written = self.words[WRITTEN_WORD]
        newest = max(LIVE_WORDS, key=self.words.__getitem__)
        # A change that a killed writer began is made again.
        self.changes = self.words[newest] // 2
        self.step = self.words[LIVE_WORDS[self.changes % 2] + 1] >> 8

    def show(self, step, phase, since_ns):
        """Changes what the writer is doing."""
        words = self.words
        self.changes = change = self.changes + 1
        at = 24 if change % 2 else 16
        words[at] = 2 * change - 1
        words[at + 1] = step << 8 | phase
        words[at + 2] = since_ns
        words[at + 3] = 0
        words[at] = 2 * change

    def append(self, *record):
        """Adds a record: the values of RECORD."""
        words, number = self.words, self.written
        at = SLOTS + number % self.capacity * SLOT_BYTES
        words[at // WORD] = 2 * number + 1
        RECORD.pack_into(self._memory, at + WORD, *record)
        words[at // WORD] = 2 * number + 2
        self.written = words[WRITTEN_WORD] = number + 1


def can_write():
    return os.uname().machine == "x86_64" and sys.maxsize > 1 << 32


def open_ring(path):
    """The ring at `path`, which no other process writes from now on; None if one does already.

    The lock is the process's, not a descriptor's: children that outlive it do not hold it.
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
    return Ring(mmap.mmap(file, size))  # `file` stays open: closing it would end the lock.
