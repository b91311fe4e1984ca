#include "controller/core/stragglers/remedy/remedy_check.h"

#include <gtest/gtest.h>

#include <random>

namespace paceline {
namespace {

TEST(StepMeterTest, MeanOfWindowsOfDifferentLength) {
  StepMeter meter;
  meter.Add(0, 10, 1);
  meter.Add(10, 10, 1);
  meter.Add(20, 30, 6);
  EXPECT_FALSE(meter.Mean().has_value()) << "three windows";
  meter.Add(50, 10, 2);
  EXPECT_DOUBLE_EQ(meter.Mean()->seconds, 10.0 / 60);
  EXPECT_GT(meter.Mean()->error, 0);
  EXPECT_EQ(meter.steps(), 60);
}

TEST(StepMeterTest, FewStepsTellNothing) {
  StepMeter meter;
  for (int i = 0; i < 19; ++i) meter.Add(i, 1, 0.1);
  EXPECT_FALSE(meter.Mean().has_value());
  meter.Add(19, 1, 0.1);
  EXPECT_NEAR(meter.Mean()->seconds, 0.1, 1e-12);
  EXPECT_NEAR(meter.Mean()->error, 0, 1e-9);
}

TEST(StepMeterTest, SinceAStep) {
  StepMeter meter;
  for (int i = 0; i < 10; ++i) meter.Add(10 * i, 10, i < 5 ? 1 : 2);
  EXPECT_DOUBLE_EQ(meter.Mean(50)->seconds, 0.2);
  EXPECT_DOUBLE_EQ(meter.Mean()->seconds, 0.15);
  EXPECT_FALSE(meter.Mean(61).has_value()) << "three windows";
}

TEST(StepMeterTest, ForgetsOldSteps) {
  StepMeter meter;
  for (int i = 0; i < 1000; ++i) meter.Add(10 * i, 10, 1);
  for (int i = 0; i < 100; ++i) meter.Add(10000 + 10 * i, 10, 2);
  EXPECT_GE(meter.steps(), 1000);
  EXPECT_LE(meter.steps(), 1100);
  EXPECT_NEAR(meter.Mean()->seconds, 0.2, 0.01);
  meter.Clear();
  EXPECT_EQ(meter.steps(), 0);
}

TEST(StepMeterTest, ErrorIsThatOfTheMean) {
  std::normal_distribution<double> noise(1, 0.2);
  int inside = 0;
  const int rounds = 500;
  for (int round = 0; round < rounds; ++round) {
    std::mt19937_64 random(static_cast<uint64_t>(round));
    StepMeter meter;
    for (int i = 0; i < 40; ++i) meter.Add(10 * i, 10, 10 * noise(random));
    const StepMean mean = *meter.Mean();
    if (std::abs(mean.seconds - 1) < 1.96 * mean.error) ++inside;
  }
  EXPECT_NEAR(inside / double{rounds}, 0.95, 0.03);
}

TEST(CheckRemedyTest, HalfOfTheFallIsEnough) {
  const StepMean before{0.2, 0};
  EXPECT_EQ(CheckRemedy(before, 0.1, {0.1, 0}), RemedyEffect::kHelped);
  EXPECT_EQ(CheckRemedy(before, 0.1, {0.149, 0}), RemedyEffect::kHelped);
  EXPECT_EQ(CheckRemedy(before, 0.1, {0.151, 0}), RemedyEffect::kDidNotHelp);
  EXPECT_EQ(CheckRemedy(before, 0.1, {0.25, 0}), RemedyEffect::kDidNotHelp);
}

TEST(CheckRemedyTest, UncertainMeansLeaveItOpen) {
  EXPECT_EQ(CheckRemedy({0.2, 0}, 0.1, {0.14, 0.01}), RemedyEffect::kOpen);
  EXPECT_EQ(CheckRemedy({0.2, 0}, 0.1, {0.16, 0.01}), RemedyEffect::kOpen);
  EXPECT_EQ(CheckRemedy({0.2, 0}, 0.1, {0.13, 0.01}), RemedyEffect::kHelped);
  EXPECT_EQ(CheckRemedy({0.2, 0}, 0.1, {0.17, 0.01}), RemedyEffect::kDidNotHelp);
  EXPECT_EQ(CheckRemedy({0.2, 0.02}, 0.1, {0.13, 0.01}), RemedyEffect::kOpen)
      << "what was before is as uncertain";
}

TEST(CheckRemedyTest, WhatPromisedNothingMustNotDoHarm) {
  EXPECT_EQ(CheckRemedy({0.2, 0}, 0.2, {0.21, 0}), RemedyEffect::kHelped);
  EXPECT_EQ(CheckRemedy({0.2, 0}, 0.2, {0.23, 0}), RemedyEffect::kDidNotHelp);
  EXPECT_EQ(CheckRemedy({0.2, 0}, 0.204, {0.22, 0}), RemedyEffect::kHelped);
}

TEST(CheckPairsTest, ChanceThatBothHaveInCommonHidesNothing) {
  // Stalls make windows differ by a factor of 8; the remedy saves a fifth of each.
  std::vector<ComparedSteps> pairs;
  for (int i = 0; i < 4; ++i) {
    const double without_s = i % 2 == 0 ? 32 : 4;
    pairs.push_back({32 * i, 32, 0.8 * without_s, without_s});
  }
  EXPECT_EQ(CheckPairs(pairs, 0.8), RemedyEffect::kHelped);
  EXPECT_EQ(CheckPairs(pairs, 0.5), RemedyEffect::kDidNotHelp) << "less than half of the promise";
  pairs.resize(3);
  EXPECT_EQ(CheckPairs(pairs, 0.8), RemedyEffect::kOpen) << "too few";
}

TEST(CheckPairsTest, DifferenceThatVariesIsNotCertain) {
  std::vector<ComparedSteps> pairs;
  for (int i = 0; i < 6; ++i) pairs.push_back({32 * i, 32, i % 2 == 0 ? 12.0 : 24.0, 20});
  EXPECT_EQ(CheckPairs(pairs, 0.8), RemedyEffect::kOpen);
}

TEST(CheckPairsTest, WhatPromisedNothingMustOnlyNotBeLonger) {
  std::vector<ComparedSteps> pairs;
  for (int i = 0; i < 6; ++i) pairs.push_back({32 * i, 32, 20.2, 20});
  EXPECT_EQ(CheckPairs(pairs, 1), RemedyEffect::kHelped);
  for (ComparedSteps& pair : pairs) pair.with_s = 23;
  EXPECT_EQ(CheckPairs(pairs, 1), RemedyEffect::kDidNotHelp);
}

}  // namespace
}  // namespace paceline
