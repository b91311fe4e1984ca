// What a job knows about its membership: how far it may recover from failures, the failures it had,
// and the generations that followed one another without a new start (recovery.h).
#ifndef CONTROLLER_CORE_RECOVERY_RECOVERY_STATE_H_
#define CONTROLLER_CORE_RECOVERY_RECOVERY_STATE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/core/batch_rule.h"
#include "common/core/ids.h"
#include "controller/core/job/trainer_state.h"

namespace paceline {

// How many of the newest changes are kept, for people.
inline constexpr size_t kChangesKept = 20;

// Core's form of Recovery in proto/job_spec.proto, without the spares.
struct RecoveryPolicy {
  int max_failures = 0;  // 0: a lost rank ends the generation.
  absl::Duration window = absl::Hours(1);
  int min_ranks = 0;  // A multiple of the shards; 0: all must be there.
  int max_ranks = 0;  // A multiple of the shards; 0: the job is not elastic (elastic.h).
  BatchRule rule = BatchRule::kKeepGlobal;
  RankBatch batch = {1, 1};      // The spec's.
  int least_samples = 1;         // Fewest samples of a pass with which the model can train.
  int64_t copy_every_steps = 0;  // 0: the ranks keep no copies (copies.h).
};

// A job's timeouts; as in proto/job_spec.proto.
struct JobTimeouts {
  absl::Duration stall_warning = absl::InfiniteDuration();
  absl::Duration hang = absl::InfiniteDuration();
  absl::Duration collective = absl::Seconds(300);
  absl::Duration startup = absl::Seconds(900);
  absl::Duration give_up = absl::Seconds(900);
};

// As in proto/job.proto.
struct MembershipChange {
  Generation generation;
  std::string reason;
  absl::Time begun;                         // Wall.
  absl::Time ended = absl::InfinitePast();  // Wall; infinite: not yet.
  int ranks_before = 0;
  int ranks_after = 0;
  int64_t step = 0;  // Done when the members went on.
  bool planned = false;
  bool averages_first = false;
  int64_t restored_step = 0;  // All went back to the copies of this step; 0: they did not.
  int64_t steps_lost = 0;     // The most that one had done beyond it.
};

// Why copies in host memory are not made as they should be (copy_trouble.h). Stored as numbers.
enum class CopyTrouble { kNone = 0, kLate = 1, kFailed = 2, kLeftOut = 3 };

// A job's copies in host memory (copies.h).
struct JobCopies {
  // The newest complete ones. 0: there are none.
  int64_t step = 0;
  Generation generation{0};                // In which they were made.
  absl::Time time = absl::InfinitePast();  // Wall: when they were complete.
  int64_t settled_step = 0;                // As MemberCopies in proto/plan.proto.
  bool restoring = false;                  // The present generation goes back to them.
  CopyTrouble trouble = CopyTrouble::kNone;
  std::vector<int> buddies;  // Of the present generation, by rank. Not stored.
  std::vector<int> wards;    // The ranks whose buddies they are. Not stored.
};

// A failure that counts: of a seat's holder, or of the members' rendezvous (seat -1).
struct MemberFailure {
  int seat = -1;
  int64_t step = -1;        // The step it failed in; -1: it had not trained.
  bool own_error = false;   // As far as is known, not caused from outside.
  absl::Time steady, wall;  // When it was counted.
};

struct JobRecovery {
  // The generation of the newest start. Its members load a checkpoint by themselves.
  Generation started{0};
  int next_spare = 0;  // Number (TrainerId::rank) of the next spare of the present generation.
  RankBatch batch;     // The present generation's; zeros: as in the spec.
  std::vector<MembershipChange> history;   // Oldest first; at most kChangesKept.
  int64_t changes = 0;                     // Changes begun since it was submitted.
  std::vector<MemberFailure> failures;     // Oldest first; those within the window that matter.
  std::map<NodeName, std::string> vacate;  // Nodes that its ranks have to leave, and why.
  // Replicas of a sharded model whose ranks elsewhere come back as soon as the trainers for that
  // are ready (planned_replicas.h). Stored, as without it these trainers would be surplus, and end.
  std::set<int> mending;
  // Nodes that get none of its ranks while there are others, until a new start; and why.
  std::map<NodeName, std::string> avoid;
  JobCopies copies;
  // Drained nodes whose ranks are not ended, as no node of the job answers; and the drain. For
  // people, and not stored.
  std::map<NodeName, std::string> waiting_drains;
  bool hopeless = false;  // A restart would only repeat its failure.
  bool stalled = false;   // The job's reason names a slow rank.

  // Steady; infinite future: there is none.
  absl::Time deadline = absl::InfiniteFuture();          // For the change under way.
  absl::Time recovering_since = absl::InfiniteFuture();  // When it began to recover.
  absl::Time trouble_since = absl::InfiniteFuture();     // A member waits, nobody has failed.
  // The newest generation that was given up for that, and counted. Stored, or each controller that
  // takes over while the next one waits for slots would count it again.
  Generation troubled{0};
  // Before this, no unreachable node's rank is given up; infinite future: the job is cut off.
  absl::Time unreachable_counts = absl::InfinitePast();
  absl::Time next_planned = absl::InfinitePast();      // No planned change before this.
  absl::Time next_spare_start = absl::InfinitePast();  // No start of a spare before this.
  // Step of the newest save for which the next planned change waits; 0: none. Not stored.
  int64_t awaited_save = 0;
  // When replicas that are stretched are looked at next.
  absl::Time next_mending = absl::InfiniteFuture();

  // Of an elastic job (elastic.h). None of it is stored: it is decided again.
  int growth_to = 0;     // Trainers are started so that it gets so many ranks; 0: it does not grow.
  int give_back_to = 0;  // It is to go down to so many ranks; 0: it is not.
  std::string give_back_for;  // Who waits for the others: "job 5 (digits)".
  // Steady: since when there have been slots for more ranks; infinite future: there are none.
  absl::Time idle_since = absl::InfiniteFuture();
  absl::Time next_growth = absl::InfinitePast();  // When such slots are looked for next. Steady.

  int spares_failed = 0;  // How many failed in a row.
  // How the last spare failed of which there is an event, and how many of them. Not stored.
  std::string spare_failure;
  int64_t spare_failures_reported = 0;
  absl::Time wake = absl::InfiniteFuture();  // When to call AdvanceMembership again.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_RECOVERY_STATE_H_
