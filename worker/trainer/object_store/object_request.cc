#include "worker/trainer/object_store/object_request.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

// Of no bytes, which is what a request has: S3 wants it in a header.
constexpr char kSha256OfNothing[] =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

// AWS has each bucket under a host of its own. With a point in its name, or at another endpoint,
// the bucket is the path's first part: certificates and names of hosts would not fit.
std::string S3Address(const ObjectUrl& url, const S3Settings& settings) {
  const std::string key = EncodedKey(url.key);
  if (!settings.endpoint.empty()) {
    return absl::StrCat(settings.endpoint, "/", url.host, "/", key);
  }
  const std::string host = absl::StrCat("s3.", settings.region, ".amazonaws.com",
                                        absl::StartsWith(settings.region, "cn-") ? ".cn" : "");
  if (absl::StrContains(url.host, '.'))
    return absl::StrCat("https://", host, "/", url.host, "/", key);
  return absl::StrCat("https://", url.host, ".", host, "/", key);
}

absl::Status AddS3(const ObjectUrl& url, const Variables& variables, ObjectRequest& request) {
  PACELINE_ASSIGN_OR_RETURN(const S3Settings settings, ReadS3Settings(variables));
  request.store.region = settings.region;
  request.store.endpoint = settings.endpoint;
  request.http.url = S3Address(url, settings);
  if (settings.access_key.empty()) return absl::OkStatus();
  request.store.with_credentials = true;
  request.http.sign_as = absl::StrCat("aws:amz:", settings.region, ":s3");
  request.http.access_key = settings.access_key;
  request.http.secret_key = settings.secret_key;
  request.http.headers.push_back(absl::StrCat("x-amz-content-sha256: ", kSha256OfNothing));
  if (!settings.session_token.empty()) {
    request.http.headers.push_back(absl::StrCat("x-amz-security-token: ", settings.session_token));
  }
  return absl::OkStatus();
}

absl::Status AddGs(const ObjectUrl& url, const Variables& variables, ObjectRequest& request) {
  PACELINE_ASSIGN_OR_RETURN(const GsSettings settings, ReadGsSettings(variables));
  request.http.url = absl::StrCat(settings.endpoint, "/", url.host, "/", EncodedKey(url.key));
  if (settings.token.empty()) return absl::OkStatus();
  request.store.with_credentials = true;
  request.http.headers.push_back(absl::StrCat("Authorization: Bearer ", settings.token));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ObjectRequest> MakeRequest(const std::string& name, const ObjectUrl& url,
                                          uint64_t first, const ObjectVersion* version,
                                          const Variables& variables) {
  ObjectRequest request;
  request.store.url = name;
  request.http.first = first;
  if (version != nullptr) {
    std::string condition = ConditionOf(*version);
    if (!condition.empty()) request.http.headers.push_back(std::move(condition));
  }
  switch (url.scheme) {
    case ObjectUrl::Scheme::kS3:
      PACELINE_RETURN_IF_ERROR(AddS3(url, variables, request));
      break;
    case ObjectUrl::Scheme::kGs:
      PACELINE_RETURN_IF_ERROR(AddGs(url, variables, request));
      break;
    case ObjectUrl::Scheme::kHttps:
      request.http.uses_netrc = request.http.follows = true;
      request.http.url = name;
      break;
    case ObjectUrl::Scheme::kHttp:
      request.http.is_local = true;
      request.http.url = name;
      break;
  }
  return request;
}

bool IsSameRequest(const HttpRequest& a, const HttpRequest& b) {
  return a.url == b.url && a.headers == b.headers && a.first == b.first && a.sign_as == b.sign_as &&
         a.access_key == b.access_key && a.secret_key == b.secret_key;
}

}  // namespace paceline
