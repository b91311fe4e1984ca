"""Proposes how a PyTorch script becomes a session (docs/session.md): `paceline init SCRIPT`.

Reads the script's text alone, by Python's ast: nothing of it is imported or run.
"""
