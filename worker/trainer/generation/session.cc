#include "worker/trainer/generation/session.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/trainer/checkpoint/train_state.h"
#include "worker/trainer/checkpoint/weights.h"
#include "worker/trainer/core/sampler.h"

namespace paceline {
namespace {

constexpr absl::Duration kLockPatience = absl::Minutes(1);

absl::Status PrepareOutput(Session& session) {
  const TrainerConfig& config = *session.config;
  const int number = config.id.rank.value();
  // A rank that joins others with a state must not make them end: a disk that is full now may have
  // room later.
  const bool joins = config.recovery.enabled && config.id.generation.value() > 1;
  const auto prepare = [joins](absl::string_view key, const std::string& named,
                               const std::string& directory, int rank) {
    absl::Status prepared = PrepareOutputDirectory(key, named, directory, rank);
    if (prepared.ok() || !joins) return prepared;
    PACELINE_LOG(WARNING) << prepared.message();
    return absl::OkStatus();
  };
  if (!config.checkpoint.directory.empty()) {
    PACELINE_RETURN_IF_ERROR(prepare("checkpoint.directory", config.checkpoint.directory,
                                     config.output_directory(), number));
    PACELINE_RETURN_IF_ERROR(LockOutput(session, config));
  }
  if (config.export_final.empty()) return absl::OkStatus();
  const size_t slash = config.export_final.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : config.export_final.substr(0, slash);
  return prepare("export_final", folder, folder, config.rank());
}

// One copies while another waits for the disk. Nothing is computed meanwhile.
constexpr int kReadThreads = 2;

// Of a sharded model, those that have the same position read the same.
Readers ReadersOf(const TrainerConfig& config) {
  Readers readers;
  readers.count = std::max(1, config.local_world_size / config.member.shards);
  readers.index = config.local_rank / config.member.shards % readers.count;
  return readers;
}

// Restores model and optimizer from the checkpoint.
absl::Status Restore(Session& session) {
  const TrainerConfig& config = *session.config;
  const absl::Time began = absl::Now();
  absl::StatusOr<StateReader> opened = StateReader::Open(
      config.restore_from, std::max(config.threads, kReadThreads), ReadersOf(config));
  if (!opened.ok()) return RestoreError(config.restore_from, opened.status());
  auto checkpoint = std::make_unique<StateReader>(*std::move(opened));
  const Manifest& manifest = checkpoint->manifest();
  if (manifest.step > config.steps) {
    return absl::InvalidArgumentError(
        absl::StrCat("steps is ", config.steps, ", and the checkpoint ", config.restore_from,
                     " was made after ", manifest.step, " steps: give more"));
  }
  const absl::Status restored =
      RestoreState(*checkpoint, config, session.workload->model(), session.workload->optimizer(),
                   session.workload->attachments());
  if (!restored.ok()) return RestoreError(config.restore_from, restored);
  TrainingState& state = session.state;
  state.position.step = manifest.step;
  state.data = {manifest.data_epoch, manifest.data_offset};
  state.saver.last_saved = manifest.step;
  state.saver.by_steps.counted = manifest.step;
  if (session.workload->attachments() != nullptr) {
    PACELINE_ASSIGN_OR_RETURN(
        state.memory.gradient_order,
        RestoreOrder(*checkpoint, session.workload->model().parameters().size()));
  } else if (config.member.world_size > 1 && manifest.step > 0) {
    PACELINE_ASSIGN_OR_RETURN(state.memory.gradient_order,
                              session.workload->TrainDry(config.member, state.data));
  }
  state.figures.restored_step = manifest.step;
  state.figures.restored_bytes = checkpoint->bytes_read();
  state.figures.restore_s = absl::ToDoubleSeconds(absl::Now() - began);
  PACELINE_LOG(INFO) << "restored step=" << manifest.step << " from " << config.restore_from
                     << " bytes=" << state.figures.restored_bytes
                     << " unverified=" << checkpoint->bytes_unverified()
                     << " seconds=" << state.figures.restore_s;
  state.checkpoint = std::move(checkpoint);
  return absl::OkStatus();
}

}  // namespace

absl::Status LockOutput(Session& session, const TrainerConfig& config) {
  if (config.checkpoint.directory.empty()) return absl::OkStatus();
  if (config.rank() != 0) {
    session.output.reset();
    return absl::OkStatus();
  }
  if (session.output.has_value()) return absl::OkStatus();
  // An abandoned process may live on for a while, and a network file system may take as long to
  // notice that it is dead.
  absl::StatusOr<OutputLock> lock = OutputLock::Take(
      "checkpoint.directory", config.output_directory(),
      absl::StrCat("job ", config.id.job.value(), ", generation ", config.member.generation),
      std::min(kLockPatience, config.startup_timeout / 10));
  if (!lock.ok()) return absl::InternalError(lock.status().message());
  session.output.emplace(*std::move(lock));
  return absl::OkStatus();
}

absl::Status Open(Session& session, Control& control, Platform& platform) {
  PACELINE_ASSIGN_OR_RETURN(session.config, control.WaitForConfig());
  const TrainerConfig& config = *session.config;
  session.store.emplace(config.interface);
  PACELINE_ASSIGN_OR_RETURN(session.device, platform.OpenDevice(config));
  return absl::OkStatus();
}

absl::Status Load(Session& session, Workload& workload, Control& control, StepRingWriter& ring,
                  Platform& platform) {
  session.config->model.unused_parameters = workload.unused_parameters();
  const TrainerConfig& config = *session.config;
  session.workload = &workload;
  PACELINE_RETURN_IF_ERROR(PrepareOutput(session));
  const bool spare = config.rank() < 0;
  if (!spare) {
    session.state.position.step = 0;
    session.state.position.rank = config.rank();
  }
  if (!config.restore_from.empty() && !spare) {
    PACELINE_RETURN_IF_ERROR(Restore(session));
  } else if (!config.init_from.empty() && !spare) {
    PACELINE_ASSIGN_OR_RETURN(const std::vector<std::string> notes,
                              LoadWeights(config.init_from, workload.model()));
    for (const std::string& note : notes) {
      if (config.rank() == 0) PACELINE_LOG(WARNING) << config.init_from << ": " << note;
    }
  }
  // Then a spare has this prepared when a rank is lost.
  if (spare) {
    PACELINE_RETURN_IF_ERROR(workload.TrainDry(config.member, DataPosition()).status());
  }
  session.timer = platform.MakeStepTimer(ring);
  if (config.recovery.enabled) session.undo.emplace(workload.model(), workload.attachments());
  if (!config.checkpoint.directory.empty()) {
    session.saver.emplace(
        Saver::Parts{config, workload.model(), workload.optimizer(), control, platform},
        session.state.figures);
  }
  if (config.checkpoint.sample_ledger) session.ledger.emplace(config.output_directory());
  return absl::OkStatus();
}

}  // namespace paceline
