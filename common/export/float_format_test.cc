#include "common/export/float_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace paceline {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float Bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// The value of an fp16 by its definition, independent of the tested code.
double ValueOfFp16(uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int mantissa = half & 1023;
  const double sign = half & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa == 0 ? sign * kInfinity : NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(FloatFormatTest, Bf16OfKnownValues) {
  EXPECT_EQ(ToBf16(0.0F), 0x0000);
  EXPECT_EQ(ToBf16(-0.0F), 0x8000);
  EXPECT_EQ(ToBf16(1.0F), 0x3F80);
  EXPECT_EQ(ToBf16(-2.0F), 0xC000);
  EXPECT_EQ(ToBf16(3.14159274F), 0x4049);
  EXPECT_EQ(ToBf16(kInfinity), 0x7F80);
}

TEST(FloatFormatTest, Bf16RoundsHalvesToEven) {
  EXPECT_EQ(ToBf16(Bits(0x3F808000)), 0x3F80);
  EXPECT_EQ(ToBf16(Bits(0x3F818000)), 0x3F82);
  EXPECT_EQ(ToBf16(Bits(0x3F808001)), 0x3F81);
  EXPECT_EQ(ToBf16(Bits(0x3F817FFF)), 0x3F81);
  // Rounds up into the next exponent, and beyond the largest value.
  EXPECT_EQ(ToBf16(Bits(0x3FFFFFFF)), 0x4000);
  EXPECT_EQ(ToBf16(std::numeric_limits<float>::max()), 0x7F80);
}

TEST(FloatFormatTest, NanStaysNan) {
  EXPECT_EQ(ToBf16(Bits(0x7F800001)), 0x7FC0);
  EXPECT_EQ(ToBf16(Bits(0xFFFFFFFF)), 0xFFFF);
  EXPECT_EQ(ToFp16(Bits(0x7F800001)), 0x7E00);
  EXPECT_EQ(ToFp16(Bits(0xFF800001)), 0xFE00);
}

TEST(FloatFormatTest, Fp16OfKnownValues) {
  EXPECT_EQ(ToFp16(0.0F), 0x0000);
  EXPECT_EQ(ToFp16(-0.0F), 0x8000);
  EXPECT_EQ(ToFp16(1.0F), 0x3C00);
  EXPECT_EQ(ToFp16(-1.5F), 0xBE00);
  EXPECT_EQ(ToFp16(0.333333343F), 0x3555);
  EXPECT_EQ(ToFp16(65504.0F), 0x7BFF);
  EXPECT_EQ(ToFp16(65519.996F), 0x7BFF);
  EXPECT_EQ(ToFp16(65520.0F), 0x7C00);
  EXPECT_EQ(ToFp16(-1e30F), 0xFC00);
  EXPECT_EQ(ToFp16(kInfinity), 0x7C00);
}

TEST(FloatFormatTest, Fp16HasSubnormals) {
  EXPECT_EQ(ToFp16(std::ldexp(1.0F, -14)), 0x0400);
  EXPECT_EQ(ToFp16(std::ldexp(1.0F, -24)), 0x0001);
  EXPECT_EQ(ToFp16(std::ldexp(1.0F, -25)), 0x0000);  // A half, to even.
  EXPECT_EQ(ToFp16(std::ldexp(1.01F, -25)), 0x0001);
  EXPECT_EQ(ToFp16(std::ldexp(3.0F, -25)), 0x0002);  // One and a half, to even.
  EXPECT_EQ(ToFp16(std::ldexp(1.0F, -26)), 0x0000);
  EXPECT_EQ(ToFp16(std::ldexp(1023.75F, -24)), 0x0400);  // Up to the smallest normal number.
  EXPECT_EQ(ToFp16(-std::ldexp(1.0F, -149)), 0x8000);
}

TEST(FloatFormatTest, Fp16IsTheNearestOfAll) {
  for (uint32_t half = 0; half < 0x7BFF; ++half) {
    const auto low = static_cast<uint16_t>(half);
    const auto high = static_cast<uint16_t>(half + 1);
    const double a = ValueOfFp16(low);
    const double b = ValueOfFp16(high);
    const auto middle = static_cast<float>((a + b) / 2);
    ASSERT_EQ(ToFp16(static_cast<float>(a)), low);
    ASSERT_EQ(ToFp16(middle), low % 2 == 0 ? low : high) << half;
    ASSERT_EQ(ToFp16(std::nextafter(middle, 0.0F)), low) << half;
    ASSERT_EQ(ToFp16(std::nextafter(middle, kInfinity)), high) << half;
  }
}

TEST(FloatFormatTest, BytesMayLieAnywhereAndAreAppended) {
  const float values[] = {1, -2, 0.5F};
  std::string bytes = "x";
  bytes.append(reinterpret_cast<const char*>(values), sizeof(values));
  std::string out = "y";
  AppendConverted(absl::string_view(bytes).substr(1), FloatFormat::kBf16, &out);
  EXPECT_EQ(out, std::string("y\x80\x3F\x00\xC0\x00\x3F", 7));
  out.clear();
  AppendConverted(absl::string_view(bytes).substr(1), FloatFormat::kFp32, &out);
  EXPECT_EQ(out, bytes.substr(1));
}

}  // namespace
}  // namespace paceline
