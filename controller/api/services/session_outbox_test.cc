#include "controller/api/services/session_outbox.h"

#include <gtest/gtest.h>

#include <string>

namespace paceline {
namespace {

v1::NodePlan PlanOf(const std::string& job) {
  v1::NodePlan plan;
  plan.add_trainers()->mutable_id()->set_job_id(job);
  return plan;
}

v1::ControllerMessage LogRequest(int64_t id) {
  v1::ControllerMessage message;
  message.mutable_log_request()->set_id(id);
  return message;
}

TEST(SessionOutboxTest, WhatIsQueuedGoesBeforeThePlanAndThePlanBeforeTheAnswer) {
  SessionOutbox outbox;
  outbox.Answer(7);
  EXPECT_TRUE(outbox.SetPlan(PlanOf("a")));
  EXPECT_TRUE(outbox.Queue(LogRequest(1)));
  EXPECT_TRUE(outbox.Queue(LogRequest(2)));
  EXPECT_EQ(outbox.Next()->log_request().id(), 1);
  EXPECT_EQ(outbox.Next()->log_request().id(), 2);
  EXPECT_EQ(outbox.Next()->plan().trainers(0).id().job_id(), "a");
  EXPECT_EQ(outbox.Next()->lease().report_number(), 7);
  EXPECT_FALSE(outbox.Next().has_value());
}

TEST(SessionOutboxTest, OfPlansAndAnswersTheNewestIsTold) {
  SessionOutbox outbox;
  outbox.SetPlan(PlanOf("a"));
  outbox.SetPlan(PlanOf("b"));
  outbox.Answer(1);
  outbox.Answer(2);
  const auto reported = outbox.Next();
  EXPECT_EQ(reported->plan().trainers(0).id().job_id(), "b");
  EXPECT_EQ(reported->plan().revision(), 2);
  EXPECT_EQ(outbox.Next()->lease().report_number(), 2);
  EXPECT_FALSE(outbox.Next().has_value());
}

TEST(SessionOutboxTest, ThePlanThatWasToldLastIsNotToldAgain) {
  SessionOutbox outbox;
  EXPECT_TRUE(outbox.SetPlan(PlanOf("a")));
  outbox.Next();
  EXPECT_FALSE(outbox.SetPlan(PlanOf("a")));
  EXPECT_FALSE(outbox.Next().has_value());
  EXPECT_TRUE(outbox.SetPlan(PlanOf("b")));
  EXPECT_TRUE(outbox.SetPlan(PlanOf("a")));
  EXPECT_EQ(outbox.Next()->plan().revision(), 3);
}

// The first plan is sent even if it is empty: it tells the worker that it has nothing to do.
TEST(SessionOutboxTest, AnEmptyPlanIsTold) {
  SessionOutbox outbox;
  EXPECT_TRUE(outbox.SetPlan({}));
  EXPECT_TRUE(outbox.Next()->has_plan());
}

TEST(SessionOutboxTest, OfAWorkerThatDoesNotReadNothingIsKept) {
  SessionOutbox outbox;
  for (size_t i = 0; i < SessionOutbox::kMaxQueued; ++i) {
    ASSERT_TRUE(outbox.Queue(LogRequest(static_cast<int64_t>(i))));
  }
  EXPECT_FALSE(outbox.Queue(LogRequest(0)));
  EXPECT_FALSE(outbox.Next().has_value());
}

}  // namespace
}  // namespace paceline
