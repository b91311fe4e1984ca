// The keys of a job file: the one table from which the parser takes what it knows and of which
// the tables of docs/job-file.md are made.
//
// A key's path is that of its field in proto/job_spec.proto, less the members of a choice:
// optimizer.sgd.momentum is written optimizer.momentum, and optimizer.kind says which of the
// choices is meant. "[]" marks the elements of a list of groups.
#ifndef CLI_JOB_FILE_JOB_KEYS_H_
#define CLI_JOB_FILE_JOB_KEYS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace paceline {

enum class KeyType {
  kGroup,
  kGroups,
  kText,
  kTexts,
  kLabels,
  kPath,
  kInteger,
  kIntegers,
  kNumber,
  kBool,
  kChoice,
};

struct JobKey {
  const char* path;  // "optimizer.momentum", "chaos[].rank".
  KeyType type;
  const char* unit;      // "steps", "s"; empty: none.
  const char* fallback;  // The default as text; "required", or empty for a group.
  const char* allowed;   // Values; empty: any of the type.
  const char* example;   // A value as in YAML; empty for a group.
  const char* doc;       // One sentence, or what remains to be said.
  // 0 is not a value: it may not be written, because it stands for "not given" in the proto.
  bool no_zero = false;
};

// In the order of the documentation; a group comes before its keys.
const std::vector<JobKey>& JobKeys();

// Null when there is none. List indices in `path` are ignored: "chaos[3].rank" is found.
const JobKey* FindJobKey(absl::string_view path);

// Last parts of the keys right below `group` ("" for the file itself; "chaos[2]" is fine).
std::vector<std::string> KeysBelow(absl::string_view group);

// "text", "path", "whole number", ... as the documentation says it.
const char* TypeName(KeyType type);

}  // namespace paceline

#endif  // CLI_JOB_FILE_JOB_KEYS_H_
