"""What several dashboards share: variables, annotations, limits, pieces of expressions."""

from panels import events, variable

# A job by its name, including jobs that have ended within the time range shown.
JOB = variable(
    "job_id", "Job",
    'query_result(max by (job_id, job_name) (last_over_time('
    'paceline_job_info{cluster=~"$cluster"}[$__range])))',
    regex='/job_id="(?<value>[^"]+)",job_name="(?<text>[^"]+)"/')
JOBS = {**JOB, "multi": True, "includeAll": True, "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]}}
NODE = variable("node", "Node", 'label_values(paceline_node_info{cluster=~"$cluster"}, node)')

# Goodput, as PacelineJobGoodputLow warns of it.
GOODPUT = [(None, "red"), (0.8, "orange"), (0.9, "green")]
# None is good, one or more is bad.
NONE_OF_THESE = [(None, "green"), (1, "red")]
# Slowdowns, as PacelineStragglerUncured warns of them.
SLOWDOWN = [(None, "green"), (1.05, "yellow"), (1.1, "orange"), (1.5, "red")]

# States of a node and of a job, the most important first.
OUT_OF_SERVICE = "unreachable|draining|drained|lost"

VERDICTS = events(
    "Verdicts", 'sum by (job_id, verdict) (increase('
    'paceline_straggler_verdicts_total{job_id=~"$job_id"}[$__rate_interval])) > 0',
    "{{verdict}}: a verdict on a rank of {{job_id}}", "orange")
REMEDIES = events(
    "Remedies", 'sum by (job_id, outcome) (increase('
    'paceline_remedies_total{job_id=~"$job_id"}[$__rate_interval])) > 0',
    "A remedy of {{job_id}}: {{outcome}}", "blue")
GENERATIONS = events(
    "New generations", 'changes(paceline_job_generation{job_id=~"$job_id"}[$__rate_interval]) > 0',
    "{{job_id}}: its members changed", "purple")
RESTARTS = events(
    "Restarts", 'changes(paceline_job_attempt{job_id=~"$job_id"}[$__rate_interval]) > 0',
    "{{job_id}} was restarted", "red")
CHECKPOINTS = events(
    "Checkpoints",
    'changes(paceline_job_last_checkpoint_step{job_id=~"$job_id"}[$__rate_interval]) > 0',
    "{{job_id}}: a checkpoint is complete", "green", on=False)
DRAINS = events(
    "Drains", 'max by (node) (paceline_node_state{state="draining"}) == 1',
    "{{node}} is being drained", "yellow")


def quantiles(bucket, by="", of=(0.5, 0.99)):
    """(expression, legend) pairs of a histogram; `by`: further labels, ending in a comma."""
    name = f"{{{{{by.rstrip(', ')}}}}} " if by else ""
    return [(f"histogram_quantile({q}, sum by ({by}le) (rate({bucket}[$__rate_interval])))",
             f"{name}p{q * 100:g}") for q in of]
