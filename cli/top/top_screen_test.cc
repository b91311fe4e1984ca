#include "cli/top/top_screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "cli/text/sanitize.h"
#include "cli/top/testing/top_testing.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr absl::Time kNow = absl::FromUnixSeconds(1700000001);

TopView RanksView() {
  TopView view;
  view.job = "job-story";
  return view;
}

TopModel WithRanks(int ranks = 4) {
  TopModel model = PlayedModel();
  model.ranks = PlayedRanks(ranks);
  return model;
}

TopStyle Style(int width, int height, bool interactive = true) {
  TopStyle style;
  style.width = width;
  style.height = height;
  style.interactive = interactive;
  return style;
}

std::string Screen(const TopModel& model, const TopView& view, const TopStyle& style) {
  return absl::StrJoin(TopLines(model, view, style, kNow), "\n");
}

TEST(TopScreenTest, ShowsJobsWithTheirStepAndWhatIsDoneAboutSlowRanks) {
  const std::string screen = Screen(PlayedModel(), {}, Style(200, 24));
  EXPECT_THAT(screen, HasSubstr("Nodes  4: 1 lost, 3 ready   Slots 4/8"));
  EXPECT_THAT(screen, HasSubstr("Jobs   2: 1 queued, 1 running"));
  EXPECT_THAT(screen, HasSubstr("409/2000"));
  EXPECT_THAT(screen, HasSubstr("116 ms"));
  EXPECT_THAT(screen, HasSubstr("41 %"));
  EXPECT_THAT(screen, HasSubstr("35 %"));
  EXPECT_THAT(screen, HasSubstr("slow: rank 2 on w2 1.65 x, host pause; hot-swap of rank 2 on w2 "
                                "ordered"));
  EXPECT_THAT(screen, HasSubstr("waits for 2 slots"));
  EXPECT_THAT(screen, Not(HasSubstr("FAILED"))) << "it has ended";
}

TEST(TopScreenTest, OfAJobThatDoesNotTrainTheReasonComesFirst) {
  TopModel model = PlayedModel();
  model.jobs[0].set_state(v1::RECOVERING);
  model.jobs[0].set_reason("rank 2 on w2: killed by SIGKILL");
  EXPECT_THAT(Screen(model, {}, Style(200, 24)),
              HasSubstr("rank 2 on w2: killed by SIGKILL; slow: rank 2"));
}

TEST(TopScreenTest, SavesThatFailAreTheFirstNews) {
  TopModel model = PlayedModel();
  model.jobs[0].mutable_checkpoints()->set_last_error("rank 0 on w0: disk full");
  const std::string news =
      "checkpoints cannot be saved (there is none): rank 0 on w0: disk full; slow: rank 2";
  EXPECT_THAT(Screen(model, {}, Style(250, 24)), HasSubstr(news));
  EXPECT_THAT(Screen(model, RanksView(), Style(250, 24)), HasSubstr(news));
}

TEST(TopScreenTest, CopiesThatAreLateComeBeforeWhoIsSlow) {
  TopModel model = PlayedModel();
  model.jobs[0].mutable_copies()->set_trouble("copies are late");
  EXPECT_THAT(Screen(model, {}, Style(250, 24)), HasSubstr("copies are late; slow: rank 2"));
}

TEST(TopScreenTest, ShowsRanksAgainstTheMedian) {
  const std::string screen = Screen(WithRanks(), RanksView(), Style(120, 24));
  EXPECT_THAT(screen, HasSubstr("story (job-story)  RUNNING  step 409/2000, 116 ms a step"));
  EXPECT_THAT(screen, HasSubstr("SLOW 1.65 x, host pause"));
  EXPECT_THAT(screen, HasSubstr("1.65"));
  EXPECT_THAT(screen, HasSubstr("100.0 MiB"));
}

