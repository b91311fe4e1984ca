#include <string>
#include <vector>

#include "common/job_spec/job_spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

v1::JobSpec SpecWithTracker(const std::string& tracker) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: 'digits' model { mlp {} } data { train: '/train' } steps: 100 "
      "optimizer { sgd {} learning_rate: 0.1 } tracker { " +
          tracker + " }",
      &spec))
      << tracker;
  return spec;
}

// "FIELD MESSAGE" of each problem.
std::vector<std::string> TrackerProblems(const std::string& tracker) {
  std::vector<std::string> problems;
  for (const SpecProblem& problem : CheckJobSpec(SpecWithTracker(tracker))) {
    problems.push_back(problem.field + " " + problem.message);
  }
  return problems;
}

TEST(CheckTrackerTest, SoundTrackersHaveNoProblem) {
  EXPECT_THAT(TrackerProblems(""), IsEmpty());
  EXPECT_THAT(TrackerProblems("tensorboard { directory: '/tb' } "
                              "mlflow { uri: 'https://mlflow.example.org' experiment: 'digits' } "
                              "wandb { project: 'digits' offline: true directory: '/wandb' }"),
              IsEmpty());
  for (const char* uri : {"http://10.0.0.1:5000/mlflow", "file:///srv/mlruns",
                          "sqlite:////srv/mlflow.db", "databricks", "https://h/a@b"}) {
    EXPECT_THAT(TrackerProblems("mlflow { uri: '" + std::string(uri) + "' }"), IsEmpty()) << uri;
  }
}

TEST(CheckTrackerTest, ATrackerNeedsItsPlace) {
  EXPECT_THAT(TrackerProblems("tensorboard {} mlflow {} wandb {}"),
              ElementsAre(HasSubstr("tracker.tensorboard.directory is missing"),
                          HasSubstr("tracker.mlflow.uri is missing"),
                          HasSubstr("tracker.wandb.project is missing")));
  EXPECT_THAT(TrackerProblems("tensorboard { directory: 'tb' }"),
              ElementsAre(HasSubstr("tracker.tensorboard.directory")));
  EXPECT_THAT(TrackerProblems("mlflow { uri: 'mlruns' }"),
              ElementsAre(HasSubstr("tracker.mlflow.uri has no scheme")));
}

TEST(CheckTrackerTest, SecretsAreRefusedAndNotRepeated) {
  for (const char* uri :
       {"https://ann:geheim@mlflow.example.org/", "http://geheim@h:5000",
        "http://ann:ge/heim@h:5000/geheim", "postgresql://h/db?password=geheim"}) {
    EXPECT_THAT(TrackerProblems("mlflow { uri: '" + std::string(uri) + "' }"),
                ElementsAre(testing::AllOf(HasSubstr("has a user or a password"),
                                           Not(HasSubstr("geheim")))))
        << uri;
  }
}

TEST(CheckTrackerTest, DefaultsMakeNoTracker) {
  v1::JobSpec spec = SpecWithTracker("");
  spec.clear_tracker();
  FillDefaults(&spec);
  EXPECT_FALSE(spec.has_tracker());
}

}  // namespace
}  // namespace paceline
