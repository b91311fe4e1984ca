#include "worker/daemon/core/trainer_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace paceline {
namespace {

using ::testing::HasSubstr;

constexpr bool kStopRequested = true;

ProcessEnd Exited(int code) { return {code, 0, false, ""}; }
ProcessEnd Signalled(int signal) { return {0, signal, false, ""}; }
const LastWords kSilent;
const LastWords kFinished{true, FailureKind::kNone, ""};

TEST(TrainerEndTest, FinishedTrainerDidNotFail) {
  EXPECT_EQ(JudgeEnd(Exited(0), kFinished, false).failure, FailureKind::kNone);
  EXPECT_EQ(JudgeEnd(std::nullopt, kFinished, false).failure, FailureKind::kNone);
}

TEST(TrainerEndTest, ExitZeroBeforeTheLastStepIsAFailure) {
  EXPECT_EQ(JudgeEnd(Exited(0), kSilent, false).failure, FailureKind::kExitCode);
}

TEST(TrainerEndTest, WhatFollowsFromAStopIsNoFailure) {
  EXPECT_EQ(JudgeEnd(Exited(0), kSilent, kStopRequested).failure, FailureKind::kNone);
  EXPECT_EQ(JudgeEnd(Signalled(SIGKILL), kSilent, kStopRequested).failure, FailureKind::kNone);
  EXPECT_EQ(JudgeEnd(Exited(128 + SIGTERM), kSilent, kStopRequested).failure, FailureKind::kNone);
  EXPECT_EQ(JudgeEnd(std::nullopt, kSilent, kStopRequested).failure, FailureKind::kNone);
  const LastWords collective{false, FailureKind::kCollective, "peer gone"};
  EXPECT_EQ(JudgeEnd(Exited(1), collective, kStopRequested).failure, FailureKind::kNone);
}

TEST(TrainerEndTest, OwnFailureThatWasOnItsWayWhenTheStopCameIsStillTold) {
  const LastWords error{false, FailureKind::kOutOfMemory, "no memory"};
  EXPECT_EQ(JudgeEnd(Exited(1), error, kStopRequested).failure, FailureKind::kOutOfMemory);
  EXPECT_EQ(JudgeEnd(std::nullopt, error, kStopRequested).failure, FailureKind::kOutOfMemory);
  EXPECT_EQ(JudgeEnd(Exited(42), kSilent, kStopRequested).failure, FailureKind::kExitCode);
  EXPECT_EQ(JudgeEnd(Signalled(SIGABRT), kSilent, kStopRequested).failure, FailureKind::kSignal);
}

TEST(TrainerEndTest, SignalIsNamed) {
  const TrainerEnd end = JudgeEnd(Signalled(SIGSEGV), kSilent, false);
  EXPECT_EQ(end.failure, FailureKind::kSignal);
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_THAT(end.message, HasSubstr("SIGSEGV"));
}

TEST(TrainerEndTest, KillByTheKernelForMemoryIsToldFromOtherKills) {
  const ProcessEnd killed{0, SIGKILL, true, ""};
  EXPECT_EQ(JudgeEnd(killed, kSilent, false).failure, FailureKind::kOutOfMemory);
  EXPECT_EQ(JudgeEnd(Signalled(SIGKILL), kSilent, false).failure, FailureKind::kSignal);
}

TEST(TrainerEndTest, LastWordsSayMoreThanTheExitCode) {
  const LastWords words{false, FailureKind::kInput, "no such file"};
  for (const TrainerEnd& end :
       {JudgeEnd(Exited(1), words, false), JudgeEnd(std::nullopt, words, false)}) {
    EXPECT_EQ(end.failure, FailureKind::kInput);
    EXPECT_EQ(end.message, "no such file");
  }
}

TEST(TrainerEndTest, ExitCodeWithoutAWord) {
  const TrainerEnd end = JudgeEnd(Exited(42), kSilent, false);
  EXPECT_EQ(end.failure, FailureKind::kExitCode);
  EXPECT_EQ(end.exit_code, 42);
}

TEST(TrainerEndTest, StartErrorIsToldEvenWhenStopped) {
  const ProcessEnd never{0, 0, false, "cannot start x"};
  EXPECT_EQ(JudgeEnd(never, kSilent, false).failure, FailureKind::kStart);
  ProcessEnd refused = never;
  refused.is_input_error = true;
  EXPECT_EQ(JudgeEnd(refused, kSilent, false).failure, FailureKind::kInput);
  EXPECT_EQ(JudgeEnd(never, kSilent, kStopRequested).message, "cannot start x");
}

TEST(TrainerEndTest, NothingLeftIsLost) {
  EXPECT_EQ(JudgeEnd(std::nullopt, kSilent, false).failure, FailureKind::kLost);
}

TEST(TrainerEndTest, FencedTrainerIsLostForTheReasonOfTheFence) {
  for (const bool stop_requested : {false, true}) {
    for (const auto& process : {std::optional(Signalled(SIGKILL)), std::optional<ProcessEnd>()}) {
      const TrainerEnd end = JudgeEnd(process, kSilent, stop_requested, "no lease");
      EXPECT_EQ(end.failure, FailureKind::kLost);
      EXPECT_EQ(end.message, "no lease");
    }
  }
}

TEST(TrainerEndTest, TrainerThatEndedBeforeTheFenceCameEndedByItself) {
  EXPECT_EQ(JudgeEnd(Exited(0), kFinished, false, "no lease").failure, FailureKind::kNone);
  EXPECT_EQ(JudgeEnd(Signalled(SIGSEGV), kSilent, false, "no lease").failure, FailureKind::kSignal);
}

}  // namespace
}  // namespace paceline
