#include "worker/daemon/logs/log_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_format.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

class LogFilesTest : public ::testing::Test {
 protected:
  LogFilesTest() {
    dir_ = ::testing::TempDir() + "/log_files_test.XXXXXX";
    EXPECT_NE(::mkdtemp(dir_.data()), nullptr);
  }

  void Write(int64_t base, const std::string& text) {
    std::ofstream(dir_ + absl::StrFormat("/%020d.log", base)) << text;
  }

  // Reads to the end, as a follower does.
  std::string ReadAll(int64_t offset) {
    std::string all;
    while (true) {
      const auto chunk = LogFiles(dir_).Read(offset);
      EXPECT_TRUE(chunk.ok()) << chunk.status();
      if (!chunk.ok() || chunk->data.empty()) return all;
      all += chunk->data;
      offset = chunk->offset + static_cast<int64_t>(chunk->data.size());
    }
  }

  std::string dir_;
};

TEST_F(LogFilesTest, SegmentsReadAsOne) {
  Write(0, "hello ");
  Write(6, "world");
  std::ofstream(dir_ + "/next.tmp") << "not yet named";
  EXPECT_EQ(ReadAll(0), "hello world");
  EXPECT_EQ(ReadAll(3), "lo world");
  EXPECT_EQ(ReadAll(6), "world");
  EXPECT_EQ(ReadAll(11), "");
  EXPECT_EQ(LogFiles(dir_).Read(11)->offset, 11);
}

TEST_F(LogFilesTest, ChunksAreBounded) {
  Write(0, std::string(3 * LogFiles::kMaxChunk + 5, 'x'));
  EXPECT_EQ(LogFiles(dir_).Read(0)->data.size(), LogFiles::kMaxChunk);
  EXPECT_EQ(ReadAll(0).size(), 3 * LogFiles::kMaxChunk + 5);
}

TEST_F(LogFilesTest, OffsetOfADeletedSegmentMovesToTheOldestByte) {
  Write(100, "kept");
  const auto chunk = LogFiles(dir_).Read(7);
  ASSERT_TRUE(chunk.ok());
  EXPECT_EQ(chunk->offset, 100);
  EXPECT_EQ(chunk->data, "kept");
}

TEST_F(LogFilesTest, GapBetweenSegmentsIsSkipped) {
  Write(0, "ab");
  Write(10, "cd");
  EXPECT_EQ(ReadAll(0), "abcd");
}

