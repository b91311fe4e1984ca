#include "common/leader_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SplitAddressesTest, TakesBlanksAndEmptyPartsAway) {
  EXPECT_THAT(SplitAddresses("a:1, b:2,,c:3 "), ElementsAre("a:1", "b:2", "c:3"));
  EXPECT_THAT(SplitAddresses("a:1"), ElementsAre("a:1"));
  EXPECT_THAT(SplitAddresses(" ,"), IsEmpty());
}

TEST(LeaderAddressTest, TakesTurnsWhileNobodyAnswers) {
  LeaderAddress address({"a", "b", "c"});
  EXPECT_TRUE(address.several());
  EXPECT_EQ(address.current(), "a");
  EXPECT_FALSE(address.Failed());
  EXPECT_EQ(address.current(), "b");
  address.Failed();
  EXPECT_EQ(address.current(), "c");
  address.Failed();
  EXPECT_EQ(address.current(), "a");
}

TEST(LeaderAddressTest, TheOneThatWasNamedComesFirst) {
  LeaderAddress address({"a", "b", "c"});
  EXPECT_TRUE(address.Failed("c"));
  EXPECT_EQ(address.current(), "c");
  // A named leader need not be in the list.
  EXPECT_TRUE(address.Failed("d"));
  EXPECT_EQ(address.current(), "d");
  EXPECT_FALSE(address.Failed());
  EXPECT_EQ(address.current(), "b");
}

TEST(LeaderAddressTest, InPlainTextNobodyIsFollowedToAnotherMachine) {
  LeaderAddress address({"127.0.0.1:1", "127.0.0.1:2"}, /*plaintext=*/true);
  EXPECT_FALSE(address.Failed("192.0.2.7:1"));
  EXPECT_EQ(address.current(), "127.0.0.1:2");
  EXPECT_TRUE(address.Failed("127.0.0.1:3"));
  EXPECT_EQ(address.current(), "127.0.0.1:3");
}

TEST(LeaderAddressTest, OneThatWasNamedInVainIsNotBelievedAtOnce) {
  LeaderAddress address({"a", "b", "c"});
  EXPECT_TRUE(address.Failed("c"));
  EXPECT_FALSE(address.Failed("c")) << "it names itself, and does not lead yet";
  EXPECT_EQ(address.current(), "b");
  EXPECT_FALSE(address.Failed("c")) << "b still thinks so";
  EXPECT_EQ(address.current(), "c") << "but its turn comes";
  address.Answered();
  address.Failed();
  EXPECT_EQ(address.current(), "a");
  EXPECT_TRUE(address.Failed("c"));
}

TEST(LeaderAddressTest, TwoThatNameEachOtherAreNotAskedWithoutAPause) {
  LeaderAddress address({"a", "b"});
  EXPECT_TRUE(address.Failed("b"));
  EXPECT_TRUE(address.Failed("a"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(address.Failed("b"));
    EXPECT_EQ(address.current(), "b");
    EXPECT_FALSE(address.Failed("a"));
    EXPECT_EQ(address.current(), "a");
  }
  address.Answered();
  EXPECT_TRUE(address.Failed("b"));
}

TEST(LeaderAddressTest, WithoutAnyThereIsAnEmptyOne) {
  LeaderAddress address(std::vector<std::string>{});
  EXPECT_EQ(address.current(), "");
  EXPECT_FALSE(address.Failed());
  EXPECT_FALSE(address.several());
}

TEST(LeaderAddressTest, AloneItIsTriedAgainAndAgain) {
  LeaderAddress address({"a"});
  EXPECT_FALSE(address.several());
  EXPECT_FALSE(address.Failed());
  EXPECT_EQ(address.current(), "a");
  EXPECT_TRUE(address.Failed("b"));
  EXPECT_EQ(address.current(), "b");
  EXPECT_FALSE(address.Failed());
  EXPECT_EQ(address.current(), "a");
}

}  // namespace
}  // namespace paceline
