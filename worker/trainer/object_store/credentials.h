// What the node knows of object stores: keys, tokens, regions and endpoints, in the variables and
// files in which other programs look for them, too (docs/object-stores.md).
//
// Nothing of it is logged, and errors name variables and files but not what is in them.
#ifndef WORKER_TRAINER_OBJECT_STORE_CREDENTIALS_H_
#define WORKER_TRAINER_OBJECT_STORE_CREDENTIALS_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline {

struct S3Settings {
  std::string region;
  std::string endpoint;    // "https://HOST:PORT"; empty: AWS's of the region.
  std::string access_key;  // Empty: requests are not signed.
  std::string secret_key;
  std::string session_token;  // Of temporary keys.

  bool operator==(const S3Settings& other) const {
    return region == other.region && endpoint == other.endpoint && access_key == other.access_key &&
           secret_key == other.secret_key && session_token == other.session_token;
  }
};

struct GsSettings {
  std::string endpoint;
  std::string token;  // Empty: requests have none.

  bool operator==(const GsSettings& other) const {
    return endpoint == other.endpoint && token == other.token;
  }
};

// Returns the value of a variable; empty: it is not set.
using Variables = std::function<std::string(const char* name)>;

// The variables of this process.
std::string OwnVariable(const char* name);

// Reads AWS_* and the files of AWS's programs. FailedPrecondition: what is there is incomplete, or
// of a kind that trainers cannot use; the message says what to do.
absl::StatusOr<S3Settings> ReadS3Settings(const Variables& variables);

// Reads STORAGE_EMULATOR_HOST, and the token of CLOUDSDK_AUTH_ACCESS_TOKEN or of the file that
// CLOUDSDK_AUTH_ACCESS_TOKEN_FILE names. Errors as for ReadS3Settings.
absl::StatusOr<GsSettings> ReadGsSettings(const Variables& variables);

}  // namespace paceline

#endif  // WORKER_TRAINER_OBJECT_STORE_CREDENTIALS_H_
