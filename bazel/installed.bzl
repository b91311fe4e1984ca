"""Files of another package where they lie when they are installed."""

def _installed_impl(ctx):
    files = []
    for source in ctx.files.srcs:
        installed = ctx.actions.declare_file("%s/%s" % (ctx.attr.folder, source.short_path))
        ctx.actions.symlink(output = installed, target_file = source)
        files.append(installed)
    return [DefaultInfo(files = depset(files))]

# Each file at folder/its path.
installed = rule(
    implementation = _installed_impl,
    attrs = {
        "folder": attr.string(mandatory = True),
        "srcs": attr.label_list(allow_files = True, mandatory = True),
    },
)
