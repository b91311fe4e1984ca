"""The streams of a script on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

import torch

from paceline.errors import Regroup

if TYPE_CHECKING:
    from paceline._protocols import Engine


class Streams:
    """The engine computes on torch's current stream, as the script does. Does nothing on a CPU."""

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._newest: Optional[torch.cuda.Stream] = None  # Of the engine's newest call.

    def follow(self) -> None:
        """Before a call of the engine that computes: it comes behind the former one, on whatever
        stream that was."""
        if not self._on_gpu:
            return
        stream = torch.cuda.current_stream()
        if self._newest is not None and stream != self._newest:
            stream.wait_stream(self._newest)
        self._newest = stream

    def wait_for(self, engine: Engine, what: str) -> None:
        """Where ranks may be lost: waits until the GPU has done what is in the current stream. Then
        a sum that a lost rank has broken off looks finished, but the engine knows: raises Regroup.
        """
        if not (self._on_gpu and engine.recovers):
            return
        torch.cuda.current_stream().synchronize()
        text = f"{what}: it was broken off"
        if engine.cut_off(text, False):
            raise Regroup(text)
