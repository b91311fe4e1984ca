// Judges the runs of a drill against the undisturbed one.
//
// Pure.
#ifndef CLI_DRILL_CORE_JUDGE_H_
#define CLI_DRILL_CORE_JUDGE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "cli/drill/core/rehearsal.h"
#include "cli/drill/core/run_record.h"
#include "cli/drill/core/timeouts.h"

namespace paceline {

enum class DrillVerdict { kPassed, kFailed, kNotRehearsed };

// "passed", "failed" or "not rehearsed".
const char* VerdictWord(DrillVerdict verdict);

// A line of the report card.
struct DrillFinding {
  std::string check;  // "reference", or the name of a fault.
  DrillVerdict verdict = DrillVerdict::kPassed;
  std::string found;                        // One line for people.
  std::string mend;                         // The same: what to do; empty: nothing.
  std::string job;                          // The run's job; empty: there was none.
  ChangeTimes times;                        // Of the run.
  std::optional<int64_t> first_difference;  // The first step with another loss, from 0.
};

struct LossDifference {
  int64_t step = 0;
  std::string expected;
  std::string got;
};

// The first step that both runs have, with different losses. Of a step made several times, the last
// time counts.
std::optional<LossDifference> FirstDifference(const RunRecord& reference, const RunRecord& run);

// What the job and the earlier runs say of how to judge.
struct JudgedJob {
  int64_t steps = 0;
  bool replaces = false;  // recovery.max_failures is above 0.
  bool restarts = false;  // max_restarts is above 0.
  DrillTimeouts timeouts;
  // Why losses are not compared; empty: they are.
  std::string losses_differ_anyway;
};

// The undisturbed run. If it fails, there is nothing to compare with.
DrillFinding JudgeReference(const RunRecord& run, const JudgedJob& job);

DrillFinding JudgeRun(DrillFault fault, const RunRecord& reference, const RunRecord& run,
                      const JudgedJob& job);

}  // namespace paceline

#endif  // CLI_DRILL_CORE_JUDGE_H_
