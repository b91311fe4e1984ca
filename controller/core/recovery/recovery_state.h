// What a job knows of the changes of its membership: how far it may recover from failures, those
// that it had, and the generations that followed one another without a new start (recovery.h).
#ifndef CONTROLLER_CORE_RECOVERY_RECOVERY_STATE_H_
#define CONTROLLER_CORE_RECOVERY_RECOVERY_STATE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/core/batch_rule.h"
#include "common/core/ids.h"
#include "controller/core/job/trainer_state.h"

namespace paceline {

// The newest so many changes are kept for people.
inline constexpr size_t kChangesKept = 20;

// core's form of proto/job_spec.proto, Recovery, without the spares.
struct RecoveryPolicy {
  int max_failures = 0;  // 0: a lost rank ends the generation.
  absl::Duration window = absl::Hours(1);
  int min_ranks = 0;  // 0: all.
  BatchRule rule = BatchRule::kKeepGlobal;
  RankBatch batch = {1, 1};  // Of the spec.
  int least_samples = 1;     // Of a pass, for the model to train.
};

// The ladder of a job's timeouts: proto/job_spec.proto.
struct JobTimeouts {
  absl::Duration stall_warning = absl::InfiniteDuration();
  absl::Duration hang = absl::InfiniteDuration();
  absl::Duration collective = absl::Seconds(300);
  absl::Duration startup = absl::Seconds(900);
  absl::Duration give_up = absl::Seconds(900);
};

// proto/job.proto.
struct MembershipChange {
  Generation generation;
  std::string reason;
  absl::Time begun;                         // Wall.
  absl::Time ended = absl::InfinitePast();  // Wall; infinite: not yet.
  int ranks_before = 0;
  int ranks_after = 0;
  int64_t step = 0;  // Done when the members went on.
  bool planned = false;
};

// A failure that counts: of a seat's holder, or of the members' meeting (seat -1).
struct MemberFailure {
  int seat = -1;
  int64_t step = -1;        // That it was in; -1: it had not trained.
  bool own_error = false;   // Not done to it from outside, as far as one can know.
  absl::Time steady, wall;  // When it was taken in.
};

struct JobRecovery {
  Generation started{
      0};  // That the newest start began; members of it load a checkpoint by themselves.
  int next_spare = 0;  // Number (TrainerId::rank) of the next spare of the present generation.
  RankBatch batch;     // Of the present generation; zeros: those of the spec.
  std::vector<MembershipChange> history;   // Oldest first; at most kChangesKept.
  int64_t changes = 0;                     // That were begun since it was submitted.
  std::vector<MemberFailure> failures;     // Oldest first; within the window, as far as it matters.
  std::map<NodeName, std::string> vacate;  // Nodes that its ranks have to leave, and why.
  // Nodes that it takes no places on while it has others, until a new start, and why.
  std::map<NodeName, std::string> avoid;
  bool hopeless = false;  // Its failure is one that a restart would only repeat.
  bool stalled = false;   // The job's reason tells of a slow rank.

  // Steady; infinite future: there is none.
  absl::Time deadline = absl::InfiniteFuture();          // Of the change under way.
  absl::Time recovering_since = absl::InfiniteFuture();  // Of RECOVERING.
  absl::Time trouble_since = absl::InfiniteFuture();     // A member waits, and nobody has failed.
  // No rank is given up for its node's silence before; infinite future: the job is cut off.
  absl::Time silence_counts = absl::InfinitePast();
  absl::Time next_planned = absl::InfinitePast();      // No planned change before.
  absl::Time next_spare_start = absl::InfinitePast();  // No spare is started before.
  int spares_failed = 0;                               // In a row.
  absl::Time wake = absl::InfiniteFuture();            // AdvanceMembership has something to do.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_RECOVERY_STATE_H_
