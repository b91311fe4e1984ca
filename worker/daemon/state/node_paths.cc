#include "worker/daemon/state/node_paths.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "worker/shim/trainer_dir.h"

namespace paceline {

std::string NodePaths::NodeFile() const { return absl::StrCat(state_dir, "/node.json"); }

std::string NodePaths::TrainersDir() const { return absl::StrCat(state_dir, "/trainers"); }

std::string NodePaths::TrainerDir(const TrainerId& id) const {
  return absl::StrCat(TrainersDir(), "/", TrainerName(id));
}

std::string NodePaths::OwnDir(const TrainerId& id) const {
  return absl::StrCat(TrainerDir(id), "/", TrainerName(id));
}

std::string NodePaths::CodeDir(const JobId& job) const {
  return absl::StrCat(TrainersDir(), "/", job.value(), kCodeDirEnd);
}

std::string NodePaths::LogDir(const TrainerId& id) const {
  return absl::StrCat(OwnDir(id), "/", trainer_dir::kLog);
}

std::string NodePaths::LogMarks(const TrainerId& id) const {
  return absl::StrCat(TrainerDir(id), "/", trainer_dir::kMarks);
}

std::string NodePaths::Socket() const { return absl::StrCat(runtime_dir, "/daemon.sock"); }

std::string NodePaths::Ring(const TrainerId& id) const {
  return absl::StrCat(runtime_dir, "/", TrainerName(id), ".ring");
}

std::string TrainerName(const TrainerId& id) {
  return absl::StrCat(id.job.value(), ".", id.generation.value(), ".", id.rank.value());
}

std::optional<TrainerId> ParseTrainerName(absl::string_view name) {
  const std::vector<std::string> parts = absl::StrSplit(name, '.');
  int64_t generation = 0;
  int rank = 0;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[1], &generation) ||
      !absl::SimpleAtoi(parts[2], &rank)) {
    return std::nullopt;
  }
  const TrainerId id{JobId(parts[0]), Generation(generation), Rank(rank)};
  if (!IsValid(id) || TrainerName(id) != name) return std::nullopt;
  return id;
}

bool IsValid(const TrainerId& id) {
  const std::string& job = id.job.value();
  const auto allowed = [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
  };
  return !job.empty() && job.size() <= 63 && std::all_of(job.begin(), job.end(), allowed) &&
         id.generation.value() >= 1 && id.rank.value() >= 0;
}

}  // namespace paceline
