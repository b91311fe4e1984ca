#include "tests/sim/trainer.h"

#include <algorithm>

#include "common/core/lanes.h"
#include "tests/sim/observer.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/training.h"

namespace paceline::sim {
namespace {

constexpr Micros kOrphanTimeout = 20 * kSecond;

}  // namespace

TrainerPtr Trainer::Start(World& world, SimNode& node, const TrainerId& id, TrainerOrder order) {
  auto trainer = std::make_shared<Trainer>(world, node, id, std::move(order));
  world.trace.Add(node.name().value(), ": starts ", trainer->name());
  trainer->Later(world.random.Between(50 * kMilli, 2 * kSecond),
                 [t = trainer.get()] { t->Load(); });
  return trainer;
}

Trainer::Trainer(World& world, SimNode& node, const TrainerId& id, TrainerOrder order)
    : world_(world),
      node_(node),
      id_(id),
      facts_(world.jobs.at(id.job)),
      order_(std::move(order)),
      membership_(facts_.recovers, absl::Microseconds(facts_.give_up)),
      began_as_rank_(order_.rank >= 0) {
  static constexpr int64_t kFirstPid = 100;
  status_.id = id;
  status_.pid = kFirstPid + world.time.events();
  // All are in the same collective, as far as is known: phases and steps tell who hangs.
  if (facts_.shards > 1) status_.progress.collectives = 1;
  if (facts_.shards == 1 || !began_as_rank_) return;
  part_.at.rank = order_.rank;
  part_.position = Lanes{facts_.shards}.PositionOf(order_.rank);
}

std::string Trainer::name() const {
  return absl::StrCat(id_.job.value(), " g", id_.generation.value(), " r", id_.rank.value());
}

absl::Time Trainer::Clock() const {
  return absl::UnixEpoch() + absl::Microseconds(world_.time.now());
}

void Trainer::Later(Micros delay, Timeline::Action action) {
  world_.time.After(delay, [self = shared_from_this(), action = std::move(action)] {
    if (!self->alive_) return;
    if (self->frozen_) {
      self->held_.push_back(action);
    } else if (self->node_.is_frozen()) {
      self->node_.WhenThawed([self, action] {
        if (self->alive_) action();
      });
    } else {
      action();
    }
  });
}

void Trainer::Freeze() {
  if (!alive_ || frozen_) return;
  frozen_ = true;
  node_.OnSuspended(*this);
}

void Trainer::Thaw() {
  if (!frozen_) return;
  frozen_ = false;
  const auto held = std::move(held_);
  held_.clear();
  for (const Timeline::Action& action : held) Later(0, action);
  if (alive_) node_.OnSuspended(*this);
}

void Trainer::Tell() {
  MembershipStatus& reported = status_.membership;
  reported.generation = Generation(membership_.trained_generation());
  reported.waiting = membership_.waiting();
  reported.error = membership_.error();
  reported.step = step();
  reported.ready = Generation(membership_.ready_generation());
  reported.left = Generation(membership_.left_generation());
  reported.can_hand_over = true;
  reported.can_keep_copies = true;
  reported.can_average_first = true;
  const CopyReport& copies = copies_.keeper.report();
  reported.copies = {Generation(copies.generation),
                     copies.copied_step,
                     copies.settled_step,
                     copies.error,
                     copies.steps_lost,
                     copies.failed_step};
  node_.OnReported(*this);
}

struct Progress Trainer::Progress() const {
  struct Progress progress = status_.progress;
  progress.in_phase = absl::Microseconds(world_.time.now() - phase_since_);
  return progress;
}

void Trainer::SetPhase(int phase) {
  status_.progress.phase = phase;
  phase_since_ = world_.time.now();
}

// ---- Memberships.

void Trainer::Load() {
  if (!order_.restore_from.empty()) {
    const Disk::Directory* directory = world_.disk.Find(order_.restore_from);
    if (directory == nullptr || !directory->complete() || directory->damaged) {
      world_.observer->OnBadRestore(*this, directory != nullptr && directory->damaged);
      return Exit(FailureKind::kRestore, "the checkpoint cannot be used");
    }
    status_.progress.step = directory->key.step;
  }
  if (facts_.shards > 1 && began_as_rank_) part_.at.step = step();
  status_.state = TrainerState::kReady;
  status_.store_address = absl::StrCat(node_.name().value(), ":", status_.pid);
  membership_.OnLoaded();
  Tell();
  Command(order_);
}

void Trainer::Command(const TrainerOrder& order) {
  Later(500, [this, order] {
    // Like ControlState::SetCommand: a daemon that came back may know less than the one before.
    const TrainerOrder before = std::exchange(order_, order);
    if (order_.generation < before.generation) {
      order_.generation = before.generation;
      order_.rank = before.rank;
      order_.world_size = before.world_size;
      order_.store_address = before.store_address;
      order_.planned = before.planned;
      order_.hand_over = before.hand_over;
      order_.averages_first = before.averages_first;
      order_.mean_failed = before.mean_failed;
      order_.copies = before.copies;
    }
    if (order_.version < before.version) {
      order_.version = before.version;
      order_.waits_less = before.waits_less;
    }
    order_.save_order = std::max(order_.save_order, before.save_order);
    membership_.OnOrder({order_.generation, order_.rank, !order_.store_address.empty(),
                         order_.planned, order_.hand_over >= 0});
    Act();
    CheckCommits();
  });
}

void Trainer::Act() {
  if (ending_) return;
  const MembershipState::Step next = membership_.Next(Clock());
  switch (next.action) {
    case Action::kRendezvous:
      if (membership_.present() == next.generation) return;
      membership_.OnRendezvous(next.generation);
      is_over_ = false;
      ++run_;
      SetPhase(kIdle);
      return world_.training->RunRendezvous(shared_from_this());
    case Action::kConnect:
      if (std::exchange(connecting_, next.generation) == next.generation) return;
      if (order_.rank < 0) return world_.training->ConnectHandOver(shared_from_this());
      return world_.training->Connect(shared_from_this());
    case Action::kLeave:
      if (std::exchange(is_over_, true)) return;
      world_.training->Sever(*this);
      // A trainer that is computing learns of it before the next exchange.
      if (computing_) return;
      return Later(world_.random.Between(1, 10) * kMilli, [this, run = run_] {
        if (run == run_ && is_over_) OnCollectiveError("");
      });
    case Action::kGiveUp:
      return Exit(FailureKind::kCollective, membership_.error());
    case Action::kWait: {
      const absl::Time at = membership_.give_up_at();
      if (at == absl::InfiniteFuture()) return;
      const Micros wake = ToMicros(at - absl::UnixEpoch());
      if (std::exchange(wake_, wake) == wake) return;
      return Later(wake - world_.time.now(), [this] { Act(); });
    }
    case Action::kTrain:
    case Action::kAgree:
      return;
  }
}

void Trainer::OnConnected(int64_t generation, bool connected) {
  if (ending_) return;
  if (connected) {
    membership_.OnConnected(generation);
  } else {
    membership_.OnConnectFailed(generation);
  }
  Tell();
  Act();
}

void Trainer::RendezvousDone(int64_t step, const TakenPlan& plan, const ModelPart& part) {
  if (ending_ || is_over_ || membership_.present() == 0) return;
  if (has_trained() && !part_.lost && step < this->step()) {
    world_.trace.Fail(name(), " goes back from step ", this->step(), " to ", step);
  }
  computed_ = false;
  taken_ = RankPosition();
  part_ = part;
  if (facts_.copy_every > 0) world_.training->BeginCopies(*this);
  status_.progress.step = step;
  membership_.OnRendezvousDone(membership_.present());
  status_.state = TrainerState::kRunning;
  status_.plan.prepared = status_.plan.active = PlanVersion(plan.version);
  status_.plan.active_since_step = step;
  waits_less_ = plan.waits_less;
  Tell();
  GoOn();
}

void Trainer::OnCollectiveError(const std::string& why) {
  if (ending_ || membership_.present() == 0) return;
  if (facts_.shards > 1 && trained_generation() == present()) NoteExchange();
  world_.training->Sever(*this);
  ++run_;
  is_over_ = false;
  computing_ = false;
  SetPhase(kIdle);
  if (part_.lost) membership_.OnStateLost();
  membership_.OnFailed(why, Clock());
  world_.trace.Add(name(), " waits: ", why.empty() ? "told to leave" : why);
  Tell();
  Act();
}

// ---- The end.

void Trainer::Terminate() {
  Later(world_.random.Between(2, 300) * kMilli, [this] {
    ending_ = true;
    Remains remains;
    remains.seen = true;
    remains.finished = status_.state == TrainerState::kFinished;
    End(remains, true);
  });
}

void Trainer::Kill() {
  world_.time.After(2 * kMilli, [self = shared_from_this()] {
    // A frozen host ends nobody.
    if (!self->node_.is_frozen()) return self->CrashBy(9);
    self->node_.WhenThawed([self] { self->CrashBy(9); });
  });
}

void Trainer::OnAlone() {
  Later(kOrphanTimeout, [this, daemon = node_.daemon_number()] {
    if (node_.daemon_is_up() || node_.daemon_number() != daemon) return;
    Exit(FailureKind::kOrphaned, "no daemon");
  });
}

void Trainer::CrashBy(int signal) {
  if (!alive_) return;
  Remains remains;
  remains.seen = true;
  remains.signal = signal;
  remains.finished = status_.state == TrainerState::kFinished;
  End(remains, true);
}

void Trainer::Throw() {
  Later(0, [this] { Exit(FailureKind::kError, "threw"); });
}

void Trainer::AskToEnd() {
  Later(0, [this] {
    status_.asked_to_end = true;
    Tell();
  });
}

void Trainer::Vanish() {
  if (alive_) End(Remains(), false);
}

void Trainer::Exit(FailureKind kind, const std::string& message) {
  if (ending_) return;
  ending_ = true;
  Later(20 * kMilli, [this, kind, message] {
    Remains remains;
    remains.seen = true;
    remains.exit_code = 1;
    remains.said = kind;
    remains.message = message;
    End(remains, true);
  });
}

void Trainer::End(Remains remains, bool reset) {
  const TrainerPtr self = shared_from_this();
  alive_ = false;
  held_.clear();
  if (remains.seen) node_.OnEnded(*this, std::move(remains));
  world_.training->OnEnd(*this, reset);
}

}  // namespace paceline::sim
