#include "cli/text/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string ErrorOf(const char* word) {
  return std::string(ExpandHosts({word}).status().message());
}

TEST(HostListTest, NamesStandForThemselvesOnce) {
  EXPECT_THAT(*ExpandHosts({"b", "a,c", "b"}), ElementsAre("b", "a", "c"));
}

TEST(HostListTest, RangesKeepTheirZeros) {
  EXPECT_THAT(*ExpandHosts({"n[08-11]"}), ElementsAre("n08", "n09", "n10", "n11"));
  EXPECT_THAT(*ExpandHosts({"n[1,3-4]x,m"}), ElementsAre("n1x", "n3x", "n4x", "m"));
  EXPECT_THAT(*ExpandHosts({"r[1-2]n[0-1]"}), ElementsAre("r1n0", "r1n1", "r2n0", "r2n1"));
  EXPECT_THAT(*ExpandHosts({"n[0001-1000]"}), SizeIs(1000));
}

TEST(HostListTest, WhatCannotBeReadIsNamed) {
  EXPECT_THAT(ErrorOf("n[1-"), HasSubstr("has a [ without a ]"));
  EXPECT_THAT(ErrorOf("n[5-3]"), HasSubstr("5-3, which goes backwards"));
  EXPECT_THAT(ErrorOf("n[a-b]"), HasSubstr("\"n[a-b]\" has something else than numbers"));
  EXPECT_THAT(ErrorOf("n[]"), HasSubstr("something else"));
  EXPECT_THAT(ErrorOf("a b"), HasSubstr("is no name of a node"));
  EXPECT_THAT(ErrorOf("a,,b"), HasSubstr("is no name of a node"));
  EXPECT_THAT(ErrorOf("n]"), HasSubstr("is no name of a node"));
}

TEST(HostListTest, ThereIsALimit) {
  EXPECT_THAT(ErrorOf("n[1-20000]"), HasSubstr("more than 10000"));
  EXPECT_THAT(ErrorOf("n[0-999]m[0-999]"), HasSubstr("more than 10000"));
  EXPECT_THAT(ErrorOf("n[1-999999999999]"), HasSubstr("something else"));
}

}  // namespace
}  // namespace paceline
