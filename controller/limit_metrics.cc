#include "controller/limit_metrics.h"

#include <cstddef>

namespace paceline {

const char* LimitLabel(Limit limit) {
  constexpr const char* kNames[] = {"call_rate",
                                    "mutation_rate",
                                    "streams_per_caller",
                                    "streams",
                                    "slow_reader",
                                    "open_jobs",
                                    "open_jobs_per_submitter",
                                    "job_size",
                                    "request_size",
                                    "session_hello",
                                    "node_size",
                                    "sessions",
                                    "worker_message",
                                    "worker_rate",
                                    "worker_backlog",
                                    "log_readers",
                                    "http_connections",
                                    "http_streams"};
  return kNames[static_cast<size_t>(limit)];
}

LimitMetrics::LimitMetrics(MetricRegistry& registry) {
  Counters& family = registry.NewCounters("paceline_limit_refusals_total");
  for (size_t i = 0; i < refusals_.size(); ++i) {
    refusals_[i] = &family.Add({{"limit", LimitLabel(static_cast<Limit>(i))}});
  }
}

void LimitMetrics::Refused(Limit limit) { refusals_[static_cast<size_t>(limit)]->Increment(); }

}  // namespace paceline
