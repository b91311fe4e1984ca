#include "tests/sim/sim_node.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "tests/sim/observer.h"
#include "tests/sim/sim_controller.h"

namespace paceline::sim {
namespace {

constexpr Micros kCoalesce = 10 * kMilli;
constexpr Micros kReportInterval = kSecond;
constexpr Micros kGreetingLimit = 10 * kSecond;
constexpr Micros kFirstBackoff = 100 * kMilli;
constexpr Micros kLongestBackoff = 5 * kSecond;

}  // namespace

SimNode::SimNode(World& world, int index, int slots)
    : world_(world),
      random_(world.random.Fork()),
      index_(index),
      name_(absl::StrCat("n", index)),
      clock_rate_(1 + (random_.Unit() - 0.5) * 0.002),
      clock_offset_(random_.Between(0, 1000) * kSecond) {
  facts_.name = name_;
  facts_.slots = slots;
  facts_.uid = absl::StrCat(name_.value(), "-1");
  facts_.address = name_.value();
  facts_.labels["rack"] = absl::StrCat("r", index / 2);
}

absl::Time SimNode::Clock() const {
  return absl::UnixEpoch() +
         absl::Microseconds(
             clock_offset_ +
             static_cast<Micros>(static_cast<double>(world_.time.now()) * clock_rate_));
}

void SimNode::Later(Micros delay, Timeline::Action action) {
  world_.time.After(delay, [this, daemon = daemon_number_, action = std::move(action)] {
    if (daemon != daemon_number_ || !set_.has_value()) return;
    if (!frozen_) return action();
    WhenThawed([this, daemon, action] {
      if (daemon == daemon_number_ && set_.has_value()) action();
    });
  });
}

// ---- The host.

void SimNode::CrashHost(bool lose_disk) {
  if (!host_up_) return;
  world_.trace.Add(name_.value(), ": host dies", lose_disk ? " with its disk" : "");
  Thaw();
  CrashDaemon();
  host_up_ = false;
  for (const TrainerPtr& trainer : Living()) trainer->Vanish();
  if (!lose_disk) return;
  directories_.clear();
  facts_.uid = absl::StrCat(name_.value(), "-", daemon_number_ + 1);
  world_.observer->OnDiskLost(name_);
}

void SimNode::Boot() {
  if (host_up_) return;
  host_up_ = true;
  StartDaemon();
}

void SimNode::Freeze() {
  if (!host_up_ || frozen_) return;
  world_.trace.Add(name_.value(), ": host stands still");
  frozen_ = true;
}

void SimNode::Thaw() {
  if (!frozen_) return;
  world_.trace.Add(name_.value(), ": host goes on");
  frozen_ = false;
  const auto held = std::move(held_);
  held_.clear();
  for (const Timeline::Action& action : held) world_.time.After(0, action);
}

std::vector<TrainerPtr> SimNode::Living() const {
  std::vector<TrainerPtr> living;
  for (const auto& [id, directory] : directories_) {
    if (directory.alive()) living.push_back(directory.process);
  }
  return living;
}

// ---- The daemon's life.

void SimNode::StartDaemon() {
  if (!host_up_ || set_.has_value()) return;
  ++daemon_number_;
  world_.trace.Add(name_.value(), ": daemon starts");
  TrainerSet::Options options;
  options.kept_dirs = 4;
  set_.emplace(options);
  std::vector<TrainerId> ids;
  for (const auto& [id, directory] : directories_) ids.push_back(id);
  for (const TrainerId& id : ids) {
    Directory& directory = directories_.at(id);
    if (directory.forgotten) {
      Apply(OldDirFound{id});
      continue;
    }
    known_.insert(id);
    if (directory.alive()) {
      directory.seen = directory.process->status();
    } else if (!directory.result.has_value()) {
      JudgeIt(directory, directory.stop_requested);
    }
    Apply(TrainerFound{id, directory.alive(), directory.stop_requested});
    if (directory.alive()) directory.process->Command(directory.plan);
  }
  backoff_ = kFirstBackoff;
  Dial();
}

void SimNode::CrashDaemon() {
  if (!set_.has_value()) return;
  world_.trace.Add(name_.value(), ": daemon dies");
  set_.reset();
  known_.clear();
  plans_.clear();
  tasks_.clear();
  results_.clear();
  task_runs_ = false;
  Lose();
  for (const TrainerPtr& trainer : Living()) trainer->OnAlone();
}

// ---- The session.

void SimNode::Dial() {
  session_ = std::make_shared<Session>();
  session_->node = index_;
  session_->uid = facts_.uid;
  welcomed_ = false;
  world_.network->Register(session_);
  World& world = world_;
  world_.network->SendUp(
      session_, [&world, session = session_, facts = facts_, report = MakeReport(), this] {
        if (!world.controller->is_up()) {
          session->open_at_controller = false;
          world.network->SendDown(session, [this, session] { OnSessionEnd(session); });
          return;
        }
        if (session->controller == 0) session->controller = world.controller->start_number();
        world.controller->OnHello(session, facts, report);
      });
  Later(kGreetingLimit, [this, session = session_] {
    if (session == session_ && !welcomed_) OnSessionEnd(session);
  });
}

// Its end of the session is gone.
void SimNode::Lose() {
  if (session_ == nullptr) return;
  const SessionPtr session = std::exchange(session_, nullptr);
  welcomed_ = false;
  report_due_ = false;
  ++report_timer_;
  session->open_at_node = false;
  World& world = world_;
  world_.network->SendUp(session, [&world, session] { world.controller->OnSessionEnd(session); });
}

void SimNode::BreakSession() {
  if (session_ != nullptr) OnSessionEnd(session_);
}

void SimNode::OnSessionEnd(const SessionPtr& session) {
  if (session != session_) return;
  if (frozen_) return WhenThawed([this, session] { OnSessionEnd(session); });
  Lose();
  const Micros delay = backoff_ / 2 + random_.Between(0, backoff_ / 2);
  backoff_ = std::min(2 * backoff_, kLongestBackoff);
  Later(delay, [this] {
    if (session_ == nullptr) Dial();
  });
}

void SimNode::OnWelcome(const SessionPtr& session) {
  Later(0, [this, session] {
    if (session != session_ || welcomed_) return;
    world_.trace.Add(name_.value(), ": connected");
    welcomed_ = true;
    backoff_ = kFirstBackoff;
    Report();
    ReportEveryInterval();
  });
}

void SimNode::OnPlan(const SessionPtr& session, const std::shared_ptr<const NodeOrders>& plan) {
  Later(0, [this, session, plan] {
    if (session == session_ && welcomed_) Take(*plan);
  });
}

void SimNode::Changed() {
  if (report_due_ || !welcomed_) return;
  report_due_ = true;
  Later(kCoalesce, [this, session = session_] {
    if (report_due_ && session == session_) Report();
  });
}

void SimNode::ReportEveryInterval() {
  Later(kReportInterval, [this, timer = report_timer_] {
    if (timer != report_timer_) return;
    Report();
    ReportEveryInterval();
  });
}

void SimNode::Report() {
  report_due_ = false;
  auto report = std::make_shared<const sim::Report>(MakeReport());
  World& world = world_;
  world_.network->SendUp(session_, [&world, session = session_, report] {
    world.controller->OnReport(session, *report);
  });
}

sim::Report SimNode::MakeReport() const {
  sim::Report report;
  for (const TrainerId& id : known_) {
    const Directory& directory = directories_.at(id);
    TrainerReport trainer = directory.seen;
    if (directory.alive()) trainer.progress = directory.process->status().progress;
    if (directory.result.has_value()) {
      trainer.state = TrainerState::kExited;
      trainer.exit = directory.result;
      trainer.exit->step = trainer.progress.step;
    }
    report.trainers.push_back(std::move(trainer));
  }
  report.results = results_;
  return report;
}

// ---- The trainers.

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

void SimNode::OnTold(const Trainer& trainer) {
  if (!set_.has_value() || frozen_ || known_.count(trainer.id()) == 0) return;
  directories_.at(trainer.id()).seen = trainer.status();
  Changed();
}

void SimNode::OnEnded(const Trainer& trainer, Remains remains) {
  const TrainerId id = trainer.id();
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
  directory.result = Judge(directory.remains.value_or(Remains()), stop_requested);
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
