// Names of nodes as people write them: "a", "a,b", "n[01-16]", "rack[1,3-5]-n[0-7]".
#ifndef CLI_TEXT_HOST_LIST_H_
#define CLI_TEXT_HOST_LIST_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace paceline {

inline constexpr size_t kMaxHosts = 10000;

// The names that the words stand for, in their order, without repetitions. In brackets are numbers
// and ranges of them, which keep their leading zeros. InvalidArgument, naming the word, when it
// cannot be read, has a character that no node's name has ([A-Za-z0-9-_.]), or they are more than
// kMaxHosts.
absl::StatusOr<std::vector<std::string>> ExpandHosts(const std::vector<std::string>& words);

}  // namespace paceline

#endif  // CLI_TEXT_HOST_LIST_H_
