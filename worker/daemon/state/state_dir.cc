#include "worker/daemon/state/state_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "common/foreign_dir.h"
#include "common/log.h"
#include "common/tls/private_file.h"
#include "common/uuid.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 1;

// Follows a trainer's name and precedes a number: a dir set aside. No trainer has such a name.
constexpr char kAside[] = ".removed-";
constexpr size_t kTurn = 10'000;  // Entries; takes about a tenth of a second.
constexpr size_t kMaxAside = 1 << 20;

absl::Status NotUsable(const std::string& path, const std::string& why) {
  return absl::PermissionDeniedError(absl::StrCat("cannot use the directory ", path, ": ", why,
                                                  "; give one that this user can write"));
}

// The file's text; nothing when it does not exist.
absl::StatusOr<std::optional<std::string>> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    if (errno == ENOENT) return std::nullopt;
    return absl::PermissionDeniedError(
        absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  }
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

absl::StatusOr<NodeIdentity> NodeIdentity::Load(const NodePaths& paths) {
  NodeIdentity identity(paths.NodeFile());
  PACELINE_ASSIGN_OR_RETURN(const std::optional<std::string> text, ReadText(identity.path_));
  if (text.has_value()) {
    PACELINE_RETURN_IF_ERROR(identity.Read(*text));
    // Earlier versions let others read the file.
    if (::chmod(identity.path_.c_str(), 0600) != 0) {
      return NotUsable(identity.path_, std::strerror(errno));
    }
  } else {
    std::error_code error;
    if (fs::exists(paths.TrainersDir(), error)) {
      return absl::DataLossError(absl::StrCat(identity.path_,
                                              " is missing although the node has trainers; restore "
                                              "it, or begin with an empty state directory"));
    }
    identity.node_uid_ = NewUuid();
    PACELINE_RETURN_IF_ERROR(identity.Write());
  }
  std::error_code error;
  fs::create_directories(paths.TrainersDir(), error);
  if (error) return NotUsable(paths.TrainersDir(), error.message());
  return identity;
}

absl::Status NodeIdentity::Read(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const absl::Status damaged = absl::DataLossError(
      absl::StrCat(path_, " is damaged; restore it, or begin with an empty state directory"));
  if (!json.is_object() || !json.contains("version") || !json["version"].is_number_integer()) {
    return damaged;
  }
  if (json["version"] > kVersion) {
    return absl::OutOfRangeError(absl::StrCat(
        path_, " was written by a newer version (format ", json["version"].get<int64_t>(),
        ", this program knows ", kVersion, "); run that version or a later one"));
  }
  for (const auto& [key, value] :
       {std::pair("node_uid", &node_uid_), {"cluster_id", &cluster_id_}}) {
    if (!json.contains(key) || !json[key].is_string()) return damaged;
    *value = json[key].get<std::string>();
  }
  return node_uid_.empty() ? damaged : absl::OkStatus();
}

absl::Status NodeIdentity::Write() const {
  const nlohmann::json json = {
      {"version", kVersion}, {"node_uid", node_uid_}, {"cluster_id", cluster_id_}};
  const std::string text = json.dump(2) + "\n";
  const absl::Status status = WritePrivate(path_, text);
  if (status.ok() || status.code() == absl::StatusCode::kResourceExhausted) return status;
  return absl::PermissionDeniedError(status.message());
}

absl::Status NodeIdentity::Join(const std::string& cluster_id) {
  cluster_id_ = cluster_id;
  return Write();
}

absl::Status CloseStateDir(const std::string& path, bool trainers_pass) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0 || info.st_uid != ::geteuid() ||
      (info.st_mode & S_IWOTH) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the state directory ", path,
        " belongs to another user, or all others can write it: what is in it may be theirs; chown "
        "it, and chmod go-w, or give another --state-dir"));
  }
  if (::chmod(path.c_str(), trainers_pass ? 0711 : 0700) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot change ", path));
}

absl::StatusOr<std::vector<TrainerId>> ListTrainerDirs(const NodePaths& paths) {
  std::vector<std::pair<fs::file_time_type, TrainerId>> found;
  std::error_code error;
  for (fs::directory_iterator entry(paths.TrainersDir(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::optional<TrainerId> id = ParseTrainerName(entry->path().filename().string());
    std::error_code gone;
    if (id.has_value()) found.emplace_back(entry->last_write_time(gone), *id);
  }
  if (error) return NotUsable(paths.TrainersDir(), error.message());
  std::sort(found.begin(), found.end());
  std::vector<TrainerId> ids;
  for (auto& [time, id] : found) ids.push_back(std::move(id));
  return ids;
}

absl::Status SetDirAside(const std::string& dir) {
  // The same trainer may have been set aside before: use the next number.
  for (size_t number = 0; number < kMaxAside; ++number) {
    if (std::rename(dir.c_str(), absl::StrCat(dir, kAside, number).c_str()) == 0) {
      return absl::OkStatus();
    }
    if (errno == ENOENT) return absl::OkStatus();
    if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) break;
  }
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot rename ", dir));
}

void RemoveDirsAside(const NodePaths& paths, const std::atomic<bool>& stop) {
  const absl::StatusOr<ForeignDir> trainers = ForeignDir::Open(paths.TrainersDir());
  if (!trainers.ok()) return;
  const absl::StatusOr<std::vector<std::string>> names = trainers->Names(kMaxAside);
  if (!names.ok()) return;
  std::deque<std::string> aside;
  for (const std::string& name : *names) {
    if (absl::StrContains(name, kAside)) aside.push_back(name);
  }
  while (!aside.empty() && !stop) {
    const std::string name = std::move(aside.front());
    aside.pop_front();
    const absl::StatusOr<bool> gone = trainers->RemoveSome(name, kTurn);
    if (!gone.ok()) {
      PACELINE_LOG(WARNING) << "trainer_dir_not_removed reason=\"" << gone.status().message()
                            << "\"";
    } else if (!*gone) {
      aside.push_back(name);
    }
  }
}

}  // namespace paceline
