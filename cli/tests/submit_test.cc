// `submit` and the output of --follow and --wait, against a controller on a real socket.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/exit_codes.h"
#include "cli/testing/command_test.h"
#include "cli/testing/digits_job.h"
#include "cli/testing/fake_errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class SubmitTest : public CommandTest {
 protected:
  std::string JobFilePath(const std::string& more = "") {
    const std::string path = ::testing::TempDir() + "/" +
                             ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                             ".yaml";
    std::ofstream(path) << "name: digits\nranks: 2\nmodel: resnet18\ndata: {train: t}\n"
                           "steps: 100\noptimizer: {kind: sgd, learning_rate: 0.1}\n"
                        << more;
    return path;
  }
};

TEST_F(SubmitTest, SubmitSendsTheSpecAndTellsTheId) {
  const Ran ran = Paceline({"submit", JobFilePath()});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "submitted digits (job-0123456789ab)\n");
  EXPECT_THAT(ran.err, HasSubstr("paceline job watch job-0123456789ab"));
  ASSERT_THAT(controller_.submits(), SizeIs(1));
  const v1::SubmitJobRequest request = controller_.submits()[0];
  EXPECT_EQ(request.spec().batch_per_rank(), 32);
  EXPECT_THAT(request.request_id(), SizeIs(36));
  EXPECT_FALSE(request.validate_only());
}

TEST_F(SubmitTest, SubmitTellsWhatWritesTheJobsCurves) {
  const Ran ran = Paceline({"submit", JobFilePath("tracker: {tensorboard: {directory: tb}}\n")});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("python3 -m paceline.track job-0123456789ab"));
  ASSERT_THAT(controller_.submits(), SizeIs(1));
  const std::string directory = controller_.submits()[0].spec().tracker().tensorboard().directory();
  EXPECT_THAT(directory, StartsWith("/"));
  EXPECT_THAT(Paceline({"submit", JobFilePath()}).err, Not(HasSubstr("paceline.track")));
}

TEST_F(SubmitTest, PathsOfTheCommandLineAreMeantAsTheyAreWritten) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"submit", "~/job.yaml"},
        {"submit", JobFilePath(), "--from-weights=~/w.pt"},
        {"submit", JobFilePath(), "--from", "$HOME/ckpt"},
        {"job", "resume", "digits", "--from=~/ckpt"},
        {"checkpoint", "verify", "~/ckpt"},
        {"checkpoint", "export", "digits", "--to=~/out"},
        {"pki", "init", "~/pki"},
        {"dev", "up", "--dir=~/dev"},
        {"data", "import-digits", "--out=~/data"},
        {"--tls-dir=~/tls", "job", "list"},
        {"admin", "backup", "$HOME/state"},
        {"diag", "--out=~/diag.txt"}}) {
    const Ran ran = Paceline(arguments);
    EXPECT_EQ(ran.exit, kCliUsage) << arguments.back();
    EXPECT_THAT(ran.err, HasSubstr("is not replaced here")) << arguments.back();
  }
  EXPECT_THAT(controller_.submits(), SizeIs(0));
}

TEST_F(SubmitTest, WhatIsNotOnThisMachineIsToldAndSubmittedAllTheSame) {
  const std::string path = JobFilePath();
  const std::string data =
      std::filesystem::path(::testing::TempDir() + "/t").lexically_normal().string();
  unlink(data.c_str());
  const std::string warning =
      absl::StrCat("warning: data.train: ", data, " is not on this machine");
  const Ran missing = Paceline({"submit", path});
  EXPECT_EQ(missing.exit, kCliOk);
  EXPECT_THAT(missing.err, HasSubstr(warning));
  EXPECT_THAT(Paceline({"submit", path, "--dry-run"}).err, HasSubstr(warning));
  EXPECT_EQ(Paceline({"submit", path, "-q"}).err, "");
  std::ofstream(data) << "x";
  EXPECT_THAT(Paceline({"submit", path}).err, Not(HasSubstr("warning")));
  unlink(data.c_str());
}

TEST_F(SubmitTest, ParsableSubmitPrintsOnlyTheId) {
  const Ran ran = Paceline({"submit", JobFilePath(), "--parsable", "--request-id", "r-1"});
  EXPECT_EQ(ran.out, "job-0123456789ab\n");
  EXPECT_EQ(controller_.submits().at(0).request_id(), "r-1");
}

