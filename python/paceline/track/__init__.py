"""Writes the curves and events of a job to TensorBoard, MLflow and Weights & Biases.

`python3 -m paceline.track JOB` (docs/trackers.md) is a process of its own. It reads what the
controller knows, so a tracker that is slow or away cannot hold up training.
"""
