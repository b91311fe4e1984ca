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
#include "worker/trainer/comm/cpu_row_codec.h"

namespace paceline {
namespace {

struct Result {
  at::Tensor error;
  RowCodes codes;
  at::Tensor sum;
};

// Encodes two rounds, so that the second contains the error of the first.
Result TwoRounds(RowCodec& codec, RowFormat format, const at::Tensor& value, c10::Device device) {
  const int64_t count = value.numel();
  const auto options = at::TensorOptions().device(device);
  const at::Tensor there = value.to(device);
  Result result{at::zeros({count}, options),
                {at::full({CodeBytes(format, count)}, 0xff, options.dtype(at::kByte)),
                 at::empty({RowsOf(count)}, options)},
                at::zeros({count}, options)};
  for (const float factor : {1.0F, 1.0F / 3}) {
    codec.Encode(format, there, result.error, result.codes);
    codec.AddDecoded(format, result.codes, factor, result.sum);
  }
  for (at::Tensor* tensor :
       {&result.error, &result.codes.codes, &result.codes.scales, &result.sum}) {
    *tensor = tensor->cpu();
  }
  return result;
}

void ExpectSameBits(const at::Tensor& a, const at::Tensor& b, const char* what) {
  const bool floats = a.scalar_type() == at::kFloat;
  EXPECT_TRUE(at::equal(floats ? a.view(at::kInt) : a, floats ? b.view(at::kInt) : b))
      << what << " differs for " << a.numel() << " values";
}

class RowCodecTest : public GpuTest {
 protected:
  void ExpectSame(const at::Tensor& value) {
    CpuRowCodec cpu;
    for (const RowFormat format : {RowFormat::kInt4, RowFormat::kInt8, RowFormat::kFp8,
                                   RowFormat::kFp16, RowFormat::kBf16}) {
      SCOPED_TRACE(static_cast<int>(format));
      const Result expected = TwoRounds(cpu, format, value, c10::kCPU);
      const Result actual = TwoRounds(platform_.row_codec(), format, value, device_);
      ExpectSameBits(actual.codes.codes, expected.codes.codes, "codes");
      ExpectSameBits(actual.codes.scales, expected.codes.scales, "scales");
      ExpectSameBits(actual.error, expected.error, "error");
      ExpectSameBits(actual.sum, expected.sum, "sum");
    }
  }
};

TEST_F(RowCodecTest, RandomValuesOfAllLengths) {
  for (const int64_t count :
       {1, 2, 3, 31, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1024, 100'003}) {
    ExpectSame(at::randn({count}));
  }
}

TEST_F(RowCodecTest, AllMagnitudes) {
  std::vector<at::Tensor> rows;
  for (int half = -90; half <= 76; ++half) {
    const double exponent = 0.5 * half;
    rows.push_back(at::randn({kRowValues}).clamp(-3, 3).mul(std::pow(10.0, exponent) / 10));
  }
  ExpectSame(at::cat(rows));
}

TEST_F(RowCodecTest, ValuesNextToZero) {
  std::vector<at::Tensor> rows = {at::zeros({kRowValues}), at::zeros({kRowValues}).neg()};
  const float least = std::numeric_limits<float>::denorm_min();
  for (const float steps : {1.0F, 2.0F, 63.0F, 64.0F, 127.0F, 190.0F, 191.0F, 1000.0F}) {
    rows.push_back(at::linspace(-steps, steps, kRowValues).round().mul(least));
  }
  ExpectSame(at::cat(rows));
}

TEST_F(RowCodecTest, Ties) {
  // With a largest value of 127 the scale is 1.
  at::Tensor halves = at::linspace(-127, 127, 509).mul(2).round().div(2);
  ExpectSame(at::cat({halves, at::full({3}, 127.0)}));
  // The same of int4.
  halves = at::linspace(-7, 7, 509).mul(2).round().div(2);
  ExpectSame(at::cat({halves, at::full({3}, 7.0)}));
  // The same of fp8, whose numbers from 256 on are multiples of 32.
  at::Tensor whole = at::linspace(-448, 448, 509).round();
  ExpectSame(at::cat({whole, at::full({3}, 448.0)}));
}

TEST_F(RowCodecTest, NothingIsNoError) { ExpectSame(at::empty({0})); }

}  // namespace
}  // namespace paceline
