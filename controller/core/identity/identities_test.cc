#include "controller/core/identity/identities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Verdict = Identities::JoinVerdict;

constexpr char kToken[] = "token-digest";
constexpr char kKey[] = "key-digest";
const NodeName kNode("node-7");
// Half a second past a whole second.
const absl::Time kNow = absl::FromUnixMillis(1'700'000'000'500);

JoinToken Token(const std::string& request = "r1", absl::Duration life = absl::Hours(1)) {
  return {kNode, kNow, kNow + life, "ann", request};
}

TEST(IdentitiesTest, TokenIsForOneKey) {
  Identities identities;
  EXPECT_EQ(identities.CheckJoin(kToken, kNode, kKey, kNow), Verdict::kUnknown);
  EXPECT_THAT(identities.AddToken(kToken, Token(), kNow).store_tokens, ElementsAre(kToken));
  EXPECT_EQ(identities.CheckJoin(kToken, kNode, kKey, kNow), Verdict::kFine);
  EXPECT_THAT(identities.UseToken(kToken, kKey, kNow).store_tokens, ElementsAre(kToken));
  EXPECT_EQ(identities.CheckJoin(kToken, kNode, "another key", kNow), Verdict::kUsed);
  // The answer may have been lost on its way.
  EXPECT_EQ(identities.CheckJoin(kToken, kNode, kKey, kNow), Verdict::kAgain);
  EXPECT_EQ(identities.CheckJoin(kToken, kNode, kKey, kNow + absl::Hours(1)), Verdict::kExpired);
}

TEST(IdentitiesTest, TokenEndsAndIsForOneNode) {
  Identities identities;
  identities.AddToken(kToken, Token(), kNow);
  EXPECT_EQ(identities.CheckJoin(kToken, NodeName("node-8"), kKey, kNow), Verdict::kAnotherNode);
  EXPECT_EQ(identities.CheckJoin(kToken, kNode, kKey, kNow + absl::Minutes(59)), Verdict::kFine);
  EXPECT_EQ(identities.CheckJoin(kToken, kNode, kKey, kNow + absl::Hours(1)), Verdict::kExpired);
}

TEST(IdentitiesTest, RepeatedRequestMakesTheTokenAnew) {
  Identities identities;
  identities.AddToken(kToken, Token("r1"), kNow);
  identities.AddToken("other", Token("r2"), kNow);
  const Identities::Changes changes = identities.AddToken("second", Token("r1"), kNow);
  EXPECT_THAT(changes.delete_tokens, ElementsAre(kToken));
  EXPECT_EQ(identities.CheckJoin(kToken, kNode, kKey, kNow), Verdict::kUnknown);
  EXPECT_EQ(identities.CheckJoin("second", kNode, kKey, kNow), Verdict::kFine);
  EXPECT_EQ(identities.CheckJoin("other", kNode, kKey, kNow), Verdict::kFine);
}

TEST(IdentitiesTest, UsedTokenIsNotReplaced) {
  Identities identities;
  identities.AddToken(kToken, Token("r1"), kNow);
  identities.UseToken(kToken, kKey, kNow);
  EXPECT_TRUE(identities.AddToken("second", Token("r1"), kNow).delete_tokens.empty());
  EXPECT_EQ(identities.CheckJoin(kToken, kNode, "another key", kNow), Verdict::kUsed);
}

TEST(IdentitiesTest, OldTokensAreForgotten) {
  Identities identities;
  identities.AddToken(kToken, Token("r1"), kNow);
  const absl::Time end = kNow + absl::Hours(1) + kTokenMemory;
  EXPECT_TRUE(identities.AddToken("b", Token("r2", absl::Hours(99)), end).delete_tokens.empty());
  EXPECT_THAT(identities.AddToken("c", Token("r3"), end + absl::Seconds(1)).delete_tokens,
              ElementsAre(kToken));
  EXPECT_EQ(identities.tokens().size(), 2);
}

TEST(IdentitiesTest, RevocationRefusesWhatWasIssuedBefore) {
  Identities identities;
  const std::string uri = WorkerUri(kNode);
  EXPECT_EQ(identities.Refuses(uri, kNow), nullptr);
  EXPECT_THAT(identities.Revoke(uri, "stolen", "ann", kNow).store_revocations, ElementsAre(uri));
  // Times in certificates are whole seconds.
  const absl::Time second = kNow - absl::Milliseconds(500);
  ASSERT_NE(identities.Refuses(uri, second), nullptr);
  EXPECT_EQ(identities.Refuses(uri, second)->reason, "stolen");
  EXPECT_EQ(identities.Refuses(uri, second + absl::Seconds(1)), nullptr);
  EXPECT_EQ(identities.Refuses("paceline://viewer/node-7", second), nullptr);
}

TEST(IdentitiesTest, RevokedNodeComesBackWithANewTokenInTheNextSecond) {
  Identities identities;
  identities.AddToken(kToken, Token("r1"), kNow);
  identities.UseToken(kToken, kKey, kNow);
  identities.AddToken("elsewhere", {NodeName("node-8"), kNow, kNow + absl::Hours(1)}, kNow);
  EXPECT_THAT(identities.Revoke(WorkerUri(kNode), "stolen", "ann", kNow).delete_tokens,
              ElementsAre(kToken));
  EXPECT_EQ(identities.CheckJoin(kToken, kNode, kKey, kNow), Verdict::kUnknown);
  EXPECT_EQ(identities.CheckJoin("elsewhere", NodeName("node-8"), kKey, kNow), Verdict::kFine);
  identities.AddToken("new", Token("r2"), kNow);
  EXPECT_EQ(identities.CheckJoin("new", kNode, kKey, kNow), Verdict::kJustRevoked);
  const absl::Time next = kNow + absl::Milliseconds(500);
  EXPECT_EQ(identities.CheckJoin("new", kNode, kKey, next), Verdict::kFine);
  EXPECT_EQ(identities.Refuses(WorkerUri(kNode), next), nullptr);
}

TEST(IdentitiesTest, RevokingAgainByAClockThatIsBehindUndoesNothing) {
  Identities identities;
  const std::string uri = WorkerUri(kNode);
  identities.Revoke(uri, "stolen", "ann", kNow);
  identities.Revoke(uri, "still stolen", "bob", kNow - absl::Minutes(10));
  const absl::Time issued = kNow - absl::Minutes(5);
  ASSERT_NE(identities.Refuses(uri, issued), nullptr);
  EXPECT_EQ(identities.Refuses(uri, issued)->reason, "still stolen");
  EXPECT_EQ(identities.Refuses(uri, issued)->owner, "bob");
  identities.Revoke(uri, "stolen again", "ann", kNow + absl::Minutes(10));
  EXPECT_NE(identities.Refuses(uri, kNow + absl::Minutes(5)), nullptr);
}

TEST(IdentitiesTest, RefusalsSayWhatToDo) {
  for (const Verdict verdict :
       {Verdict::kUnknown, Verdict::kUsed, Verdict::kExpired, Verdict::kAnotherNode}) {
    EXPECT_THAT(JoinRefusalText(verdict, kNode), HasSubstr("`paceline pki token node-7`"));
  }
}

}  // namespace
}  // namespace paceline
