// A user's script as the ranks of a job, in real processes: what becomes of it when ranks are lost,
// restarted, and when the script itself fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "python/tests/session_fixture.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/testing/fake_daemon.h"

namespace paceline {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

using SessionTest = SessionFixture;

constexpr char kNesterov[] = "kind: OUTER_NESTEROV learning_rate: 0.7 momentum: 0.9 ";
constexpr char kStreams[] = "fragments: 2 delay: 1 alpha: 0.5 ";

// Changes: averages over all ranks by a level with these keys.
std::string Ladder(const std::string& level, int gradient_group_size = 1) {
  return absl::StrCat("strategy { gradient_group_size: ", gradient_group_size, " hsgd { ladder { ",
                      level, " } } } ");
}

std::string Outer(const std::string& keys = "") {
  return absl::StrCat("outer { ", kNesterov, keys, "} ");
}

// A model of 7,675 parameters, which are 15 rows of 512: without fractions for three ranks.
constexpr char kWidthOfWholeRows[] = "548";

// What rank 0 has sent in its means of gradients, or of parameters.
v1::LevelFigures SentFor(const FakeDaemon& daemon, bool gradients) {
  for (const v1::LevelFigures& level : daemon.status(0).figures().levels()) {
    if (level.gradients() == gradients) return level;
  }
  return v1::LevelFigures();
}

// What a trainer's script has reported: "name value of step".
std::vector<std::string> Reported(const FakeDaemon& daemon, int number) {
  std::vector<std::string> reported;
  for (const v1::ReportedNumber& one : daemon.status(number).figures().reported()) {
    reported.push_back(absl::StrCat(one.name(), " ", one.value(), " of ", one.step()));
  }
  return reported;
}

TEST_F(SessionTest, TrainsAndReportsLikeATrainer) {
  const auto daemon = RunUndisturbedSession(2, "evaluation { every: 10 } ");
  EXPECT_EQ(daemon->status(0).figures().step(), 24);
  EXPECT_GT(daemon->status(0).figures().samples_per_s(), 0);
  EXPECT_EQ(daemon->status(0).figures().flops_source(), v1::FLOPS_COUNTED);
  EXPECT_GT(daemon->status(0).figures().flops_per_sample(), 0);
  EXPECT_GT(daemon->status(0).figures().flops_per_s(), 0);
  EXPECT_EQ(daemon->status(0).evaluation().step(), 24);
  EXPECT_EQ(daemon->status(0).state(), v1::TRAINER_FINISHED);
  EXPECT_EQ(Losses(*daemon, 0).size(), 24U);
  EXPECT_THAT(daemon->Log(0), HasSubstr("the script has ended"));
}

TEST_F(SessionTest, ALoopMayBeLeftBehindTheLastStep) {
  setenv("HABITS", "break", 1);
  const auto daemon = RunUndisturbedSession(2, "evaluation { every: 10 } ");
  EXPECT_EQ(daemon->status(0).evaluation().step(), 24);
  EXPECT_EQ(daemon->status(0).state(), v1::TRAINER_FINISHED);
  unsetenv("HABITS");
}

TEST_F(SessionTest, ASpareTakesOverInAnyPhaseOfAStep) {
  DieAndCompare({"forward 0", "begin 4", "forward 7", "backward 10", "before_update 13",
                 "updated 16", "end 19", "updated 22"});
}

TEST_F(SessionTest, ASpareTakesOverInAnEvaluation) {
  DieAndCompare({"evaluation 0"}, "evaluation { every: 6 } ");
}

TEST_F(SessionTest, PlainCallsOfTorchAreTheSteps) {
  setenv("HABITS", "plain", 1);
  DieAndCompare({"backward 9", "updated 15"});
  unsetenv("HABITS");
}

TEST_F(SessionTest, ErrorsThatTheScriptSwallowsEndAStepAllTheSame) {
  setenv("HABITS", "swallow", 1);
  DieAndCompare({"backward 9", "before_update 15"});
  unsetenv("HABITS");
}

TEST_F(SessionTest, RandomNumbersOfTheDataAreTheTrainings) {
  for (const char* habit : {"augment", "draw", "draw_by_step"}) {
    setenv("HABITS", habit, 1);
    DieAndCompare({"backward 11"}, "accumulation_steps: 2 ");
  }
  unsetenv("HABITS");
}

TEST_F(SessionTest, AStepMayLeaveParametersOut) {
  setenv("HABITS", "unused", 1);
  DieAndCompare({"backward 9", "backward 16"});  // With them, and without.
  unsetenv("HABITS");
}

TEST_F(SessionTest, ALostRankCutsCollectivesOfTheScript) {
  setenv("HABITS", "group", 1);
  DieAndCompare({"collective 0", "begin 6", "collective 11", "updated 16"});
  unsetenv("HABITS");
}

// So that it is not taken for the rank that hangs.
TEST_F(SessionTest, ARankThatWaitsInACollectiveOfTheScriptShowsIt) {
  setenv("HABITS", "group", 1);
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(2, "out", "", "collective 11 1 wait"));
  WaitForSteps(*daemon, 0, 11);
  const absl::StatusOr<StepRingReader> waits = StepRingReader::Open(daemon->RingPath(0));
  const absl::StatusOr<StepRingReader> hangs = StepRingReader::Open(daemon->RingPath(1));
  ASSERT_TRUE(waits.ok() && hangs.ok()) << waits.status() << " " << hangs.status();
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  const auto is_shown = [&] {
    return waits->Live().step == 11 && waits->Live().phase == Phase::kCommunication &&
           hangs->Live().step == 11 && hangs->Live().phase == Phase::kForward;
  };
  while (!is_shown() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_TRUE(is_shown()) << PhaseName(waits->Live().phase) << " "
                          << PhaseName(hangs->Live().phase);
  for (const int rank : {0, 1}) daemon->Signal(rank, SIGKILL);
  for (const int rank : {0, 1}) WaitForEnd(*daemon, rank);
  unsetenv("HABITS");
}

TEST_F(SessionTest, AGroupOfTheScriptNeedsRanksAtTheSameStep) {
  setenv("HABITS", "group", 1);
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(2, "failed", "strategy { hsgd { ladder { period: 3 size: 2 } } } "));
  WaitForEnd(*daemon, 0);
  EXPECT_THAT(daemon->LastWords(0).error().message(),
              HasSubstr("run.process_group needs `strategy: ddp`"));
  unsetenv("HABITS");
}

