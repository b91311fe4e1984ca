// Decides for which commands an interpreter can stand by.
//
// Pure.
#ifndef WORKER_DAEMON_CORE_STANDBY_PROGRAM_H_
#define WORKER_DAEMON_CORE_STANDBY_PROGRAM_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace paceline {

// True for "python", "python3" or "python3.11" in any folder.
inline bool IsPython(absl::string_view program) {
  const absl::string_view name = program.substr(program.rfind('/') + 1);
  if (!absl::StartsWith(name, "python")) return false;
  for (const char c : name.substr(6)) {
    if (!absl::ascii_isdigit(c) && c != '.') return false;
  }
  return true;
}

// Returns the program that stands by for `command` through the script `standby`
// (python/paceline/standby.py). FailedPrecondition with the reason when the command allows none.
inline absl::StatusOr<std::vector<std::string>> StandbyProgram(
    const std::vector<std::string>& command, const std::string& standby) {
  if (command.empty() || !IsPython(command[0])) {
    return absl::FailedPreconditionError("the command does not begin with a Python interpreter");
  }
  std::vector<std::string> program = {command[0]};
  size_t i = 1;
  for (; i < command.size() && absl::StartsWith(command[i], "-") && command[i] != "-m"; ++i) {
    const std::string& option = command[i];
    const bool has_value = option == "-W" || option == "-X";
    const bool is_plain = option == "-u" || option == "-B" || option == "-O" || option == "-OO" ||
                          option == "-q" || option == "-s" || option == "-P";
    const bool has_value_inside =
        option.size() > 2 && (absl::StartsWith(option, "-W") || absl::StartsWith(option, "-X"));
    if (!is_plain && !has_value && !has_value_inside) {
      return absl::FailedPreconditionError(
          absl::StrCat("the interpreter is started with ", option));
    }
    program.push_back(option);
    if (has_value && i + 1 < command.size()) program.push_back(command[++i]);
  }
  const size_t named = i < command.size() && command[i] == "-m" ? i + 1 : i;
  if (named >= command.size()) {
    return absl::FailedPreconditionError("the interpreter is started without a script");
  }
  program.push_back(standby);
  program.insert(program.end(), command.begin() + static_cast<ptrdiff_t>(i), command.end());
  return program;
}

}  // namespace paceline

#endif  // WORKER_DAEMON_CORE_STANDBY_PROGRAM_H_
