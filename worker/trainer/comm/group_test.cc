#include "worker/trainer/comm/group.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "worker/trainer/comm/rank_threads.h"

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TrainerConfig Ranks(int count) {
  TrainerConfig config;
  config.world_size = count;
  config.startup_timeout = absl::Seconds(20);
  return config;
}

std::vector<float> Values(const at::Tensor& tensor) {
  const auto* const data = tensor.const_data_ptr<float>();
  return {data, data + tensor.numel()};
}

at::Tensor Filled(int count, int value) { return at::full({count}, value, at::kFloat); }

std::vector<int> HalfOf(int rank) {
  return rank < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
}

TEST(GroupTest, CollectivesReachTheMembersOnly) {
  RunRanks(Ranks(4), [](const TrainerConfig& config, Groups& groups) {
    const int rank = config.rank();
    Group& half = groups.Get(HalfOf(rank), "parameters");
    EXPECT_EQ(half.ranks(), HalfOf(rank));

    at::Tensor value = Filled(2, rank);
    half.Sum(value);
    EXPECT_THAT(Values(value), ElementsAre(rank < 2 ? 1 : 5, rank < 2 ? 1 : 5));
    value = Filled(1, rank);
    groups.all().Sum(value);
    EXPECT_THAT(Values(value), ElementsAre(6));

    value = Filled(1, rank);
    half.CopyFromFirst({value});
    EXPECT_THAT(Values(value), ElementsAre(rank < 2 ? 0 : 2));

    at::Tensor gathered = at::empty({4}, at::kFloat);
    half.Gather(gathered, Filled(2, rank));
    const float first = rank < 2 ? 0 : 2;
    EXPECT_THAT(Values(gathered), ElementsAre(first, first, first + 1, first + 1));

    at::Tensor parts = at::empty({4}, at::kFloat);
    groups.all().ExchangeParts(parts, at::arange(4, at::kFloat).add(10 * rank));
    const auto own = static_cast<float>(rank);
    EXPECT_THAT(Values(parts), ElementsAre(own, own + 10, own + 20, own + 30));
  });
}

TEST(GroupTest, IsMadeOnceForItsMembersAndUse) {
  RunRanks(Ranks(4), [](const TrainerConfig& config, Groups& groups) {
    Group& first = groups.Get(HalfOf(config.rank()), "parameters");
    EXPECT_EQ(&groups.Get(HalfOf(config.rank()), "parameters"), &first);
    EXPECT_NE(&groups.Get(HalfOf(config.rank()), "gradients"), &first);
    EXPECT_EQ(&groups.Get({0, 1, 2, 3}, "parameters"), &groups.all());
    Group& alone = groups.Get({config.rank()}, "parameters");
    at::Tensor value = Filled(1, 7);
    alone.Sum(value);
    EXPECT_THAT(Values(value), ElementsAre(7));
    EXPECT_EQ(alone.torch_group().get(), nullptr);
  });
}

TEST(GroupTest, MayBeMadeAgainAfterItWasDropped) {
  RunRanks(Ranks(4), [](const TrainerConfig& config, Groups& groups) {
    for (int round = 0; round < 3; ++round) {
      at::Tensor value = Filled(1, 1);
      groups.Get(HalfOf(config.rank()), "parameters").Sum(value);
      EXPECT_THAT(Values(value), ElementsAre(2));
      groups.all().Sum(value);  // All have left the others.
      groups.Drop(HalfOf(config.rank()), "parameters");
      groups.Drop({0, 1, 2, 3}, "parameters");  // Is all(), and stays.
    }
  });
}

TEST(GroupTest, AreMadeWhileOthersAreInUse) {
  RunRanks(Ranks(4), [](const TrainerConfig& config, Groups& groups) {
    std::thread builder([&] {
      absl::SleepFor(absl::Milliseconds(20 * config.rank()));
      groups.Get(HalfOf(config.rank()), "parameters");
      groups.Get(HalfOf(config.rank()), "gradients");
    });
    at::Tensor value = Filled(1, 1);
    for (int step = 0; step < 100; ++step) {
      value.fill_(1);
      groups.all().Sum(value);
    }
    builder.join();
    EXPECT_THAT(Values(value), ElementsAre(4));
  });
}

TEST(GroupTest, TimeoutHoldsForAllGroupsAlsoLaterOnes) {
  RunRanks(Ranks(4), [](const TrainerConfig& config, Groups& groups) {
    Group& before = groups.Get(HalfOf(config.rank()), "before");
    groups.SetTimeout(absl::Milliseconds(300));
    Group& after = groups.Get(HalfOf(config.rank()), "after");
    const absl::Time start = absl::Now();
    if (config.rank() % 2 == 0) {
      EXPECT_THROW(before.Sum(Filled(1, 1)), CollectiveError);
      try {
        after.Sum(Filled(1, 1));
        ADD_FAILURE() << "a sum without the other member";
      } catch (const CollectiveError& error) {
        EXPECT_THAT(error.what(), HasSubstr("sum over the ranks: "));
      }
    } else {
      absl::SleepFor(absl::Seconds(1));
    }
    EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  });
}

TEST(GroupTest, RankZeroTellsTheOthers) {
  RunRanks(Ranks(3), [](const TrainerConfig& config, Groups& groups) {
    EXPECT_EQ(groups.ShareFromRankZero("plan", absl::StrCat("of ", config.rank())), "of 0");
    EXPECT_EQ(groups.ShareFromRankZero("other", ""), "");
  });
}

TEST(GroupTest, ARankThatIsAloneNeedsNoStore) {
  RunRanks(Ranks(1), [](const TrainerConfig& /*config*/, Groups& groups) {
    at::Tensor value = Filled(2, 3);
    groups.all().Sum(value);
    at::Tensor gathered = at::empty({2}, at::kFloat);
    groups.all().Gather(gathered, value);
    EXPECT_THAT(Values(gathered), ElementsAre(3, 3));
    groups.SetTimeout(absl::Seconds(1));
    EXPECT_EQ(groups.ShareFromRankZero("plan", "mine"), "mine");
  });
}

}  // namespace
}  // namespace paceline
