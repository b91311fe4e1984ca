// What is said of job files that are wrong, and where.
#include <string>
#include <vector>

#include "cli/job_file/job_file.h"
#include "cli/job_file/sound_job_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(JobFileProblemsTest, UnknownKeyIsToldWithTheNearestOne) {
  EXPECT_THAT(ProblemsOfAddition("btach_per_rank: 8\n"),
              ElementsAre("7:1 unknown key \"btach_per_rank\"; did you mean "
                          "\"batch_per_rank\"?"));
}

TEST(JobFileProblemsTest, UnknownKeyInAGroupIsToldWithItsPath) {
  EXPECT_THAT(ProblemsOfAddition("schedule:\n  kind: cosine\n  warmup_step: 5\n"),
              ElementsAre("9:3 unknown key \"warmup_step\" in schedule; did you mean "
                          "\"schedule.warmup_steps\"?"));
}

TEST(JobFileProblemsTest, KeyInTheWrongGroupIsToldWithTheRightOne) {
  EXPECT_THAT(ProblemsOfAddition("weight_decay: 0.1\n"),
              ElementsAre("7:1 unknown key \"weight_decay\"; did you mean "
                          "\"optimizer.weight_decay\"?"));
}

TEST(JobFileProblemsTest, FarFetchedKeyIsToldWithAllThatAreKnown) {
  EXPECT_THAT(ProblemsOfAddition("evaluation: {accuracy: 1}\n"),
              ElementsAre("7:14 unknown key \"accuracy\" in evaluation; known are every"));
}

TEST(JobFileProblemsTest, MisspeltRequiredKeyIsNotCalledMissingToo) {
  EXPECT_THAT(Problems("nam: a\nmodel: resnet18\ndata: {train: t}\nstep: 5\n"
                       "optimizer: {kind: sgd, learning_rate: 1}\n"),
              ElementsAre("1:1 unknown key \"nam\"; did you mean \"name\"?",
                          "4:1 unknown key \"step\"; did you mean \"steps\"?"));
}

TEST(JobFileProblemsTest, RepeatedKeyIsToldWithItsFirstLine) {
  EXPECT_THAT(ProblemsOfAddition("ranks: 2\n"),
              ElementsAre("7:1 ranks is given twice; first in line 2"));
}

TEST(JobFileProblemsTest, WrongTypesAreTold) {
  EXPECT_THAT(ProblemsOfAddition("seed: many\n"),
              ElementsAre("7:1 seed is \"many\"; it takes a whole number"));
  EXPECT_THAT(ProblemsOfAddition("seed: \"3\"\n"),
              ElementsAre("7:1 seed is \"3\"; it takes a whole number without quotes"));
  EXPECT_THAT(ProblemsOfAddition("seed: 1.5\n"),
              ElementsAre("7:1 seed is \"1.5\"; it takes a whole number"));
  EXPECT_THAT(ProblemsOfAddition("seed: [1]\n"),
              ElementsAre("7:1 seed is a list; it takes a whole number"));
  EXPECT_THAT(ProblemsOfAddition("seed:\n"),
              ElementsAre("7:1 seed has no value; give one or leave the key out"));
  EXPECT_THAT(ProblemsOfAddition("collective_timeout_s: .nan\n"),
              ElementsAre("7:1 collective_timeout_s is \".nan\"; it takes a finite number"));
  EXPECT_THAT(ProblemsOfAddition("evaluation: 5\n"),
              ElementsAre("7:1 evaluation is a single value; it takes a group of keys: every"));
  EXPECT_THAT(
      ProblemsOfAddition("chaos: {rank: 1}\n"),
      ElementsAre("7:1 chaos is a group of keys; it takes a list of groups, each with rank, "
                  "step, kind, seconds, steps, probability, generation, node, factor, "
                  "megabytes, until_file"));
  EXPECT_THAT(ProblemsOfAddition("init_from: ''\n"),
              ElementsAre("7:1 init_from is empty; give a value or leave the key out"));
}

TEST(JobFileProblemsTest, BooleanTakesOnlyTrueAndFalse) {
  EXPECT_THAT(Problems("name: a\nmodel: resnet18\ndata: {train: t}\nsteps: 5\noptimizer:\n"
                       "  {kind: sgd, learning_rate: 1, momentum: 0.5, nesterov: yes}\n"),
              ElementsAre("6:48 optimizer.nesterov is \"yes\"; it takes true or false"));
}

