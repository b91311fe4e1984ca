#include "worker/trainer/comm/cpu_row_codec.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Half.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace paceline {
namespace {

using testing::ElementsAre;

constexpr RowFormat kFormats[] = {RowFormat::kInt4, RowFormat::kInt8, RowFormat::kFp8,
                                  RowFormat::kFp16, RowFormat::kBf16};

template <typename T>
std::vector<T> ValuesOf(const at::Tensor& tensor) {
  const auto* const data = static_cast<const T*>(tensor.const_data_ptr());
  return {data, data + static_cast<int64_t>(tensor.nbytes() / sizeof(T))};
}

at::Tensor TensorOf(const std::vector<float>& values) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kFloat);
  std::memcpy(tensor.mutable_data_ptr(), values.data(), values.size() * sizeof(float));
  return tensor;
}

struct Encoded {
  Encoded(RowFormat its_format, const std::vector<float>& values)
      : Encoded(its_format, values, std::vector<float>(values.size())) {}

  Encoded(RowFormat its_format, const std::vector<float>& values, const std::vector<float>& errors)
      : format(its_format),
        error(TensorOf(errors)),
        codes{at::empty({CodeBytes(format, error.numel())}, at::kByte),
              at::empty({RowsOf(error.numel())}, at::kFloat)} {
    codes.codes.fill_(0xff);  // Whatever was there.
    CpuRowCodec().Encode(format, TensorOf(values), error, codes);
  }

  std::vector<float> Decoded(float factor = 1) const {
    at::Tensor sum = at::zeros({error.numel()}, at::kFloat);
    CpuRowCodec().AddDecoded(format, codes, factor, sum);
    return ValuesOf<float>(sum);
  }

  const RowFormat format;
  at::Tensor error;
  RowCodes codes;
};

// The largest number of a format.
float LargestOf(RowFormat format) {
  switch (format) {
    case RowFormat::kInt4:
      return 7;
    case RowFormat::kInt8:
      return 127;
    case RowFormat::kFp8:
      return 448;
    case RowFormat::kFp16:
      return 65504;
    case RowFormat::kBf16:
      return 1;
  }
  return 0;
}

// The nearest number of a format, by the C library and by torch.
float Nearest(RowFormat format, float q) {
  switch (format) {
    case RowFormat::kInt4:
    case RowFormat::kInt8:
      return std::nearbyint(q);
    case RowFormat::kFp8:
      return static_cast<float>(c10::Float8_e4m3fn(q));
    case RowFormat::kFp16:
      return static_cast<float>(c10::Half(q));
    case RowFormat::kBf16:
      return static_cast<float>(c10::BFloat16(q));
  }
  return 0;
}

// What row_formats.h allows for a value of a row with this scale.
double ErrorBound(RowFormat format, double value, double scale) {
  switch (format) {
    case RowFormat::kInt4:
    case RowFormat::kInt8:
      return scale / 2;
    case RowFormat::kFp8:
      return std::max(std::abs(value) / 16, std::ldexp(scale, -10));
    case RowFormat::kFp16:
      return std::max(std::abs(value) / 2048, std::ldexp(scale, -25));
    case RowFormat::kBf16:
      return std::abs(value) / 256;
  }
  return 0;
}

// Values of all magnitudes that a row's largest value allows, and rows of several scales.
std::vector<float> ManyValues() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> exponent(-9, 0);
  std::vector<float> values(6 * kRowValues + 77);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t row = i / kRowValues;
    values[i] = normal(random) * std::pow(10.0F, static_cast<float>(row) - 3);
    if (row % 2 == 1) values[i] *= std::pow(10.0F, exponent(random));
  }
  return values;
}

TEST(CpuRowCodecTest, DoesWhatItsHeaderSaysRowByRow) {
  const std::vector<float> values = ManyValues();
  std::vector<float> errors(values.size());
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < errors.size(); ++i) errors[i] = values[i] * 0.01F * normal(random);
  for (const RowFormat format : kFormats) {
    const Encoded encoded(format, values, errors);
    const auto scales = ValuesOf<float>(encoded.codes.scales);
    ASSERT_EQ(scales.size(), 7U);
    const std::vector<float> decoded = encoded.Decoded();
    const auto left = ValuesOf<float>(encoded.error);
    for (size_t first = 0; first < values.size(); first += kRowValues) {
      const size_t end = std::min<size_t>(first + kRowValues, values.size());
      float largest = 0;
      for (size_t i = first; i < end; ++i) {
        largest = std::max(largest, std::abs(values[i] + errors[i]));
      }
      const float scale = largest / LargestOf(format);
      ASSERT_EQ(scales[first / kRowValues], scale);
      for (size_t i = first; i < end; ++i) {
        const float x = values[i] + errors[i];
        const float product = Nearest(format, x / scale) * scale;
        ASSERT_EQ(decoded[i], product) << static_cast<int>(format) << " " << x / scale;
        ASSERT_EQ(left[i], x - product);
        // Nothing is lost: the two make the value again.
        ASSERT_EQ(static_cast<double>(decoded[i]) + static_cast<double>(left[i]), double{x});
        ASSERT_LE(std::abs(left[i]), ErrorBound(format, x, scale) + std::ldexp(std::abs(x), -22));
      }
    }
  }
}