TEST_F(SubmitTest, WrongJobFileIsToldAndNothingIsSent) {
  const std::string path = JobFilePath("btach_per_rank: 4\nseed: -1\n");
  const Ran ran = Paceline({"submit", path});
  EXPECT_EQ(ran.exit, kCliUsage);
  EXPECT_EQ(ran.err, absl::StrCat("error: ", path, " has 2 problems\n  ", path,
                                  ":7:1: unknown key \"btach_per_rank\"; did you mean "
                                  "\"batch_per_rank\"?\n  ",
                                  path, ":8:1: seed is -1; allowed is 0 and more\n"));
  EXPECT_THAT(controller_.submits(), IsEmpty());
}

TEST_F(SubmitTest, DryRunAsksAndPrintsTheWholeSpec) {
  const Ran ran = Paceline({"submit", JobFilePath(), "--dry-run"});
  EXPECT_EQ(ran.exit, kCliOk);
  EXPECT_TRUE(controller_.submits().at(0).validate_only());
  EXPECT_THAT(ran.out, HasSubstr("batch_per_rank: 32\n"));
  EXPECT_THAT(ran.err, HasSubstr("nothing was submitted"));
}

TEST_F(SubmitTest, FieldThatTheServerRefusesIsToldAtItsLine) {
  controller_.FailNext(Invalid("optimizer.sgd.momentum", "is odd"));
  const std::string path = JobFilePath();
  const Ran ran = Paceline({"submit", path});
  EXPECT_EQ(ran.exit, kCliUsage);
  EXPECT_THAT(ran.err, HasSubstr(path + ":6:1: optimizer.momentum is odd\n"));
}

TEST_F(SubmitTest, JobThatCannotFitIsRefusedWithAdvice) {
  controller_.FailNext(Refused("4 ranks need 4 slots; the cluster has 2", "JOB_CANNOT_FIT"));
  const Ran ran = Paceline({"submit", JobFilePath()});
  EXPECT_EQ(ran.exit, kCliRefused);
  EXPECT_THAT(ran.err, StartsWith("error: 4 ranks need 4 slots; the cluster has 2\n"));
  EXPECT_THAT(ran.err, HasSubstr("paceline node list"));
}

TEST_F(SubmitTest, SubmitIsTriedAgainWithTheSameRequestId) {
  controller_.FailNext(Lost());
  const Ran ran = Paceline({"submit", JobFilePath()});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  ASSERT_THAT(controller_.submits(), SizeIs(2));
  EXPECT_EQ(controller_.submits()[0].request_id(), controller_.submits()[1].request_id());
}

