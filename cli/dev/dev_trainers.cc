#include "cli/dev/dev_trainers.h"

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/dev/process.h"
#include "worker/shim/trainer_lock.h"

namespace paceline {
namespace {

constexpr absl::Duration kKillWait = absl::Seconds(10);

bool Lives(const std::string& trainer_dir) {
  const absl::StatusOr<TrainerProcesses> processes = ReadTrainerLock(trainer_dir);
  // A trainer whose state cannot be read may be alive: better to report it than to leave it behind.
  return !processes.ok() || processes->alive;
}

std::vector<std::string> LiveTrainersOf(const std::vector<std::string>& state_dirs) {
  std::vector<std::string> live;
  for (const std::string& dir : state_dirs) {
    for (std::string& trainer : LiveTrainers(dir)) live.push_back(std::move(trainer));
  }
  return live;
}

// Signals the shim of a trainer and, if `both`, the trainer itself.
void SignalTrainer(const std::string& trainer_dir, int signal, bool both) {
  const absl::StatusOr<TrainerProcesses> now = ReadTrainerLock(trainer_dir);
  if (!now.ok() || !now->alive) return;
  for (const pid_t pid : {both ? now->trainer : 0, now->shim}) {
    if (pid == 0) continue;
    SignalIfOurs(pid, signal, [&] {
      const absl::StatusOr<TrainerProcesses> again = ReadTrainerLock(trainer_dir);
      return again.ok() && again->alive && again->shim == now->shim;
    });
  }
}

}  // namespace

std::vector<std::string> LiveTrainers(const std::string& worker_state_dir) {
  std::vector<std::string> live;
  std::error_code none;
  for (const auto& entry :
       std::filesystem::directory_iterator(worker_state_dir + "/trainers", none)) {
    if (Lives(entry.path().string())) live.push_back(entry.path().string());
  }
  std::sort(live.begin(), live.end());
  return live;
}

absl::Status EndTrainers(const std::vector<std::string>& worker_state_dirs, absl::Duration grace) {
  // A shim that has just started has not written its id yet, so this is repeated.
  const auto end_with = [&](int signal, bool both) {
    return [&worker_state_dirs, signal, both] {
      const std::vector<std::string> live = LiveTrainersOf(worker_state_dirs);
      for (const std::string& trainer : live) SignalTrainer(trainer, signal, both);
      return live.empty();
    };
  };
  if (WaitUntil(end_with(SIGTERM, false), grace)) return absl::OkStatus();
  // The shim kills its trainer's whole process group and records how it ended.
  if (WaitUntil(end_with(SIGUSR1, false), kKillWait)) return absl::OkStatus();
  if (WaitUntil(end_with(SIGKILL, true), kKillWait)) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("these trainers do not go, not even after SIGKILL: ",
                   absl::StrJoin(LiveTrainersOf(worker_state_dirs), ", ")));
}

}  // namespace paceline
