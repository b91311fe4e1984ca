#include "worker/shim/oom_watch.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(OomWatchTest, FindsTheCounter) {
  EXPECT_EQ(OomKills("nr_free_pages 12\noom_kill 3\nfoo 4\n"), 3);
}

TEST(OomWatchTest, NoCounterIsZero) {
  EXPECT_EQ(OomKills("nr_oom_kill 3\noom_kill_disable 1\n"), 0);
  EXPECT_EQ(OomKills(""), 0);
}

}  // namespace
}  // namespace paceline
