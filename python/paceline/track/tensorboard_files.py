"""A job's run as an event file of TensorBoard."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import Any, BinaryIO, Dict, Iterator, List, Optional, Tuple

from paceline.track.points import Batch, Mark, Point, Position
from paceline.track.tracker import JobFacts, client

LEAST, TESTED = "2.10", "2.21.0"
MARKS = "paceline/events"
_FRAME = struct.Struct("<QI")  # Of a record: its length, and a checksum; after it another one.
_LENGTH_BYTES, _TAIL_BYTES = 8, 4
_VERSION = "brain.Event:2"


class TensorBoardFiles:
    """One file in DIRECTORY/JOB_ID, to which each follower of the job appends.

    It is its own position: what it holds is read when it is opened, and a record that a crash or a
    full disk has cut short is cut off.
    """

    name = "TensorBoard"

    def __init__(self, directory: str, job: JobFacts) -> None:
        self._folder = Path(directory) / job.id
        # TensorBoard takes files with "tfevents" in their name, in the order of their names.
        self._path = self._folder / f"events.out.tfevents.0.{job.id}"
        self._job = job
        self._file: Optional[BinaryIO] = None
        self._writer: Any = None
        self._event = _module("tensorboard.compat.proto.event_pb2")
        self._summary = _module("tensorboard.compat.proto.summary_pb2")
        self._tensor = _module("tensorboard.compat.proto.tensor_pb2")
        self._shape = _module("tensorboard.compat.proto.tensor_shape_pb2")
        self._types = _module("tensorboard.compat.proto.types_pb2")
        self._text = _module("tensorboard.plugins.text.metadata")
        self._records = _module("tensorboard.summary.writer.record_writer")

    def open(self) -> Position:
        """As Tracker.open."""
        self._abandon()
        self._folder.mkdir(parents=True, exist_ok=True)
        position = Position()
        end = 0
        if self._path.exists():
            with open(self._path, "rb") as file:
                for record, end in self._whole_records(file):
                    self._note(record, position)
            os.truncate(self._path, end)
        self._file = open(self._path, "ab")  # pylint: disable=consider-using-with
        self._writer = self._records.RecordWriter(self._file)
        if end == 0:
            self._write_event(self._event.Event(wall_time=time.time(), file_version=_VERSION))
            self._write_facts()
            self._flush()
        return position

    def write(self, batch: Batch) -> None:
        """As Tracker.write."""
        together: Dict[Tuple[int, float], List[Point]] = {}
        for point in batch.points:
            together.setdefault((point.step, point.time), []).append(point)
        for (step, when), points in together.items():
            values = [self._summary.Summary.Value(tag=point.name, simple_value=point.value)
                      for point in points]
            self._write_event(self._event.Event(
                step=step, wall_time=when, summary=self._summary.Summary(value=values)))
        for mark in batch.marks:
            self._write_mark(mark)
        self._flush()

    def close(self, state: Optional[str]) -> None:
        """As Tracker.close. TensorBoard knows no end of a run: it is the last mark."""
        if self._file is not None:
            self._flush()
            os.fsync(self._file.fileno())
        self._abandon()

    def _write_mark(self, mark: Mark) -> None:
        kind = f"**{mark.kind}**" if mark.warning else mark.kind
        # One tag, so that the page lists them by step; the id is in a field that it does not show.
        self._write_text(MARKS, f"{kind}: {mark.text}", mark.step, mark.time, str(mark.id))

    def _write_facts(self) -> None:
        rows = ["| key | value |", "| --- | --- |"]
        for name, value in {"job": self._job.id, **self._job.facts}.items():
            shown = value.replace("|", "\\|")
            rows.append(f"| {name} | {shown} |")
        self._write_text("paceline/job", "\n".join(rows), 0, time.time(), "")

    def _write_text(self, tag: str, text: str, step: int, when: float, hidden: str) -> None:
        one = self._shape.TensorShapeProto(dim=[self._shape.TensorShapeProto.Dim(size=1)])
        tensor = self._tensor.TensorProto(dtype=self._types.DT_STRING, tensor_shape=one,
                                          string_val=[text.encode("utf-8")])
        value = self._summary.Summary.Value(
            tag=tag, node_name=hidden, tensor=tensor,
            metadata=self._text.create_summary_metadata(display_name=tag, description=""))
        self._write_event(self._event.Event(
            step=step, wall_time=when, summary=self._summary.Summary(value=[value])))

    def _note(self, record: bytes, position: Position) -> None:
        event = self._event.Event.FromString(record)
        for value in event.summary.value:
            if value.HasField("simple_value"):
                position.advance([Point(value.tag, event.step, 0.0, 0.0)], [])
            elif value.tag == MARKS and value.node_name.isdigit():
                position.mark = max(position.mark, int(value.node_name))

    def _whole_records(self, file: BinaryIO) -> Iterator[Tuple[bytes, int]]:
        """Yields each record that is there as a whole, and where it ends."""
        size = os.fstat(file.fileno()).st_size
        at = 0
        while True:
            frame = file.read(_FRAME.size)
            if len(frame) < _FRAME.size:
                return
            length, checksum = _FRAME.unpack(frame)
            end = at + _FRAME.size + length + _TAIL_BYTES
            # After a power cut a file may end in zeros.
            if end > size or checksum != self._records.masked_crc32c(frame[:_LENGTH_BYTES]):
                return
            record = file.read(length)
            file.read(_TAIL_BYTES)
            at = end
            yield record, at

    def _write_event(self, event: Any) -> None:
        self._writer.write(event.SerializeToString())

    def _flush(self) -> None:
        self._writer.flush()

    def _abandon(self) -> None:
        """Closes the file, though what is left in its buffer may not fit the disk."""
        file, self._file, self._writer = self._file, None, None
        if file is None:
            return
        try:
            file.close()
        except OSError:
            pass


def _module(name: str) -> Any:
    return client("tensorboard", name, LEAST, TESTED)
