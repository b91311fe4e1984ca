"""What a script has imported, for an interpreter that stands by for its next start (standby.py).

Only installed packages and Python's own modules count: the script's own code may be another one by
then. The list ends where the script changes its environment, since what it imports later may read
that; what a package changes while it is imported is no such change.
"""

import os
import sys

# To import them does more than that, in a way that must not be done for another start.
_NEVER = ("mpi4py", "pycuda.autoinit", "horovod")


def _folders():
    """Of installed packages and of Python's own modules; each ends with a slash."""
    folders = {os.path.dirname(os.__file__)}
    folders.update(path for path in sys.path
                   if os.path.basename(path) in ("site-packages", "dist-packages"))
    return tuple(os.path.join(folder, "") for folder in folders)


class Imports:
    """Stands in sys.meta_path until write(); not where the names of the modules are known."""

    def __init__(self, names=None):
        self.folders = _folders()
        self.environment = dict(os.environ._data)
        self.names = names  # Of the modules before the script changed its environment.
        self.why = "torch is no installed package"  # If it is not among them.
        if names is None:
            sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):  # pylint: disable=unused-argument
        try:
            # Its own dictionary, as comparing that of texts takes fifty times as long.
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
        """Module names, a line each; or one line "!" and why there are none that help."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        # The shim has made the rank's first process the leader of a group.
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
