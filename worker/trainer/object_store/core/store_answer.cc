#include "worker/trainer/object_store/core/store_answer.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

using Verdict = Judgement::Verdict;

// Clocks that differ by more are refused by S3.
constexpr absl::Duration kMostSkew = absl::Minutes(15);
// No store has larger objects, and a list of the blocks of this one has 32 MiB.
constexpr uint64_t kMostBytes = uint64_t{1} << 50;

Judgement Fail(const StoreRequest& request, absl::StatusCode code, absl::string_view what) {
  return {Verdict::kFail, absl::Status(code, absl::StrCat(request.url, ": ", what))};
}

Judgement Retry(const StoreRequest& request, absl::string_view what) {
  return {Verdict::kRetry, absl::UnavailableError(absl::StrCat(request.url, ": ", what))};
}

// What a store writes, if it has nothing but letters, digits and `others`; otherwise empty. What
// else it writes may name keys, and is not shown.
std::string Shown(absl::string_view text, absl::string_view others) {
  const bool sound =
      text.size() <= 64 && std::all_of(text.begin(), text.end(), [others](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains(others, c);
      });
  return sound ? std::string(text) : "";
}

// The text of an element of an XML document, if it is one word; otherwise empty.
std::string WordIn(absl::string_view document, absl::string_view element) {
  const std::string begin = absl::StrCat("<", element, ">");
  const size_t found = document.find(begin);
  if (found == document.npos) return "";
  const absl::string_view rest = document.substr(found + begin.size());
  return Shown(rest.substr(0, rest.find('<')), "-");
}

// "HTTP 403 (AccessDenied)".
std::string AnswerText(const StoreAnswer& answer, absl::string_view code) {
  return absl::StrCat("the store answers HTTP ", answer.status,
                      code.empty() ? "" : absl::StrCat(" (", code, ")"));
}

// How far the node's clock is from the store's, if that explains a refusal; otherwise empty.
std::string SkewText(const StoreAnswer& answer, absl::string_view code, absl::Time now) {
  const absl::Duration ahead = answer.date.has_value() ? now - *answer.date : absl::ZeroDuration();
  if (absl::AbsDuration(ahead) > kMostSkew) {
    return absl::StrCat(
        absl::FormatDuration(absl::Trunc(absl::AbsDuration(ahead), absl::Seconds(1))),
        ahead > absl::ZeroDuration() ? " ahead of" : " behind", " the store's");
  }
  return code == "RequestTimeTooSkewed" ? "more than 15 minutes away from the store's" : "";
}

Judgement JudgeRefusal(const StoreRequest& request, const StoreAnswer& answer,
                       const std::string& code, absl::Time now) {
  const std::string text = AnswerText(answer, code);
  const std::string skew = SkewText(answer, code, now);
  if (request.with_credentials && !skew.empty()) {
    return Fail(request, absl::StatusCode::kFailedPrecondition,
                absl::StrCat(text, ": the clock of this node is ", skew,
                             "; set it right (timedatectl, chrony)"));
  }
  const bool expired = code == "ExpiredToken" || code == "TokenRefreshRequired" ||
                       code == "InvalidToken" || (answer.status == 401);
  const char* const advice =
      !request.with_credentials
          ? ", and this node has no credentials for it; give the worker some, or make the object "
            "public"
      : code == "InvalidAccessKeyId" || code == "SignatureDoesNotMatch"
          ? ": it does not know the node's key, or its secret is another one; correct the "
            "credentials of the worker"
      : expired ? ": the credentials of the node have run out; renew them"
                : ": the credentials of the node do not allow to read it, or it is not there; give "
                  "them the right to read objects, and compare the address";
  Judgement judgement = Fail(request, absl::StatusCode::kPermissionDenied,
                             absl::StrCat(text, advice, " (docs/object-stores.md#credentials)"));
  judgement.verdict = Verdict::kRetryWithCredentials;
  return judgement;
}

// The region in which the bucket is, if the answer says so and it is another one.
std::string OtherRegion(const StoreRequest& request, const StoreAnswer& answer) {
  const std::string said = answer.bucket_region.empty() ? WordIn(answer.error_body, "Region")
                                                        : Shown(answer.bucket_region, "-");
  return said == request.region ? "" : said;
}

