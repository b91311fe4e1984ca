#include "worker/daemon/metrics/metric_families.h"

#include "common/metrics/process_metrics.h"

namespace paceline {
namespace {

constexpr MetricType kCounter = MetricType::kCounter;
constexpr MetricType kGauge = MetricType::kGauge;
// Labels of a trainer, from its newest membership.
constexpr char kRank[] = "job_id generation rank";
constexpr char kGpu[] = "gpu uuid";

std::vector<MetricFamily> OfTheNode() {
  return {
      {"paceline_build_info", kGauge, "info", "component version",
       "Build information; value is always 1."},
      {"paceline_certificate_expiry_timestamp_seconds", kGauge, "seconds", "",
       "When this process' certificate ends, Unix time. Absent without TLS."},
      {"paceline_worker_controller_connected", kGauge, "bool", "",
       "1 while the session with the controller stands, else 0."},
      {"paceline_worker_reconnects_total", kCounter, "sessions", "",
       "Times that a lost session with the controller came back."},
      {"paceline_worker_trainers", kGauge, "trainers", "state", "Trainers on this node, by state."},
      {"paceline_worker_trainers_started_total", kCounter, "trainers", "",
       "Trainers that this daemon has started."},
      {"paceline_worker_trainers_adopted_total", kCounter, "trainers", "",
       "Running trainers of an earlier daemon that this one found and adopted."},
      {"paceline_worker_trainers_ended_total", kCounter, "trainers", "failure",
       "Trainers that ended, by kind of failure."},
      {"paceline_worker_trainer_connections_refused_total", kCounter, "connections", "cause",
       "Connections to the trainers' socket that were refused: of another user (user), or of a "
       "process that is not the trainer that it says it is (process)."},
      {"paceline_worker_telemetry_dropped_total", kCounter, "records", "",
       "Step records that were lost because a buffer was full, or with a connection."},
  };
}

std::vector<MetricFamily> OfTrainers() {
  return {
      {"paceline_trainer_step", kGauge, "steps", kRank, "Steps completed."},
      {"paceline_trainer_step_seconds", kGauge, "seconds", kRank,
       "Duration of the last completed step."},
      {"paceline_trainer_samples_per_second", kGauge, "samples per second", kRank,
       "Samples per second, over the last two seconds' steps."},
      {"paceline_trainer_loss", kGauge, "loss", kRank, "Loss of the last completed step."},
      {"paceline_trainer_phase_seconds_total", kCounter, "seconds", "job_id generation rank phase",
       "Time spent in each phase of the completed steps."},
      {"paceline_trainer_current_phase_seconds", kGauge, "seconds", kRank,
       "How long the trainer has been in its present phase."},
      {"paceline_trainer_evaluated_ratio", kGauge, "ratio", kRank,
       "While the trainer evaluates: share of its batches that are done, 0 to 1."},
  };
}

// Figures of the trainer's latest log_every interval.
std::vector<MetricFamily> OfFigures() {
  return {
      {"paceline_trainer_tokens_per_second", kGauge, "tokens per second", kRank,
       "Tokens per second of training time."},
      {"paceline_trainer_mfu_ratio", kGauge, "ratio", kRank,
       "Model FLOPs utilization, 0 to 1, over the time in steps."},
      {"paceline_trainer_mfu_wall_ratio", kGauge, "ratio", kRank,
       "Model FLOPs utilization, 0 to 1, over all time."},
      {"paceline_trainer_flops_per_second", kGauge, "operations per second",
       "job_id generation rank source",
       "Floating-point operations of the model per second of training time. The source of their "
       "number: formula (of a built-in model), counted (in the first step) or given "
       "(flops_per_sample)."},
      {"paceline_trainer_peak_flops_per_second", kGauge, "operations per second", kRank,
       "What the device can do at most, in the number formats of the model."},
      {"paceline_trainer_mean_loss", kGauge, "loss", kRank, "Loss, mean over all ranks."},
      {"paceline_trainer_grad_norm", kGauge, "norm", kRank,
       "Norm of the gradients before clipping."},
      {"paceline_trainer_learning_rate", kGauge, "rate", kRank, "Learning rate of the last step."},
      {"paceline_trainer_data_wait_ratio", kGauge, "ratio", kRank,
       "Share of the training time spent waiting for data."},
      {"paceline_trainer_drift", kGauge, "norm", kRank,
       "Norm of the change of the rank's parameters by the latest mean over all ranks."},
      {"paceline_trainer_skipped_steps_total", kCounter, "steps", kRank,
       "Steps that the optimizer left out."},
      {"paceline_trainer_plan_version", kGauge, "versions", kRank,
       "Plan version that the rank trains by."},
      {"paceline_trainer_memory_rss_bytes", kGauge, "bytes", kRank,
       "Resident memory of the process."},
      {"paceline_trainer_memory_rss_peak_bytes", kGauge, "bytes", kRank,
       "Peak of the resident memory in the interval."},
      {"paceline_trainer_memory_rss_slope_bytes_per_second", kGauge, "bytes per second", kRank,
       "Growth of the resident memory over the last intervals."},
      {"paceline_trainer_memory_active_bytes", kGauge, "bytes", kRank,
       "Device memory in live tensors."},
      {"paceline_trainer_memory_active_peak_bytes", kGauge, "bytes", kRank,
       "Peak of the device memory in live tensors in the interval."},
      {"paceline_trainer_memory_reserved_bytes", kGauge, "bytes", kRank,
       "Device memory held by the allocator."},
      {"paceline_trainer_memory_reserved_peak_bytes", kGauge, "bytes", kRank,
       "Peak of the device memory held by the allocator in the interval."},
      {"paceline_trainer_memory_small_pool_bytes", kGauge, "bytes", kRank,
       "Device memory that the allocator holds for small blocks."},
      {"paceline_trainer_memory_large_pool_bytes", kGauge, "bytes", kRank,
       "Device memory that the allocator holds for large blocks."},
      {"paceline_trainer_memory_small_pool_peak_bytes", kGauge, "bytes", kRank,
       "Peak of the device memory held for small blocks in the interval."},
      {"paceline_trainer_memory_large_pool_peak_bytes", kGauge, "bytes", kRank,
       "Peak of the device memory held for large blocks in the interval."},
      {"paceline_trainer_memory_capacity_bytes", kGauge, "bytes", kRank, "Memory of the device."},
      {"paceline_trainer_alloc_retries_total", kCounter, "allocations", kRank,
       "Times that the allocator had to free its cache and try again."},
      {"paceline_trainer_ooms_total", kCounter, "allocations", kRank,
       "Allocations for which there was no memory."},
      {"paceline_trainer_object_fetched_bytes_total", kCounter, "bytes", kRank,
       "Bytes of objects that came from their stores."},
      {"paceline_trainer_object_retries_total", kCounter, "requests", kRank,
       "Requests to object stores that were made again."},
      {"paceline_trainer_object_cached_reads_total", kCounter, "reads", kRank,
       "Reads of a block of an object that was on the node."},
      {"paceline_trainer_object_waited_reads_total", kCounter, "reads", kRank,
       "Reads of a block of an object for which the reader had to wait."},
      {"paceline_trainer_object_wait_seconds_total", kCounter, "seconds", kRank,
       "Time that threads which load batches waited for blocks of objects, added up."},
      {"paceline_trainer_communication_seconds_total", kCounter, "seconds",
       "job_id generation rank group_size kind",
       "Time that the training thread spent in communication, waiting included."},
      {"paceline_trainer_communication_bytes_total", kCounter, "bytes",
       "job_id generation rank group_size kind", "Bytes that the rank sent in communication."},
      {"paceline_trainer_communications_total", kCounter, "means",
       "job_id generation rank group_size kind", "Means that the rank took part in."},
      {"paceline_trainer_reported", kGauge, "the script's", "job_id generation rank name",
       "Newest number that the script of a session reported of its steps (run.report), by name."},
  };
}

// Figures of the latest round of a rank whose job uses slipstream (docs/slipstream.md).
std::vector<MetricFamily> OfSlipstream() {
  return {
      {"paceline_slipstream_mode", kGauge, "bool", "job_id generation rank mode",
       "Mode of the latest round; value is 1."},
      {"paceline_slipstream_rounds_total", kCounter, "rounds", kRank, "Finished rounds."},
      {"paceline_slipstream_contributing_ranks_total", kCounter, "ranks", kRank,
       "Ranks whose work was in a round, added up over the rounds."},
      {"paceline_slipstream_contributions_total", kCounter, "rounds", kRank,
       "Rounds with work of this rank."},
      {"paceline_slipstream_stale_rounds_total", kCounter, "rounds", kRank,
       "Rounds that had finished since the model that the rank's work was done on, added up over "
       "its contributions."},
      {"paceline_slipstream_steps_total", kCounter, "steps", kRank, "Steps of this rank."},
      {"paceline_slipstream_sent_updates_total", kCounter, "updates", kRank,
       "Updates of this rank in finished rounds."},
      {"paceline_slipstream_lost_updates_total", kCounter, "updates", kRank,
       "Updates of this rank that were lost: not finite, or left behind."},
      {"paceline_slipstream_used_gradients_total", kCounter, "gradients", kRank,
       "Gradients of this rank in finished rounds."},
      {"paceline_slipstream_dropped_gradients_total", kCounter, "gradients", kRank,
       "Gradients of this rank that were late and dropped."},
      {"paceline_slipstream_window_seconds", kGauge, "seconds", kRank,
       "Time from one round's header to the next round."},
      {"paceline_slipstream_cap_steps", kGauge, "steps", kRank,
       "How far a rank may be ahead of the last finished round."},
      {"paceline_slipstream_cap_wait_seconds_total", kCounter, "seconds", kRank,
       "Time that the training thread waited since it was too far ahead."},
      {"paceline_slipstream_round_wait_seconds_total", kCounter, "seconds", kRank,
       "Time that the training thread waited for a round."},
      {"paceline_slipstream_collective_seconds_total", kCounter, "seconds", kRank,
       "Time in the collectives that carry updates or gradients."},
      {"paceline_slipstream_drift", kGauge, "norm", kRank,
       "Norm of what a rank has sent in the latest round: root mean square over those that sent."},
  };
}

// Figures of the rank's saves, and of its start from a checkpoint.
std::vector<MetricFamily> OfCheckpoints() {
  return {
      {"paceline_trainer_checkpoint_seconds_total", kCounter, "seconds",
       "job_id generation rank op",
       "Time for copying to memory (stage), that training stood still (blocked), for writing and "
       "syncing (write), for manifests (commit), and for reading at the start (restore)."},
      {"paceline_trainer_checkpoint_saves_total", kCounter, "shards", kRank,
       "Shards of checkpoints that the rank has made durable."},
      {"paceline_trainer_checkpoint_bytes_total", kCounter, "bytes", kRank,
       "Bytes of these shards."},
      {"paceline_trainer_checkpoint_skipped_total", kCounter, "saves", kRank,
       "Saves left out because those before them were still being written."},
      {"paceline_trainer_checkpoint_failures_total", kCounter, "saves",
       "job_id generation rank cause", "Saves that failed, by cause."},
  };
}

// Figures of the node's GPUs from the driver's library; none without the library.
std::vector<MetricFamily> OfGpus() {
  return {
      {"paceline_gpu_utilization_ratio", kGauge, "ratio", kGpu,
       "Share of the last second in which a kernel ran, 0 to 1."},
      {"paceline_gpu_memory_used_bytes", kGauge, "bytes", kGpu, "Memory of the GPU in use."},
      {"paceline_gpu_memory_capacity_bytes", kGauge, "bytes", kGpu, "Memory of the GPU."},
      {"paceline_gpu_temperature_celsius", kGauge, "celsius", kGpu, "Temperature of the core."},
      {"paceline_gpu_energy_joules_total", kCounter, "joules", kGpu,
       "Energy used since the driver was loaded."},
      {"paceline_gpu_sm_clock_hertz", kGauge, "hertz", kGpu, "Clock of the multiprocessors."},
      {"paceline_gpu_throttled", kGauge, "bool", kGpu,
       "1 while heat, a power brake or the hardware slows the GPU down."},
      {"paceline_gpu_ecc_errors", kGauge, "errors", kGpu,
       "Uncorrected memory errors since the driver was loaded."},
      {"paceline_gpu_row_remap_failed", kGauge, "bool", kGpu,
       "1 when rows of the GPU's memory could not be replaced by spare ones."},
      {"paceline_gpu_last_read_timestamp_seconds", kGauge, "seconds", "",
       "When the GPUs were read last, Unix time; it stands still while the driver hangs."},
  };
}

std::vector<MetricFamily> All() {
  std::vector<MetricFamily> all;
  for (const auto& part : {OfTheNode(), OfTrainers(), OfFigures(), OfSlipstream(), OfCheckpoints(),
                           OfGpus(), ProcessFamilies()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace

const std::vector<MetricFamily>& WorkerFamilies() {
  static const auto& families = *new std::vector<MetricFamily>(All());
  return families;
}

}  // namespace paceline
