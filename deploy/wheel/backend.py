"""How pip builds our sources (PEP 517): tools/wheel.sh makes a wheel for the Python that runs pip and
for the torch that it imports.

Without the set-up's Debian it ends with one sentence, as pip comes here wherever no wheel fits.
"""

import glob
import os
import platform
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    del config_settings, metadata_directory
    _check_machine()
    subprocess.run([f"{ROOT}/tools/setup.sh"], check=True)
    subprocess.run([f"{ROOT}/tools/wheel.sh"], check=True,
                   env={**os.environ, "PYTHON": sys.executable})
    tag = "cp{}{}".format(*sys.version_info[:2])
    [wheel] = glob.glob(f"{ROOT}/build/wheel/paceline-*-{tag}-{tag}-*.whl")
    shutil.copy(wheel, wheel_directory)
    return os.path.basename(wheel)


def build_sdist(sdist_directory, config_settings=None):
    del sdist_directory, config_settings
    sys.exit("paceline's source archive is made by `make sdist`")


def _check_machine():
    here = _system()
    if here != "Debian 12 on x86_64":
        sys.exit("paceline has no wheel for this machine, and its sources build only on Debian 12 on "
                 f"x86_64, and here is {here}: wheels run on Linux x86_64 with glibc 2.35 or newer")
    try:
        import torch  # pylint: disable=import-outside-toplevel,unused-import
    except ImportError:
        sys.exit("paceline's sources are built against your own torch, and there is none here: "
                 "install it, then pip install --no-build-isolation")


def _system():
    """As "Debian 12 on x86_64"."""
    named = {}
    try:
        with open("/etc/os-release", encoding="utf-8") as file:
            for line in file:
                key, _, value = line.strip().partition("=")
                named[key] = value.strip('"')
    except OSError:
        pass
    name = {"debian": "Debian"}.get(named.get("ID"), named.get("ID") or platform.system())
    return f"{name} {named.get('VERSION_ID', platform.release())} on {platform.machine()}"
