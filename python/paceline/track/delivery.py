"""Hands batches to one tracker, on a thread of its own."""

from __future__ import annotations

import threading
import time
from typing import Optional

from paceline.track.points import Backlog, Batch, Mark, Position
from paceline.track.tracker import Say, Tracker, TrackerUnusable

FIRST_RETRY_S = 1.0
LAST_RETRY_S = 60.0


class Delivery:
    """A tracker, what waits for it, and the thread that writes.

    offer() never waits for the tracker. Thread-safe. The thread ends with close(), or with the
    process if the tracker blocks for ever.
    """

    def __init__(self, tracker: Tracker, say: Say, backlog: Optional[Backlog] = None,
                 first_retry_s: float = FIRST_RETRY_S) -> None:
        self._tracker, self._say = tracker, say
        self._first_retry_s = first_retry_s
        # Guarded by _changed:
        self._changed = threading.Condition()
        self._backlog = Backlog() if backlog is None else backlog
        self._closing = False
        self._state: Optional[str] = None
        self._told_drops = False
        self._unusable = False
        self._closed = False  # The tracker has got all.
        self._writing = 0  # Points and marks that the tracker has been given and not yet taken.
        # Of the thread:
        self._position: Optional[Position] = None
        self._told_outage = False
        self._marked_drops = 0
        self._thread = threading.Thread(target=self._run, name=f"to {tracker.name}", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """Points and marks that the tracker will not get."""
        with self._changed:
            return self._backlog.dropped

    def offer(self, batch: Batch) -> None:
        """Takes a batch; what the tracker has already is left out when it is written."""
        with self._changed:
            if self._unusable:
                return
            self._backlog.add(batch)
            tell = self._backlog.dropped > 0 and not self._told_drops
            self._told_drops = self._told_drops or tell
            self._changed.notify()
        if tell:
            self._say(f"{self._tracker.name} does not keep up: from here its curves have fewer "
                      "points; training is not held up")

    def close(self, state: Optional[str], grace_s: float) -> bool:
        """Lets the tracker have the rest, for `grace_s` at most; whether it has got all of it."""
        with self._changed:
            self._closing, self._state = True, state
            self._changed.notify()
        self._thread.join(grace_s)
        with self._changed:
            left = len(self._backlog) + self._writing
            dropped, unusable, closed = self._backlog.dropped, self._unusable, self._closed
        if unusable:
            return False
        if not closed:
            self._say(f"{self._tracker.name} has not answered for {grace_s:.0f} s: {left} points "
                      "and events are missing there; call the command again to send what the "
                      "controller still knows")
            return False
        if dropped > 0:
            self._say(f"{self._tracker.name} has not got {dropped} points and events, because it "
                      "was too slow or away")
        return True

    def _run(self) -> None:
        retry_s = self._first_retry_s
        while True:
            try:
                self._await_work()
                self._write_waiting()
                with self._changed:
                    closes, state = self._closing and not self._backlog, self._state
                if closes:
                    self._tracker.close(state)
                self._tell_end_of_outage()
                retry_s = self._first_retry_s
                if not closes:
                    continue
                with self._changed:
                    self._closed = True
                return
            except TrackerUnusable as error:
                self._give_up(error)
                return
            except Exception as error:  # pylint: disable=broad-except  # Of a client's own kinds.
                self._tell_outage(error)
                self._pause(retry_s)
                retry_s = min(2 * retry_s, LAST_RETRY_S)

    def _await_work(self) -> None:
        with self._changed:
            while not self._closing and not self._backlog:
                self._changed.wait()

    def _write_waiting(self) -> None:
        if self._position is None:
            self._position = self._tracker.open()
        with self._changed:
            batch = self._backlog.take()
            self._writing = len(batch.points) + len(batch.marks)
            dropped = self._backlog.dropped
        try:
            fresh = self._position.beyond(batch)
            if dropped > self._marked_drops and fresh.points:
                fresh.marks.append(_mark_of_drops(fresh, dropped - self._marked_drops))
            if fresh:
                self._tracker.write(fresh)
                self._position.advance(fresh.points, fresh.marks)
            self._marked_drops = dropped
            with self._changed:
                self._writing = 0
        except Exception:
            self._position = None  # Part of it may have been written.
            with self._changed:
                self._backlog.put_back(batch)
                self._writing = 0
            raise

    def _pause(self, seconds: float) -> None:
        """Waits, but only a little while the job has ended and others wait for this thread."""
        until = time.monotonic() + seconds
        with self._changed:
            while not self._closing and time.monotonic() < until:
                self._changed.wait(until - time.monotonic())
            if self._closing:
                self._changed.wait(min(seconds, self._first_retry_s))

    def _tell_outage(self, error: BaseException) -> None:
        if self._told_outage:
            return
        self._told_outage = True
        self._say(f"{self._tracker.name} does not answer, and is tried again; training goes on: "
                  f"{type(error).__name__}: {_one_line(error)}")

    def _tell_end_of_outage(self) -> None:
        if self._told_outage:
            self._say(f"{self._tracker.name} answers again")
        self._told_outage = False

    def _give_up(self, error: TrackerUnusable) -> None:
        with self._changed:
            self._unusable = True
            self._backlog.take()
        self._say(f"{self._tracker.name}: {error}")


def _mark_of_drops(batch: Batch, dropped: int) -> Mark:
    newest = batch.points[-1]
    return Mark(0, newest.step, "tracker", True,
                f"{dropped} points and events are missing here before this step: the tracker was "
                "too slow or away", newest.time)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    # Clients put the cause, such as "Connection refused", last.
    return text if len(text) <= 400 else f"{text[:240]} … {text[-150:]}"
