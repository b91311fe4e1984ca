#include "worker/trainer/loop/trainer_run.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/exception.h>

#include <algorithm>
#include <new>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/trainer/comm/abortable_backend.h"
#include "worker/trainer/comm/connections.h"
#include "worker/trainer/comm/plan_builder.h"
#include "worker/trainer/copies/copy_link.h"
#include "worker/trainer/generation/auto_rendezvous.h"
#include "worker/trainer/generation/hand_over.h"
#include "worker/trainer/generation/quiescence.h"
#include "worker/trainer/generation/rendezvous.h"
#include "worker/trainer/generation/slipstream_rendezvous.h"
#include "worker/trainer/generation/state_transfer.h"
#include "worker/trainer/loop/slipstream_loop.h"
#include "worker/trainer/loop/train_loop.h"
#include "worker/trainer/telemetry/host_memory.h"

namespace paceline {
namespace {

// The end of a rank waits for its ledger's last records no longer than this.
constexpr absl::Duration kLedgerPatience = absl::Seconds(10);

// Directory for files made on request or after a failure: in the job's output, if it has one.
std::string RoomFor(const TrainerConfig& config, const std::string& what,
                    const std::string& trainer_directory) {
  return absl::StrCat(
      config.checkpoint.directory.empty() ? trainer_directory : config.output_directory(), "/",
      what);
}

bool IsAuto(const TrainerConfig& config) {
  return config.strategy.kind == StrategyConfig::Kind::kAuto;
}

bool IsSlipstream(const TrainerConfig& config) {
  return config.strategy.kind == StrategyConfig::Kind::kSlipstream;
}

std::unique_ptr<Training> MakeTraining(const TrainingParts& parts) {
  if (IsSlipstream(parts.config)) return std::make_unique<SlipstreamLoop>(parts);
  return std::make_unique<TrainLoop>(parts);
}

}  // namespace

TrainerRun::TrainerRun(Control& control, StepRingWriter& ring, Platform& platform,
                       std::string directory)
    : control_(control), ring_(ring), platform_(platform), directory_(std::move(directory)) {}

TrainerRun::~TrainerRun() = default;

void TrainerRun::Open() {
  Do([this] { return paceline::Open(session_, control_, platform_); });
}

void TrainerRun::Load(Workload& workload) {
  Do([&]() -> absl::Status {
    // Without attachments, the ranks find out by themselves.
    if (IsSlipstream(*session_.config) && workload.attachments() != nullptr) {
      PACELINE_RETURN_IF_ERROR(workload.CheckSlipstream());
    }
    session_.config->mesh = workload.mesh();
    return paceline::Load(session_, workload, control_, ring_, platform_);
  });
  if (!ok()) return;
  session_.conductor.emplace(control_, session_.config->recovery, [this] {
    const absl::MutexLock lock(&session_.mu);
    if (session_.groups != nullptr) session_.groups->EndStore();
    platform_.connections().ShutDown(session_.store->port());
    if (session_.groups != nullptr) session_.groups->Abort();
    if (session_.hand_over != nullptr) session_.hand_over->Abort();
  });
  workload.SetReadInterrupt([this] { return is_interrupted(); });
  MakeCopies();
  // Before it is ready: whoever is, has said what it knows.
  session_.conductor->SetLoaded(std::max<int64_t>(session_.state.position.step, 0));
  control_.SetReady(session_.store->port(), std::string(workload.CheckSlipstream().message()));
}

StepOrder TrainerRun::Next() {
  while (ok()) {
    if (generation_ == nullptr && !Enter()) break;
    StepOrder order;
    if (!failure_.has_value()) {
      failure_ = Guard([&]() -> absl::Status {
        PACELINE_ASSIGN_OR_RETURN(order, generation_->training->Next());
        return absl::OkStatus();
      });
    }
    if (failure_.has_value()) {
      if (!LeaveFailed(*std::exchange(failure_, std::nullopt))) break;
    } else if (order.kind == StepOrder::Kind::kLeft) {
      LeaveTogether();
    } else {
      return order;
    }
  }
  return StepOrder{StepOrder::Kind::kDone};
}

void TrainerRun::Do(const std::function<absl::Status()>& part) {
  if (!ok() || failure_.has_value()) return;
  failure_ = Guard(part);
  if (failure_.has_value() && generation_ == nullptr) {
    status_ = std::exchange(failure_, std::nullopt)->status;
  }
}

bool TrainerRun::CutOff(absl::string_view what, bool collective) {
  if (!ok() || generation_ == nullptr) return false;
  if (failure_.has_value()) return failure_->collective;
  if (!collective && !lost_collectives()) return false;
  failure_ = Failure{absl::UnavailableError(what), /*collective=*/true};
  return true;
}

Group& TrainerRun::CallersGroup() {
  Connected& connected = generation_->connected;
  if (connected.callers == nullptr) {
    Connecting connecting([groups = connected.groups] {
      Connected made;
      made.callers = groups->MakeOfAll("caller", /*version=*/0, Groups::Traffic::kOnDevice);
      return made;
    });
    ShowWait(true);
    const std::optional<Connected> made =
        connecting.Wait([this] { return session_.conductor->is_over(); });
    ShowWait(false);
    if (!made.has_value()) throw CollectiveError("rendezvous", "the generation is over");
    connected.callers = made->callers;
    if (connected.callers->torch_group() != nullptr) {
      ListenToWaits(*connected.callers->torch_group(),
                    [this, thread = std::this_thread::get_id()](bool waits) {
                      if (std::this_thread::get_id() == thread) ShowWait(waits);
                    });
    }
  }
  return *connected.callers;
}

void TrainerRun::ShowWait(bool waits) {
  const TrainingState& state = session_.state;
  if (!state.in_step && !state.is_open) return;
  if (generation_ != nullptr && generation_->training != nullptr) step().ShowWait(waits);
}

void TrainerRun::GiveUpProfile(const std::string& why) {
  if (generation_ == nullptr || generation_->training == nullptr) return;
  generation_->training->profiler().GiveUp(why);
}

void TrainerRun::Fail(const absl::Status& status) {
  if (ok()) status_ = status;
}

int TrainerRun::Finish() {
  const bool stops = control_.stop_requested() || !ok();
  const bool has_training = generation_ != nullptr && generation_->training != nullptr;
  if (stops && has_training && generation_->training->is_exchanging()) has_broken_groups_ = true;
  FinishCopies(stops);
  if (session_.ledger.has_value() && !session_.ledger->Flush(kLedgerPatience)) {
    PACELINE_LOG(WARNING) << "the ledger of samples lacks the last steps of this rank";
  }
  return control_.Finish(status_);
}

bool TrainerRun::Enter() {
  const absl::StatusOr<std::optional<Assignment>> next = session_.conductor->WaitForRendezvous();
  status_ = next.status();
  if (!next.ok() || !next->has_value()) return false;
  const Assignment& assignment = **next;
  generation_ = std::make_unique<Generation>();
  generation_->number = assignment.member.generation;
  if (connected_.has_value() && connected_->generation == generation_->number) {
    generation_->connected = std::move(connected_->connected);
  }
  connected_.reset();
  failure_ = Guard([&] { return Meet(assignment); });
  return true;
}

absl::Status TrainerRun::Meet(const Assignment& assignment) {
  Conductor& conductor = *session_.conductor;
  Generation& generation = *generation_;
  if (generation.connected.groups == nullptr) {
    PACELINE_ASSIGN_OR_RETURN(const TrainingPlan plan, PlanOf(assignment));
    const std::unique_ptr<Connecting> connecting = Connect(assignment, plan);
    std::optional<Connected> connected =
        connecting->Wait([&] { return conductor.is_over() || control_.stop_requested(); });
    if (!connected.has_value()) throw CollectiveError("rendezvous", "the generation is over");
    generation.connected = *std::move(connected);
  }
  generation.config = ConfigOf(assignment, generation.connected.plan->plan);
  const TrainerConfig& config = generation.config;
  {
    const absl::MutexLock lock(&session_.mu);
    session_.groups = generation.connected.groups;
  }
  const absl::Time connected_at = absl::Now();
  TakePosition(*generation.connected.plan);
  Groups& groups = *generation.connected.groups;
  const Rendezvous rendezvous = RendezvousOf(generation);
  if (generation.connected.hand_over != nullptr) {
    const std::shared_ptr<Group> pair = std::move(generation.connected.hand_over);
    NoteHandOver(pair);
    PACELINE_RETURN_IF_ERROR(TakeStateOver(*pair, rendezvous, session_.state));
    NoteHandOver(nullptr);
  }
  generation.changes_strategy =
      session_.state.position.generation > 0 &&
      session_.state.slipstream.rank.has_value() != rendezvous.plan.slipstream.has_value();
  PACELINE_ASSIGN_OR_RETURN(const bool begins, RunRendezvousWithCopies(assignment, rendezvous));
  const absl::Time rendezvous_at = absl::Now();
  if (config.member.shards > 1) ring_.ResetCollectives();
  PACELINE_RETURN_IF_ERROR(LockOutput(session_, config));
  if (config.recovery.enabled) {
    generation.succession.emplace(
        conductor, groups, session_.state.position.step,
        [this](const Assignment& next) { return Connect(next, next.plan); });
  }
  generation.training = MakeTraining(PartsOf(generation, begins));
  session_.state.position.Enter(config.member.generation);
  PACELINE_LOG(INFO) << "rendezvous generation=" << config.member.generation << " rendezvous_ms="
                     << absl::ToDoubleMilliseconds(rendezvous_at - connected_at)
                     << " preparing_ms=" << absl::ToDoubleMilliseconds(absl::Now() - rendezvous_at);
  PACELINE_RETURN_IF_ERROR(generation.training->Resume());
  generation.changes_strategy = false;
  control_.SetRunning();
  conductor.SetRendezvousDone(session_.state.position.step);
  session_.before = Connected();
  PACELINE_LOG(INFO) << "training generation=" << config.member.generation
                     << " rank=" << config.member.rank << " world_size=" << config.member.world_size
                     << " step=" << session_.state.position.step << " threads=" << config.threads
                     << " device=" << session_.workload->model().device().str();
  return absl::OkStatus();
}

TrainerConfig TrainerRun::ConfigOf(const Assignment& assignment, const TrainingPlan& plan) const {
  TrainerConfig config = *session_.config;
  config.member = assignment.member;
  if (IsAuto(config)) {
    config.strategy.kind = plan.slipstream.has_value() ? StrategyConfig::Kind::kSlipstream
                                                       : StrategyConfig::Kind::kDdp;
  }
  return config;
}

std::unique_ptr<Connecting> TrainerRun::Connect(const Assignment& assignment,
                                                const TrainingPlan& plan) {
  return std::make_unique<Connecting>([&platform = platform_, plan,
                                       config = ConfigOf(assignment, plan),
                                       device = session_.workload->model().device(), assignment] {
    Connected connected;
    if (assignment.member.rank >= 0) {
      connected.groups =
          std::make_shared<Groups>(platform, config, device, assignment.store_address);
      connected.plan = BuildFirstPlan(*connected.groups, config, plan);
      connected.copies =
          ConnectCopies(*connected.groups, config.rank(), assignment.copies.value_or(CopyOrders()));
    }
    connected.hand_over = ConnectHandOver(platform, config, assignment);
    return connected;
  });
}

TrainingParts TrainerRun::PartsOf(Generation& generation, bool begins) {
  const auto leaves_after = [&generation](int64_t steps_done) {
    return generation.succession.has_value() && generation.succession->AfterStep(steps_done);
  };
  const auto averages_first = [&generation] { return generation.succession->averages_first(); };
  const auto ready_for = [&generation] {
    return generation.succession.has_value() ? generation.succession->ReadyFor() : 0;
  };
  return {generation.config,
          generation.connected.plan,
          *session_.workload,
          session_.state,
          begins,
          session_.undo ? &*session_.undo : nullptr,
          session_.saver ? &*session_.saver : nullptr,
          session_.ledger ? &*session_.ledger : nullptr,
          session_.copies ? &*session_.copies : nullptr,
          *generation.connected.groups,
          control_,
          platform_,
          *session_.timer,
          RoomFor(generation.config, "profiles", directory_),
          leaves_after,
          averages_first,
          ready_for,
          [&conductor = *session_.conductor] { return conductor.HasSuccessor(); },
          [&conductor = *session_.conductor] { return conductor.is_over(); },
          [this] { return session_.conductor->newest().copies.value_or(CopyOrders()); }};
}

absl::StatusOr<bool> TrainerRun::RunRendezvousOfMembers(const Assignment& assignment,
                                                        const Rendezvous& rendezvous) {
  TrainingState& state = session_.state;
  if (assignment.saved_step.has_value()) state.saver.by_steps.CountFrom(*assignment.saved_step);
  if (!IsAuto(*session_.config)) {
    return IsSlipstream(rendezvous.config)
               ? RunSlipstreamRendezvous(rendezvous, state.slipstream, state)
               : RunRendezvous(rendezvous, state);
  }
  PACELINE_ASSIGN_OR_RETURN(const bool begins, RunAutoRendezvous(rendezvous, state));
  if (begins && state.checkpoint != nullptr && !IsSlipstream(rendezvous.config)) {
    // Each rank may have restored its own state.
    CopyOptimizerFromFirst(rendezvous.groups.all(), rendezvous.optimizer, rendezvous.attachments,
                           rendezvous.model.device(), rendezvous.config.rank());
  }
  return begins;
}

void TrainerRun::LeaveTogether() {
  const absl::Time since = absl::Now();
  connected_ = generation_->succession->TakeNext();
  failure_ = EndTraining();
  if (failure_.has_value()) return;  // Next leaves as after any failure.
  HandOver();
  // Kept until the next generation has met: other ranks may be a moment behind.
  session_.before = std::move(generation_->connected);
  session_.conductor->SetLeft(session_.state.position.step);
  if (session_.conductor->newest().member.rank != 0) session_.output.reset();
  LogLeft(absl::OkStatus(), since, /*reported=*/false, /*error_ms=*/0);
  generation_.reset();
}

bool TrainerRun::LeaveFailed(const Failure& failure) {
  has_broken_groups_ = true;
  const absl::Time since = absl::Now();
  if (generation_->training != nullptr) generation_->training->evaluation().CutOff();
  // The others have stopped, too, and perhaps earlier: the training ends without an error.
  if (failure.collective && control_.stop_requested()) return false;
  // The ordered change of strategy is impossible: the job continues by the former one.
  const bool refused = !failure.collective && generation_->changes_strategy;
  if (!(failure.collective || refused) || !session_.config->recovery.enabled ||
      control_.stop_requested()) {
    status_ = failure.status;  // Nothing is destroyed: threads may be stuck in a broken group.
    return false;
  }
  const bool reported = session_.conductor->is_over();
  session_.conductor->EndCollectives();
  // Until the training thread noticed the end.
  const double error_ms = absl::ToDoubleMilliseconds(session_.conductor->since_end());
  const std::optional<Failure> again = EndTraining();
  if (again.has_value()) {
    status_ = again->status;
    return false;
  }
  if (refused && IsSlipstream(generation_->config)) EndSlipstream(session_.state.slipstream);
  session_.before = Connected();
  generation_->connected = Connected();
  {
    const absl::MutexLock lock(&session_.mu);
    session_.groups.reset();
    session_.hand_over.reset();
  }
  session_.conductor->SetFailed(reported ? "" : std::string(failure.status.message()),
                                session_.state.position.step);
  LogLeft(failure.status, since, reported, error_ms);
  generation_.reset();
  return true;
}

std::optional<TrainerRun::Failure> TrainerRun::EndTraining() {
  return Guard([this] {
    if (session_.copies.has_value()) session_.copies->Leave();
    if (generation_->training != nullptr) generation_->training->Leave();
    generation_->training.reset();
    if (generation_->config.member.shards > 1) session_.workload->SetShardGroups(nullptr);
    session_.workload->CloseData();
    generation_->succession.reset();
    return absl::OkStatus();
  });
}

void TrainerRun::LogLeft(const absl::Status& why, absl::Time since, bool reported,
                         double error_ms) {
  PACELINE_LOG(INFO) << "left generation=" << generation_->number
                     << " step=" << session_.state.position.step << " reported=" << reported
                     << " error_ms=" << error_ms
                     << " leaving_ms=" << absl::ToDoubleMilliseconds(absl::Now() - since) << ": "
                     << why.message();
}

bool TrainerRun::lost_collectives() const {
  if (session_.conductor.has_value() && session_.conductor->is_over()) return true;
  return generation_ != nullptr && generation_->connected.groups != nullptr &&
         generation_->connected.groups->has_failed();
}

std::optional<TrainerRun::Failure> TrainerRun::Guard(const std::function<absl::Status()>& part) {
  try {
    const absl::Status status = part();
    if (status.ok()) return std::nullopt;
    // A read of data that waited for its store.
    if (absl::IsCancelled(status) && session_.conductor.has_value() && is_interrupted()) {
      return Failure{absl::UnavailableError(status.message()), /*collective=*/true};
    }
    return Failure{status};
  } catch (const CollectiveError& error) {
    return Failure{absl::UnavailableError(error.what()), /*collective=*/true};
  } catch (const c10::DistError& error) {
    return Failure{absl::UnavailableError(error.what_without_backtrace()), /*collective=*/true};
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    if (!IsOutOfMemory(message) && lost_collectives()) {
      return Failure{absl::UnavailableError(message), /*collective=*/true};
    }
    if (dynamic_cast<const c10::ValueError*>(&error) != nullptr) {
      return Failure{absl::InvalidArgumentError(message)};
    }
    return Failure{IsOutOfMemory(message) ? OutOfMemory(message) : absl::InternalError(message)};
  } catch (const std::bad_alloc&) {
    return Failure{OutOfMemory("out of memory")};
  } catch (const std::exception& error) {
    if (lost_collectives())
      return Failure{absl::UnavailableError(error.what()), /*collective=*/true};
    return Failure{absl::InternalError(error.what())};
  }
}

// Adds for people how much memory the process has, and what the device says.
absl::Status TrainerRun::OutOfMemory(absl::string_view message) {
  std::string text =
      absl::StrCat(message, "; this process has ", ReadHostMemory().rss >> 20, " MiB in memory");
  if (session_.config.has_value()) {
    const TrainerConfig& config = *session_.config;
    const std::string device = platform_.DescribeOutOfMemory(
        RoomFor(config, absl::StrCat("oom.rank", config.rank(), ".pickle"), directory_));
    if (!device.empty()) absl::StrAppend(&text, "; ", device);
  }
  return absl::ResourceExhaustedError(text);
}

}  // namespace paceline
