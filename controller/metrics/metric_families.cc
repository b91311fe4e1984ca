#include "controller/metrics/metric_families.h"

#include "common/metrics/process_metrics.h"

namespace paceline {
namespace {

constexpr MetricType kCounter = MetricType::kCounter;
constexpr MetricType kGauge = MetricType::kGauge;
constexpr MetricType kHistogram = MetricType::kHistogram;

std::vector<MetricFamily> OfTheController() {
  return {
      {"paceline_build_info", kGauge, "info", "component version",
       "Build information; value is always 1."},
      {"paceline_controller_leader", kGauge, "bool", "",
       "1 while this controller leads, 0 while it stands by for another one."},
      {"paceline_certificate_expiry_timestamp_seconds", kGauge, "seconds", "",
       "When this process' certificate ends, Unix time. Absent without TLS."},
      {"paceline_state_commit_duration_seconds",
       kHistogram,
       "seconds",
       "",
       "Time to durably commit one state transaction.",
       {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1}},
      {"paceline_state_commit_queue_batches", kGauge, "batches", "",
       "Most batches of changes that waited at a time to be durable, in the last second."},
      {"paceline_state_size_bytes", kGauge, "bytes", "",
       "Size of the state store on disk, its write-ahead log included."},
      {"paceline_controller_event_duration_seconds",
       kHistogram,
       "seconds",
       "",
       "Time to decide on one event, scheduling included; without storing what was decided.",
       {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1}},
      {"paceline_controller_loop_delay_seconds",
       kHistogram,
       "seconds",
       "",
       "How late the event loop runs a timer of once a second.",
       {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5}},
      {"paceline_controller_loop_queue_tasks", kGauge, "tasks", "",
       "Most tasks that waited at a time for the event loop, in the last second."},
      {"paceline_watch_streams", kGauge, "streams", "resource", "Open watch streams of clients."},
      {"paceline_watch_resyncs_total", kCounter, "streams", "resource",
       "Watch streams that were ended since they had fallen too far behind."},
      {"paceline_request_replays_total", kCounter, "requests", "",
       "Requests answered from the record of an earlier one."},
      {"paceline_access_refusals_total", kCounter, "calls", "reason",
       "Calls that were not let in, by what was missing."},
      {"paceline_limit_refusals_total", kCounter, "refusals", "limit",
       "Calls, sessions and connections that were refused or ended since they were too many, too "
       "large or too slow, by limit."},
      {"grpc_server_started_total", kCounter, "calls", "grpc_service grpc_method grpc_type",
       "RPCs that were begun."},
      {"grpc_server_handled_total", kCounter, "calls",
       "grpc_service grpc_method grpc_type grpc_code", "RPCs that have ended, by status code."},
      {"grpc_server_handling_seconds",
       kHistogram,
       "seconds",
       "grpc_service grpc_method grpc_type",
       "Duration of unary RPCs.",
       {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}},
  };
}

std::vector<MetricFamily> OfNodes() {
  return {
      {"paceline_node_info", kGauge, "info", "node gpu_model rack version",
       "Facts about a node; value is always 1. Empty where unknown."},
      {"paceline_node_state", kGauge, "bool", "node state",
       "1 for the node's state, 0 for the others."},
      {"paceline_node_slots", kGauge, "slots", "node state",
       "Slots for CPU ranks, used or free. Of a node with GPUs only while one is used."},
      {"paceline_node_gpus", kGauge, "GPUs", "node state", "GPUs, used by jobs or free."},
      {"paceline_node_last_heartbeat_timestamp_seconds", kGauge, "seconds", "node",
       "When the node's worker reported last, Unix time."},
      {"paceline_node_drain_started_timestamp_seconds", kGauge, "seconds", "node source",
       "When the drain that holds the node began, Unix time. Absent without a drain."},
      {"paceline_node_check_bad_measurements", kGauge, "measurements", "node",
       "Bad measurements of the node's newest check. Absent before the first."},
      {"paceline_node_drains_total", kCounter, "drains", "source outcome",
       "Drains that came to an end: the node was emptied, the drain was ended before that, or the "
       "node was lost."},
      {"paceline_automation_paused", kGauge, "bool", "source",
       "1 while the automation is paused, by a person or by its own brake."},
      {"paceline_worker_sessions", kGauge, "workers", "", "Workers connected."},
      {"paceline_telemetry_dropped_total", kCounter, "records", "",
       "Step records that workers dropped because a buffer was full, or lost with a connection."},
  };
}

std::vector<MetricFamily> OfAllJobs() {
  return {
      {"paceline_queue_jobs", kGauge, "jobs", "queue state", "Jobs by queue and state."},
      {"paceline_job_queue_wait_seconds",
       kHistogram,
       "seconds",
       "queue",
       "Submitted until placed.",
       {0.1, 0.5, 1, 2.5, 5, 10, 30, 120, 600, 3600, 14400}},
      {"paceline_job_start_duration_seconds",
       kHistogram,
       "seconds",
       "queue",
       "Placed until every rank trains.",
       {0.1, 0.5, 1, 2.5, 5, 10, 30, 120, 600, 3600}},
      {"paceline_jobs_finished_total", kCounter, "jobs", "queue state failure",
       "Jobs that reached a terminal state, with the kind of failure of those that failed."},
      {"paceline_job_restarts_total", kCounter, "restarts", "queue failure",
       "Starts of jobs after a rank failed, by kind of failure."},
      {"paceline_job_membership_changes_total", kCounter, "changes", "cause",
       "Generations that followed another while the job trained, by cause."},
      {"paceline_job_recovery_duration_seconds",
       kHistogram,
       "seconds",
       "cause",
       "From the decision on a generation until all its members trained.",
       {0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300}},
      {"paceline_checkpoints_committed_total", kCounter, "checkpoints", "",
       "Checkpoints that became complete."},
      {"paceline_checkpoint_commit_seconds",
       kHistogram,
       "seconds",
       "",
       "From a save's first report until its checkpoint was complete.",
       {0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800}},
      {"paceline_checkpoint_blocking_seconds",
       kHistogram,
       "seconds",
       "",
       "Longest time that a rank stood still for a checkpoint that became complete.",
       {0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}},
      {"paceline_checkpoint_failures_total", kCounter, "saves", "cause",
       "Saves that came to nothing, by cause; those left out count as skipped."},
  };
}

std::vector<MetricFamily> OfAJob() {
  return {
      {"paceline_job_info", kGauge, "info", "job_id job_name queue device strategy",
       "Facts about a job; value is always 1."},
      {"paceline_job_state", kGauge, "bool", "job_id state",
       "1 for the job's state, 0 for the others."},
      {"paceline_job_created_timestamp_seconds", kGauge, "seconds", "job_id",
       "When the job was submitted, Unix time."},
      {"paceline_job_attempt", kGauge, "attempts", "job_id",
       "Starts after failures since the job was submitted or resumed, and the first one."},
      {"paceline_job_generation", kGauge, "generations", "job_id",
       "Number of the job's newest generation."},
      {"paceline_job_plan_version", kGauge, "versions", "job_id",
       "Number of the plan that the job's ranks shall train by."},
      {"paceline_job_ranks", kGauge, "ranks", "job_id role",
       "Trainers of the job: active ones, spares, and those that leave."},
      {"paceline_job_nodes", kGauge, "nodes", "job_id role",
       "Nodes with trainers of the job; one counts once, active before spare before leaving."},
      {"paceline_job_spares_wanted", kGauge, "ranks", "job_id",
       "Spares that the job's file asks for."},
      {"paceline_job_gpus", kGauge, "GPUs", "job_id", "GPUs that the job holds."},
  };
}

// Of a job's training: its steps, checkpoints and stragglers.
std::vector<MetricFamily> OfTraining() {
  return {
      {"paceline_job_step", kGauge, "steps", "job_id",
       "Steps that every rank of the job has completed."},
      {"paceline_job_steps_executed_total", kCounter, "steps", "job_id",
       "Steps that the job has done, those done again included."},
      {"paceline_job_steps_lost_total", kCounter, "steps", "job_id",
       "Steps that restarts and recoveries have thrown away."},
      {"paceline_job_samples_total", kCounter, "samples", "job_id",
       "Samples that the ranks have trained on, those trained on again included."},
      {"paceline_job_tokens_total", kCounter, "tokens", "job_id",
       "Tokens that the ranks have trained on, those trained on again included."},
      {"paceline_job_samples_per_second", kGauge, "samples per second", "job_id",
       "Samples per second of all ranks together."},
      {"paceline_job_tokens_per_second", kGauge, "tokens per second", "job_id",
       "Tokens per second of all ranks together."},
      {"paceline_job_loss", kGauge, "loss", "job_id", "Last reported loss, mean over the ranks."},
      {"paceline_job_mfu_ratio", kGauge, "ratio", "job_id",
       "Model FLOPs utilization, 0 to 1, mean over the ranks."},
      {"paceline_job_flops_per_second", kGauge, "operations per second", "job_id source",
       "Floating-point operations of the model per second, of all ranks together. The source of "
       "their number: formula (of a built-in model), counted (in the first step) or given "
       "(flops_per_sample)."},
      {"paceline_job_evaluation_accuracy_ratio", kGauge, "ratio", "job_id",
       "Accuracy of the latest evaluation, 0 to 1."},
      {"paceline_job_evaluation_loss", kGauge, "loss", "job_id", "Loss of the latest evaluation."},
      {"paceline_job_step_duration_seconds",
       kHistogram,
       "seconds",
       "job_id",
       "Duration of the ranks' steps.",
       {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}},
      {"paceline_job_phase_seconds_total", kCounter, "seconds", "job_id phase",
       "Time that the ranks spent in each phase of their steps."},
      {"paceline_job_time_seconds_total", kCounter, "seconds", "job_id category",
       "Wall time of the job: queued, startup, productive (in steps, but for data_wait), "
       "data_wait, outside_steps (it runs: evaluations, saves, ranks that hang), recovery, "
       "stopping."},
      {"paceline_job_last_progress_timestamp_seconds", kGauge, "seconds", "job_id",
       "When the job's newest step was seen, Unix time."},
      {"paceline_job_last_checkpoint_timestamp_seconds", kGauge, "seconds", "job_id",
       "When the job's newest complete checkpoint was made, Unix time."},
      {"paceline_job_last_checkpoint_step", kGauge, "steps", "job_id",
       "Steps completed in the job's newest complete checkpoint."},
      {"paceline_job_checkpoints", kGauge, "checkpoints", "job_id",
       "Complete checkpoints of the job on disk."},
      {"paceline_job_saves_fail", kGauge, "bool", "job_id",
       "1 from a save of the job that fails until one is complete, while the job goes on."},
      {"paceline_straggler_verdicts_total", kCounter, "verdicts", "job_id verdict",
       "Verdicts on ranks, nodes and groups that are slow."},
      {"paceline_straggler_suspects", kGauge, "ranks", "job_id", "Ranks that are slow."},
      {"paceline_straggler_slowdown_ratio", kGauge, "ratio", "job_id node rank cause",
       "Own time of a rank that is slow over that of its peers; of a job's ten slowest."},
      {"paceline_remedies_total", kCounter, "remedies", "job_id outcome",
       "Remedies that were advised or ordered, and what became of them."},
      {"paceline_remedy_step_seconds", kGauge, "seconds", "job_id remedy what",
       "Mean step before the newest measured remedy of its kind, predicted for it, and measured."},
  };
}

std::vector<MetricFamily> All() {
  std::vector<MetricFamily> all;
  for (const auto& part :
       {OfTheController(), OfNodes(), OfAllJobs(), OfAJob(), OfTraining(), ProcessFamilies()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace

const std::vector<MetricFamily>& ControllerFamilies() {
  static const auto& families = *new std::vector<MetricFamily>(All());
  return families;
}

}  // namespace paceline
