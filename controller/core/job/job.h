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
// If the spec says so, lost ranks are replaced while the job runs: recovery.h. Otherwise, when a
// rank fails, the others soon fail too, since their collectives break; blame.h says which failure
// is kept. The others are stopped with a short grace, in which a rank whose own error is still on
// its way can report it. Then the job starts again as its next generation, if restart.h says so.
//
// An unreachable node changes nothing here: its trainers may well be running.
#ifndef CONTROLLER_CORE_JOB_JOB_H_
#define CONTROLLER_CORE_JOB_JOB_H_

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/core/ids.h"
#include "common/core/ladder.h"
#include "common/core/moment.h"
#include "controller/core/checkpoint/checkpoint.h"
#include "controller/core/job/artifacts.h"
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

// Time between the failure of a rank and the SIGKILL of the others.
inline constexpr absl::Duration kFailureGrace = absl::Milliseconds(500);
// How long after the grace the job ends even if a node has not confirmed.
inline constexpr absl::Duration kStopConfirmation = absl::Seconds(1);
inline constexpr absl::Duration kDefaultCancelGrace = absl::Seconds(5);

// The part of a strategy that matters here; the rest is opaque.
struct JobStrategy {
  bool has_ladder = false;      // It has a ladder, which can be changed.
  bool one_level = false;       // The ladder has one level, of all ranks.
  Ladder ladder = {};           // For local_sgd: one level.
  int64_t warmup_steps = 0;     // First steps, by the gradients of all ranks.
  int gradient_group_size = 0;  // After these: ranks per group; 0: those of a node.
  // How Slipstream begins, if it is the strategy; it can be changed.
  std::optional<SlipstreamChoice> slipstream = {};
  bool is_auto = false;      // Begins as ddp; stragglers/remedy decides what follows.
  bool is_adaptive = false;  // Is auto, and the optimizer keeps second moments.
};

// For a job whose ranks run a program of the user's own.
struct CommandPolicy {
  bool watched = false;  // Whether its steps, if it makes any, are seen.
  absl::Duration stop_grace = absl::Seconds(10);
  std::string code = {};    // SHA-256 of the files sent along with it; empty: none.
  bool is_session = false;  // Paceline's engine trains inside it.
};

// The label and the value of nodes that accept commands.
inline constexpr char kCommandsLabel[] = "commands";
inline constexpr char kTakesCommands[] = "on";
// The same for nodes that accept code sent along with commands.
inline constexpr char kCodeLabel[] = "code";
inline constexpr char kTakesCode[] = "on";
// The same for nodes that start sessions.
inline constexpr char kSessionsLabel[] = "sessions";
inline constexpr char kTakesSessions[] = "on";
// The same for nodes that read objects of stores, which their operators allow.
inline constexpr char kObjectsLabel[] = "objects";
inline constexpr char kTakesObjects[] = "on";
// The same for nodes that accept compiled models, as they accept commands.
inline constexpr char kCompiledLabel[] = "compiled";
inline constexpr char kTakesCompiled[] = "on";

// What the controller was asked to run; the spec itself is opaque to core.
struct JobRequest {
  JobId id;
  std::string name;
  int ranks = 1;
  Device device = Device::kCpu;
  std::string spec;   // Serialized paceline.v1.JobSpec.
  int64_t steps = 0;  // Steps to train.
  JobStrategy strategy = {};
  std::string strategy_spec = {};  // Serialized paceline.v1.Strategy.
  CheckpointPolicy checkpoints = {};
  int max_restarts = 0;
  std::string resume_from = {};  // Directory of a checkpoint; empty: none.
  std::string queue = "default";
  int priority = 0;  // Within its queue; a greater one goes first.
  PlacementPolicy placement = {};
  int spares = 0;  // Slots for replacements of lost ranks, beside those of the ranks.
  RecoveryPolicy recovery = {};
  JobTimeouts timeouts = {};
  StragglerMode stragglers = StragglerMode::kAdvise;
  std::optional<CommandPolicy> command = std::nullopt;
  int shards = 1;  // Ranks of a replica of the model (common/core/lanes.h); divides `ranks`.
  // For people: the spec's. They may change at any time, and with them the spec.
  std::map<std::string, std::string> labels = {};
  std::string description = {};
};

// `steps` of a job that does not say how many it makes.
inline constexpr int64_t kUnknownSteps = std::numeric_limits<int64_t>::max();

// Whether Paceline's engine trains: its ranks follow plans, recover and save. A command that is no
// session has none.
inline bool HasEngine(const JobRequest& request) {
  return !request.command.has_value() || request.command->is_session;
}