TEST(TopScreenTest, ARankThatIsNotHeardOfHasNoPresentFigures) {
  TopModel model = WithRanks();
  for (v1::RankTelemetry& rank : *model.ranks.mutable_ranks()) {
    rank.mutable_last_heard()->set_seconds(absl::ToUnixSeconds(kNow) - 42);
  }
  const std::string screen = Screen(model, RanksView(), Style(120, 24));
  EXPECT_THAT(screen, HasSubstr("last heard 42"));
  EXPECT_THAT(screen, Not(HasSubstr("SLOW")));
  EXPECT_THAT(screen, Not(HasSubstr("100.0 MiB")));
}

TEST(TopScreenTest, NoScreenIsLargerThanTheTerminal) {
  const TopModel many = WithRanks(300);
  for (const int width : {1, 10, 20, 40, 60, 79, 80, 132, 300}) {
    for (const int height : {1, 2, 3, 5, 6, 10, 24, 60}) {
      for (const TopView& view : {TopView(), RanksView()}) {
        TopStyle style = Style(width, height);
        style.utf8 = width % 2 == 0;
        style.colours = height % 2 == 0;
        const std::vector<std::string> lines = TopLines(many, view, style, kNow);
        EXPECT_LE(lines.size(), static_cast<size_t>(height)) << width << "x" << height;
        for (const std::string& line : lines) EXPECT_LE(DisplayWidth(line), width) << line;
      }
    }
  }
}

TEST(TopScreenTest, EightyColumnsShowTheMostImportant) {
  const std::string jobs = Screen(PlayedModel(), {}, Style(80, 24));
  for (const char* text :
       {"NAME", "STATE", "STEP TIME", "WAIT", "MFU", "story", "116 ms", "35 %", "slow: rank 2"}) {
    EXPECT_THAT(jobs, HasSubstr(text));
  }
  const std::string ranks = Screen(WithRanks(), RanksView(), Style(80, 24));
  for (const char* text : {"RANK", "NODE", "X MEDIAN", "WAIT", "SLOW 1.65"}) {
    EXPECT_THAT(ranks, HasSubstr(text));
  }
}

TEST(TopScreenTest, TheLastLineTellsTheKeys) {
  const auto lines = TopLines(PlayedModel(), {}, Style(80, 24), kNow);
  ASSERT_EQ(lines.size(), 24u);
  EXPECT_THAT(lines.back(), HasSubstr("q quit"));
  TopView typing;
  typing.typing = true;
  typing.filter = "w1";
  EXPECT_THAT(TopLines(PlayedModel(), typing, Style(80, 24), kNow).back(),
              StartsWith("filter: w1"));
}

TEST(TopScreenTest, TheCursorStaysInSight) {
  TopModel model = PlayedModel();
  model.jobs.clear();
  for (int i = 0; i < 100; ++i) {
    model.jobs.push_back(PlayedJob(absl::StrCat("j", i), v1::RUNNING, 1));
  }
  TopView view;
  for (const int place : {0, 1, 50, 98, 99}) {
    view.cursor = absl::StrCat("job-j", place);
    const std::string screen = Screen(model, view, Style(80, 12));
    EXPECT_THAT(screen, HasSubstr(absl::StrCat(">  j", place, " "))) << screen;
  }
}

TEST(TopScreenTest, ScrolledRanks) {
  TopView view = RanksView();
  view.first = 100;
  const std::string screen = Screen(WithRanks(300), view, Style(80, 12));
  EXPECT_THAT(screen, HasSubstr("w100 "));
  EXPECT_THAT(screen, Not(HasSubstr("w99 ")));
}

