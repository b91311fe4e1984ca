"""One job: does it progress, how fast, and what does the rest of its time go into."""

from panels import dashboard, distribution, lines, number, states, text
from sources.common import (CHECKPOINTS, GENERATIONS, GOODPUT, JOB, NONE_OF_THESE, REMEDIES,
                            RESTARTS, SLOWDOWN, VERDICTS, quantiles)

ADVICE = """
- **No steps** while the state is running: a rank may hang. `paceline job describe JOB` names it;
  it is replaced by itself if the job recovers (`docs/recovery.md`).
- Much **communication, averaging or round wait**: ranks wait for a slow one. Open *Stragglers*;
  by hand: `paceline job advise JOB`.
- Much **data wait**: storage or loaders are too slow; on one rank only, it is that node.
- Low **goodput**: see *Where the time goes*. `recovery` and `startup` are failures,
  `outside_steps` are evaluations and saves, `queued` does not count.
- **Attempt** or **generation** grows: members fail. `paceline job describe JOB` lists why.
"""

ONE = '{job_id=~"$job_id"}'

NOW = [
    number("State", "The state that the job is in.",
           f"max by (state) (paceline_job_state{ONE} == 1)", "short", legend="{{state}}",
           graph="none"),
    number("Step", "Steps that every rank has completed.", f"max(paceline_job_step{ONE})",
           "short"),
    number("Loss", "Mean over the ranks.", f"max(paceline_job_loss{ONE})", "short", decimals=4),
    number("Samples per second", "Of all ranks together.",
           f"max(paceline_job_samples_per_second{ONE})", "short"),
    number("Goodput", "Time in steps over time since the first start, last hour.",
           f"max(job:paceline_job_goodput:ratio_rate1h{ONE})", "percentunit", thresholds=GOODPUT),
    number("Slow ranks", "Slower than their peers now.",
           f"max(paceline_straggler_suspects{ONE})", "short", thresholds=NONE_OF_THESE),
    number("MFU", "Model FLOPs utilization. No data where the device's peak is not known: "
           "peak_flops in the job's file gives it.",
           f"max(paceline_job_mfu_ratio{ONE})", "percentunit", low=0, high=1),
    number("Accuracy", "Of the latest evaluation.",
           f"max(paceline_job_evaluation_accuracy_ratio{ONE})", "percentunit", low=0, high=1),
    number("Attempt", "1, and one more for each start anew.", f"max(paceline_job_attempt{ONE})",
           "short", thresholds=[(None, "green"), (2, "orange")]),
    number("Generation", "One more for each change of the members.",
           f"max(paceline_job_generation{ONE})", "short"),
    number("Steps lost", "Lost to restarts and recoveries.",
           f"max(increase(paceline_job_steps_lost_total{ONE}[$__range]))", "short", decimals=0,
           thresholds=NONE_OF_THESE),
    number("Newest checkpoint", "Since it was made.",
           f"time() - max(paceline_job_last_checkpoint_timestamp_seconds{ONE})", "s",
           thresholds=[(None, "green"), (3600, "red")]),
]

PROGRESS = [
    lines("Steps", "Completed by every rank.", [(f"max(paceline_job_step{ONE})", "step")],
          "short", width=6),
    lines("Loss", "Mean over the ranks, and that of the evaluations.",
          [(f"max(paceline_job_loss{ONE})", "loss"),
           (f"max(paceline_job_evaluation_loss{ONE})", "evaluation")], "short", low=None,
          width=6),
    lines("Throughput", "Of all ranks together; tokens only of text.",
          [(f"max(paceline_job_samples_per_second{ONE})", "samples/s"),
           (f"max(paceline_job_tokens_per_second{ONE})", "tokens/s")], "short", width=6),
    lines("Model FLOP/s", "Floating-point operations of forward and backward pass, of all ranks "
          "together: by the formula of a built-in model, counted in the first step, or given in "
          "the job's file.",
          [(f"max by (source) (paceline_job_flops_per_second{ONE})", "{{source}}")], "flops",
          width=6),
]

