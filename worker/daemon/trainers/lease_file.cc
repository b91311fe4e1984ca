#include "worker/daemon/trainers/lease_file.h"

#include <unistd.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/log.h"
#include "worker/shim/small_file.h"

namespace paceline {
namespace {

std::string LeasePath(const std::string& runtime_dir) {
  return absl::StrCat(runtime_dir, "/lease");
}

}  // namespace

Lease ReadLease(const std::string& runtime_dir) {
  const absl::StatusOr<std::optional<std::string>> text = ReadSmallFile(LeasePath(runtime_dir));
  if (!text.ok() || !text->has_value()) return Lease();
  const std::vector<std::string> lines = absl::StrSplit(**text, '\n');
  int64_t length = 0;
  int64_t end = 0;
  if (lines.size() != 3 || !absl::SimpleAtoi(lines[0], &length) ||
      !absl::SimpleAtoi(lines[1], &end) || length <= 0) {
    return Lease();
  }
  return Lease(absl::Nanoseconds(length), absl::FromUnixNanos(end));
}

void KeepLease(const std::string& runtime_dir, const Lease& lease) {
  const std::string path = LeasePath(runtime_dir);
  if (lease.end() == absl::InfiniteFuture()) {
    ::unlink(path.c_str());
    return;
  }
  const absl::Status status =
      WriteSmallFile(path, absl::StrCat(absl::ToInt64Nanoseconds(lease.length()), "\n",
                                        absl::ToUnixNanos(lease.end()), "\n"));
  if (!status.ok()) PACELINE_LOG(ERROR) << "not_kept reason=\"" << status.message() << "\"";
}

}  // namespace paceline
