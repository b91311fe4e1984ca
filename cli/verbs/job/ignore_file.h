// A .pacelineignore: what of a folder does not travel with a job. Each line is a pattern with *, ?
// and [...], as in a .gitignore: with a slash before its end it is matched from the folder on, else
// with the name at any depth; with a slash at its end, with folders only. Empty lines and those
// that begin with # say nothing.
//
// Pure.
#ifndef CLI_VERBS_JOB_IGNORE_FILE_H_
#define CLI_VERBS_JOB_IGNORE_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline {

class IgnoreFile {
 public:
  // InvalidArgument, with the line, for what a .gitignore may have and this not: ! and **.
  static absl::StatusOr<IgnoreFile> Parse(absl::string_view text);

  // `path`: from the folder on. What lies below a folder that is excluded is not asked for.
  bool Excludes(const std::string& path, bool is_folder) const;

 private:
  struct Pattern {
    std::string text;
    bool whole_path = false;
    bool folders_only = false;
  };

  std::vector<Pattern> patterns_;
};

}  // namespace paceline

#endif  // CLI_VERBS_JOB_IGNORE_FILE_H_
