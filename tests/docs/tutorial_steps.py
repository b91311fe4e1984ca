"""What a person sees and does between two commands of a tutorial, for tutorial_test.py. It waits
without a limit: that is for the one who starts it.

    reach JOB STEPS          waits until the job has made so many steps
    further JOB STEPS        waits until it has made so many more than now
    generation JOB NUMBER    waits until it trains in this generation or a later one
    restarted JOB TIMES      waits until it trains after so many restarts
    rank JOB RANK KEY        prints the rank's `pid` or `node`
    decision JOB KIND STATE  waits for such a decision, and prints its number
    daemon NAME              prints the process id of a daemon of the dev cluster
"""

import json
import subprocess
import sys
import time

ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
EVERY_S = 0.2


def ask(*words):
    """The answer; {} while the controller does not give one."""
    done = subprocess.run(["paceline", "-o", "json", *words], stdout=subprocess.PIPE, check=False)
    return json.loads(done.stdout or "{}")


def wait_for(job, holds):
    while True:
        described = ask("job", "describe", job)
        if described and holds(described):
            return described
        if described.get("state") in ENDED:
            sys.exit(f"{job} is {described['state']}: {described.get('reason')}")
        time.sleep(EVERY_S)


def steps_of(job):
    """Those of the job; of a watched script, those that every rank has made."""
    steps = int(job.get("progress", {}).get("step", 0))
    ranks = [int(rank.get("progress", {}).get("step", 0)) for rank in job.get("ranks", [])]
    return steps or min(ranks, default=0)


def reach(job, steps):
    wait_for(job, lambda one: steps_of(one) >= int(steps))


def further(job, steps):
    begin = steps_of(wait_for(job, lambda _: True))
    reach(job, begin + int(steps))


def generation(job, number):
    wait_for(job, lambda one: one["state"] == "RUNNING" and
             int(one["generation"]) >= int(number))


def restarted(job, times):
    wait_for(job, lambda one: one["state"] == "RUNNING" and
             int(one.get("restarts", 0)) >= int(times))


def rank(job, number, key):
    trains = wait_for(job, lambda one: one["state"] == "RUNNING" and
                      len(one.get("ranks", [])) > int(number))
    print(trains["ranks"][int(number)][key])


def decision(job, kind, state):
    while True:
        for one in ask("job", "decisions", job).get("decisions", []):
            if (one["kind"], one["state"]) == (kind, state):
                print(one["id"])
                return
        if ask("job", "describe", job).get("state") in ENDED:
            sys.exit(f"{job} has ended without a decision {kind} {state}")
        time.sleep(EVERY_S)


def daemon(name):
    cluster = ask("dev", "status")
    print(next(one["pid"] for one in (cluster["controller"], *cluster["workers"])
               if one["name"] == name))


COMMANDS = {one.__name__: one
            for one in (reach, further, generation, restarted, rank, decision, daemon)}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
