// What a job knows of its checkpoints: those on disk, the saves under way, the newest order for
// one, and what is still to be done in its directory.
//
// A checkpoint is what one generation saved after one step. It begins to exist when rank 0, which
// is allowed to once the shards of all ranks are on disk, has written its manifest. A report tells
// of that; and should nobody be left to tell, the directory does: after each generation it is
// scanned ("settled") before anything is started from it.
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

// The part of proto/job_spec.proto, CheckpointPolicy, that is decided here.
struct CheckpointPolicy {
  std::string directory;  // Of all jobs that were given it; empty: no checkpoints.
  absl::Duration every;   // Zero: not by time.
  bool auto_interval = false;
  int keep_latest = 3;              // 0: all.
  int64_t keep_every = 0;           // 0: none.
  bool previous_on_damage = false;  // Else the job fails.
};

enum class CheckpointState { kComplete, kDamaged, kDeleting };

struct Checkpoint {
  CheckpointKey key;
  CheckpointState state = CheckpointState::kComplete;
  std::string reason;  // Why it is damaged, or could not be removed so far.
  int64_t bytes = 0;
  int ranks = 0;  // That saved it.
  // Wall: when the controller heard of it, or by the node that wrote it. Never before an older one
  // of the job, whatever their clocks say.
  absl::Time created;
  bool pinned = false;
  std::string base = {};  // Directory that a person named for it; empty: the job's own.
};

// What a failed save has left.
struct Remnant {
  CheckpointKey key;
  std::string base;  // As Checkpoint.

  friend bool operator==(const Remnant& a, const Remnant& b) {
    return a.key == b.key && a.base == b.base;
  }
};

// A save of the current generation, as far as its ranks have told.
struct Save {
  // kUnknown: rank 0 was allowed to commit it, and does not tell any more whether it has. Settling
  // will find out.
  enum class Outcome { kUnderWay, kComplete, kFailed, kUnknown };
  struct Part {
    SaveState state = SaveState::kWriting;
    int64_t bytes = 0;
  };

  int64_t step = 0;
  int64_t order = 0;             // 0: by the spec. All parts are of this one.
  std::vector<int64_t> earlier;  // Orders before it, by which this state was to be saved elsewhere.
  Outcome outcome = Outcome::kUnderWay;
  absl::Time begun;                        // Steady; when the first rank told of it.
  std::vector<std::optional<Part>> parts;  // By rank; nothing while the rank has not told.
};

// The newest save that was asked for.
struct SaveOrder {
  enum class State { kPending, kComplete, kFailed };

  int64_t number = 0;
  Generation generation;  // That it was given to.
  bool now = false;
  std::string reason;  // For people.
  State state = State::kPending;
  int64_t step = 0;       // Of the checkpoint, once it is known.
  std::string error;      // Why it failed.
  bool may_pass = false;  // The reason: another try may succeed.
};

// The job is stopped, or queued again, when its pending order has ended.
struct StopAfterSave {
  std::string reason;
  absl::Duration grace;
  absl::Time deadline;  // Steady; the order has failed then at the latest.
  bool requeue = false;
  NodeName leaves = {};  // Of a requeue: the node for which it happens, if one.
  // Of a stop whose save fails for a reason that may pass: the job trains on, and is saved again
  // after a pause (common/core/hold_pause.h).
  int tries = 0;                                   // That have failed.
  absl::Time held_since = absl::InfiniteFuture();  // Steady; infinite: it is not held.
  absl::Time next_try = absl::InfiniteFuture();    // Steady; infinite: one is under way.
};

// A queued job keeps its place in the queue for so long while its directory is scanned.
inline constexpr absl::Duration kSettlementPatience = absl::Seconds(10);

// The directory must be scanned before it is relied on.
struct Settlement {
  Generation up_to;   // What generations up to this one left incomplete is removed.
  std::string error;  // Why it could not be done so far.
  // Steady, kSettlementPatience after its begin; infinite: that has passed.
  absl::Time deadline = absl::InfiniteFuture();
};

// Where a job starts that has no checkpoint of its own since.
struct StartPoint {
  std::string directory;  // Of a checkpoint; empty: from the beginning.
  Generation since{1};    // Checkpoints of this generation and later ones go before it.
};

struct JobCheckpoints {
  std::vector<Checkpoint> records;       // Oldest first: by generation, then step.
  std::vector<Save> saves;               // By step.
  int64_t forgotten_step = 0;            // Saves up to here have ended and are not in `saves`.
  std::vector<Remnant> remnants;         // Directories of failed saves, to be removed.
  std::optional<Settlement> settlement;  // Set while it is due.
  std::optional<SaveOrder> order;
  // Directories that persons named for saves, by the order's number. An order that is not listed
  // saves into the job's own.
  std::map<int64_t, std::string> places;
  std::optional<StopAfterSave> stop_after;

  // Since the job was submitted.
  int64_t committed = 0;
  std::map<SaveFailure, int64_t> failed;  // Saves by the first cause that was told.
  int64_t skipped = 0;
  std::string last_error;  // Of the latest save that failed; empty after one was complete.

  // Of the latest complete one.
  absl::Duration blocked;  // Longest time that a rank stood still for it.
  absl::Duration durable;  // From the first that was told of it; zero: not known.

  // Saves by time (save_order.h).
  absl::Duration interval;                             // Zero: none.
  absl::Time next_save = absl::InfiniteFuture();       // Steady; infinite: none is due.
  absl::Time next_save_wall = absl::InfiniteFuture();  // The same for display.
  int64_t failures = 0;                                // Generations that a rank's failure ended.
  absl::Duration node_time;                            // Of the generations that have ended.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_CHECKPOINT_CHECKPOINT_H_