TEST_F(LogFilesTest, NoLogIsNotFound) {
  EXPECT_EQ(LogFiles(dir_).Read(0).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(LogFiles(dir_ + "/none").TailOffset(3).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(LogFiles(dir_).Tail(20, 100), "");
}

TEST_F(LogFilesTest, TailCountsLinesAcrossSegments) {
  Write(0, "one\ntw");
  Write(6, "o\nthree\n");
  EXPECT_EQ(*LogFiles(dir_).TailOffset(1), 8);
  EXPECT_EQ(*LogFiles(dir_).TailOffset(2), 4);
  EXPECT_EQ(*LogFiles(dir_).TailOffset(3), 0);
  EXPECT_EQ(*LogFiles(dir_).TailOffset(30), 0);
  EXPECT_EQ(LogFiles(dir_).Tail(2, 100), "two\nthree\n");
}

TEST_F(LogFilesTest, LineWithoutItsEndCountsAsOne) {
  Write(0, "one\ntwo\nthr");
  EXPECT_EQ(LogFiles(dir_).Tail(1, 100), "thr");
  EXPECT_EQ(LogFiles(dir_).Tail(2, 100), "two\nthr");
}

TEST_F(LogFilesTest, TailHasOfAProgressBarWhatWasWrittenLast) {
  std::string bar;
  for (int i = 0; i < 5000; ++i) bar += "\r " + std::to_string(i);
  Write(0, "one\n" + bar + "\rdone\r\nError\n");
  EXPECT_EQ(LogFiles(dir_).Tail(20, 100), "one\ndone\nError\n");
}

TEST_F(LogFilesTest, TailOfLongLinesIsBounded) {
  Write(0, std::string(200000, 'a') + "end\n");
  EXPECT_EQ(LogFiles(dir_).Tail(20, 10), "aaaaaaend\n");
}

TEST_F(LogFilesTest, OldestSegmentsAreDeleted) {
  for (int base = 0; base < 5; ++base) Write(base, "x");
  LogFiles(dir_).DeleteOldest(2, 1);
  EXPECT_EQ(LogFiles(dir_).Read(0)->offset, 3);
  LogFiles(dir_).DeleteOldest(0, 1);
  EXPECT_EQ(LogFiles(dir_).Read(0)->offset, 4);
}

TEST(ToUtf8Test, ReplacesOnlyWhatIsInvalid) {
  EXPECT_EQ(ToUtf8("grün €𝄞"), "grün €𝄞");
  EXPECT_EQ(ToUtf8("a\xff"
                   "b"),
            "a?b");
  EXPECT_EQ(ToUtf8("\xc3"), "?");
  EXPECT_EQ(ToUtf8("\xe2\x82"), "??");
  EXPECT_EQ(ToUtf8("\xc0\xaf"), "??");
  EXPECT_EQ(ToUtf8("\xed\xa0\x80"), "???");
  EXPECT_EQ(ToUtf8("\xf4\x90\x80\x80"), "????");
}

TEST_F(LogFilesTest, LargeLogIsReadInPieces) {
  constexpr int64_t kSize = int64_t{10} << 30;
  Write(0, "");
  // A sparse file: unwritten parts take no disk space and read as zeros.
  const std::string path = dir_ + absl::StrFormat("/%020d.log", 0);
  fs::resize_file(path, kSize);
  std::ofstream(path, std::ios::app) << "\none\ntwo\n";
  const auto tail = LogFiles(dir_).TailOffset(2);
  ASSERT_TRUE(tail.ok()) << tail.status();
  EXPECT_EQ(*tail, kSize + 1);
  EXPECT_EQ(ReadAll(*tail), "one\ntwo\n");
  // A read in the hole finds the first data after it.
  const auto middle = LogFiles(dir_).Read(kSize / 2);
  ASSERT_TRUE(middle.ok()) << middle.status();
  EXPECT_GT(middle->offset, kSize - 100'000);
  EXPECT_THAT(middle->data, ::testing::EndsWith("\none\ntwo\n"));
}

TEST_F(LogFilesTest, LogThatIsNotRotatedIsCut) {
  constexpr int64_t kSegment = 100'000;
  const std::string path = dir_ + absl::StrFormat("/%020d.log", 0);
  std::ofstream out(path);
  for (int i = 0; i < 100; ++i) out << std::string(kSegment - 1, 'x') << '\n';
  out.flush();
  const auto disk = [&] {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return info.st_blocks * 512;
  };
  ASSERT_GE(disk(), 100 * kSegment);
  LogFiles(dir_).DeleteOldest(5, kSegment);
  if (disk() >= 100 * kSegment) GTEST_SKIP() << "this file system cannot free part of a file";
  EXPECT_LE(disk(), 12 * kSegment);
  // The rest keeps its offsets, also for a writer that continues.
  const auto oldest = LogFiles(dir_).Read(0);
  ASSERT_TRUE(oldest.ok()) << oldest.status();
  EXPECT_GT(oldest->offset, 89 * kSegment - 5000);
  EXPECT_LE(oldest->offset, 90 * kSegment);
  EXPECT_EQ(*LogFiles(dir_).TailOffset(2), 98 * kSegment);
  EXPECT_EQ(*LogFiles(dir_).TailOffset(100), oldest->offset);
  out << "more\n" << std::flush;
  EXPECT_EQ(ReadAll(100 * kSegment), "more\n");
}

TEST_F(LogFilesTest, LogThatIsRotatedLateIsKeptWhole) {
  for (int64_t base = 0; base < 500; base += 100) Write(base, std::string(100, 'x'));
  LogFiles(dir_).DeleteOldest(5, 50);
  EXPECT_EQ(ReadAll(0).size(), 500);
}

TEST_F(LogFilesTest, LogWithoutLinesIsNotReadToItsBegin) {
  constexpr int64_t kSize = int64_t{10} << 30;
  Write(0, "");
  fs::resize_file(dir_ + absl::StrFormat("/%020d.log", 0), kSize);
  EXPECT_EQ(*LogFiles(dir_).TailOffset(2), kSize - LogFiles::kMaxLookBack);
  EXPECT_EQ(LogFiles(dir_).Tail(2, 100), std::string(100, '\0'));
}

TEST_F(LogFilesTest, SegmentsThatBeginNowhereAreLeftOut) {
  Write(INT64_MAX, "x");
  EXPECT_EQ(LogFiles(dir_).FindEnd().status().code(), absl::StatusCode::kNotFound);
  Write(5, "y");
  EXPECT_EQ(LogFiles(dir_).FindEnd()->offset, 6);
  EXPECT_EQ(LogFiles(dir_).Tail(1, 100), "y");
}

// The trainer controls its own folder, but only the daemon's user may read or remove the target.
TEST_F(LogFilesTest, LinkInThePlaceOfTheLogIsNotFollowed) {
  fs::create_directory(dir_ + "/others");
  for (const char* name : {"00000000000000000000.log", "00000000000000000006.log"}) {
    std::ofstream(dir_ + "/others/" + name) << "secret";
  }
  fs::create_directory_symlink("others", dir_ + "/log");
  const LogFiles log(dir_ + "/log");
  EXPECT_EQ(log.Read(0).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(log.TailOffset(1).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(log.FindEnd().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(log.LineFrom(3), 3);
  EXPECT_EQ(log.Tail(20, 100), "");
  log.DeleteOldest(1, 1);
  EXPECT_TRUE(fs::exists(dir_ + "/others/00000000000000000000.log"));
  EXPECT_EQ(fs::file_size(dir_ + "/others/00000000000000000006.log"), 6);
}

TEST_F(LogFilesTest, WhatIsNoFileHoldsUpNobody) {
  ASSERT_EQ(::mkfifo((dir_ + "/00000000000000000000.log").c_str(), 0600), 0);
  fs::create_directory(dir_ + "/00000000000000000009.log");
  const LogFiles log(dir_);
  EXPECT_FALSE(log.Read(0).ok());
  EXPECT_FALSE(log.Read(9).ok());
  EXPECT_FALSE(log.TailOffset(1).ok());
  log.DeleteOldest(1, 1);
  EXPECT_FALSE(fs::exists(dir_ + "/00000000000000000000.log")) << "it was the oldest";
  ASSERT_EQ(::mkfifo((dir_ + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(LogFiles(dir_ + "/pipe").Read(0).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(LogFilesTest, FileWithASecondNameIsNotShown) {
  std::ofstream(dir_ + "/secret") << "secret";
  fs::create_hard_link(dir_ + "/secret", dir_ + "/00000000000000000000.log");
  EXPECT_FALSE(LogFiles(dir_).Read(0).ok());
}

TEST_F(LogFilesTest, LogOfAMillionSegmentsIsNotListed) {
  for (size_t i = 0; i < LogFiles::kMaxEntries; ++i) Write(static_cast<int64_t>(i), "");
  const absl::Status refused = LogFiles(dir_).Read(0).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr(dir_));
  LogFiles(dir_).DeleteOldest(8, 1);
  EXPECT_TRUE(LogFiles(dir_).Read(0).ok());
}

TEST_F(LogFilesTest, LinkAmongTheSegmentsIsNotFollowed) {
  std::ofstream(dir_ + "/secret") << "secret";
  fs::create_symlink("secret", dir_ + "/00000000000000000000.log");
  EXPECT_FALSE(LogFiles(dir_).Read(0).ok());
  EXPECT_EQ(LogFiles(dir_).Tail(20, 100), "");
}

}  // namespace
}  // namespace paceline
