#include "cli/text/nearest.h"

#include "gtest/gtest.h"

namespace paceline {
namespace {

TEST(EditDistanceTest, CountsEdits) {
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("btach", "batch"), 1);
}

TEST(NearestTest, FindsTheWordThatWasMeant) {
  EXPECT_EQ(Nearest("lerning_rate", {"weight_decay", "learning_rate"}), "learning_rate");
  EXPECT_EQ(Nearest("evl", {"train", "eval", "order"}), "eval");
}

TEST(NearestTest, SuggestsNothingFarFetched) {
  EXPECT_EQ(Nearest("gpu", {"name", "steps", "data"}), "");
  EXPECT_EQ(Nearest(std::string(100000, 'a'), {"name"}), "");
}

}  // namespace
}  // namespace paceline