// Rows of the values and of the format's largest number, so that their scale is 1.
std::vector<float> WithScaleOne(RowFormat format, const std::vector<float>& values) {
  std::vector<float> rows;
  for (const float value : values) {
    if (rows.size() % kRowValues == 0) rows.push_back(LargestOf(format));
    rows.push_back(value);
  }
  return rows;
}

TEST(CpuRowCodecTest, EveryNumberAndEachMiddleOfTwoAsTorchDoes) {
  for (const RowFormat format : {RowFormat::kFp8, RowFormat::kFp16}) {
    std::vector<float> values;
    float last = 0;
    const int codes = format == RowFormat::kFp8 ? 0x7f : 0x7c00;
    for (int code = 0; code < codes; ++code) {
      const float number =
          format == RowFormat::kFp8
              ? static_cast<float>(
                    c10::Float8_e4m3fn(static_cast<uint8_t>(code), c10::Float8_e4m3fn::from_bits()))
              : static_cast<float>(c10::Half(static_cast<uint16_t>(code), c10::Half::from_bits()));
      const float middle = (last + number) / 2;
      for (const float value : {number, middle, std::nextafter(middle, 0.0F)}) {
        values.push_back(value);
        values.push_back(-value);
      }
      last = number;
    }
    const std::vector<float> rows = WithScaleOne(format, values);
    const Encoded encoded(format, rows);
    EXPECT_THAT(ValuesOf<float>(encoded.codes.scales), testing::Each(1));
    std::vector<float> expected;
    for (const float value : rows) expected.push_back(Nearest(format, value));
    EXPECT_EQ(encoded.Decoded(), expected);
  }
}

TEST(CpuRowCodecTest, Int8RoundsHalvesToEven) {
  const Encoded encoded(RowFormat::kInt8, {127, 0.5, 1.5, -2.5, -127, 0.4999, -3.75});
  EXPECT_THAT(ValuesOf<float>(encoded.codes.scales), ElementsAre(1));
  EXPECT_THAT(ValuesOf<int8_t>(encoded.codes.codes), ElementsAre(127, 0, 2, -2, -127, 0, -4));
  EXPECT_THAT(ValuesOf<float>(encoded.error), ElementsAre(0, 0.5, -0.5, -0.5, 0, 0.4999F, 0.25));
  EXPECT_THAT(encoded.Decoded(0.5), ElementsAre(63.5, 0, 1, -1, -63.5, 0, -2));
}

// In two's complement, the earlier of two values in the lower half of their byte.
TEST(CpuRowCodecTest, Int4HasTwoValuesInAByte) {
  const std::vector<float> whole = {7, -7, 6, -6, 5, -5, 4, -4, 3, -3, 2, -2, 1, -1, 0, 0};
  const Encoded all(RowFormat::kInt4, whole);
  EXPECT_THAT(ValuesOf<float>(all.codes.scales), ElementsAre(1));
  EXPECT_THAT(ValuesOf<uint8_t>(all.codes.codes),
              ElementsAre(0x97, 0xa6, 0xb5, 0xc4, 0xd3, 0xe2, 0xf1, 0x00));
  EXPECT_EQ(all.Decoded(), whole);
  const Encoded odd(RowFormat::kInt4, {0.5, 1.5, -2.5, 7, -7});
  EXPECT_THAT(ValuesOf<uint8_t>(odd.codes.codes), ElementsAre(0x20, 0x7e, 0x09));
  EXPECT_THAT(ValuesOf<float>(odd.error), ElementsAre(0.5, -0.5, -0.5, 0, 0));
  EXPECT_THAT(odd.Decoded(0.5), ElementsAre(0, 1, -1, 3.5, -3.5));
  EXPECT_THAT(ValuesOf<uint8_t>(Encoded(RowFormat::kInt4, {-3}).codes.codes), ElementsAre(0x09))
      << "the row's greatest is its 7";
}

TEST(CpuRowCodecTest, ARowOfInt4BeginsAtAByte) {
  std::vector<float> values(kRowValues + 3, 1);
  for (size_t i = kRowValues; i < values.size(); ++i) values[i] = -8;
  const Encoded encoded(RowFormat::kInt4, values);
  const auto codes = ValuesOf<uint8_t>(encoded.codes.codes);
  ASSERT_EQ(codes.size(), 258U);
  EXPECT_EQ(codes[255], 0x77);
  EXPECT_EQ(codes[256], 0x99);
  EXPECT_EQ(codes[257], 0x09);
}

