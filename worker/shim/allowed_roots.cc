#include "worker/shim/allowed_roots.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace paceline {
namespace {

// Resolves all links. Returns nothing on failure, with the reason in errno.
std::optional<std::string> RealPath(const std::string& path) {
  char resolved[PATH_MAX];
  if (::realpath(path.c_str(), resolved) == nullptr) return std::nullopt;
  return resolved;
}

std::string Joined(const std::string& directory, const std::string& rest) {
  if (rest.empty()) return directory;
  return absl::StrCat(directory == "/" ? "" : directory, "/", rest);
}

// Returns where `path` leads, or will lead once it is created. Returns nothing when this is
// unknown, with the reason in `why`.
std::optional<std::string> Follow(const std::string& path, std::string& why) {
  std::string existing = path;
  std::string rest;  // The part of `path` after `existing`.
  while (true) {
    if (const auto real = RealPath(existing)) return Joined(*real, rest);
    const int error = errno;
    if (error != ENOENT && error != ENOTDIR) {
      why = std::strerror(error);
      return std::nullopt;
    }
    struct stat info;
    if (::lstat(existing.c_str(), &info) == 0) {
      if (!S_ISLNK(info.st_mode)) continue;  // Another rank has just created it.
      // Writing through a dangling link would create its target.
      why = absl::StrCat(existing, " is a link that leads to nothing");
      return std::nullopt;
    }
    const size_t slash = existing.rfind('/');
    rest = absl::StrCat(existing.substr(slash + 1), rest.empty() ? "" : "/", rest);
    existing.resize(std::max<size_t>(slash, 1));
  }
}

bool LiesIn(const std::string& root, const std::string& path) {
  return root == "/" || path == root || absl::StartsWith(path, root + "/");
}

absl::Status Refused(const NamedPath& named, absl::string_view why,
                     const std::vector<std::string>& roots) {
  return absl::PermissionDeniedError(
      absl::StrCat(named.field, " is ", named.path, why, "; jobs may name paths in ",
                   absl::StrJoin(roots, ", "), " on this node (its worker's --allowed-root)"));
}

}  // namespace

bool IsPlainPath(absl::string_view path) {
  if (!absl::StartsWith(path, "/") || absl::StrContains(path, '\0')) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/');
  return std::find(parts.begin(), parts.end(), "..") == parts.end();
}

absl::Status CheckRoots(const std::vector<std::string>& roots,
                        const std::vector<NamedPath>& paths) {
  for (const NamedPath& named : paths) {
    if (!IsPlainPath(named.path)) {
      return absl::PermissionDeniedError(absl::StrCat(
          named.field, " is ", named.path, "; a job names absolute paths without \"..\""));
    }
  }
  if (roots.empty()) return absl::OkStatus();
  std::vector<std::string> real_roots;
  for (const std::string& root : roots) {
    // A root that does not exist, for example an unmounted disk, contains nothing.
    if (const auto real = RealPath(root)) real_roots.push_back(*real);
  }
  for (const NamedPath& named : paths) {
    std::string why;
    const std::optional<std::string> leads = Follow(named.path, why);
    if (!leads.has_value()) {
      return Refused(named, absl::StrCat(", which cannot be followed: ", why), roots);
    }
    const bool inside = std::any_of(real_roots.begin(), real_roots.end(),
                                    [&](const std::string& root) { return LiesIn(root, *leads); });
    if (inside) continue;
    return Refused(named, *leads == named.path ? "" : absl::StrCat(", which leads to ", *leads),
                   roots);
  }
  return absl::OkStatus();
}

}  // namespace paceline
