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
#include "controller/core/job/artifacts.h"

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
  // While it evaluates: batches done, and their total number.
  int64_t evaluated_batches = 0;
  int64_t evaluation_batches = 0;
  // Of a sharded model: 1 + those entered in its generation. 0: they are not counted.
  int64_t collectives = 0;
};

struct Evaluation {
  int64_t step = 0;
  std::optional<double> accuracy;  // 0 to 1.
  double loss = 0;
  int64_t samples = 0;
};

// How far a rank is with its plan. Versions are 0 until it has one.
struct PlanStatus {
  PlanVersion prepared;
  PlanVersion active;
  int64_t active_since_step = 0;
  PlanVersion failed;  // A version that could not be prepared,
  std::string error;   // and why.

  friend bool operator==(const PlanStatus& a, const PlanStatus& b) {
    return std::tie(a.prepared, a.active, a.active_since_step, a.failed, a.error) ==
           std::tie(b.prepared, b.active, b.active_since_step, b.failed, b.error);
  }
};

// The newest profile that a rank has made, or failed to make.
struct ProfileResult {
  int64_t id = 0;       // Of the request; 0: none yet.
  std::string details;  // Serialized paceline.v1.ProfileResult.
};

// Measured by Slipstream.
struct RoundFigures {
  int64_t stretched = 0;    // Rounds held up by a stall, since it trains this way.
  double collective_s = 0;  // Time of a usual round,
  double copies_s = 0;      // and of a rank's copies in it.
};

// Where the number of a model's operations comes from, with the numbers of paceline.v1.FlopsSource.
enum class FlopsSource { kUnknown = 0, kFormula = 1, kCounted = 2, kGiven = 3 };

// What a rank measured. Core reads only what a job sums up or decides by; the rest is opaque.
struct Figures {
  double tokens_per_second = 0;
  std::optional<double> mfu;
  std::string details;  // Serialized paceline.v1.RankFigures; empty: none yet.
  std::optional<RoundFigures> rounds = {};
  double flops_per_second = 0;  // 0: not known.
  FlopsSource flops_source = FlopsSource::kUnknown;
};

enum class SaveState { kWriting, kDurable, kCommitted, kFailed, kSkipped };

enum class SaveFailure { kNone, kNoSpace, kNoPermission, kIo, kNotAgreed, kInconsistent, kNan };

// A rank reports at most this many of its newest saves.
inline constexpr size_t kMaxSavesReported = 8;

// One rank's part of one checkpoint of a generation.
struct SaveStatus {
  int64_t step = 0;   // Steps completed; 0: for an order that the ranks did not agree on.
  int64_t order = 0;  // Number of the order that it answers; 0: the spec's schedule.
  SaveState state = SaveState::kWriting;
  int64_t bytes = 0;  // Size of the shard.
  SaveFailure failure = SaveFailure::kNone;
  std::string error;
  Generation generation = Generation(0);  // The one it was made in; 0: that of the process.

  friend bool operator==(const SaveStatus& a, const SaveStatus& b) {
    return std::tie(a.step, a.order, a.state, a.bytes, a.failure, a.error, a.generation) ==
           std::tie(b.step, b.order, b.state, b.bytes, b.failure, b.error, b.generation);
  }
};

// How far a rank is with the copies of one generation. proto/plan.proto.
struct CopyStatus {
  Generation generation{0};
  int64_t copied_step = 0;
  int64_t settled_step = 0;
  std::string error;
  int64_t steps_lost = 0;
  int64_t failed_step = 0;

  friend bool operator==(const CopyStatus& a, const CopyStatus& b) {
    return std::tie(a.generation, a.copied_step, a.settled_step, a.error, a.steps_lost,
                    a.failed_step) == std::tie(b.generation, b.copied_step, b.settled_step, b.error,
                                               b.steps_lost, b.failed_step);
  }
};

// A trainer's part in the generations of its job, as it reports it. proto/plan.proto.
struct MembershipStatus {
  Generation generation{0};  // Newest one that it has trained in; 0: it has no state.
  bool waiting = false;
  std::string error;
  int64_t step = 0;
  Generation ready{0};  // A planned one that it could join at once.
  Generation left{0};   // Newest that it has left, met or not: the one `error` is about.
  bool can_hand_over = false;
  bool can_keep_copies = false;
  bool can_average_first = false;
  CopyStatus copies = {};

  friend bool operator==(const MembershipStatus& a, const MembershipStatus& b) {
    return std::tie(a.generation, a.waiting, a.error, a.step, a.ready, a.left, a.can_hand_over,
                    a.can_keep_copies, a.can_average_first, a.copies) ==
           std::tie(b.generation, b.waiting, b.error, b.step, b.ready, b.left, b.can_hand_over,
                    b.can_keep_copies, b.can_average_first, b.copies);
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

// A collective that a rank of a watched command has entered. As in proto/status.proto.
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
  int64_t last = 0;                     // Number of the last one entered; 0: none was.
  bool newest = false;                  // Its last collective is the newest of all groups'.
  std::vector<Collective> collectives;  // By number.
};

struct RankCollectives {
  int64_t wanted = 0;  // The question it answers; 0: left when the rank ended.
  std::string unavailable;
  std::vector<GroupCollectives> groups;
};

// One trainer, as its node reports it.
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
  std::vector<SaveStatus> saves = {};  // Oldest first; at most kMaxSavesReported.
  // Longest time that the latest save held up the training.
  absl::Duration blocked = absl::ZeroDuration();
  bool asked_to_end = false;  // By somebody other than its daemon.
  MembershipStatus membership = {};
  bool suspended = false;            // Its process is stopped.
  std::string stacks_file = {};      // Where its threads were, once asked for.
  std::string standby = {};          // State of an interpreter for its next start; empty: unknown.
  std::string no_slipstream = {};    // Why Slipstream cannot train the model; empty: it can.
  RankCollectives collectives = {};  // From a watched command that was asked.
  std::vector<Artifact> artifacts = {};  // All that it has reported; the job keeps them.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_JOB_TRAINER_STATE_H_