TEST(JobFileProblemsTest, WrongChoiceIsToldWithTheNearestOne) {
  EXPECT_THAT(ProblemsOfAddition("schedule: {kind: cosin}\n"),
              ElementsAre("7:12 schedule.kind is \"cosin\"; allowed is constant, cosine, step; "
                          "did you mean \"cosine\"?"));
  EXPECT_THAT(ProblemsOfAddition("device: tpu\n"),
              ElementsAre("7:1 device is \"tpu\"; allowed is cpu, cuda; did you mean \"cpu\"?"));
}

TEST(JobFileProblemsTest, KeyOfAnotherKindIsTold) {
  EXPECT_THAT(ProblemsOfAddition("schedule: {final_ratio: 0.1}\n"),
              ElementsAre("7:12 schedule.final_ratio belongs to kind cosine; the kind is "
                          "constant"));
}

TEST(JobFileProblemsTest, ZeroThatWouldMeanTheDefaultIsRefused) {
  EXPECT_THAT(ProblemsOfAddition("batch_per_rank: 0\n"),
              ElementsAre("7:1 batch_per_rank is 0; allowed is 1 and more"));
}

TEST(JobFileProblemsTest, NumberBeyondTheFieldIsRefused) {
  EXPECT_THAT(ProblemsOfAddition("batch_per_rank: 5000000000\n"),
              ElementsAre("7:1 batch_per_rank is 5000000000; allowed is 1 and more, up to "
                          "2147483647"));
}

TEST(JobFileProblemsTest, ImpossibleValueIsToldAtItsKey) {
  EXPECT_THAT(
      ProblemsOfAddition("chaos:\n- {kind: abort}\n- {kind: abort, rank: 4}\nallow_chaos: true\n"),
      ElementsAre("9:17 chaos[1].rank is 4; allowed is 0 to ranks - 1 (3), or -1 "
                  "for every rank"));
  EXPECT_THAT(ProblemsOfAddition("evaluation: {every: -1}\n"),
              ElementsAre("7:14 evaluation.every is -1; allowed is 0 and more"));
}

TEST(JobFileProblemsTest, ItemOfAListIsToldAtItsPlace) {
  EXPECT_THAT(Problems("name: a\nmodel: {kind: mlp, hidden: [8,\n  0]}\ndata: {train: t}\n"
                       "steps: 5\noptimizer: {kind: adamw, learning_rate: 1}\n"),
              ElementsAre("3:3 model.hidden[1] is 0; allowed is 1 to 2147483647"));
}

TEST(JobFileProblemsTest, MissingKeyIsToldAtItsGroup) {
  EXPECT_THAT(Problems("name: a\nmodel: resnet18\ndata: {train: t}\nsteps: 5\n"
                       "optimizer: sgd\n"),
              ElementsAre("5:1 optimizer.learning_rate is missing or 0; allowed is more than 0"));
}

TEST(JobFileProblemsTest, AllProblemsAreToldAtOnceInTheOrderOfLines) {
  EXPECT_THAT(Problems("name: A\nranks: 9999\nmodle: resnet18\ndata: {train: t}\nsteps: x\n"
                       "optimizer: {kind: sgd, learning_rate: -1}\n"),
              ElementsAre(HasSubstr("1:1 name is \"A\""), HasSubstr("2:1 ranks is 9999"),
                          HasSubstr("3:1 unknown key \"modle\""), HasSubstr("5:1 steps is"),
                          HasSubstr("6:24 optimizer.learning_rate is -1")));
}

TEST(JobFileProblemsTest, RuleIsNotJudgedByAValueThatIsWrongItself) {
  EXPECT_THAT(Problems("name: a\nranks: x\nmodel: resnet18\ndata: {train: t}\nsteps: 5\n"
                       "optimizer: {kind: sgd, learning_rate: 1}\n"
                       "chaos: [{rank: 3, kind: abort}]\nallow_chaos: true\n"),
              ElementsAre(HasSubstr("2:1 ranks is \"x\"")));
  const std::string session = "name: a\ncommand: [a]\nsession: true\nsteps: 5\n";
  EXPECT_THAT(Problems(session + "ranks: x\nshards: 2\n"),
              ElementsAre(HasSubstr("5:1 ranks is \"x\"")));
  EXPECT_THAT(Problems(session + "ranks: 8\nshards: x\n"
                                 "strategy: {kind: hsgd, ladder: [{period: 2, size: 4}]}\n"),
              ElementsAre(HasSubstr("6:1 shards is \"x\"")));
  EXPECT_THAT(Problems(session + "ranks: x\n"
                                 "strategy: {kind: local_sgd, period: 2, outer: {kind: slowmo}}\n"),
              ElementsAre(HasSubstr("5:1 ranks is \"x\"")));
}

