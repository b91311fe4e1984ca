"""Follows a job whose stragglers Paceline takes care of, and prints what happens as a time line.

Fails unless a ladder and a hot-swap have helped, and the accuracy is not more than two percentage
points below that of the job without any disturbance: twice its standard error, of 359 images.
"""
import json
import subprocess
import sys
import time

EVERY_S = 1.0
LINE_EVERY_S = 10
WITHIN = 0.02
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")


class Timeline:
    def __init__(self, paceline, name):
        self.paceline, self.name = paceline, name
        self.begin = time.monotonic()
        self.states = {}   # Of the decisions, by id.
        self.verdicts = 0  # When the newest verdict printed so far was found.
        self.job, self.decisions = {}, []
        self.printed = 0

    def ask(self, *words):
        return json.loads(subprocess.run([self.paceline, "-o", "json", *words], check=True,
                                         stdout=subprocess.PIPE, text=True).stdout)

    def tell(self, text):
        progress = self.job.get("progress", {})
        print(f"{time.monotonic() - self.begin:6.1f} s  step {int(progress.get('step', 0)):5}  {text}",
              flush=True)

    def pace(self, advice):
        step_s = advice.get("step_s", 0)
        if not step_s or time.monotonic() - self.printed < LINE_EVERY_S:
            return
        self.printed = time.monotonic()
        self.tell(f"{1e3 * step_s:.0f} ms a step")

    def follow(self):
        while True:
            self.job = self.ask("job", "describe", self.name)
            advice = self.ask("job", "advise", self.name)
            self.pace(advice)
            for verdict in advice.get("recent", []):
                if verdict["time"] > (self.verdicts or ""):
                    self.verdicts = verdict["time"]
                    self.tell(describe_verdict(verdict))
            self.decisions = self.ask("job", "decisions", self.name).get("decisions", [])
            for decision in self.decisions:
                state = decision["state"]
                if self.states.get(decision["id"]) == state:
                    continue
                self.states[decision["id"]] = state
                why = decision.get("outcome") or decision["reason"]
                self.tell(f"decision {decision['id']}, {decision['summary']}: {state}; {why}")
            if self.job["state"] in ENDED:
                return
            time.sleep(EVERY_S)


def describe_verdict(verdict):
    where = f"rank {verdict.get('rank', 0)} on {verdict.get('node')}"
    kind = verdict["kind"]
    return (f"{where}: {kind}, {verdict.get('slowdown', 0):.2f} x its peers since step "
            f"{int(verdict.get('since_step', 0))}")


def main(paceline, name, undisturbed):
    timeline = Timeline(paceline, name)
    timeline.follow()
    if timeline.job["state"] != "SUCCEEDED":
        sys.exit(f"demo: the job is {timeline.job['state']}: {timeline.job.get('reason')}")
    helped = {decision["kind"] for decision in timeline.decisions
              if decision["state"] == "HELPED"}
    for kind in ("LADDER", "HOT_SWAP"):
        if kind not in helped:
            sys.exit(f"demo: no decision of kind {kind} has helped")
    ours = timeline.job["evaluation"]["accuracy"]
    other = timeline.ask("job", "describe", undisturbed)["evaluation"]["accuracy"]
    print(f"\ntest accuracy {ours:.2%}; without any disturbance {other:.2%}")
    if ours < other - WITHIN:
        sys.exit(f"demo: more than {WITHIN:.0%} below the undisturbed job")


if __name__ == "__main__":
    main(*sys.argv[1:])
