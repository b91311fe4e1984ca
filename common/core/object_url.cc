#include "common/core/object_url.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/core/loopback.h"

namespace paceline {
namespace {

using Scheme = ObjectUrl::Scheme;

constexpr absl::string_view kMark = "://";
constexpr size_t kMostBytes = 2048;

absl::Status Wrong(absl::string_view what) { return absl::InvalidArgumentError(what); }

bool IsWeb(Scheme scheme) { return scheme == Scheme::kHttps || scheme == Scheme::kHttp; }

bool IsInBucketName(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
}

// Lower case, so that one host is written in one way.
bool IsInHost(char c) {
  return (IsInBucketName(c) && !absl::ascii_isupper(static_cast<unsigned char>(c))) || c == ':' ||
         c == '[' || c == ']';
}

bool IsControlOrSpace(char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f'; }

absl::StatusOr<Scheme> SchemeOf(absl::string_view text) {
  const size_t mark = text.find(kMark);
  const absl::string_view name = text.substr(0, mark == text.npos ? 0 : mark);
  if (name == "s3") return Scheme::kS3;
  if (name == "gs") return Scheme::kGs;
  if (name == "https") return Scheme::kHttps;
  if (name == "http") return Scheme::kHttp;
  return Wrong("is no address of an object; it begins with s3://, gs:// or https://");
}

absl::Status CheckHost(Scheme scheme, absl::string_view host) {
  if (absl::StrContains(host, '@')) {
    return Wrong(
        "has a user before the @; job files are shown, so credentials belong to the node "
        "(docs/object-stores.md)");
  }
  // A bucket "..", too, would lead out of the endpoint's path.
  const bool leads_out = host == "." || host == "..";
  const bool sound =
      !host.empty() && !leads_out &&
      std::all_of(host.begin(), host.end(), IsWeb(scheme) ? IsInHost : IsInBucketName);
  if (!sound) {
    return Wrong(IsWeb(scheme) ? "has no host in lower case after the //"
                               : "has no name of a bucket after the //");
  }
  if (scheme == Scheme::kHttp && !IsLoopback(host)) {
    return Wrong("is read in plain text, which is for servers of the same machine; use https://");
  }
  return absl::OkStatus();
}

// `path`: what follows the host, with the slash; empty: nothing.
absl::Status CheckPath(Scheme scheme, absl::string_view path) {
  if (std::any_of(path.begin(), path.end(), IsControlOrSpace) && IsWeb(scheme)) {
    return Wrong("has a space or control character; write it as %20 and so on");
  }
  if (std::any_of(path.begin(), path.end(),
                  [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); })) {
    return Wrong("has a control character");
  }
  for (absl::string_view part : absl::StrSplit(path, '/')) {
    if (IsWeb(scheme)) part = part.substr(0, part.find(';'));  // Some servers leave out the rest.
    if (part == "." || part == "..") return Wrong("has a part \".\" or \"..\"; give it without");
  }
  if (!IsWeb(scheme)) return absl::OkStatus();
  if (path.find_first_of("?#") != path.npos) {
    return Wrong(
        "has a query or fragment (? or #), as signed addresses have; job files are shown, so "
        "credentials belong to the node (docs/object-stores.md)");
  }
  const std::string lower = absl::AsciiStrToLower(path);
  for (const char* const hidden : {"%2e", "%2f", "%5c", "\\"}) {
    if (absl::StrContains(lower, hidden)) {
      return Wrong("hides a point or slash (%2e, %2f, %5c, \\); write it as it is");
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool IsObjectUrl(absl::string_view text) {
  const size_t mark = text.find(kMark);
  if (mark == text.npos || mark == 0) return false;
  const absl::string_view name = text.substr(0, mark);
  return std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '-';
  });
}

absl::StatusOr<ObjectUrl> ParseObjectUrl(absl::string_view text) {
  if (text.size() > kMostBytes) {
    return Wrong(absl::StrCat("has ", text.size(), " bytes; allowed is at most ", kMostBytes));
  }
  const absl::StatusOr<Scheme> scheme = SchemeOf(text);
  if (!scheme.ok()) return scheme.status();
  const absl::string_view rest = text.substr(text.find(kMark) + kMark.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  const absl::string_view path = rest.substr(slash);
  if (absl::Status status = CheckHost(*scheme, rest.substr(0, slash)); !status.ok()) return status;
  if (absl::Status status = CheckPath(*scheme, path); !status.ok()) return status;
  if (path.size() < 2) return Wrong("names no object; give its key behind the / too");
  ObjectUrl url;
  url.scheme = *scheme;
  url.host = std::string(rest.substr(0, slash));
  url.key = std::string(path.substr(1));
  return url;
}

absl::Status CheckUrlPrefix(absl::string_view prefix) {
  const absl::StatusOr<Scheme> scheme = SchemeOf(prefix);
  if (!scheme.ok()) return scheme.status();
  const absl::string_view rest = prefix.substr(prefix.find(kMark) + kMark.size());
  if (rest.empty()) return absl::OkStatus();
  const size_t slash = std::min(rest.find('/'), rest.size());
  if (absl::Status status = CheckHost(*scheme, rest.substr(0, slash)); !status.ok()) return status;
  return CheckPath(*scheme, rest.substr(slash));
}

bool IsAllowedUrl(const std::vector<std::string>& prefixes, absl::string_view url) {
  return std::any_of(prefixes.begin(), prefixes.end(), [url](const std::string& prefix) {
    if (prefix.empty() || !absl::StartsWith(url, prefix)) return false;
    return url.size() == prefix.size() || prefix.back() == '/' || url[prefix.size()] == '/';
  });
}

std::string EncodedKey(absl::string_view key) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || absl::StrContains("-_.~/", c)) {
      encoded.push_back(c);
    } else {
      encoded.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
    }
  }
  return encoded;
}

}  // namespace paceline
