// The kernels give the bits of the CPU's codec.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/gpu/gpu_test.h"
#include "worker/trainer/comm/cpu_int8_codec.h"

namespace paceline {
namespace {

struct Codes {
  at::Tensor error;
  at::Tensor quantized;
  at::Tensor scales;
  at::Tensor sum;
};

// Encodes two rounds, so that the second contains the error of the first.
Codes TwoRounds(Int8Codec& codec, const at::Tensor& value, c10::Device device) {
  const int64_t count = value.numel();
  const auto options = at::TensorOptions().device(device);
  const at::Tensor there = value.to(device);
  Codes codes{at::zeros({count}, options), at::empty({count}, options.dtype(at::kChar)),
              at::empty({(count + kInt8Row - 1) / kInt8Row}, options), at::zeros({count}, options)};
  for (const float factor : {1.0F, 1.0F / 3}) {
    codec.Encode(there, codes.error, codes.quantized, codes.scales);
    codec.AddDecoded(codes.quantized, codes.scales, factor, codes.sum);
  }
  for (at::Tensor* tensor : {&codes.error, &codes.quantized, &codes.scales, &codes.sum}) {
    *tensor = tensor->cpu();
  }
  return codes;
}

void ExpectSameBits(const at::Tensor& a, const at::Tensor& b, const char* what) {
  const bool floats = a.scalar_type() == at::kFloat;
  EXPECT_TRUE(at::equal(floats ? a.view(at::kInt) : a, floats ? b.view(at::kInt) : b))
      << what << " differs for " << a.numel() << " values";
}

class Int8CodecTest : public GpuTest {
 protected:
  void ExpectSame(const at::Tensor& value) {
    CpuInt8Codec cpu;
    const Codes expected = TwoRounds(cpu, value, c10::kCPU);
    const Codes actual = TwoRounds(platform_.int8_codec(), value, device_);
    ExpectSameBits(actual.quantized, expected.quantized, "quantized");
    ExpectSameBits(actual.scales, expected.scales, "scales");
    ExpectSameBits(actual.error, expected.error, "error");
    ExpectSameBits(actual.sum, expected.sum, "sum");
  }
};

TEST_F(Int8CodecTest, RandomValuesOfAllLengths) {
  for (const int64_t count : {1, 2, 31, 127, 128, 129, 511, 512, 513, 1024, 100'003}) {
    ExpectSame(at::randn({count}));
  }
}

TEST_F(Int8CodecTest, AllMagnitudes) {
  std::vector<at::Tensor> rows;
  for (int half = -90; half <= 76; ++half) {
    const double exponent = 0.5 * half;
    rows.push_back(at::randn({kInt8Row}).clamp(-3, 3).mul(std::pow(10.0, exponent) / 10));
  }
  ExpectSame(at::cat(rows));
}

TEST_F(Int8CodecTest, ValuesNextToZero) {
  std::vector<at::Tensor> rows = {at::zeros({kInt8Row}), at::zeros({kInt8Row}).neg()};
  const float least = std::numeric_limits<float>::denorm_min();
  for (const float steps : {1.0F, 2.0F, 63.0F, 64.0F, 127.0F, 190.0F, 191.0F, 1000.0F}) {
    rows.push_back(at::linspace(-steps, steps, kInt8Row).round().mul(least));
  }
  ExpectSame(at::cat(rows));
}

TEST_F(Int8CodecTest, Ties) {
  // With a largest value of 127 the scale is 1.
  at::Tensor halves = at::linspace(-127, 127, 509).mul(2).round().div(2);
  ExpectSame(at::cat({halves, at::full({3}, 127.0)}));
}

TEST_F(Int8CodecTest, NothingIsNoError) { ExpectSame(at::empty({0})); }

}  // namespace
}  // namespace paceline
