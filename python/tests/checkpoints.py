"""Checkpoints in directories of tests, and what is in them."""

import json
import os
import sys
import tempfile
import unittest

import torch
import torch.distributed.checkpoint as dcp

sys.path.insert(0, os.path.abspath("python"))
from paceline.dcp import PacelineReader, PacelineWriter


def manifest_of(directory):
    with open(f"{directory}/manifest.json", "rb") as file:
        return json.load(file)


def load(state, directory, **options):
    dcp.load(state, storage_reader=PacelineReader(directory, **options), no_dist=True)
    return state


def save(state, directory, **options):
    dcp.save(state, storage_writer=PacelineWriter(directory, **options), no_dist=True)


def zeros_of(state):
    """The same nested dict and lists, with other values."""
    if isinstance(state, dict):
        return {key: zeros_of(value) for key, value in state.items()}
    if isinstance(state, torch.Tensor):
        return torch.zeros_like(state)
    return [zeros_of(value) for value in state] if isinstance(state, list) else None


def training():
    """The state of a model and of its AdamW after two steps, as get_state_dict has it."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(2):
        model(torch.randn(7, 6)).square().sum().backward()
        optimizer.step()
    names = [name for name, _ in model.named_parameters()]
    [group] = optimizer.state_dict()["param_groups"]
    return {
        "model": dict(model.state_dict()),
        "optimizer": {
            "state": {name: dict(optimizer.state[p]) for name, p in model.named_parameters()},
            "param_groups": [{**group, "params": names}]},
        "epoch": 3}


def bytes_of(tensor):
    return tensor.contiguous().flatten().view(torch.uint8).tolist() if tensor.numel() else []


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


class DirectoryTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.directory = f"{self.folder}/step-000000000002.g3"

    def assert_same(self, found, expected, where=""):
        if isinstance(expected, dict):
            self.assertEqual(set(found), set(expected), where)
            for key in expected:
                self.assert_same(found[key], expected[key], f"{where}/{key}")
        elif isinstance(expected, torch.Tensor):
            self.assertEqual((found.dtype, found.shape), (expected.dtype, expected.shape), where)
            self.assertEqual(bytes_of(found), bytes_of(expected), where)
        elif isinstance(expected, list):
            self.assertEqual(len(found), len(expected), where)
            for i, (one, other) in enumerate(zip(found, expected)):
                self.assert_same(one, other, f"{where}/{i}")
        else:
            self.assertEqual(found, expected, where)
