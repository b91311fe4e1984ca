#include "worker/daemon/log_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_format.h"

namespace paceline {
namespace {

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

TEST_F(LogFilesTest, TailOfLongLinesIsBounded) {
  Write(0, std::string(200000, 'a') + "end\n");
  EXPECT_EQ(LogFiles(dir_).Tail(20, 10), "aaaaaaend\n");
}

TEST_F(LogFilesTest, OldestSegmentsAreDeleted) {
  for (int base = 0; base < 5; ++base) Write(base, "x");
  LogFiles(dir_).DeleteOldest(2);
  EXPECT_EQ(LogFiles(dir_).Read(0)->offset, 3);
  LogFiles(dir_).DeleteOldest(0);
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
  // Takes no room on the disk: what was not written are zeros.
  const std::string path = dir_ + absl::StrFormat("/%020d.log", 0);
  std::filesystem::resize_file(path, kSize);
  std::ofstream(path, std::ios::app) << "\none\ntwo\n";
  const auto tail = LogFiles(dir_).TailOffset(2);
  ASSERT_TRUE(tail.ok()) << tail.status();
  EXPECT_EQ(*tail, kSize + 1);
  EXPECT_EQ(ReadAll(*tail), "one\ntwo\n");
  const auto middle = LogFiles(dir_).Read(kSize / 2);
  ASSERT_TRUE(middle.ok()) << middle.status();
  EXPECT_EQ(middle->data.size(), LogFiles::kMaxChunk);
}

TEST_F(LogFilesTest, LogWithoutLinesIsNotReadToItsBegin) {
  constexpr int64_t kSize = int64_t{10} << 30;
  Write(0, "");
  std::filesystem::resize_file(dir_ + absl::StrFormat("/%020d.log", 0), kSize);
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

TEST_F(LogFilesTest, LinkAmongTheSegmentsIsNotFollowed) {
  std::ofstream(dir_ + "/secret") << "secret";
  std::filesystem::create_symlink("secret", dir_ + "/00000000000000000000.log");
  EXPECT_FALSE(LogFiles(dir_).Read(0).ok());
  EXPECT_EQ(LogFiles(dir_).Tail(20, 100), "");
}

}  // namespace
}  // namespace paceline
