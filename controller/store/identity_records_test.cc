#include <gtest/gtest.h>

#include "controller/store/records.h"
#include "controller/store/testing/memory_store.h"

namespace paceline {
namespace {

const absl::Time kNow = absl::FromUnixMillis(1'700'000'000'250);

// Identities as a controller that starts now loads them.
Identities Stored(StateStore& store) {
  auto identities = LoadIdentities(store);
  EXPECT_TRUE(identities.ok()) << identities.status();
  return *identities;
}

TEST(IdentityRecordsTest, TokensAndRevocationsComeBack) {
  MemoryStore store;
  Identities identities;
  const NodeName node("w1");
  WriteBatch batch;
  Write(identities.AddToken("a", {node, kNow, kNow + absl::Hours(1), "ann", "r1"}, kNow),
        identities, &batch);
  Write(identities.UseToken("a", "key", kNow), identities, &batch);
  Write(identities.Revoke("paceline://viewer/bob", "left", "ann", kNow), identities, &batch);
  ASSERT_TRUE(store.Commit(batch).ok());

  const Identities again = Stored(store);
  EXPECT_EQ(again.CheckJoin("a", node, "other", kNow), Identities::JoinVerdict::kUsed);
  EXPECT_EQ(again.CheckJoin("a", node, "key", kNow), Identities::JoinVerdict::kAgain);
  EXPECT_EQ(again.tokens().at("a").expires, kNow + absl::Hours(1));
  EXPECT_EQ(again.tokens().at("a").owner, "ann");
  EXPECT_EQ(again.tokens().at("a").request, "r1");
  const Revocation* refused = again.Refuses("paceline://viewer/bob", kNow);
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->reason, "left");
  EXPECT_EQ(refused->owner, "ann");
  EXPECT_EQ(refused->before, absl::FromUnixSeconds(1'700'000'001));
}

TEST(IdentityRecordsTest, WhatIsForgottenIsGone) {
  MemoryStore store;
  Identities identities;
  const NodeName node("w1");
  WriteBatch first;
  Write(identities.AddToken("a", {node, kNow, kNow + absl::Hours(1), "ann", "r1"}, kNow),
        identities, &first);
  ASSERT_TRUE(store.Commit(first).ok());
  WriteBatch second;
  Write(identities.Revoke(WorkerUri(node), "stolen", "ann", kNow), identities, &second);
  ASSERT_TRUE(store.Commit(second).ok());
  EXPECT_TRUE(Stored(store).tokens().empty());
}

TEST(IdentityRecordsTest, UnusedTokenIsUnused) {
  MemoryStore store;
  Identities identities;
  WriteBatch batch;
  Write(identities.AddToken("a", {NodeName("w1"), kNow, kNow + absl::Hours(1)}, kNow), identities,
        &batch);
  ASSERT_TRUE(store.Commit(batch).ok());
  EXPECT_EQ(Stored(store).CheckJoin("a", NodeName("w1"), "k", kNow),
            Identities::JoinVerdict::kFine);
}

TEST(IdentityRecordsTest, DamagedRecordIsNamed) {
  MemoryStore store;
  WriteBatch batch;
  batch.puts["token/a"] = "\xff";
  ASSERT_TRUE(store.Commit(batch).ok());
  const absl::Status status = LoadIdentities(store).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("token/a"), std::string::npos);
}

}  // namespace
}  // namespace paceline
