// How a node handles its trainers, its lease, and checkpoint directories.
#include <algorithm>
#include <utility>
#include <variant>

#include "tests/sim/observer.h"
#include "tests/sim/sim_node.h"

namespace paceline::sim {
namespace {

constexpr Micros kPollInterval = kSecond;

}  // namespace

// Runs first after a pause: other nodes may hold this node's ranks by now.
void SimNode::CheckLease() {
  if (!lease_.HasRunOut(Clock())) return;
  std::vector<HeldTrainer> held;
  for (const TrainerId& id : known_) {
    const Directory& directory = directories_.at(id);
    HeldTrainer trainer;
    trainer.id = id;
    trainer.generation = Generation(directory.plan.generation);
    trainer.rank = directory.plan.rank;
    trainer.world_size = directory.plan.world_size;
    trainer.leased = directory.plan.leased;
    trainer.running = directory.alive() && !directory.fenced;
    trainer.waiting = directory.seen.membership.waiting;
    trainer.last_step = directory.last_step;
    trainer.step_length = absl::Milliseconds(500);
    held.push_back(trainer);
  }
  for (const FencedTrainer& fenced : ToFence(held, lease_, Clock())) {
    Directory& directory = directories_.at(fenced.id);
    directory.fenced = true;
    world_.coverage.Count("trainer fenced");
    world_.trace.Add(name_.value(), ": fences ", fenced.id.job.value(), " g",
                     fenced.id.generation.value(), " r", fenced.id.rank.value());
    directory.process->Kill();
  }
}

void SimNode::Poll() {
  if (world_.settings.lease == 0) return;
  CheckLease();
  for (const TrainerId& id : known_) {
    Directory& directory = directories_.at(id);
    if (!directory.alive()) continue;
    const int64_t steps = directory.process->steps_made();
    if (std::exchange(directory.steps_seen, steps) != steps) directory.last_step = Clock();
  }
  Later(kPollInterval, [this] { Poll(); });
}

void SimNode::Take(const NodeOrders& plan) {
  PlanReceived event;
  plans_.clear();
  for (const TrainerOrder& order : plan.trainers) {
    plans_[order.id] = order;
    event.trainers.push_back({order.id, order.stop});
    if (known_.count(order.id) == 0) continue;
    Directory& directory = directories_.at(order.id);
    if (directory.result.has_value()) continue;
    directory.plan = order;
    directory.stop_requested = order.stop.has_value() || set_->StopRequested(order.id);
    if (directory.alive()) directory.process->Command(order);
    SaveStacks(order, directory);
  }
  Apply(event);
  tasks_ = plan.tasks;
  results_.erase(std::remove_if(results_.begin(), results_.end(),
                                [&](const CheckpointTaskResult& result) {
                                  return std::count(tasks_.begin(), tasks_.end(), result.task) == 0;
                                }),
                 results_.end());
  RunTasks();
  Changed();
}

void SimNode::SaveStacks(const TrainerOrder& order, Directory& directory) {
  if (!order.save_stacks || directory.stacks_asked || !directory.alive()) return;
  directory.stacks_asked = true;
  Later(random_.Between(50, 500) * kMilli, [this, id = order.id] {
    if (known_.count(id) == 0) return;
    directories_.at(id).seen.stacks_file = "stacks";
    Changed();
  });
}

void SimNode::Apply(const TrainerEvent& event) {
  Execute(set_->Step(event, Clock()));
  ArmDeadline();
}

void SimNode::Execute(const std::vector<TrainerAction>& actions) {
  for (const TrainerAction& action : actions) {
    if (const auto* start = std::get_if<StartTrainer>(&action)) Start(start->id);
    if (const auto* skip = std::get_if<SkipTrainer>(&action)) Skip(skip->id);
    if (const auto* stop = std::get_if<TerminateTrainer>(&action)) Stop(stop->id, false);
    if (const auto* stop = std::get_if<KillTrainer>(&action)) Stop(stop->id, true);
    if (const auto* forget = std::get_if<ForgetTrainer>(&action)) {
      known_.erase(forget->id);
      directories_.at(forget->id).forgotten = true;
      Changed();
    }
    if (const auto* gone = std::get_if<DeleteTrainerDir>(&action)) directories_.erase(gone->id);
  }
}

void SimNode::ArmDeadline() {
  const int64_t timer = ++deadline_timer_;
  const absl::Time next = set_->NextDeadline();
  if (next == absl::InfiniteFuture()) return;
  const auto delay = static_cast<Micros>(
      static_cast<double>(ToMicros(std::max(next - Clock(), absl::ZeroDuration()))) / clock_rate_);
  Later(delay + 1, [this, timer] {
    if (timer != deadline_timer_) return;
    Execute(set_->Tick(Clock()));
    ArmDeadline();
  });
}

void SimNode::Start(const TrainerId& id) {
  world_.observer->OnStart(*this, id);
  Directory& directory = directories_[id];
  directory = Directory();
  directory.plan = plans_.at(id);
  directory.seen.id = id;
  directory.last_step = Clock();
  known_.insert(id);
  Changed();
  if (random_.Chance(world_.settings.start_fails) && world_.time.now() < world_.settings.quiet) {
    directory.remains = Remains();
    directory.remains->seen = true;
    directory.remains->start_error = "cannot be started";
    JudgeIt(directory, false);
    Later(0, [this, id] { Apply(TrainerEnded{id}); });
    return;
  }
  directory.process = Trainer::Start(world_, *this, id, plans_.at(id));
  directory.seen = directory.process->status();
}

void SimNode::Skip(const TrainerId& id) {
  Directory& directory = directories_[id];
  directory = Directory();
  directory.plan = plans_.at(id);
  directory.stop_requested = true;
  directory.seen.id = id;
  directory.result = TrainerExit();
  directory.result->message = "not started";
  known_.insert(id);
  Changed();
}

void SimNode::Stop(const TrainerId& id, bool kill) {
  Directory& directory = directories_.at(id);
  if (!directory.alive()) return;
  directory.stop_requested = true;
  kill ? directory.process->Kill() : directory.process->Terminate();
}

void SimNode::OnReported(const Trainer& trainer) {
  if (!set_.has_value() || frozen_ || known_.count(trainer.id()) == 0) return;
  Directory& directory = directories_.at(trainer.id());
  const std::string stacks = directory.seen.stacks_file;
  directory.seen = trainer.status();
  directory.seen.stacks_file = stacks;
  Changed();
}

void SimNode::OnSuspended(const Trainer& trainer) {
  if (set_.has_value() && !frozen_ && known_.count(trainer.id()) > 0) Changed();
}

void SimNode::OnEnded(const Trainer& trainer, Remains remains) {
  const TrainerId& id = trainer.id();
  const auto found = directories_.find(id);
  if (found == directories_.end()) return;
  found->second.remains = std::move(remains);
  if (!set_.has_value()) return;
  Later(1 * kMilli, [this, id] {
    if (known_.count(id) == 0) return;
    Directory& directory = directories_.at(id);
    if (directory.result.has_value()) return;
    JudgeIt(directory, set_->StopRequested(id));
    Apply(TrainerEnded{id});
    Changed();
  });
}

void SimNode::JudgeIt(Directory& directory, bool stop_requested) {
  Remains remains = directory.remains.value_or(Remains());
  if (directory.fenced) remains.fenced = "its node's lease has run out";
  directory.result = Judge(remains, stop_requested);
  if (directory.plan.rank == -1 && directory.seen.state == TrainerState::kStarting &&
      !stop_requested) {
    world_.coverage.Count("spare ended while it started");
  }
  world_.trace.Add(name_.value(), ": trainer of ", directory.seen.id.job.value(), " g",
                   directory.seen.id.generation.value(), " r", directory.seen.id.rank.value(),
                   " ended: failure ", static_cast<int>(directory.result->failure), " ",
                   directory.result->message);
}

// ---- Work in checkpoint directories: one task at a time, again after a while if it failed.

void SimNode::RunTasks() {
  if (task_runs_) return;
  for (const CheckpointTask& task : tasks_) {
    const bool tried =
        std::any_of(results_.begin(), results_.end(),
                    [&](const CheckpointTaskResult& result) { return result.task == task; });
    if (tried) continue;
    task_runs_ = true;
    const Micros delay = 1 * kMilli + random_.Exponential(world_.settings.disk_delay / 4);
    Later(delay, [this, task] {
      task_runs_ = false;
      CheckpointTaskResult result;
      if (random_.Chance(world_.settings.task_fails) && world_.time.now() < world_.settings.quiet) {
        result.task = task;
        result.error = "the file system does not answer";
      } else {
        result = world_.disk.Run(task);
      }
      world_.trace.Add(name_.value(), ": task ", task.directory,
                       result.error.empty() ? " done" : " failed");
      if (std::count(tasks_.begin(), tasks_.end(), task) > 0) {
        results_.push_back(result);
        Changed();
        if (!result.error.empty()) {
          Later(30 * kSecond, [this, task] {
            results_.erase(std::remove_if(results_.begin(), results_.end(),
                                          [&](const CheckpointTaskResult& r) {
                                            return r.task == task && !r.error.empty();
                                          }),
                           results_.end());
            RunTasks();
          });
        }
      }
      RunTasks();
    });
    return;
  }
}

}  // namespace paceline::sim
