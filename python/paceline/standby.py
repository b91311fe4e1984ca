"""An interpreter that has imported what a script will import, and waits to become the script.

The daemon starts one beside each rank of a watched command, as `python3 [options] standby.py
[-m MODULE | SCRIPT] ARGUMENTS`, in the rank's environment. PACELINE_STANDBY names the file of
modules that the rank has left (_imports.py). Over descriptor 3, a socket to the shim, this says
"r" (ready) or "n" and why it cannot stand by; what it hears then is the environment of the next
start, "KEY=value" and a NUL each, up to the end of the stream. Nothing: it is not needed.

From then on all is as if the interpreter had just been started for the script: its arguments, its
paths, its `__main__`, its tracebacks.
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
            pass  # The script says so, if it needs the module and cannot have it, either.


def _opened_gpu():
    """What the imports have opened of a GPU: a driver's state, made for another start."""
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink("/proc/self/fd/" + descriptor)
        except OSError:
            continue
        if target.startswith("/dev/nvidia"):
            return target
    return None


def _become_script_of(arguments):
    """Sets the arguments and the path of modules as Python does for them."""
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
    """The variables of the start; besides, those that Python and imports have set, as they would
    have.
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
        runpy._run_module_as_main(name)  # What `python -m` calls.
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
    """As Python reports what nobody caught, without the frames of this file."""
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
        os.chdir(directory)  # It may have been made anew.
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
