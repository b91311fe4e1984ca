// What one run of a drill's job has left behind: what is judged.
//
// Pure.
#ifndef CLI_DRILL_CORE_RUN_RECORD_H_
#define CLI_DRILL_CORE_RUN_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace paceline {

// A step that is done, as rank 0's log says.
struct StepMark {
  int64_t step = 0;  // From 0, as step.number of a session.
  std::string loss;  // As it is written, which tells all bits. Of all ranks if the log has it.
  absl::Time time;   // By the clock of the rank's node, in milliseconds.
};

// The step that a line of a log tells of; nothing: it is another line.
std::optional<StepMark> ParseStepLine(absl::string_view line);

// A change of the ranks while they train.
struct RankChange {
  absl::Time decided;
  absl::Time trained = absl::InfiniteFuture();  // When all members trained; infinite: never.
  bool planned = false;                         // No failure is its cause.
};

struct EpochCounts {
  int64_t epoch = 0;
  int64_t once = 0;
  int64_t again = 0;
  int64_t never = 0;

  bool operator==(const EpochCounts& other) const {
    return epoch == other.epoch && once == other.once && again == other.again &&
           never == other.never;
  }
};

// What the ledger of samples says (worker/trainer/core/sample_use.h).
struct LedgerCounts {
  std::vector<EpochCounts> epochs;
  int64_t missing = 0;  // Records.
  int64_t unknown = 0;  // Steps whose samples nobody knows.
};

enum class RunEnd { kSucceeded, kFailed, kTookTooLong };

struct RunRecord {
  std::string job;  // Its id.
  RunEnd end = RunEnd::kFailed;
  std::string reason;  // For people: how it ended.
  absl::Time submitted;
  absl::Duration took;          // From there to the end.
  std::vector<StepMark> marks;  // In the order of the log: steps that were made again come twice.
  std::vector<RankChange> changes;
  int restarts = 0;
  int64_t failed_saves = 0;
  std::optional<LedgerCounts> ledger;  // Unset: there is none.
  // Why what is done from outside was not done; empty: it was, or there is nothing.
  std::string not_done;
  // That each step before `paced_until`, from 0, was made to take besides.
  absl::Duration pace;
  int64_t paced_until = 0;

  int losses() const;  // Changes that were not planned.
};

// How long steps took, without the first two (common/core/startup_steps.h).
struct RunTimes {
  absl::Duration median;
  absl::Duration longest;
  absl::Duration until_first;  // From the submission to the end of the first step.
};
RunTimes TimesOf(const RunRecord& run);

// What a loss or a move of ranks cost.
struct ChangeTimes {
  absl::Duration pause;       // The longest time without a step.
  absl::Duration rejoin;      // From the decision until all ranks trained again.
  absl::Duration first_step;  // And from there until they had made a step.
};
ChangeTimes ChangesOf(const RunRecord& run);

}  // namespace paceline

#endif  // CLI_DRILL_CORE_RUN_RECORD_H_
