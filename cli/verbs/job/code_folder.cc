#include "cli/verbs/job/code_folder.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <map>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cli/verbs/job/ignore_file.h"
#include "common/core/bytes_text.h"
#include "common/core/status_macros.h"
#include "common/foreign_dir.h"
#include "common/job_spec/code_files.h"
#include "common/job_spec/job_spec.h"
#include "common/tls/key_and_request.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr char kIgnoreFile[] = ".pacelineignore";
constexpr size_t kMaxIgnoreFile = 1 << 20;
constexpr size_t kLargest = 5;
// Most bytes that a file takes besides its path and data.
constexpr int64_t kFileBytes = 32;

bool InGitRepository(fs::path folder) {
  std::error_code none;
  for (;; folder = folder.parent_path()) {
    if (fs::exists(folder / ".git", none)) return true;
    if (folder == folder.root_path()) return false;
  }
}

// Returns the paths that git lists, each followed by a NUL. git's complaints go to stderr.
absl::StatusOr<std::vector<std::string>> AskGit(const std::string& folder, const char* what) {
  const std::string command = absl::StrCat(
      "git -C '", absl::StrReplaceAll(folder, {{"'", "'\\''"}}), "' ls-files -z ", what);
  FILE* const git = ::popen(command.c_str(), "re");
  if (git == nullptr) return absl::ErrnoToStatus(errno, "cannot start git");
  std::string text;
  std::array<char, 16384> buffer;
  while (const size_t size = ::fread(buffer.data(), 1, buffer.size(), git)) {
    text.append(buffer.data(), size);
  }
  if (::pclose(git) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("git cannot tell which files of ", folder,
                                                      " it tracks: see what it says, or "
                                                      "write a ",
                                                      kIgnoreFile, " there, and git is not asked"));
  }
  return std::vector<std::string>(absl::StrSplit(text, '\0', absl::SkipEmpty()));
}

absl::StatusOr<std::vector<std::string>> Walk(const std::string& folder, const IgnoreFile& ignore) {
  std::vector<std::string> paths;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const std::string path = entry->path().lexically_relative(folder).string();
    const std::string name = entry->path().filename().string();
    std::error_code none;
    const bool is_folder = entry->symlink_status(none).type() == fs::file_type::directory;
    const bool never =
        name == ".git" ||
        (is_folder && (name == "__pycache__" || fs::exists(entry->path() / "pyvenv.cfg", none)));
    if (never || ignore.Excludes(path, is_folder)) {
      if (is_folder) entry.disable_recursion_pending();
      continue;
    }
    if (!is_folder) paths.push_back(path);
    if (paths.size() > size_t{kMaxCodeFiles}) break;
  }
  if (error)
    return absl::UnavailableError(absl::StrCat("cannot list ", folder, ": ", error.message()));
  return paths;
}

absl::StatusOr<std::vector<std::string>> ChoosePaths(const std::string& folder,
                                                     PackedCode* packed) {
  const std::string ignore = absl::StrCat(folder, "/", kIgnoreFile);
  absl::StatusOr<std::string> text = ReadBoundedFile(ignore, kMaxIgnoreFile);
  if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
  if (!text.ok() && InGitRepository(folder)) {
    packed->by_git = true;
    PACELINE_ASSIGN_OR_RETURN(packed->untracked, AskGit(folder, "--others --exclude-standard"));
    return AskGit(folder, "--recurse-submodules");
  }
  PACELINE_ASSIGN_OR_RETURN(const IgnoreFile file, IgnoreFile::Parse(text.value_or("")));
  return Walk(folder, file);
}

// A link's target; or a file's size, and whether it is executable.
struct Entry {
  v1::CodeFile file;
  int64_t bytes = 0;
};

