"""Files of npm packages that tools/setup.sh has installed: @npm//:PACKAGE/FILE."""

_BUILD = """
package(default_visibility = ["//visibility:public"])

exports_files(%s)
"""

def _npm_repository_impl(ctx):
    modules = ctx.path(Label("//:WORKSPACE")).dirname
    for part in ctx.attr.folder.split("/"):
        modules = modules.get_child(part)
    if not modules.get_child(".complete").exists:
        fail("no npm packages at %s: run tools/setup.sh" % ctx.attr.folder)
    packages = {file.split("/")[0]: None for file in ctx.attr.files}
    for package in packages:
        ctx.symlink(modules.get_child("node_modules").get_child(package), package)
    ctx.file("BUILD", _BUILD % repr(ctx.attr.files))

npm_repository = repository_rule(
    implementation = _npm_repository_impl,
    attrs = {
        "files": attr.string_list(mandatory = True),
        "folder": attr.string(mandatory = True),
    },
    local = True,
)