TEST_F(SessionTest, AChildOfTheScriptEndsByItself) {
  const auto plain = RunUndisturbedSession(2, "");
  setenv("HABITS", "fork", 1);
  const auto daemon = RunJob(SessionSpec(2, "disturbed", ""));
  ExpectSame(*plain, *daemon, {0, 1}, "disturbed");
  unsetenv("HABITS");
}

TEST_F(SessionTest, NumbersOfTheScriptCountOnceTheirStepDoes) {
  setenv("HABITS", "group report", 1);
  const auto undisturbed = RunUndisturbedSession(3, "");
  EXPECT_THAT(Reported(*undisturbed, 0),
              UnorderedElementsAre("newest 23 of 24", "first_try 9 of 10"));
  // By then, all ranks have reported in their first try of step 9, as they have met in it.
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(3, "disturbed", "", "backward 9 1 kill", 1));
  WaitUntilReady(*daemon, 3);
  WaitForEnd(*daemon, 1);
  daemon->SetMembers({{0, 3, 2}});
  WaitForSuccess(*daemon, {0, 3, 2});
  for (const int survivor : {0, 2}) {
    EXPECT_THAT(Reported(*daemon, survivor),
                UnorderedElementsAre("newest 23 of 24", "first_try 8 of 9"));
  }
  EXPECT_THAT(Reported(*daemon, 3), UnorderedElementsAre("newest 23 of 24", "first_try 9 of 10"));
  unsetenv("HABITS");
}

TEST_F(SessionTest, WhatTheScriptHasMadeIsToldWithItsHash) {
  setenv("HABITS", "artifact", 1);
  const auto daemon = RunUndisturbedSession(1, "");
  const v1::TrainerStatus status = daemon->status(0);
  ASSERT_EQ(status.artifacts_size(), 2);
  const v1::Artifact& model = status.artifacts(0);
  EXPECT_EQ(model.name(), "model");
  EXPECT_THAT(model.path(), HasSubstr("/model.rank0"));
  EXPECT_FALSE(model.directory());
  EXPECT_GT(model.bytes(), 0);
  EXPECT_EQ(model.sha256().size(), 64U);
  EXPECT_EQ(model.step(), 24);
  EXPECT_EQ(model.error(), "");
  EXPECT_TRUE(status.artifacts(1).directory());
  EXPECT_GT(status.artifacts(1).bytes(), model.bytes());
  EXPECT_EQ(status.artifacts(1).sha256().size(), 64U);
  unsetenv("HABITS");
}

