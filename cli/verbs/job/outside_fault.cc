#include "cli/verbs/job/outside_fault.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/core/bytes_text.h"
#include "common/core/status_macros.h"
#include "common/uuid.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

constexpr uint64_t kMostSize = uint64_t{1} << 30;  // Of a file system that is filled.
// How long the controller is away.
constexpr absl::Duration kAway = absl::Seconds(3);

// Writes zeros until there is no room. Returns a file without a name, so that the room is given
// back however this process ends.
absl::StatusOr<int> FillDisk(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/ballast-", NewUuid());
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot make ", path));
  ::unlink(path.c_str());
  const std::string zeros(size_t{1} << 20, '\0');
  uint64_t total = 0;
  // Smaller and smaller pieces, so that nothing is left.
  for (size_t piece = zeros.size(); piece > 0; piece /= 2) {
    ssize_t written = 0;
    while (total <= kMostSize && (written = ::write(fd, zeros.data(), piece)) > 0) {
      total += static_cast<uint64_t>(written);
    }
    if (written >= 0 || errno == ENOSPC || errno == EDQUOT) continue;
    const int error = errno;
    ::close(fd);
    return absl::ErrnoToStatus(error, absl::StrCat("cannot write ", path));
  }
  return fd;
}

// On whose behalf nodes are drained.
std::string OwnerOf(Program& program) {
  const std::string user = program.user();
  return user.empty() ? "drill" : user;
}

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace

absl::Status CheckSmallDisk(const std::string& folder) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("--full-disk: cannot look at ", folder));
  }
  const uint64_t size = uint64_t{info.f_blocks} * uint64_t{info.f_frsize};
  if (size <= kMostSize) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "--full-disk: the file system of ", folder, " has ", BytesText(static_cast<int64_t>(size)),
      ", and a drill fills one of at most ", BytesText(static_cast<int64_t>(kMostSize)),
      "; give a folder on a small file system of its own"));
}

OutsideFault::OutsideFault(Program& program, OwnCluster& cluster, DrillFault fault,
                           std::string small_disk)
    : program_(program), cluster_(cluster), fault_(fault), small_disk_(std::move(small_disk)) {}

OutsideFault::~OutsideFault() {
  if (ballast_ >= 0) ::close(ballast_);
  if (drained_.empty()) return;
  v1::ResumeNodeRequest request;
  request.set_name(drained_);
  request.set_request_id(NewUuid());
  request.set_owner(OwnerOf(program_));
  v1::Node node;
  const grpc::Status status = program_.client().Call(methods::kNodeResume, request, &node);
  if (!status.ok() && !program_.interrupt().raised()) program_.Fail(status);
}

absl::Status OutsideFault::Act(const v1::Job& job) {
  switch (fault_) {
    case DrillFault::kDrain:
      return Drain(job.ranks(RankOfFault(job.ranks_size())).node());
    case DrillFault::kFullDisk: {
      PACELINE_ASSIGN_OR_RETURN(ballast_, FillDisk(small_disk_));
      return absl::OkStatus();
    }
    case DrillFault::kController:
      PACELINE_RETURN_IF_ERROR(cluster_.KillController());
      program_.interrupt().WaitFor(kAway);
      return cluster_.StartController();
    case DrillFault::kNone:
    case DrillFault::kKill:
    case DrillFault::kStop:
    case DrillFault::kSlow:
      break;
  }
  return absl::OkStatus();
}

absl::Status OutsideFault::Drain(const std::string& node) {
  v1::DrainNodeRequest request;
  request.set_name(node);
  request.set_request_id(NewUuid());
  request.set_reason("a drill");
  request.set_owner(OwnerOf(program_));
  request.set_mode(v1::DRAIN_SWAP);
  v1::DrainNodeResponse response;
  PACELINE_RETURN_IF_ERROR(
      FromGrpc(program_.client().Call(methods::kNodeDrain, request, &response)));
  drained_ = node;
  return absl::OkStatus();
}

bool OutsideFault::IsOver(const v1::Job& job) const {
  switch (fault_) {
    case DrillFault::kDrain:
      return std::none_of(job.ranks().begin(), job.ranks().end(),
                          [&](const v1::Rank& rank) { return rank.node() == drained_; }) &&
             std::any_of(job.membership_changes().begin(), job.membership_changes().end(),
                         [](const v1::MembershipChange& change) { return change.has_end_time(); });
    case DrillFault::kFullDisk:
      return job.checkpoints().failed() > 0;
    case DrillFault::kNone:
    case DrillFault::kKill:
    case DrillFault::kStop:
    case DrillFault::kSlow:
    case DrillFault::kController:
      break;
  }
  return true;
}

}  // namespace paceline
