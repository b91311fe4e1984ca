#include "worker/shim/allowed_roots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace paceline {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;

class AllowedRootsTest : public ::testing::Test {
 protected:
  AllowedRootsTest() {
    std::string dir = ::testing::TempDir() + "/allowed_roots_test.XXXXXX";
    EXPECT_NE(::mkdtemp(dir.data()), nullptr);
    dir_ = fs::canonical(dir).string();
    root_ = dir_ + "/root";
    fs::create_directories(root_ + "/data");
    fs::create_directories(dir_ + "/rootless");
    std::ofstream(root_ + "/data/train") << "x";
    std::ofstream(dir_ + "/secret") << "x";
  }

  // Returns why the path is refused; empty when it is allowed.
  std::string Refusal(const std::string& path) const {
    const absl::Status status = CheckRoots({root_}, {{"data.train", path}});
    EXPECT_TRUE(status.ok() || absl::IsPermissionDenied(status)) << status;
    return std::string(status.message());
  }

  std::string dir_;
  std::string root_;
};

TEST_F(AllowedRootsTest, WhatLiesInARootIsAllowed) {
  EXPECT_EQ(Refusal(root_), "");
  EXPECT_EQ(Refusal(root_ + "/data/train"), "");
  EXPECT_EQ(Refusal(root_ + "//data/./train"), "");
  EXPECT_EQ(Refusal(root_ + "/out/of/nothing/"), "") << "it will be made there";
}

TEST_F(AllowedRootsTest, WhatLiesOutsideIsRefusedWithTheRoots) {
  EXPECT_EQ(Refusal(dir_ + "/secret"), "data.train is " + dir_ +
                                           "/secret; jobs may name paths in " + root_ +
                                           " on this node (its worker's --allowed-root)");
  EXPECT_NE(Refusal(dir_ + "/rootless/x"), "") << "a longer name is another folder";
  EXPECT_NE(Refusal("/"), "");
  EXPECT_NE(Refusal("/nowhere"), "");
}

TEST_F(AllowedRootsTest, LinkIsFollowed) {
  fs::create_symlink(dir_ + "/secret", root_ + "/file");
  fs::create_directory_symlink(dir_, root_ + "/up");
  fs::create_directory_symlink(root_ + "/data", dir_ + "/into");
  EXPECT_THAT(Refusal(root_ + "/file"), HasSubstr(", which leads to " + dir_ + "/secret;"));
  EXPECT_NE(Refusal(root_ + "/up/secret"), "");
  EXPECT_NE(Refusal(root_ + "/up/made/later"), "");
  EXPECT_EQ(Refusal(dir_ + "/into/train"), "");
}

TEST_F(AllowedRootsTest, LinkToNothingIsRefusedAsWritingMakesWhatItPointsTo) {
  fs::create_symlink(dir_ + "/not_there", root_ + "/dangling");
  for (const char* end : {"", "/", "/step-1"}) {
    EXPECT_THAT(Refusal(root_ + "/dangling" + end), HasSubstr("a link that leads to nothing"));
  }
  fs::create_symlink("loop", root_ + "/loop");
  EXPECT_THAT(Refusal(root_ + "/loop"), HasSubstr("cannot be followed"));
}

TEST_F(AllowedRootsTest, WayOutByDotsIsRefusedAlsoWithoutRoots) {
  for (const std::string& path : {root_ + "/../secret", root_ + "/new/../..", std::string("train"),
                                  std::string(), std::string("/srv\0/x", 7)}) {
    EXPECT_NE(Refusal(path), "") << path;
    EXPECT_FALSE(CheckRoots({}, {{"data.train", path}}).ok()) << path;
  }
  EXPECT_EQ(Refusal(root_ + "/..data"), "");
  EXPECT_TRUE(CheckRoots({}, {{"data.train", "/etc/passwd"}}).ok());
}

TEST_F(AllowedRootsTest, EachOfSeveralPathsAndRootsCounts) {
  const NamedPath inside{"data.train", root_ + "/data/train"};
  const NamedPath outside{"init_from", dir_ + "/secret"};
  EXPECT_TRUE(CheckRoots({"/nonexistent", root_}, {inside}).ok());
  EXPECT_TRUE(CheckRoots({root_, dir_}, {inside, outside}).ok());
  EXPECT_THAT(std::string(CheckRoots({root_}, {inside, outside}).message()),
              AllOf(HasSubstr("init_from is "), HasSubstr("secret;")));
  EXPECT_FALSE(CheckRoots({"/nonexistent"}, {inside}).ok()) << "its disk is not mounted";
  EXPECT_TRUE(CheckRoots({"/"}, {inside, outside}).ok());
}

}  // namespace
}  // namespace paceline
