#include "controller/rpc/watch_log.h"

#include <gtest/gtest.h>

#include "proto/job.pb.h"

namespace paceline {
namespace {

constexpr int64_t kBase = int64_t{3} << 32;

v1::JobEvent Change(const char* id) {
  v1::JobEvent event;
  event.mutable_job()->set_id(id);
  return event;
}

TEST(WatchLogTest, ReadsEveryChangeOnceInOrder) {
  WatchLog<v1::JobEvent> log(3, 10);
  EXPECT_EQ(log.revision(), kBase);
  EXPECT_EQ(log.After(kBase), nullptr);
  log.Append(Change("a"));
  log.Append(Change("b"));
  EXPECT_EQ(log.After(kBase)->job().id(), "a");
  EXPECT_EQ(log.After(kBase)->revision(), kBase + 1);
  EXPECT_EQ(log.After(kBase + 1)->job().id(), "b");
  EXPECT_EQ(log.After(kBase + 2), nullptr);
}

TEST(WatchLogTest, WhatIsOlderThanTheCapacityIsGone) {
  WatchLog<v1::JobEvent> log(3, 2);
  for (const char* id : {"a", "b", "c"}) log.Append(Change(id));
  EXPECT_FALSE(log.Has(kBase));
  EXPECT_TRUE(log.Has(kBase + 1));
  EXPECT_EQ(log.After(kBase + 1)->job().id(), "b");
}

TEST(WatchLogTest, RevisionsOfAnEarlierStartOrOfTheFutureAreNotHere) {
  WatchLog<v1::JobEvent> log(3, 10);
  log.Append(Change("a"));
  EXPECT_FALSE(log.Has((int64_t{2} << 32) + 500));
  EXPECT_FALSE(log.Has(kBase + 2));
}

}  // namespace
}  // namespace paceline
