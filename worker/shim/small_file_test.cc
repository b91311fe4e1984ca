#include "worker/shim/small_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace paceline {
namespace {

TEST(SmallFileTest, ReadsWhatWasWrittenLast) {
  std::string dir = ::testing::TempDir() + "/small_file_test.XXXXXX";
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  const std::string path = dir + "/file";
  EXPECT_FALSE(ReadSmallFile(path)->has_value());
  ASSERT_TRUE(WriteSmallFile(path, std::string(10000, '\0')).ok());
  EXPECT_EQ(**ReadSmallFile(path), std::string(10000, '\0'));
  ASSERT_TRUE(WriteSmallFile(path, "").ok());
  EXPECT_EQ(**ReadSmallFile(path), "");
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
}

TEST(SmallFileTest, FailuresNameThePath) {
  EXPECT_NE(WriteSmallFile("/nonexistent/x", "").message().find("/nonexistent/x"),
            absl::string_view::npos);
  EXPECT_FALSE(ReadSmallFile("/").ok());
}

TEST(SmallFileTest, OfAStrangerOnlyAPlainFileIsRead) {
  std::string dir = ::testing::TempDir() + "/small_file_test.XXXXXX";
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  EXPECT_EQ(*ReadForeignFile(dir + "/none", 9), std::nullopt);
  ASSERT_TRUE(WriteSmallFile(dir + "/file", "123456789").ok());
  EXPECT_EQ(*ReadForeignFile(dir + "/file", 9), "123456789");
  EXPECT_EQ(ReadForeignFile(dir + "/file", 8).status().code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_EQ(::symlink("file", (dir + "/symbolic").c_str()), 0);
  ASSERT_EQ(::mkfifo((dir + "/pipe").c_str(), 0600), 0);
  for (const char* name : {"/symbolic", "/pipe", ""}) {
    EXPECT_EQ(ReadForeignFile(dir + name, 9).status().code(), absl::StatusCode::kFailedPrecondition)
        << name;
  }
  ASSERT_EQ(::link((dir + "/file").c_str(), (dir + "/second").c_str()), 0);
  EXPECT_EQ(ReadForeignFile(dir + "/second", 9).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace paceline
