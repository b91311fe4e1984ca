// Reads a job file (docs/job-file.md): YAML with a strict schema.
//
// All problems of a file are found at once and told in the order of its lines. Paths that
// are relative are taken from the job file's folder and made absolute, or from the current one when
// the file has none: standard input, a pipe.
#ifndef CLI_JOB_FILE_JOB_FILE_H_
#define CLI_JOB_FILE_JOB_FILE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job_spec.pb.h"

namespace paceline {

// 1-based; columns count bytes.
struct FilePosition {
  int line = 1;
  int column = 1;
};

struct FileProblem {
  FilePosition position;
  std::string message;
};

struct JobFile {
  // With all defaults. Meaningful only when there are no problems.
  v1::JobSpec spec;
  std::vector<FileProblem> problems;
  // Where each key that was given stands, by its path: "optimizer.momentum", "chaos[0].rank".
  std::map<std::string, FilePosition> positions;
};

// `folder`: absolute; that of the job file.
JobFile ParseJobFile(const std::string& yaml, const std::string& folder);

// `path` "-": standard input. NotFound, or PermissionDenied, or InvalidArgument for a folder or
// more than 1 MiB.
absl::StatusOr<JobFile> ReadJobFile(const std::string& path);

// Path of the key for a field of JobSpec: optimizer.sgd.momentum is optimizer.momentum.
std::string KeyOfField(absl::string_view field);

// Position of a field, or of the nearest group around it that the file has.
FilePosition PositionOf(const JobFile& file, absl::string_view field);

// Of a job file that is made of a spec: every key that counts, or only those whose values are not
// their defaults.
enum class ShownKeys { kAll, kGiven };

// The spec as a job file. ParseJobFile makes the same spec of it.
std::string SpecAsJobFile(const v1::JobSpec& spec, ShownKeys shown = ShownKeys::kAll);

}  // namespace paceline

#endif  // CLI_JOB_FILE_JOB_FILE_H_
