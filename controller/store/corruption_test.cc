// Bytes of the state file that change by themselves are noticed at the start: nothing is ever read
// that was not written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/store/sqlite_store.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using Entries = std::map<std::string, std::string>;

// Prime, so that all parts of pages are hit.
constexpr size_t kStride = 61;

class CorruptionTest : public ::testing::Test {
 protected:
  CorruptionTest() {
    std::string folder = ::testing::TempDir() + "/corruptionXXXXXX";
    path_ = std::string(mkdtemp(folder.data())) + "/state.db";
    WriteBatch batch;
    for (int i = 100; i < 160; ++i) {
      batch.puts[absl::StrCat("job/", i)] =
          absl::StrCat("the value of ", i, " ", std::string(static_cast<size_t>(i) * 5, 'v'));
    }
    entries_ = batch.puts;
    EXPECT_TRUE((*SqliteStore::Open(path_))->Commit(batch).ok());
    std::ifstream file(path_, std::ios::binary);
    std::stringstream all;
    all << file.rdbuf();
    bytes_ = all.str();
  }

  // Reads a file with these bytes.
  absl::StatusOr<Entries> Read(const std::string& bytes) {
    for (const char* suffix : {"-wal", "-shm", "-journal"}) {
      std::filesystem::remove(path_ + suffix);
    }
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    auto store = SqliteStore::Open(path_);
    if (!store.ok()) return store.status();
    return (*store)->Load("");
  }

  // Reads a file in which `text` is spoilt wherever it occurs: pages keep bytes of records that
  // were moved.
  absl::Status ReadWithout(const std::string& text) {
    std::string bytes = bytes_;
    EXPECT_NE(bytes.find(text), std::string::npos) << text;
    for (size_t at = bytes.find(text); at != std::string::npos; at = bytes.find(text, at)) {
      char& middle = bytes[at + text.size() / 2];
      middle = static_cast<char>(middle ^ 1);
    }
    return Read(bytes).status();
  }

  std::string path_;
  Entries entries_;
  std::string bytes_;
};

TEST_F(CorruptionTest, ChangedByteAnywhereIsNoticedOrChangesNothing) {
  ASSERT_EQ(*Read(bytes_), entries_);
  int noticed = 0;
  for (size_t at = 0; at < bytes_.size(); at += kStride) {
    for (const char mask : {'\x01', '\xff'}) {
      std::string bytes = bytes_;
      bytes[at] = static_cast<char>(bytes[at] ^ mask);
      const absl::StatusOr<Entries> read = Read(bytes);
      noticed += read.ok() ? 0 : 1;
      if (read.ok()) {
        ASSERT_EQ(*read, entries_) << "byte " << at;
      }
    }
  }
  EXPECT_GT(noticed, static_cast<int>(bytes_.size() / kStride / 2)) << "of four times as many";
}

TEST_F(CorruptionTest, ChangedValueIsNamedByItsKey) {
  const absl::Status status = ReadWithout("the value of 123 ");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("record job/123 does not fit its checksum"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
}

TEST_F(CorruptionTest, ChangedKeyIsNoticed) {
  EXPECT_EQ(ReadWithout("job/123").code(), absl::StatusCode::kDataLoss);
}

TEST_F(CorruptionTest, MissingEndIsNoticed) {
  EXPECT_EQ(Read(bytes_.substr(0, bytes_.size() - 4096)).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(Read(bytes_.substr(0, 5000)).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace paceline
