#include "cli/text/shell_path.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace paceline {

std::string ShellPathProblem(absl::string_view path) {
  constexpr char kRemedy[] =
      " is not replaced here, since nodes have others than you: write the whole path, such as "
      "/home/ann/data";
  if (absl::StartsWith(path, "~")) {
    return absl::StrCat(path.substr(0, path.find('/')), kRemedy,
                        "; ./~ names a file that is called so");
  }
  for (size_t at = path.find('$'); at != path.npos; at = path.find('$', at + 1)) {
    const absl::string_view rest = path.substr(at + 1);
    size_t end = 0;
    while (end < rest.size() && (absl::ascii_isalnum(rest[end]) || rest[end] == '_')) ++end;
    const bool braces = absl::StartsWith(rest, "{");
    if (braces) end = rest.find('}') == rest.npos ? rest.size() : rest.find('}') + 1;
    const bool name = end > 0 && !absl::ascii_isdigit(rest[0]);
    if (braces || name) return absl::StrCat("$", rest.substr(0, end), kRemedy);
  }
  return "";
}

}  // namespace paceline
