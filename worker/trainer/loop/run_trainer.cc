#include "worker/trainer/loop/run_trainer.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/exception.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/trainer/comm/connecting.h"
#include "worker/trainer/comm/connections.h"
#include "worker/trainer/generation/auto_rendezvous.h"
#include "worker/trainer/generation/rendezvous.h"
#include "worker/trainer/generation/session.h"
#include "worker/trainer/generation/slipstream_rendezvous.h"
#include "worker/trainer/generation/succession.h"
#include "worker/trainer/loop/slipstream_loop.h"
#include "worker/trainer/loop/train_loop.h"
#include "worker/trainer/loop/training.h"
#include "worker/trainer/slipstream/buffers.h"
#include "worker/trainer/telemetry/host_memory.h"

namespace paceline {
namespace {

// What belongs to one generation, in the order in which it is made.
struct GenerationParts {
  TrainerConfig config;
  Connected connected;
  std::optional<Succession> succession;
  std::unique_ptr<Training> training;
  // The strategy differs from the previous generation's, and training has not begun yet.
  bool changes_strategy = false;
  TrainEnd end = TrainEnd::kDone;  // Set when training has ended without an error.
};

// Directory for files made on request or after a failure: in the job's output, if it has one.
std::string RoomFor(const TrainerConfig& config, const std::string& what,
                    const std::string& trainer_directory) {
  return absl::StrCat(
      config.checkpoint.directory.empty() ? trainer_directory : config.output_directory(), "/",
      what);
}

bool IsAuto(const Session& session) {
  return session.config->strategy.kind == StrategyConfig::Kind::kAuto;
}

TrainerConfig ConfigOf(const Session& session, const Assignment& assignment,
                       const TrainingPlan& plan) {
  TrainerConfig config = *session.config;
  config.member = assignment.member;
  if (IsAuto(session)) {
    config.strategy.kind = plan.slipstream.has_value() ? StrategyConfig::Kind::kSlipstream
                                                       : StrategyConfig::Kind::kDdp;
  }
  return config;
}

// Begins to connect the members of a generation.
std::unique_ptr<Connecting> Connect(const Session& session, const Assignment& assignment,
                                    const TrainingPlan& plan, Platform& platform) {
  return std::make_unique<Connecting>(
      [&platform, plan, config = ConfigOf(session, assignment, plan),
       device = session.model->device(), address = assignment.store_address] {
        Connected connected;
        connected.groups = std::make_shared<Groups>(platform, config, device, address);
        connected.plan = BuildFirstPlan(*connected.groups, config, plan);
        return connected;
      });
}

bool IsSlipstream(const TrainerConfig& config) {
  return config.strategy.kind == StrategyConfig::Kind::kSlipstream;
}

TrainingParts PartsOf(Session& session, GenerationParts& generation, bool begins, Control& control,
                      Platform& platform, const std::string& directory) {
  const auto leaves_after = [&generation](int64_t steps_done) {
    return generation.succession.has_value() && generation.succession->AfterStep(steps_done);
  };
  const auto ready_for = [&generation] {
    return generation.succession.has_value() ? generation.succession->ReadyFor() : 0;
  };
  return {generation.config,
          generation.connected.plan,
          *session.train_data,
          session.eval_data.get(),
          *session.model,
          *session.optimizer,
          session.state,
          begins,
          session.undo ? &*session.undo : nullptr,
          session.saver ? &*session.saver : nullptr,
          *generation.connected.groups,
          control,
          platform,
          *session.timer,
          RoomFor(generation.config, "profiles", directory),
          leaves_after,
          ready_for,
          [&conductor = *session.conductor] { return conductor.HasSuccessor(); },
          [&conductor = *session.conductor] { return conductor.is_over(); }};
}

std::unique_ptr<Training> MakeTraining(const TrainingParts& parts) {
  if (IsSlipstream(parts.config)) return std::make_unique<SlipstreamLoop>(parts);
  return std::make_unique<TrainLoop>(parts);
}

absl::StatusOr<bool> RunRendezvousOfMembers(const Rendezvous& rendezvous, Session& session) {
  TrainingState& state = session.state;
  if (!IsAuto(session)) {
    return IsSlipstream(rendezvous.config)
               ? RunSlipstreamRendezvous(rendezvous, state.slipstream, state)
               : RunRendezvous(rendezvous, state);
  }
  PACELINE_ASSIGN_OR_RETURN(const bool begins, RunAutoRendezvous(rendezvous, state));
  if (begins && state.checkpoint != nullptr && !IsSlipstream(rendezvous.config)) {
    // Each rank may have restored its own state.
    rendezvous.groups.all().CopyFromFirst(rendezvous.optimizer.State());
  }
  return begins;
}

// Meets the members of a generation, connecting them first if needed, and prepares its training.
absl::Status Enter(Session& session, GenerationParts& generation, const Assignment& assignment,
                   Control& control, Platform& platform, const std::string& directory) {
  Conductor& conductor = *session.conductor;
  if (generation.connected.groups == nullptr) {
    PACELINE_ASSIGN_OR_RETURN(const TrainingPlan plan, PlanOf(assignment));
    const std::unique_ptr<Connecting> connecting = Connect(session, assignment, plan, platform);
    std::optional<Connected> connected =
        connecting->Wait([&] { return conductor.is_over() || control.stop_requested(); });
    if (!connected.has_value()) throw CollectiveError("rendezvous", "the generation is over");
    generation.connected = *std::move(connected);
  }
  generation.config = ConfigOf(session, assignment, generation.connected.plan->plan);
  const TrainerConfig& config = generation.config;
  {
    const absl::MutexLock lock(&session.mu);
    session.groups = generation.connected.groups;
  }
  const absl::Time connected_at = absl::Now();
  Groups& groups = *generation.connected.groups;
  const Rendezvous rendezvous{config,
                              generation.connected.plan->plan,
                              groups,
                              *session.model,
                              *session.optimizer,
                              session.undo ? &*session.undo : nullptr};
  generation.changes_strategy =
      session.state.position.generation > 0 &&
      session.state.slipstream.rank.has_value() != rendezvous.plan.slipstream.has_value();
  PACELINE_ASSIGN_OR_RETURN(const bool begins, RunRendezvousOfMembers(rendezvous, session));
  const absl::Time rendezvous_at = absl::Now();
  PACELINE_RETURN_IF_ERROR(LockOutput(session, config));
  if (config.recovery.enabled) {
    generation.succession.emplace(conductor, groups, session.state.position.step,
                                  [&session, &platform](const Assignment& next) {
                                    return Connect(session, next, next.plan, platform);
                                  });
  }
  generation.training =
      MakeTraining(PartsOf(session, generation, begins, control, platform, directory));
  session.state.position.generation = config.member.generation;
  PACELINE_LOG(INFO) << "rendezvous generation=" << config.member.generation << " rendezvous_ms="
                     << absl::ToDoubleMilliseconds(rendezvous_at - connected_at)
                     << " preparing_ms=" << absl::ToDoubleMilliseconds(absl::Now() - rendezvous_at);
  return generation.training->Resume();
}

absl::Status TrainGeneration(Session& session, GenerationParts& generation,
                             const Assignment& assignment, Control& control, Platform& platform,
                             const std::string& directory) {
  PACELINE_RETURN_IF_ERROR(Enter(session, generation, assignment, control, platform, directory));
  generation.changes_strategy = false;
  control.SetRunning();
  session.conductor->SetRendezvousDone(session.state.position.step);
  session.before = Connected();
  const Member& member = generation.config.member;
  PACELINE_LOG(INFO) << "training generation=" << member.generation << " rank=" << member.rank
                     << " world_size=" << member.world_size
                     << " step=" << session.state.position.step
                     << " threads=" << generation.config.threads
                     << " device=" << session.model->device().str();
  PACELINE_ASSIGN_OR_RETURN(generation.end, generation.training->Run());
  return absl::OkStatus();
}

// Ends everything of the generation except its groups; the state stays.
void Leave(GenerationParts& generation) {
  if (generation.training != nullptr) generation.training->Leave();
  generation.training.reset();
  generation.succession.reset();
}

// Leaves the generation as all ranks have agreed. Returns the next one's groups.
std::optional<Succession::Next> LeaveForNext(Session& session, GenerationParts& generation) {
  std::optional<Succession::Next> next = generation.succession->TakeNext();
  Leave(generation);
  // Kept until the next generation has met: other ranks may be a moment behind.
  session.before = std::move(generation.connected);
  session.conductor->SetLeft(session.state.position.step);
  if (session.conductor->newest().member.rank != 0) session.output.reset();
  return next;
}

bool IsOutOfMemory(absl::string_view message) {
  return absl::StrContains(message, "can't allocate memory") ||
         absl::StrContains(message, "out of memory");
}

// Adds for people how much memory the process has, and what the device says.
absl::Status OutOfMemory(absl::string_view message, const Session& session, Platform& platform,
                         const std::string& directory) {
  std::string text =
      absl::StrCat(message, "; this process has ", ReadHostMemory().rss >> 20, " MiB in memory");
  if (session.config.has_value()) {
    const TrainerConfig& config = *session.config;
    const std::string device = platform.DescribeOutOfMemory(
        RoomFor(config, absl::StrCat("oom.rank", config.rank(), ".pickle"), directory));
    if (!device.empty()) absl::StrAppend(&text, "; ", device);
  }
  return absl::ResourceExhaustedError(text);
}

// Runs a part of the trainer's work and turns torch's exceptions into the codes that
// Control::Finish names. `collective`: a collective failed, perhaps because the generation is over.
absl::Status RunPart(const Session& session, Platform& platform, const std::string& directory,
                     const std::function<absl::Status()>& part, bool* collective) {
  const auto out_of_memory = [&](absl::string_view message) {
    return OutOfMemory(message, session, platform, directory);
  };
  const bool conducted = session.conductor.has_value();
  const auto is_over = [&] { return conducted && session.conductor->is_over(); };
  *collective = true;
  try {
    const absl::Status status = part();
    *collective = false;
    return status;
  } catch (const CollectiveError& error) {
    return absl::UnavailableError(error.what());
  } catch (const c10::DistError& error) {
    return absl::UnavailableError(error.what_without_backtrace());
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    *collective = is_over() && !IsOutOfMemory(message);
    if (*collective) return absl::UnavailableError(message);
    if (dynamic_cast<const c10::ValueError*>(&error) != nullptr) {
      return absl::InvalidArgumentError(message);
    }
    return IsOutOfMemory(message) ? out_of_memory(message) : absl::InternalError(message);
  } catch (const std::bad_alloc&) {
    *collective = false;
    return out_of_memory("out of memory");
  } catch (const std::exception& error) {
    *collective = is_over();
    return *collective ? absl::UnavailableError(error.what()) : absl::InternalError(error.what());
  }
}

// Lets the trainer rendezvous, once everything is loaded.
void BeginConducting(Session& session, Control& control) {
  session.conductor.emplace(control, session.config->recovery, [&session] {
    const absl::MutexLock lock(&session.mu);
    if (session.groups != nullptr) session.groups->EndStore();
    ShutDownConnections(session.store->port());
    if (session.groups != nullptr) session.groups->Abort();
  });
  control.SetReady(session.store->port(), std::string(CheckSlipstream(*session.model).message()));
  session.conductor->SetLoaded(std::max<int64_t>(session.state.position.step, 0));
}

// Forgets a generation that has failed, after Leave. `refused`: its strategy was impossible.
// `error`: for the daemon; empty if it knows already that the generation is over.
void Forget(Session& session, GenerationParts& generation, bool refused, const std::string& error) {
  if (refused && IsSlipstream(generation.config)) EndSlipstream(session.state.slipstream);
  session.before = Connected();
  generation.connected = Connected();
  {
    const absl::MutexLock lock(&session.mu);
    session.groups.reset();
  }
  session.conductor->SetFailed(error, std::max<int64_t>(session.state.position.step, 0));
}

[[noreturn]] void Exit(Control& control, const absl::Status& status) {
  const int code = control.Finish(status);
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace

void RunTrainer(Control& control, StepRingWriter& ring, Platform& platform,
                const std::string& directory) {
  Session session;
  const auto run = [&](const std::function<absl::Status()>& part, bool* collective) {
    return RunPart(session, platform, directory, part, collective);
  };
  bool collective = false;
  absl::Status status = run([&] { return Load(session, control, ring, platform); }, &collective);
  if (status.ok()) BeginConducting(session, control);
  bool goes_on = status.ok();
  std::optional<Succession::Next> connected;  // Beside the previous generation.
  while (goes_on) {
    const absl::StatusOr<std::optional<Assignment>> next = session.conductor->WaitForRendezvous();
    status = next.status();
    if (!next.ok() || !next->has_value()) break;
    auto generation = std::make_unique<GenerationParts>();
    if (connected.has_value() && connected->generation == (*next)->member.generation) {
      generation->connected = std::move(connected->connected);
    }
    connected.reset();
    status = run(
        [&] { return TrainGeneration(session, *generation, **next, control, platform, directory); },
        &collective);
    const absl::Time ended = absl::Now();
    bool reported = false;
    double error_ms = 0;  // Until the training thread noticed the end.
    const bool left = status.ok() && generation->end == TrainEnd::kLeft;
    // The ordered change of strategy is impossible: the job continues by the former one.
    const bool refused = !status.ok() && !collective && generation->changes_strategy;
    const bool goes_on_without =
        (collective || refused) && session.config->recovery.enabled && !control.stop_requested();
    // The generation is not destroyed: threads may be stuck in a broken group.
    if (!left && !goes_on_without) Exit(control, status);
    if (left) {
      connected = LeaveForNext(session, *generation);
    } else {
      reported = session.conductor->is_over();
      session.conductor->EndCollectives();
      error_ms = absl::ToDoubleMilliseconds(session.conductor->since_end());
      const absl::Status taken_down = run(
          [&] {
            Leave(*generation);
            return absl::OkStatus();
          },
          &collective);
      if (!taken_down.ok()) {
        status = taken_down;
        break;
      }
      Forget(session, *generation, refused, reported ? "" : std::string(status.message()));
    }
    PACELINE_LOG(INFO) << "left generation=" << (*next)->member.generation
                       << " step=" << session.state.position.step << " reported=" << reported
                       << " error_ms=" << error_ms
                       << " leaving_ms=" << absl::ToDoubleMilliseconds(absl::Now() - ended) << ": "
                       << status.message();
  }
  Exit(control, status);
}

}  // namespace paceline
