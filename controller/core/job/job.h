// A job's life: pure functions from a job and what happened to the next state of the job.
//
//                                              RECOVERING
//                          ranks are lost, and  ▲      │ all members train
//                          can be replaced      │      ▼
//            Place              all ranks RUNNING          all ranks exited well
//   QUEUED ────────▶ STARTING ─────────────────▶ RUNNING ────────────────────────▶ SUCCEEDED
//    │  ▲               │                           │
//    │  │ restart       │ cancel, or a rank fails   │
//    │  │               ▼                           ▼
//    │  ╰─────────── STOPPING ──── all ranks exited, or the deadline passed ────▶ CANCELLED |
//    │ cancel                                                                     FAILED
//    ▼
//  CANCELLED
//
// Where the spec says so, lost ranks are replaced inside the running job: recovery.h. Otherwise:
// when a rank fails, the others soon fail too, since their collectives break: blame.h says
// which failure is kept. The others are stopped with a short
// grace, in which a rank whose own error is still on its way can tell it. Then the job starts
// again as its next generation, if restart.h says so.
//
// A node's silence changes nothing here: its trainers may well be running.
#ifndef CONTROLLER_CORE_JOB_JOB_H_
#define CONTROLLER_CORE_JOB_JOB_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/core/ids.h"
#include "common/core/ladder.h"
#include "common/core/moment.h"
#include "controller/core/checkpoint/checkpoint.h"
#include "controller/core/job/slipstream_choice.h"
#include "controller/core/job/straggler_mode.h"
#include "controller/core/job/trainer_state.h"
#include "controller/core/recovery/recovery_state.h"
#include "controller/core/schedule/placement_policy.h"

namespace paceline {

enum class JobState {
  kQueued,
  kStarting,
  kRunning,
  kStopping,
  kSucceeded,
  kFailed,
  kCancelled,
  kRecovering,
};

enum class Device { kCpu, kCuda };

// Between the failure of a rank and the SIGKILL of the others.
inline constexpr absl::Duration kFailureGrace = absl::Milliseconds(500);
// After the grace has passed, the job ends even if a node did not confirm.
inline constexpr absl::Duration kStopConfirmation = absl::Seconds(1);
inline constexpr absl::Duration kDefaultCancelGrace = absl::Seconds(5);

// What of its strategy matters here; the rest is opaque.
struct JobStrategy {
  bool has_ladder = false;      // It has one, which can be changed.
  bool one_level = false;       // Of which each is one of all ranks.
  Ladder ladder = {};           // local_sgd: one level.
  int64_t warmup_steps = 0;     // By the gradients of all ranks.
  int gradient_group_size = 0;  // Thereafter; 0: those of a node.
  // Of Slipstream: what it begins with, which can be changed.
  std::optional<SlipstreamChoice> slipstream = {};
  bool is_auto = false;      // It begins as ddp; what follows is decided (stragglers/remedy).
  bool is_adaptive = false;  // Beside that: the optimizer keeps second moments.
};

// Of a job whose ranks are a program of its own.
struct CommandPolicy {
  bool watched = false;  // It may make steps that are seen.
  absl::Duration stop_grace = absl::Seconds(10);
  std::string code = {};  // SHA-256 of the files that travel with it; empty: none do.
};

// A node with this label and value takes commands.
inline constexpr char kCommandsLabel[] = "commands";
inline constexpr char kTakesCommands[] = "on";
// The same of code that travels with them.
inline constexpr char kCodeLabel[] = "code";
inline constexpr char kTakesCode[] = "on";

// What the controller was asked to run; the spec itself is opaque to core.
struct JobRequest {
  JobId id;
  std::string name;
  int ranks = 1;
  Device device = Device::kCpu;
  std::string spec;   // Serialized paceline.v1.JobSpec.
  int64_t steps = 0;  // To train.
  JobStrategy strategy = {};
  std::string strategy_spec = {};  // Serialized paceline.v1.Strategy.
  CheckpointPolicy checkpoints = {};
  int max_restarts = 0;
  std::string resume_from = {};  // Directory of a checkpoint; empty: none.
  std::string queue = "default";
  int priority = 0;  // Within its queue; the greater goes first.
  PlacementPolicy placement = {};
  int spares = 0;  // Places kept for ranks that are lost; beside those of the ranks.
  RecoveryPolicy recovery = {};
  JobTimeouts timeouts = {};
  StragglerMode stragglers = StragglerMode::kAdvise;
  std::optional<CommandPolicy> command = std::nullopt;
};

// Of a job that does not say how many steps it makes.
inline constexpr int64_t kUnknownSteps = std::numeric_limits<int64_t>::max();

// How long trainers have from SIGTERM to SIGKILL where nobody says otherwise.
inline absl::Duration StopGraceOf(const JobRequest& request) {
  return request.command.has_value() ? request.command->stop_grace : kDefaultCancelGrace;
}

// Room for one rank: a slot, or a GPU.
struct Place {
  NodeName node;
  int number = 0;         // Of the slot or GPU on its node, 0-based.
  std::string rack = {};  // Label "rack" of the node when the rank was placed.
};

struct StopOrder {
  absl::Duration grace;  // Between SIGTERM and SIGKILL.
  absl::Time deadline;   // Steady; the job ends then at the latest.
};

// A trainer of the job: a member of its present generation, a spare, or one that is to end.
struct RankState {
  Place place;
  TrainerReport report;  // The last one; report.id is the identity of the process.
  int seat = -1;         // 0-based; of a trainer that is out: the one it had. -1: none.