// Values below half a step are sent when they have added up.
TEST(CpuRowCodecTest, ErrorsThatAreSentLaterAddUpToTheValues) {
  constexpr int kRounds = 60;
  const std::vector<float> values = {1, -0.9F, 0.013F, -0.004F, 0.31F};
  for (const RowFormat format : kFormats) {
    std::vector<double> sums(values.size());
    std::vector<float> errors(values.size());
    for (int round = 0; round < kRounds; ++round) {
      const Encoded encoded(format, values, errors);
      errors = ValuesOf<float>(encoded.error);
      const std::vector<float> decoded = encoded.Decoded();
      for (size_t i = 0; i < values.size(); ++i) sums[i] += decoded[i];
    }
    for (size_t i = 0; i < values.size(); ++i) {
      // None is above 1.1 with its error.
      const double bound = ErrorBound(format, 1.1, 1.1 / LargestOf(format));
      EXPECT_LE(std::abs(errors[i]), bound) << static_cast<int>(format);
      EXPECT_NEAR(sums[i] + errors[i], kRounds * values[i], 1e-4) << static_cast<int>(format);
    }
  }
}

// Written as torch.float8_e4m3fn: 1 is 0x38, 448 is 0x7e, the least number 2^-9 is 1.
TEST(CpuRowCodecTest, CodesAreThoseOfTheFormats) {
  const Encoded fp8(RowFormat::kFp8, {448, 1, -1, 0, 0.001953125F, -0.015625F, 17});
  EXPECT_THAT(ValuesOf<uint8_t>(fp8.codes.codes), ElementsAre(0x7e, 0x38, 0xb8, 0, 1, 0x88, 0x58));
  EXPECT_EQ(fp8.Decoded()[6], 16) << "between 16 and 18: the even mantissa";
  const Encoded fp16(RowFormat::kFp16, {65504, 1, -2});
  EXPECT_THAT(ValuesOf<uint16_t>(fp16.codes.codes), ElementsAre(0x7bff, 0x3c00, 0xc000));
  const Encoded bf16(RowFormat::kBf16, {1, -0.5F, 0});
  EXPECT_THAT(ValuesOf<uint16_t>(bf16.codes.codes), ElementsAre(0x3f80, 0xbf00, 0));
}

TEST(CpuRowCodecTest, ARowOfZerosStaysZero) {
  for (const RowFormat format : kFormats) {
    const Encoded encoded(format, {0, 0, -0.0F});
    EXPECT_THAT(ValuesOf<float>(encoded.codes.scales), ElementsAre(0));
    EXPECT_THAT(ValuesOf<uint8_t>(encoded.codes.codes), testing::Each(0));
    EXPECT_THAT(encoded.Decoded(), ElementsAre(0, 0, 0));
    EXPECT_THAT(ValuesOf<float>(encoded.error), ElementsAre(0, 0, 0));
  }
}

TEST(CpuRowCodecTest, ValuesTooSmallForAScaleAreKeptInTheError) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  for (const RowFormat format : {RowFormat::kInt8, RowFormat::kFp8, RowFormat::kFp16}) {
    const Encoded none(format, {tiny, -30 * tiny});  // The scale would be below the least float.
    EXPECT_THAT(ValuesOf<float>(none.error), ElementsAre(tiny, -30 * tiny));
  }
  // The scale is rounded from 1.496 units to 1.
  const Encoded some(RowFormat::kInt8, {190 * tiny});
  EXPECT_THAT(ValuesOf<int8_t>(some.codes.codes), ElementsAre(127));
  EXPECT_THAT(ValuesOf<float>(some.error), ElementsAre(63 * tiny));
  const Encoded int4(RowFormat::kInt4, {10 * tiny, 3 * tiny});  // From 1.429.
  EXPECT_THAT(ValuesOf<uint8_t>(int4.codes.codes), ElementsAre(0x37));
  EXPECT_THAT(ValuesOf<float>(int4.error), ElementsAre(3 * tiny, 0));
  const Encoded unscaled(RowFormat::kInt4, {3 * tiny, -tiny});
  EXPECT_THAT(ValuesOf<float>(unscaled.error), ElementsAre(3 * tiny, -tiny));
  const Encoded fp8(RowFormat::kFp8, {600 * tiny});  // From 1.339.
  EXPECT_THAT(ValuesOf<uint8_t>(fp8.codes.codes), ElementsAre(0x7e));
  EXPECT_THAT(ValuesOf<float>(fp8.error), ElementsAre(152 * tiny));
}

TEST(CpuRowCodecTest, WhatIsNotFiniteIsNotHidden) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const RowFormat format : kFormats) {
    for (const float bad : {std::nanf(""), infinity, -infinity}) {
      for (const float value : Encoded(format, {1, bad, 2}).Decoded()) {
        EXPECT_FALSE(std::isfinite(value)) << static_cast<int>(format);
      }
    }
  }
}

TEST(CpuRowCodecTest, CodesOfAnotherSizeAreRefused) {
  CpuRowCodec codec;
  at::Tensor error = at::zeros({10}, at::kFloat);
  const RowCodes codes{at::empty({10}, at::kByte), at::empty({1}, at::kFloat)};
  codec.Encode(RowFormat::kFp8, at::zeros({10}, at::kFloat), error, codes);
  for (const RowFormat format : {RowFormat::kInt4, RowFormat::kFp16}) {
    EXPECT_THROW(codec.Encode(format, at::zeros({10}, at::kFloat), error, codes), c10::Error);
  }
}

}  // namespace
}  // namespace paceline
