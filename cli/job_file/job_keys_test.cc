#include "cli/job_file/job_keys.h"

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/job_file/job_fields.h"
#include "cli/job_file/job_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_spec.pb.h"

namespace paceline {
namespace {

using ::testing::IsEmpty;

std::string Code(const std::string& text) {
  return text.empty() ? "" : absl::StrCat("`", text, "`");
}

// The line that documents a key in docs/job-file.md.
std::string Row(const JobKey& key) {
  const std::string fallback = key.fallback;
  const bool words = absl::StartsWith(fallback, "required") || fallback == "none";
  return absl::StrCat("| `", key.path, "` | ", TypeName(key.type), " | ", key.unit, " | ",
                      words ? fallback : Code(fallback), " | ", key.allowed, " | ",
                      Code(key.example), " | ", key.doc, " |");
}

std::string Documentation() {
  std::ifstream in("docs/job-file.md");
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

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
    if (type != nullptr) AddPaths(*type, path + (field->is_repeated() ? "[]." : "."), paths);
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

TEST(JobKeysTest, EveryKeyIsDocumentedAsTheTableHasIt) {
  const std::string documentation = Documentation();
  std::string missing;
  for (const JobKey& key : JobKeys()) {
    if (!absl::StrContains(documentation, Row(key))) absl::StrAppend(&missing, Row(key), "\n");
  }
  EXPECT_THAT(missing, IsEmpty()) << "lines that docs/job-file.md should have";
}

TEST(JobKeysTest, NothingElseIsDocumentedAsAKey) {
  for (const absl::string_view line : absl::StrSplit(Documentation(), '\n')) {
    if (!absl::StartsWith(line, "| `")) continue;
    const std::vector<std::string> parts = absl::StrSplit(line, '`');
    EXPECT_NE(FindJobKey(parts[1]), nullptr) << parts[1];
  }
}

TEST(JobKeysTest, AllowedChoicesAreThoseOfTheProto) {
  for (const JobKey& key : JobKeys()) {
    if (key.type != KeyType::kChoice) continue;
    const google::protobuf::Descriptor* group = v1::JobSpec::descriptor();
    std::vector<std::string> parts = absl::StrSplit(key.path, '.');
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      group = group->FindFieldByName(parts[i].substr(0, parts[i].find('[')))->message_type();
    }
    EXPECT_EQ(absl::StrJoin(AllowedNames(FindKeyField(*group, parts.back())), ", "), key.allowed)
        << key.path;
  }
}

TEST(JobKeysTest, EveryExampleIsAccepted) {
  for (const JobKey& key : JobKeys()) {
    if (absl::string_view(key.example).empty()) continue;
    std::vector<std::string> parts = absl::StrSplit(key.path, '.');
    const bool list = absl::EndsWith(parts[0], "[]");
    if (list) parts[0].resize(parts[0].size() - 2);
    std::string yaml = absl::StrCat("ranks: 4\nsteps: 500\n", parts[0], ": ", key.example, "\n");
    if (parts[0] == key.path && (parts[0] == "ranks" || parts[0] == "steps")) {
      yaml = absl::StrCat(parts[0], ": ", key.example, "\n");
    }
    if (parts.size() == 2) {
      const std::string kind = KindOf(key);
      const std::string more = absl::StrCat(kind.empty() ? "" : absl::StrCat("kind: ", kind, ", "),
                                            parts[1] == "nesterov" ? "momentum: 0.9, " : "");
      yaml = absl::StrCat("ranks: 4\nsteps: 500\n", parts[0], ": ", list ? "[" : "", "{", more,
                          parts[1], ": ", key.example, "}", list ? "]" : "", "\n",
                          parts[0] == "evaluation" ? "data: {eval: e}\n" : "");
    }
    for (const FileProblem& problem : ParseJobFile(yaml, "/").problems) {
      EXPECT_FALSE(absl::StartsWith(
          problem.message, absl::StrCat(parts[0], list ? "[0]" : "", parts.size() > 1 ? "." : " ",
                                        parts.size() > 1 ? parts[1] : "")))
          << yaml << problem.message;
    }
  }
}

}  // namespace
}  // namespace paceline
