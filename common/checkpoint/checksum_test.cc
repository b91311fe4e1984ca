#include "common/checkpoint/checksum.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(ChecksumTest, IsXxh3) {
  // Values of Python's `xxhash.xxh3_64_hexdigest`.
  EXPECT_EQ(ChecksumText(ChecksumOf("")), "xxh3:2d06800538d394c2");
  EXPECT_EQ(ChecksumText(ChecksumOf("abc")), "xxh3:78af5f94892f3950");
}

TEST(ChecksumTest, PiecesGiveThatOfTheWhole) {
  const std::string bytes(100'000, 'x');
  Checksum checksum;
  checksum.Add(absl::string_view(bytes).substr(0, 3));
  checksum.Add("");
  checksum.Add(absl::string_view(bytes).substr(3, 70'000));
  checksum.Add(absl::string_view(bytes).substr(70'003));
  EXPECT_EQ(checksum.Take(), ChecksumOf(bytes));
  // It has started over.
  checksum.Add("abc");
  EXPECT_EQ(checksum.Take(), ChecksumOf("abc"));
  EXPECT_EQ(checksum.Take(), ChecksumOf(""));
}

TEST(ChecksumTest, TextIsReadBackAndNothingElseIs) {
  for (uint64_t value : {uint64_t{0}, uint64_t{0xabc}, ~uint64_t{0}}) {
    EXPECT_EQ(ParseChecksum(ChecksumText(value)), value);
  }
  for (const char* text :
       {"", "xxh3:", "xxh3:123", "0123456789abcdef", "xxh3:0123456789abcdef0",
        "xxh3:0123456789ABCDEF", "xxh3:0x23456789abcdef", "xxh3: 123456789abcdef",
        "xxh3:-123456789abcdef", "xxh64:0123456789abcdef"}) {
    EXPECT_FALSE(ParseChecksum(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace paceline
