// What the node does with its trainers: finds, starts, watches, stops and forgets them.
#include <sys/epoll.h>

#include <filesystem>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/log.h"
#include "worker/daemon/worker_node.h"

namespace paceline {
namespace {

constexpr absl::Duration kAdoptionRetry = absl::Milliseconds(10);

// For log lines.
std::string Named(const TrainerId& id) { return absl::StrCat("trainer=", TrainerName(id)); }

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace

// ---- What an earlier daemon left.

void WorkerNode::FindTrainers() {
  const absl::StatusOr<std::vector<TrainerId>> ids = ListTrainerDirs(options_.setup.paths);
  if (!ids.ok()) {
    PACELINE_LOG(ERROR) << "trainers_not_found reason=\"" << ids.status().message() << "\"";
    return;
  }
  for (const TrainerId& id : *ids) {
    switch (NodeTrainer::Examine(options_.setup.paths, id)) {
      case NodeTrainer::Remains::kOld:
      case NodeTrainer::Remains::kUnborn:  // A plan that still lists it starts it.
        Apply(OldDirFound{id});
        break;
      case NodeTrainer::Remains::kStarted:
        Adopt(id);
        break;
    }
  }
}

// Of trainers whose dir is gone: a daemon that was killed at the wrong moment leaves them.
void WorkerNode::RemoveStrayRings() const {
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(options_.setup.paths.runtime_dir, error)) {
    const std::string name = entry.path().filename().string();
    absl::string_view stem = name;
    if (!absl::ConsumeSuffix(&stem, ".ring") && !absl::ConsumeSuffix(&stem, ".ring.new")) continue;
    const std::optional<TrainerId> id = ParseTrainerName(stem);
    if (!id.has_value()) continue;
    const auto trainer = trainers_.find(*id);
    if (trainer != trainers_.end() && !trainer->second.ended()) continue;
    std::filesystem::remove(entry.path(), error);
  }
}

void WorkerNode::Adopt(const TrainerId& id) {
  NodeTrainer& trainer = trainers_.try_emplace(id, options_.setup, id).first->second;
  const absl::Status status = trainer.Adopt();
  Apply(TrainerFound{id, !trainer.ended(), trainer.plan().has_stop()});
  if (trainer.ended()) return;
  sockets_.SetCommand(id, trainer.Command());
  OnAdopted(trainer, status);
}

void WorkerNode::OnAdopted(NodeTrainer& trainer, const absl::Status& status) {
  const TrainerId id = trainer.id();
  if (!status.ok()) {
    // Its shim is just starting.
    loop_.After(kAdoptionRetry, [this, id] {
      NodeTrainer& again = *Find(id);
      OnAdopted(again, again.Adopt());
    });
    return;
  }
  if (!trainer.process().has_value()) return OnProcessEnded(id);
  metrics_.AddAdopted();
  PACELINE_LOG(INFO) << "trainer_adopted " << Named(id) << " shim=" << trainer.process()->shim();
  Watch(trainer);
  // A plan may have come meanwhile.
  if (plans_.count(id) > 0 && set_.StopRequested(id)) Stop(id, /*kill=*/false);
}

void WorkerNode::Apply(const TrainerEvent& event) {
  Execute(set_.Step(event, EventLoop::Now()));
  ArmDeadline();
}

void WorkerNode::Execute(const std::vector<TrainerAction>& actions) {
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

void WorkerNode::ArmDeadline() {
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

void WorkerNode::Start(const TrainerId& id) {
  NodeTrainer& trainer = trainers_.try_emplace(id, options_.setup, id).first->second;
  const absl::Status status = trainer.Start(plans_.at(id));
  if (!status.ok()) trainer.FailStart(status);
  Changed();
  if (trainer.ended()) {
    OnEnded(trainer);
    // Not now: an action must not change what decides under its feet.
    loop_.Post([this, id] { Apply(TrainerEnded{id}); });
    return;
  }
  PACELINE_LOG(INFO) << "trainer_started " << Named(id) << " shim=" << trainer.process()->shim();
  sockets_.SetCommand(id, trainer.Command());
  Watch(trainer);
}

void WorkerNode::Skip(const TrainerId& id) {
  trainers_.try_emplace(id, options_.setup, id).first->second.Skip(plans_.at(id));
  Changed();
}

void WorkerNode::Stop(const TrainerId& id, bool kill) {
  NodeTrainer* const trainer = Find(id);
  if (trainer == nullptr || !trainer->process().has_value()) return;
  // A later daemon must know that the end was wanted, before it comes.
  v1::TrainerPlan plan = trainer->plan();
  plan.mutable_stop();
  trainer->SetPlan(plan);
  sockets_.SetCommand(id, trainer->Command());
  PACELINE_LOG(INFO) << (kill ? "trainer_killed " : "trainer_asked_to_stop ") << Named(id);
  kill ? trainer->process()->Kill() : trainer->process()->Terminate();
}

void WorkerNode::Forget(const TrainerId& id) {
  NodeTrainer* const trainer = Find(id);
  if (trainer == nullptr) return;
  trainer->Forget();
  trainers_.erase(id);
  dropped_.erase(id);
  metrics_.ForgetTrainer(id);
  Changed();
}

void WorkerNode::DeleteDir(const TrainerId& id) {
  std::error_code error;
  std::filesystem::remove_all(options_.setup.paths.TrainerDir(id), error);
}

// ---- What happens to the trainers.

void WorkerNode::Watch(NodeTrainer& trainer) {
  poller_.Arm(trainer.process()->fd(), EPOLLIN, [this, id = trainer.id()] { OnProcessEnded(id); });
}

void WorkerNode::OnProcessEnded(const TrainerId& id) {
  NodeTrainer& trainer = *Find(id);
  if (trainer.process().has_value()) poller_.Disarm(trainer.process()->fd());
  trainer.Judge(set_.StopRequested(id));
  OnEnded(trainer);
  // Before it is forgotten: its last steps are worth to be seen.
  session_.Wake();
  Apply(TrainerEnded{id});
  Changed();
}

void WorkerNode::OnEnded(const NodeTrainer& trainer) {
  const v1::TrainerExit exit = trainer.Report().exit();
  metrics_.AddEnded(exit.failure());
  sockets_.Forget(trainer.id());
  PACELINE_LOG(INFO) << "trainer_ended " << Named(trainer.id())
                     << " failure=" << v1::FailureKind_Name(exit.failure())
                     << " code=" << exit.exit_code() << " signal=" << exit.signal() << " reason=\""
                     << exit.message() << "\"";
}

void WorkerNode::OnStatus(const TrainerId& id, const v1::TrainerStatus& status) {
  NodeTrainer* const trainer = Find(id);
  if (trainer == nullptr || trainer->ended()) return;
  if (trainer->OnStatus(status)) Changed();
}

}  // namespace paceline