TEST_F(SessionTest, SavesWhenTheScriptAsks) {
  setenv("HABITS", "save", 1);
  const auto undisturbed = RunUndisturbedSession(
      3, absl::StrCat("checkpoint { directory: '", directory_, "/checkpoints' at_end: false } "));
  const std::string saved =
      absl::StrCat(directory_, "/checkpoints/", FakeDaemon::JobId(), "/", CheckpointName({7, 1}));
  unsetenv("HABITS");
  const v1::JobSpec spec = SessionSpec(3, "resumed", "");
  const auto daemon = MakeDaemon();
  daemon->Launch(spec, /*generation=*/2, saved);
  ASSERT_TRUE(daemon->Serve()) << daemon->Log(0);
  ExpectSame(*undisturbed, *daemon, {0, 1, 2}, "resumed");
  EXPECT_EQ(Losses(*daemon, 0).begin()->first, 8);
}

// Each pair shares its gradients, so a newcomer gets all that the lost rank had: point and
// momentum, and what was given to an average under way. Averages are those of steps 0, 4, 8, …, and
// streamed those of 0, 2, 4, …, which are taken up one step later.
TEST_F(SessionTest, OuterStepsGoOnExactlyWhenARankIsLost) {
  for (const char* keys : {"", kStreams}) {
    DieAndCompare({"forward 3", "updated 8", "backward 13", "updated 16"},
                  Ladder("period: 4 size: 4 " + Outer(keys), /*gradient_group_size=*/2),
                  /*ranks=*/4);
  }
}

TEST_F(SessionTest, GradientsTravelInShorterFormats) {
  setenv("WIDTH", kWidthOfWholeRows, 1);
  const auto whole = RunUndisturbedSession(3, "");
  const auto of_whole = static_cast<double>(SentFor(*whole, /*gradients=*/true).bytes());
  ASSERT_GT(of_whole, 0);
  for (const auto& [format, share] : std::vector<std::pair<std::string, double>>{
           {"FP16", 0.5}, {"BF16", 0.5}, {"INT8", 0.25}, {"FP8", 0.25}}) {
    SCOPED_TRACE(format);
    const std::string changes =
        absl::StrCat("gradient_format: WIRE_FORMAT_", format, " evaluation { every: 24 } ");
    const auto daemon = RunUndisturbedSession(3, changes);
    ExpectOneModel("undisturbed", 3);
    EXPECT_TRUE(Losses(*daemon, 0) != Losses(*whole, 0)) << "nothing was rounded";
    EXPECT_GT(daemon->status(0).evaluation().accuracy(), 0.5);
    const v1::LevelFigures sent = SentFor(*daemon, /*gradients=*/true);
    EXPECT_EQ(sent.count(), 24);
    EXPECT_NEAR(static_cast<double>(sent.bytes()) / of_whole, share, 0.005);
  }
  unsetenv("WIDTH");
}

// A newcomer has nothing to send yet of what was rounded: the means are others, and those of all.
TEST_F(SessionTest, RanksStayEqualWithQuantisedGradientsWhenOneIsLost) {
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(3, "disturbed",
                             "gradient_format: WIRE_FORMAT_INT8 evaluation { every: 24 } ",
                             "backward 9 1 kill,updated 15 0 kill", /*spares=*/2));
  for (const int spare : {3, 4}) WaitUntilReady(*daemon, spare);
  WaitForEnd(*daemon, 1);
  daemon->SetMembers({{0, 3, 2}});
  WaitForEnd(*daemon, 0);
  daemon->SetMembers({{4, 3, 2}});
  WaitForSuccess(*daemon, {4, 3, 2});
  ExpectOneModel("disturbed", 3);
  EXPECT_GT(daemon->status(4).evaluation().accuracy(), 0.5);
}

