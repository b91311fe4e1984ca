#include <string>
#include <vector>

#include "common/job_spec/job_spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::JobSpec Spec(const std::string& changes) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: 'digits' model { mlp {} } data { train: '/train' } steps: 100 "
      "optimizer { sgd {} learning_rate: 0.1 } " +
          changes,
      &spec))
      << changes;
  return spec;
}

// "FIELD MESSAGE" of each problem.
std::vector<std::string> Problems(const std::string& changes) {
  std::vector<std::string> problems;
  for (const SpecProblem& problem : CheckJobSpec(Spec(changes))) {
    problems.push_back(problem.field + " " + problem.message);
  }
  return problems;
}

std::vector<std::string> ProblemsWithDirectory(const std::string& changes) {
  return Problems("checkpoint { directory: '/c' " + changes + " }");
}

TEST(CheckCheckpointTest, EveryKeyNeedsADirectory) {
  EXPECT_THAT(Problems("checkpoint { every_steps: 5 keep_latest: 3 at_end: false }"),
              ElementsAre("checkpoint.every_steps needs checkpoint.directory, which is missing",
                          "checkpoint.keep_latest needs checkpoint.directory, which is missing",
                          "checkpoint.at_end needs checkpoint.directory, which is missing"));
  EXPECT_THAT(Problems("checkpoint { every_s: nan }"),
              ElementsAre("checkpoint.every_s needs checkpoint.directory, which is missing"));
  EXPECT_THAT(Problems("checkpoint {}"), IsEmpty());
  EXPECT_THAT(ProblemsWithDirectory("every_steps: 5 keep_latest: 3 at_end: false"), IsEmpty());
}

TEST(CheckCheckpointTest, SoundValuesAreAccepted) {
  EXPECT_THAT(ProblemsWithDirectory(""), IsEmpty());
  EXPECT_THAT(ProblemsWithDirectory("every_steps: 10 every_s: 0.5 keep_latest: 0 keep_every: 7 "
                                    "when_busy: WHEN_BUSY_WAIT write_limit_mb_s: 0.1 "
                                    "on_damage: ON_DAMAGE_PREVIOUS"),
              IsEmpty());
  EXPECT_THAT(ProblemsWithDirectory("auto_interval: true every_steps: 10"), IsEmpty());
}

TEST(CheckCheckpointTest, ImpossibleValuesAreNamed) {
  EXPECT_THAT(
      ProblemsWithDirectory("every_steps: -1 every_s: -0.5 keep_latest: -1 "
                            "keep_every: -2 when_busy: 9 write_limit_mb_s: inf "
                            "on_damage: 9"),
      ElementsAre("checkpoint.every_steps is -1; allowed is 0 and more",
                  "checkpoint.every_s is -0.5; allowed is 0 and more",
                  "checkpoint.keep_latest is -1; allowed is 0 and more",
                  "checkpoint.keep_every is -2; allowed is 0 and more",
                  "checkpoint.when_busy is the unknown number 9; allowed is skip, wait",
                  "checkpoint.write_limit_mb_s is inf; allowed is 0 and more",
                  "checkpoint.on_damage is the unknown number 9; allowed is stop, previous"));
}

TEST(CheckCheckpointTest, IntervalIsEitherGivenOrChosen) {
  EXPECT_THAT(ProblemsWithDirectory("auto_interval: true every_s: 60"),
              ElementsAre("checkpoint.auto_interval is true, but every_s says already that it is "
                          "every 60 s; give one of them"));
}

TEST(CheckCheckpointTest, ALedgerNeedsStepsOfAllRanks) {
  EXPECT_THAT(ProblemsWithDirectory("sample_ledger: true"), IsEmpty());
  for (const char* strategy : {"slipstream {}", "auto {}"}) {
    EXPECT_THAT(
        Problems(std::string("checkpoint { directory: '/c' sample_ledger: true } strategy { ") +
                 strategy + " }"),
        Contains("checkpoint.sample_ledger is true beside strategy slipstream or auto, "
                 "whose ranks make steps of their own: no step of the job has samples; it "
                 "needs strategy ddp, local_sgd or hsgd"))
        << strategy;
  }
}

TEST(CheckCheckpointTest, RestartsAndResumption) {
  EXPECT_THAT(Problems("max_restarts: 3"), IsEmpty());
  EXPECT_THAT(Problems("max_restarts: -1"),
              ElementsAre("max_restarts is -1; allowed is 0 and more"));
  EXPECT_THAT(Problems("resume_from: 'other-job/120'"), IsEmpty());
  EXPECT_THAT(Problems("resume_from: '/c/j/step-000000000120.g1' init_from: '/w.safetensors'"),
              ElementsAre("resume_from is given beside init_from, but a checkpoint has the "
                          "weights too; give one of them"));
}

TEST(CheckCheckpointTest, FaultsOfAGeneration) {
  EXPECT_THAT(Problems("allow_chaos: true chaos { kind: ABORT generation: 2 }"), IsEmpty());
  EXPECT_THAT(Problems("allow_chaos: true chaos { kind: ABORT generation: -1 }"),
              ElementsAre("chaos[0].generation is -1; allowed is 0 and more"));
}

v1::CheckpointPolicy Filled(const std::string& changes) {
  v1::JobSpec spec = Spec("checkpoint { " + changes + " }");
  FillDefaults(&spec);
  const std::string once = spec.SerializeAsString();
  FillDefaults(&spec);
  EXPECT_EQ(spec.SerializeAsString(), once);
  return spec.checkpoint();
}

TEST(CheckpointDefaultsTest, ComeWithADirectory) {
  const v1::CheckpointPolicy checkpoint = Filled("directory: '/c'");
  EXPECT_EQ(checkpoint.keep_latest(), 3);
  EXPECT_TRUE(checkpoint.has_at_end());
  EXPECT_FALSE(checkpoint.at_end());
  EXPECT_EQ(checkpoint.when_busy(), v1::WHEN_BUSY_SKIP);
  EXPECT_EQ(checkpoint.on_damage(), v1::ON_DAMAGE_STOP);
  EXPECT_EQ(Filled("").ByteSizeLong(), 0u);
}

TEST(CheckpointDefaultsTest, EndIsSavedWhenAnythingIs) {
  EXPECT_TRUE(Filled("directory: '/c' every_steps: 1").at_end());
  EXPECT_TRUE(Filled("directory: '/c' every_s: 0.5").at_end());
  EXPECT_TRUE(Filled("directory: '/c' auto_interval: true").at_end());
  EXPECT_FALSE(Filled("directory: '/c' every_steps: 1 at_end: false").at_end());
}

TEST(CheckpointDefaultsTest, GivenValuesStay) {
  const v1::CheckpointPolicy checkpoint = Filled(
      "directory: '/c' keep_latest: 0 when_busy: WHEN_BUSY_WAIT on_damage: "
      "ON_DAMAGE_PREVIOUS at_end: true");
  EXPECT_EQ(checkpoint.keep_latest(), 0);
  EXPECT_EQ(checkpoint.when_busy(), v1::WHEN_BUSY_WAIT);
  EXPECT_EQ(checkpoint.on_damage(), v1::ON_DAMAGE_PREVIOUS);
  EXPECT_TRUE(checkpoint.at_end());
}

}  // namespace
}  // namespace paceline
