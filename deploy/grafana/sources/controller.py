"""The controller: does it answer, is it fast, and what does it use."""

from panels import dashboard, distribution, lines, number, text
from sources.common import NONE_OF_THESE, quantiles

ADVICE = """
- **Down**: jobs train on; start it again (`systemctl start paceline-controller`, then `journalctl
  -u paceline-controller`). Nothing is lost: its state is on disk.
- **Slow commits**: the disk under `--state-dir` is slow or shared; it must be a local one. **Loop
  delay** with fast commits: too many events; see *Events decided* and *Calls*.
- **Calls that fail** with `Unavailable` at the time of a restart are repeated by their callers;
  `Internal` and `Unknown` are worth a report.
- **Fewer workers connected** than nodes: see the nodes on *Fleet*.
- **Lists started anew** (watch streams too slow): a client cannot keep up, or its network.
"""

ITS = '{job="paceline-controller"}'

NOW = [
    number("Up", "Controllers that Prometheus reaches.", f"sum(up{ITS})", "short",
           thresholds=[(None, "red"), (1, "green")]),
    number("Runs since", "Time since its start.",
           f"time() - max(process_start_time_seconds{ITS})", "s", graph="none"),
    number("Version", "Of the controller.",
           'max by (version) (paceline_build_info{component="controller"})', "short",
           legend="{{version}}", graph="none"),
    number("Workers connected", "Sessions.", "sum(paceline_worker_sessions)", "short"),
    number("State store", "Size on disk.", "sum(paceline_state_size_bytes)", "bytes"),
    number("Loop delay p99", "How late timers fire.",
           "histogram_quantile(0.99, sum by (le) "
           "(rate(paceline_controller_loop_delay_seconds_bucket[$__rate_interval])))", "s",
           thresholds=[(None, "green"), (0.1, "orange"), (0.5, "red")]),
]

CALLS = [
    lines("Calls", "Started per second, by method.",
          [("sum by (grpc_method) (rate(grpc_server_started_total[$__rate_interval]))",
            "{{grpc_method}}")], "ops"),
    lines("Calls that fail", "Share that ended for a reason that is not the caller's.",
          [("method:grpc_server_handled:error_ratio_rate5m", "{{grpc_method}}")], "percentunit",
          thresholds=[(None, "green"), (0.05, "red")]),
    lines("Time of unary calls", "99 of 100 are faster.",
          quantiles("grpc_server_handling_seconds_bucket", "grpc_method, ", of=(0.99,)), "s",
          thresholds=[(None, "green"), (1, "red")]),
    lines("Answers", "Ended per second, by code.",
          [("sum by (grpc_code) (rate(grpc_server_handled_total[$__rate_interval]))",
            "{{grpc_code}}")], "ops"),
    lines("Watch streams", "Open, by what they watch.",
          [("sum by (resource) (paceline_watch_streams)", "{{resource}}")], "short"),
    lines("Lists started anew", "Watch streams that fell too far behind; and requests that were "
          "answered from the record of an earlier one.",
          [("sum by (resource) (increase(paceline_watch_resyncs_total[$__rate_interval]))",
            "{{resource}}"),
           ("sum(increase(paceline_request_replays_total[$__rate_interval]))", "replays")],
          "short"),
    lines("Refused by limits", "Calls, sessions and connections that were too many, too large or "
          "too slow, by limit.",
          [("sum by (limit) (increase(paceline_limit_refusals_total[$__rate_interval]))",
            "{{limit}}")], "short"),
]

LOOP = [
    lines("Events decided", "Per second.",
          [("sum(rate(paceline_controller_event_duration_seconds_count[$__rate_interval]))",
            "events")], "ops"),
    lines("Time to decide on one", "Scheduling included.",
          quantiles("paceline_controller_event_duration_seconds_bucket"), "s"),
    distribution("Loop delay", "How late a timer of once a second fires.",
                 "sum by (le) (rate(paceline_controller_loop_delay_seconds_bucket"
                 "[$__rate_interval]))", "s"),
    lines("Queues", "The most that waited at a time within a second: tasks for the loop, batches of "
          "changes to be durable.",
          [("max(paceline_controller_loop_queue_tasks)", "loop"),
           ("max(paceline_state_commit_queue_batches)", "commits")], "short"),
    lines("Commits", "Transactions of the state store per second.",
          [("sum(rate(paceline_state_commit_duration_seconds_count[$__rate_interval]))",
            "commits")], "ops"),
    lines("Time of a commit", "Until it is durable.",
          quantiles("paceline_state_commit_duration_seconds_bucket"), "s",
          thresholds=[(None, "green"), (0.5, "red")]),
    lines("Step records dropped", "By workers, since a buffer was full.",
          [("sum(increase(paceline_telemetry_dropped_total[$__rate_interval]))", "dropped")],
          "short", thresholds=NONE_OF_THESE),
]

PROCESS = [
    lines("Processor", "1 is one processor.",
          [(f"rate(process_cpu_seconds_total{ITS}[$__rate_interval])", "{{instance}}")],
          "percentunit", width=6),
    lines("Memory", "Resident and virtual.",
          [(f"process_resident_memory_bytes{ITS}", "resident"),
           (f"process_virtual_memory_bytes{ITS}", "virtual")], "bytes", width=6),
    lines("File descriptors", "Open, and how many it may have.",
          [(f"process_open_fds{ITS}", "open"), (f"process_max_fds{ITS}", "limit")], "short",
          width=6),
    lines("Threads", "Of the process.", [(f"process_threads{ITS}", "{{instance}}")], "short",
          width=6),
    lines("Time of a scrape", "Of the controller and of its slowest worker.",
          [(f"max(scrape_duration_seconds{ITS})", "controller"),
           ('max(scrape_duration_seconds{job="paceline-worker"})', "slowest worker")], "s",
          width=12),
    lines("Samples of a scrape", "How many series there are.",
          [(f"sum(scrape_samples_scraped{ITS})", "controller"),
           ('sum(scrape_samples_scraped{job="paceline-worker"})', "all workers")], "short",
          width=12),
]

DASHBOARD = dashboard(
    "paceline-controller", "Controller", "Does it answer, is it fast, and what does it use.",
    [("", [text(ADVICE)]), ("Now", NOW), ("Calls", CALLS), ("Loop and state store", LOOP),
     ("Process", PROCESS)])
