#include "worker/trainer/comm/cpu_int8_codec.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace paceline {
namespace {

using testing::ElementsAre;

template <typename T>
std::vector<T> ValuesOf(const at::Tensor& tensor) {
  const auto* const data = tensor.const_data_ptr<T>();
  return {data, data + tensor.numel()};
}

at::Tensor TensorOf(const std::vector<float>& values) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kFloat);
  std::memcpy(tensor.mutable_data_ptr(), values.data(), values.size() * sizeof(float));
  return tensor;
}

struct Encoded {
  explicit Encoded(const std::vector<float>& values)
      : Encoded(values, std::vector<float>(values.size())) {}

  Encoded(const std::vector<float>& values, const std::vector<float>& errors)
      : error(TensorOf(errors)),
        quantized(at::empty({error.numel()}, at::kChar)),
        scales(at::empty({(error.numel() + kInt8Row - 1) / kInt8Row}, at::kFloat)) {
    CpuInt8Codec().Encode(TensorOf(values), error, quantized, scales);
  }

  std::vector<float> Decoded(float factor = 1) const {
    at::Tensor sum = at::zeros({error.numel()}, at::kFloat);
    CpuInt8Codec().AddDecoded(quantized, scales, factor, sum);
    return ValuesOf<float>(sum);
  }

  at::Tensor error;
  at::Tensor quantized;
  at::Tensor scales;
};

TEST(CpuInt8CodecTest, RoundsHalvesToEven) {
  const Encoded encoded({127, 0.5, 1.5, -2.5, -127, 0.4999, -3.75});
  EXPECT_THAT(ValuesOf<float>(encoded.scales), ElementsAre(1));
  EXPECT_THAT(ValuesOf<int8_t>(encoded.quantized), ElementsAre(127, 0, 2, -2, -127, 0, -4));
  EXPECT_THAT(ValuesOf<float>(encoded.error), ElementsAre(0, 0.5, -0.5, -0.5, 0, 0.4999F, 0.25));
  EXPECT_THAT(encoded.Decoded(0.5), ElementsAre(63.5, 0, 1, -1, -63.5, 0, -2));
}

TEST(CpuInt8CodecTest, DoesWhatItsHeaderSaysRowByRow) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(3 * kInt8Row + 77), errors(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = normal(random) * std::pow(10.0F, static_cast<float>(i / kInt8Row));
    errors[i] = normal(random) * 0.01F;
  }
  const Encoded encoded(values, errors);
  const auto scales = ValuesOf<float>(encoded.scales);
  ASSERT_EQ(scales.size(), 4U);
  std::vector<int8_t> quantized;
  std::vector<float> left, decoded;
  for (size_t first = 0; first < values.size(); first += kInt8Row) {
    const size_t end = std::min<size_t>(first + kInt8Row, values.size());
    float largest = 0;
    for (size_t i = first; i < end; ++i)
      largest = std::max(largest, std::abs(values[i] + errors[i]));
    const float scale = largest / 127.0F;
    EXPECT_EQ(scales[first / kInt8Row], scale);
    for (size_t i = first; i < end; ++i) {
      const float x = values[i] + errors[i];
      const float q = std::nearbyint(x / scale);
      quantized.push_back(static_cast<int8_t>(q));
      const float product = q * scale;
      left.push_back(x - product);
      decoded.push_back(product);
    }
  }
  EXPECT_EQ(ValuesOf<int8_t>(encoded.quantized), quantized);
  EXPECT_EQ(ValuesOf<float>(encoded.error), left);
  EXPECT_EQ(encoded.Decoded(), decoded);
}

TEST(CpuInt8CodecTest, ARowOfZerosStaysZero) {
  const Encoded encoded({0, 0, -0.0F});
  EXPECT_THAT(ValuesOf<float>(encoded.scales), ElementsAre(0));
  EXPECT_THAT(encoded.Decoded(), ElementsAre(0, 0, 0));
  EXPECT_THAT(ValuesOf<float>(encoded.error), ElementsAre(0, 0, 0));
}

TEST(CpuInt8CodecTest, ValuesTooSmallForAScaleAreKeptInTheError) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const Encoded none({tiny, -30 * tiny});  // The scale would be below the smallest float.
  EXPECT_THAT(ValuesOf<float>(none.error), ElementsAre(tiny, -30 * tiny));
  const Encoded some({190 * tiny});  // The scale is rounded from 1.496 units to 1.
  EXPECT_THAT(ValuesOf<int8_t>(some.quantized), ElementsAre(127));
  EXPECT_THAT(ValuesOf<float>(some.error), ElementsAre(63 * tiny));
}

TEST(CpuInt8CodecTest, WhatIsNotFiniteIsNotHidden) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {std::nanf(""), infinity, -infinity}) {
    for (const float value : Encoded({1, bad, 2}).Decoded()) EXPECT_FALSE(std::isfinite(value));
  }
}

}  // namespace
}  // namespace paceline
