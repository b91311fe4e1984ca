#include "controller/api/services/watch_log.h"

#include <gtest/gtest.h>

#include <string>

#include "controller/wire/encoded_message.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

constexpr int64_t kBase = int64_t{3} << 32;
constexpr size_t kMany = 1 << 20;

using Log = WatchLog<v1::JobEvent>;

void Append(Log& log, const std::string& id, size_t bytes = 0) {
  v1::JobEvent event;
  event.mutable_job()->set_id(id);
  event.mutable_job()->set_reason(std::string(bytes, 'x'));
  log.Append({id, "ann"}, event);
}

v1::JobEvent EventOf(const Log::Change& change) {
  v1::JobEvent event;
  EXPECT_TRUE(DecodeRequest(change.encoded, &event).ok());
  return event;
}

TEST(WatchLogTest, ReadsEveryChangeOnceInOrder) {
  Log log(3, 10, kMany);
  EXPECT_EQ(log.revision(), kBase);
  EXPECT_EQ(log.After(kBase), nullptr);
  Append(log, "a");
  Append(log, "b");
  EXPECT_EQ(log.After(kBase)->key.id, "a");
  EXPECT_EQ(log.After(kBase)->revision, kBase + 1);
  EXPECT_EQ(log.After(kBase + 1)->key.id, "b");
  EXPECT_EQ(log.After(kBase + 2), nullptr);
}

TEST(WatchLogTest, KeepsTheEncodedEventWithItsRevisionAndTheKey) {
  Log log(3, 10, kMany);
  Append(log, "a", 1000);
  const Log::Change& change = *log.After(kBase);
  EXPECT_EQ(change.key.submitter, "ann");
  const v1::JobEvent event = EventOf(change);
  EXPECT_EQ(event.job().id(), "a");
  EXPECT_EQ(event.job().reason().size(), 1000u);
  EXPECT_EQ(event.revision(), kBase + 1);
}

TEST(WatchLogTest, WhatIsOlderThanSoManyChangesIsGone) {
  Log log(3, 2, kMany);
  for (const char* id : {"a", "b", "c"}) Append(log, id);
  EXPECT_FALSE(log.Has(kBase));
  EXPECT_TRUE(log.Has(kBase + 1));
  EXPECT_EQ(log.After(kBase + 1)->key.id, "b");
}

TEST(WatchLogTest, WhatIsOlderThanSoManyBytesIsGone) {
  Log log(3, 10, 3000);
  for (const char* id : {"a", "b", "c", "d"}) Append(log, id, 1200);
  EXPECT_FALSE(log.Has(kBase + 1));
  EXPECT_TRUE(log.Has(kBase + 2));
  EXPECT_EQ(log.After(kBase + 2)->key.id, "c");
  // Small ones still fit beside them.
  for (int i = 0; i < 8; ++i) Append(log, "e");
  EXPECT_EQ(log.After(kBase + 2)->key.id, "c");
}

TEST(WatchLogTest, TheNewestIsKeptWhateverItsSize) {
  Log log(3, 10, 3000);
  Append(log, "a");
  Append(log, "b", 4000);
  EXPECT_FALSE(log.Has(kBase));
  ASSERT_TRUE(log.Has(kBase + 1));
  EXPECT_EQ(log.After(kBase + 1)->key.id, "b");
  Append(log, "c");
  EXPECT_FALSE(log.Has(kBase + 1));
  EXPECT_EQ(log.After(kBase + 2)->key.id, "c");
}

TEST(WatchLogTest, RevisionsOfAnEarlierStartOrOfTheFutureAreNotHere) {
  Log log(3, 10, kMany);
  Append(log, "a");
  EXPECT_FALSE(log.Has((int64_t{2} << 32) + 500));
  EXPECT_FALSE(log.Has(kBase + 2));
}

}  // namespace
}  // namespace paceline
