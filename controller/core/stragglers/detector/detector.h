// Finds which ranks, nodes or peer groups of a job are slow, since when, by how much and why: a
// streaming decision from the step times that the ranks have measured.
//
//   samples, in any order ─▶ StepAssembler ─▶ PeerResiduals ─▶ RankWatch ─▶ verdicts
//                            open steps       ln(own / peers)  evidence, verification, state
//                                           ╰───────── JobWatch ───────╯
//
// A step becomes a row when all ranks have reported it, or are no longer expected to. Decisions
// count rows, whatever numbers the steps have. Ranks do not report waits for others, which show
// victims, not culprits.
//
// Pure: no clock, no IO. Allocates nothing after construction, unless `verdicts` grows.
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
  int64_t taken = 0;     // Samples taken into an open step.
  int64_t masked = 0;    // Those of them flagged as not typical.
  int64_t invalid = 0;   // Negative, infinite, too long, no work at all, unknown rank.
  int64_t late = 0;      // Of a closed step, or too far ahead for the window.
  int64_t repeated = 0;  // A second sample for a rank and step.
  int64_t missing = 0;   // Reports that were missing when steps closed.
  int64_t rows = 0;      // Steps evaluated.
  int64_t left_out = 0;  // Steps closed but not evaluated: warm-up, masked.
};

class StragglerDetector {
 public:
  StragglerDetector(DetectorOptions options, std::vector<DetectorRank> ranks);
  StragglerDetector(const StragglerDetector&) = delete;
  StragglerDetector& operator=(const StragglerDetector&) = delete;

  // Appends what the sample makes known. Invalid, late or repeated samples only change the counts.
  void Add(const StepSample& sample, std::vector<Verdict>& verdicts);

  // No more samples come: decides by what the open steps show.
  void Close(std::vector<Verdict>& verdicts);

  // The job's membership, plan or pace changes on purpose here. Forgets all but the counts and the
  // episodes of the nodes' ranks. Warm-up starts over, and any step number may follow.
  void Restart(std::vector<DetectorRank> ranks);

  const DetectorCounts& counts() const { return counts_; }

  // kTooFewPeers: neither slow nor healthy can be said. Requires: `rank` is in the list.
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
