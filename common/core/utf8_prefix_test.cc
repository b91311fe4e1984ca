#include "common/core/utf8_prefix.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(Utf8PrefixTest, ShortTextStaysWhole) {
  EXPECT_EQ(Utf8Prefix("", 0), "");
  EXPECT_EQ(Utf8Prefix("abc", 3), "abc");
}

TEST(Utf8PrefixTest, CutsBetweenCharacters) {
  EXPECT_EQ(Utf8Prefix("abc", 2), "ab");
  EXPECT_EQ(Utf8Prefix("a\u20acb", 4), "a\u20ac");
  EXPECT_EQ(Utf8Prefix("a\u20acb", 3), "a");
  EXPECT_EQ(Utf8Prefix("a\u20acb", 2), "a");
  EXPECT_EQ(Utf8Prefix("\u20ac", 2), "");
}

}  // namespace
}  // namespace paceline
