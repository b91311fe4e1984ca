#include "worker/trainer/object_store/credentials.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/core/loopback.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

constexpr absl::string_view kPlain = "http://";
constexpr char kPage[] = " (docs/object-stores.md#credentials)";

using Section = std::map<std::string, std::string>;

absl::Status Wrong(absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(what, kPage));
}

// The first that is set, without the line break that the file of a secret may end with.
std::string FirstOf(const Variables& variables, std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    std::string value = variables(name);
    absl::StripAsciiWhitespace(&value);
    if (!value.empty()) return value;
  }
  return "";
}

// The keys of a section of a file as AWS's programs write it; empty: the file or the section is not
// there, or cannot be read. Keys of groups, which are indented, are left out.
Section ReadSection(const std::string& path, absl::string_view name) {
  std::ifstream file(path);
  Section section;
  std::string line;
  bool inside = false;
  while (std::getline(file, line)) {
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    if (absl::StartsWith(text, "[")) {  // A comment may follow.
      inside = absl::StripAsciiWhitespace(text.substr(1, text.find(']') - 1)) == name;
      continue;
    }
    const bool comment = text.empty() || text[0] == '#' || text[0] == ';';
    if (!inside || comment || absl::ascii_isspace(static_cast<unsigned char>(line[0]))) continue;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(text, absl::MaxSplits('=', 1));
    section[absl::AsciiStrToLower(absl::StripAsciiWhitespace(parts.first))] =
        std::string(absl::StripAsciiWhitespace(parts.second));
  }
  return section;
}

std::string ValueIn(const Section& section, const char* key) {
  const auto found = section.find(key);
  return found == section.end() ? "" : found->second;
}

// Sets the key of a section, if it has one.
absl::Status TakeKey(const Section& section, const std::string& where, S3Settings& settings) {
  settings.access_key = ValueIn(section, "aws_access_key_id");
  settings.secret_key = ValueIn(section, "aws_secret_access_key");
  settings.session_token = ValueIn(section, "aws_session_token");
  if (settings.access_key.empty() == settings.secret_key.empty()) return absl::OkStatus();
  return Wrong(absl::StrCat(where,
                            " has one of aws_access_key_id and aws_secret_access_key; give "
                            "both, or none"));
}

// A section that leads to keys that only AWS's own programs can fetch.
absl::Status CheckNoOtherWay(const Section& section, const std::string& where) {
  for (const char* const key : {"credential_process", "role_arn", "sso_session", "sso_start_url",
                                "web_identity_token_file"}) {
    if (section.count(key) == 0) continue;
    return Wrong(absl::StrCat(where, " has ", key,
                              ", which trainers do not follow; have keys in the "
                              "credentials file renewed by a timer, with `aws configure "
                              "export-credentials`"));
  }
  return absl::OkStatus();
}

absl::Status TakeCredentials(const Variables& variables, const std::string& profile,
                             const std::string& config_path, const Section& config,
                             S3Settings& settings) {
  settings.access_key = FirstOf(variables, {"AWS_ACCESS_KEY_ID"});
  settings.secret_key = FirstOf(variables, {"AWS_SECRET_ACCESS_KEY"});
  settings.session_token = FirstOf(variables, {"AWS_SESSION_TOKEN"});
  if (settings.access_key.empty() != settings.secret_key.empty()) {
    return Wrong(
        "of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY one is set; give the worker both, "
        "or none");
  }
  if (settings.session_token.find_first_of("\r\n") != std::string::npos) {
    return Wrong("AWS_SESSION_TOKEN has a line break; give the token alone");
  }
  if (!settings.access_key.empty()) return absl::OkStatus();
  std::string path = variables("AWS_SHARED_CREDENTIALS_FILE");
  if (path.empty()) path = variables("HOME") + "/.aws/credentials";
  const Section section = ReadSection(path, profile);
  const std::string where = absl::StrCat("[", profile, "] in ", path);
  PACELINE_RETURN_IF_ERROR(TakeKey(section, where, settings));
  if (!settings.access_key.empty()) return absl::OkStatus();
  const std::string config_where = absl::StrCat("[", profile, "] in ", config_path);
  PACELINE_RETURN_IF_ERROR(TakeKey(config, config_where, settings));
  if (!settings.access_key.empty()) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(CheckNoOtherWay(section, where));
  PACELINE_RETURN_IF_ERROR(CheckNoOtherWay(config, config_where));
  const bool asks = !FirstOf(variables, {"AWS_PROFILE", "AWS_DEFAULT_PROFILE"}).empty();
  if (!asks || !section.empty() || !config.empty()) return absl::OkStatus();
  return Wrong(absl::StrCat("AWS_PROFILE is ", profile, ", which neither ", path, " nor ",
                            config_path, " has, as the trainers' user sees them"));
}

