// The rules that many fields share, and the problems they find.
//
// Each Check tells a problem of `field` unless `value` is allowed, and returns whether it is.
//
// Thread-compatible.
#ifndef COMMON_JOB_SPEC_PROBLEM_LIST_H_
#define COMMON_JOB_SPEC_PROBLEM_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/job_spec/job_spec.h"
#include "google/protobuf/descriptor.h"

namespace paceline {

class ProblemList {
 public:
  void Add(std::string field, std::string message);

  bool CheckRange(const std::string& field, int64_t value, int64_t low, int64_t high);
  bool CheckAtLeast(const std::string& field, int64_t value, int64_t low);
  // A size of a tensor: 1 to 2^31-1.
  bool CheckSize(const std::string& field, int64_t value);
  // Infinite values and NaN lie in no range.
  bool CheckFiniteAtLeast(const std::string& field, double value, double low);
  bool CheckAbove(const std::string& field, double value, double low);
  // From 0 to 1; 0 and 1 themselves only if `zero` and `one`.
  bool CheckShare(const std::string& field, double value, bool zero, bool one);
  // Number 0 is allowed: it stands for a value that was not given.
  bool CheckEnum(const std::string& field, int value, const google::protobuf::EnumDescriptor& type);

  bool empty() const { return problems_.empty(); }

  // Leaves the list empty.
  std::vector<SpecProblem> Take();

 private:
  std::vector<SpecProblem> problems_;
};

// Sizes of the whole spec, its texts and its lists (job_spec.h).
void CheckLimits(const v1::JobSpec& spec, ProblemList& problems);

// The parts of a spec that have files of their own. The spec has its defaults.
void CheckModel(const v1::Model& model, ProblemList& problems);
void CheckData(const v1::Data& data, ProblemList& problems);
void CheckOptimizer(const v1::Optimizer& optimizer, ProblemList& problems);
void CheckSchedule(const v1::Schedule& schedule, int64_t steps, ProblemList& problems);
void CheckStrategy(const v1::Strategy& strategy, int ranks, ProblemList& problems);
// The strategy if it is slipstream, and what does not go with that or with auto.
void CheckSlipstream(const v1::JobSpec& spec, ProblemList& problems);
void CheckCheckpoint(const v1::CheckpointPolicy& checkpoint, ProblemList& problems);
// max_restarts and resume_from.
void CheckResumption(const v1::JobSpec& spec, ProblemList& problems);
// Those in seconds, and the order of those that form a ladder.
void CheckTimeouts(const v1::JobSpec& spec, ProblemList& problems);
void CheckRecovery(const v1::JobSpec& spec, ProblemList& problems);
// What a spec as it was given, with a command or without, says of that and beside it.
void CheckCommand(const v1::JobSpec& spec, ProblemList& problems);
void CheckNoCommand(const v1::JobSpec& spec, ProblemList& problems);
// Every path that nodes open.
void CheckPaths(const v1::JobSpec& spec, ProblemList& problems);

// queue, priority and placement.
void CheckPlacement(const v1::JobSpec& spec, ProblemList& problems);

}  // namespace paceline

#endif  // COMMON_JOB_SPEC_PROBLEM_LIST_H_
