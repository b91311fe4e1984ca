#include "controller/core/steps/curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace paceline {
namespace {

// Keeps all values, and merges them only when asked for points.
class Model {
 public:
  void Add(int64_t step, double value) {
    if (step <= 0 || (!values_.empty() && values_.back().first == step)) return;
    const auto is_undone = [&](const auto& known) { return known.first / width_ > step / width_; };
    values_.erase(std::remove_if(values_.begin(), values_.end(), is_undone), values_.end());
    values_.emplace_back(step, value);
    while (Count() > kCurvePoints) width_ *= 2;
  }

  int64_t width() const { return width_; }

  std::vector<CurvePoint> Points() const {
    std::map<int64_t, CurvePoint> points;
    for (const auto& [step, value] : values_) {
      CurvePoint& point = points[step / width_];
      point.step = step;
      if (!std::isfinite(value)) {
        ++point.not_finite;
        continue;
      }
      point.least = point.values == 0 ? value : std::min(point.least, value);
      point.most = point.values == 0 ? value : std::max(point.most, value);
      point.sum += value;
      ++point.values;
    }
    std::vector<CurvePoint> out;
    for (const auto& [place, point] : points) out.push_back(point);
    return out;
  }

 private:
  size_t Count() const {
    std::set<int64_t> places;
    for (const auto& [step, value] : values_) places.insert(step / width_);
    return places.size();
  }

  int64_t width_ = 1;
  std::vector<std::pair<int64_t, double>> values_;  // In the order in which they came.
};

void ExpectSame(const Curve& curve, const Model& model, int seed) {
  const std::vector<CurvePoint> expected = model.Points();
  ASSERT_EQ(curve.width(), model.width()) << "seed " << seed;
  ASSERT_EQ(curve.points().size(), expected.size()) << "seed " << seed;
  for (size_t i = 0; i < expected.size(); ++i) {
    const CurvePoint& point = curve.points()[i];
    ASSERT_EQ(point.step, expected[i].step) << "seed " << seed << ", point " << i;
    ASSERT_EQ(point.least, expected[i].least) << "seed " << seed << ", point " << i;
    ASSERT_EQ(point.most, expected[i].most) << "seed " << seed << ", point " << i;
    // Whole numbers: sums are exact in any order.
    ASSERT_EQ(point.sum, expected[i].sum) << "seed " << seed << ", point " << i;
    ASSERT_EQ(point.values, expected[i].values) << "seed " << seed << ", point " << i;
    ASSERT_EQ(point.not_finite, expected[i].not_finite) << "seed " << seed << ", point " << i;
  }
}

// Steps go on by 1 to `stride`; now and then the job goes back to an earlier one.
TEST(CurveTest, IsWhatAModelThatKeepsEverythingTells) {
  constexpr int kValues = 1500;
  for (int seed = 0; seed < 60; ++seed) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    const auto draw = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(random);
    };
    const int64_t stride = int64_t{1} << draw(0, 12);
    int64_t step = draw(0, 3) == 0 ? draw(0, 1000000) : 0;
    Curve curve;
    Model model;
    for (int i = 0; i < kValues; ++i) {
      step += draw(0, 20) == 0 ? 0 : draw(1, stride);
      if (draw(0, 300) == 0) step = draw(0, step);
      double value = static_cast<double>(draw(-1000, 1000));
      if (draw(0, 50) == 0) value = std::numeric_limits<double>::quiet_NaN();
      if (draw(0, 50) == 0) value = std::numeric_limits<double>::infinity();
      curve.Add(step, value);
      model.Add(step, value);
      ASSERT_LE(curve.points().size(), kCurvePoints);
      ASSERT_LE(curve.points().capacity(), kCurvePoints);
      if (i % 97 == 0 || i + 1 == kValues) ExpectSame(curve, model, seed);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(CurveTest, KeepsExtremesAndMeansOfALongRun) {
  Curve curve;
  constexpr int64_t kSteps = 100000;
  for (int64_t step = 1; step <= kSteps; ++step) {
    curve.Add(step, step == 77777 ? 1000.0 : static_cast<double>(step % 2));
  }
  EXPECT_EQ(curve.width(), 512);
  EXPECT_EQ(curve.points().back().step, kSteps);
  double most = 0;
  uint32_t values = 0;
  for (const CurvePoint& point : curve.points()) {
    EXPECT_EQ(point.least, 0);
    most = std::max(most, point.most);
    values += point.values;
  }
  EXPECT_EQ(most, 1000) << "a spike of one step stays visible";
  EXPECT_EQ(values, kSteps);
  const CurvePoint& second = curve.points()[1];
  EXPECT_EQ(second.sum / second.values, 0.5);
}

TEST(CurveTest, StepsThatAreMadeAgainReplaceTheOldOnes) {
  Curve curve;
  for (int64_t step = 1; step <= 20; ++step) curve.Add(step, 1);
  for (int64_t step = 11; step <= 15; ++step) curve.Add(step, 2);
  ASSERT_EQ(curve.points().size(), 15U);
  EXPECT_EQ(curve.points()[9].sum, 1);
  EXPECT_EQ(curve.points()[11].sum, 2);
  EXPECT_EQ(curve.points().back().step, 15);
}

}  // namespace
}  // namespace paceline