Judgement JudgeError(const StoreRequest& request, const StoreAnswer& answer, absl::Time now) {
  const std::string code = WordIn(answer.error_body, "Code");
  const std::string text = AnswerText(answer, code);
  if (!request.region.empty() &&
      (answer.status == 301 || answer.status == 307 || answer.status == 400)) {
    const std::string region = OtherRegion(request, answer);
    if (answer.status != 400 || !region.empty()) {
      return Fail(
          request, absl::StatusCode::kFailedPrecondition,
          absl::StrCat(text, ": the bucket is not in ", request.region, ", which was asked",
                       region.empty() ? "; set AWS_REGION of the worker to its region"
                                      : absl::StrCat(", but in ", region,
                                                     "; set AWS_REGION of the worker to that")));
    }
  }
  switch (answer.status) {
    case 401:
    case 403:
      return JudgeRefusal(request, answer, code, now);
    case 404:
      return Fail(
          request, absl::StatusCode::kNotFound,
          absl::StrCat(
              text,
              code == "NoSuchBucket" ? ": there is no such bucket" : ": there is no such object",
              request.endpoint.empty() ? "" : absl::StrCat(" at ", request.endpoint),
              "; compare the address"));
    case 408:
    case 429:
      return Retry(request, text);
    case 412:
      return Fail(request, absl::StatusCode::kDataLoss,
                  "the object has changed since the job opened it; write new data under a new key, "
                  "and start the job again");
    case 416:
      return Fail(request, absl::StatusCode::kDataLoss,
                  "the object is empty, or shorter than it was");
    default:
      break;
  }
  // Services in front of stores have codes of their own beyond 504. The other two are of servers
  // that cannot do what they are asked for.
  if (answer.status >= 500 && answer.status != 501 && answer.status != 505) {
    return Retry(request, text);
  }
  // S3 tells so of a request that took too long to arrive.
  if (code == "RequestTimeout" || code == "SlowDown" || code == "InternalError") {
    return Retry(request, text);
  }
  if (code == "ExpiredToken" || code == "TokenRefreshRequired") {
    return JudgeRefusal(request, answer, code, now);
  }
  return Fail(request, absl::StatusCode::kFailedPrecondition,
              absl::StrCat(text,
                           "; compare the address, and the endpoint of the worker "
                           "(docs/object-stores.md)"));
}

// Whether the answer is of this version, as far as both say.
bool IsOfVersion(const StoreAnswer& answer, const ObjectVersion& version) {
  const auto agree = [](const std::string& a, const std::string& b) { return a == b || a.empty(); };
  return agree(answer.etag, version.etag) && agree(answer.last_modified, version.last_modified);
}

Judgement JudgeBytes(const StoreRequest& request, const StoreAnswer& answer, uint64_t first,
                     uint64_t bytes, const ObjectVersion* version) {
  const std::optional<uint64_t> size = SizeOfObject(answer.content_range);
  if (!size.has_value()) {
    return Fail(request, absl::StatusCode::kFailedPrecondition,
                "the server does not say how long the object is (Content-Range); give it a server "
                "that answers ranges of bytes");
  }
  if (*size > kMostBytes) {
    return Fail(request, absl::StatusCode::kFailedPrecondition,
                absl::StrCat("the server says that the object has ", *size,
                             " bytes, which none has; use another server"));
  }
  if (version != nullptr && (*size != version->size || !IsOfVersion(answer, *version))) {
    return Fail(request, absl::StatusCode::kDataLoss,
                absl::StrCat("the object has changed since the job opened it: it had ",
                             version->size, " bytes, and has ", *size,
                             "; write new data under a new key, and start the job again"));
  }
  if (answer.etag.empty() && answer.last_modified.empty()) {
    return Fail(request, absl::StatusCode::kFailedPrecondition,
                "the server says neither ETag nor Last-Modified, so that a change of the object "
                "would not be noticed; use another server");
  }
  const uint64_t expected = *size <= first ? 0 : std::min(bytes, *size - first);
  const std::string range = absl::StrCat("bytes ", first, "-", first + expected - 1, "/", *size);
  if (answer.content_range != range || answer.received != expected) {
    return Retry(request, absl::StrCat("the answer has ", answer.received, " bytes and says \"",
                                       Shown(answer.content_range, "- /*"), "\"; \"", range,
                                       "\" were asked for"));
  }
  return {};
}

}  // namespace

std::optional<uint64_t> SizeOfObject(absl::string_view content_range) {
  const size_t slash = content_range.rfind('/');
  uint64_t size = 0;
  if (slash == content_range.npos || !absl::SimpleAtoi(content_range.substr(slash + 1), &size)) {
    return std::nullopt;
  }
  return size;
}

std::string ConditionOf(const ObjectVersion& version) {
  // A weak tag never matches exactly (RFC 9110, section 13.1.1).
  if (absl::StartsWith(version.etag, "\"")) return absl::StrCat("If-Match: ", version.etag);
  if (version.last_modified.empty()) return "";
  return absl::StrCat("If-Unmodified-Since: ", version.last_modified);
}

Judgement JudgeAnswer(const StoreRequest& request, const StoreAnswer& answer, uint64_t first,
                      uint64_t bytes, const ObjectVersion* version, absl::Time now) {
  if (answer.status == 200) {
    return Fail(
        request, absl::StatusCode::kFailedPrecondition,
        "the server sends whole objects and no ranges of bytes (HTTP 200, not 206); use one "
        "that does, or copy the file to the nodes");
  }
  if (answer.status != 0 && answer.status != 206) return JudgeError(request, answer, now);
  if (!answer.problem.empty()) {
    if (answer.may_pass) return Retry(request, answer.problem);
    return Fail(request, absl::StatusCode::kFailedPrecondition, answer.problem);
  }
  return JudgeBytes(request, answer, first, bytes, version);
}

}  // namespace paceline
