"""Precompiled headers: what third parties' headers cost is paid once, not in each unit.

Made by clang under --config=development (.bazelrc), which every build without another configuration
has; other configurations compile the same sources without them, so that no unit can come to need
one: each still includes what it uses. Clang refuses a precompiled header of another compiler or of
other flags. What it cannot see is a system header that has changed; the versions of compiler and
packages are a part of each action's key therefore (tools/setup.sh).
"""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "ACTION_NAMES")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features + ["module_maps"],
    )
    below = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = "-",
        output_file = ctx.outputs.pch.path,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts,
        include_directories = below.includes,
        quote_include_directories = below.quote_includes,
        system_include_directories = below.system_includes,
        preprocessor_defines = below.defines,
        use_pic = True,
    )
    flags = cc_common.get_memory_inefficient_command_line(
        feature_configuration = features,
        action_name = ACTION_NAMES.cpp_compile,
        variables = variables,
    )
    compiler = cc_common.get_tool_for_action(
        feature_configuration = features,
        action_name = ACTION_NAMES.cpp_compile,
    )

    # Instantiated here what would be so in each unit. From the standard input, since the name of a
    # file would be that of a sandbox, and be taken for one that each unit includes.
    ctx.actions.run_shell(
        command = "cat %s | exec \"$@\"" % " ".join([part.path for part in ctx.files.parts]),
        arguments = [
            compiler,
            "-x",
            "c++-header",
            "-fpch-instantiate-templates",
            "-Xclang",
            "-fno-pch-timestamp",
        ] + flags,
        inputs = depset(ctx.files.parts, transitive = [below.headers, toolchain.all_files]),
        outputs = [ctx.outputs.pch],
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = ACTION_NAMES.cpp_compile,
            variables = variables,
        ),
        use_default_shell_env = True,
        mnemonic = "CppPrecompile",
        progress_message = "Precompiling " + ctx.outputs.pch.short_path,
    )

    # As headers, so that whoever depends on it has them at hand; reached by -include-pch alone.
    context = cc_common.create_compilation_context(
        headers = depset([ctx.outputs.pch], transitive = [below.headers]),
    )
    return [CcInfo(compilation_context = context)]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "parts": attr.label_list(allow_files = [".h"], mandatory = True),
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    outputs = {"pch": "%{name}.pch"},
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