// "HOST:PORT" means http, as in Google's own programs.
std::string WithScheme(std::string endpoint) {
  while (absl::EndsWith(endpoint, "/")) endpoint.pop_back();
  if (endpoint.empty() || absl::StrContains(endpoint, "://")) return endpoint;
  return absl::StrCat(kPlain, endpoint);
}

absl::Status CheckEndpoint(const char* variable, const std::string& endpoint) {
  const bool sound = absl::StartsWith(endpoint, "https://") || absl::StartsWith(endpoint, kPlain);
  // Endpoints are shown in messages.
  if (endpoint.empty() || (sound && !absl::StrContains(endpoint, '@'))) return absl::OkStatus();
  return Wrong(absl::StrCat(variable,
                            " is no address; write https://HOST or http://HOST:PORT, "
                            "without a user"));
}

// It becomes a part of a host and of what is signed, of which libcurl takes 64 bytes.
absl::Status CheckRegion(const std::string& region) {
  const bool sound = region.size() <= 64 && std::all_of(region.begin(), region.end(), [](char c) {
                       return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-';
                     });
  if (sound) return absl::OkStatus();
  return Wrong("AWS_REGION, or region in the config file, is no name of a region, as us-east-1");
}

}  // namespace

std::string OwnVariable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<S3Settings> ReadS3Settings(const Variables& variables) {
  S3Settings settings;
  std::string profile = FirstOf(variables, {"AWS_PROFILE", "AWS_DEFAULT_PROFILE"});
  if (profile.empty()) profile = "default";
  std::string config_path = variables("AWS_CONFIG_FILE");
  if (config_path.empty()) config_path = variables("HOME") + "/.aws/config";
  Section config = ReadSection(config_path, "profile " + profile);
  if (config.empty() && profile == "default") config = ReadSection(config_path, profile);
  PACELINE_RETURN_IF_ERROR(TakeCredentials(variables, profile, config_path, config, settings));
  settings.region = FirstOf(variables, {"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (settings.region.empty()) settings.region = ValueIn(config, "region");
  if (settings.region.empty()) settings.region = "us-east-1";
  PACELINE_RETURN_IF_ERROR(CheckRegion(settings.region));
  settings.endpoint = FirstOf(variables, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  if (settings.endpoint.empty()) settings.endpoint = ValueIn(config, "endpoint_url");
  while (absl::EndsWith(settings.endpoint, "/")) settings.endpoint.pop_back();
  PACELINE_RETURN_IF_ERROR(CheckEndpoint("AWS_ENDPOINT_URL", settings.endpoint));
  return settings;
}

absl::StatusOr<GsSettings> ReadGsSettings(const Variables& variables) {
  GsSettings settings;
  settings.endpoint = WithScheme(variables("STORAGE_EMULATOR_HOST"));
  if (settings.endpoint.empty()) settings.endpoint = "https://storage.googleapis.com";
  PACELINE_RETURN_IF_ERROR(CheckEndpoint("STORAGE_EMULATOR_HOST", settings.endpoint));
  settings.token = FirstOf(variables, {"CLOUDSDK_AUTH_ACCESS_TOKEN"});
  const std::string path = variables("CLOUDSDK_AUTH_ACCESS_TOKEN_FILE");
  if (settings.token.empty() && !path.empty()) {
    std::ifstream file(path);
    std::getline(file, settings.token);
    if (settings.token.empty()) {
      return Wrong(absl::StrCat("CLOUDSDK_AUTH_ACCESS_TOKEN_FILE names ", path,
                                ", which is empty or cannot be read by the trainers' user"));
    }
  }
  settings.token = std::string(absl::StripAsciiWhitespace(settings.token));
  if (settings.token.find_first_of("\r\n") != std::string::npos) {
    return Wrong("CLOUDSDK_AUTH_ACCESS_TOKEN has a line break; give the token alone");
  }
  const absl::string_view endpoint = settings.endpoint;
  const bool is_plain = absl::StartsWith(endpoint, kPlain);
  const absl::string_view host = endpoint.substr(is_plain ? kPlain.size() : 0);
  if (is_plain && !settings.token.empty() && !IsLoopback(host.substr(0, host.find('/')))) {
    return Wrong(
        "the token of Google Cloud would go to STORAGE_EMULATOR_HOST in plain text; give that with "
        "https://, or give the worker no token");
  }
  return settings;
}

}  // namespace paceline
