#include "worker/shim/small_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>

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

}  // namespace
}  // namespace paceline