  // Of one that is out: it is ended, at once or when the change under way is done.
  std::optional<StopOrder> stop = std::nullopt;
  // It hangs, and how: it is given up when its stacks are saved, or then (steady).
  std::string hangs = {};
  absl::Time stacks_deadline = absl::InfiniteFuture();

  // Steady, and not stored.
  absl::Time silent_since = absl::InfiniteFuture();  // Its node does not answer.
  std::string node_lost = {};                        // Its node counts as lost; why.
  absl::Time progressed = absl::InfinitePast();      // It was seen to go on last.
  absl::Time heard = absl::InfinitePast();           // Its node told of it last.
  absl::Time heard_wall = absl::InfinitePast();      // The same for display: wall.
  int64_t first_step = -1;                           // Seen of it.

  // A member that is given up although its end is not known: why. It is ended.
  std::string lost = {};
  bool counted = false;  // Its loss was (failure_budget.h).
};

// Which collectives its ranks stand in (collectives.h). Not stored.
struct JobCollectives {
  int64_t wanted = 0;  // Number of the newest question to the ranks; 0: they are not asked.
  absl::Time asked = absl::InfinitePast();  // Steady.
  bool answered = false;                    // By all, or by those that were waited for.
  absl::Time told = absl::InfinitePast();   // Wall: when `findings` were made.
  std::vector<std::string> findings;        // Of the newest answers, or those before.
};

struct JobFailure {
  Rank rank;
  NodeName node;
  TrainerExit exit;
};

// What the ranks shall agree on.
struct JobPlan {
  PlanEpoch epoch{1};
  std::string strategy;                             // Serialized paceline.v1.Strategy.
  Ladder ladder = {};                               // Of it.
  std::optional<SlipstreamChoice> slipstream = {};  // The same; nothing: another strategy.
};

// A profile that ranks were asked for. proto/plan.proto, ProfileRequest.
struct JobProfile {
  int64_t id = 0;
  int64_t first_step = 0;
  int steps = 0;
  bool memory = false;
  std::vector<Rank> ranks;  // Ascending.
};

struct Job {
  JobRequest request;
  int64_t number = 0;     // Order of submission.
  std::string submitter;  // Name of who submitted it; empty: not known.
  JobState state = JobState::kQueued;
  std::string reason;
  absl::Time created, started, ended;  // Wall; InfinitePast() while it has not happened.
  absl::Time placed;                   // Wall, as above.
  Generation generation{0};
  // Numbers up to here count as used too: by generations that a restored backup knows nothing of.
  Generation generations_used{0};
  std::vector<RankState> ranks;  // Members of the generation, by rank; empty while queued.
  std::optional<StopOrder> stop;
  std::optional<JobFailure> failure;
  JobCollectives collectives;
  std::optional<Evaluation> evaluation;
  JobPlan plan;  // As last decided (plan.h).
  // One that only another generation can take up. Neither is stored: without, a change that was
  // decided is not made, and one under way comes about.
  std::optional<JobPlan> next_plan;
  std::optional<JobPlan> former_plan;  // Of a generation that takes up another one, until it has.
  std::optional<JobProfile> profile;   // The newest one (profile.h).
  std::vector<NodeName> nodes;         // Used since the newest start, by name.

