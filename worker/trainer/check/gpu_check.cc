#include "worker/trainer/check/gpu_check.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace paceline {
namespace {

bool CausedByPrograms(int xid) { return xid == 13 || xid == 31 || xid == 43; }

}  // namespace

std::vector<Measurement> CheckGpus(const Nvml& nvml) {
  std::vector<Measurement> found;
  for (int gpu = 0; gpu < nvml.Gpus(); ++gpu) {
    const auto add = [&](const char* name, const auto& value, const char* unit) {
      if (!value.has_value()) return;
      found.push_back(
          {absl::StrCat("gpu", gpu, "_", name), static_cast<double>(*value), unit, false});
    };
    add("temperature", nvml.Celsius(gpu), "C");
    add("ecc_errors", nvml.EccErrors(gpu), "");
    add("row_errors", nvml.RemappingFailed(gpu), "");
    add("throttled", nvml.Throttled(gpu), "");
  }
  return found;
}

int CountXids(absl::string_view kernel_log) {
  // Example: "NVRM: Xid (PCI:0000:3b:00): 79, pid=..."
  constexpr absl::string_view kMark = "NVRM: Xid (";
  int count = 0;
  for (absl::string_view line : absl::StrSplit(kernel_log, '\n')) {
    const size_t mark = line.find(kMark);
    if (mark == absl::string_view::npos) continue;
    line.remove_prefix(mark + kMark.size());
    const size_t number = line.find("): ");
    if (number == absl::string_view::npos) continue;
    line.remove_prefix(number + 3);
    int xid = 0;
    if (absl::SimpleAtoi(line.substr(0, line.find(',')), &xid) && !CausedByPrograms(xid)) ++count;
  }
  return count;
}

std::vector<Measurement> CheckXids() {
  const int fd = ::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return {};
  std::array<char, 8192> record;
  int count = 0;
  while (true) {
    const ssize_t size = ::read(fd, record.data(), record.size());
    if (size < 0 && errno == EPIPE) continue;  // Records were overwritten while we read.
    if (size <= 0) break;
    count += CountXids(absl::string_view(record.data(), static_cast<size_t>(size)));
  }
  ::close(fd);
  return {{"gpu_xid_errors", static_cast<double>(count), "", false}};
}

}  // namespace paceline
