// Step times of a job as CSV: one row per worker and step, columns by their names in the first
// line.
//
//   step,dp,stage,fwd_s,bwd_s,wall_s   required, in any order
//   workload,data_wait_s               0 or empty: not known
//   node                               any name; without it each worker is a node of its own
//   masked                             1: not a typical step
//   generation                         ascending number; another one: the job was restarted
//
// Other columns, empty lines and those that begin with # are passed over. Rows may come in any
// order. A worker is (dp, stage); its peers are those of its stage.
#ifndef BENCH_STRAGGLERS_TRACE_H_
#define BENCH_STRAGGLERS_TRACE_H_

#include <cstdint>
#include <istream>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/stragglers/history_spec.h"
#include "controller/core/stragglers/detector/step_sample.h"

namespace paceline::detect {

struct TraceWorker {
  int dp = 0;
  int stage = 0;
  std::string node;  // Empty: the trace names none.
};

struct TraceRow {
  int64_t generation = 0;
  StepSample sample;  // Its rank is an index of the workers.
};

struct Trace {
  std::vector<TraceWorker> workers;  // By stage, then dp.
  std::vector<DetectorRank> ranks;   // Of each worker; a peer group is an index of `stages`.
  std::vector<int> stages;           // Ascending.
  std::vector<TraceRow> rows;        // By generation, then step.
};

// INVALID_ARGUMENT: what is wrong, with line and column; the first ten of such. Durations may be
// any number: which ones make sense is up to the detector.
absl::StatusOr<Trace> ReadTrace(std::istream& csv);

// Writes a generated history in the order in which its reports come; its labels are a comment in
// the second line, {"labels": {"spec", "seed", "faults": […]}}.
void WriteHistory(const HistorySpec& spec, uint64_t seed, std::ostream& csv);

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_TRACE_H_
