#include "worker/trainer/fault.h"

#include <gtest/gtest.h>

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

// The draws are part of the interface: bench/peers and tests/parity make the same in Python.
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

}  // namespace
}  // namespace paceline
