// Addresses of objects in stores, which a job may name as its data: s3://BUCKET/KEY,
// gs://BUCKET/KEY, https://HOST/PATH, and http://HOST/PATH of this machine.
//
// An address has no user, password or query, which may be secrets, since job files are stored and
// shown. It has no part "." or "..", by which it could lead out of what is allowed.
#ifndef COMMON_CORE_OBJECT_URL_H_
#define COMMON_CORE_OBJECT_URL_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline {

struct ObjectUrl {
  enum class Scheme { kS3, kGs, kHttps, kHttp };
  Scheme scheme = Scheme::kS3;
  std::string host;  // The bucket; with kHttps and kHttp HOST or HOST:PORT.
  // Not empty, without the slash before it. With kS3 and kGs as the store knows it; with kHttps and
  // kHttp as it is sent.
  std::string key;
};

// Whether the text begins like an address ("NAME://"), and so is no path. It may still be wrong.
bool IsObjectUrl(absl::string_view text);

// InvalidArgument says what is wrong and what to write, as the rest of a sentence about the text.
absl::StatusOr<ObjectUrl> ParseObjectUrl(absl::string_view text);

// Checks what IsAllowedUrl takes as a prefix. InvalidArgument as for ParseObjectUrl.
absl::Status CheckUrlPrefix(absl::string_view prefix);

// Whether the address is one of `prefixes` or lies below one: "s3://" allows all buckets,
// "s3://corpora" that bucket, "s3://corpora/c4" that key and what begins with "c4/".
bool IsAllowedUrl(const std::vector<std::string>& prefixes, absl::string_view url);

// Encodes a key for the path of a request: all but letters, digits, "-_.~" and "/" as %XX.
std::string EncodedKey(absl::string_view key);

}  // namespace paceline

#endif  // COMMON_CORE_OBJECT_URL_H_
