"""One node: is it in service, what runs there, and is it as fast as others."""

from panels import dashboard, lines, number, states, text
from sources.common import DRAINS, NODE, NONE_OF_THESE, SLOWDOWN

ADVICE = """
- **Not ready**: `paceline node describe NODE` says who holds it and why; `paceline node history
  NODE` what happened before.
- **Unreachable or lost**: is the machine up, does `paceline-worker` run (`journalctl -u
  paceline-worker`), can it reach the controller? `docs/operations.md` says what happens to its
  ranks meanwhile.
- **Slow ranks**: take the node out and measure it alone: `paceline node drain NODE --reason ...`,
  then `paceline node check NODE`.
- **Bad values in the check**: compare them with its own median and its peers'; repair or keep it
  drained; `paceline node resume NODE` when it is well.
- A GPU with **ECC errors** or a **failed row remap** has to be reset or replaced; one that is
  **throttled** is hot or short of power.
"""

HERE = '{node=~"$node"}'
WORKER = '{job="paceline-worker",node=~"$node"}'
GPU = "GPU {{gpu}}"

STATE_COLOURS = {
    1: ("in it", "blue"),
    0: ("", "transparent"),
}

NOW = [
    number("State", "As the controller sees it.",
           f"max by (state) (paceline_node_state{HERE} == 1)", "short", legend="{{state}}",
           graph="none"),
    number("Last report", "Time since.",
           f"time() - max(paceline_node_last_heartbeat_timestamp_seconds{HERE})", "s",
           thresholds=[(None, "green"), (10, "orange"), (60, "red")]),
    number("Session", "1 while the worker is connected to the controller.",
           f"min(paceline_worker_controller_connected{HERE})", "short",
           thresholds=[(None, "red"), (1, "green")]),
    number("Ranks running", "Trainers that train.",
           'sum(paceline_worker_trainers{node=~"$node",state="running"})', "short"),
    number("Slowest rank here", "Its own time for a step over the median of its job.",
           f"max(job_rank:paceline_trainer_own_step:relative1m{HERE})", "short", decimals=2,
           thresholds=SLOWDOWN),
    number("Bad values in its check", "Of the newest `paceline node check`; no data: none yet.",
           f"max(paceline_node_check_bad_measurements{HERE})", "short",
           thresholds=NONE_OF_THESE),
]

SERVICE = [
    states("State", "When it was in which.", f"max by (state) (paceline_node_state{HERE})",
           "{{state}}", STATE_COLOURS, width=12),
    lines("Slots", "For ranks: of CPU nodes slots, else GPUs.",
          [(f"sum by (state) (paceline_node_slots{HERE})", "slots {{state}}"),
           (f"sum by (state) (paceline_node_gpus{HERE})", "GPUs {{state}}")], "short", width=6,
          stacked=True),
    lines("Trainers", "By state.",
          [(f"sum by (state) (paceline_worker_trainers{HERE})", "{{state}}")], "short", width=6,
          stacked=True),
    lines("Trainers that ended", "By kind of failure; none is a good end.",
          [(f"sum by (failure) (increase(paceline_worker_trainers_ended_total{HERE}"
            "[$__rate_interval]))", "{{failure}}")], "short"),
    lines("Trainers started and adopted",
          "Adopted ones had been started by the daemon before this one.",
          [(f"sum(increase(paceline_worker_trainers_started_total{HERE}[$__rate_interval]))",
            "started"),
           (f"sum(increase(paceline_worker_trainers_adopted_total{HERE}[$__rate_interval]))",
            "adopted")], "short"),
    lines("Sessions lost", "That came back; and step records dropped.",
          [(f"sum(increase(paceline_worker_reconnects_total{HERE}[$__rate_interval]))",
            "reconnects"),
           (f"sum(increase(paceline_worker_telemetry_dropped_total{HERE}[$__rate_interval]))",
            "step records dropped")], "short"),
]