// How long trainers have from SIGTERM to SIGKILL unless somebody says otherwise.
inline absl::Duration StopGraceOf(const JobRequest& request) {
  return request.command.has_value() ? request.command->stop_grace : kDefaultCancelGrace;
}

// Where one rank runs: one of a node's CPU slots, or one of its GPUs.
struct Slot {
  NodeName node;
  int number = 0;  // Of the CPU slot or GPU on its node, 0-based.
  // Labels "rack" and "island" of the node when the rank was placed.
  std::string rack = {};
  std::string island = {};
};

struct StopOrder {
  absl::Duration grace;  // Between SIGTERM and SIGKILL.
  absl::Time deadline;   // Steady; the job ends at this time at the latest.
};

// A trainer of the job: a member of the present generation, a spare, or one that leaves.
struct RankState {
  Slot slot;
  TrainerReport report;  // The last one; report.id is the identity of the process.
  int seat = -1;         // 0-based; of a leaving trainer: the one it had. -1: none.
  // If the model is sharded: seats it has had, each by its first generation there; -1: none. Older
  // ones than that of its newest report are forgotten (membership.h, SeatIn).
  std::map<Generation, int> seats = {};
  // Seats whose state it has in the newest complete copies (copies.h), as its own and as its
  // ward's; -1: none.
  int own_copy = -1;
  int ward_copy = -1;

  // Of a leaving trainer: it is ended at once, or when the change under way is done.
  std::optional<StopOrder> stop = std::nullopt;
  // While a planned change is under way. Of a trainer that leaves: nobody else has its state, so it
  // hands that over. Of the one that takes its seat: it gets its state so, and from nobody else.
  bool hands_over = false;
  // How it hangs. It is given up when its stacks are saved, or at the deadline (steady).
  std::string hangs = {};
  absl::Time stacks_deadline = absl::InfiniteFuture();

  // Steady, and not stored.
  absl::Time unreachable_since = absl::InfiniteFuture();  // Its node does not answer.
  std::string node_lost = {};                    // Why it counts as lost; empty: it does not.
  absl::Time progressed = absl::InfinitePast();  // When it was last seen to go on.
  absl::Time heard = absl::InfinitePast();       // When its node last reported it.
  absl::Time heard_wall = absl::InfinitePast();  // The same as wall time, for display.
  int64_t first_step = -1;                       // First step that was seen of it; -1: none.

  // Why a member is given up, and ended, although its end is not known; empty: it is not.
  std::string lost = {};
  bool counted = false;  // Whether its loss was counted (failure_budget.h).
};

// Which collectives the ranks wait in (collectives.h). Not stored.
struct JobCollectives {
  int64_t wanted = 0;  // Number of the newest question to the ranks; 0: they are not asked.
  absl::Time asked = absl::InfinitePast();     // Steady.
  bool answered = false;                       // All ranks have, or the wait for them is over.
  absl::Time reported = absl::InfinitePast();  // Wall: when `findings` were made.
  std::vector<std::string> findings;           // From the newest answers, or from earlier ones.
};

struct JobFailure {
  Rank rank;
  NodeName node;
  TrainerExit exit;
};

// What the ranks are to agree on.
struct JobPlan {
  PlanVersion version{1};
  std::string strategy;                             // Serialized paceline.v1.Strategy.
  Ladder ladder = {};                               // The strategy's.
  std::optional<SlipstreamChoice> slipstream = {};  // The strategy's; nothing: it is another one.
  SpecNeeds needs = {};  // The strategy's, if it is none of the spec's or the planner's.
};