  JobCheckpoints checkpoints;
  StartPoint start;
  std::string restored_from;   // Directory that the newest generation started from; empty: none.
  int restarts = 0;            // Starts after failures since it was submitted or resumed.
  std::string restart_reason;  // Of the newest one.
  FailureKind restart_failure = FailureKind::kNone;  // That it followed; not stored.
  bool asked_to_stop = false;  // By a user or from outside: it is not restarted.
  bool requeue = false;  // While it is stopping: it is queued again, not counted as a restart.

  // Membership (membership.h).
  std::vector<Place> homes;        // By seat: where the newest start placed it. Groups follow.
  std::vector<RankState> spares;   // Stand by, or start.
  std::vector<RankState> leaving;  // Are out, and shall end.
  JobRecovery recovery;

  bool ended_already() const {
    return state == JobState::kSucceeded || state == JobState::kFailed ||
           state == JobState::kCancelled;
  }
  // Ranks hold slots on their nodes.
  bool holds_slots() const { return !ranks.empty() && !ended_already(); }
};

// How much a change of a job matters.
enum class JobChange {
  kNone,
  kProgress,  // Worth showing, not worth storing.
  kTrainer,   // To be stored; only the plan of that trainer's own node can follow from it.
  kState,     // To be stored before anything that depends on it is sent.
};

// The greatest number of a generation that the job has had, or may have had; and the one after it,
// which none has had.
Generation NewestUsed(const Job& job);
Generation NextUnused(const Job& job);

// What a job that starts does, and why it starts again.
std::string StartReason(const Job& job);

// A job just accepted.
Job NewJob(JobRequest request, int64_t number, Moment now);

// Gives a queued job its next generation. The ranks of a node become neighbours, and so do
// the nodes of a rack; otherwise they keep the order of `places`.
void PlaceJob(Job& job, std::vector<Place> places, Moment now);

// Takes in what a node reports of one of the job's trainers. A report of another generation
// or of a trainer that runs elsewhere changes nothing.
JobChange ApplyReport(Job& job, const NodeName& node, const TrainerReport& report, Moment now);

// The trainers that the job had on this node are gone for ever.
JobChange LoseNode(Job& job, const NodeName& node, const std::string& why, Moment now);

// Asks for the end. Nothing changes in a job that has ended; in one that is stopping the grace, if
// it is a shorter one.
JobChange CancelJob(Job& job, const std::string& reason, absl::Duration grace, Moment now);

// Stops the trainers of a job that starts, trains or recovers and queues it again; that is not
// counted as a restart. Nothing changes in a job in another state.
JobChange RequeueJob(Job& job, const std::string& reason, absl::Duration grace, Moment now);

// What the passing of time does: the deadline of a stop or of a settlement, a save that is due.
JobChange TickJob(Job& job, Moment now);

// When TickJob has something to do next; InfiniteFuture() if never. Steady.
absl::Time NextDeadline(const Job& job);

// host:port of the store where the generation meets: rank 0's, once every rank is ready.
// Empty before.
std::string StoreAddress(const Job& job);

// Why Slipstream cannot train the job's model, as its first rank that says so has it; empty: it
// can, or nobody knows yet.
std::string WhyNoSlipstream(const Job& job);

// A rank's failure that is not recovered from: the others are stopped, and then restart.h decides.
void StopForFailure(Job& job, JobFailure failure, std::string reason, Moment now);

// Of a trainer of which nothing but its last report is known.
TrainerExit LostExit(const TrainerReport& last, const std::string& why);

// What the ranks' progress amounts to.
struct JobProgress {
  int64_t step = 0;  // Completed by every rank; of Slipstream, by all together.
  double loss = 0;   // Mean over ranks.
  double samples_per_second = 0;
  double tokens_per_second = 0;
  std::optional<double> mfu;  // Mean over the ranks that have one.
  absl::Duration training;    // Since it runs, until now or its end.
};
JobProgress Summarize(const Job& job, absl::Time wall_now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_JOB_JOB_H_
