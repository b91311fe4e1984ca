"""A Debian machine for a test: this one as it is, with everything that is written put aside, its
own processes, network and systemd. Nothing outside is changed, and with the test all of it goes.

It is a copy-on-write view of the root file system in namespaces, so it has the packages that this
machine has. Needs root, overlayfs and the programs of util-linux and iproute2.

    with Machine(hidden=["/work"]) as machine:
        machine.run("dpkg", "--install", "/tmp/x.deb")
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time

# The system and its services start in under ten seconds; a loaded machine takes longer.
PATIENCE_S = 120

# Services that the test's machine does not need, and units that wait for hardware.
MASKED = [
    "cron.service", "getty.target", "console-getty.service", "getty@tty1.service",
    "networking.service", "serial-getty@ttyS0.service", "ssh.service", "systemd-networkd.service",
    "systemd-networkd-wait-online.service", "systemd-resolved.service", "systemd-timesyncd.service",
    "systemd-udevd.service", "systemd-udev-trigger.service", "systemd-logind.service",
    "systemd-firstboot.service", "dev-hugepages.mount", "systemd-random-seed.service",
    "apt-daily.timer", "apt-daily-upgrade.timer", "tmp.mount", "systemd-modules-load.service",
]

# Runs in its own namespaces as their first process, and becomes systemd.
BOOT = r"""
set -e
PATH=/usr/sbin:/usr/bin:/sbin:/bin
root=$1
mount -t proc proc "$root/proc"
# The kernel's settings are those of the machine outside.
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
for node in null:3 zero:5 full:7 random:8 urandom:9 tty:0; do
  [ "$node" = tty:0 ] && major=5 || major=1
  mknod -m 666 "$root/dev/${node%:*}" c $major "${node#*:}"
done
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ip link set lo up
cd "$root"
mkdir -p run/outside
pivot_root . run/outside
umount -l /run/outside
mount --make-rshared /
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd \
  --unit=machine.target --log-target=journal --show-status=no
"""

UNIT = """[Unit]
Description=A machine for a test
Requires=sysinit.target
After=sysinit.target
AllowIsolate=yes
"""


class Machine:
    """`hidden`: folders that it shall not have."""

    def __init__(self, hidden=()):
        self._folder = tempfile.mkdtemp(prefix="machine-", dir="/var/tmp")
        self._hidden = hidden
        self._process = None
        self._cgroup = None
        self._pid = None
        self.root = os.path.join(self._folder, "root")

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self._process is not None:
            # Kill the first process of its namespaces: all others end with it.
            if self._pid is not None:
                subprocess.run(["kill", "-KILL", str(self._pid)], check=False)
            self._process.kill()
            self._process.wait()
        if self._cgroup is not None:
            for folder, _, _ in os.walk(self._cgroup, topdown=False):
                _retry(lambda: os.rmdir(folder))
        subprocess.run(["umount", "--recursive", self.root], check=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def path(self, path):
        """Where a file of the machine can be read from outside."""
        return f"/proc/{self._pid}/root{path}"

    def command(self, *argv):
        return ["nsenter", f"--target={self._pid}", "--mount", "--uts", "--ipc", "--net", "--pid",
                "--cgroup", "env", "-i", "HOME=/root", "LANG=C.UTF-8",
                "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", *argv]

    def run(self, *argv, check=True):
        """Runs a command as root to its end; its exit code, and all that it wrote."""
        done = subprocess.run(self.command(*argv), stdin=subprocess.DEVNULL, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=600)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(argv)}: exit code {done.returncode}\n{done.stdout}")
        return done.stdout if check else done

    def eventually(self, holds, what):
        limit = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() > limit:
                raise AssertionError(f"not in {PATIENCE_S} s: {what}\n" + self.run(
                    "journalctl", "--no-pager", "--lines=60", check=False).stdout)
            time.sleep(0.1)

    def _start(self):
        for name in ("upper", "work", "root"):
            os.mkdir(os.path.join(self._folder, name))
        _call("mount", "-t", "overlay", "overlay", self.root, "-o",
              f"lowerdir=/,upperdir={self._folder}/upper,workdir={self._folder}/work")
        _call("mount", "--make-private", self.root)
        for folder in self._hidden:
            if os.path.isdir(self.root + folder):
                _call("mount", "-t", "tmpfs", "tmpfs", self.root + folder)
        units = os.path.join(self.root, "etc/systemd/system")
        for name in MASKED:
            path = os.path.join(units, name)
            if os.path.lexists(path):
                os.remove(path)
            os.symlink("/dev/null", path)
        with open(os.path.join(units, "machine.target"), "w", encoding="utf-8") as file:
            file.write(UNIT)
        open(os.path.join(self.root, "etc/fstab"), "w", encoding="utf-8").close()
        # systemd gives it to the machine.
        with open(os.path.join(self.root, "etc/hostname"), "w", encoding="utf-8") as file:
            file.write("machine\n")
        # A policy of the image may forbid that packages start services.
        policy = os.path.join(self.root, "usr/sbin/policy-rc.d")
        if os.path.exists(policy):
            os.remove(policy)

        log = open(os.path.join(self._folder, "boot.log"), "wb")
        self._cgroup = self._own_cgroup()
        entry = (f"echo $$ >{self._cgroup}/cgroup.procs && exec unshare --cgroup --mount --uts "
                 f"--ipc --net --pid --fork --kill-child sh -c \"$BOOT\" boot {self.root}")
        self._process = subprocess.Popen(["sh", "-c", entry], env={**os.environ, "BOOT": BOOT},
                                         stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        self._await_boot()

    def _await_boot(self):
        limit = time.monotonic() + PATIENCE_S
        while time.monotonic() < limit:
            if self._process.poll() is not None:
                break
            children = subprocess.run(["pgrep", "--parent", str(self._process.pid)], check=False,
                                      capture_output=True, text=True).stdout.split()
            if children:
                self._pid = int(children[0])
                state = subprocess.run(self.command("systemctl", "is-active", "machine.target"),
                                       check=False, capture_output=True, text=True).stdout
                if state.strip() == "active":
                    return
            time.sleep(0.2)
        with open(os.path.join(self._folder, "boot.log"), encoding="utf-8") as file:
            raise AssertionError("the machine does not start: " + file.read())

    def _own_cgroup(self):
        """A group of the second hierarchy, which the machine takes for the whole of it."""
        with open("/proc/mounts", encoding="utf-8") as file:
            mounts = [line.split() for line in file]
        tops = [fields[1] for fields in mounts if fields[2] == "cgroup2"]
        top = tops[0] if tops else os.path.join(self._folder, "cgroup")
        if not tops:
            os.mkdir(top)
            _call("mount", "-t", "cgroup2", "cgroup2", top)
        group = os.path.join(top, os.path.basename(self._folder))
        os.mkdir(group)
        return group


def _call(*argv):
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(argv)}: {done.stderr}")


def _retry(action):
    for _ in range(100):
        try:
            return action()
        except OSError:
            time.sleep(0.05)
    return None


def enter_own_mounts():
    """Starts the test again, if root runs it, where what it mounts is seen by nobody else."""
    if os.geteuid() == 0 and os.environ.get("MACHINE_MOUNTS") != "own":
        os.environ["MACHINE_MOUNTS"] = "own"
        os.execvp("unshare", ["unshare", "--mount", "--propagation=private", sys.executable,
                              *sys.argv])
