// `paceline top`, as lines and on a real pseudo-terminal, against a controller played by the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/exit_codes.h"
#include "cli/testing/command_test.h"
#include "cli/testing/played_terminal.h"
#include "cli/text/sanitize.h"
#include "cli/top/testing/top_testing.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTake[] = "\x1b[?1049h";
constexpr char kGiveBack[] = "\x1b[?1049l";

void Fill(FakeController& controller) {
  const TopModel model = PlayedModel();
  controller.SetJobs(model.jobs);
  controller.nodes().SetNodes(model.nodes);
  v1::ListJobTelemetryResponse telemetry;
  *telemetry.add_jobs() = model.telemetry.at("job-story");
  telemetry.mutable_jobs(0)->set_job_id("job-story");
  controller.telemetry().SetTelemetry(telemetry);
  controller.telemetry().SetRanks(PlayedRanks());
}

class TopSnapshotTest : public CommandTest {
 protected:
  TopSnapshotTest() { Fill(controller_); }
};

TEST_F(TopSnapshotTest, WithoutATerminalItIsOnePlainSnapshot) {
  const Ran ran = Paceline({"top"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("story"));
  EXPECT_THAT(ran.out, HasSubstr("slow: rank 2 on w2 1.65 x"));
  EXPECT_THAT(ran.out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(ran.out, Not(HasSubstr("q quit")));
}

TEST_F(TopSnapshotTest, OfOneJobItsRanks) {
  const Ran ran = Paceline({"top", "story", "--once"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("X MEDIAN"));
  EXPECT_THAT(ran.out, HasSubstr("SLOW 1.65 x, host pause"));
}

TEST_F(TopSnapshotTest, AControllerWithoutTelemetryWillDo) {
  controller_.telemetry().SetUnimplemented();
  EXPECT_THAT(Paceline({"top"}).out, HasSubstr("102 ms")) << "the median of the ranks";
  EXPECT_THAT(Paceline({"top", "story"}).out, HasSubstr("forward"));
}

TEST_F(TopSnapshotTest, AThousandNewerJobsThatWaitDoNotHideWhatTrains) {
  std::vector<v1::Job> jobs;
  for (int i = 0; i < 1005; ++i) {
    jobs.push_back(PlayedJob(absl::StrCat("wait", i), v1::QUEUED, /*ranks=*/1));
  }
  jobs.push_back(PlayedJob("story", v1::RUNNING));
  controller_.SetJobs(jobs);
  const Ran ran = Paceline({"top"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out,
              HasSubstr("Jobs   1001: 1000 queued, 1 running; older queued ones left out"));
  EXPECT_LT(ran.out.find("story"), ran.out.find("wait0")) << "what trains comes first";
}

TEST_F(TopSnapshotTest, AllJobsThatTrainAreFetchedPageByPage) {
  std::vector<v1::Job> jobs;
  for (int i = 0; i < 1005; ++i) {
    jobs.push_back(PlayedJob(absl::StrCat("train", i), v1::RUNNING, /*ranks=*/1));
  }
  controller_.SetJobs(jobs);
  const Ran ran = Paceline({"top"});
  EXPECT_THAT(ran.out, HasSubstr("Jobs   1005: 1005 running   by newest"));
  EXPECT_THAT(ran.out, HasSubstr("train1004 "));
}

TEST_F(TopSnapshotTest, ErrorsAreThoseOfEveryCommand) {
  EXPECT_EQ(Paceline({"top", "nothing"}).exit, kCliNotFound);
  EXPECT_EQ(Paceline({"top", "-o", "json"}).exit, kCliUsage);
  environment_["PACELINE_SERVER"] = "127.0.0.1:1";
  const Ran ran = Paceline({"--timeout", "0.2", "top"});
  EXPECT_EQ(ran.exit, kCliUnavailable);
  EXPECT_EQ(ran.out, "");
}

class TopTerminalTest : public ::testing::Test {
 protected:
  TopTerminalTest() { Fill(*controller_); }

  std::unique_ptr<PlayedTerminal> Start(std::vector<std::string> arguments = {},
                                        std::vector<std::string> environment = {"TERM=xterm",
                                                                                "LANG=C.UTF-8"}) {
    std::vector<std::string> command = {"cli/paceline", "top", "--interval", "0.1"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    environment.push_back(absl::StrCat("PACELINE_SERVER=", controller_->address()));
    environment.push_back("PACELINE_PLAINTEXT=1");
    return std::make_unique<PlayedTerminal>(std::move(command), std::move(environment), 100, 24);
  }
  static void ExpectGivenBack(const PlayedTerminal& terminal) {
    EXPECT_TRUE(terminal.IsAsBefore());
    EXPECT_TRUE(absl::EndsWith(terminal.shown(), kGiveBack)) << terminal.shown();
  }

  std::unique_ptr<FakeController> controller_ = std::make_unique<FakeController>();
};

TEST_F(TopTerminalTest, ShowsTheJobsGoesToOneAndQuits) {
  auto terminal = Start();
  const std::string first = terminal->ReadUntil("slow: rank 2");
  EXPECT_THAT(first, HasSubstr(kTake));
  EXPECT_FALSE(terminal->IsAsBefore());
  terminal->Type("\r");
  terminal->ReadUntil("SLOW 1.65");
  terminal->Type("\x1b");
  terminal->ReadUntil("Nodes  4");
  terminal->Type("q");
  EXPECT_EQ(terminal->End(), kCliOk);
  ExpectGivenBack(*terminal);
}

TEST_F(TopTerminalTest, GivesTheTerminalBackAtEverySignal) {
  const std::pair<int, int> ends[] = {
      {SIGTERM, kCliInterrupted}, {SIGINT, kCliInterrupted}, {SIGHUP, -SIGHUP}};
  for (const auto& [signal, end] : ends) {
    auto terminal = Start();
    terminal->ReadUntil("slow: rank 2");
    terminal->Signal(signal);
    EXPECT_EQ(terminal->End(), end);
    ExpectGivenBack(*terminal);
  }
}

TEST_F(TopTerminalTest, CtrlCAsAKey) {
  auto terminal = Start();
  terminal->ReadUntil("slow: rank 2");
  terminal->Type("\x03");
  EXPECT_EQ(terminal->End(), kCliInterrupted);
  ExpectGivenBack(*terminal);
}

TEST_F(TopTerminalTest, FillsTheTerminalAfterAChangeOfSize) {
  auto terminal = Start();
  terminal->ReadUntil("slow: rank 2");
  terminal->Resize(40, 10);
  // The last complete frame.
  const auto fits = [](const std::string& shown) {
    const size_t end = shown.rfind("\x1b[?2026l");
    if (end == shown.npos) return false;
    const size_t begin = shown.rfind("\x1b[H", end);
    if (begin == shown.npos) return false;
    const std::vector<std::string> lines =
        absl::StrSplit(shown.substr(begin + 3, end - begin - 3), "\r\n");
    if (lines.size() != 10) return false;
    for (const std::string& line : lines) {
      EXPECT_TRUE(absl::StartsWith(line, "\x1b[")) << "the row is erased first";
      EXPECT_LE(DisplayWidth(line.substr(3)), 40) << line;
    }
    return true;
  };
  terminal->ReadUntil(fits, "ten lines");
  terminal->Type("q");
  EXPECT_EQ(terminal->End(), kCliOk);
}

TEST_F(TopTerminalTest, SaysThatTheControllerIsAwayAndGoesOnWhenItIsBack) {
  auto terminal = Start();
  terminal->ReadUntil("slow: rank 2");
  const int port = controller_->port();
  controller_.reset();
  terminal->ReadUntil("does not answer; as of");
  controller_ = std::make_unique<FakeController>(port);
  Fill(*controller_);
  v1::Job job = PlayedJob("later", v1::RUNNING);
  controller_->SetJobs({job});
  terminal->ReadUntil("later");
  terminal->Type("q");
  EXPECT_EQ(terminal->End(), kCliOk);
}

TEST_F(TopTerminalTest, KeysAreAnsweredWhileTheControllerIsAway) {
  auto terminal = Start();
  terminal->ReadUntil("slow: rank 2");
  controller_.reset();
  terminal->Type("h");
  terminal->ReadUntil("Keys of paceline top");
  terminal->Type("q");
  EXPECT_EQ(terminal->End(), kCliOk);
  ExpectGivenBack(*terminal);
}

TEST_F(TopTerminalTest, AStopGivesTheTerminalBackAndTakesItAgain) {
  // The process cannot be woken here, and then the system does not stop it.
  auto terminal = Start();
  terminal->ReadUntil("slow: rank 2");
  terminal->Type("\x1a");
  terminal->ReadUntil(absl::StrCat(kGiveBack, kTake));
  terminal->ReadUntil("slow: rank 2");
  terminal->Type("q");
  EXPECT_EQ(terminal->End(), kCliOk);
  ExpectGivenBack(*terminal);
}

TEST_F(TopTerminalTest, EndsWithItsTerminal) {
  auto terminal = Start();
  terminal->ReadUntil("slow: rank 2");
  terminal->HangUp();
  EXPECT_NE(terminal->End(), -SIGKILL);
}

TEST_F(TopTerminalTest, WithoutColourAndUtf8) {
  auto terminal = Start({}, {"TERM=xterm", "LANG=C", "NO_COLOR=1"});
  const std::string shown = terminal->ReadUntil("slow: rank 2");
  for (const char c : shown) EXPECT_GE(c, 0);
  EXPECT_THAT(shown, Not(HasSubstr("\x1b[3")));
  terminal->Type("q");
  EXPECT_EQ(terminal->End(), kCliOk);
}

TEST_F(TopTerminalTest, ADumbTerminalGetsOneSnapshotAfterAnother) {
  auto terminal = Start({}, {"TERM=dumb"});
  terminal->ReadUntil("slow: rank 2");
  terminal->ReadUntil("slow: rank 2");
  terminal->Signal(SIGINT);
  EXPECT_EQ(terminal->End(), kCliInterrupted);
  EXPECT_THAT(terminal->shown(), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace paceline
