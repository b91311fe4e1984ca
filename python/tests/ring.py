"""Makes step rings like the daemon, and reads them word by word, by the layout in
worker/ring/ring_layout.h."""

import math
import struct

PHASES = ("idle", "data_wait", "forward", "backward", "communication", "optimizer", "averaging",
          "round_wait", "evaluating")


def new_ring(capacity=256, magic=b"PCLRING1", version=3):
    size = 256 + capacity * 192
    start = struct.pack("=8sIIIIQ", magic, version, 192, capacity, 0, size)
    return start + bytes(size - len(start))


def make_ring(path, **options):
    with open(path, "wb") as file:
        file.write(new_ring(**options))
    return path


class Record:
    def __init__(self, number, slot):
        (sequence, self.step, self.start, self.total, *phases, self.samples, tokens, wire_bytes,
         group_size, workload, loss, norm, self.learning_rate, masked) = struct.unpack_from(
             "=Q15QdfffI", slot)
        assert sequence == 2 * number + 2, sequence
        assert (tokens, wire_bytes, group_size, workload) == (0, 0, 0, 0.0)
        assert math.isnan(loss) and math.isnan(norm)
        assert masked in (0, 1)
        assert sum(phases) == self.total, (phases, self.total)
        assert not any(slot[152:])
        self.masked = bool(masked)
        self.end = self.start + self.total
        for name, time in zip(PHASES, phases):
            setattr(self, name, time)
        assert (self.communication, self.averaging, self.round_wait) == (0, 0, 0)


def read_ring(path, first=0):
    """Returns the records from number `first` on."""
    with open(path, "rb") as file:
        data = file.read()
    magic, version, slot_bytes, capacity, _, size = struct.unpack_from("=8sIIIIQ", data)
    assert (magic, version, slot_bytes, size) == (b"PCLRING1", 3, 192, len(data))
    written, = struct.unpack_from("=Q", data, 64)
    assert written - first <= capacity
    slots = (256 + number % capacity * 192 for number in range(first, written))
    return [Record(number, data[slot:slot + 192])
            for number, slot in zip(range(first, written), slots)]


def read_live(path):
    """(phase, step) of the newest live cell; the other cell has the previous change."""
    with open(path, "rb") as file:
        data = file.read(256)
    cells = [struct.unpack_from("=4Q", data, at) for at in (128, 192)]
    older, newer = sorted(cells)
    assert newer[0] % 2 == 0 and newer[0] in (0, older[0] + 2), cells
    assert newer[0] == 0 or cells.index(newer) == newer[0] // 2 % 2
    assert newer[3] == 0
    return PHASES[newer[1] & 0xff], newer[1] >> 8
