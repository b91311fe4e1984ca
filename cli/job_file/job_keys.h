// The keys of a job file, as proto/job_spec.proto has them: what the parser knows.
//
// A key's path is that of its field, less the members of a choice: optimizer.sgd.momentum is
// written optimizer.momentum, and optimizer.kind says which of the choices is meant. "[]" marks the
// elements of a list of groups.
#ifndef CLI_JOB_FILE_JOB_KEYS_H_
#define CLI_JOB_FILE_JOB_KEYS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "cli/job_file/job_fields.h"

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
  std::string path;  // "optimizer.momentum", "chaos[].rank".
  KeyField field;
  KeyType type;
  std::string allowed;  // Values; empty: any of the type.
  std::string example;  // A value as in YAML; empty for a group.
  // The member of a choice that is meant where none is given; empty: one is required.
  std::string default_kind;
  // 0 is not a value: it may not be written, because it stands for "not given" in the proto.
  bool no_zero;
};

// In the order of the documentation; a group comes before its keys.
const std::vector<JobKey>& JobKeys();

// Null when there is none; of a key with two forms, that of a single value. List indices in `path`
// are ignored: "chaos[3].rank" is found.
const JobKey* FindJobKey(absl::string_view path);

// Last parts of the keys right below `group` ("" for the file itself; "chaos[2]" is fine).
std::vector<std::string> KeysBelow(absl::string_view group);

// "text", "path", "whole number", ... as the documentation says it.
const char* TypeName(KeyType type);

}  // namespace paceline

#endif  // CLI_JOB_FILE_JOB_KEYS_H_
