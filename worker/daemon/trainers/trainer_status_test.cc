#include "worker/daemon/trainers/trainer_status.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

v1::TrainerStatus Running() {
  v1::TrainerStatus status;
  status.set_state(v1::TRAINER_RUNNING);
  status.mutable_membership()->set_generation(1);
  return status;
}

TEST(HowSoonTest, FiguresAndTheStepOfOneThatTrainsAreNoNews) {
  v1::TrainerStatus later = Running();
  later.mutable_figures()->set_step(7);
  later.mutable_checkpoints()->set_saves(1);
  later.mutable_membership()->set_step(7);
  EXPECT_EQ(HowSoon(Running(), later), Tell::kNothing);
}

TEST(HowSoonTest, WhatOthersWaitForIsToldAtOnce) {
  v1::TrainerStatus ready = Running();
  ready.mutable_membership()->set_ready_generation(2);
  v1::TrainerStatus waiting = Running();
  waiting.mutable_membership()->set_waiting(true);
  v1::TrainerStatus moved = waiting;
  moved.mutable_membership()->set_step(8);
  v1::TrainerStatus finished = Running();
  finished.set_state(v1::TRAINER_FINISHED);
  EXPECT_EQ(HowSoon(Running(), ready), Tell::kNow);
  EXPECT_EQ(HowSoon(Running(), waiting), Tell::kNow);
  EXPECT_EQ(HowSoon(waiting, moved), Tell::kNow);
  EXPECT_EQ(HowSoon(Running(), finished), Tell::kNow);
}

TEST(HowSoonTest, TheRestIsToldSoon) {
  v1::TrainerStatus saved = Running();
  saved.add_saves()->set_step(5);
  v1::TrainerStatus planned = Running();
  planned.mutable_plan()->set_active_version(2);
  EXPECT_EQ(HowSoon(Running(), saved), Tell::kSoon);
  EXPECT_EQ(HowSoon(Running(), planned), Tell::kSoon);
}

TEST(MergeLastWordsTest, WhatOnlyTheSocketToldIsKept) {
  v1::TrainerStatus seen = Running();
  seen.set_store_port(5);
  seen.add_saves()->set_step(3);
  v1::TrainerStatus last;
  last.set_state(v1::TRAINER_FINISHED);
  const v1::TrainerStatus merged = MergeLastWords(seen, last);
  EXPECT_EQ(merged.state(), v1::TRAINER_FINISHED);
  EXPECT_EQ(merged.store_port(), 5);
  EXPECT_EQ(merged.membership().generation(), 1);
  EXPECT_EQ(merged.saves_size(), 1);
}

}  // namespace
}  // namespace paceline
