// Writes JSON as YAML for people.
#ifndef CLI_TEXT_YAML_TEXT_H_
#define CLI_TEXT_YAML_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace paceline {

// Returns the same values in the same order, as YAML 1.1 and 1.2 read them: ambiguous texts are
// quoted, and control characters and marks that reorder text are escaped. Ends in a newline.
// Requires: `json` is valid.
std::string JsonAsYaml(absl::string_view json);

}  // namespace paceline

#endif  // CLI_TEXT_YAML_TEXT_H_