TIME = [
    lines("Where the time goes", "Wall time of the job by category.",
          [(f"sum by (category) (rate(paceline_job_time_seconds_total{ONE}[$__rate_interval]))",
            "{{category}}")], "percentunit", stacked=True, width=12, high=1),
    lines("Phases of the steps", "Share of the ranks' time; waiting is communication, averaging "
          "and round_wait.",
          [(f"sum by (phase) (rate(paceline_job_phase_seconds_total{ONE}[$__rate_interval]))"
            " / ignoring (phase) group_left () "
            f"(sum(rate(paceline_job_phase_seconds_total{ONE}[$__rate_interval])) > 0)",
            "{{phase}}")], "percentunit", stacked=True, width=12, high=1),
    lines("Step time", "Of all ranks' steps.",
          quantiles(f"paceline_job_step_duration_seconds_bucket{ONE}", of=(0.5, 0.9, 0.99)), "s"),
    distribution("Step times", "How many steps took how long.",
                 f"sum by (le) (rate(paceline_job_step_duration_seconds_bucket{ONE}"
                 "[$__rate_interval]))", "s"),
    lines("Slowest ranks", "Time over that of their peers.",
          [(f"paceline_straggler_slowdown_ratio{ONE}", "rank {{rank}} on {{node}}: {{cause}}")],
          "short", thresholds=SLOWDOWN, low=1, links=("node", "stragglers")),
]

STATE = [
    states("State", "When the job was in which.",
           f"max by (state) (paceline_job_state{ONE})", "{{state}}",
           {1: ("in it", "blue"), 0: ("", "transparent")}, width=12, height=9),
    lines("Ranks", "Active ones, spares that stand by, and leaving ones.",
          [(f"sum by (role) (paceline_job_ranks{ONE})", "{{role}}"),
           (f"max(paceline_job_spares_wanted{ONE})", "spares wanted")], "short", width=6,
          height=9),
    lines("Generation and attempt", "Each step is a change of the members, or a start.",
          [(f"max(paceline_job_generation{ONE})", "generation"),
           (f"max(paceline_job_attempt{ONE})", "attempt"),
           (f"max(paceline_job_plan_version{ONE})", "plan version")], "short", width=6, height=9),
]

RANKS = [
    lines("MFU", "Model FLOPs utilization of each rank, over the time in steps. No data where the "
          "device's peak is not known: peak_flops in the job's file gives it.",
          [(f"max by (rank, node) (paceline_trainer_mfu_ratio{ONE})",
            "rank {{rank}} on {{node}}")], "percentunit", high=1, links=("node",)),
    lines("Samples per second", "Of each rank.",
          [(f"sum by (rank, node) (paceline_trainer_samples_per_second{ONE})",
            "rank {{rank}} on {{node}}")], "short", links=("node",)),
    lines("Time in the present phase", "A rank that stands still rises.",
          [(f"max by (rank, node) (paceline_trainer_current_phase_seconds{ONE})",
            "rank {{rank}} on {{node}}")], "s", links=("node",)),
    lines("Waiting for data", "Share of the rank's time.",
          [(f"max by (rank, node) (paceline_trainer_data_wait_ratio{ONE})",
            "rank {{rank}} on {{node}}")], "percentunit", high=1, links=("node",)),
    lines("Objects of stores", "Bytes that came from them per second, of all ranks. No data where "
          "a job's data is in files.",
          [(f"sum(rate(paceline_trainer_object_fetched_bytes_total{ONE}[$__rate_interval]))",
            "fetched")], "Bps"),
    lines("Reads of objects", "Of blocks, per second, of all ranks: those that were on the node, "
          "and those that had to wait. Requests that were made again. No data where a job's data "
          "is in files.",
          [(f"sum(rate(paceline_trainer_object_cached_reads_total{ONE}[$__rate_interval]))",
            "on the node"),
           (f"sum(rate(paceline_trainer_object_waited_reads_total{ONE}[$__rate_interval]))",
            "waited"),
           (f"sum(rate(paceline_trainer_object_retries_total{ONE}[$__rate_interval]))",
            "made again")], "short"),
    lines("Waiting for objects", "Time of the threads that load batches, mean over the ranks: at "
          "100 % of each rank one thread always waits. No data where a job's data is in files.",
          [(f"avg(rate(paceline_trainer_object_wait_seconds_total{ONE}[$__rate_interval]))",
            "waiting")], "percentunit"),
    lines("Communication", "Time that a rank spent in it per second, by the size of its groups.",
          [("avg by (kind, group_size) (rate(paceline_trainer_communication_seconds_total"
            f"{ONE}[$__rate_interval]))", "{{kind}} of {{group_size}} ranks")],
          "percentunit"),
    lines("Bytes sent", "In communication, of all ranks.",
          [("sum by (kind, group_size) (rate(paceline_trainer_communication_bytes_total"
            f"{ONE}[$__rate_interval]))", "{{kind}} of {{group_size}} ranks")], "Bps"),
    lines("Memory", "Resident memory of each rank.",
          [(f"max by (rank, node) (paceline_trainer_memory_rss_bytes{ONE})",
            "rank {{rank}} on {{node}}")], "bytes", links=("node",)),
    lines("Device memory now", "In live tensors, and held by the allocator: the greatest of all "
          "ranks, at the end of their latest intervals. No data on CPUs.",
          [(f"max(paceline_trainer_memory_active_bytes{ONE})", "live tensors"),
           (f"max(paceline_trainer_memory_reserved_bytes{ONE})", "held")], "bytes"),
    lines("Device memory", "Peak in live tensors of each rank, and what the device has. No data on "
          "CPUs.",
          [(f"max by (rank, node) (paceline_trainer_memory_active_peak_bytes{ONE})",
            "rank {{rank}} on {{node}}"),
           (f"min(paceline_trainer_memory_capacity_bytes{ONE})", "capacity")], "bytes",
          links=("node",)),
    lines("Device memory held", "Peak of what the allocator of a rank holds for small and for "
          "large blocks, the greatest of all ranks. No data on CPUs.",
          [(f"max(paceline_trainer_memory_reserved_peak_bytes{ONE})", "all"),
           (f"max(paceline_trainer_memory_large_pool_peak_bytes{ONE})", "large blocks"),
           (f"max(paceline_trainer_memory_small_pool_peak_bytes{ONE})", "small blocks")], "bytes"),
    lines("Device memory that ran short", "Allocations that had to be tried again, or failed. No "
          "data on CPUs.",
          [(f"sum(increase(paceline_trainer_alloc_retries_total{ONE}[$__rate_interval]))",
            "tried again"),
           (f"sum(increase(paceline_trainer_ooms_total{ONE}[$__rate_interval]))", "failed")],
          "short", thresholds=NONE_OF_THESE),
    lines("Drift", "Norm of the change of each rank's parameters by the newest mean. No data where "
          "gradients are averaged.",
          [(f"max by (rank) (paceline_trainer_drift{ONE})", "rank {{rank}}")], "short"),
    lines("Norm of the gradients", "Before clipping.",
          [(f"max by (rank) (paceline_trainer_grad_norm{ONE})", "rank {{rank}}")], "short"),
    lines("Learning rate", "Of the last step.",
          [(f"max(paceline_trainer_learning_rate{ONE})", "learning rate")], "short"),
    lines("Skipped steps", "That the optimizer left out, as gradients were not finite.",
          [(f"sum(increase(paceline_trainer_skipped_steps_total{ONE}[$__rate_interval]))",
            "skipped")], "short", thresholds=NONE_OF_THESE),
]

