#include "cli/top/top_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "cli/top/testing/top_testing.h"
#include "proto/job.pb.h"
#include "proto/telemetry.pb.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kPage = 10;

// Types keys: characters, with < for up, > for down, \n for Enter, \x1b for Escape.
TopAction Type(const std::string& keys, const TopModel& model, TopView& view) {
  TopAction action = TopAction::kNone;
  for (const char key : keys) {
    KeyPress press{Key::kCharacter, key};
    if (key == '<') press = {Key::kUp};
    if (key == '>') press = {Key::kDown};
    if (key == '\n') press = {Key::kEnter};
    if (key == '\x1b') press = {Key::kEscape};
    action = TakeKey(press, model, kPage, view);
  }
  return action;
}

std::vector<std::string> Names(const TopModel& model, const TopView& view) {
  std::vector<std::string> names;
  for (const v1::Job* job : ShownJobs(model, view)) names.push_back(job->spec().name());
  return names;
}

std::vector<int> RankNumbers(const TopModel& model, const TopView& view) {
  std::vector<int> numbers;
  for (const v1::RankTelemetry* rank : ShownRanks(model, view)) numbers.push_back(rank->rank());
  return numbers;
}

TEST(ReadKeysTest, SequencesOfAllTerminals) {
  const auto keys = ReadKeys("q\x1b[A\x1bOB\x1b[5~\r\x7f\x1b");
  std::vector<Key> read;
  for (const KeyPress& press : keys) read.push_back(press.key);
  EXPECT_THAT(read, ElementsAre(Key::kCharacter, Key::kUp, Key::kDown, Key::kPageUp, Key::kEnter,
                                Key::kBackspace, Key::kEscape));
  EXPECT_EQ(keys[0].character, 'q');
}

TEST(ReadKeysTest, WhatIsNotKnownIsLeftOut) {
  EXPECT_THAT(ReadKeys("\x1b[15;2~"), IsEmpty());
  EXPECT_THAT(ReadKeys("\x1b[15"), IsEmpty());
  EXPECT_EQ(ReadKeys("\x1b[200~q").size(), 1u);
}

TEST(TopViewTest, CursorMovesAndEnterShowsTheJob) {
  const TopModel model = PlayedModel();
  TopView view;
  Type(">", model, view);
  EXPECT_EQ(view.cursor, "job-digits");
  Type(">>", model, view);
  EXPECT_EQ(view.cursor, "job-digits") << "there is no further one";
  Type("<", model, view);
  EXPECT_EQ(Type("\n", model, view), TopAction::kFetch);
  EXPECT_EQ(view.job, "job-story");
  EXPECT_EQ(Type("\x1b", model, view), TopAction::kFetch);
  EXPECT_EQ(view.job, "");
  EXPECT_EQ(view.cursor, "job-story");
}

TEST(TopViewTest, EscapeLeavesAJobOfTheCommandLineWithTheProgram) {
  TopView view;
  view.job = "job-story";
  view.only = true;
  view.filter = "w1";
  EXPECT_EQ(Type("\x1b", PlayedModel(), view), TopAction::kNone);
  EXPECT_EQ(view.filter, "");
  EXPECT_EQ(view.job, "job-story");
  EXPECT_EQ(Type("\x1b", PlayedModel(), view), TopAction::kQuit);
}

TEST(TopViewTest, CursorFollowsTheJobNotItsPlace) {
  TopModel model = PlayedModel();
  TopView view;
  Type(">", model, view);
  model.jobs.insert(model.jobs.begin(), PlayedJob("new", v1::RUNNING));
  EXPECT_EQ(CursorPlace(ShownJobs(model, view), view), 2);
}

TEST(TopViewTest, FilterIsTypedAndTakenAway) {
  const TopModel model = PlayedModel();
  TopView view;
  Type("/DIG", model, view);
  EXPECT_TRUE(view.typing);
  EXPECT_THAT(Names(model, view), ElementsAre("digits"));
  Type("\n", model, view);
  EXPECT_FALSE(view.typing);
  EXPECT_THAT(Names(model, view), ElementsAre("digits"));
  Type("\x1b", model, view);
  EXPECT_THAT(Names(model, view), ElementsAre("story", "digits"));
}

