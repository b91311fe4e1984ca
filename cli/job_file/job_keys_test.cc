#include "cli/job_file/job_keys.h"

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cli/job_file/job_fields.h"
#include "cli/job_file/job_file.h"
#include "gtest/gtest.h"
#include "proto/job_spec.pb.h"

namespace paceline {
namespace {

// Paths of the keys that the fields of a message need.
void AddPaths(const google::protobuf::Descriptor& group, const std::string& prefix,
              std::set<std::string>* paths) {
  const auto* choice = ChoiceOf(group);
  if (choice != nullptr) paths->insert(prefix + "kind");
  for (int i = 0; i < group.field_count(); ++i) {
    const auto* field = group.field(i);
    const auto* type = field->message_type();
    if (choice != nullptr && field->containing_oneof() == choice) {
      AddPaths(*type, prefix, paths);
      continue;
    }
    const std::string path = prefix + field->name();
    paths->insert(path);
    if (type != nullptr && !field->is_map()) {
      AddPaths(*type, path + (field->is_repeated() ? "[]." : "."), paths);
    }
  }
}

// The kind that a key needs, from its documentation; empty: any.
std::string KindOf(const JobKey& key) {
  const std::vector<std::string> parts = absl::StrSplit(key.doc, "Only with kind ");
  return parts.size() < 2 ? "" : parts[1].substr(0, parts[1].find('.'));
}

TEST(JobKeysTest, EveryFieldOfASpecHasAKeyAndNoKeyIsWithoutAField) {
  std::set<std::string> fields;
  AddPaths(*v1::JobSpec::descriptor(), "", &fields);
  std::set<std::string> keys;
  for (const JobKey& key : JobKeys()) keys.insert(key.path);
  EXPECT_EQ(keys, fields);
}

TEST(JobKeysTest, AllowedChoicesAreThoseOfTheProto) {
  for (const JobKey& key : JobKeys()) {
    if (key.type != KeyType::kChoice) continue;
    const google::protobuf::Descriptor* group = v1::JobSpec::descriptor();
    std::vector<std::string> parts = absl::StrSplit(key.path, '.');
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      group = FindKeyField(*group, parts[i].substr(0, parts[i].find('['))).field->message_type();
    }
    EXPECT_EQ(absl::StrJoin(AllowedNames(FindKeyField(*group, parts.back())), ", "), key.allowed)
        << key.path;
  }
}

// Further keys of the same group that an example needs.
std::string Companions(const std::string& path) {
  if (path == "optimizer.nesterov") return "momentum: 0.9, ";
  if (absl::StartsWith(path, "recovery.") && path != "recovery.max_failures") {
    return "max_failures: 1, ";
  }
  if (absl::StartsWith(path, "checkpoint.") && path != "checkpoint.directory") {
    return "directory: /c, ";
  }
  if (path == "strategy.warmup_steps" || path == "strategy.gradient_group_size" ||
      path == "strategy.optimizer_state") {
    return "kind: local_sgd, ";
  }
  return "";
}

// Further keys of the file that an example needs.
std::string Surroundings(const std::string& path) {
  if (absl::StrContains(FindJobKey(path)->doc, "Only with command.")) return "command: [a]\n";
  if (path == "ranks") return "steps: 500\n";
  if (path == "steps") return "ranks: 4\n";
  if (path == "cuda_graph") return "steps: 500\ndevice: cuda\nmodel: mlp\n";
  if (path == "evaluation.every") return "steps: 500\ndata: {eval: e}\n";
  return "ranks: 4\nsteps: 500\n";
}

TEST(JobKeysTest, EveryExampleIsAccepted) {
  for (const JobKey& key : JobKeys()) {
    if (absl::string_view(key.example).empty()) continue;
    // From the inside out: "period: 8", "ladder: [{period: 8}]", "strategy: {kind: hsgd, ladder:
    // ...}".
    std::string yaml;
    std::string path = key.path;
    for (bool inside = true; !path.empty(); inside = false) {
      const size_t cut = path.rfind('.');
      std::string name = path.substr(cut == std::string::npos ? 0 : cut + 1);
      const bool list = absl::EndsWith(name, "[]");
      if (list) {
        name.resize(name.size() - 2);
        path.resize(path.size() - 2);
      }
      const std::string value = inside ? key.example : absl::StrCat("{", yaml, "}");
      const std::string kind = KindOf(*FindJobKey(path));
      yaml = absl::StrCat(kind.empty() ? "" : absl::StrCat("kind: ", kind, ", "),
                          inside ? Companions(path) : "", name, ": ", list ? "[" : "", value,
                          list ? "]" : "");
      path.resize(cut == std::string::npos ? 0 : cut);
    }
    absl::StrAppend(&yaml, "\n", Surroundings(key.path));
    const std::string told = absl::StrReplaceAll(key.path, {{"[]", "[0]"}});
    for (const FileProblem& problem : ParseJobFile(yaml, "/").problems) {
      EXPECT_FALSE(absl::StartsWith(problem.message, told + " ") ||
                   absl::StrContains(problem.message, "unknown key") ||
                   absl::StrContains(problem.message, "not YAML"))
          << yaml << problem.message;
    }
  }
}

}  // namespace
}  // namespace paceline
