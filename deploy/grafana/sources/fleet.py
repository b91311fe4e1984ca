"""All jobs and nodes: is something wrong, and where."""

from panels import dashboard, lines, number, table, text
from sources.common import (DRAINS, GOODPUT, NONE_OF_THESE, OUT_OF_SERVICE, SLOWDOWN, quantiles)

ADVICE = """
- **Alerts** first: each links to its run-book (`docs/runbooks`), which says what it means and
  what to do.
- A job with a **goodput** below 80 %: open it (click on its id). Its page says where the time
  went: waiting, recovering, queued.
- A job with a **slowdown** above 1.1: its stragglers' page says which rank and node, why, and
  what Paceline did. By hand: `paceline job advise JOB`.
- A node **out of service**: click on it; `paceline node describe NODE` says who holds it, since
  when and why. `paceline node resume NODE` gives it back.
- **Automation paused**: nothing is drained or remedied by itself until `paceline automation
  resume`. Look first at why many nodes look ill at once.
"""

NOW = [
    number("Nodes ready", "Nodes that take ranks.",
           'sum(paceline_node_state{state="ready"})', "short"),
    number("Nodes out of service", "Unreachable, draining, drained or lost.",
           f'sum(paceline_node_state{{state=~"{OUT_OF_SERVICE}"}})', "short",
           thresholds=NONE_OF_THESE),
    number("CPU slots in use", "Of all slots for ranks on nodes without GPUs.",
           'sum(paceline_node_slots{state="used"}) / sum(paceline_node_slots)', "percentunit",
           low=0, high=1),
    number("GPUs in use", "Of all GPUs. No data where no node has any.",
           'sum(paceline_node_gpus{state="used"}) / sum(paceline_node_gpus)', "percentunit",
           low=0, high=1),
    number("Jobs running", "Jobs that train.",
           'sum(paceline_queue_jobs{state="running"})', "short"),
    number("Jobs queued", "Jobs that wait for slots.",
           'sum(paceline_queue_jobs{state="queued"})', "short"),
    number("Goodput", "Time in steps over time since the first start; mean of all jobs, last hour.",
           "avg(job:paceline_job_goodput:ratio_rate1h)", "percentunit", thresholds=GOODPUT,
           low=0, high=1),
    number("Slow ranks", "Ranks of all jobs that are slower than their peers now.",
           "sum(paceline_straggler_suspects)", "short", thresholds=NONE_OF_THESE),
    number("Automation paused", "1: a person or the brake has paused it.",
           "max(paceline_automation_paused)", "short", thresholds=NONE_OF_THESE),
    number("Workers connected", "Sessions of workers with the controller.",
           "sum(paceline_worker_sessions)", "short"),
    number("Restarts", "Starts of jobs after a failure, in the time shown.",
           "sum(increase(paceline_job_restarts_total[$__range]))", "short", decimals=0,
           thresholds=NONE_OF_THESE),
    number("Alerts firing", "Alerts of deploy/prometheus/alerts.yaml.",
           'count(ALERTS{alertname=~"Paceline.+",alertstate="firing"}) or vector(0)', "short",
           thresholds=NONE_OF_THESE),
]