TEST_F(SessionTest, AveragesTravelInShorterFormats) {
  struct Case {
    const char* format;
    const char* ladder;  // As the log has it.
    double share;
    bool outer;
  };
  setenv("WIDTH", kWidthOfWholeRows, 1);
  double of_whole = 0;
  for (const Case& one :
       {Case{"FP32", "3:3", 1, false}, Case{"FP16", "3:3:fp16", 0.5, false},
        Case{"BF16", "3:3:bf16", 0.5, false}, Case{"INT8", "3:3:int8", 0.25, false},
        Case{"FP8", "3:3:fp8", 0.25, false}, Case{"INT8", "3:3:int8:nesterov", 0.25, true},
        Case{"FP8", "3:3:fp8:nesterov", 0.25, true},
        Case{"INT4", "3:3:int4:nesterov", 0.125, true}}) {
    SCOPED_TRACE(one.ladder);
    const std::string level =
        absl::StrCat("period: 3 size: 3 format: WIRE_FORMAT_", one.format, " ");
    const auto daemon = RunUndisturbedSession(
        3, Ladder(level + (one.outer ? Outer() : std::string())) + "evaluation { every: 24 } ");
    EXPECT_THAT(daemon->Log(0), HasSubstr(absl::StrCat("ladder=", one.ladder, "\n")));
    ExpectOneModel("undisturbed", 3);
    EXPECT_GT(daemon->status(0).evaluation().accuracy(), 0.5);
    const v1::LevelFigures sent = SentFor(*daemon, /*gradients=*/false);
    EXPECT_EQ(sent.count(), 8) << "after steps 0, 3, ... 21";
    if (of_whole == 0) of_whole = static_cast<double>(sent.bytes());
    EXPECT_NEAR(static_cast<double>(sent.bytes()) / of_whole, one.share, 0.005);
  }
  unsetenv("WIDTH");
}

TEST_F(SessionTest, ASaveNeedsADirectory) {
  setenv("HABITS", "save", 1);
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(1, "failed", ""));
  WaitForEnd(*daemon, 0);
  EXPECT_THAT(daemon->LastWords(0).error().message(),
              HasSubstr("run.save() needs `checkpoint: {directory: ...}`"));
  unsetenv("HABITS");
}

TEST_F(SessionTest, LeavesAloneWhatIsTheScripts) {
  setenv("WORKERS", "2", 1);
  const auto undisturbed = RunUndisturbedSession(3, "");
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(3, "disturbed", "", "backward 11 1 kill", 1));
  WaitUntilReady(*daemon, 3);
  WaitForEnd(*daemon, 1);
  daemon->SetMembers({{0, 3, 2}});
  WaitForSuccess(*daemon, {0, 3, 2});
  ExpectSame(*undisturbed, *daemon, {0, 3, 2}, "disturbed");
  for (const int number : {0, 2, 3}) {
    EXPECT_THAT(daemon->Log(number), HasSubstr("the connection answers ping"));
  }
  unsetenv("WORKERS");
}

TEST_F(SessionTest, GoesOnExactlyFromACheckpoint) {
  const std::string saves =
      absl::StrCat("checkpoint { directory: '", directory_,
                   "/checkpoints' every_steps: 1 at_end: false when_busy: WHEN_BUSY_WAIT } ");
  struct Case {
    std::string strategy;
    int64_t step;  // After which all ranks save.
  };
  // Rounding errors, point and momentum go on, and parameters of each rank's own.
  const std::string four = "period: 4 size: 3 ";
  for (const auto& [strategy, step] :
       {Case{"", 12},
        Case{"strategy { hsgd { ladder { period: 3 size: 3 } } } evaluation { every: 6 } ", 13},
        Case{"gradient_format: WIRE_FORMAT_INT8 ", 12},
        Case{Ladder(four + "format: WIRE_FORMAT_INT8 " + Outer()), 13},
        Case{Ladder(four + Outer(kStreams)), 14}}) {
    SCOPED_TRACE(strategy);
    std::filesystem::remove_all(directory_ + "/checkpoints");
    const auto undisturbed = RunUndisturbedSession(3, absl::StrCat(saves, strategy));
    const v1::JobSpec spec = SessionSpec(3, "resumed", strategy);
    const auto daemon = MakeDaemon();
    daemon->Launch(spec, /*generation=*/2,
                   absl::StrCat(directory_, "/checkpoints/", FakeDaemon::JobId(), "/",
                                CheckpointName({step, 1})));
    ASSERT_TRUE(daemon->Serve()) << daemon->Log(0);
    ExpectSame(*undisturbed, *daemon, {0, 1, 2}, "resumed");
    EXPECT_EQ(Losses(*daemon, 0).begin()->first, step + 1);
  }
}

