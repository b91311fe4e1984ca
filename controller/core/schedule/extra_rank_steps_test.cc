// Which of many extra ranks are given back, and how many questions that takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/schedule/extra_ranks.h"
#include "controller/core/schedule/slot_table.h"

namespace paceline {
namespace {

// Some running jobs, each with a rank that it wants and extra ones on random nodes.
std::vector<Job> RandomGivers(std::mt19937_64& random, int jobs, int extra, int nodes) {
  const auto below = [&](int end) {
    return std::uniform_int_distribution<int>(0, end - 1)(random);
  };
  std::vector<Job> givers(static_cast<size_t>(jobs));
  for (int j = 0; j < jobs; ++j) {
    Job& job = givers[static_cast<size_t>(j)];
    job.request.id = JobId(absl::StrCat("j", j));
    job.request.recovery.max_ranks = 4096;
    job.request.recovery.rule = BatchRule::kKeepRank;
    job.state = JobState::kRunning;
    const int ranks = 1 + below(extra + 1);
    for (int r = 0; r < ranks; ++r) {
      job.ranks.emplace_back().slot.node = NodeName(absl::StrCat("n", below(nodes)));
    }
  }
  return givers;
}

// The slow, obvious way: one after another, the costliest first, is left out if one gets as much
// without it. Returns how many ranks each job has then.
std::vector<int> GiveSlowly(const std::vector<Job>& givers, const NodeIndex& index, int wanted,
                            const ExtraRanks::Gain& gain) {
  std::vector<int> freed(static_cast<size_t>(index.size()));
  std::vector<int> ranks;
  const auto change = [&](const RankState& rank, int sign) {
    freed[static_cast<size_t>(index.Find(rank.slot.node))] += sign;
  };
  for (const Job& job : givers) {
    ranks.push_back(1);
    std::for_each(job.ranks.begin() + 1, job.ranks.end(), [&](const auto& r) { change(r, 1); });
  }
  const int best = std::min(wanted, gain(freed));
  for (size_t j = givers.size(); j-- > 0;) {
    for (size_t r = 1; r < givers[j].ranks.size(); ++r) {
      change(givers[j].ranks[r], -1);
      if (gain(freed) < best) {
        change(givers[j].ranks[r], 1);
        break;
      }
      ++ranks[j];
    }
  }
  return ranks;
}

TEST(ExtraRankStepsTest, NoMoreIsGivenThanTheSlowWayFinds) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<NodeSpace> spaces(4);
    for (size_t n = 0; n < spaces.size(); ++n) spaces[n].name = NodeName(absl::StrCat("n", n));
    const NodeIndex index = IndexOf(spaces);
    const std::vector<Job> givers = RandomGivers(random, 4, 5, 4);
    std::vector<int> useful;  // By node.
    for (int n = 0; n < 4; ++n) useful.push_back(static_cast<int>(random() % 4));
    const auto gain = [&](const std::vector<int>& freed) {
      int slots = 0;
      for (size_t n = 0; n < 4; ++n) slots += std::min(freed[n], useful[n]);
      return slots;
    };
    const int wanted = 1 + static_cast<int>(random() % 8);
    ExtraRanks extra(index);
    for (const Job& job : givers) extra.Add(job);
    extra.Give(gain, wanted, /*partly=*/true, "w", [](const JobRequest&) { return true; });
    std::vector<int> ranks;
    for (const Job& job : givers) {
      const auto back = extra.given().find(job.request.id);
      ranks.push_back(back == extra.given().end() ? static_cast<int>(job.ranks.size())
                                                  : back->second.ranks);
    }
    EXPECT_EQ(ranks, GiveSlowly(givers, index, wanted, gain)) << seed;
  }
}

// Each question may cost a look at all nodes.
TEST(ExtraRankStepsTest, FewQuestionsAreAskedOfManyExtraRanks) {
  std::vector<NodeSpace> spaces(1);
  spaces[0].name = NodeName("n0");
  const NodeIndex index = IndexOf(spaces);
  std::mt19937_64 random(0);
  std::vector<Job> givers = RandomGivers(random, 100, 0, 1);
  for (Job& job : givers) {
    const RankState rank = job.ranks.front();
    job.ranks.resize(101, rank);
  }
  ExtraRanks extra(index);
  for (const Job& job : givers) extra.Add(job);
  int questions = 0;
  const auto gain = [&](const std::vector<int>& freed) {
    ++questions;
    return freed[0];
  };
  extra.Give(gain, 250, /*partly=*/false, "w", [](const JobRequest&) { return true; });
  EXPECT_EQ(extra.given().size(), 3U);
  EXPECT_LT(questions, 60);
}

}  // namespace
}  // namespace paceline
