// The rules of a spec, and the problems they find.
//
// Thread-compatible.
#ifndef COMMON_JOB_SPEC_PROBLEM_LIST_H_
#define COMMON_JOB_SPEC_PROBLEM_LIST_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/job_spec/job_spec.h"
#include "google/protobuf/message.h"

namespace paceline {

class ProblemList {
 public:
  void Add(std::string field, std::string message);

  // Tells a problem of `field` unless `value` lies between the bounds; whether it does.
  bool CheckRange(const std::string& field, int64_t value, int64_t low, int64_t high);

  // Whether there is a problem of the field. A rule that joins several says nothing about one that
  // is wrong by itself.
  bool Tells(absl::string_view field) const;

  bool empty() const { return problems_.empty(); }

  std::vector<SpecProblem> Take() { return std::move(problems_); }

 private:
  std::vector<SpecProblem> problems_;
  std::set<std::string, std::less<>> reported_;  // Their fields: there may be very many.
};

// Sizes of the whole spec, its texts and its lists (job_spec.h).
void CheckLimits(const v1::JobSpec& spec, ProblemList& problems);

// Every value that was given, by itself, as proto/job_key.proto says; not of those whose problems
// are told already. `path`: of the group, with a point; empty for a spec.
void CheckKeys(const google::protobuf::Message& group, const std::string& path,
               ProblemList& problems);

// A path that nodes open (CheckNodePath).
void CheckPath(const std::string& field, const std::string& path, ProblemList& problems);

// Values of a spec, as it was given, that may not be given beside its others.
void CheckGiven(const v1::JobSpec& spec, ProblemList& problems);

// The rules that join several values of a part, and what is missing there. The spec has its
// defaults.
void CheckModel(const v1::Model& model, ProblemList& problems);
// What does not go with a compiled model.
void CheckCompiled(const v1::JobSpec& spec, ProblemList& problems);
void CheckData(const v1::Data& data, ProblemList& problems);
// What does not go with unequal numbers of samples.
void CheckDropLast(const v1::JobSpec& spec, ProblemList& problems);
// Among which ranks batch normalisation is synchronised.
void CheckSyncBatchNorm(const v1::JobSpec& spec, ProblemList& problems);
void CheckOptimizer(const v1::Optimizer& optimizer, ProblemList& problems);
void CheckSchedule(const v1::Schedule& schedule, int64_t steps, ProblemList& problems);
void CheckRankScale(const v1::JobSpec& spec, ProblemList& problems);
void CheckStrategy(const v1::JobSpec& spec, ProblemList& problems);
// The strategy if it is slipstream, and what does not go with that or with auto.
void CheckSlipstream(const v1::JobSpec& spec, ProblemList& problems);
// What does not go with bfloat16 weights.
void CheckPrecision(const v1::JobSpec& spec, ProblemList& problems);
// What does not go with a sharded model.
void CheckShards(const v1::JobSpec& spec, ProblemList& problems);
void CheckCheckpoint(const v1::JobSpec& spec, ProblemList& problems);
void CheckResumption(const v1::JobSpec& spec, ProblemList& problems);
// The order of those that form a ladder.
void CheckTimeouts(const v1::JobSpec& spec, ProblemList& problems);
void CheckRecovery(const v1::JobSpec& spec, ProblemList& problems);
// labels and description.
void CheckLabels(const v1::JobSpec& spec, ProblemList& problems);
// A spec that has a command.
void CheckCommand(const v1::JobSpec& spec, ProblemList& problems);
// queue and placement.
void CheckPlacement(const v1::JobSpec& spec, ProblemList& problems);
void CheckTracker(const v1::Tracker& tracker, ProblemList& problems);

}  // namespace paceline

#endif  // COMMON_JOB_SPEC_PROBLEM_LIST_H_
