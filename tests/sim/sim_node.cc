#include "tests/sim/sim_node.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/version.h"
#include "tests/sim/observer.h"
#include "tests/sim/sim_controller.h"

namespace paceline::sim {
namespace {

constexpr Micros kCoalesce = 10 * kMilli;
constexpr Micros kReportInterval = kSecond;
constexpr Micros kGreetingLimit = 10 * kSecond;
constexpr Micros kFirstBackoff = 100 * kMilli;
constexpr Micros kLongestBackoff = 5 * kSecond;

// Addresses of the controllers; one leads, or all stand by.
const std::vector<std::string>& Controllers() {
  static const std::vector<std::string> kControllers = {"c0", "c1", "c2"};
  return kControllers;
}

}  // namespace

SimNode::SimNode(World& world, int index, int slots)
    : world_(world),
      random_(world.random.Fork()),
      steps_random_(world.settings.straggler_seed + static_cast<uint64_t>(index)),
      index_(index),
      name_(absl::StrCat("n", index)),
      clock_rate_(1 + (random_.Unit() - 0.5) * 0.002),
      clock_offset_(random_.Between(0, 1000) * kSecond),
      standbys_(Controllers()) {
  facts_.name = name_;
  facts_.slots = slots;
  facts_.uid = absl::StrCat(name_.value(), "-1");
  facts_.address = name_.value();
  facts_.labels["rack"] = absl::StrCat("r", index / 2);
  facts_.spec_version = kSpecVersion;
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
  kept_lease_ = paceline::Lease();
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
  thawed_ = world_.time.now();
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
  lease_ = kept_lease_;
  standbys_ = StandbyAnswers(Controllers());
  backoff_ = kFirstBackoff;
  Dial();
  Poll();
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
  asked_ = (asked_ + 1) % Controllers().size();
  dialled_ = Clock();
  welcomed_ = false;
  report_number_ = 0;
  lease_.BeginSession();
  world_.network->Register(session_);
  World& world = world_;
  world_.network->SendUp(
      session_, [&world, session = session_, facts = facts_, report = MakeReport(), this] {
        if (!world.controller->is_up()) {
          session->open_at_controller = false;
          world.network->SendDown(session, [this, session, answers = world.settings.standbys] {
            answers ? OnStandby(session) : OnSessionEnd(session);
          });
          return;
        }
        if (session->controller == 0) session->controller = world.controller->start_number();
        world.controller->OnHello(session, facts, report);
      });
  Later(kGreetingLimit, [this, session = session_] {
    if (session == session_ && !welcomed_) OnSessionEnd(session);
  });
}

// The node's end of the session is gone.
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
    lease_.SetLength(absl::Microseconds(world_.settings.lease));
    kept_lease_ = lease_;
    backoff_ = kFirstBackoff;
    Report();
    ReportEveryInterval();
  });
}

void SimNode::OnPlan(const SessionPtr& session, const std::shared_ptr<const NodeOrders>& plan) {
  Later(0, [this, session, plan] {
    CheckLease();
    if (session == session_ && welcomed_) Take(*plan);
  });
}

void SimNode::OnLease(const SessionPtr& session, int64_t report) {
  Later(0, [this, session, report] {
    if (session == session_ && lease_.Grant(report)) kept_lease_ = lease_;
    CheckLease();
  });
}

void SimNode::OnStandby(const SessionPtr& session) {
  Later(0, [this, session] {
    if (session != session_) return;
    CheckLease();
    standbys_.NobodyLeads(Controllers()[asked_], dialled_);
    if (lease_.HoldOn(standbys_.LeadsSince(), Clock())) {
      kept_lease_ = lease_;
      world_.coverage.Count("lease held while nobody leads");
    }
    OnSessionEnd(session);
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
    if (world_.settings.stragglers) TellSteps();
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

sim::Report SimNode::MakeReport() {
  sim::Report report;
  report.number = ++report_number_;
  lease_.Sent(report_number_, Clock());
  for (const TrainerId& id : known_) {
    const Directory& directory = directories_.at(id);
    TrainerReport trainer = directory.seen;
    if (directory.alive()) {
      trainer.progress = directory.process->Progress();
      trainer.suspended = directory.process->is_suspended();
    }
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

}  // namespace paceline::sim