TEST(JobFileProblemsTest, OuterStepsAreOfLevels) {
  const std::string session = "name: a\ncommand: [a]\nsession: true\nsteps: 5\nranks: 8\n";
  EXPECT_THAT(
      Problems(session +
               "strategy: {kind: local_sgd, period: 2, outer: {kind: adam, momentum: 1}}\n"),
      ElementsAre("6:48 strategy.outer.kind is \"adam\"; allowed is nesterov, slowmo",
                  "6:60 strategy.outer.momentum is 1; allowed is 0 <= x < 1"));
  EXPECT_THAT(Problems(session + "strategy: {kind: slipstream, outer: {kind: slowmo}}\n"),
              ElementsAre("6:30 strategy.outer belongs to kind local_sgd; the kind is slipstream"));
}

TEST(JobFileProblemsTest, SyntaxErrorIsToldWithItsPlace) {
  const std::vector<std::string> problems = Problems("name: a\nranks: [1\nsteps: 2\n");
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0], HasSubstr("not YAML: "));
  EXPECT_THAT(problems[0], ::testing::StartsWith("3:"));
}

TEST(JobFileProblemsTest, TabThatIndentsIsNamedAsTheFault) {
  EXPECT_THAT(Problems("name: a\ndata:\n\ttrain: t\n"),
              ElementsAre("3:1 not YAML: a tab indents this line; YAML takes spaces only"));
  EXPECT_THAT(Problems("name: a\n\tranks: 1\n"), ElementsAre(HasSubstr("2:1 not YAML: a tab")));
  EXPECT_THAT(ProblemsOfAddition("seed: 1\t# a tab that does no harm\n"), IsEmpty());
}

TEST(JobFileProblemsTest, BytesThatAreNoTextAreToldWithTheirPlace) {
  EXPECT_THAT(Problems("name: a\ndata: {train: x\xff\x0fy}\n"),
              ElementsAre("2:16 not UTF-8: a byte ff stands here"));
  EXPECT_THAT(Problems("\xc3"), ElementsAre("1:1 not UTF-8: a byte c3 stands here"));
  EXPECT_THAT(ProblemsOfAddition("seed: 1  # gr\xc3\xb6\xc3\x9f"
                                 "er\n"),
              IsEmpty());
}

TEST(JobFileProblemsTest, NumberThatIsTooLargeIsToldSo) {
  EXPECT_THAT(ProblemsOfAddition("seed: 18446744073709551615\n"),
              ElementsAre("7:1 seed is too large; allowed is 0 and more, up to "
                          "9223372036854775807"));
  EXPECT_THAT(
      ProblemsOfAddition("chaos: [{step: 99999999999999999999, kind: exit}]\nallow_chaos: true\n"),
      ElementsAre("7:10 chaos[0].step is too large; allowed is 0 to steps - 1"));
  EXPECT_THAT(ProblemsOfAddition("batch_per_rank: 99999999999999999999\n"),
              ElementsAre("7:1 batch_per_rank is too large; allowed is 1 and more, up to "
                          "2147483647"));
}

TEST(JobFileProblemsTest, FilesThatAreNoJobAreTold) {
  EXPECT_THAT(Problems(""), ElementsAre(HasSubstr("the file is empty")));
  EXPECT_THAT(Problems("- a\n"), ElementsAre(HasSubstr("the file is a list")));
  EXPECT_THAT(Problems("a: 1\n---\nb: 2\n"), ElementsAre(HasSubstr("2:1 a second document")));
  EXPECT_THAT(Problems(",a: 1\n"), ElementsAre("1:1 not YAML: a document cannot begin so"));
  EXPECT_THAT(Problems("[a]: 1\n").at(0), HasSubstr("a key is a list"));
}

TEST(JobFileProblemsTest, ForeignTextInAMessageIsNeutral) {
  EXPECT_THAT(ProblemsOfAddition("\"\\e[2J\": 1\n").at(0), HasSubstr("\"\\x1b[2J\""));
}

TEST(JobFileProblemsTest, MissingFileIsNotFound) {
  EXPECT_EQ(ReadJobFile("/nonexistent/job.yaml").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadJobFile("/").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace paceline
