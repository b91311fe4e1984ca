"""Fuzz targets: what a file, a message or a request may hold, given to the code that takes it."""

load("//bazel:cc.bzl", "paceline_cc_binary", "paceline_cc_test")

def fuzz_target(name, deps):
    """NAME_fuzz.cc as a fuzzer, NAME_fuzz (tools/fuzz.sh; --config=fuzz alone can link it), and as
    a test over its corpus, NAME_replay_test.

    Args:
      name: of the target: of its source, its corpus and its dictionary.
      deps: of the source.
    """
    headers = ["expect.h", "input_file.h"]
    deps = deps + ["@system//:absl"]
    paceline_cc_test(
        name = name + "_replay_test",
        srcs = headers + ["replay_test.cc", name + "_fuzz.cc"],
        args = ["tests/fuzz/corpus/" + name],
        main = None,
        data = native.glob(["corpus/%s/*" % name]),
        deps = deps,
    )
    paceline_cc_binary(
        name = name + "_fuzz",
        testonly = True,
        srcs = headers + [name + "_fuzz.cc"],
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = deps,
    )
