#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job_spec/job_spec.h"
#include "common/job_spec/testing/sound_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// "FIELD MESSAGE" of each problem.
std::vector<std::string> Problems(const v1::JobSpec& spec) {
  std::vector<std::string> problems;
  for (const SpecProblem& problem : CheckJobSpec(spec)) {
    problems.push_back(absl::StrCat(problem.field, " ", problem.message));
  }
  return problems;
}

v1::JobSpec Labelled(const std::string& key, const std::string& value) {
  v1::JobSpec spec = Sound();
  (*spec.mutable_labels())[key] = value;
  return spec;
}

TEST(CheckLabelsTest, SoundOnesHaveNoProblemInAnyKindOfJob) {
  v1::JobSpec spec = Labelled("example.com/model", "llama-7b");
  (*spec.mutable_labels())["nightly"] = "";
  spec.set_description("A first line,\n\tand \xc3\xa4 second.\n");
  EXPECT_THAT(Problems(spec), IsEmpty());
  v1::JobSpec command;
  command.set_name("script");
  command.add_command("train.py");
  command.set_working_directory("/home/ann");
  *command.mutable_labels() = spec.labels();
  command.set_description(spec.description());
  EXPECT_THAT(Problems(command), IsEmpty());
}

TEST(CheckLabelsTest, AWrongKeyOrValueIsNamedWithWhatIsAllowed) {
  EXPECT_THAT(Problems(Labelled("te am", "a")),
              ElementsAre(HasSubstr("labels has the key \"te am\"; allowed are 1 to 63")));
  EXPECT_THAT(Problems(Labelled("", "a")), ElementsAre(HasSubstr("labels has the key \"\"")));
  EXPECT_THAT(
      Problems(Labelled("team", "a/b")),
      ElementsAre(HasSubstr("labels has the value \"a/b\" for team; allowed are up to 63")));
  EXPECT_THAT(Problems(Labelled("team", "\x1b[2J")),
              ElementsAre(HasSubstr("labels has the value \"\\x1b[2J\" for team")));
}

TEST(CheckLabelsTest, ThereAreAtMostSoMany) {
  v1::JobSpec spec = Sound();
  for (int i = 0; i < kMaxSpecLabels; ++i) (*spec.mutable_labels())[absl::StrCat("k", i)] = "v";
  EXPECT_THAT(CheckLabels(spec), IsEmpty());
  EXPECT_THAT(Problems(spec), IsEmpty());
  (*spec.mutable_labels())["one-more"] = "v";
  EXPECT_THAT(Problems(spec), ElementsAre("labels has 65 entries; allowed are 64"));
  ASSERT_EQ(CheckLabels(spec).size(), 1u);
  EXPECT_EQ(CheckLabels(spec)[0].field, "labels");
}

TEST(CheckLabelsTest, ADescriptionIsShortText) {
  v1::JobSpec spec = Sound();
  spec.set_description(std::string(kMaxDescription, 'a'));
  EXPECT_THAT(Problems(spec), IsEmpty());
  spec.set_description(std::string(kMaxDescription + 1, 'a'));
  EXPECT_THAT(Problems(spec), ElementsAre("description has 1025 bytes; allowed are 1024"));
  spec.set_description("a\x1b[2Jb");
  EXPECT_THAT(Problems(spec), ElementsAre(HasSubstr("description has control characters")));
}

}  // namespace
}  // namespace paceline
