// What a job knows about its checkpoints: those on disk, the saves under way, the newest save
// order, and the work still to be done in its directory.
//
// A checkpoint is what one generation saved after one step. It exists once rank 0 has written its
// manifest, which rank 0 may do when the shards of all ranks are on disk. Normally a report
// announces it. In case nobody is left to report it, the directory is scanned ("settled") after
// each generation, before anything starts from it.
#ifndef CONTROLLER_CORE_CHECKPOINT_CHECKPOINT_H_
#define CONTROLLER_CORE_CHECKPOINT_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/core/checkpoint_key.h"
#include "common/core/ids.h"
#include "controller/core/job/trainer_state.h"

namespace paceline {

// The part of CheckpointPolicy (proto/job_spec.proto) that is decided here.
struct CheckpointPolicy {
  std::string directory;  // Shared by all jobs that name it; empty: no checkpoints.
  absl::Duration every;   // Zero: no saves by time.
  bool auto_interval = false;
  int keep_latest = 3;              // 0: keep all.
  int64_t keep_every = 0;           // Keep every step that this divides; 0: none.
  bool previous_on_damage = false;  // Go on from the previous one; else the job fails.
};

enum class CheckpointState { kComplete, kDamaged, kDeleting };

struct Checkpoint {
  CheckpointKey key;
  CheckpointState state = CheckpointState::kComplete;
  std::string reason;  // Why it is damaged, or could not be removed yet.
  int64_t bytes = 0;
  int ranks = 0;  // How many ranks saved it.
  // Wall time: when the controller heard of it, or when the node says it was written. Never earlier
  // than that of an older checkpoint of the job, whatever the clocks say.
  absl::Time created;
  bool pinned = false;
  std::string base = {};  // Directory that a person chose for it; empty: the job's own.
};

// A directory that a failed save has left behind.
struct Remnant {
  CheckpointKey key;
  std::string base;  // As Checkpoint::base.

  friend bool operator==(const Remnant& a, const Remnant& b) {
    return a.key == b.key && a.base == b.base;
  }
};

// A save of the current generation, as far as its ranks have reported it.
struct Save {
  // kUnknown: rank 0 was allowed to commit the save and no longer reports it. Settling will find
  // out whether it did.
  enum class Outcome { kUnderWay, kComplete, kFailed, kUnknown };
  struct Part {
    SaveState state = SaveState::kWriting;
    int64_t bytes = 0;
  };

  int64_t step = 0;
  int64_t order = 0;             // The order that all parts obey; 0: the spec's schedule.
  std::vector<int64_t> earlier;  // Earlier orders to save this state elsewhere.
  Outcome outcome = Outcome::kUnderWay;
  absl::Time begun;                        // Steady; when the first rank reported it.
  std::vector<std::optional<Part>> parts;  // By rank; empty until that rank has reported.
  // Steady, by rank: since when it trains beyond the step without its part. Not stored.
  std::map<int, absl::Time> untold_since;
};

// The newest save order.
struct SaveOrder {
  enum class State { kPending, kComplete, kFailed };

  int64_t number = 0;
  Generation generation;  // The generation that it was given to.
  bool now = false;
  std::string reason;  // For people.
  State state = State::kPending;
  int64_t step = 0;       // The checkpoint's, once known.
  std::string error;      // Why it failed.
  bool may_pass = false;  // Whether another try may succeed.
};

// Stops the job, or queues it again, when its pending order has ended.
struct StopAfterSave {
  std::string reason;
  absl::Duration grace;
  absl::Time deadline;  // Steady; the order fails at this time at the latest.
  bool requeue = false;
  NodeName leaves = {};  // The node that a requeue empties; may be empty.
  // If the save before a stop fails for a reason that may pass, the job trains on and is saved
  // again after a pause (common/core/hold_pause.h).
  int tries = 0;                                   // Tries that have failed.
  absl::Time held_since = absl::InfiniteFuture();  // Steady; infinite: not held.
  absl::Time next_try = absl::InfiniteFuture();    // Steady; infinite: a try is under way.
};

// How long a queued job keeps its place in the queue while its directory is scanned.
inline constexpr absl::Duration kSettlementPatience = absl::Seconds(10);

// Says that the directory must be scanned before anybody relies on it.
struct Settlement {
  Generation up_to;   // Incomplete saves of generations up to this one are removed.
  std::string error;  // Why it could not be done yet.
  // Steady: kSettlementPatience after it began; infinite: that time has passed.
  absl::Time deadline = absl::InfiniteFuture();
};

// Where a job starts if it has made no checkpoint of its own since.
struct StartPoint {
  std::string directory;  // Directory of a checkpoint; empty: start from the beginning.
  Generation since{1};    // Checkpoints of this generation or later are preferred to it.
};

struct JobCheckpoints {
  std::vector<Checkpoint> records;       // Oldest first: by generation, then step.
  std::vector<Save> saves;               // By step.
  int64_t forgotten_step = 0;            // Saves up to this step have ended and left `saves`.
  std::vector<Remnant> remnants;         // Directories of failed saves, to be removed.
  std::optional<Settlement> settlement;  // Set while a scan is due.
  std::optional<SaveOrder> order;
  // Directories that people chose for saves, by order number. An order without an entry saves to
  // the job's own directory.
  std::map<int64_t, std::string> directories;
  std::optional<StopAfterSave> stop_after;

  // Counted since the job was submitted.
  int64_t committed = 0;
  std::map<SaveFailure, int64_t> failed;  // Failed saves, by the first cause reported.
  int64_t skipped = 0;
  std::string last_error;  // Of the newest failed save; empty once a later one is complete.

  // Of the latest complete save:
  absl::Duration blocked;  // Longest time that it held up a rank.
  absl::Duration durable;  // From its first report to completion; zero: not known.

  // Saves by time (save_order.h).
  absl::Duration interval;                             // Zero: none is scheduled.
  absl::Time next_save = absl::InfiniteFuture();       // Steady; infinite: none is due.
  absl::Time next_save_wall = absl::InfiniteFuture();  // Wall, for display.
  int64_t failures = 0;                                // Generations that a rank's failure ended.
  absl::Duration node_time;                            // In generations that have ended.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_CHECKPOINT_CHECKPOINT_H_
