"""Our C++ rules: the native ones with our warnings, which third parties do not get."""

# For files with at::parallel_for, which is a loop in the calling thread without it. Torch's own
# runtime has the threads (bazel/venv.bzl links it).
OPENMP = select({
    "//bazel:without_openmp": [],
    "//conditions:default": ["-fopenmp"],
})

_WARNINGS = ["-Wall", "-Wextra", "-Werror"]

def paceline_cc_library(name, copts = [], **kwargs):
    native.cc_library(name = name, copts = _WARNINGS + copts, **kwargs)

def paceline_cc_binary(name, copts = [], **kwargs):
    native.cc_binary(name = name, copts = _WARNINGS + copts, **kwargs)

def paceline_cc_test(name, size = "small", copts = [], deps = [], **kwargs):
    native.cc_test(
        name = name,
        size = size,
        copts = _WARNINGS + copts,
        deps = deps + ["@system//:gtest_main"],
        **kwargs
    )
