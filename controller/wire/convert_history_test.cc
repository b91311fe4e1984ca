#include <gtest/gtest.h>

#include "controller/wire/convert.h"

namespace paceline {
namespace {

JobLifeEvent Event(JobEventKind kind) {
  JobLifeEvent event;
  event.id = 7;
  event.time = absl::FromUnixSeconds(1700000000);
  event.kind = kind;
  event.state = JobState::kRecovering;
  event.generation = Generation(3);
  event.step = 120;
  event.warning = true;
  event.what = "rank 2 is gone";
  return event;
}

TEST(ConvertHistoryTest, EveryKindComesBack) {
  for (int kind = 0; kind <= static_cast<int>(JobEventKind::kLabels); ++kind) {
    const JobLifeEvent event = Event(static_cast<JobEventKind>(kind));
    const JobLifeEvent back = FromProto(ToProto(event));
    EXPECT_EQ(back.id, event.id);
    EXPECT_EQ(back.time, event.time);
    EXPECT_EQ(back.kind, event.kind);
    EXPECT_EQ(back.state, event.state);
    EXPECT_EQ(back.generation, event.generation);
    EXPECT_EQ(back.step, event.step);
    EXPECT_EQ(back.warning, event.warning);
    EXPECT_EQ(back.what, event.what);
  }
}

TEST(ConvertHistoryTest, NamesMeanTheSame) {
  EXPECT_EQ(ToProto(Event(JobEventKind::kState)).kind(), v1::EVENT_STATE);
  EXPECT_EQ(ToProto(Event(JobEventKind::kMembership)).kind(), v1::EVENT_MEMBERSHIP);
  EXPECT_EQ(ToProto(Event(JobEventKind::kStraggler)).kind(), v1::EVENT_STRAGGLER);
  EXPECT_EQ(ToProto(Event(JobEventKind::kStall)).kind(), v1::EVENT_STALL);
  EXPECT_EQ(ToProto(Event(JobEventKind::kLabels)).kind(), v1::EVENT_LABELS);
}

TEST(ConvertHistoryTest, AnUnknownKindIsThatOfAState) {
  v1::JobHistoryEvent event;
  event.set_kind(static_cast<v1::JobEventKind>(99));
  EXPECT_EQ(FromProto(event).kind, JobEventKind::kState);
}

}  // namespace
}  // namespace paceline
