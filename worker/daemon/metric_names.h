// The metrics of the worker daemon: each name with its help, here only.
//
// Labels: `state`, `failure`, `phase`, and `job_id`, `generation`, `rank` of trainers on the node
// now, as in their newest membership (spares train nothing and have no series); `group_size` and
// `kind` (gradients, parameters) of communication; `op` (stage, blocked, write, commit, restore)
// and `cause` (no_space, no_permission, io, not_agreed, inconsistent) of checkpoints; `mode` (sync,
// drop, free, pause) of Slipstream. What a trainer does not know (the MFU on an unknown device, the
// device's memory on a CPU, saves of a job without a checkpoint directory, rounds of a job of
// another strategy than slipstream) has no series.
#ifndef WORKER_DAEMON_METRIC_NAMES_H_
#define WORKER_DAEMON_METRIC_NAMES_H_

namespace paceline {

struct MetricName {
  const char* name;
  const char* help;
};

inline constexpr MetricName kMetricInfo = {"paceline_build_info",
                                           "Build information; value is always 1."};
inline constexpr MetricName kMetricConnected = {
    "paceline_worker_controller_connected",
    "1 while the session with the controller stands, else 0."};
inline constexpr MetricName kMetricReconnects = {
    "paceline_worker_reconnects_total", "Times that a lost session with the controller came back."};
inline constexpr MetricName kMetricTrainers = {"paceline_worker_trainers",
                                               "Trainers on this node, by state."};
inline constexpr MetricName kMetricAdopted = {
    "paceline_worker_trainers_adopted_total",
    "Running trainers of an earlier daemon that this one found and adopted."};
inline constexpr MetricName kMetricEnded = {"paceline_worker_trainers_ended_total",
                                            "Trainers that ended, by kind of failure."};
inline constexpr MetricName kMetricDropped = {
    "paceline_worker_telemetry_dropped_total",
    "Step records that were lost because a buffer was full."};
inline constexpr MetricName kMetricStep = {"paceline_trainer_step", "Steps completed."};
inline constexpr MetricName kMetricStepSeconds = {"paceline_trainer_step_seconds",
                                                  "Duration of the last completed step."};
inline constexpr MetricName kMetricSamples = {
    "paceline_trainer_samples_per_second", "Samples per second, over the last two seconds' steps."};
inline constexpr MetricName kMetricLoss = {"paceline_trainer_loss",
                                           "Loss of the last completed step."};
inline constexpr MetricName kMetricPhaseSeconds = {
    "paceline_trainer_phase_seconds_total", "Time spent in each phase of the completed steps."};
inline constexpr MetricName kMetricCurrentPhaseSeconds = {
    "paceline_trainer_current_phase_seconds",
    "How long the trainer has been in its present phase."};

// Of the trainer's latest interval of log_every steps.
inline constexpr MetricName kMetricTokens = {"paceline_trainer_tokens_per_second",
                                             "Tokens per second of training time."};
inline constexpr MetricName kMetricMfu = {
    "paceline_trainer_mfu_ratio", "Model FLOPs utilization, 0 to 1, over the time in steps."};
inline constexpr MetricName kMetricMfuWall = {"paceline_trainer_mfu_wall_ratio",
                                              "Model FLOPs utilization, 0 to 1, over all time."};
inline constexpr MetricName kMetricMeanLoss = {"paceline_trainer_mean_loss",
                                               "Loss, mean over all ranks."};
inline constexpr MetricName kMetricGradNorm = {"paceline_trainer_grad_norm",
                                               "Norm of the gradients before clipping."};
inline constexpr MetricName kMetricLearningRate = {"paceline_trainer_learning_rate",
                                                   "Learning rate of the last step."};
inline constexpr MetricName kMetricDataWait = {
    "paceline_trainer_data_wait_ratio", "Share of the training time spent waiting for data."};
inline constexpr MetricName kMetricDrift = {
    "paceline_trainer_drift",
    "Norm of the change of the rank's parameters by the latest mean over all ranks."};
inline constexpr MetricName kMetricSkipped = {"paceline_trainer_skipped_steps_total",
                                              "Steps that the optimizer left out."};
inline constexpr MetricName kMetricPlanEpoch = {"paceline_trainer_plan_epoch",
                                                "Plan epoch that the rank trains by."};
inline constexpr MetricName kMetricRss = {"paceline_trainer_memory_rss_bytes",
                                          "Resident memory of the process."};
inline constexpr MetricName kMetricRssPeak = {"paceline_trainer_memory_rss_peak_bytes",
                                              "Peak of the resident memory in the interval."};
inline constexpr MetricName kMetricRssSlope = {
    "paceline_trainer_memory_rss_slope_bytes_per_second",
    "Growth of the resident memory over the last intervals."};
inline constexpr MetricName kMetricActive = {"paceline_trainer_memory_active_bytes",
                                             "Device memory in live tensors."};
inline constexpr MetricName kMetricActivePeak = {
    "paceline_trainer_memory_active_peak_bytes",
    "Peak of the device memory in live tensors in the interval."};
inline constexpr MetricName kMetricReserved = {"paceline_trainer_memory_reserved_bytes",
                                               "Device memory held by the allocator."};
inline constexpr MetricName kMetricReservedPeak = {
    "paceline_trainer_memory_reserved_peak_bytes",
    "Peak of the device memory held by the allocator in the interval."};
inline constexpr MetricName kMetricSmallPool = {
    "paceline_trainer_memory_small_pool_bytes",
    "Device memory that the allocator holds for small blocks."};
inline constexpr MetricName kMetricLargePool = {
    "paceline_trainer_memory_large_pool_bytes",
    "Device memory that the allocator holds for large blocks."};
inline constexpr MetricName kMetricCapacity = {"paceline_trainer_memory_capacity_bytes",
                                               "Memory of the device."};
inline constexpr MetricName kMetricAllocRetries = {
    "paceline_trainer_alloc_retries_total",
    "Times that the allocator had to free its cache and try again."};
inline constexpr MetricName kMetricOoms = {"paceline_trainer_ooms_total",
                                           "Allocations for which there was no memory."};
inline constexpr MetricName kMetricCommunicationSeconds = {
    "paceline_trainer_communication_seconds_total",
    "Time that the training thread spent in communication, waiting included."};
inline constexpr MetricName kMetricCommunicationBytes = {
    "paceline_trainer_communication_bytes_total", "Bytes that the rank sent in communication."};
inline constexpr MetricName kMetricCommunications = {"paceline_trainer_communications_total",
                                                     "Means that the rank took part in."};

// Of a rank of a job with strategy slipstream, as of its latest round (docs/slipstream.md).
inline constexpr MetricName kMetricSlipstreamMode = {"paceline_slipstream_mode",
                                                     "Mode of the latest round; value is 1."};
inline constexpr MetricName kMetricSlipstreamRounds = {"paceline_slipstream_rounds_total",
                                                       "Finished rounds."};
inline constexpr MetricName kMetricSlipstreamContributingRanks = {
    "paceline_slipstream_contributing_ranks_total",
    "Ranks whose work was in a round, added up over the rounds."};
inline constexpr MetricName kMetricSlipstreamContributions = {
    "paceline_slipstream_contributions_total", "Rounds with work of this rank."};
inline constexpr MetricName kMetricSlipstreamStaleRounds = {
    "paceline_slipstream_stale_rounds_total",
    "Rounds that had finished since the model that the rank's work was done on, added up over its "
    "contributions."};
inline constexpr MetricName kMetricSlipstreamSteps = {"paceline_slipstream_steps_total",
                                                      "Steps of this rank."};
inline constexpr MetricName kMetricSlipstreamSentUpdates = {
    "paceline_slipstream_sent_updates_total", "Updates of this rank in finished rounds."};
inline constexpr MetricName kMetricSlipstreamLostUpdates = {
    "paceline_slipstream_lost_updates_total",
    "Updates of this rank that were lost: not finite, or left behind."};
inline constexpr MetricName kMetricSlipstreamUsedGradients = {
    "paceline_slipstream_used_gradients_total", "Gradients of this rank in finished rounds."};
inline constexpr MetricName kMetricSlipstreamDroppedGradients = {
    "paceline_slipstream_dropped_gradients_total",
    "Gradients of this rank that were late and dropped."};
inline constexpr MetricName kMetricSlipstreamWindow = {
    "paceline_slipstream_window_seconds", "Time from one round's header to the next round."};
inline constexpr MetricName kMetricSlipstreamCap = {
    "paceline_slipstream_cap_steps", "How far a rank may be ahead of the last finished round."};
inline constexpr MetricName kMetricSlipstreamCapWait = {
    "paceline_slipstream_cap_wait_seconds_total",
    "Time that the training thread waited since it was too far ahead."};
inline constexpr MetricName kMetricSlipstreamRoundWait = {
    "paceline_slipstream_round_wait_seconds_total",
    "Time that the training thread waited for a round."};
inline constexpr MetricName kMetricSlipstreamCollective = {
    "paceline_slipstream_collective_seconds_total",
    "Time in the collectives that carry updates or gradients."};
inline constexpr MetricName kMetricSlipstreamDrift = {
    "paceline_slipstream_drift",
    "Norm of what a rank has sent in the latest round: root mean square over those that sent."};

// Of the rank's saves, and of its start from a checkpoint.
inline constexpr MetricName kMetricCheckpointSeconds = {
    "paceline_checkpoint_seconds_total",
    "Time for copying to memory (stage), that training stood still (blocked), for writing and "
    "syncing (write), for manifests (commit), and for reading at the start (restore)."};
inline constexpr MetricName kMetricCheckpointSaves = {
    "paceline_checkpoint_saves_total", "Shards of checkpoints that the rank has made durable."};
inline constexpr MetricName kMetricCheckpointBytes = {"paceline_checkpoint_bytes_total",
                                                      "Bytes of these shards."};
inline constexpr MetricName kMetricCheckpointSkipped = {
    "paceline_checkpoint_skipped_total",
    "Saves left out because those before them were still being written."};
inline constexpr MetricName kMetricCheckpointFailures = {"paceline_checkpoint_failures_total",
                                                         "Saves that failed, by cause."};

}  // namespace paceline

#endif  // WORKER_DAEMON_METRIC_NAMES_H_
