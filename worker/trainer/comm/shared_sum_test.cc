#include "worker/trainer/comm/shared_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"

namespace paceline {
namespace {

using testing::HasSubstr;

// Members in one process, with ranks 10, 11, ...
std::vector<std::unique_ptr<SharedSum>> MakeMembers(int count) {
  std::vector<int> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 10);
  std::vector<std::unique_ptr<SharedSum>> members;
  SharedMemory::Address address;
  for (int place = 0; place < count; ++place) {
    absl::StatusOr<SharedMemory> memory = place == 0
                                              ? SharedMemory::Make(SharedSum::kBytes)
                                              : SharedMemory::Open(address, SharedSum::kBytes);
    EXPECT_TRUE(memory.ok()) << memory.status();
    if (place == 0) address = memory->address();
    EXPECT_TRUE(memory->TakePlace(place).ok());
    members.push_back(std::make_unique<SharedSum>(*std::move(memory), place, ranks));
    members.back()->SetTimeout(absl::Seconds(60));
  }
  return members;
}

// Calls run(member, place) for each member on its own thread.
void RunAll(std::vector<std::unique_ptr<SharedSum>>& members,
            const std::function<void(SharedSum&, int)>& run) {
  std::vector<std::thread> threads;
  for (size_t place = 0; place < members.size(); ++place) {
    threads.emplace_back([&, place] { run(*members[place], static_cast<int>(place)); });
  }
  for (std::thread& thread : threads) thread.join();
}

// The error that a sum throws; empty: none.
std::string ErrorOf(SharedSum& member) {
  std::vector<float> values(100, 1);
  try {
    member.Sum<float>(values.data(), values.size(), nullptr);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

std::vector<float> ValuesOf(int place, int round, size_t count) {
  std::minstd_rand random(static_cast<unsigned>(1000 * round + place + 1));
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random()) * 0x1p-30F - 1;
  return values;
}

TEST(SharedSumTest, AddsUpInTheOrderOfThePlaces) {
  constexpr int kMembers = 5;
  // Some vectors exceed a slot; others are too small to wake anybody.
  const size_t counts[] = {1, 28, 100, 5000, 70'001, 1'000'003, 3'000'000, 2, 4096};
  auto members = MakeMembers(kMembers);
  RunAll(members, [&](SharedSum& member, int place) {
    int round = 0;
    for (const size_t count : counts) {
      ++round;
      std::vector<float> values = ValuesOf(place, round, count);
      member.Sum<float>(values.data(), count, nullptr);
      std::vector<float> expected = ValuesOf(0, round, count);
      for (int other = 1; other < kMembers; ++other) {
        const std::vector<float> more = ValuesOf(other, round, count);
        for (size_t i = 0; i < count; ++i) expected[i] += more[i];
      }
      EXPECT_EQ(values, expected) << count;
    }
  });
}

TEST(SharedSumTest, ManySumsFollowEachOther) {
  constexpr int kMembers = 7;
  auto members = MakeMembers(kMembers);
  std::atomic<int> wrong{0};
  RunAll(members, [&](SharedSum& member, int place) {
    for (int round = 0; round < 2000; ++round) {
      std::vector<double> values(1 + round % 300, round + place);
      member.Sum<double>(values.data(), values.size(), nullptr);
      for (const double value : values) wrong += value != kMembers * round + 21;
    }
  });
  EXPECT_EQ(wrong.load(), 0);
}

TEST(SharedSumTest, TheFirstMemberAddsOtherNodes) {
  for (const size_t count : {3U, 2'000'000U}) {
    auto members = MakeMembers(3);
    RunAll(members, [&](SharedSum& member, int place) {
      for (int round = 0; round < 5; ++round) {
        std::vector<float> values(count, 1);
        size_t seen = 0;
        member.Sum<float>(values.data(), count, [&](float* sums, size_t part) {
          seen += part;
          for (size_t i = 0; i < part; ++i) sums[i] += 100;
        });
        EXPECT_EQ(seen, place == 0 ? count : 0);
        EXPECT_EQ(values.front(), 103);
        EXPECT_EQ(values.back(), 103);
      }
    });
  }
}

TEST(SharedSumTest, AFailureBetweenNodesFailsAll) {
  auto members = MakeMembers(3);
  RunAll(members, [&](SharedSum& member, int /*place*/) {
    float value = 1;
    EXPECT_THROW(member.Sum<float>(&value, 1,
                                   [](float*, size_t) { throw std::runtime_error("no network"); }),
                 std::runtime_error);
  });
}

TEST(SharedSumTest, WhoWaitsForALateMemberNamesIt) {
  auto members = MakeMembers(3);
  for (const auto& member : members) member->SetTimeout(absl::Milliseconds(200));
  RunAll(members, [&](SharedSum& member, int place) {
    if (place == 1) return;
    const std::string error = ErrorOf(member);  // The first error may have ended it for the second.
    EXPECT_TRUE(error == "timed out after 200 ms, waiting for rank 11" ||
                error.find("has ended it") != error.npos)
        << error;
  });
  EXPECT_THAT(ErrorOf(*members[1]), HasSubstr("has ended it"));
}

TEST(SharedSumTest, CloseFailsAllAtOnce) {
  auto members = MakeMembers(4);
  const absl::Time start = absl::Now();
  RunAll(members, [&](SharedSum& member, int place) {
    if (place == 2) return member.Close();
    EXPECT_EQ(ErrorOf(member), "rank 12 has ended it");
  });
  EXPECT_LT(absl::Now() - start, absl::Seconds(20));
  EXPECT_EQ(ErrorOf(*members[2]), "rank 12 has ended it");
}

TEST(SharedSumTest, WhoLeavesFailsThoseWhoWaitForIt) {
  auto members = MakeMembers(3);
  RunAll(members, [&](SharedSum& member, int place) {
    std::vector<float> values(10, 1);
    member.Sum<float>(values.data(), values.size(), nullptr);
    EXPECT_EQ(values[9], 3);  // The other member may have left by then.
    if (place == 1) members[1].reset();
  });
  EXPECT_THAT(ErrorOf(*members[0]), HasSubstr("rank 11 has ended or left"));
  EXPECT_NE(ErrorOf(*members[2]), "");
}

TEST(SharedSumTest, AKilledProcessFailsTheOthersSoon) {
  absl::StatusOr<SharedMemory> memory = SharedMemory::Make(SharedSum::kBytes);
  ASSERT_TRUE(memory.ok() && memory->TakePlace(0).ok());
  const SharedMemory::Address address = memory->address();
  const pid_t child = fork();
  if (child == 0) {
    absl::StatusOr<SharedMemory> own = SharedMemory::Open(address, SharedSum::kBytes);
    if (!own.ok() || !own->TakePlace(1).ok()) _exit(1);
    SharedSum member(*std::move(own), 1, {0, 1});
    member.SetTimeout(absl::Seconds(60));
    float value = 1;
    for (int round = 0; round < 20; ++round) member.Sum<float>(&value, 1, nullptr);
    raise(SIGKILL);
  }
  while (!memory->IsTaken(1)) absl::SleepFor(absl::Milliseconds(1));
  SharedSum member(*std::move(memory), 0, {0, 1});
  member.SetTimeout(absl::Seconds(60));
  float value = 1;
  for (int round = 0; round < 20; ++round) member.Sum<float>(&value, 1, nullptr);
  const absl::Time start = absl::Now();
  EXPECT_THAT(ErrorOf(member), HasSubstr("rank 1 has ended or left"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(20));
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace paceline
