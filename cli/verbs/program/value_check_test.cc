#include "cli/verbs/program/value_check.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Reported(const CLI::Validator& validator, std::string text) { return validator(text); }

TEST(ValueCheckTest, WholeNumberTellsTheLimitThatMatters) {
  EXPECT_THAT(Reported(WholeNumber(1), "1"), IsEmpty());
  EXPECT_EQ(Reported(WholeNumber(1), "0"), "0 is not allowed; give a whole number of at least 1");
  EXPECT_EQ(Reported(WholeNumber(1), "1.5"),
            "1.5 is not allowed; give a whole number of at least 1");
  EXPECT_EQ(Reported(WholeNumber(1), ""),
            "nothing is not allowed; give a whole number of at least 1");
  EXPECT_EQ(Reported(WholeNumber(1), "2147483648"),
            "2147483648 is not allowed; give a whole number of at most 2147483647");
}

TEST(ValueCheckTest, WholeNumberOfARangeTellsBothLimits) {
  EXPECT_THAT(Reported(WholeNumber(1, 100), "100"), IsEmpty());
  EXPECT_EQ(Reported(WholeNumber(1, 100), "101"),
            "101 is not allowed; give a whole number from 1 to 100");
  EXPECT_EQ(Reported(WholeNumber(1, 100), "many"),
            "many is not allowed; give a whole number from 1 to 100");
}

TEST(ValueCheckTest, NumberIsFinite) {
  EXPECT_THAT(Reported(Number(0), "0.5"), IsEmpty());
  EXPECT_EQ(Reported(Number(0), "-1"), "-1 is not allowed; give a number of at least 0");
  EXPECT_THAT(Reported(Number(0), "nan"), HasSubstr("not allowed"));
  EXPECT_THAT(Reported(Number(0), "inf"), HasSubstr("not allowed"));
  EXPECT_EQ(Reported(Number(0.5, 2), "3"), "3 is not allowed; give a number from 0.5 to 2");
}

TEST(ValueCheckTest, SizeBecomesBytes) {
  const auto bytes = [](std::string text) {
    const std::string trouble = Size()(text);
    return trouble.empty() ? text : trouble;
  };
  EXPECT_EQ(bytes("16"), "16");
  EXPECT_EQ(bytes("16B"), "16");
  EXPECT_EQ(bytes("2KB"), "2000");
  EXPECT_EQ(bytes("3 mb"), "3000000");
  EXPECT_EQ(bytes("5GB"), "5000000000");
  EXPECT_EQ(bytes("1KiB"), "1024");
  EXPECT_EQ(bytes("1MiB"), "1048576");
  EXPECT_EQ(bytes("2GiB"), "2147483648");
}

TEST(ValueCheckTest, SizeThatIsNoneIsToldWithTheUnits) {
  for (const char* text : {"5XB", "0", "0MB", "-5GB", "1.5GB", "", "99999999999GiB"}) {
    EXPECT_THAT(Reported(Size(), text),
                HasSubstr("is not allowed; give a whole number above 0 with B, KB, MB or GB (of "
                          "1000) or KiB, MiB or GiB (of 1024)"))
        << text;
  }
}

}  // namespace
}  // namespace paceline
