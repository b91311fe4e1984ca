#include "cli/view/numbers.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace paceline {
namespace {

TEST(NumbersTest, Durations) {
  EXPECT_EQ(DurationText(0.44), "0.4 s");
  EXPECT_EQ(DurationText(9.97), "10 s");
  EXPECT_EQ(DurationText(59.6), "1 min 00 s");
  EXPECT_EQ(DurationText(185), "3 min 05 s");
  EXPECT_EQ(DurationText(7380), "2 h 03 min");
  EXPECT_EQ(DurationText(3 * 86400 + 4 * 3600), "3 d 4 h");
  EXPECT_EQ(DurationText(-1), "-");
  EXPECT_EQ(DurationText(std::numeric_limits<double>::infinity()), "-");
}

TEST(NumbersTest, ShortDurations) {
  EXPECT_EQ(ShortDurationText(0), "0 ms");
  EXPECT_EQ(ShortDurationText(0.0123), "12 ms");
  EXPECT_EQ(ShortDurationText(0.0996), "0.10 s");
  EXPECT_EQ(ShortDurationText(0.934), "0.93 s");
  EXPECT_EQ(ShortDurationText(1.26), "1.3 s");
  EXPECT_EQ(ShortDurationText(std::nan("")), "-");
}

TEST(NumbersTest, Bytes) {
  EXPECT_EQ(BytesText(512), "512 B");
  EXPECT_EQ(BytesText(1536), "1.5 KiB");
  EXPECT_EQ(BytesText(int64_t{64} << 30), "64.0 GiB");
}

TEST(NumbersTest, LossesAndRates) {
  EXPECT_EQ(LossText(2.30259), "2.3026");
  EXPECT_EQ(LossText(-std::nan("")), "nan");
  EXPECT_EQ(LossText(0.0000123), "1.2e-05");
  EXPECT_EQ(KnownLossText(0), "");
  EXPECT_EQ(KnownLossText(-0.25), "-0.2500");
  EXPECT_EQ(KnownLossText(std::nan("")), "nan");
  EXPECT_EQ(RateText(0.527), "0.53");
  EXPECT_EQ(RateText(12.34), "12.3");
  EXPECT_EQ(RateText(1234.4), "1234");
  EXPECT_EQ(FlopRateText(0.5), "0.50 FLOP/s");
  EXPECT_EQ(FlopRateText(999), "999 FLOP/s");
  EXPECT_EQ(FlopRateText(999.6), "1.00 KFLOP/s");
  EXPECT_EQ(FlopRateText(247.4e12), "247 TFLOP/s");
  EXPECT_EQ(FlopRateText(2.5e21), "2500 EFLOP/s");
  EXPECT_EQ(PercentText(0.978), "97.8 %");
}

}  // namespace
}  // namespace paceline
