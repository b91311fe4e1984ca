"""An interpreter that has imported what a script will import, and waits to become the script.

The daemon starts one beside each rank of a watched command, as `python3 [options] standby.py
[-m MODULE | SCRIPT] ARGUMENTS`, in the rank's environment. PACELINE_STANDBY names the file with the
rank's list of modules (_imports.py). Over descriptor 3, a socket to the shim, the interpreter sends
"r" (ready), or "n" and why it cannot stand by. It then reads the next start's environment, each
"KEY=value" followed by a NUL, up to the end of the stream; if that is empty, it is not needed.

From then on everything is as if Python had just been started for the script: its arguments, paths,
`__main__` and tracebacks.
"""

import os
import sys
from importlib import import_module

_SOCKET = 3


def _read(descriptor):
    parts = []
    while True:
        part = os.read(descriptor, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)


def _import(names):
    for name in names:
        try:
            import_module(name)
        except Exception:  # pylint: disable=broad-except
            pass  # If the script needs the module, it reports the error.


def _opened_gpu():
    """A GPU device that imports have opened, with driver state for another start; or None."""
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink("/proc/self/fd/" + descriptor)
        except OSError:
            continue
        if target.startswith("/dev/nvidia"):
            return target
    return None


def _become_script_of(arguments):
    """Sets sys.argv and the module path as Python would for these arguments."""
    sys.argv[:] = arguments
    if hasattr(sys, "orig_argv"):
        sys.orig_argv.remove(__file__)
    first = os.getcwd() if arguments[0] == "-m" else os.path.dirname(os.path.realpath(arguments[0]))
    if getattr(sys.flags, "safe_path", False):
        return
    if sys.path and os.path.realpath(sys.path[0]) == os.path.dirname(os.path.realpath(__file__)):
        sys.path[0] = first
    else:
        sys.path.insert(0, first)


def _variables(text):
    return dict(entry.split("=", 1) for entry in os.fsdecode(text).split("\0") if entry)


def _take_environment(text):
    """Sets the variables of the start; keeps those that Python and the imports have set, as they
    would have been set by that start, too.
    """
    with open("/proc/self/environ", "rb") as file:
        given = _variables(file.read())
    wanted = _variables(text)
    wanted.update({name: value for name, value in os.environ.items()
                   if given.get(name) != value and wanted.get(name) == given.get(name)})
    for name in set(os.environ) - set(wanted):
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _watch(names):
    package = sys.modules.get("_paceline")
    if package is None:
        return
    package.imports = import_module("_paceline._imports").Imports(names)
    package.start()


def _run():
    """Runs what sys.argv names, as `__main__`."""
    main = type(sys)("__main__")
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    if sys.argv[0] == "-m":
        import runpy  # pylint: disable=import-outside-toplevel
        name = sys.argv.pop(1)
        runpy._run_module_as_main(name)  # The function behind `python -m`.
        return
    from importlib.machinery import SourceFileLoader  # pylint: disable=import-outside-toplevel
    path = os.path.abspath(sys.argv[0])
    main.__file__, main.__cached__ = path, None
    main.__loader__ = SourceFileLoader("__main__", path)
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        sys.exit(f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] "
                 f"{error.strerror}")
    exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)  # pylint: disable=exec-used


def _report(error):
    """Reports an uncaught error like Python, without the frames of this file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    error.__traceback__ = trace
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    sys.excepthook(type(error), error, trace)


def _stand_by():
    with open(os.environ.pop("PACELINE_STANDBY"), encoding="utf-8") as file:
        names = file.read().split()
    directory = os.getcwd()
    _become_script_of(sys.argv[1:])
    _import(names)
    opened = _opened_gpu()
    if opened is not None:
        os.write(_SOCKET, b"nits imports open " + os.fsencode(opened))
        os._exit(0)
    os.write(_SOCKET, b"r")
    text = _read(_SOCKET)
    if not text:
        os._exit(0)
    os.close(_SOCKET)
    try:
        os.chdir(directory)  # It may have been created anew.
    except OSError as error:
        sys.exit(f"paceline: working_directory {directory}: {error.strerror}")
    _take_environment(text)
    _watch(names)


def main():
    _stand_by()
    try:
        _run()
    except SystemExit:
        raise
    except KeyboardInterrupt as error:
        _report(error)
        import signal  # pylint: disable=import-outside-toplevel
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException as error:  # pylint: disable=broad-except
        _report(error)
        sys.exit(1)


if __name__ == "__main__":
    main()
