// What is known of one trainer process: core's form of proto/status.proto, where each field
// is documented.
#ifndef CONTROLLER_CORE_JOB_TRAINER_STATE_H_
#define CONTROLLER_CORE_JOB_TRAINER_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/time/time.h"
#include "common/core/ids.h"

namespace paceline {

enum class TrainerState { kStarting, kReady, kRunning, kFinished, kExited };

enum class FailureKind {
  kNone,
  kSignal,
  kExitCode,
  kError,
  kOutOfMemory,
  kCollective,
  kInput,
  kStart,
  kOrphaned,
  kLost,
  kRestore,
};

struct Progress {
  int64_t step = 0;  // Steps completed.
  int phase = 0;     // Number of a paceline.v1.Phase.
  absl::Duration in_phase;
  double loss = 0;
  absl::Duration step_time;
  double samples_per_second = 0;
  // While it evaluates: batches done, and all of them.
  int64_t evaluated_batches = 0;
  int64_t evaluation_batches = 0;
};

struct Evaluation {
  int64_t step = 0;
  std::optional<double> accuracy;  // 0 to 1.
  double loss = 0;
  int64_t samples = 0;
};

// How far a rank is with its plan; epochs are 0 before it has one.
struct PlanStatus {
  PlanEpoch prepared;
  PlanEpoch active;
  int64_t active_since_step = 0;
  PlanEpoch failed;   // Could not be prepared,
  std::string error;  // for this reason.

  friend bool operator==(const PlanStatus& a, const PlanStatus& b) {
    return std::tie(a.prepared, a.active, a.active_since_step, a.failed, a.error) ==
           std::tie(b.prepared, b.active, b.active_since_step, b.failed, b.error);
  }
};

// The newest profile that a rank has made, or could not make.
struct ProfileResult {
  int64_t id = 0;       // Of the request; 0: none yet.
  std::string details;  // Serialized paceline.v1.ProfileResult.
};

// Of Slipstream.
struct RoundFigures {
  int64_t stretched = 0;    // Rounds that a stall has held up, since it trains so.
  double collective_s = 0;  // Of a usual round,
  double copies_s = 0;      // and a rank's copies in it.
};

// What a rank measured; all of it is opaque to core but what a job sums up, or decides by.
struct Figures {
  double tokens_per_second = 0;
  std::optional<double> mfu;
  std::string details;  // Serialized paceline.v1.RankFigures; empty: none yet.
  std::optional<RoundFigures> rounds = {};
};

enum class SaveState { kWriting, kDurable, kCommitted, kFailed, kSkipped };

enum class SaveFailure { kNone, kNoSpace, kNoPermission, kIo, kNotAgreed, kInconsistent, kNan };

// A rank tells of so many of its newest saves at most.
inline constexpr size_t kMaxSavesTold = 8;

// One rank's part of one checkpoint of a generation.
struct SaveStatus {
  int64_t step = 0;   // Steps completed; 0: of an order that the ranks did not agree on.
  int64_t order = 0;  // Number of the order that it answers; 0: by the spec.
  SaveState state = SaveState::kWriting;
  int64_t bytes = 0;  // Of the shard.
  SaveFailure failure = SaveFailure::kNone;
  std::string error;
  Generation generation = Generation(0);  // In which it was made; 0: that of the process.

  friend bool operator==(const SaveStatus& a, const SaveStatus& b) {
    return std::tie(a.step, a.order, a.state, a.bytes, a.failure, a.error, a.generation) ==
           std::tie(b.step, b.order, b.state, b.bytes, b.failure, b.error, b.generation);
  }
};

// What a trainer tells of its part in the generations of its job. proto/plan.proto.
struct MembershipStatus {
  Generation generation{0};  // Newest one that it has trained in; 0: it has no state yet.
  bool waiting = false;
  std::string error;
  int64_t step = 0;
  Generation ready{0};  // Planned one that it could take part in at once.
  Generation left{0};   // Newest one that it has left, met or not: the error's.

  friend bool operator==(const MembershipStatus& a, const MembershipStatus& b) {
    return std::tie(a.generation, a.waiting, a.error, a.step, a.ready, a.left) ==
           std::tie(b.generation, b.waiting, b.error, b.step, b.ready, b.left);
  }
};

struct TrainerExit {
  FailureKind failure = FailureKind::kNone;
  int exit_code = 0;
  int signal = 0;
  std::string message;
  int64_t step = 0;
  int phase = 0;
  absl::Duration in_phase;
  std::string log_tail;
};

// A collective that a rank of a watched command has entered. proto/status.proto.
struct Collective {
  int64_t number = 0;
  std::string operation;
  std::string input;
  bool finished = false;
};

struct GroupCollectives {
  std::string name;
  std::string description;
  std::vector<int> ranks;               // Global; empty: not known.
  int64_t last = 0;                     // Number of the one that was entered last; 0: none was.
  bool newest = false;                  // Of all groups' collectives, its last one is the newest.
  std::vector<Collective> collectives;  // By number.
};

struct RankCollectives {
  int64_t wanted = 0;  // The question that it answers; 0: it was left at the rank's end.
  std::string unavailable;
  std::vector<GroupCollectives> groups;
};

// One trainer as its node reports it.
struct TrainerReport {
  TrainerId id;
  TrainerState state = TrainerState::kStarting;
  int64_t pid = 0;
  std::string store_address;
  Progress progress;
  std::optional<Evaluation> evaluation;
  std::optional<TrainerExit> exit;  // Set when state is kExited.
  PlanStatus plan;
  Figures figures;
  ProfileResult profile;
  std::vector<SaveStatus> saves = {};  // Oldest first; at most kMaxSavesTold.
  // Longest time that training stood still for the latest save.
  absl::Duration blocked = absl::ZeroDuration();
  bool asked_to_end = false;  // By somebody else than its daemon.
  MembershipStatus membership = {};
  bool suspended = false;            // The process is stopped.
  std::string stacks_file = {};      // Where its threads were, once that was asked for.
  std::string standby = {};          // Of an interpreter for its next start; empty: not known.
  std::string no_slipstream = {};    // Why Slipstream cannot train the model; empty: it can.
  RankCollectives collectives = {};  // Of a watched command that was asked.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_JOB_TRAINER_STATE_H_
