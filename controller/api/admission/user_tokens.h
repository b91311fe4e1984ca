// The file of user tokens (--user-tokens): users who may call without a certificate, with a token
// sent as `authorization: Bearer TOKEN`. One user per line; blank lines and comments are allowed:
//
//   # SHA-256 of the token, in hexadecimal    role      name
//   9f86d081884c7d659a2feaa0c55ad015a3bf4f1...  operator  ann
//
// Only hashes are kept, without salt: tokens are long random texts (docs/operations.md) that nobody
// can guess (common/user_token.h). Daemons have no tokens.
#ifndef CONTROLLER_API_ADMISSION_USER_TOKENS_H_
#define CONTROLLER_API_ADMISSION_USER_TOKENS_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/identity/principal.h"

namespace paceline {

// Shortest time between two checks of the file.
inline constexpr absl::Duration kUserTokensInterval = absl::Seconds(1);

// Returns users by hash, or InvalidArgument with one line "NAME:LINE: ..." per problem.
absl::StatusOr<std::map<std::string, Principal>> ParseUserTokens(absl::string_view text,
                                                                 const std::string& name);

// Thread-safe.
class UserTokens {
 public:
  // Reads the file. FailedPrecondition unless it is a regular file of at most 1 MiB that others
  // cannot read and its group cannot write. InvalidArgument as ParseUserTokens.
  static absl::StatusOr<std::unique_ptr<UserTokens>> Open(const std::string& path);

  // Returns the token's owner, if any. Rereads the file if it has changed; if that fails, it logs
  // the error and keeps what was read before.
  std::optional<Principal> Find(absl::string_view token, absl::Time now)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Tells versions of the file apart: device, inode, size, time of change.
  using Version = std::tuple<dev_t, ino_t, off_t, int64_t, int64_t>;

  explicit UserTokens(std::string path) : path_(std::move(path)) {}

  absl::Status Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadIfChanged() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;

  absl::Mutex mutex_;
  std::map<std::string, Principal> users_ ABSL_GUARDED_BY(mutex_);  // By hash.
  Version version_ ABSL_GUARDED_BY(mutex_);                         // Last version read or tried.
  absl::Time looked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace paceline

#endif  // CONTROLLER_API_ADMISSION_USER_TOKENS_H_