SLIPSTREAM = [
    lines("Rounds", "Finished per second, and with how many ranks' work in each.",
          [(f"max(rate(paceline_slipstream_rounds_total{ONE}[$__rate_interval]))", "rounds/s"),
           (f"max(rate(paceline_slipstream_contributing_ranks_total{ONE}[$__rate_interval])) / "
            f"(max(rate(paceline_slipstream_rounds_total{ONE}[$__rate_interval])) > 0)",
            "ranks in a round")], "short", width=6),
    lines("Window", "From one round to the next.",
          [(f"max(paceline_slipstream_window_seconds{ONE})", "window")], "s", width=6),
    lines("Lost work", "Share of the gradients that came late and were dropped, by rank.",
          [("sum by (rank) (rate(paceline_slipstream_dropped_gradients_total"
            f"{ONE}[$__rate_interval])) / (sum by (rank) (rate(paceline_slipstream_steps_total"
            f"{ONE}[$__rate_interval])) > 0)", "rank {{rank}}")], "percentunit", width=6),
    lines("Waits", "Share of the ranks' time: for rounds, and since they were too far ahead.",
          [(f"avg(rate(paceline_slipstream_round_wait_seconds_total{ONE}[$__rate_interval]))",
            "for a round"),
           (f"avg(rate(paceline_slipstream_cap_wait_seconds_total{ONE}[$__rate_interval]))",
            "too far ahead")], "percentunit", width=6),
]

DASHBOARD = dashboard(
    "paceline-job", "Job", "One job: does it progress, how fast, and what does its time go into.",
    [("", [text(ADVICE, height=6)]), ("Now", NOW), ("Progress", PROGRESS),
     ("Where the time goes", TIME), ("State and members", STATE), ("Ranks", RANKS),
     ("Slipstream", SLIPSTREAM)],
    variables=[JOB],
    annotations=[VERDICTS, REMEDIES, GENERATIONS, RESTARTS, CHECKPOINTS])
