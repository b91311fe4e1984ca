// The files that travel with a job as bytes, and what they may be (proto/job_spec.proto, CodeFile).
//
// Whoever sends them and whoever unpacks them keep the same rules: paths lead nowhere but below the
// folder, nothing lies below a link or a file, and links stay within the folder. So they can be
// written into an empty folder, in their order, without a look at what is there.
//
// Pure.
#ifndef COMMON_JOB_SPEC_CODE_FILES_H_
#define COMMON_JOB_SPEC_CODE_FILES_H_

#include <functional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/job_spec.pb.h"

namespace paceline {

// The rules, of one file after the other.
class CodeRules {
 public:
  // InvalidArgument, which names the file and what is wrong with it.
  absl::Status Add(const v1::CodeFile& file);

  int files() const { return static_cast<int>(paths_.size()); }

 private:
  std::set<std::string> paths_;
  std::string last_;
};

void AppendCodeFile(const v1::CodeFile& file, std::string* bytes);

// Calls `use` for each of the files, in their order; ends with the first error, of `use` too.
// InvalidArgument: the bytes are no files, or files against the rules.
absl::Status ReadCodeFiles(absl::string_view bytes,
                           const std::function<absl::Status(const v1::CodeFile&)>& use);

// A path for people: what is no printable ASCII is escaped.
std::string ShownCodePath(absl::string_view path);

}  // namespace paceline

#endif  // COMMON_JOB_SPEC_CODE_FILES_H_