RANKS = [
    lines("Own time over the median of the job", "Of each rank here; 1 is like the others.",
          [(f"job_rank:paceline_trainer_own_step:relative1m{HERE}", "{{job_id}} rank {{rank}}")],
          "short", low=None, thresholds=SLOWDOWN, links=("job", "stragglers")),
    lines("Slow ranks", "As the detector sees them, against their peers.",
          [(f"paceline_straggler_slowdown_ratio{HERE}", "{{job_id}} rank {{rank}}: {{cause}}")],
          "short", low=1, thresholds=SLOWDOWN, links=("stragglers",)),
    lines("Samples per second", "Of each rank here.",
          [(f"sum by (job_id, rank) (paceline_trainer_samples_per_second{HERE})",
            "{{job_id}} rank {{rank}}")], "short", links=("job",)),
    lines("Phases", "Seconds per second of the ranks here.",
          [(f"sum by (phase) (rate(paceline_trainer_phase_seconds_total{HERE}[$__rate_interval]))",
            "{{phase}}")], "short", stacked=True),
    lines("Memory of the trainers", "Resident.",
          [(f"sum by (job_id, rank) (paceline_trainer_memory_rss_bytes{HERE})",
            "{{job_id}} rank {{rank}}")], "bytes", stacked=True, links=("job",)),
    lines("Growth of the memory", "Over the last intervals of log_every steps.",
          [(f"sum by (job_id, rank) (paceline_trainer_memory_rss_slope_bytes_per_second{HERE})",
            "{{job_id}} rank {{rank}}")], "Bps", low=None, links=("job",)),
]

GPUS = [
    lines("Utilization", "Share of the time with a kernel running.",
          [(f"paceline_gpu_utilization_ratio{HERE}", GPU)], "percentunit", high=1),
    lines("Memory", "Used, of its capacity.",
          [(f"paceline_gpu_memory_used_bytes{HERE} / paceline_gpu_memory_capacity_bytes{HERE}",
            GPU)], "percentunit", high=1),
    lines("Temperature", "Of the core.", [(f"paceline_gpu_temperature_celsius{HERE}", GPU)],
          "celsius", thresholds=[(None, "green"), (85, "red")]),
    lines("Power", "Energy used per second.",
          [(f"rate(paceline_gpu_energy_joules_total{HERE}[$__rate_interval])", GPU)], "watt"),
    lines("SM clock", "Falls when the GPU is throttled.",
          [(f"paceline_gpu_sm_clock_hertz{HERE}", GPU)], "hertz"),
    lines("Faults", "Throttled, uncorrected ECC errors, failed row remaps.",
          [(f"paceline_gpu_throttled{HERE}", f"{GPU} throttled"),
           (f"paceline_gpu_ecc_errors{HERE}", f"{GPU} ECC errors"),
           (f"paceline_gpu_row_remap_failed{HERE}", f"{GPU} row remap failed")], "short",
          thresholds=NONE_OF_THESE),
]

DAEMON = [
    lines("Processor", "Of the worker daemon; trainers are not in it.",
          [(f"rate(process_cpu_seconds_total{WORKER}[$__rate_interval])", "{{instance}}")],
          "percentunit"),
    lines("Memory", "Of the worker daemon.",
          [(f"process_resident_memory_bytes{WORKER}", "{{instance}}")],
          "bytes"),
    lines("File descriptors", "Of the worker daemon, and how many it may have.",
          [(f"process_open_fds{WORKER}", "open"), (f"process_max_fds{WORKER}", "limit")],
          "short"),
]

DASHBOARD = dashboard(
    "paceline-node", "Node", "Is it in service, what runs there, is it as fast as others.",
    [("", [text(ADVICE, height=6)]), ("Now", NOW), ("Ranks", RANKS), ("In service", SERVICE),
     ("GPUs (no data on a node without)", GPUS), ("The worker daemon", DAEMON)],
    variables=[NODE], annotations=[DRAINS])
