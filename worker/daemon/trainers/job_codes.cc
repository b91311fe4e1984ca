#include "worker/daemon/trainers/job_codes.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/job_spec/job_spec.h"
#include "common/log.h"
#include "worker/daemon/state/state_dir.h"
#include "worker/daemon/trainers/unpack_code.h"

namespace paceline {
namespace {

// Suffix of a folder that is still incomplete.
constexpr char kUnfinished[] = ".new";

absl::Status Cannot(absl::string_view why) {
  return absl::UnknownError(absl::StrCat("the code of the job cannot be had here: ", why));
}

}  // namespace

JobCodes::JobCodes(NodePaths paths, JobUser user, SideThreads& threads,
                   std::function<void(const JobId&)> settled)
    : paths_(std::move(paths)),
      user_(std::move(user)),
      threads_(threads),
      settled_(std::move(settled)) {}

void JobCodes::Start(const std::set<JobId>& running, absl::Time now) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(paths_.TrainersDir(), error)) {
    const std::string name = entry.path().filename().string();
    absl::string_view stem = name;
    const bool is_whole = !absl::ConsumeSuffix(&stem, kUnfinished);
    if (!absl::ConsumeSuffix(&stem, kCodeDirEnd)) continue;
    const JobId job{std::string(stem)};
    if (!is_whole || running.count(job) == 0) {
      SetAside(entry.path().string());
      continue;
    }
    held_[job].state = Held::State::kReady;
    use_.Begin(job, now);
  }
}

void JobCodes::Want(const JobId& job, Generation generation, const v1::Code& code, absl::Time now) {
  const auto [found, is_new] = held_.try_emplace(job);
  Held& held = found->second;
  const bool again = held.state == Held::State::kFailed && !(held.generation == generation);
  if (!is_new && !again) return;
  held = Held{code, generation};
  use_.Begin(job, now);
  if (code.bytes() > kMaxCodeBytes) {
    held.state = Held::State::kFailed;
    held.failure =
        Cannot(absl::StrCat("it has ", code.bytes(), " bytes; allowed are ", kMaxCodeBytes));
  }
}

absl::Status JobCodes::Look(const JobId& job) const {
  const auto held = held_.find(job);
  if (held == held_.end()) return Cannot("nobody has asked for it");
  switch (held->second.state) {
    case Held::State::kReady:
      return absl::OkStatus();
    case Held::State::kFailed:
      return held->second.failure;
    default:
      return absl::UnavailableError("it is on its way");
  }
}

std::optional<v1::CodeRequest> JobCodes::NextRequest() {
  if (asked_.has_value()) return std::nullopt;
  for (const auto& [job, held] : held_) {
    if (held.state != Held::State::kFetching) continue;
    asked_ = job;
    v1::CodeRequest request;
    request.set_job(job.value());
    request.set_sha256(held.code.sha256());
    request.set_offset(static_cast<int64_t>(held.bytes.size()));
    return request;
  }
  return std::nullopt;
}

void JobCodes::OnData(const v1::CodeData& data) {
  const JobId job(data.job());
  if (!asked_.has_value() || !(*asked_ == job)) return;
  asked_.reset();
  const auto found = held_.find(job);
  if (found == held_.end() || found->second.state != Held::State::kFetching) return;
  Held& held = found->second;
  if (data.sha256() != held.code.sha256()) return;
  if (!data.error().empty()) return Settle(job, Cannot(data.error()));
  const auto wanted = static_cast<size_t>(held.code.bytes());
  if (data.offset() != static_cast<int64_t>(held.bytes.size()) || data.data().empty() ||
      data.data().size() > wanted - held.bytes.size()) {
    return Settle(job, Cannot("the controller has sent another part than was asked for"));
  }
  held.bytes += data.data();
  if (held.bytes.size() == wanted) Unpack(job, held);
}

void JobCodes::Unpack(const JobId& job, Held& held) {
  held.state = Held::State::kUnpacking;
  const std::string dir = paths_.CodeDir(job) + kUnfinished;
  SetAside(dir);
  const auto status = std::make_shared<absl::Status>();
  threads_.Run(
      [user = user_, dir, sha256 = held.code.sha256(), bytes = std::move(held.bytes), status](
          const std::atomic<bool>& stop) { *status = UnpackCode(user, dir, sha256, bytes, stop); },
      [this, job, dir, status] {
        if (!status->ok()) return Settle(job, Cannot(status->message()));
        if (std::rename(dir.c_str(), paths_.CodeDir(job).c_str()) == 0) return Settle(job, *status);
        Settle(job, Cannot(absl::ErrnoToStatus(errno, "cannot rename " + dir).message()));
      });
  held.bytes.clear();
}

void JobCodes::Settle(const JobId& job, const absl::Status& status) {
  Held& held = held_.at(job);
  held.state = status.ok() ? Held::State::kReady : Held::State::kFailed;
  held.failure = status;
  held.bytes.clear();
  if (status.ok()) {
    PACELINE_LOG(INFO) << "code_ready job=" << job.value() << " bytes=" << held.code.bytes()
                       << " sha256=" << held.code.sha256();
  } else {
    SetAside(paths_.CodeDir(job) + kUnfinished);
    PACELINE_LOG(ERROR) << "code_not_ready job=" << job.value() << " reason=\"" << status.message()
                        << "\"";
  }
  settled_(job);
}

bool JobCodes::RemoveUnused(const std::set<JobId>& needed, absl::Time now) {
  std::set<JobId> kept = needed;
  for (const auto& [job, held] : held_) {
    if (held.state == Held::State::kUnpacking) kept.insert(job);
  }
  const std::vector<JobId> unused = use_.TakeUnused(kept, now);
  for (const JobId& job : unused) {
    held_.erase(job);
    SetAside(paths_.CodeDir(job));
    PACELINE_LOG(INFO) << "code_removed job=" << job.value();
  }
  return !unused.empty();
}

void JobCodes::SetAside(const std::string& dir) const {
  const absl::Status status = SetDirAside(dir);
  if (!status.ok()) PACELINE_LOG(ERROR) << "dir_not_deleted reason=\"" << status.message() << "\"";
}

}  // namespace paceline
