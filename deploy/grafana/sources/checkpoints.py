"""Are jobs saved, what does it cost them, and what would be lost now."""

from panels import dashboard, distribution, lines, number, table, text
from sources.common import CHECKPOINTS, JOBS, NONE_OF_THESE, RESTARTS, quantiles

ADVICE = """
- **Failures**: `no_space` and `no_permission` are for a person: `paceline job describe JOB` names
  the directory. The checkpoint before stays the newest; training goes on.
- **Skipped** saves: the storage is slower than saves are asked for. Save less often
  (`every_steps`, `auto_interval: true`), or find faster storage (*Writing*, below).
- **Training stands still** long: not the writing but the copying to memory is slow, or a save
  waits for the one before (`when_busy: wait`).
- **An old newest checkpoint**: so much would be lost with all ranks. `paceline checkpoint save
  JOB` makes one now, `paceline checkpoint list JOB` shows what is there.
"""

SOME = '{job_id=~"$job_id"}'

NOW = [
    number("Complete", "Checkpoints that became complete in the time shown.",
           "sum(increase(paceline_checkpoints_committed_total[$__range]))", "short", decimals=0),
    number("Failed", "Saves that came to nothing in the time shown.",
           'sum(increase(paceline_checkpoint_failures_total{cause!="skipped"}[$__range]))',
           "short", decimals=0, thresholds=NONE_OF_THESE),
    number("Skipped", "Saves left out since those before were still being written.",
           'sum(increase(paceline_checkpoint_failures_total{cause="skipped"}[$__range]))',
           "short", decimals=0, thresholds=[(None, "green"), (1, "orange")]),
    number("Age of the newest checkpoint", "Of the jobs chosen: the longest time since the newest checkpoint.",
           f"max(time() - paceline_job_last_checkpoint_timestamp_seconds{SOME})", "s",
           thresholds=[(None, "green"), (3600, "red")]),
    number("Standing still", "Share of the ranks' time in which training stands still for saves.",
           'sum(rate(paceline_trainer_checkpoint_seconds_total{job_id=~"$job_id",op="blocked"}'
           "[$__rate_interval])) / count(paceline_trainer_step"
           f"{SOME})", "percentunit", decimals=2,
           thresholds=[(None, "green"), (0.01, "orange"), (0.05, "red")]),
    number("Steps lost", "Lost to restarts and recoveries in the time shown.",
           f"sum(increase(paceline_job_steps_lost_total{SOME}[$__range]))", "short", decimals=0,
           thresholds=NONE_OF_THESE),
]

JOB_PANELS = [
    table("Jobs", "Click on the id.", [
        f"max by (cluster, job_id) (paceline_job_checkpoints{SOME})",
        f"max by (cluster, job_id) (paceline_job_last_checkpoint_step{SOME})",
        f"max by (cluster, job_id) (time() - paceline_job_last_checkpoint_timestamp_seconds{SOME})",
        f"max by (cluster, job_id) (paceline_job_step{SOME})",
    ], "short", {"job_id": "Job", "Value #A": "On disk", "Value #B": "Newest step",
                 "Value #C": "Newest ago (s)", "Value #D": "Step now"}, links=("job",)),
    lines("Age of the newest", "What would be lost with all ranks, in time.",
          [(f"time() - paceline_job_last_checkpoint_timestamp_seconds{SOME}", "{{job_id}}")], "s",
          links=("job",)),
    lines("Steps since the newest", "What would be lost with all ranks.",
          [(f"paceline_job_step{SOME} - on (cluster, job_id) "
            f"paceline_job_last_checkpoint_step{SOME}", "{{job_id}}")], "short", links=("job",)),
]

SAVES = [
    lines("Until complete", "From a save's first report until its checkpoint was complete.",
          quantiles("paceline_checkpoint_commit_seconds_bucket", of=(0.5, 0.9, 0.99)), "s"),
    distribution("Training stands still", "Longest time that a rank stood still for a checkpoint.",
                 "sum by (le) (rate(paceline_checkpoint_blocking_seconds_bucket"
                 "[$__rate_interval]))", "s"),
    lines("Failures", "Saves that came to nothing, by cause.",
          [("sum by (cause) (increase(paceline_checkpoint_failures_total[$__rate_interval]))",
            "{{cause}}")], "short", thresholds=NONE_OF_THESE),
]

RANKS = [
    lines("What the time goes into", "Seconds per second of all ranks: stage and write are beside "
          "the training, blocked is not.",
          [("sum by (op) (rate(paceline_trainer_checkpoint_seconds_total"
            f"{SOME}[$__rate_interval]))", "{{op}}")], "short", stacked=True),
    lines("Writing", "Bytes written per second of writing, of each node: how fast its storage is.",
          [(f"sum by (node) (rate(paceline_trainer_checkpoint_bytes_total{SOME}[$__rate_interval]))"
            ' / (sum by (node) (rate(paceline_trainer_checkpoint_seconds_total{job_id=~"$job_id",'
            'op="write"}[$__rate_interval])) > 0)', "{{node}}")], "Bps", links=("node",)),
    lines("Bytes", "Written to checkpoints, of all ranks.",
          [("sum by (job_id) (rate(paceline_trainer_checkpoint_bytes_total"
            f"{SOME}[$__rate_interval]))", "{{job_id}}")], "Bps", links=("job",)),
    lines("Shards", "Made durable, by job.",
          [("sum by (job_id) (increase(paceline_trainer_checkpoint_saves_total"
            f"{SOME}[$__rate_interval]))", "{{job_id}}")], "short"),
    lines("Left out by ranks", "Since the saves before were still being written.",
          [("sum by (job_id, node) (increase(paceline_trainer_checkpoint_skipped_total"
            f"{SOME}[$__rate_interval]))", "{{job_id}} on {{node}}")], "short", links=("node",)),
    lines("Failures of ranks", "By cause and node.",
          [("sum by (cause, node) (increase(paceline_trainer_checkpoint_failures_total"
            f"{SOME}[$__rate_interval]))", "{{cause}} on {{node}}")], "short", links=("node",)),
]

DASHBOARD = dashboard(
    "paceline-checkpoints", "Checkpoints",
    "Are jobs saved, what does it cost them, and what would be lost now.",
    [("", [text(ADVICE)]), ("Now", NOW), ("Jobs", JOB_PANELS), ("Saves", SAVES),
     ("Ranks", RANKS)],
    variables=[JOBS], annotations=[CHECKPOINTS, RESTARTS], span="3h")
