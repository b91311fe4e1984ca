#include "controller/api/admission/user_tokens.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/log.h"
#include "common/tls/key_and_request.h"
#include "common/user_token.h"

namespace paceline {
namespace {

constexpr off_t kMaxFileBytes = 1 << 20;
constexpr size_t kHashDigits = 64;

bool IsHash(absl::string_view text) {
  return text.size() == kHashDigits && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isxdigit(static_cast<unsigned char>(c));
         });
}

bool IsUserRole(Role role) { return Includes(role, Role::kViewer); }

// Adds the user on a line with content. Returns what is wrong with the line, or "".
std::string AddUser(absl::string_view line, std::map<std::string, Principal>& users) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (words.size() != 3 || !IsHash(words[0])) {
    return "must be the SHA-256 of a token in 64 hexadecimal digits, a role and a name";
  }
  const absl::StatusOr<Role> role = ParseRole(words[1]);
  if (!role.ok() || !IsUserRole(*role)) {
    return absl::StrCat("\"", words[1],
                        "\" is no role of a user: take viewer, submitter, operator or admin");
  }
  if (!IsPrincipalName(words[2])) {
    return absl::StrCat("\"", words[2], "\" is no name: it has 1 to 63 of [A-Za-z0-9._-]");
  }
  const Principal user = {*role, std::string(words[2])};
  if (!users.emplace(absl::AsciiStrToLower(words[0]), user).second) {
    return "has the same token as a line before it";
  }
  return "";
}

}  // namespace

absl::StatusOr<std::map<std::string, Principal>> ParseUserTokens(absl::string_view text,
                                                                 const std::string& name) {
  std::map<std::string, Principal> users;
  std::string problems;
  int number = 0;
  for (const absl::string_view raw : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::string_view line = absl::StripAsciiWhitespace(raw);
    if (line.empty() || line[0] == '#') continue;
    const std::string problem = AddUser(line, users);
    if (problem.empty()) continue;
    absl::StrAppend(&problems, problems.empty() ? "" : "\n", name, ":", number, ": ", problem);
  }
  if (!problems.empty()) return absl::InvalidArgumentError(problems);
  return users;
}

absl::StatusOr<std::unique_ptr<UserTokens>> UserTokens::Open(const std::string& path) {
  auto tokens = std::unique_ptr<UserTokens>(new UserTokens(path));
  absl::MutexLock lock(&tokens->mutex_);
  const absl::Status read = tokens->Read();
  if (!read.ok()) return read;
  return tokens;
}

std::optional<Principal> UserTokens::Find(absl::string_view token, absl::Time now) {
  if (token.size() < kMinUserToken || token.size() > kMaxUserToken) return std::nullopt;
  const std::string hash = Sha256Hex(token);
  absl::MutexLock lock(&mutex_);
  // If the clock was set back, a token that was removed must not stay valid.
  if (now < looked_ || now - looked_ >= kUserTokensInterval) {
    looked_ = now;
    ReadIfChanged();
  }
  const auto user = users_.find(hash);
  if (user == users_.end()) return std::nullopt;
  return user->second;
}

void UserTokens::ReadIfChanged() {
  const Version before = version_;
  const absl::Status read = Read();
  if (version_ == before) return;
  if (!read.ok()) {
    PACELINE_LOG(ERROR) << "user_tokens_kept reason=\"" << read.message() << "\"";
    return;
  }
  PACELINE_LOG(INFO) << "user_tokens_read file=" << path_ << " tokens=" << users_.size();
}

absl::Status UserTokens::Read() {
  const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int error = errno;
    version_ = {};
    return absl::FailedPreconditionError(
        absl::StrCat("cannot read the file of user tokens ", path_, ": ", std::strerror(error),
                     error == ENOENT ? "; make it: an empty one has no tokens" : ""));
  }
  const absl::Cleanup close = [fd] { ::close(fd); };
  struct stat info;
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > kMaxFileBytes) {
    version_ = {};
    return absl::FailedPreconditionError(
        absl::StrCat("the file of user tokens ", path_, " is no regular file of at most 1 MiB"));
  }
  const Version found = {info.st_dev, info.st_ino, info.st_size, info.st_ctim.tv_sec,
                         info.st_ctim.tv_nsec};
  if (found == version_) return absl::OkStatus();
  version_ = found;
  if ((info.st_mode & (S_IRWXO | S_IWGRP)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the file of user tokens ", path_,
                     " can be read by others, or written by its group: chmod 640 ", path_));
  }
  std::string text(static_cast<size_t>(info.st_size), '\0');
  size_t got = 0;
  while (got < text.size()) {
    const ssize_t n = ::read(fd, text.data() + got, text.size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    got += static_cast<size_t>(n);
  }
  text.resize(got);
  absl::StatusOr<std::map<std::string, Principal>> users = ParseUserTokens(text, path_);
  if (!users.ok()) return users.status();
  users_ = *std::move(users);
  return absl::OkStatus();
}

}  // namespace paceline
