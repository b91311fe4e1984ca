#include "tests/sim/faults.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "controller/core/recovery/membership.h"
#include "tests/sim/sim_controller.h"
#include "tests/sim/training.h"

namespace paceline::sim {
namespace {

constexpr Micros kKeepalive = 15 * kSecond;

}  // namespace

void Faults::Start() {
  const Settings& s = world_.settings;
  Repeat(s.controller_crash, &Faults::CrashController);
  Repeat(s.daemon_crash, &Faults::CrashDaemon);
  Repeat(s.host_crash, &Faults::CrashHost);
  Repeat(s.trainer_crash, &Faults::CrashTrainer);
  Repeat(s.trainer_freeze, &Faults::FreezeTrainer);
  Repeat(s.trainer_hang, &Faults::HangTrainer);
  Repeat(s.host_freeze, &Faults::FreezeHost);
  Repeat(s.session_break, &Faults::BreakSession);
  Repeat(s.control_cut, &Faults::CutControl);
  Repeat(s.job_cut, &Faults::CutJob);
  Repeat(s.data_cut, &Faults::CutData);
  Repeat(s.wall_jump, &Faults::JumpWallClock);
  Repeat(s.sigterm, &Faults::AskToEnd);
  if (s.interrupts > 0 || s.interrupted_losses > 0) Watch();
  for (const auto& node : world_.nodes) {
    if (s.stragglers || !random_.Chance(0.2)) continue;
    node->slowness = 1 + 4 * random_.Unit();
    world_.time.At(s.quiet, [n = node.get()] { n->slowness = 1; });
  }
  // Restarts a controller that has died by itself.
  const auto watch = [this](const auto& self) -> void {
    if (!world_.controller->is_up() && random_.Chance(0.5)) world_.controller->Start();
    world_.time.After(500 * kMilli, [self] { self(self); });
  };
  watch(watch);
}

void Faults::Repeat(Micros mean, Break one) {
  if (mean == kNever) return;
  const Micros at = world_.time.now() + random_.Exponential(mean);
  if (at >= world_.settings.quiet) return;
  world_.time.At(at, [this, mean, one] {
    (this->*one)();
    Repeat(mean, one);
  });
}

void Faults::Undo(Timeline::Action undo, Micros at_least) {
  const Micros length =
      random_.Chance(0.7) ? random_.Exponential(2 * kSecond) : random_.Exponential(20 * kSecond);
  world_.time.At(std::min(world_.time.now() + at_least + length, world_.settings.quiet),
                 std::move(undo));
}

SimNode& Faults::AnyNode() {
  return *world_.nodes[static_cast<size_t>(
      random_.Between(0, static_cast<int64_t>(world_.nodes.size()) - 1))];
}

TrainerPtr Faults::AnyTrainer() {
  std::vector<TrainerPtr> living;
  for (const auto& node : world_.nodes) {
    for (TrainerPtr& trainer : node->Living()) living.push_back(std::move(trainer));
  }
  if (living.empty()) return nullptr;
  return living[static_cast<size_t>(random_.Between(0, static_cast<int64_t>(living.size()) - 1))];
}

void Faults::Watch() {
  if (world_.time.now() >= world_.settings.quiet) return;
  world_.time.After(100 * kMilli, [this] { Watch(); });
  if (!world_.controller->is_up()) return;
  for (const auto& [id, job] : world_.controller->cluster().jobs()) {
    const MembershipChange* change = ChangeUnderWay(job);
    if (change == nullptr) continue;
    const bool by_loss = !change->planned && !job.recovery.copies.restoring;
    const Settings& settings = world_.settings;
    const double chance = by_loss ? settings.interrupted_losses : settings.interrupts;
    if (chance == 0 || std::exchange(changed_[id], job.generation) == job.generation) continue;
    if (random_.Chance(chance)) Interrupt(job, by_loss);
  }
}

// Each participant is equally likely to die, and so is the controller.
void Faults::Interrupt(const Job& job, bool by_loss) {
  const Micros delay = random_.Exponential(300 * kMilli);
  const std::vector<const RankState*> trainers = TrainersOf(job);
  const auto chosen =
      static_cast<size_t>(random_.Between(0, static_cast<int64_t>(trainers.size())));
  if (chosen == trainers.size()) return world_.time.After(delay, [this] { CrashController(); });
  const TrainerId id = trainers[chosen]->report.id;
  const bool whole_host = by_loss && random_.Chance(0.7);  // Then its slot is lost, too.
  world_.time.After(delay, [this, id, whole_host] {
    for (const auto& node : world_.nodes) {
      for (const TrainerPtr& trainer : node->Living()) {
        if (!(trainer->id() == id)) continue;
        if (whole_host) return Crash(*node);
        world_.trace.Add("kill -9 ", trainer->name(), " in a change");
        trainer->CrashBy(9);
      }
    }
  });
}

void Faults::CrashController() {
  world_.controller->Crash();
  Undo([this] {
    if (!world_.controller->is_up()) world_.controller->Start();
  });
}

void Faults::CrashDaemon() {
  SimNode& node = AnyNode();
  node.CrashDaemon();
  Undo([&node] { node.StartDaemon(); });
}

void Faults::CrashHost() {
  SimNode& node = AnyNode();
  if (node.host_is_up()) Crash(node);
}

void Faults::Crash(SimNode& node) {
  node.CrashHost(random_.Chance(world_.settings.host_loses_disk));
  Undo([&node] { node.Boot(); });
}

void Faults::CrashTrainer() {
  const TrainerPtr trainer = AnyTrainer();
  if (trainer == nullptr || trainer->node().is_frozen()) return;
  if (random_.Chance(0.2)) {
    world_.trace.Add("error in ", trainer->name());
    return trainer->Throw();
  }
  world_.trace.Add("kill -9 ", trainer->name());
  trainer->CrashBy(9);
}

void Faults::FreezeTrainer() {
  const TrainerPtr trainer = AnyTrainer();
  if (trainer == nullptr) return;
  world_.trace.Add("freeze ", trainer->name());
  trainer->Freeze();
  Undo([trainer] { trainer->Thaw(); });
}

void Faults::HangTrainer() {
  const TrainerPtr trainer = AnyTrainer();
  // If there is only one rank, nobody waits for it, and the hang is not found.
  if (trainer == nullptr || trainer->facts().ranks < 2) return;
  world_.trace.Add("hang ", trainer->name());
  trainer->Hang();
  // The other ranks may be gone by then.
  world_.time.At(world_.settings.quiet, [trainer] {
    if (trainer->is_alive()) trainer->CrashBy(9);
  });
}

void Faults::FreezeHost() {
  SimNode& node = AnyNode();
  node.Freeze();
  Undo([&node] { node.Thaw(); });
}

void Faults::BreakSession() {
  SimNode& node = AnyNode();
  world_.trace.Add(node.name().value(), ": session breaks");
  node.BreakSession();
}

void Faults::CutControl() {
  SimNode& node = AnyNode();
  const bool up = random_.Chance(0.7);
  const bool down = !up || random_.Chance(0.6);
  Cut({&node}, up, down);
}

// As when a switch fails: the job's ranks still reach each other.
void Faults::CutJob() {
  const TrainerPtr trainer = AnyTrainer();
  if (trainer == nullptr) return;
  std::vector<SimNode*> nodes;
  for (const auto& node : world_.nodes) {
    const std::vector<TrainerPtr> living = node->Living();
    if (std::any_of(living.begin(), living.end(), [&](const TrainerPtr& other) {
          return other->id().job == trainer->id().job;
        })) {
      nodes.push_back(node.get());
    }
  }
  Cut(nodes, true, true);
}

void Faults::Cut(const std::vector<SimNode*>& nodes, bool up, bool down) {
  for (SimNode* node : nodes) {
    world_.trace.Add(node->name().value(), ": cut from the controller,", up ? " up" : "",
                     down ? " down" : "");
    world_.network->CutControl(node->index(), up, down);
    world_.time.After(kKeepalive, [this, node] {
      if (world_.network->ControlIsCut(node->index())) node->BreakSession();
    });
  }
  // Often lasts longer than a lease.
  const Micros at_least = random_.Chance(0.4) ? world_.settings.lease : 0;
  Undo(
      [this, nodes, up, down] {
        for (SimNode* node : nodes) {
          world_.trace.Add(node->name().value(), ": reaches the controller again");
          world_.network->MendControl(node->index(), up, down);
        }
      },
      at_least);
}

void Faults::CutData() {
  if (world_.nodes.size() < 2) return;
  const int a = AnyNode().index();
  const int b = AnyNode().index();
  if (a == b) return;
  world_.trace.Add("cut between n", a, " and n", b);
  world_.network->CutData(a, b);
  Undo([this, a, b] {
    world_.network->MendData(a, b);
    world_.training->OnMended();
  });
}

void Faults::JumpWallClock() {
  world_.controller->JumpWallClock(absl::Seconds(random_.Between(-3600, 3600)));
}

void Faults::AskToEnd() {
  const TrainerPtr trainer = AnyTrainer();
  if (trainer == nullptr) return;
  world_.trace.Add("SIGTERM to ", trainer->name());
  trainer->AskToEnd();
}

}  // namespace paceline::sim
