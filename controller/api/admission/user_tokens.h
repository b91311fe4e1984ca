// The file of user tokens (--user-tokens): who may ask without a certificate, by a token that is
// sent as `authorization: Bearer TOKEN`. One user a line, blank lines and comments aside:
//
//   # SHA-256 of the token, in hexadecimal    role      name
//   9f86d081884c7d659a2feaa0c55ad015a3bf4f1...  operator  ann
//
// Only hashes are kept, without salt: tokens are long random texts (docs/operations.md), which
// nobody can guess (common/user_token.h). Daemons have no tokens.
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

// How often the file is looked at, at most.
inline constexpr absl::Duration kUserTokensInterval = absl::Seconds(1);

// By hash. InvalidArgument: all problems, a line "NAME:LINE: ..." each.
absl::StatusOr<std::map<std::string, Principal>> ParseUserTokens(absl::string_view text,
                                                                 const std::string& name);

// Thread-safe.
class UserTokens {
 public:
  // Reads the file. It must be a regular one of at most 1 MiB, which others cannot read and its
  // group cannot write: FailedPrecondition. InvalidArgument as ParseUserTokens.
  static absl::StatusOr<std::unique_ptr<UserTokens>> Open(const std::string& path);

  // Whose the token is; nobody's: nothing. Reads the file anew when it has changed; one that cannot
  // be read is told in the log, and what was read before stays.
  std::optional<Principal> Find(absl::string_view token, absl::Time now)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Tells two versions of the file apart: device, inode, size, time of change.
  using Version = std::tuple<dev_t, ino_t, off_t, int64_t, int64_t>;

  explicit UserTokens(std::string path) : path_(std::move(path)) {}

  absl::Status Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadIfChanged() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;

  absl::Mutex mutex_;
  std::map<std::string, Principal> users_ ABSL_GUARDED_BY(mutex_);  // By hash.
  Version version_ ABSL_GUARDED_BY(mutex_);                         // That was looked at last.
  absl::Time looked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace paceline

#endif  // CONTROLLER_API_ADMISSION_USER_TOKENS_H_
