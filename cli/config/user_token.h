// The file with the token of a user without a certificate.
//
// Thread-safe.
#ifndef CLI_CONFIG_USER_TOKEN_H_
#define CLI_CONFIG_USER_TOKEN_H_

#include <string>

#include "absl/status/statusor.h"

namespace paceline {

// Returns the token in the file: one line of kMinUserToken to kMaxUserToken characters
// (common/user_token.h). NotFound: the file is missing; PermissionDenied: it cannot be read, or
// others than its owner can read it; InvalidArgument: it is not a regular file, or holds no token.
// Errors never contain anything of the file.
absl::StatusOr<std::string> ReadUserToken(const std::string& path);

}  // namespace paceline

#endif  // CLI_CONFIG_USER_TOKEN_H_
