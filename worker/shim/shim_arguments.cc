#include "worker/shim/shim_arguments.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace paceline {
namespace {

bool TakeFlag(const std::string& flag, const std::string& value, ShimArguments& arguments) {
  if (flag == "--dir") arguments.dir = value;
  if (flag == "--own-dir") arguments.own_dir = value;
  if (flag == "--lock-fd") return absl::SimpleAtoi(value, &arguments.lock_fd);
  if (flag == "--standby-fd") return absl::SimpleAtoi(value, &arguments.standby_fd);
  if (flag == "--standby-modules") arguments.standby_modules = value;
  if (flag == "--working-directory") arguments.working_directory = value;
  if (flag == "--environment") arguments.environment_file = value;
  if (flag == "--log-segment-bytes") return absl::SimpleAtoi(value, &arguments.log_segment_bytes);
  if (flag == "--allowed-root") arguments.roots.push_back(value);
  if (flag == "--path") {
    const std::pair<std::string, std::string> named =
        absl::StrSplit(value, absl::MaxSplits('=', 1));
    arguments.paths.push_back({named.first, named.second});
  }
  return TakeConfinementFlag(flag, value, arguments.confinement);
}

}  // namespace

bool ParseShimArguments(int argc, char** argv, ShimArguments& arguments) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--") {
      arguments.program = argv + i + 1;
      break;
    }
    if (!TakeFlag(flag, argv[i + 1], arguments)) return false;
  }
  const bool whole_command = !arguments.is_command() || (!arguments.environment_file.empty() &&
                                                         arguments.log_segment_bytes > 0);
  const bool has_place = arguments.is_standby()
                             ? arguments.is_command() && !arguments.standby_modules.empty()
                             : !arguments.dir.empty() && !arguments.own_dir.empty();
  return has_place && whole_command && arguments.program != nullptr &&
         (arguments.is_standby() ? arguments.standby_fd : arguments.lock_fd) > 2;
}

}  // namespace paceline