// NotFound if it does not exist.
absl::StatusOr<Entry> Look(const std::string& folder, const std::string& path) {
  const std::string full = absl::StrCat(folder, "/", path);
  struct stat info;
  if (::lstat(full.c_str(), &info) != 0) {
    return absl::ErrnoToStatus(errno == ENOTDIR ? ENOENT : errno,
                               absl::StrCat("cannot look at ", ShownCodePath(path)));
  }
  Entry entry;
  entry.file.set_path(path);
  if (S_ISREG(info.st_mode)) {
    entry.file.set_executable((info.st_mode & S_IXUSR) != 0);
    entry.bytes = info.st_size;
    return entry;
  }
  if (S_ISLNK(info.st_mode)) {
    std::array<char, PATH_MAX> target;
    const ssize_t size = ::readlink(full.c_str(), target.data(), target.size());
    if (size < 0) return absl::ErrnoToStatus(errno, "cannot read the link " + ShownCodePath(path));
    entry.file.set_link(target.data(), static_cast<size_t>(size));
    return entry;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      ShownCodePath(path),
      S_ISDIR(info.st_mode)
          ? " is a submodule that is not checked out: git submodule update --init"
          : absl::StrCat(" is no file, folder or link: leave it out by a line in ", kIgnoreFile)));
}

absl::Status TooMuch(const std::string& folder, const std::string& what,
                     std::vector<std::pair<std::string, int64_t>> sizes) {
  return absl::ResourceExhaustedError(absl::StrCat(
      what, " of ", folder, " would travel with the job; allowed are ", BytesText(kMaxCodeBytes),
      " and ", kMaxCodeFiles, " files. Leave files out by a ", kIgnoreFile,
      " there (a line such as data/ or *.pt), and put data where every node sees it. The "
      "largest: ",
      LargestFiles(std::move(sizes))));
}

}  // namespace

std::string LargestFiles(std::vector<std::pair<std::string, int64_t>> files) {
  const size_t shown = std::min(kLargest, files.size());
  std::partial_sort(files.begin(), files.begin() + static_cast<std::ptrdiff_t>(shown), files.end(),
                    [](const auto& a, const auto& b) {
                      return std::pair(-a.second, a.first) < std::pair(-b.second, b.first);
                    });
  std::string text;
  for (size_t i = 0; i < shown; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", ShownCodePath(files[i].first), " (",
                    BytesText(files[i].second), ")");
  }
  return text;
}

absl::StatusOr<PackedCode> PackFolder(const std::string& folder) {
  PackedCode packed;
  PACELINE_ASSIGN_OR_RETURN(const std::vector<std::string> paths, ChoosePaths(folder, &packed));
  std::map<std::string, Entry> entries;
  std::vector<std::pair<std::string, int64_t>> sizes;
  int64_t bytes = 0;
  for (const std::string& path : paths) {
    absl::StatusOr<Entry> entry = Look(folder, path);
    if (absl::IsNotFound(entry.status())) {
      packed.missing.push_back(path);
      continue;
    }
    if (!entry.ok()) return entry.status();
    bytes += entry->bytes + static_cast<int64_t>(path.size()) + kFileBytes;
    sizes.emplace_back(path, entry->bytes);
    entries[path] = *std::move(entry);
  }
  if (bytes > kMaxCodeBytes) return TooMuch(folder, BytesText(bytes), sizes);
  if (entries.size() > size_t{kMaxCodeFiles}) {
    return TooMuch(folder, absl::StrCat("more than ", kMaxCodeFiles, " files"), sizes);
  }
  if (entries.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, " has no file that would travel with the job",
                     packed.by_git ? ": git tracks none there; git add them" : ""));
  }
  CodeRules rules;
  for (auto& [path, entry] : entries) {
    const absl::Status allowed = rules.Add(entry.file);
    if (!allowed.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(allowed.message(),
                       ": it cannot travel with the job; change it, or leave it out by a line "
                       "in ",
                       kIgnoreFile));
    }
    if (entry.file.link().empty()) {
      PACELINE_ASSIGN_OR_RETURN(*entry.file.mutable_data(),
                                ReadBoundedFile(absl::StrCat(folder, "/", path), kMaxCodeBytes));
    }
    AppendCodeFile(entry.file, &packed.bytes);
    entry.file.clear_data();
    packed.paths.insert(path);
  }
  if (static_cast<int64_t>(packed.bytes.size()) > kMaxCodeBytes) {  // The files grew meanwhile.
    return TooMuch(folder, BytesText(static_cast<int64_t>(packed.bytes.size())), sizes);
  }
  packed.code.set_sha256(Sha256Hex(packed.bytes));
  packed.code.set_bytes(static_cast<int64_t>(packed.bytes.size()));
  packed.code.set_files(rules.files());
  return packed;
}

}  // namespace paceline
