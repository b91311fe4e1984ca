#include "cli/job_file/job_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/job_file/job_fields.h"
#include "cli/job_file/job_file_parser.h"
#include "cli/job_file/job_keys.h"
#include "cli/text/utf8.h"
#include "common/core/status_macros.h"
#include "common/job_spec/job_spec.h"
#include "google/protobuf/descriptor.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/yaml.h"

namespace paceline {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;

// A rule about `key` that cannot be judged while `other` is wrong itself; in a list, that of the
// same element.
struct Dependence {
  const char* key;
  const char* other;
};
constexpr Dependence kDependences[] = {
    {"data.train_hash", "data.train"},
    {"shards", "ranks"},
    {"shards", "command"},
    {"shards", "model"},
    {"shards", "model.kind"},
    {"zero_stage", "shards"},
    {"zero_stage", "model.checkpoint_activations"},
    {"shards", "strategy.kind"},
    {"chaos[].rank", "ranks"},
    {"chaos[].step", "steps"},
    {"schedule.warmup_steps", "steps"},
    {"evaluation.every", "data.eval"},
    {"optimizer.nesterov", "optimizer.momentum"},
    {"model.heads", "model.dim"},
    {"model.kv_heads", "model.heads"},
    {"strategy.ladder[].size", "ranks"},
    {"strategy.ladder[].size", "shards"},
    {"strategy.ladder[].size", "strategy.ladder[].level"},
    {"strategy.ladder[].level", "ranks"},
    {"strategy.ladder[].outer", "ranks"},
    {"strategy.ladder[].outer", "shards"},
    {"strategy.ladder[].outer", "strategy.ladder[].size"},
    {"strategy.ladder[].outer.fragments", "strategy.ladder[].period"},
    {"strategy.ladder[].outer.delay", "strategy.ladder[].period"},
    {"strategy.ladder[].outer.delay", "strategy.ladder[].outer.fragments"},
    {"strategy.outer.fragments", "strategy.period"},
    {"strategy.outer.delay", "strategy.period"},
    {"strategy.outer.delay", "strategy.outer.fragments"},
    {"strategy.outer", "ranks"},
    {"strategy.outer", "shards"},
    {"strategy.gradient_group_size", "ranks"},
    {"strategy.gradient_group_size", "shards"},
    {"strategy.warmup_steps", "strategy.kind"},
    {"strategy.gradient_group_size", "strategy.kind"},
    {"strategy.optimizer_state", "strategy.kind"},
    {"strategy.optimizer_state", "strategy.mode"},
    {"strategy.window.max_steps", "strategy.window.min_steps"},
    {"startup_timeout_s", "collective_timeout_s"},
    {"stall_warning_s", "hang_timeout_s"},
    {"stall_warning_s", "collective_timeout_s"},
    {"hang_timeout_s", "collective_timeout_s"},
    {"give_up_s", "collective_timeout_s"},
    {"collective_timeout_s", "give_up_s"},
    {"recovery.spares", "recovery.max_failures"},
    {"recovery.min_ranks", "recovery.max_failures"},
    {"recovery.min_ranks", "ranks"},
    {"recovery.min_ranks", "shards"},
    {"recovery.max_ranks", "recovery.max_failures"},
    {"recovery.max_ranks", "ranks"},
    {"recovery.max_ranks", "shards"},
    {"recovery.max_ranks", "strategy.kind"},
    {"recovery.max_ranks", "placement.ranks_per_node"},
    {"schedule.scale_with_ranks", "strategy.kind"},
    {"schedule.scale_with_ranks", "recovery.batch"},
    {"recovery.copy_every_steps", "recovery.max_failures"},
    {"recovery.copy_every_steps", "ranks"},
    {"recovery.copy_every_steps", "shards"},
    {"recovery.copy_every_steps", "strategy.kind"},
    {"cuda_graph", "device"},
    {"cuda_graph", "ranks"},
    {"cuda_graph", "model"},
    {"cuda_graph", "model.kind"},
};

// True when `key` or a group around it has been complained about already.
bool IsReported(const std::set<std::string>& broken, std::string key) {
  while (true) {
    if (broken.count(key) > 0) return true;
    const size_t cut = key.find_last_of(".[");
    if (cut == std::string::npos) return false;
    key.resize(cut);
  }
}

bool DependsOnBroken(const std::set<std::string>& broken, const std::string& key) {
  const JobKey* entry = FindJobKey(key);
  if (entry == nullptr) return false;
  const std::string element = key.substr(0, key.rfind(']') + 1);
  return std::any_of(std::begin(kDependences), std::end(kDependences),
                     [&](const Dependence& dependence) {
                       std::string other = dependence.other;
                       const size_t list = other.find("[]");
                       if (list != std::string::npos) other = element + other.substr(list + 2);
                       return entry->path == dependence.key && IsReported(broken, other);
                     });
}

void AddRuleProblems(const std::set<std::string>& broken, JobFile* file) {
  for (const SpecProblem& problem : CheckJobSpec(file->spec)) {
    const std::string key = KeyOfField(problem.field);
    if (IsReported(broken, key) || DependsOnBroken(broken, key)) continue;
    file->problems.push_back(
        {PositionOf(*file, problem.field), absl::StrCat(key, " ", problem.message)});
  }
}

// The first line, from 1, that has a tab in its indentation; 0 when none has.
int LineIndentedByTab(absl::string_view yaml) {
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(yaml, '\n')) {
    ++number;
    const size_t text = line.find_first_not_of(" \t");
    if (text != line.npos && absl::StrContains(line.substr(0, text), '\t')) return number;
  }
  return 0;
}

