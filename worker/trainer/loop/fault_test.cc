#include "worker/trainer/loop/fault.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "absl/time/clock.h"

namespace paceline {
namespace {

TEST(FaultTest, HappensAtItsSteps) {
  FaultConfig fault;
  fault.step = 3;
  fault.steps = 2;
  EXPECT_FALSE(Happens(fault, 0, 0, 2));
  EXPECT_TRUE(Happens(fault, 0, 0, 3));
  EXPECT_TRUE(Happens(fault, 0, 0, 4));
  EXPECT_FALSE(Happens(fault, 0, 0, 5));
}

TEST(FaultTest, ConcernsItsRankAndGeneration) {
  FaultConfig fault;
  Member member;
  member.rank = 2;
  member.generation = 3;
  EXPECT_TRUE(Concerns(fault, member));
  fault.rank = 2;
  EXPECT_TRUE(Concerns(fault, member));
  fault.generation = 3;
  EXPECT_TRUE(Concerns(fault, member));
  fault.generation = 2;
  EXPECT_FALSE(Concerns(fault, member));
  fault.generation = 0;
  fault.rank = 1;
  EXPECT_FALSE(Concerns(fault, member));
}

TEST(FaultTest, ProbabilityIsTheShareOfStepsAndDependsOnSeedRankAndStep) {
  FaultConfig fault;
  fault.steps = 100000;
  fault.probability = 0.02;
  int happened = 0;
  int differs_by_rank = 0;
  int differs_by_seed = 0;
  for (int64_t step = 0; step < fault.steps; ++step) {
    const bool happens = Happens(fault, 1, 0, step);
    happened += happens ? 1 : 0;
    differs_by_rank += happens != Happens(fault, 1, 1, step) ? 1 : 0;
    differs_by_seed += happens != Happens(fault, 2, 0, step) ? 1 : 0;
  }
  // Five standard deviations.
  EXPECT_NEAR(happened, 2000, 222);
  EXPECT_NEAR(differs_by_rank, 3920, 310);
  EXPECT_NEAR(differs_by_seed, 3920, 310);
}

// The draws are part of the interface: bench/peers and tests/parity repeat them in Python.
TEST(FaultTest, DrawsAreThoseOfTheDocumentedHash) {
  FaultConfig fault;
  fault.steps = 64;
  fault.probability = 0.25;
  uint64_t drawn = 0;
  for (int64_t step = 0; step < fault.steps; ++step) {
    drawn |= static_cast<uint64_t>(Happens(fault, 7, 3, step)) << step;
  }
  EXPECT_EQ(drawn, 0x42625084001342c6);
}

TrainerConfig Disturbed(FaultConfig::Kind kind) {
  TrainerConfig config;
  config.chaos.resize(1);
  config.chaos[0].kind = kind;
  config.chaos[0].step = 1;
  config.chaos[0].steps = 2;
  config.chaos[0].duration = absl::Milliseconds(30);
  config.chaos[0].factor = 3;
  return config;
}

template <typename Do>
absl::Duration TimeOf(Do act) {
  const absl::Time begin = absl::Now();
  act();
  return absl::Now() - begin;
}

// The shortest of many: on a busy machine, any single one may take long.
template <typename Do>
absl::Duration LeastTimeOf(Do act) {
  absl::Duration least = absl::InfiniteDuration();
  for (int i = 0; i < 20; ++i) least = std::min(least, TimeOf(act));
  return least;
}

constexpr absl::Duration kPass = absl::Milliseconds(20);

TEST(ChaosTest, PassesOfASlowRankTakeItsFactor) {
  const TrainerConfig config = Disturbed(FaultConfig::Kind::kSlow);
  Chaos chaos(config);
  const auto forward = [&] {
    chaos.BeginForward();
    absl::SleepFor(kPass);
    chaos.EndForward();
  };
  const auto backward = [&] {
    chaos.BeginBackward();
    absl::SleepFor(kPass);
    chaos.EndBackward();
  };
  EXPECT_FALSE(chaos.BeginStep(0));
  forward();
  backward();
  for (int64_t step = 1; step < 3; ++step) {
    chaos.BeginStep(step);
    EXPECT_GE(TimeOf(forward), 3 * kPass);
    EXPECT_GE(TimeOf(backward), 3 * kPass) << "the pass before was not twice as long for it";
  }
  chaos.BeginStep(3);
  chaos.BeginForward();
  EXPECT_LT(LeastTimeOf([&] { chaos.EndForward(); }), kPass);
}

TEST(ChaosTest, EachPauseIsInItsPhase) {
  const TrainerConfig stall = Disturbed(FaultConfig::Kind::kLoaderStall);
  Chaos loader(stall);
  EXPECT_GE(TimeOf([&] { loader.BeginStep(1); }), absl::Milliseconds(30));

  const TrainerConfig sleep = Disturbed(FaultConfig::Kind::kSleep);
  Chaos sleeper(sleep);
  sleeper.BeginStep(1);
  EXPECT_GE(TimeOf([&] { sleeper.BeginForward(); }), absl::Milliseconds(30));
  EXPECT_LT(LeastTimeOf([&] { sleeper.BeginForward(); }), absl::Milliseconds(30)) << "once a step";

  const TrainerConfig delay = Disturbed(FaultConfig::Kind::kCommunicationDelay);
  Chaos sender(delay);
  sender.BeginStep(2);
  EXPECT_GE(TimeOf([&] { sender.BeforeExchange(); }), absl::Milliseconds(30));
  sender.BeginStep(3);
  EXPECT_LT(LeastTimeOf([&] { sender.BeforeExchange(); }), absl::Milliseconds(30));
}

TEST(ChaosTest, IsOverWhenItsFileIsThere) {
  TrainerConfig config = Disturbed(FaultConfig::Kind::kNanLoss);
  config.chaos[0].until_file = ::testing::TempDir() + "/over";
  std::filesystem::remove(config.chaos[0].until_file);
  Chaos chaos(config);
  EXPECT_TRUE(chaos.BeginStep(1));
  ASSERT_TRUE(std::ofstream(config.chaos[0].until_file).good());
  EXPECT_FALSE(chaos.BeginStep(2));
  config.chaos[0].kind = FaultConfig::Kind::kFlipBit;
  EXPECT_FALSE(FlipsBit(config, 1));
  config.chaos[0].until_file.clear();
  EXPECT_TRUE(FlipsBit(config, 1));
}

TEST(ChaosTest, StopsOrThrowsAtItsStep) {
  const TrainerConfig config = Disturbed(FaultConfig::Kind::kThrow);
  Chaos chaos(config);
  EXPECT_FALSE(chaos.BeginStep(0));
  EXPECT_THROW(chaos.BeginStep(1), std::runtime_error);
  const TrainerConfig nan = Disturbed(FaultConfig::Kind::kNanLoss);
  EXPECT_TRUE(Chaos(nan).BeginStep(1));
}

}  // namespace
}  // namespace paceline
