"""Who is slow, since when and why, what was done about it, and whether that helped."""

from panels import dashboard, heat_map, lines, number, table, text
from sources.common import (GENERATIONS, JOBS, NONE_OF_THESE, REMEDIES, SLOWDOWN, VERDICTS)

ADVICE = """
- **One dark row** in the heat map: that rank is slow. The table names its node and the cause:
  `compute`: check the node (`paceline node check NODE`); `data`: its storage; `host_pause`: its
  processors; `imbalance`: its batches or stage, no other node would be faster.
- **Several rows of one node**: the node. **A dark column over all rows**: everybody waits for
  something shared (storage, network): no rank is to blame, and the verdict is `group`.
- **What Paceline advises or did**: `paceline job advise JOB`, `paceline job decisions JOB`. With
  `stragglers.mode: advise` an advice waits for `paceline job apply JOB ADVICE`.
- **Measured gain far below the predicted one**: it is taken back by itself; the decision says why
  (`paceline job decisions JOB ID`).
- A **rank that waits** is no straggler: waits for others are left out here.
"""

SOME = '{job_id=~"$job_id"}'


def step_time(what, by="job_id, remedy"):
    return (f"max by ({by}) "
            f'(paceline_remedy_step_seconds{{job_id=~"$job_id",what="{what}"}})')


def gain(what):
    """How much faster steps became: the time before over that which is asked for."""
    return f'{step_time("before")} / ({step_time(what)} > 0)'


def in_range(family, matcher):
    return f'sum(increase({family}{{job_id=~"$job_id",{matcher}}}[$__range]))'


NOW = [
    number("Slow ranks", "Slower than their peers now.",
           f"sum(paceline_straggler_suspects{SOME})", "short", thresholds=NONE_OF_THESE),
    number("Slowest rank", "Its own time for a step over the median of its job.",
           f"max(job_rank:paceline_trainer_own_step:relative1m{SOME})", "short", decimals=2,
           thresholds=SLOWDOWN),
    number("Slow for long", "Verdicts `persistent` and `node` in the time shown.",
           in_range("paceline_straggler_verdicts_total", 'verdict=~"persistent|node"'), "short",
           decimals=0, thresholds=NONE_OF_THESE),
    number("Remedies that helped", "In the time shown.",
           in_range("paceline_remedies_total", 'outcome="helped"'), "short", decimals=0),
    number("That did not", "Did not help, or failed, in the time shown.",
           in_range("paceline_remedies_total", 'outcome=~"did_not_help|failed"'), "short",
           decimals=0, thresholds=NONE_OF_THESE),
    number("Advice that waits", "Advised, less those ordered or withdrawn, in the time shown.",
           in_range("paceline_remedies_total", 'outcome="advised"') + " - "
           + in_range("paceline_remedies_total", 'outcome=~"ordered|withdrawn"'),
           "short", decimals=0, low=0),
]

MAP = [
    heat_map("Own time of each rank over the median of job $job_id",
             "A rank's time for a step without its waits for others. 1 is like the others.",
             f"max by (job_id, rank) (job_rank:paceline_trainer_own_step:relative1m{SOME})",
             "{{rank}}", "short", "Relative own time", low=0.8, high=2, repeat="job_id"),
    lines("Share of the time that ranks wait",
          "Communication, averaging and round_wait of all ranks: what slow ones cost, and the "
          "transfers themselves.",
          [('sum by (job_id) (rate(paceline_job_phase_seconds_total{job_id=~"$job_id",'
            'phase=~"communication|averaging|round_wait"}[$__rate_interval])) / (sum by (job_id) '
            f"(rate(paceline_job_phase_seconds_total{SOME}[$__rate_interval])) > 0)",
            "{{job_id}}")], "percentunit", high=1, width=12),
    lines("The slowest ranks' own time", "For a step, without waits: the five largest.",
          [(f"topk(5, max by (job_id, rank, node) "
            f"(job_rank:paceline_trainer_own_step_seconds:rate1m{SOME}))",
            "{{job_id}} rank {{rank}} on {{node}}")], "s", width=12, links=("node",)),
]

SUSPECTS = [
    table("Slow ranks now", "At most ten of each job; the slowdown is against their peers.",
          ["max by (cluster, job_id, rank, node, cause) "
           f"(paceline_straggler_slowdown_ratio{SOME})"],
          "short", {"job_id": "Job", "rank": "Rank", "node": "Node", "cause": "Cause",
                    "Value": "Slowdown"}, width=12, links=("node", "job"), sort="Slowdown",
          thresholds=SLOWDOWN),
    lines("Slow ranks", "Their time over that of their peers.",
          [(f"paceline_straggler_slowdown_ratio{SOME}",
            "{{job_id}} rank {{rank}} on {{node}}: {{cause}}")], "short", width=12, low=1,
          thresholds=SLOWDOWN, links=("node",)),
    lines("Verdicts", "By kind.",
          [("sum by (verdict) (increase(paceline_straggler_verdicts_total"
            f"{SOME}[$__rate_interval]))", "{{verdict}}")], "short", width=12),
    lines("Remedies", "By what became of them.",
          [(f"sum by (outcome) (increase(paceline_remedies_total{SOME}[$__rate_interval]))",
            "{{outcome}}")], "short", width=12),
]

GAIN = [
    lines("Gain: predicted", "Time of a step before the newest remedy of a kind over the predicted "
          "one. 1 is no gain.", [(gain("predicted"), "{{job_id}} {{remedy}}")], "short", low=1,
          decimals=2),
    lines("Gain: measured", "The same, with the time that was measured after it.",
          [(gain("measured"), "{{job_id}} {{remedy}}")], "short", low=None, decimals=2,
          thresholds=[(None, "red"), (1, "green")]),
    table("Newest remedies", "Mean step before, predicted, and measured.", [
        step_time(what, by="cluster, job_id, remedy")
        for what in ("before", "predicted", "measured")
    ], "s", {"job_id": "Job", "remedy": "Remedy", "Value #A": "Before", "Value #B": "Predicted",
             "Value #C": "Measured"}, decimals=3, links=("job",)),
]

DASHBOARD = dashboard(
    "paceline-stragglers", "Stragglers",
    "Who is slow, since when and why, what was done, and whether it helped.",
    [("", [text(ADVICE, height=7)]), ("Now", NOW), ("Ranks", MAP), ("Verdicts", SUSPECTS),
     ("Did it help", GAIN)],
    variables=[JOBS], annotations=[VERDICTS, REMEDIES, GENERATIONS])
