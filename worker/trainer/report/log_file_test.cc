#include "worker/trainer/report/log_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace paceline {
namespace {

class LogFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(directory_);
    out_ = open("/dev/null", O_WRONLY);
    err_ = open("/dev/null", O_WRONLY);
  }
  void TearDown() override {
    close(out_);
    close(err_);
  }

  LogFile Attach(int64_t segment_bytes) {
    absl::StatusOr<LogFile> log = LogFile::Attach(directory_, segment_bytes, {out_, err_});
    EXPECT_TRUE(log.ok()) << log.status();
    return *std::move(log);
  }

  static void Write(int fd, const std::string& text) {
    ASSERT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  // Contents by file name.
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      files[entry.path().filename()] = text.str();
    }
    return files;
  }

  const std::string directory_ = testing::TempDir() + "/log";
  int out_ = -1;
  int err_ = -1;
};

using Expected = std::map<std::string, std::string>;

TEST_F(LogFileTest, BothDescriptorsAppendToTheFirstSegment) {
  LogFile log = Attach(100);
  Write(out_, "one\n");
  Write(err_, "two\n");
  EXPECT_TRUE(log.RotateIfFull().ok());
  EXPECT_EQ(Files(), (Expected{{"00000000000000000000.log", "one\ntwo\n"}}));
}

TEST_F(LogFileTest, WhatWasThereBeforeIsKept) {
  std::filesystem::create_directory(directory_);
  std::ofstream(directory_ + "/00000000000000000000.log") << "before\n";
  LogFile log = Attach(100);
  Write(out_, "after\n");
  EXPECT_EQ(Files(), (Expected{{"00000000000000000000.log", "before\nafter\n"}}));
}

TEST_F(LogFileTest, EachSegmentIsNamedByTheOffsetOfItsFirstByte) {
  LogFile log = Attach(8);
  Write(out_, "12345678");
  ASSERT_TRUE(log.RotateIfFull().ok());
  Write(err_, "abcdefghijkl");
  ASSERT_TRUE(log.RotateIfFull().ok());
  Write(out_, "end");
  EXPECT_EQ(Files(), (Expected{{"00000000000000000000.log", "12345678"},
                               {"00000000000000000008.log", "abcdefghijkl"},
                               {"00000000000000000020.log", "end"}}));
}

TEST_F(LogFileTest, ImpossibleDirectoryIsAnErrorThatNamesIt) {
  const auto log = LogFile::Attach("/proc/nowhere/log", 8, {out_});
  EXPECT_NE(log.status().message().find("/proc/nowhere/log"), absl::string_view::npos);
}

}  // namespace
}  // namespace paceline
