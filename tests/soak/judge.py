"""What a soak asserts, on what was seen: pure functions, each with its findings as lines for people."""

import re
import statistics

LIVE = {"QUEUED", "STARTING", "RUNNING", "STOPPING", "RECOVERING"}
ENDED = {"SUCCEEDED", "FAILED", "CANCELLED"}

# Allowed growth of a daemon's resident memory in the second half, and memory that the controller
# may keep for each job that has ended, because people ask about jobs for days.
GROWTH_MB = 16
JOB_KB = 64
# Allowed number of descriptors more than in the previous quarter: a trainer more or less.
MORE_DESCRIPTORS = 16

SAMPLE = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
JOB = re.compile(r"job-[0-9a-f]{12}")


def parse(text):
    """[(name, {label: value}, value)] of Prometheus' text format."""
    samples = []
    for line in text.splitlines():
        sample = SAMPLE.match(line)
        if sample:
            samples.append((sample[1], dict(LABEL.findall(sample[2] or "")), float(sample[3])))
    return samples


def by_label(samples, name, label):
    """Sums of a family by the values of one of its labels, without zeros."""
    sums = {}
    for found, labels, value in samples:
        if found == name:
            sums[labels[label]] = sums.get(labels[label], 0) + value
    return {key: value for key, value in sums.items() if value}


def states(jobs, of=LIVE | ENDED):
    """How many jobs are in each state, by its label."""
    counts = {}
    for job in jobs:
        if job["state"] in of:
            counts[job["state"].lower()] = counts.get(job["state"].lower(), 0) + 1
    return counts


def growth(points):
    """Growth of y over all (x, y) points, by least squares."""
    if len(points) < 2:
        return 0
    mean_x = statistics.fmean(x for x, _ in points)
    mean_y = statistics.fmean(y for _, y in points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if not spread:
        return 0
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    return slope * (points[-1][0] - points[0][0])


def memory(name, points, jobs_ended):
    """Of a daemon: (seconds, MB) while it was not restarted."""
    bound = GROWTH_MB + (JOB_KB * jobs_ended / 1000 if name == "controller" else 0)
    grown = growth(points)
    return [f"{name}: memory grows by {grown:.1f} MB, more than {bound:.1f}"] if grown > bound else []


def descriptors(name, points):
    """Of a daemon: (seconds, open ones) while it was not restarted."""
    half = len(points) // 2
    if not half:
        return []
    before = max(count for _, count in points[:half])
    after = max(count for _, count in points[half:])
    if after <= before + MORE_DESCRIPTORS:
        return []
    return [f"{name}: {after} descriptors after {before}"]


def lost(submitted, jobs):
    """Every job that was submitted is known, in a state, and one that has ended says why."""
    known = {job["id"]: job for job in jobs}
    found = []
    for job_id in submitted:
        if job_id not in known:
            found.append(f"{job_id} is lost")
            continue
        job = known[job_id]
        if job["state"] not in LIVE | ENDED:
            found.append(f"{job_id} is in no state: {job['state']}")
        elif job["state"] in ENDED and not job["reason"]:
            found.append(f"{job_id} is {job['state']} without a reason")
    return found


def unexpected(jobs, may_fail):
    """Jobs that failed although they were not made to fail for good."""
    return [f"{job['id']} ({job['spec']['name']}) failed: {job['reason']}" for job in jobs
            if job["state"] == "FAILED" and job["spec"]["name"] not in may_fail]


def orphans(processes, jobs):
    """{process: its job} of the trainers whose job has ended, or is not known. `processes`: command
    lines by process."""
    live = {job["id"] for job in jobs if job["state"] in LIVE}
    found = {}
    for pid, command in processes.items():
        job = JOB.search(command)
        if job and job[0] not in live:
            found[pid] = job[0]
    return found


def queues(samples, jobs):
    """The metrics count the jobs that the store has."""
    told = by_label(samples, "paceline_queue_jobs", "state")
    stored = states(jobs)
    return [] if told == stored else [f"metrics tell of jobs {told}, the store has {stored}"]


def finished(before, after):
    """Jobs that ended between two looks, each (samples, jobs), of one controller: counters and store
    agree. None was resumed meanwhile."""
    counted_before, counted_after = (
        by_label(samples, "paceline_jobs_finished_total", "state") for samples, _ in (before, after))
    stored_before, stored_after = (states(jobs, ENDED) for _, jobs in (before, after))
    found = []
    for label in sorted(state.lower() for state in ENDED):
        counted = counted_after.get(label, 0) - counted_before.get(label, 0)
        stored = stored_after.get(label, 0) - stored_before.get(label, 0)
        if counted != stored:
            found.append(f"{counted:g} jobs were counted as {label}, the store has {stored} more")
    return found


def nodes(samples, known):
    """The metrics show each node in its real state. `known`: nodes as listed."""
    told = {labels["node"]: labels["state"] for name, labels, value in samples
            if name == "paceline_node_state" and value == 1}
    stored = {node["name"]: node["state"].lower() for node in known}
    return [] if told == stored else [f"metrics tell of nodes {told}, the store has {stored}"]


def stored(before, after):
    """A controller that is started again knows each job as the one before it did: what was told of
    them all is in the store. None was live."""
    def known(jobs):
        return {job["id"]: (job["state"], job["reason"]) for job in jobs}
    was, now = known(before), known(after)
    return [f"{job} was told as {was.get(job)}, the store has {now.get(job)}"
            for job in sorted(was.keys() | now.keys()) if was.get(job) != now.get(job)]


def history(job, events):
    """The newest event of a job that has ended is of its end."""
    if not events or events[-1]["state"] != job["state"]:
        last = events[-1]["state"] if events else "nothing"
        return [f"{job['id']} is {job['state']}, its history ends with {last}"]
    return []