TEST_F(SubmitTest, FollowEndsWithASummary) {
  controller_.AddWatch({{Event(JobIn(v1::QUEUED, 1)), Event(JobIn(v1::RUNNING, 2, 50)),
                         Event(JobIn(v1::SUCCEEDED, 3, 100))},
                        std::nullopt});
  const Ran ran = Paceline({"submit", JobFilePath(), "--follow"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out,
            "submitted digits (job-0123456789ab)\n"
            "digits QUEUED\n"
            "digits RUNNING step 50/100 loss 0.5000 800 samples/s eta 2.0 s\n"
            "digits SUCCEEDED step 100/100 loss 0.5000 800 samples/s\n"
            "digits (job-0123456789ab) SUCCEEDED: 100 of 100 steps, 800 samples/s\n"
            "  weights: not kept, as the job file has neither checkpoint.directory nor "
            "export_final\n"
            "next: paceline job describe job-0123456789ab\n"
            "      paceline job logs job-0123456789ab\n");
  EXPECT_THAT(ran.err, HasSubstr("the weights will not be kept: the job file has neither"));
}

TEST_F(SubmitTest, FollowDrawsABarOnATerminalAndTakesItAwayAtTheEnd) {
  controller_.AddWatch(
      {{Event(JobIn(v1::RUNNING, 2, 50)), Event(JobIn(v1::SUCCEEDED, 3, 100))}, std::nullopt});
  const Ran ran = Paceline({"submit", JobFilePath(), "--follow", "--no-color"}, /*terminal=*/true);
  EXPECT_THAT(ran.out, HasSubstr("\rdigits  [==============>"));
  EXPECT_THAT(ran.out, HasSubstr("\r\x1b[Kdigits (job-0123456789ab) SUCCEEDED"));
  EXPECT_THAT(ran.out, Not(HasSubstr("\x1b[32m")));
}

TEST_F(SubmitTest, FailedJobIsTheExitCodeAndItsFailureIsShown) {
  v1::Job failed = JobIn(v1::FAILED, 3, 60);
  failed.mutable_failure()->set_rank(1);
  failed.mutable_failure()->set_node("w1");
  failed.mutable_failure()->mutable_exit()->set_failure(v1::FAILURE_SIGNAL);
  failed.mutable_failure()->mutable_exit()->set_signal(9);
  controller_.AddWatch({{Event(failed)}, std::nullopt});
  const Ran ran = Paceline({"submit", JobFilePath(), "--wait"});
  EXPECT_EQ(ran.exit, kCliFailed);
  EXPECT_THAT(ran.out, HasSubstr("rank 1 on node w1 failed: killed by SIGKILL\n"));
}

TEST_F(SubmitTest, CtrlCLeavesTheJobAloneAndTellsHowToComeBack) {
  controller_.AddWatch({{Event(JobIn(v1::RUNNING, 5, 10))}, std::nullopt});
  controller_.OnWatchIdle([this] { interrupt_.Raise(); });
  const Ran ran = Paceline({"submit", JobFilePath(), "--follow"});
  EXPECT_EQ(ran.exit, kCliInterrupted);
  EXPECT_THAT(ran.err, HasSubstr("job-0123456789ab goes on. `paceline job watch "
                                 "job-0123456789ab` follows it again"));
  EXPECT_THAT(controller_.cancels(), IsEmpty());
}

TEST_F(SubmitTest, CodeIsSentWhenTheControllerDoesNotHaveIt) {
  const std::string folder =
      (std::filesystem::path(::testing::TempDir()) / "shipped").lexically_normal().string();
  std::filesystem::create_directories(folder);
  const std::string script(1'500'000, '#');
  std::ofstream(folder + "/train.py") << script;
  std::ofstream(folder + "/.pacelineignore") << "*.yaml\n";
  std::ofstream(folder + "/job.yaml") << "name: own\ncommand: [python3, train.py]\n";
  const std::string missing = "it does not have the code";
  controller_.FailNext(Refused(missing, "CODE_NOT_FOUND"));
  const Ran ran = Paceline({"submit", "--ship", folder + "/job.yaml"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("with the job travel 2 files, 1.4 MiB of " + folder));
  ASSERT_THAT(controller_.submits(), SizeIs(2));
  const v1::JobSpec spec = controller_.submits()[1].spec();
  EXPECT_EQ(controller_.submits()[0].SerializeAsString(),
            controller_.submits()[1].SerializeAsString());
  EXPECT_EQ(spec.working_directory(), "");
  EXPECT_EQ(spec.code().bytes(), static_cast<int64_t>(controller_.code().size()));
  EXPECT_THAT(controller_.code(), HasSubstr(script));
  // The controller has it now.
  EXPECT_EQ(Paceline({"submit", "--ship", folder + "/job.yaml"}).exit, kCliOk);
  EXPECT_EQ(spec.code().bytes(), static_cast<int64_t>(controller_.code().size()));
}

TEST_F(SubmitTest, WhatTheCommandNamesTravels) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/left-behind");
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/train.py") << "x";
  std::ofstream(folder + "/.pacelineignore") << "train.py\n";
  std::ofstream(folder + "/job.yaml") << "name: own\ncommand: [python3, ./train.py]\n";
  const Ran ran = Paceline({"submit", "--ship", folder + "/job.yaml"});
  EXPECT_NE(ran.exit, kCliOk);
  EXPECT_THAT(ran.err, HasSubstr("the command names train.py, which would not travel"));
  const Ran model = Paceline({"submit", "--ship", JobFilePath()});
  EXPECT_NE(model.exit, kCliOk);
  EXPECT_THAT(model.err, HasSubstr("--ship goes with a command"));
  EXPECT_THAT(controller_.submits(), IsEmpty());
}

}  // namespace
}  // namespace paceline
