#include "common/job_spec/code_files.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/util/delimited_message_util.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/core/status_macros.h"
#include "common/job_spec/job_spec.h"

namespace paceline {
namespace {

constexpr size_t kMaxPath = 4095;  // PATH_MAX, and NAME_MAX below.
constexpr size_t kMaxName = 255;
constexpr size_t kShown = 300;

absl::Status Wrong(const v1::CodeFile& file, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(ShownCodePath(file.path()), " ", why));
}

bool IsName(absl::string_view part) {
  return !part.empty() && part != "." && part != ".." && part.size() <= kMaxName;
}

// Relative names with slashes between them.
bool IsPath(absl::string_view path) {
  if (path.empty() || path.size() > kMaxPath || absl::StrContains(path, '\0')) return false;
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (!IsName(part)) return false;
  }
  return true;
}

// Whether the link stays within the folder, whatever else is a link: it first goes up, through
// folders that are none, and then only down.
bool StaysInside(const std::string& path, const std::string& target) {
  if (target.size() > kMaxPath || absl::StrContains(target, '\0')) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(target, '/');
  const std::vector<absl::string_view> depth = absl::StrSplit(path, '/');
  size_t up = 0;
  while (up < parts.size() && parts[up] == "..") ++up;
  if (up >= depth.size()) return false;
  for (size_t i = up; i < parts.size(); ++i) {
    if (!IsName(parts[i])) return false;
  }
  return true;
}

}  // namespace

std::string ShownCodePath(absl::string_view path) {
  return absl::CHexEscape(path.size() <= kShown ? path : path.substr(0, kShown));
}

absl::Status CodeRules::Add(const v1::CodeFile& file) {
  const std::string& path = file.path();
  if (!IsPath(path)) {
    return Wrong(file,
                 "is no path below the folder: relative, without \"..\", of names of at most "
                 "255 bytes");
  }
  if (files() >= kMaxCodeFiles) {
    return Wrong(file, absl::StrCat("is one file too many: allowed are ", kMaxCodeFiles));
  }
  if (path <= last_) return Wrong(file, "comes twice, or out of order");
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    if (paths_.count(path.substr(0, slash)) > 0) {
      return Wrong(file, "lies below what is a file or a link");
    }
  }
  if (!file.link().empty() && !StaysInside(path, file.link())) {
    return Wrong(file, absl::StrCat("is a link to ", ShownCodePath(file.link()),
                                    ", which leads out of the folder"));
  }
  if (!file.link().empty() && (!file.data().empty() || file.executable())) {
    return Wrong(file, "is a link and a file");
  }
  last_ = path;
  paths_.insert(path);
  return absl::OkStatus();
}

void AppendCodeFile(const v1::CodeFile& file, std::string* bytes) {
  google::protobuf::io::StringOutputStream out(bytes);
  google::protobuf::util::SerializeDelimitedToZeroCopyStream(file, &out);
}

absl::Status ReadCodeFiles(absl::string_view bytes,
                           const std::function<absl::Status(const v1::CodeFile&)>& use) {
  CodeRules rules;
  google::protobuf::io::ArrayInputStream in(bytes.data(), static_cast<int>(bytes.size()));
  while (in.ByteCount() < static_cast<int64_t>(bytes.size())) {
    v1::CodeFile file;
    bool ended = false;
    if (!google::protobuf::util::ParseDelimitedFromZeroCopyStream(&file, &in, &ended)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the bytes behind file ", rules.files(), " are no file"));
    }
    PACELINE_RETURN_IF_ERROR(rules.Add(file));
    PACELINE_RETURN_IF_ERROR(use(file));
  }
  return absl::OkStatus();
}

}  // namespace paceline
