"""A cluster of a test: `paceline dev up` in a folder of its own."""

import json
import os
import signal
import subprocess


class DevCluster:
    """Controller and workers, each of one slot; `with` ends them with all that they run.

    `libraries`: a folder of shared libraries that w0 takes before the system's.
    """

    def __init__(self, paceline, folder, workers, libraries=None):
        self._paceline = paceline
        self._workers = workers
        # Uses neither another cluster nor the contexts of the user who runs the test.
        self.environment = {**os.environ, "PACELINE_DEV_DIR": folder, "USER": "monitoring",
                            "PACELINE_CONFIG": f"{folder}/config.yaml"}
        self.environment.pop("PACELINE_SERVER", None)
        self.environment.pop("PACELINE_CONTEXT", None)
        try:
            if libraries:
                paths = [libraries, os.environ.get("LD_LIBRARY_PATH")]
                self._up(1, LD_LIBRARY_PATH=":".join(filter(None, paths)))
            self.up()
        except AssertionError:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.run("dev", "down", "--purge")

    def run(self, *arguments, **variables):
        """What a command prints. The test fails when the command does."""
        done = subprocess.run([self._paceline, *arguments], env={**self.environment, **variables},
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              check=False)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def read(self, *arguments):
        return json.loads(self.run("--output", "json", *arguments))

    def up(self):
        """Starts the daemons that do not run."""
        self._up(self._workers)

    def _up(self, workers, **variables):
        self.run("--timeout", "60", "dev", "up", "--workers", str(workers), "--slots", "1",
                 **variables)

    def daemons(self):
        """Name, addresses and process of each daemon: the controller, and the workers."""
        status = json.loads(subprocess.run(
            [self._paceline, "--output", "json", "dev", "status"], env=self.environment,
            stdout=subprocess.PIPE, check=False).stdout)
        return [status["controller"], *status["workers"]]

    def daemon(self, name):
        """One of them."""
        return {daemon["name"]: daemon for daemon in self.daemons()}[name]

    def submit(self, folder, name, text):
        """Submits a job file."""
        path = f"{folder}/{name}.yaml"
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"name: {name}\n{text}")
        self.run("submit", path)

    def job(self, name):
        return self.read("job", "describe", name)

    def kill_rank(self, name, rank):
        os.kill(int(self.job(name)["ranks"][rank]["pid"]), signal.SIGKILL)

    def kill_daemon(self, name):
        self._end(name, signal.SIGKILL)

    def end_daemon(self, name):
        """Asks it to end; its trainers run on."""
        self._end(name, signal.SIGTERM)

    def _end(self, name, number):
        os.kill(self.daemon(name)["pid"], number)
        while self.daemon(name)["running"]:
            pass