// Of a byte.
FilePosition PositionAt(absl::string_view text, size_t offset) {
  const absl::string_view before = text.substr(0, offset);
  const size_t line = before.rfind('\n');  // npos + 1 is 0.
  return {static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
          static_cast<int>(offset - (line + 1)) + 1};
}

FilePosition PositionOfMark(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

// Takes note of where documents begin.
class DocumentStarts : public YAML::EventHandler {
 public:
  const std::vector<YAML::Mark>& starts() const { return starts_; }

  void OnDocumentStart(const YAML::Mark& mark) override { starts_.push_back(mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnAlias(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnScalar(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                const std::string& /*value*/) override {}
  void OnSequenceStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/,
                       YAML::anchor_t /*anchor*/, YAML::EmitterStyle::value /*style*/) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {}
  void OnMapEnd() override {}

 private:
  std::vector<YAML::Mark> starts_;
};

// Where the documents of a file begin, of the first two. Not by YAML::LoadAll, which finds empty
// documents without end before what cannot begin one, as a comma.
std::vector<YAML::Mark> DocumentsOf(const std::string& yaml) {
  std::istringstream in(yaml);
  YAML::Parser parser(in);
  DocumentStarts handler;
  while (handler.starts().size() < 2 && parser.HandleNextDocument(handler)) {
  }
  const std::vector<YAML::Mark>& starts = handler.starts();
  if (starts.size() == 2 && starts[0].pos == starts[1].pos) {
    throw YAML::ParserException(starts[0], "a document cannot begin so");
  }
  return starts;
}

}  // namespace

JobFile ParseJobFile(const std::string& yaml, const std::string& folder) {
  JobFile file;
  // YAML would take it, and no message could hold it.
  const size_t sound = Utf8Length(yaml);
  if (sound < yaml.size()) {
    file.problems.push_back(
        {PositionAt(yaml, sound), absl::StrFormat("not UTF-8: a byte %02x stands here",
                                                  static_cast<unsigned char>(yaml[sound]))});
    return file;
  }
  std::vector<YAML::Mark> documents;
  YAML::Node first;
  try {
    documents = DocumentsOf(yaml);
    first = YAML::Load(yaml);
  } catch (const YAML::Exception& e) {
    const int tab = LineIndentedByTab(yaml);
    file.problems.push_back(
        tab > 0 ? FileProblem{{tab, 1}, "not YAML: a tab indents this line; YAML takes spaces only"}
                : FileProblem{PositionOfMark(e.mark), absl::StrCat("not YAML: ", e.msg)});
    return file;
  }
  if (documents.empty() || first.IsNull()) {
    file.problems.push_back({{}, "the file is empty; docs/job-file.md shows what a job needs"});
    return file;
  }
  if (documents.size() > 1) {
    file.problems.push_back(
        {PositionOfMark(documents[1]), "a second document begins here; a file describes one job"});
    return file;
  }
  JobFileParser parser(folder, &file);
  parser.Parse(first);
  AddRuleProblems(parser.broken(), &file);
  FillDefaults(&file.spec);
  std::stable_sort(file.problems.begin(), file.problems.end(),
                   [](const FileProblem& a, const FileProblem& b) {
                     return std::make_pair(a.position.line, a.position.column) <
                            std::make_pair(b.position.line, b.position.column);
                   });
  return file;
}

namespace {

// Text of a job file; InvalidArgument when it is too long to be one.
absl::StatusOr<std::string> TextOf(std::istream& in, const std::string& path) {
  std::string text(kMaxFileBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() <= kMaxFileBytes) return text;
  return absl::InvalidArgumentError(absl::StrCat(path, " is larger than 1 MiB: not a job file"));
}

// Where relative paths of the file begin: it is a file of a folder, or comes from elsewhere, as
// `<(...)`, /dev/stdin and pipes do, and has none.
std::string FolderOf(const std::string& path, bool regular) {
  std::error_code ignored;
  const std::filesystem::path absolute =
      std::filesystem::absolute(path, ignored).lexically_normal();
  const std::string& text = absolute.native();
  const bool elsewhere = !regular || text == "/dev/stdin" || absl::StartsWith(text, "/dev/fd/") ||
                         absl::StartsWith(text, "/proc/");
  return elsewhere ? std::filesystem::current_path(ignored).string()
                   : absolute.parent_path().string();
}

}  // namespace

absl::StatusOr<JobFile> ReadJobFile(const std::string& path) {
  if (path == "-") {
    PACELINE_ASSIGN_OR_RETURN(const std::string text, TextOf(std::cin, "standard input"));
    return ParseJobFile(text, FolderOf(path, /*regular=*/false));
  }
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    const std::string why = absl::StrCat("cannot read ", path, ": ", std::strerror(errno));
    return errno == EACCES ? absl::PermissionDeniedError(why) : absl::NotFoundError(why);
  }
  if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode) && !S_ISCHR(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a file"));
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::PermissionDeniedError(absl::StrCat("cannot read ", path));
  PACELINE_ASSIGN_OR_RETURN(const std::string text, TextOf(in, path));
  return ParseJobFile(text, FolderOf(path, S_ISREG(info.st_mode)));
}

std::string KeyOfField(absl::string_view field) {
  const google::protobuf::Descriptor* group = v1::JobSpec::descriptor();
  std::vector<std::string> parts;
  for (const absl::string_view part : absl::StrSplit(field, '.')) {
    const std::string name(part.substr(0, part.find('[')));
    const auto* found = group == nullptr ? nullptr : group->FindFieldByName(name);
    const bool choice = found != nullptr && found->real_containing_oneof() != nullptr;
    if (found == nullptr) {
      parts.emplace_back(part);
    } else if (!choice) {
      parts.push_back(absl::StrCat(KeyName(*found), part.substr(name.size())));
    }
    group = found == nullptr ? nullptr : found->message_type();
  }
  return absl::StrJoin(parts, ".");
}

FilePosition PositionOf(const JobFile& file, absl::string_view field) {
  std::string key = KeyOfField(field);
  while (true) {
    const auto at = file.positions.find(key);
    if (at != file.positions.end()) return at->second;
    const size_t cut = key.find_last_of(".[");
    if (cut == std::string::npos) return {};
    key.resize(cut);
  }
}

}  // namespace paceline
