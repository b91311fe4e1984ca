// The metrics of the worker daemon: each name with its help, here only.
//
// Labels: `state`, `failure`, `phase`, and `job_id`, `generation`, `rank` of
// trainers on the node now.
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

}  // namespace paceline

#endif  // WORKER_DAEMON_METRIC_NAMES_H_
