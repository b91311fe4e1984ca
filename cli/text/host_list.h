// Names of nodes as people write them: "a", "a,b", "n[01-16]", "rack[1,3-5]-n[0-7]".
#ifndef CLI_TEXT_HOST_LIST_H_
#define CLI_TEXT_HOST_LIST_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace paceline {

inline constexpr size_t kMaxHosts = 10000;

// Expands words to names, in order and without duplicates. Brackets hold numbers and ranges of
// numbers, whose leading zeros are kept. InvalidArgument, naming the word, if it cannot be parsed
// or has a character that no node's name has ([A-Za-z0-9-_.]), or if there are more than kMaxHosts
// names.
absl::StatusOr<std::vector<std::string>> ExpandHosts(const std::vector<std::string>& words);

}  // namespace paceline

#endif  // CLI_TEXT_HOST_LIST_H_
