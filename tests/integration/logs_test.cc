// `paceline job logs -f` while daemons and ranks die.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "proto/job.grpc.pb.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Steps of all complete step lines.
std::vector<int64_t> Steps(absl::string_view text) {
  constexpr absl::string_view kBegin = " I step=";
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  lines.pop_back();
  std::vector<int64_t> steps;
  for (const absl::string_view line : lines) {
    const size_t begin = line.find(kBegin);
    if (begin == absl::string_view::npos) continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line.substr(begin + kBegin.size()), ' ');
    int64_t step = 0;
    EXPECT_TRUE(absl::SimpleAtoi(words.front(), &step)) << line;
    steps.push_back(step);
  }
  return steps;
}

void ExpectConsecutive(const std::vector<int64_t>& steps) {
  for (size_t i = 1; i < steps.size(); ++i) ASSERT_EQ(steps[i], steps[i - 1] + 1);
}

bool HasReadySpare(const v1::Job& job) {
  return job.state() == v1::RUNNING && job.spares_size() == 1 &&
         job.spares(0).state() == v1::TRAINER_READY;
}

TEST(LogsTest, FollowedRankLosesNoLineWithTheControllerAndGoesOnWithItsSpare) {
  TestCluster cluster;
  v1::JobSpec spec = cluster.LongJob(2);
  spec.mutable_recovery()->set_max_failures(3);
  spec.mutable_recovery()->set_spares(1);
  const std::string id = cluster.Submit(spec).id();
  cluster.WaitUntil(id, HasReadySpare);
  const std::string path = cluster.directory() + "/followed";
  Process follower({Program("paceline"), "--server", cluster.server(), "--plaintext", "job", "logs",
                    "-f", "--rank", "1", id},
                   path);
  ASSERT_TRUE(Eventually([&] { return Steps(ReadFile(path)).size() >= 5; })) << ReadFile(path);

  cluster.KillController();
  ASSERT_TRUE(Eventually([&] { return absl::StrContains(ReadFile(path), "does not answer"); }))
      << ReadFile(path);
  const int64_t before = Steps(ReadFile(path)).back();
  cluster.StartController();
  ASSERT_TRUE(Eventually([&] { return Steps(ReadFile(path)).back() >= before + 10; }))
      << ReadFile(path);

  const v1::Job running = cluster.WaitUntil(id, HasReadySpare);
  ASSERT_TRUE(HasReadySpare(running));
  ASSERT_EQ(kill(static_cast<pid_t>(running.ranks(1).pid()), SIGKILL), 0);
  const std::string note = absl::StrCat("\nrank 1 is now on ", running.spares(0).node(), "\n");
  const auto after_note = [&] {
    const std::string text = ReadFile(path);
    const size_t at = text.find(note);
    return at == std::string::npos ? std::vector<int64_t>() : Steps(text.substr(at));
  };
  ASSERT_TRUE(Eventually([&] { return after_note().size() >= 5; })) << ReadFile(path);

  grpc::ClientContext context;
  v1::CancelJobRequest cancel;
  cancel.set_job(id);
  cancel.set_request_id("cancel");
  v1::Job job;
  ASSERT_TRUE(v1::JobService::NewStub(cluster.channel())->Cancel(&context, cancel, &job).ok());
  EXPECT_EQ(follower.Wait(), 0) << ReadFile(path);

  const std::string text = ReadFile(path);
  const size_t at = text.find(note);
  EXPECT_EQ(text.find("is now on"), at + sizeof("\nrank 1 ") - 1);
  EXPECT_EQ(text.find("is now on", at + note.size()), std::string::npos) << "told once";
  const std::vector<int64_t> old_steps = Steps(text.substr(0, at + 1));
  EXPECT_EQ(old_steps.front(), 1);
  ExpectConsecutive(old_steps);
  ExpectConsecutive(after_note());
  EXPECT_THAT(text, Not(HasSubstr("no longer kept")));
}

// A dead worker is known to be away at once, a frozen one when it has not reported for a while.
TEST(LogsTest, WhatThereIsComesAndWhatIsMissingIsNamedWhileAWorkerIsAway) {
  TestCluster cluster;
  const std::string id = cluster.Submit(cluster.LongJob(4)).id();
  cluster.WaitForSteps(id, 3);
  const auto logs = [&](const std::string& flag) {
    return std::vector<std::string>{
        Program("paceline"), "--server", cluster.server(), "--plaintext", "job", "logs", id, flag};
  };
  for (const bool dies : {true, false}) {
    SCOPED_TRACE(dies ? "dies" : "stands still");
    dies ? cluster.KillWorker(0) : static_cast<void>(kill(cluster.WorkerPid(0), SIGSTOP));
    const Finished read = RunToEnd(logs("--tail=1"));
    EXPECT_EQ(read.exit_code, 6);
    EXPECT_THAT(read.output, HasSubstr("[rank 2] "));
    EXPECT_THAT(read.output, HasSubstr("[rank 3] "));
    const std::string missing = "error: ranks 0, 1 on w0: not heard of; their lines are missing\n";
    EXPECT_TRUE(absl::EndsWith(read.output, missing)) << read.output;

    const std::string path = absl::StrCat(cluster.directory(), "/followed", dies);
    Process follower(logs("-f"), path);
    ASSERT_TRUE(Eventually([&] {
      const std::string text = ReadFile(path);
      return absl::StrContains(text, "[rank 3] ") &&
             absl::StrContains(text, "rank 0: node w0 is not ") &&
             absl::StrContains(text, "; going on when it is back\n");
    })) << ReadFile(path);
    EXPECT_THAT(ReadFile(path), Not(HasSubstr("[rank 0] ")));
    dies ? cluster.StartWorker(0) : static_cast<void>(kill(cluster.WorkerPid(0), SIGCONT));
    EXPECT_TRUE(Eventually([&] { return absl::StrContains(ReadFile(path), "[rank 0] "); }))
        << ReadFile(path);
  }
}

}  // namespace
}  // namespace paceline
