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
  Turns turns(&loop);
  std::vector<std::string> done;
  loop.Post([&] {
    turns.Add<std::string>(
        {"half", "other half", "all", "little", "last"},
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

TEST(TurnsTest, OnePieceIsDoneBeforeTheNextBegins) {
  EventLoop loop;
  Turns turns(&loop);
  std::vector<int> done;
  const auto one = [&](int key) { return done.push_back(key), kPartsPerTurn; };
  loop.Post([&] {
    turns.Add<int>({1, 2, 3}, one, [&] { turns.Add<int>({7}, one, [&] { loop.Stop(); }); });
    turns.Add<int>({4, 5}, one, [&] { done.push_back(6); });
    EXPECT_THAT(done, ElementsAre(1));
  });
  loop.Run();
  EXPECT_THAT(done, ElementsAre(1, 2, 3, 4, 5, 6, 7));
}

TEST(TurnsTest, OneTurnIsDoneAtOnce) {
  EventLoop loop;
  Turns turns(&loop);
  int sum = 0;
  bool done = false;
  turns.Add<int>(
      {1, 2, 3}, [&](int number) { return sum += number, 1; }, [&] { done = true; });
  EXPECT_EQ(sum, 6);
  EXPECT_TRUE(done);
}

TEST(TurnsTest, NothingToDoIsDone) {
  EventLoop loop;
  Turns turns(&loop);
  bool done = false;
  turns.Add<int>(
      {}, [](int) { return 1; }, [&] { done = true; });
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace paceline
