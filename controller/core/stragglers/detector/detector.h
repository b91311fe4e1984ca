// Which ranks, nodes or peer groups of a job are slow, since when, by how much and why: a streaming
// decision from the steps' times that the ranks measured themselves.
//
//   samples, in any order ─▶ StepAssembler ─▶ PeerResiduals ─▶ RankWatch ─▶ verdicts
//                            open steps       ln(own / peers)  evidence, verification, state
//                                           ╰───────── JobWatch ───────╯
//
// A step that all ranks have reported, or are no longer expected to, is a row; decisions count
// rows, whatever numbers the steps have. Waits for others are no part of what a rank reports: they
// show victims, not culprits.
//
// Pure: no clock, no IO. After the construction nothing is allocated, except by `verdicts` growing.
// Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_DETECTOR_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_DETECTOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "controller/core/steps/step_assembler.h"
#include "controller/core/stragglers/detector/detector_options.h"
#include "controller/core/stragglers/detector/job_watch.h"
#include "controller/core/stragglers/detector/node_history.h"
#include "controller/core/stragglers/detector/step_sample.h"
#include "controller/core/stragglers/detector/verdict.h"

namespace paceline {

struct DetectorCounts {
  int64_t taken = 0;     // Samples in an open step.
  int64_t masked = 0;    // Of these, flagged as not typical.
  int64_t invalid = 0;   // Negative, infinite, too long, no work at all, unknown rank.
  int64_t late = 0;      // Of a step that is closed, or so far ahead that there is no room.
  int64_t repeated = 0;  // A second one for the same rank and step.
  int64_t missing = 0;   // Reports that closed steps lacked.
  int64_t rows = 0;      // Steps evaluated.
  int64_t left_out = 0;  // Steps closed without: warm-up, masked.
};

class StragglerDetector {
 public:
  StragglerDetector(DetectorOptions options, std::vector<DetectorRank> ranks);
  StragglerDetector(const StragglerDetector&) = delete;
  StragglerDetector& operator=(const StragglerDetector&) = delete;

  // Appends what the sample makes known. Samples that are invalid, late or repeated change nothing
  // but the counts.
  void Add(const StepSample& sample, std::vector<Verdict>& verdicts);

  // No more samples come: decides what the open steps tell.
  void Close(std::vector<Verdict>& verdicts);

  // The job's membership, plan or pace changes on purpose here: all is forgotten but the counts and
  // the episodes of the nodes' ranks; warm-up starts over, and any step number may follow.
  void Restart(std::vector<DetectorRank> ranks);

  const DetectorCounts& counts() const { return counts_; }

  // kTooFewPeers: it is told neither slow nor healthy. Requires: a rank of the list.
  RankStatus status(int rank) const;

 private:
  absl::Span<StepCell> CellsOf(int slot);
  void CloseOldest(std::vector<Verdict>& verdicts);

  const DetectorOptions options_;
  DetectorCounts counts_;
  NodeHistory history_;
  int rows_to_warm_up_ = 0;
  std::unique_ptr<StepAssembler> steps_;
  std::vector<StepCell> cells_;  // [slot][rank]
  std::unique_ptr<JobWatch> watch_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_DETECTOR_H_
