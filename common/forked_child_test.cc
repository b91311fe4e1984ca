#include "common/forked_child.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace paceline {
namespace {

TEST(ForkedChildTest, OnlyAChildIsOne) {
  WatchForks();
  WatchForks();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(IsForkedChild() ? 7 : 1);
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_FALSE(IsForkedChild());
}

}  // namespace
}  // namespace paceline
