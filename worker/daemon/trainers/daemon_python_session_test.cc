// Ranks of a session: the job's own program, in which Paceline's engine trains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/daemon/testing/daemon_test.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// What the engine in such a program does, by the environment that it is given.
std::string Engine() {
  return absl::StrCat(std::filesystem::absolute("worker/daemon/testing/fake_trainer").string(),
                      " --dir \"$PACELINE_DIR\" --socket \"$PACELINE_SOCKET\" --ring "
                      "\"$PACELINE_RING\" --log-segment-bytes 1000000000");
}

v1::TrainerPlan SessionPlan(const std::string& script, int64_t steps) {
  v1::TrainerPlan plan = Plan(0, steps);
  v1::JobSpec& spec = *plan.mutable_spec();
  spec.set_session(true);
  spec.set_working_directory("/");
  for (const std::string& word : {std::string("/bin/bash"), std::string("-c"), script}) {
    spec.add_command(word);
  }
  (*spec.mutable_environment())["PATH"] = "/usr/bin:/bin";
  return plan;
}

class PythonSessionTest : public DaemonTest {
 protected:
  void StartWithCommands(const std::string& commands) {
    std::vector<std::string> arguments = Arguments();
    arguments.insert(arguments.end(), {"--commands", commands});
    daemon_ = Spawn(arguments, root_ + "/log");
  }
};

TEST_F(PythonSessionTest, ItReportsAsATrainerDoesFromBelowItsWrapper) {
  StartWithCommands("on");
  const v1::TrainerReport ended = RunOne(
      SessionPlan(absl::StrCat("env > \"$PACELINE_DIR/env\"; pwd; ", Engine(), "; exit $?"), 50));
  EXPECT_EQ(ended.exit().failure(), v1::FAILURE_KIND_UNSPECIFIED) << ended.exit().message();
  EXPECT_EQ(ended.progress().step(), 50);
  EXPECT_EQ(ended.progress().loss(), 0.5);
  EXPECT_EQ(ended.evaluation().accuracy(), 0.75);
  EXPECT_THAT(Contents(OwnDir(0) + "/log/00000000000000000000.log"),
              AllOf(StartsWith("/\nhello from rank 0\n"), HasSubstr("step 49\n")));
  EXPECT_THAT(Contents(OwnDir(0) + "/env"),
              AllOf(HasSubstr("PACELINE_SESSION=1\n"), HasSubstr("PACELINE_ORPHAN_TIMEOUT_S="),
                    HasSubstr(absl::StrCat("PACELINE_DIR=", OwnDir(0), "\n")),
                    HasSubstr("PACELINE_GENERATION=1\n"), Not(HasSubstr("WORLD_SIZE")),
                    Not(HasSubstr("MASTER_")), Not(HasSubstr("TORCHELASTIC_"))));
}

TEST_F(PythonSessionTest, ItRunsBeforeAStoreIsKnownAndOpensItsOwn) {
  StartWithCommands("on");
  v1::TrainerPlan plan = SessionPlan(absl::StrCat("exec ", Engine()), 10);
  plan.clear_store_address();
  controller_->SetPlan(NodePlanOf({plan}));
  const v1::TrainerReport ready = controller_->WaitForReport(AllIn(v1::TRAINER_READY)).trainers(0);
  EXPECT_THAT(ready.store_address(), HasSubstr(":5000/")) << "its secret follows";
  plan.set_store_address(ready.store_address());
  EXPECT_EQ(RunOne(plan).exit().failure(), v1::FAILURE_KIND_UNSPECIFIED);
}

TEST_F(PythonSessionTest, ALaterDaemonTakesItOverAndStopsIt) {
  StartWithCommands("on");
  v1::TrainerPlan plan = SessionPlan(absl::StrCat(Engine(), "; exit $?"), 1000000);
  controller_->SetPlan(NodePlanOf({plan}));
  controller_->WaitForReport(AllBeyond(5));
  End(SIGKILL);
  StartWithCommands("on");
  WaitForLog("trainer_adopted");
  plan.mutable_stop()->set_grace_s(30);
  const v1::TrainerExit exit = RunOne(plan).exit();
  EXPECT_EQ(exit.failure(), v1::FAILURE_KIND_UNSPECIFIED) << exit.message();
  EXPECT_GT(exit.step(), 5);
}

