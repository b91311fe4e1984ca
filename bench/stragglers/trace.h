// Step times of a job as CSV: one row per worker and step, columns by their names in the first
// line.
//
//   step,dp,stage,fwd_s,bwd_s,wall_s   required, in any order
//   workload,data_wait_s               optional
//   node                               any name; a worker without one is on a node of its own
//   masked                             1: not a typical step
//   generation                         ascending number; another one: the job was restarted
//
// Cells of the last four and of the seconds may be empty, NA, NaN or null: not known. So are a
// wall_s or workload of 0, and a bwd_s that is 0 in every row. Rows may come in any order. A worker
// is (dp, stage); its peers are those of its stage. Separated by commas, semicolons or tabs; cells
// and names may be quoted, names be in any case. Other columns, empty lines and those that begin
// with # are passed over; a further line of column names holds from there on.
#ifndef BENCH_STRAGGLERS_TRACE_H_
#define BENCH_STRAGGLERS_TRACE_H_

#include <cstdint>
#include <deque>
#include <istream>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/stragglers/history_spec.h"
#include "controller/core/stragglers/detector/step_sample.h"

namespace paceline::detect {

// A row takes 40 bytes, because traces have many. Durations are as exact as the detector's own.
struct TraceRow {
  int64_t step = 0;  // The file's number, or an index of Trace::steps.
  float forward_s = 0;
  float backward_s = 0;
  float data_wait_s = 0;
  float wall_s = 0;
  float workload = 0;
  int32_t worker = 0;       // Index of the workers.
  uint16_t generation = 0;  // Index of the generations.
  bool masked = false;
  uint32_t line = 0;  // Of the file.
};

struct TraceWorker {
  int dp = 0;
  int stage = 0;
};

struct TraceGeneration {
  int64_t number = 0;
  std::vector<int> workers;         // Workers that have rows, ascending.
  std::vector<DetectorRank> ranks;  // For each worker; a peer group is an index of the stages.
};

struct Trace {
  std::vector<TraceWorker> workers;  // By stage, then dp.
  std::vector<int> stages;           // Ascending.
  std::vector<TraceGeneration> generations;
  std::vector<std::string> nodes;  // Names by number; higher numbers have no name.
  // Empty if all steps are whole numbers of 64 bits; else their numbers in the file, ascending.
  std::vector<double> steps;
  std::deque<TraceRow> rows;  // By generation, step, worker, line.
  bool names_generations = false;
  bool knows_forward = true;  // Whether any row has it.
  bool knows_backward = true;

  std::map<std::string, int64_t> unknown;  // By column: cells that are empty, NA, NaN or null.
  std::vector<std::string> passed_over;    // Columns.
  bool cut_off = false;                    // The last line was incomplete and is left out.
};

// INVALID_ARGUMENT lists the first ten problems with line and column. Durations may be any number:
// the detector decides which ones make sense.
absl::StatusOr<Trace> ReadTrace(std::istream& csv);

// The same for a file; messages begin with its path.
absl::StatusOr<Trace> ReadTraceFile(const std::string& path);

// Seconds of both passes, or of one if the trace lacks the other. NaN: not known.
double ComputeOf(const TraceRow& row, const Trace& trace);

// The row as the detector takes it. Unknown values are NaN, except wall_s and workload, which are
// 0.
StepSample SampleOf(const TraceRow& row, int rank);

// Writes a generated history in the order in which its reports come. Two more columns say what was
// done to the row: `label`, healthy, transient or persistent, and `label_factor`, by how much.
void WriteHistory(const HistorySpec& spec, uint64_t seed, std::ostream& csv);

// Its slowdowns as JSON: {"spec", "seed", "faults": [{"class", "scope", "shape", "cause", "factor",
// "begin", "end", "nodes", "workers": [{"dp", "stage"}]}]}.
std::string LabelsOf(const HistorySpec& spec, uint64_t seed);

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_TRACE_H_
