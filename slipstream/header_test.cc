#include "slipstream/header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

void AddTo(std::vector<double>& sums, const std::vector<double>& numbers) {
  sums.resize(numbers.size(), 0.0);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += numbers[i];
}

RoundSums Sum(const std::vector<RoundHeader>& headers) {
  std::vector<double> sums;
  for (size_t rank = 0; rank < headers.size(); ++rank) {
    AddTo(sums, HeaderNumbers(headers[rank], static_cast<int>(rank)));
  }
  return ReadHeaderSums(sums, static_cast<int>(headers.size()));
}

TEST(HeaderTest, CountsRanksAndTheirSteps) {
  std::vector<RoundHeader> headers(4);
  headers[0].steps = 3;
  headers[2].steps = 2;
  headers[1].ready = headers[3].ready = true;
  headers[3].stale = true;
  headers[1].time_is_up = true;
  headers[0].coming = headers[1].coming = headers[2].coming = true;
  const RoundSums sums = Sum(headers);
  EXPECT_EQ(sums.steps, 5);
  EXPECT_EQ(sums.active, 2);
  EXPECT_EQ(sums.ready, 2);
  EXPECT_EQ(sums.stale, 1);
  EXPECT_EQ(sums.time_is_up, 1);
  EXPECT_EQ(sums.coming, 3);
}

TEST(HeaderTest, OneRankWithAFlagIsNamedSeveralAreCounted) {
  std::vector<RoundHeader> headers(5);
  headers[3].excluded = true;
  headers[0].fault = headers[4].fault = true;
  const RoundSums sums = Sum(headers);
  EXPECT_EQ(sums.excluded, 1);
  EXPECT_EQ(sums.excluded_rank, 3);
  EXPECT_EQ(sums.fault, 2);
  EXPECT_EQ(sums.fault_rank, -1);
  headers[4].fault = false;
  EXPECT_EQ(Sum(headers).fault_rank, 0) << "rank 0, too";
}

TEST(HeaderTest, AVoteCountsWhenAllTellTheSame) {
  std::vector<RoundHeader> headers(3);
  for (RoundHeader& header : headers) header.plan_ahead = 2;
  headers[0].save_ahead = 1;
  const RoundSums sums = Sum(headers);
  EXPECT_EQ(sums.plan_ahead, 2);
  EXPECT_EQ(sums.save_ahead, 0);
  EXPECT_EQ(sums.leave_ahead, 0);
}

TEST(HeaderTest, VotesWithTheRightMeanAreNotTheSame) {
  std::vector<RoundHeader> headers(3);
  headers[0].plan_ahead = 1;
  headers[1].plan_ahead = 2;
  headers[2].plan_ahead = 3;
  EXPECT_EQ(Sum(headers).plan_ahead, 0);
}

TEST(HeaderTest, VotesAreExactForTheMostRanks) {
  RoundHeader header;
  header.plan_ahead = (1 << 19) - 1;
  header.hash = ~uint64_t{0};
  std::vector<RoundHeader> headers(kMaxSlipstreamRanks, header);
  EXPECT_EQ(Sum(headers).plan_ahead, (1 << 19) - 1);
  EXPECT_FALSE(Sum(headers).hashes_differ);
  headers.back().plan_ahead -= 1;
  headers.back().hash -= 1;
  EXPECT_EQ(Sum(headers).plan_ahead, 0);
  EXPECT_TRUE(Sum(headers).hashes_differ);
}

TEST(HeaderTest, AHashThatDiffersInAnyComparedBitIsFound) {
  for (int bit = 0; bit < kHashBits; ++bit) {
    std::vector<RoundHeader> headers(8);
    for (RoundHeader& header : headers) header.hash = 0x123456789abcdef;
    EXPECT_FALSE(Sum(headers).hashes_differ);
    headers[5].hash ^= uint64_t{1} << bit;
    EXPECT_TRUE(Sum(headers).hashes_differ) << bit;
  }
}

TEST(HeaderTest, TimesAreMeansAndStepsMeanSpeeds) {
  std::vector<RoundHeader> headers(4);
  headers[0].step = headers[1].step = absl::Milliseconds(100);
  headers[2].step = absl::Milliseconds(400);  // headers[3] does not know it.
  for (RoundHeader& header : headers) header.collective = absl::Milliseconds(8);
  headers[3].copies = absl::Milliseconds(4);
  const RoundSums sums = Sum(headers);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(sums.step), 1000 * 3 / 22.5, 1e-6);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(sums.collective), 8, 1e-6);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(sums.copies), 1, 1e-6);
  EXPECT_EQ(Sum(std::vector<RoundHeader>(2)).step, absl::ZeroDuration());
}

TEST(HeaderTest, TheLossIsTheMeanOfThoseThatToldOne) {
  std::vector<RoundHeader> headers(3);
  EXPECT_FALSE(Sum(headers).loss.has_value());
  headers[0].loss = 2;
  headers[2].loss = 5;
  EXPECT_EQ(Sum(headers).loss, 3.5);
}

TEST(HeaderTest, ARoundWasStretchedIfTheMajoritySaysSo) {
  std::vector<RoundHeader> headers(4);
  headers[0].stretched = headers[1].stretched = true;
  EXPECT_FALSE(Sum(headers).stretched);
  headers[2].stretched = true;
  EXPECT_TRUE(Sum(headers).stretched);
}

std::vector<int> Differ(const std::vector<uint64_t>& hashes) {
  std::vector<double> sums;
  for (size_t rank = 0; rank < hashes.size(); ++rank) {
    AddTo(sums,
          RollCallNumbers(hashes[rank], static_cast<int>(rank), static_cast<int>(hashes.size())));
  }
  return RanksThatDiffer(sums);
}

TEST(RollCallTest, NamesThoseThatDifferFromTheMostCommon) {
  EXPECT_THAT(Differ({7, 7, 8, 7}), ElementsAre(2));
  EXPECT_THAT(Differ({1, 7, 8, 7}), ElementsAre(0, 2));
  EXPECT_THAT(Differ({7, 7}), IsEmpty());
  EXPECT_THAT(Differ({5, 7}), ElementsAre(1)) << "of two, the second";
}

}  // namespace
}  // namespace paceline
