#include "tests/sim/trainer.h"

#include <algorithm>

#include "tests/sim/observer.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/training.h"

namespace paceline::sim {
namespace {

constexpr Micros kOrphanTimeout = 20 * kSecond;
constexpr int64_t kSaveLimit = 2;  // Unfinished ones at a time.
constexpr Micros kFinishPatience = 20 * kSecond;

}  // namespace

TrainerPtr Trainer::Start(World& world, SimNode& node, const TrainerId& id, TrainerOrder order) {
  auto trainer = std::make_shared<Trainer>(world, node, id, std::move(order));
  world.trace.Add(node.name().value(), ": starts ", id.job.value(), " g", id.generation.value(),
                  " r", id.rank.value());
  trainer->Later(world.random.Between(50 * kMilli, 2 * kSecond),
                 [t = trainer.get()] { t->Load(); });
  return trainer;
}

Trainer::Trainer(World& world, SimNode& node, const TrainerId& id, TrainerOrder order)
    : world_(world), node_(node), id_(id), facts_(world.jobs.at(id.job)), order_(std::move(order)) {
  static constexpr int64_t kFirstPid = 100;
  status_.id = id;
  status_.pid = kFirstPid + world.time.events();
}

bool Trainer::is_frozen() const { return frozen_ || node_.is_frozen(); }

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

void Trainer::Thaw() {
  if (!frozen_) return;
  frozen_ = false;
  const auto held = std::move(held_);
  held_.clear();
  for (const Timeline::Action& action : held) Later(0, action);
}

void Trainer::Tell() { node_.OnTold(*this); }

// ---- Until it trains.

void Trainer::Load() {
  if (!order_.restore_from.empty()) {
    const Disk::Directory* directory = world_.disk.Find(order_.restore_from);
    if (directory == nullptr || !directory->complete() || directory->damaged) {
      world_.observer->OnBadRestore(*this, directory != nullptr && directory->damaged);
      return Exit(FailureKind::kRestore, "the checkpoint cannot be used");
    }
    status_.progress.step = directory->key.step;
  }
  status_.state = TrainerState::kReady;
  status_.store_address = absl::StrCat(node_.name().value(), ":", status_.pid);
  Tell();
  CheckOrder();
}

void Trainer::Command(const TrainerOrder& order) {
  Later(500, [this, order] {
    order_ = order;
    CheckOrder();
  });
}

void Trainer::CheckOrder() {
  if (ending_) return;
  if (status_.state == TrainerState::kReady && !order_.store_address.empty() && !met_asked_) {
    met_asked_ = true;
    world_.training->Join(shared_from_this());
  }
  for (const int64_t step : order_.commit_steps) {
    if (std::count(committing_.begin(), committing_.end(), step) > 0) continue;
    const SaveStatus* save = FindSave(step);
    if (save == nullptr || save->state != SaveState::kDurable) continue;
    committing_.push_back(step);
    Later(world_.random.Exponential(world_.settings.disk_delay / 4),
          [this, step] { CommitManifest(step); });
  }
}

void Trainer::Met(int64_t epoch) {
  if (ending_) return;
  training_ = true;
  status_.state = TrainerState::kRunning;
  status_.plan.prepared = status_.plan.active = PlanEpoch(epoch);
  status_.plan.active_since_step = step();
  Tell();
  Compute();
}

// ---- Steps.

void Trainer::Compute() {
  if (step() >= facts_.steps) return FinishWhenSaved();
  status_.progress.phase = 3;
  const auto mean = static_cast<double>(facts_.step_time) * node_.slowness;
  Later(static_cast<Micros>(mean * (0.8 + 0.4 * world_.random.Unit())), [this] {
    if (ending_) return;
    status_.progress.phase = 4;
    world_.training->Arrive(shared_from_this());
  });
}

void Trainer::CompleteStep(int64_t epoch, int64_t save_order) {
  if (ending_) return;
  ++status_.progress.step;
  if (status_.plan.active.value() != epoch) {
    status_.plan.prepared = status_.plan.active = PlanEpoch(epoch);
    status_.plan.active_since_step = step();
    Tell();
  }
  const bool by_steps =
      facts_.every_steps > 0 && (step() % facts_.every_steps == 0 || step() == facts_.steps);
  if (!facts_.directory.empty() && (save_order != 0 || by_steps)) Save(save_order);
  Compute();
}

void Trainer::OnCollectiveError(const std::string& why) {
  if (ending_) return;
  Exit(FailureKind::kCollective, why);
}

void Trainer::FinishWhenSaved() {
  if (ending_ || status_.state == TrainerState::kFinished) return;
  const bool saving =
      std::any_of(status_.saves.begin(), status_.saves.end(), [this](const SaveStatus& save) {
        return save.state == SaveState::kWriting ||
               (save.state == SaveState::kDurable && id_.rank == Rank(0));
      });
  if (saving && !finishing_) {
    finishing_ = true;
    Later(kFinishPatience, [this] {
      status_.saves.clear();
      FinishWhenSaved();
    });
  }
  if (saving) return;
  training_ = false;
  status_.state = TrainerState::kFinished;
  world_.observer->OnFinished(*this);
  Tell();
  Later(20 * kMilli, [this] {
    Remains remains;
    remains.seen = true;
    remains.finished = true;
    End(remains, true);
  });
}

// ---- Saves.

std::string Trainer::DirectoryOf(int64_t step) const {
  return absl::StrCat(facts_.directory, "/", id_.job.value(), "/", CheckpointName(KeyOf(step)));
}

SaveStatus* Trainer::FindSave(int64_t step) {
  for (SaveStatus& save : status_.saves) {
    if (save.step == step) return &save;
  }
  return nullptr;
}

void Trainer::Save(int64_t order) {
  const auto writing =
      std::count_if(status_.saves.begin(), status_.saves.end(),
                    [](const SaveStatus& save) { return save.state == SaveState::kWriting; });
  if (status_.saves.size() == kMaxSavesTold) status_.saves.erase(status_.saves.begin());
  SaveStatus save;
  save.step = step();
  save.order = order;
  save.bytes = 100;
  save.state = writing >= kSaveLimit ? SaveState::kSkipped : SaveState::kWriting;
  status_.saves.push_back(save);
  status_.blocked = absl::Milliseconds(5);
  Tell();
  if (save.state == SaveState::kSkipped) return;
  const bool fails =
      world_.random.Chance(world_.settings.save_fails) && world_.time.now() < world_.settings.quiet;
  Later(1 * kMilli + world_.random.Exponential(world_.settings.disk_delay),
        [this, step = save.step, fails] { EndSave(step, fails); });
}

void Trainer::EndSave(int64_t step, bool fails) {
  if (!fails) world_.disk.AddShard(DirectoryOf(step), KeyOf(step), id_.rank.value());
  SaveStatus* save = FindSave(step);
  if (save != nullptr) {
    save->state = fails ? SaveState::kFailed : SaveState::kDurable;
    if (fails) save->failure = SaveFailure::kNoSpace;
  }
  Tell();
  if (this->step() >= facts_.steps) FinishWhenSaved();
}

void Trainer::CommitManifest(int64_t step) {
  const bool complete = world_.disk.AddManifest(DirectoryOf(step), order_.world_size);
  if (complete && world_.random.Chance(world_.settings.checkpoint_damage)) {
    world_.disk.Damage(DirectoryOf(step));
  }
  world_.observer->OnManifest(*this, step, complete);
  SaveStatus* save = FindSave(step);
  if (save != nullptr) {
    save->state = complete ? SaveState::kCommitted : SaveState::kFailed;
    if (!complete) save->failure = SaveFailure::kInconsistent;
  }
  Tell();
  if (this->step() >= facts_.steps) FinishWhenSaved();
}

// ---- The end.

void Trainer::Terminate() {
  Later(world_.random.Between(2, 300) * kMilli, [this] {
    ending_ = true;
    Remains remains;
    remains.seen = true;
    End(remains, true);
  });
}

void Trainer::Kill() {
  // A host that stands still ends nobody.
  node_.is_frozen() ? node_.WhenThawed([self = shared_from_this()] { self->CrashBy(9); })
                    : world_.time.After(2 * kMilli, [self = shared_from_this()] {
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
  End(remains, true);
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
  training_ = false;
  held_.clear();
  if (remains.seen) node_.OnEnded(*this, std::move(remains));
  world_.training->OnEnd(*this, reset);
}

}  // namespace paceline::sim
