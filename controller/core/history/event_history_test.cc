#include "controller/core/history/event_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace paceline {
namespace {

JobLifeEvent Event(JobEventKind kind, bool warning = false) {
  JobLifeEvent event;
  event.kind = kind;
  event.warning = warning;
  return event;
}

// Ids of all events after `id` that may be shown.
std::vector<int64_t> Reported(const EventHistory& history, int64_t id = 0) {
  std::vector<int64_t> ids;
  while (const JobLifeEvent* next = history.After(id)) ids.push_back(id = next->id);
  return ids;
}

TEST(EventHistoryTest, TellsNothingBeforeItIsReleased) {
  EventHistory history;
  std::vector<int64_t> forgotten;
  EXPECT_EQ(history.Add(Event(JobEventKind::kState), forgotten), 1);
  EXPECT_EQ(history.Add(Event(JobEventKind::kState), forgotten), 2);
  EXPECT_THAT(Reported(history), ::testing::IsEmpty());
  EXPECT_FALSE(history.is_released());
  history.Release(1);
  EXPECT_THAT(Reported(history), ::testing::ElementsAre(1));
  history.Release(2);
  EXPECT_THAT(Reported(history), ::testing::ElementsAre(1, 2));
  EXPECT_THAT(Reported(history, 1), ::testing::ElementsAre(2));
  EXPECT_TRUE(history.is_released());
}

TEST(EventHistoryTest, RoutineTakesNoPlaceOfOthers) {
  EventHistory history;
  std::vector<int64_t> forgotten;
  history.Add(Event(JobEventKind::kRestart), forgotten);
  for (size_t i = 0; i < 2 * kRoutineKept; ++i) {
    history.Add(Event(JobEventKind::kCheckpoint), forgotten);
  }
  EXPECT_NE(history.Find(1), nullptr);
  EXPECT_EQ(history.events().size(), 1 + kRoutineKept);
  ASSERT_EQ(forgotten.size(), kRoutineKept);
  EXPECT_EQ(forgotten.front(), 2);
  EXPECT_EQ(history.Find(2), nullptr);
}

TEST(EventHistoryTest, ChangesOfLabelsTakeNoPlaceOfOthers) {
  EventHistory history;
  std::vector<int64_t> forgotten;
  for (size_t i = 0; i < kOthersKept; ++i) history.Add(Event(JobEventKind::kState), forgotten);
  for (size_t i = 0; i < kOthersKept + kRoutineKept; ++i) {
    history.Add(Event(JobEventKind::kLabels), forgotten);
  }
  EXPECT_EQ(history.events().size(), kOthersKept + kRoutineKept);
  EXPECT_NE(history.Find(1), nullptr);
}

TEST(EventHistoryTest, FailedCheckpointsAreNoRoutine) {
  EXPECT_TRUE(IsRoutine(Event(JobEventKind::kCheckpoint)));
  EXPECT_FALSE(IsRoutine(Event(JobEventKind::kCheckpoint, /*warning=*/true)));
}

TEST(EventHistoryTest, OldestOthersAreForgotten) {
  EventHistory history;
  std::vector<int64_t> forgotten;
  history.Add(Event(JobEventKind::kEvaluation), forgotten);
  for (size_t i = 0; i < kOthersKept + 3; ++i) history.Add(Event(JobEventKind::kState), forgotten);
  EXPECT_THAT(forgotten, ::testing::ElementsAre(2, 3, 4));
  EXPECT_NE(history.Find(1), nullptr);
}

TEST(EventHistoryTest, IdsGoOnAfterARestart) {
  EventHistory history;
  std::vector<int64_t> forgotten;
  JobLifeEvent first = Event(JobEventKind::kState);
  first.id = 7;
  JobLifeEvent second = Event(JobEventKind::kCheckpoint);
  second.id = 9;
  history.Restore({first, second});
  EXPECT_THAT(Reported(history), ::testing::ElementsAre(7, 9));
  EXPECT_EQ(history.Add(Event(JobEventKind::kState), forgotten), 10);
  for (size_t i = 0; i < kRoutineKept; ++i) {
    history.Add(Event(JobEventKind::kCheckpoint), forgotten);
  }
  EXPECT_THAT(forgotten, ::testing::ElementsAre(9));
}

TEST(EventTextTest, IsOneLineAndNotCutWithinACharacter) {
  EXPECT_EQ(EventText("two\nlines"), "two lines");
  std::string text(kEventTextKept - 1, 'x');
  EXPECT_EQ(EventText(text + "\xc3\xa4"), text);
  EXPECT_EQ(EventText(text + "y"), text + "y");
  EXPECT_EQ(EventText(text + "yz"), text + "y");
}

}  // namespace
}  // namespace paceline
