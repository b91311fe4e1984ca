"""Tests of which engine a process takes; session_alone_test.py runs them."""

import sys
import types
import unittest
from unittest import mock

import torch
from paceline import _engines


class EngineTest(unittest.TestCase):
    """By Python, torch and device; and what is said if none fits."""

    BUILT = {"2.9": ["cpu"], "2.10": ["cpu"], "2.11": ["cpu", "cuda"]}

    def load(self, torch_version, *, here="CPython 3.12", python="3.12", device="cpu", built=None):
        """From a wheel for `python`, whose engines are their names here."""
        built = self.BUILT if built is None else built
        modules = {"paceline._built_for": types.SimpleNamespace(
            PYTHON=python, PYTHONS=("3.10", "3.11", "3.12", "3.13"), ENGINES=built)}
        for version, devices in built.items():
            package = f"paceline._torch_{version.replace('.', '_')}"
            modules[package] = types.ModuleType(package)
            for one in devices:
                name = f"{package}.{'_engine' if one == 'cpu' else '_engine_cuda'}"
                modules[name] = types.SimpleNamespace(Engine=name)
        with mock.patch.dict(sys.modules, modules), \
                mock.patch.object(torch, "__version__", torch_version), \
                mock.patch.object(_engines, "_python", return_value=here):
            return _engines.load(device)

    def refusal(self, *arguments, **options):
        with self.assertRaises(ImportError) as caught:
            self.load(*arguments, **options)
        return str(caught.exception)

    def test_that_of_the_torch_is_taken(self):
        self.assertEqual(self.load("2.9.1+cu128"), "paceline._torch_2_9._engine")
        self.assertEqual(self.load("2.10.0"), "paceline._torch_2_10._engine")
        self.assertEqual(self.load("2.11.0+cpu"), "paceline._torch_2_11._engine")
        self.assertEqual(self.load("2.11.0", device="cuda"), "paceline._torch_2_11._engine_cuda")

    def test_another_torch(self):
        for version in ["2.1.0", "2.90.0", "2.12.0.dev20260101"]:
            self.assertEqual(
                self.refusal(version),
                "this paceline's engine is for torch 2.9, 2.10 or 2.11, and here is torch "
                f"{version}: pip install 'torch==2.11.*'")

    def test_a_torch_without_an_engine_for_gpus(self):
        self.assertEqual(
            self.refusal("2.9.1+cu128", device="cuda"),
            "this paceline's engine for `device: cuda` is for torch 2.11 for CUDA 13, and here is "
            "torch 2.9.1+cu128: pip install 'torch==2.11.*'")
        self.assertEqual(
            self.refusal("2.9.1", device="cuda", built={"2.9": ["cpu"]}),
            "this wheel of paceline has no engine for `device: cuda`: take one of `make wheel`")

    def test_another_python(self):
        for here in ["CPython 3.9", "CPython 3.14", "CPython 3.13t", "PyPy 3.11"]:
            self.assertEqual(
                self.refusal("2.11.0", here=here, python=None, built={}),
                f"no paceline has an engine for {here}: sessions need CPython 3.10, 3.11, 3.12 or "
                "3.13")

    def test_the_wheel_of_another_python(self):
        self.assertEqual(
            self.refusal("2.11.0", here="CPython 3.13"),
            "the paceline that was found is for CPython 3.12, and here is CPython 3.13: install its "
            "wheel with this environment's pip")
        self.assertIn("has no engine for any Python, and here is CPython 3.13: install its wheel",
                      self.refusal("2.11.0", here="CPython 3.13", python=None, built={}))

    def test_this_python_has_a_name(self):
        self.assertRegex(_engines._python(), r"^[A-Z]\w+ 3\.\d+t?$")
