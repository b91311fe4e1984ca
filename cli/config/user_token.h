// The file with the token by which a person is known who has no certificate.
//
// Thread-safe.
#ifndef CLI_CONFIG_USER_TOKEN_H_
#define CLI_CONFIG_USER_TOKEN_H_

#include <string>

#include "absl/status/statusor.h"

namespace paceline {

// The token in the file, which is a line of kMinUserToken to kMaxUserToken characters
// (common/user_token.h). NotFound: there is no file; PermissionDenied: it cannot be read, or others
// than its owner may; InvalidArgument: it is no regular file, or holds no token. No error has
// anything of what the file holds.
absl::StatusOr<std::string> ReadUserToken(const std::string& path);

}  // namespace paceline

#endif  // CLI_CONFIG_USER_TOKEN_H_
