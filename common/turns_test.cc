#include "common/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace paceline {
namespace {

using ::testing::ElementsAre;

TEST(TurnsTest, OthersHaveTheirTurnsBetween) {
  EventLoop loop;
  std::vector<std::string> done;
  loop.Post([&] {
    InTurns<std::string>(
        &loop, {"half", "other half", "all", "little", "last"},
        [&](const std::string& key) {
          done.push_back(key);
          if (key == "all") return kPartsPerTurn;
          return key == "little" ? 1 : kPartsPerTurn / 2;
        },
        [&] {
          done.push_back("done");
          loop.Stop();
        });
    done.push_back("-");
  });
  loop.Post([&] {
    done.push_back("another's");
    loop.Post([&] { done.push_back("and its next"); });
  });
  loop.Run();
  EXPECT_THAT(done, ElementsAre("half", "other half", "-", "another's", "all", "and its next",
                                "little", "last", "done"));
}

TEST(TurnsTest, OneTurnIsDoneAtOnce) {
  EventLoop loop;
  int sum = 0;
  bool done = false;
  InTurns<int>(
      &loop, {1, 2, 3}, [&](int number) { return sum += number, 1; }, [&] { done = true; });
  EXPECT_EQ(sum, 6);
  EXPECT_TRUE(done);
}

TEST(TurnsTest, NothingToDoIsDone) {
  EventLoop loop;
  bool done = false;
  InTurns<int>(
      &loop, {}, [](int) { return 1; }, [&] { done = true; });
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace paceline