TEST(TopViewTest, QIsALetterWhileTyping) {
  TopView view;
  EXPECT_EQ(Type("/q", PlayedModel(), view), TopAction::kNone);
  EXPECT_EQ(view.filter, "q");
  EXPECT_EQ(Type("\x1bq", PlayedModel(), view), TopAction::kQuit);
}

TEST(TopViewTest, OrdersOfJobs) {
  TopModel model = PlayedModel();
  TopView view;
  Type("s", model, view);
  EXPECT_EQ(view.job_order, JobOrder::kName);
  EXPECT_THAT(Names(model, view), ElementsAre("digits", "story"));
  Type("r", model, view);
  EXPECT_THAT(Names(model, view), ElementsAre("story", "digits"));
  Type("ssss", model, view);
  EXPECT_EQ(view.job_order, JobOrder::kNewest);
}

TEST(TopViewTest, EndedJobsOnDemand) {
  const TopModel model = PlayedModel();
  TopView view;
  EXPECT_EQ(Type("a", model, view), TopAction::kFetch);
  EXPECT_THAT(Names(model, view), ElementsAre("story", "digits", "old"));
}

TEST(TopViewTest, OrdersOfRanks) {
  TopModel model = PlayedModel();
  model.ranks = PlayedRanks();
  TopView view;
  view.job = "job-story";
  EXPECT_THAT(RankNumbers(model, view), ElementsAre(0, 1, 2, 3));
  Type("s", model, view);
  EXPECT_THAT(RankNumbers(model, view), ElementsAre(2, 0, 1, 3)) << "the slowest first";
  Type("s", model, view);
  EXPECT_THAT(RankNumbers(model, view), ElementsAre(0, 1, 3, 2)) << "who waits most first";
  Type("s", model, view);
  EXPECT_THAT(RankNumbers(model, view), ElementsAre(3, 2, 1, 0)) << "the most memory first";
}

TEST(TopViewTest, WhatIsNoNumberCanBeSorted) {
  TopModel model = PlayedModel();
  model.ranks = PlayedRanks(200);
  for (int r = 0; r < 200; r += 3) {
    model.ranks.mutable_ranks(r)->set_own_s(std::nan(""));
    model.ranks.mutable_ranks(r)->set_step_s(std::nan(""));
  }
  TopView view;
  view.job = "job-story";
  view.rank_order = RankOrder::kSlowest;
  EXPECT_EQ(RankNumbers(model, view).size(), 200u);
}

TEST(TopViewTest, RanksScrollWithinTheirNumber) {
  TopModel model = PlayedModel();
  model.ranks = PlayedRanks(30);
  TopView view;
  view.job = "job-story";
  TakeKey({Key::kPageDown}, model, kPage, view);
  EXPECT_EQ(view.first, kPage);
  TakeKey({Key::kEnd}, model, kPage, view);
  EXPECT_EQ(view.first, 29);
  TakeKey({Key::kHome}, model, kPage, view);
  EXPECT_EQ(view.first, 0);
  TakeKey({Key::kUp}, model, kPage, view);
  EXPECT_EQ(view.first, 0);
}

TEST(TopViewTest, HelpGoesWithAnyKey) {
  const TopModel model = PlayedModel();
  TopView view;
  Type("h", model, view);
  EXPECT_TRUE(view.help);
  Type(">", model, view);
  EXPECT_FALSE(view.help);
  EXPECT_EQ(view.cursor, "") << "the key did nothing else";
}

TEST(TopViewTest, NoJobsAtAll) {
  const TopModel model;
  TopView view;
  EXPECT_EQ(Type("<>\njk/x\ns", model, view), TopAction::kNone);
  EXPECT_EQ(view.job, "");
}

}  // namespace
}  // namespace paceline
