// A .pacelineignore lists what in a folder does not travel with a job. Each line is a pattern with
// *, ? and [...], as in a .gitignore. A pattern with a slash before its end is matched from the
// folder on, others match names at any depth; a slash at the end restricts it to folders. Empty
// lines and lines that begin with # are ignored.
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
  // InvalidArgument, with the line, for features of .gitignore that are not supported: ! and **.
  static absl::StatusOr<IgnoreFile> Parse(absl::string_view text);

  // `path` is relative to the folder. Not to be called for what is below an excluded folder.
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