TEST_F(PythonSessionTest, ItsEnginesErrorGoesBeforeWhatIsPrinted) {
  StartWithCommands("on");
  v1::TrainerPlan plan = SessionPlan(
      absl::StrCat(Engine(), "; code=$?; echo 'RuntimeError: printed' >&2; exit $code"), 1000000);
  plan.mutable_spec()->set_allow_chaos(true);
  v1::Fault& fault = *plan.mutable_spec()->add_chaos();
  fault.set_step(12);
  fault.set_kind(v1::THROW);
  const v1::TrainerExit exit = RunOne(plan).exit();
  EXPECT_EQ(exit.failure(), v1::FAILURE_ERROR);
  EXPECT_EQ(exit.message(), "thrown on purpose");
  EXPECT_EQ(exit.step(), 12);
  EXPECT_EQ(exit.phase(), v1::FORWARD);
}

TEST_F(PythonSessionTest, AnErrorBeforeItsEngineRunsIsReadFromItsOutput) {
  StartWithCommands("on");
  const v1::TrainerExit exit =
      RunOne(
          SessionPlan("echo \"ModuleNotFoundError: No module named 'paceline'\" >&2; exit 1", 10))
          .exit();
  EXPECT_EQ(exit.failure(), v1::FAILURE_ERROR);
  EXPECT_EQ(exit.message(), "ModuleNotFoundError: No module named 'paceline'");
}

TEST_F(PythonSessionTest, AProgramThatEndsWithoutAllStepsHasFailed) {
  StartWithCommands("on");
  const v1::TrainerExit exit = RunOne(SessionPlan("exit 0", 10)).exit();
  EXPECT_EQ(exit.failure(), v1::FAILURE_EXIT_CODE);
  EXPECT_THAT(exit.message(), StartsWith("exited with code 0 before it had finished"));
}

TEST_F(PythonSessionTest, ItWaitsForItsCode) {
  StartWithCommands("on");
  v1::TrainerPlan plan = SessionPlan(absl::StrCat("exec ", Engine()), 10);
  plan.mutable_spec()->clear_working_directory();
  plan.mutable_spec()->mutable_code()->set_sha256(std::string(64, 'a'));
  plan.mutable_spec()->mutable_code()->set_bytes(1);
  controller_->SetPlan(NodePlanOf({plan}));
  controller_->WaitForReport(AllIn(v1::TRAINER_STARTING));
  plan.mutable_stop()->set_grace_s(30);
  EXPECT_EQ(RunOne(plan).exit().message(), "stopped on request before it was started");
}

TEST_F(PythonSessionTest, ANodeThatTakesNoCommandsTakesNoSession) {
  StartWithCommands("off");
  const v1::TrainerExit exit = RunOne(SessionPlan("exit 0", 10)).exit();
  EXPECT_EQ(exit.failure(), v1::FAILURE_START);
  EXPECT_EQ(exit.message(), "node node-a takes no commands (--commands off)");
}

// It is native code of the job's, too.
TEST_F(PythonSessionTest, ANodeThatTakesNoCommandsTakesNoCompiledModel) {
  StartWithCommands("off");
  v1::TrainerPlan plan = Plan(0, 10);
  plan.mutable_spec()->mutable_model()->mutable_compiled()->set_file("/m/step.pt2");
  const v1::TrainerExit exit = RunOne(plan).exit();
  EXPECT_EQ(exit.failure(), v1::FAILURE_START);
  EXPECT_EQ(exit.message(), "node node-a takes no commands (--commands off)");
}

}  // namespace
}  // namespace paceline