TEST(TopScreenTest, WithoutUtf8EverythingIsAscii) {
  TopModel model = WithRanks();
  model.jobs[0].set_reason(
      "gr\xc3\xb6\xc3\x9f"
      "er");
  model.telemetry["job-story"].clear_slow();
  model.telemetry["job-story"].clear_decision();
  model.telemetry["job-story"].set_slow_count(0);
  for (const TopView& view : {TopView(), RanksView()}) {
    const std::string screen = Screen(model, view, Style(200, 24));
    for (const char c : screen) EXPECT_GE(c, 0) << screen;
  }
  EXPECT_THAT(Screen(model, {}, Style(200, 24)), HasSubstr("gr??er"));
  TopStyle utf8 = Style(200, 24);
  utf8.utf8 = true;
  EXPECT_THAT(Screen(model, {}, utf8), HasSubstr("▁"));
}

TEST(TopScreenTest, NoColoursUnlessAskedFor) {
  EXPECT_THAT(Screen(WithRanks(), RanksView(), Style(80, 24)), Not(HasSubstr("\x1b")));
  TopStyle style = Style(80, 24);
  style.colours = true;
  EXPECT_THAT(Screen(WithRanks(), RanksView(), style), HasSubstr("\x1b[31m"));
}

TEST(TopScreenTest, TextFromElsewhereCannotDriveTheTerminal) {
  TopModel model = WithRanks();
  model.telemetry.clear();
  model.jobs[0].set_reason("\x1b[2J\x07gone");
  model.ranks.mutable_ranks(0)->set_node("w\x1b[31m");
  model.trouble = "\x1b]0;title\x07";
  for (const TopView& view : {TopView(), RanksView()}) {
    EXPECT_THAT(Screen(model, view, Style(200, 24)), Not(HasSubstr("\x1b")));
  }
}

TEST(TopScreenTest, AControllerThatIsAwayIsToldWithTheAgeOfWhatIsShown) {
  TopModel model = PlayedModel();
  model.trouble = "the controller at 127.0.0.1:7450 does not answer";
  const auto lines = TopLines(model, {}, Style(120, 24), kNow);
  EXPECT_THAT(lines[0], HasSubstr("does not answer; as of "));
  EXPECT_THAT(absl::StrJoin(lines, "\n"), HasSubstr("story")) << "the last state stays";
}

TEST(TopScreenTest, OfAnotherJobNoRanksAreShown) {
  TopView view;
  view.job = "job-digits";
  EXPECT_THAT(Screen(WithRanks(), view, Style(80, 24)), Not(HasSubstr("w2")));
}

TEST(TopScreenTest, WithoutTelemetryTheJobsOwnRanksAreShown) {
  TopModel model = PlayedModel();
  model.telemetry.clear();
  model.ranks = RanksOf(model.jobs[0]);
  const std::string screen = Screen(model, RanksView(), Style(100, 24));
  EXPECT_THAT(screen, HasSubstr("103 ms"));
  EXPECT_THAT(screen, HasSubstr("forward"));
}

TEST(TopScreenTest, NothingToShow) {
  TopModel model;
  model.fetched = kNow;
  EXPECT_THAT(Screen(model, {}, Style(80, 24)), HasSubstr("no job waits or runs"));
  TopView help;
  help.help = true;
  EXPECT_THAT(Screen(model, help, Style(80, 24)), HasSubstr("Keys of paceline top"));
}

TEST(TopScreenTest, ASnapshotHasEveryRow) {
  TopStyle style = Style(0, 0, /*interactive=*/false);
  const auto lines = TopLines(WithRanks(300), RanksView(), style, kNow);
  EXPECT_GT(lines.size(), 300u);
  EXPECT_THAT(absl::StrJoin(lines, "\n"), Not(HasSubstr("quit")));
}

TEST(FitLineTest, CutsCharactersNotBytesAndEndsColours) {
  EXPECT_EQ(FitLine("\x1b[31mabc\x1b[0m", 2, true), "\x1b[31mab\x1b[0m");
  EXPECT_EQ(FitLine("▁▂▃", 2, true), "▁▂");
  EXPECT_EQ(FitLine("▁▂▃", 0, false), "???");
  EXPECT_EQ(FitLine("", 5, true), "");
}

}  // namespace
}  // namespace paceline