TEST_F(SessionTest, ALoaderThatTellsItsPositionGoesOnThere) {
  setenv("HABITS", "own", 1);
  // Data ends with step 15, and begins anew.
  DieAndCompare({"forward 5", "backward 11", "updated 13", "backward 16"});
  const auto undisturbed =
      RunUndisturbedSession(3, absl::StrCat("checkpoint { directory: '", directory_,
                                            "/checkpoints' every_steps: 12 at_end: false } "));
  const v1::JobSpec spec = SessionSpec(3, "resumed", "");
  const auto daemon = MakeDaemon();
  daemon->Launch(
      spec, /*generation=*/2,
      absl::StrCat(directory_, "/checkpoints/", FakeDaemon::JobId(), "/", CheckpointName({12, 1})));
  ASSERT_TRUE(daemon->Serve()) << daemon->Log(0);
  ExpectSame(*undisturbed, *daemon, {0, 1, 2}, "resumed");
  unsetenv("HABITS");
}

TEST_F(SessionTest, GoesOnWithFewerRanks) {
  const std::string saves =
      absl::StrCat("checkpoint { directory: '", directory_, "/checkpoints' every_steps: 12 } ");
  RunUndisturbedSession(3, saves);
  const auto daemon = MakeDaemon();
  daemon->Launch(
      SessionSpec(2, "resumed", ""), /*generation=*/2,
      absl::StrCat(directory_, "/checkpoints/", FakeDaemon::JobId(), "/", CheckpointName({12, 1})));
  ASSERT_TRUE(daemon->Serve()) << daemon->Log(0);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(daemon->exit_code(rank), 0) << daemon->Log(rank);
    EXPECT_EQ(Losses(*daemon, rank).size(), 12U);
  }
}

TEST_F(SessionTest, AMistakeOfTheScriptIsItsOwn) {
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(2, "failed", "", "forward 5 1 raise"));
  WaitForEnd(*daemon, 1);
  EXPECT_EQ(daemon->exit_code(1), 1);
  EXPECT_EQ(daemon->LastWords(1).error().kind(), v1::FAILURE_ERROR);
  EXPECT_EQ(daemon->LastWords(1).error().message(), "ValueError: a mistake of the script");
  EXPECT_THAT(daemon->Log(1), HasSubstr("in die"));
}

TEST_F(SessionTest, AScriptThatLeavesIsNotFinished) {
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(2, "failed", "", "end 5 1 exit"));
  WaitForEnd(*daemon, 1);
  EXPECT_EQ(daemon->LastWords(1).error().message(), "the script ended before its training did");
}

TEST_F(SessionTest, AScriptThatExitsInAStepSaysSo) {
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(2, "failed", "", "forward 5 1 exit"));
  WaitForEnd(*daemon, 1);
  EXPECT_EQ(daemon->exit_code(1), 3);
  EXPECT_EQ(daemon->LastWords(1).error().message(),
            "the script has called sys.exit(3) before its training was done");
}

// Here no engine finds a GPU, as CUDA_VISIBLE_DEVICES hides any that exist.
TEST_F(SessionTest, AnEngineThatFindsNoGpuSaysSo) {
  setenv("CUDA_VISIBLE_DEVICES", "", /*overwrite=*/1);
  server_.clear();  // It has loaded the engine for CPUs, and a process has one.
  for (const char* engine : {"cpu", "cuda"}) {
    SCOPED_TRACE(engine);
    setenv("PACELINE_DEVICE", engine, 1);
    const auto daemon = MakeDaemon();
    daemon->Launch(SessionSpec(1, "failed", "device: CUDA "));
    WaitForEnd(*daemon, 0);
    EXPECT_EQ(daemon->exit_code(0), 1) << daemon->Log(0);
    const v1::TrainerError error = daemon->LastWords(0).error();
    EXPECT_EQ(error.kind(), v1::FAILURE_INPUT);
    EXPECT_THAT(error.message(),
                HasSubstr(engine == std::string("cpu") ? "the job asks for CUDA"
                                                       : "this node has 0 usable ones"));
  }
  unsetenv("CUDA_VISIBLE_DEVICES");
  unsetenv("PACELINE_DEVICE");
}

TEST_F(SessionTest, StopsWhenAsked) {
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(2, "stopped", "steps: 1000000 "));
  WaitForSteps(*daemon, 0, 5);
  for (const int rank : {0, 1}) daemon->Stop(rank);
  for (const int rank : {0, 1}) {
    WaitForEnd(*daemon, rank);
    EXPECT_EQ(daemon->exit_code(rank), 0) << daemon->Log(rank);
    EXPECT_THAT(daemon->Log(rank), HasSubstr("the script has ended"));
  }
}

}  // namespace
}  // namespace paceline