JOBS = [
    table("Jobs", "Each job that has not ended more than ten minutes ago. Click on its id.", [
        "max by (cluster, job_id, job_name, queue, strategy) (paceline_job_info)",
        "max by (cluster, job_id, state) (paceline_job_state == 1)",
        "max by (cluster, job_id) (paceline_job_step)",
        "max by (cluster, job_id) (paceline_job_samples_per_second)",
        "max by (cluster, job_id) (job:paceline_job_goodput:ratio_rate1h)",
        "max by (cluster, job_id) (paceline_straggler_suspects)",
        "max by (cluster, job_id) (paceline_job_attempt)",
    ], "short", {
        "job_id": "Job", "job_name": "Name", "queue": "Queue", "strategy": "Strategy",
        "state": "State", "Value #C": "Step", "Value #D": "Samples/s", "Value #E": "Goodput",
        "Value #F": "Slow ranks", "Value #G": "Attempt",
    }, width=24, height=9, links=("job", "stragglers"), sort="Slow ranks", overrides=[
        {"matcher": {"id": "byName", "options": "Goodput"}, "properties": [
            {"id": "unit", "value": "percentunit"},
            {"id": "thresholds", "value": {"mode": "absolute", "steps": [
                {"value": value, "color": colour} for value, colour in GOODPUT]}},
            {"id": "custom.cellOptions", "value": {"type": "color-text"}}]},
    ]),
    lines("Jobs by state", "Stacked; queued ones wait for slots.",
          [('sum by (state) (paceline_queue_jobs{state!~"succeeded|failed|cancelled"})',
            "{{state}}")], "short", stacked=True),
    lines("Wait in the queue", "Submitted until placed.",
          quantiles("paceline_job_queue_wait_seconds_bucket", "queue, ", of=(0.5, 0.9)), "s"),
    lines("Placed until all ranks train", "Time of starts.",
          quantiles("paceline_job_start_duration_seconds_bucket", "queue, ", of=(0.5, 0.9)), "s"),
    lines("Slowest rank of each job", "Its time over that of its peers; 1.5 is half as slow again.",
          [("max by (job_id) (paceline_straggler_slowdown_ratio)", "{{job_id}}")], "short",
          thresholds=SLOWDOWN, low=1, links=("stragglers",)),
    lines("Goodput", "Time in steps over time since the first start, over an hour.",
          [("job:paceline_job_goodput:ratio_rate1h", "{{job_id}}")], "percentunit", high=1,
          thresholds=GOODPUT, links=("job",)),
    lines("Jobs that ended", "By how they ended.",
          [("sum by (state) (increase(paceline_jobs_finished_total[$__rate_interval]))",
            "{{state}}")], "short"),
]

NODES = [
    lines("Nodes by state", "Stacked.", [("sum by (state) (paceline_node_state)", "{{state}}")],
          "short", stacked=True, width=12),
    table("Nodes that are not ready", "Click on a name.",
          ['max by (cluster, node, state) (paceline_node_state{state!="ready"} == 1)',
           "max by (cluster, node) (time() - paceline_node_last_heartbeat_timestamp_seconds)"
           " and on (cluster, node)"
           ' max by (cluster, node) (paceline_node_state{state!="ready"} == 1)'],
          "s", {"node": "Node", "state": "State", "Value #B": "Last report ago"},
          width=12, links=("node",)),
    lines("Drains", "That ended, by who wanted them and how they ended.",
          [("sum by (source, outcome) (increase(paceline_node_drains_total[$__rate_interval]))",
            "{{source}}: {{outcome}}")], "short"),
    lines("Restarts and new generations", "After failures of ranks, by kind; and changes of the "
          "members while jobs train, by cause.",
          [("sum by (failure) (increase(paceline_job_restarts_total[$__rate_interval]))",
            "restart: {{failure}}"),
           ("sum by (cause) (increase(paceline_job_membership_changes_total[$__rate_interval]))",
            "generation: {{cause}}")], "short"),
    lines("Recovery", "From the decision on a generation until all its members trained.",
          quantiles("paceline_job_recovery_duration_seconds_bucket", "cause, ", of=(0.5, 0.9)),
          "s"),
]

ALERTS = [
    table("Alerts firing", "Each has a page in docs/runbooks.",
          ['max by (cluster, alertname, severity, job_id, node) ('
           'ALERTS{alertname=~"Paceline.+",alertstate="firing"})'], "short",
          {"alertname": "Alert", "severity": "Severity", "cluster": "Cluster", "job_id": "Job",
           "node": "Node"}, width=24, height=6),
]

DASHBOARD = dashboard(
    "paceline-fleet", "Fleet", "All jobs and nodes: is something wrong, and where.",
    [("", [text(ADVICE, height=6)]), ("Now", NOW), ("Alerts", ALERTS), ("Jobs", JOBS),
     ("Nodes", NODES)],
    annotations=[DRAINS], span="3h")