// A profile that ranks were asked for. As ProfileRequest in proto/plan.proto.
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
  std::string submitter;  // Name of the person who submitted it; empty: not known.
  JobState state = JobState::kQueued;
  std::string reason;
  absl::Time created, started, ended;  // Wall; InfinitePast() while it has not happened.
  absl::Time placed;                   // Wall, as above.
  Generation generation{0};
  // Numbers up to this one also count as used: a restored backup may not know of their generations.
  Generation generations_used{0};
  std::vector<RankState> ranks;  // Members of the generation, by rank; empty while queued.
  std::optional<StopOrder> stop;
  std::optional<JobFailure> failure;
  JobCollectives collectives;
  std::optional<Evaluation> evaluation;
  JobPlan plan;  // The newest one decided (plan.h).
  // A plan that only another generation can take up. Neither is stored: if the controller restarts,
  // a change that was only decided is dropped, and one under way goes through.
  std::optional<JobPlan> next_plan;
  std::optional<JobPlan> former_plan;  // While a generation takes up a new plan: the one before.
  std::optional<JobProfile> profile;   // The newest one (profile.h).
  std::vector<NodeName> nodes;         // Used since the newest start; by name.

  JobArtifacts artifacts;
  JobCheckpoints checkpoints;
  StartPoint start;
  // Directory of the checkpoint, not one of its own, that it was made from: at first, or when it
  // was last resumed from one. Empty: it began without.
  std::string origin;
  std::string restored_from;   // Directory that the newest generation started from; empty: none.
  int restarts = 0;            // Starts after failures, since it was submitted or resumed.
  std::string restart_reason;  // Reason of the newest restart.
  FailureKind restart_failure = FailureKind::kNone;  // The failure before it; not stored.
  bool asked_to_stop = false;  // A user or somebody outside did: it is not restarted.
  bool requeue = false;        // While stopping: it is then queued again, which is no restart.

  // Membership (membership.h).
  // By seat: where the newest start placed it, or, if an elastic job has got it since, where it was
  // first taken. Groups go by this.
  std::vector<Slot> homes;
  std::vector<RankState> spares;   // They stand by, or start.
  std::vector<RankState> leaving;  // They are out, and are to end.
  JobRecovery recovery;

  bool ended_already() const {
    return state == JobState::kSucceeded || state == JobState::kFailed ||
           state == JobState::kCancelled;
  }
  // Whether ranks hold slots on their nodes.
  bool holds_slots() const { return !ranks.empty() && !ended_already(); }
};

// How much a change of a job matters.
enum class JobChange {
  kNone,
  kProgress,  // Worth showing, not worth storing.
  kTrainer,   // To be stored; it can only affect the plan of that trainer's own node.
  kState,     // To be stored before anything that depends on it is sent.
};

// The greatest number that a generation of the job has had, or may have had; and the next one,
// which no generation has had.
Generation NewestUsed(const Job& job);
Generation NextUnused(const Job& job);

// What a starting job does, and why it starts again.
std::string StartReason(const Job& job);

// A job that was just accepted.
Job NewJob(JobRequest request, int64_t number, Moment now);

// Gives a queued job its next generation. Ranks on a node become neighbours, and so do nodes in a
// rack; otherwise they keep the order of `slots`. Of a sharded job, the same is done with replicas,
// by their first ranks, whose own ranks keep their order.
void PlaceJob(Job& job, std::vector<Slot> slots, Moment now);

// Takes in a node's report of one of the job's trainers. A report of an unknown trainer, or of one
// that runs elsewhere, changes nothing.
JobChange ApplyReport(Job& job, const NodeName& node, const TrainerReport& report, Moment now);

// The job's trainers on this node are gone for ever.
JobChange LoseNode(Job& job, const NodeName& node, const std::string& why, Moment now);

// Asks the job to end. Nothing changes in a job that has ended; in one that is stopping, only a
// shorter grace does.
JobChange CancelJob(Job& job, const std::string& reason, absl::Duration grace, Moment now);

// Stops the trainers of a starting, training or recovering job, and queues it again without
// counting a restart. Nothing changes in any other state.
JobChange RequeueJob(Job& job, const std::string& reason, absl::Duration grace, Moment now);

// Does what is due by now: the end of a stop or of a settlement, or a save.
JobChange TickJob(Job& job, Moment now);

// When TickJob has something to do next; InfiniteFuture() if never. Steady.
absl::Time NextDeadline(const Job& job);

// host:port of the store of the generation's rendezvous: rank 0's; empty until every rank is ready.
std::string StoreAddress(const Job& job);

// Why Slipstream cannot train the job's model, from the first rank that says so; empty: it can, or
// that is not known yet.
std::string WhyNoSlipstream(const Job& job);

// Handles a rank's failure without recovery: the others are stopped, then restart.h decides.
void StopForFailure(Job& job, JobFailure failure, std::string reason, Moment now);

// The exit of a trainer of which only its last report is known.
TrainerExit LostExit(const TrainerReport& last, const std::string& why);

// The progress of all ranks together.
struct JobProgress {
  int64_t step = 0;  // Completed by every rank; with Slipstream, by the furthest.
  double loss = 0;   // Mean over ranks.
  double samples_per_second = 0;
  double tokens_per_second = 0;
  std::optional<double> mfu;  // Mean over the ranks that have one.
  absl::Duration training;    // Time since it began to run, until now or its end.
  double flops_per_second = 0;
  FlopsSource flops_source = FlopsSource::kUnknown;  // Of the first rank that knows.
};
JobProgress Summarize(const Job& job, absl::Time wall_now);

// All ranks go on from this step: forgets an evaluation of later ones, which are made again.
void DropEvaluationAfter(Job& job, int64_t step);

}  // namespace paceline

#endif  // CONTROLLER_CORE_JOB_JOB_H_
