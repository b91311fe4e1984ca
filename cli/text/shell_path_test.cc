#include "cli/text/shell_path.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::StartsWith;

TEST(ShellPathTest, WhatAShellWouldReplaceIsTold) {
  EXPECT_THAT(ShellPathProblem("~"), StartsWith("~ is not replaced here"));
  EXPECT_THAT(ShellPathProblem("~/ckpt"), StartsWith("~ is not"));
  EXPECT_THAT(ShellPathProblem("~ann/ckpt"), StartsWith("~ann is not"));
  EXPECT_THAT(ShellPathProblem("$HOME/ckpt"), StartsWith("$HOME is not"));
  EXPECT_THAT(ShellPathProblem("/data/${USER}_x/y"), StartsWith("${USER} is not"));
  EXPECT_THAT(ShellPathProblem("/data/$a-b"), StartsWith("$a is not"));
  EXPECT_THAT(ShellPathProblem("/data/${"), StartsWith("${ is not"));
}

TEST(ShellPathTest, OtherPathsAreAsTheyAreWritten) {
  for (const char* path : {"", "/a/b", "./~", "a~", "/a/~b", "a$", "cost-5$", "$5", "a$/b", "-"}) {
    EXPECT_EQ(ShellPathProblem(path), "") << path;
  }
}

}  // namespace
}  // namespace paceline
