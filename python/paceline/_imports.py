"""Lists a script's imports for an interpreter that stands by for its next start (standby.py).

Only installed packages and Python's own modules count, since the script's own code may change by
then. The list ends where the script changes its environment, since later imports may read that;
changes by a package during its import do not count.
"""

import os
import sys

# Importing these has side effects that must not happen for another start.
_NEVER = ("mpi4py", "pycuda.autoinit", "horovod")


def _folders():
    """Folders of installed packages and of Python's own modules; each ends with a slash."""
    folders = {os.path.dirname(os.__file__)}
    folders.update(path for path in sys.path
                   if os.path.basename(path) in ("site-packages", "dist-packages"))
    return tuple(os.path.join(folder, "") for folder in folders)


class Imports:
    """Is in sys.meta_path until write(), unless the names of the modules are given."""

    def __init__(self, names=None):
        self.folders = _folders()
        self.environment = dict(os.environ._data)
        self.names = names  # Modules imported before the script changed its environment.
        self.why = "torch is no installed package"  # Reason if torch is missing.
        if names is None:
            sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):  # pylint: disable=unused-argument
        try:
            # Its internal dictionary: comparing the decoded one takes fifty times as long.
            if "." not in name and self.names is None and self.environment != os.environ._data:
                self._look_at_change()
        except Exception as error:  # pylint: disable=broad-except
            self.names = []
            self.why = f"what the script imports cannot be told: {error}"
        return None

    def _look_at_change(self):
        frame = sys._getframe(2)
        while frame is not None and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        by_package = frame is not None and frame.f_code.co_filename.startswith(self.folders)
        now = dict(os.environ._data)
        if not by_package:
            self.names = list(sys.modules)
            changed = min(name for name in set(now) | set(self.environment)
                          if now.get(name) != self.environment.get(name))
            self.why = f"the script sets {os.fsdecode(changed)} before it imports torch"
        self.environment = now

    def _is_installed(self, name):
        spec = getattr(sys.modules.get(name), "__spec__", None)
        origin = getattr(spec, "origin", None)
        return (isinstance(origin, str) and origin.startswith(self.folders)
                and getattr(spec, "name", None) == name
                and not any(name == never or name.startswith(never + ".") for never in _NEVER))

    def write(self, path):
        """Writes one module name per line; or one line, "!" and why the list would not help."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        # The shim makes the rank's first process the leader of a process group.
        if os.getpid() != os.getpgrp():
            self._put(path, "!a process that the rank has started trains, not the rank itself")
            return
        names = list(sys.modules) if self.names is None else self.names
        names = [name for name in names if self._is_installed(name)]
        self._put(path, "\n".join(names) if "torch" in names else "!" + self.why)

    @staticmethod
    def _put(path, text):
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text + "\n")
        os.rename(path + ".new", path)
