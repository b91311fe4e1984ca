"""`python -m paceline.export`: makes a compiled step of a model, which Paceline's trainer runs
without Python (docs/compiled.md). `export_step` is the same as a function."""

from __future__ import annotations

from paceline.export.step import Exported, export_step
from paceline.export.state import Problem

__all__ = ["Exported", "Problem", "export_step"]
