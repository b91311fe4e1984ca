#include "worker/daemon/trainers/node_trainers.h"

#include <sys/epoll.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/boot_clock.h"
#include "common/core/status_macros.h"
#include "common/job_spec/enum_name.h"
#include "common/log.h"
#include "worker/daemon/logs/log_files.h"
#include "worker/daemon/logs/log_marks.h"
#include "worker/daemon/state/state_dir.h"
#include "worker/daemon/trainers/thread_stacks.h"

namespace paceline {
namespace {

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

// How long a rank that is to end may take to report its collectives, and how often we look.
constexpr absl::Duration kLastAnswer = absl::Milliseconds(300);
constexpr absl::Duration kLookAgain = absl::Milliseconds(20);

// The standby script is beside the folder of the Python watcher.
std::string StandbyScript(const TrainerSetup& setup) {
  return setup.watch_dir.empty() ? "" : absl::StrCat(setup.watch_dir, "/../standby.py");
}

}  // namespace

NodeTrainers::NodeTrainers(EventLoop& loop, Options options, WorkerMetrics& metrics,
                           SideThreads& threads, std::function<void(Tell)> tell)
    : loop_(loop),
      options_(std::move(options)),
      metrics_(metrics),
      threads_(threads),
      tell_(std::move(tell)),
      set_(options_.set),
      standbys_(StandbyScript(options_.setup)),
      codes_(options_.setup.paths, options_.setup.user, threads,
             [this](const JobId& job) { OnCodeSettled(job); }),
      poller_(loop),
      sockets_(
          loop, poller_, Peers(),
          [this](const TrainerId& id, const v1::TrainerStatus& status) { OnStatus(id, status); }) {}

TrainerSockets::Peers NodeTrainers::Peers() {
  TrainerSockets::Peers peers;
  peers.uid = options_.setup.user.ids.uid;
  peers.gid = options_.setup.user.ids.gid;
  peers.vouch = [this](const TrainerId& id, pid_t pid) -> absl::Status {
    const NodeTrainer* const trainer = Find(id);
    if (trainer != nullptr) return trainer->Vouch(pid);
    return absl::PermissionDeniedError("it says that it is a trainer that this node does not have");
  };
  peers.on_refused = [this](TrainerSockets::Refusal refusal) {
    metrics_.AddRefused(refusal == TrainerSockets::Refusal::kUser ? "user" : "process");
  };
  return peers;
}

absl::Status NodeTrainers::Start() {
  PACELINE_RETURN_IF_ERROR(sockets_.Listen(options_.setup.paths.Socket()));
  FindTrainers();
  std::set<JobId> running;
  for (const auto& [id, trainer] : trainers_) {
    if (!trainer.ended()) running.insert(id.job);
  }
  codes_.Start(running, BootNow());
  RemoveStrayRings();
  RemoveDirs();  // Those that an earlier daemon set aside.
  return absl::OkStatus();
}

// ---- The controller's wishes.

void NodeTrainers::SetPlan(const v1::NodePlan& plan) {
  PlanReceived event;
  plans_.clear();
  for (const v1::TrainerPlan& wanted : plan.trainers()) {
    const TrainerId id = IdFromProto(wanted.id());
    if (!IsValid(id)) {
      PACELINE_LOG(ERROR) << "plan_entry_ignored reason=\"impossible id\"";
      continue;
    }
    plans_[id] = wanted;
    std::optional<absl::Duration> stop;
    if (wanted.has_stop()) stop = absl::Seconds(std::max(0.0, wanted.stop().grace_s()));
    event.trainers.push_back({id, stop});
    NodeTrainer* const trainer = Find(id);
    if (trainer == nullptr || trainer->ended()) continue;
    v1::TrainerPlan kept = wanted;
    // A stop request is never taken back.
    if (set_.StopRequested(id)) kept.mutable_stop();
    trainer->SetPlan(kept);
    sockets_.SetCommand(id, trainer->Command());
    SaveWantedStacks(*trainer);
    if (trainer->CanLaunch()) Launch(*trainer);
  }
  Apply(event);
}

void NodeTrainers::Apply(const TrainerEvent& event) {
  Execute(set_.Step(event, EventLoop::Now()));
  ArmDeadline();
}

void NodeTrainers::Execute(const std::vector<TrainerAction>& actions) {
  for (const TrainerAction& action : actions) {
    std::visit(Overloaded{
                   [this](const StartTrainer& start) { Start(start.id); },
                   [this](const SkipTrainer& skip) { Skip(skip.id); },
                   [this](const TerminateTrainer& stop) { Stop(stop.id, /*kill=*/false); },
                   [this](const KillTrainer& stop) { Stop(stop.id, /*kill=*/true); },
                   [this](const ForgetTrainer& forget) { Forget(forget.id); },
                   [this](const DeleteTrainerDir& gone) { DeleteDir(gone.id); },
               },
               action);
  }
}

void NodeTrainers::ArmDeadline() {
  if (deadline_.has_value()) loop_.Cancel(*deadline_);
  deadline_.reset();
  const absl::Time next = set_.NextDeadline();
  if (next == absl::InfiniteFuture()) return;
  deadline_ = loop_.After(next - EventLoop::Now(), [this] {
    deadline_.reset();
    Execute(set_.Tick(EventLoop::Now()));
    ArmDeadline();
  });
}

void NodeTrainers::Start(const TrainerId& id) {
  NodeTrainer& trainer = trainers_.try_emplace(id, options_.setup, id).first->second;
  const absl::Status status = trainer.Start(plans_.at(id));
  if (!status.ok()) trainer.FailStart(status);
  tell_(Tell::kSoon);
  if (trainer.ended()) return EndLater(trainer);
  if (trainer.plan().spec().has_code()) {
    codes_.Want(id.job, id.generation, trainer.plan().spec().code(), BootNow());
    TakeCode(trainer);
    if (trainer.ended()) return;
  }
  sockets_.SetCommand(id, trainer.Command());
  if (trainer.process().has_value()) OnStarted(trainer);
  if (trainer.CanLaunch()) Launch(trainer);
}

void NodeTrainers::OnStarted(NodeTrainer& trainer) {
  metrics_.AddStarted();
  PACELINE_LOG(INFO) << "trainer_started " << trainer.Named()
                     << " shim=" << trainer.process()->shim();
  Watch(trainer);
}

// Checks the state of its job's code.
void NodeTrainers::TakeCode(NodeTrainer& trainer) {
  const absl::Status code = codes_.Look(trainer.id().job);
  trainer.SetWaitsForCode(absl::IsUnavailable(code));
  if (code.ok() || absl::IsUnavailable(code)) return;
  trainer.FailStart(code);
  EndLater(trainer);
}

void NodeTrainers::Launch(NodeTrainer& trainer) {
  const auto command = trainer.PrepareLaunch();
  absl::Status status = command.status();
  if (command.ok()) {
    std::optional<TrainerProcess> stood_by = standbys_.Start(trainer, *command);
    if (stood_by.has_value()) PACELINE_LOG(INFO) << "standby_taken " << trainer.Named();
    status = trainer.Launch(*command, std::move(stood_by));
  }
  tell_(Tell::kNow);
  if (status.ok()) return OnStarted(trainer);
  trainer.FailStart(status);
  EndLater(trainer);
}

// Posts the event: TrainerSet must not change while its actions are executed.
void NodeTrainers::EndLater(const NodeTrainer& trainer) {
  OnEnded(trainer);
  loop_.Post([this, id = trainer.id()] { Apply(TrainerEnded{id}); });
}

void NodeTrainers::Skip(const TrainerId& id) {
  trainers_.try_emplace(id, options_.setup, id).first->second.Skip(plans_.at(id));
  tell_(Tell::kSoon);
}

void NodeTrainers::Stop(const TrainerId& id, bool kill) {
  NodeTrainer* const trainer = Find(id);
  if (trainer == nullptr) return;
  if (trainer->IsUnlaunched()) {
    trainer->EndUnlaunched();
    tell_(Tell::kSoon);
    return EndLater(*trainer);
  }
  if (!trainer->process().has_value()) return;
  // A later daemon must know about the stop request: store it before the trainer ends.
  v1::TrainerPlan plan = trainer->plan();
  plan.mutable_stop();
  trainer->SetPlan(plan);
  sockets_.SetCommand(id, trainer->Command());
  PACELINE_LOG(INFO) << (kill ? "trainer_killed " : "trainer_asked_to_stop ") << trainer->Named();
  if (kill) return trainer->Stop(kill);
  StopWhenAsked(id, BootNow() + kLastAnswer);
}

// Asks the rank for its collectives first: after another rank's failure, this is the last chance.
void NodeTrainers::StopWhenAsked(const TrainerId& id, absl::Time latest) {
  NodeTrainer* const trainer = Find(id);
  if (trainer == nullptr || !trainer->process().has_value()) return;
  Tell tell = Tell::kNothing;
  const absl::Time now = BootNow();
  if (!trainer->AskCollectives(now, tell) || now >= latest) return trainer->Stop(/*kill=*/false);
  tell_(tell);
  loop_.After(kLookAgain, [this, id, latest] { StopWhenAsked(id, latest); });
}

void NodeTrainers::Forget(const TrainerId& id) {
  NodeTrainer* const trainer = Find(id);
  if (trainer == nullptr) return;
  if (trainer->ring().has_value()) LeaveSteps(id, *trainer->ring());
  trainer->Forget();
  trainers_.erase(id);
  if (const auto shown = shown_as_.find(id); shown != shown_as_.end()) {
    metrics_.ForgetTrainer(shown->second);
    shown_as_.erase(shown);
  }
  tell_(Tell::kSoon);
}

// The trainer may leave the plan before its last steps were sent, above all after an outage.
void NodeTrainers::LeaveSteps(const TrainerId& id, RingTail& ring) {
  CountDropped(ring.TakeDropped());
  while (std::optional<v1::StepBatch> batch = ring.TakeBatch()) {
    *batch->mutable_id() = IdToProto(id);
    CountDropped(left_.Add(*std::move(batch)));
  }
}

void NodeTrainers::OnCodeSettled(const JobId& job) {
  RemoveDirs();  // The remains of a failure may be what fills the disk.
  for (auto& [id, trainer] : trainers_) {
    if (!(id.job == job) || !trainer.IsUnlaunched()) continue;
    TakeCode(trainer);
    tell_(Tell::kNow);
    if (trainer.CanLaunch()) Launch(trainer);
  }
}

void NodeTrainers::RemoveUnusedCode(absl::Time now) {
  std::set<JobId> needed;
  for (const auto& [id, plan] : plans_) needed.insert(id.job);
  for (const auto& [id, trainer] : trainers_) needed.insert(id.job);
  if (codes_.RemoveUnused(needed, now)) RemoveDirs();
}

void NodeTrainers::DeleteDir(const TrainerId& id) {
  const absl::Status aside = SetDirAside(options_.setup.paths.TrainerDir(id));
  if (!aside.ok()) PACELINE_LOG(ERROR) << "dir_not_deleted reason=\"" << aside.message() << "\"";
  RemoveDirs();
}

void NodeTrainers::RemoveDirs() {
  if (std::exchange(removing_, true)) {
    remove_again_ = true;
    return;
  }
  threads_.Run([paths = options_.setup.paths](
                   const std::atomic<bool>& stop) { RemoveDirsAside(paths, stop); },
               [this] {
                 removing_ = false;
                 if (std::exchange(remove_again_, false)) RemoveDirs();
               });
}

// ---- Events of the trainers.

void NodeTrainers::Watch(NodeTrainer& trainer) {
  poller_.Arm(trainer.process()->fd(), EPOLLIN, [this, id = trainer.id()] { OnProcessEnded(id); });
}

void NodeTrainers::OnProcessEnded(const TrainerId& id) {
  NodeTrainer& trainer = *Find(id);
  if (trainer.process().has_value()) poller_.Disarm(trainer.process()->fd());
  trainer.Judge(set_.StopRequested(id));
  // Report before the trainer is forgotten: its last steps are worth seeing.
  tell_(Tell::kNow);
  trainer.KeepResult();
  OnEnded(trainer);
  Apply(TrainerEnded{id});
}

void NodeTrainers::OnEnded(const NodeTrainer& trainer) {
  const v1::TrainerExit exit = trainer.Report().exit();
  metrics_.AddEnded(exit.failure());
  sockets_.Forget(trainer.id());
  PACELINE_LOG(INFO) << "trainer_ended " << trainer.Named()
                     << " failure=" << ShortEnumName(*v1::FailureKind_descriptor(), exit.failure())
                     << " code=" << exit.exit_code() << " signal=" << exit.signal() << " reason=\""
                     << exit.message() << "\"";
}

void NodeTrainers::OnStatus(const TrainerId& id, const v1::TrainerStatus& status) {
  NodeTrainer* const trainer = Find(id);
  if (trainer != nullptr) tell_(trainer->OnStatus(status));
}

void NodeTrainers::Poll(absl::Time now) {
  std::map<v1::TrainerState, int> by_state;
  for (auto& [id, trainer] : trainers_) {
    if (!trainer.ended()) tell_(trainer.Poll(now));
    if (trainer.ring().has_value()) CountDropped(trainer.ring()->TakeDropped());
    SaveWantedStacks(trainer);
    const v1::TrainerReport report = trainer.Report();
    ++by_state[report.state()];
    Show(trainer, report);
  }
  metrics_.SetTrainers(by_state);
  standbys_.Poll(trainers_, now);
  RemoveUnusedCode(now);
}

void NodeTrainers::Fence(const Lease& lease, absl::Time now) {
  std::vector<HeldTrainer> held;
  for (const auto& [id, trainer] : trainers_) held.push_back(trainer.Held());
  for (const FencedTrainer& fenced : ToFence(held, lease, now)) {
    NodeTrainer& trainer = *Find(fenced.id);
    trainer.Fence(fenced.why);
    PACELINE_LOG(WARNING) << "trainer_fenced " << trainer.Named() << " reason=\"" << fenced.why
                          << "\"";
  }
}

void NodeTrainers::SaveWantedStacks(NodeTrainer& trainer) {
  const std::optional<pid_t> process = trainer.BeginStacks();
  if (!process.has_value()) return;
  const auto status = std::make_shared<absl::Status>();
  threads_.Run(
      [pid = *process, user = options_.setup.user.switched(), path = trainer.StacksPath(),
       status](const std::atomic<bool>& stop) { *status = SaveStacks(pid, user, path, stop); },
      [this, id = trainer.id(), status] {
        NodeTrainer* const saved = Find(id);
        if (saved == nullptr) return;
        saved->EndStacks(status->ok());
        tell_(Tell::kNow);
        PACELINE_LOG(INFO) << "stacks_saved " << saved->Named() << " file=" << saved->StacksPath()
                           << (status->ok() ? ""
                                            : absl::StrCat(" error=\"", status->message(), "\""));
      });
}

void NodeTrainers::CountDropped(int64_t records) {
  dropped_ += records;
  metrics_.AddDropped(records);
}

void NodeTrainers::Show(const NodeTrainer& trainer, const v1::TrainerReport& report) {
  const TrainerId& id = trainer.id();
  const TrainerId member = trainer.Member();
  const auto [shown, is_new] = shown_as_.try_emplace(id, member);
  if (!(shown->second == member)) metrics_.ForgetTrainer(std::exchange(shown->second, member));
  if (member.rank.value() < 0) return;  // Spares have no metrics: they do not train.
  metrics_.SetFigures(member, report.figures(), report.plan());
  if (report.has_checkpoints()) metrics_.SetCheckpoints(member, report.checkpoints());
  if (trainer.ring().has_value()) {
    metrics_.SetTrainer(member, report.progress(), trainer.ring()->phase_ns());
  }
}

void NodeTrainers::PruneLogs() {
  for (const auto& [id, trainer] : trainers_) {
    if (trainer.ended()) continue;
    const NodePaths& paths = options_.setup.paths;
    LogFiles(paths.LogDir(id))
        .DeleteOldest(options_.log_segments, options_.setup.log_segment_bytes);
    LogMarks(paths.LogDir(id), paths.LogMarks(id)).Add(absl::Now());
  }
}

// ---- Reports.

google::protobuf::RepeatedPtrField<v1::TrainerReport> NodeTrainers::Report() const {
  google::protobuf::RepeatedPtrField<v1::TrainerReport> reports;
  for (const auto& [id, trainer] : trainers_) {
    v1::TrainerReport& report = *reports.Add() = trainer.Report();
    report.set_standby(standbys_.Tell(trainer));
  }
  return reports;
}

std::optional<v1::NodeSteps> NodeTrainers::NextSteps() {
  v1::NodeSteps steps;
  int records = 0;
  while (records < kMaxRecords) {
    std::optional<v1::StepBatch> batch = left_.Take();
    if (!batch.has_value()) break;
    records += batch->records_size();
    *steps.add_batches() = *std::move(batch);
  }
  auto next = last_batch_.has_value() ? trainers_.upper_bound(*last_batch_) : trainers_.begin();
  for (size_t tried = 0; tried < trainers_.size() && records < kMaxRecords; ++tried, ++next) {
    if (next == trainers_.end()) next = trainers_.begin();
    if (!next->second.ring().has_value()) continue;
    std::optional<v1::StepBatch> batch = next->second.ring()->TakeBatch();
    if (!batch.has_value()) continue;
    last_batch_ = next->first;
    records += batch->records_size();
    *batch->mutable_id() = IdToProto(next->first);
    *steps.add_batches() = *std::move(batch);
  }
  if (steps.batches().empty()) return std::nullopt;
  return steps;
}

bool NodeTrainers::Runs(const TrainerId& id) const {
  const auto found = trainers_.find(id);
  return found != trainers_.end() && !found->second.ended();
}

int NodeTrainers::Running() const {
  return static_cast<int>(std::count_if(trainers_.begin(), trainers_.end(),
                                        [](const auto& entry) { return !entry.second.ended(); }));
}

NodeTrainer* NodeTrainers::Find(const TrainerId& id) {
  const auto found = trainers_.find(id);
  return found == trainers_.end() ? nullptr : &found->second;
}

}  // namespace paceline
