// The verbs about the daemons, against a controller on a real socket.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "cli/exit_codes.h"
#include "cli/testing/command_test.h"
#include "common/checkpoint/checksum.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

class AdminTest : public CommandTest {
 protected:
  AdminTest() { environment_["USER"] = "ann"; }
};

TEST_F(AdminTest, LogLevelIsShownAndChanged) {
  EXPECT_EQ(Paceline({"admin", "log-level"}).out, "controller: info\n");
  EXPECT_EQ(Paceline({"admin", "log-level", "debug"}).out, "controller: debug\n");
  EXPECT_EQ(controller_.admin().last().owner(), "ann");
  EXPECT_NE(controller_.admin().last().request_id(), "");
  EXPECT_EQ(Paceline({"admin", "log-level"}).out, "controller: debug\n");
}

TEST_F(AdminTest, LogLevelOfANode) {
  EXPECT_EQ(Paceline({"admin", "log-level", "--node", "a"}).out, "a: default\n");
  EXPECT_EQ(Paceline({"admin", "log-level", "error", "--node", "a"}).out, "a: error\n");
  EXPECT_EQ(Paceline({"admin", "log-level", "default", "--node", "a"}).out, "a: default\n");
  EXPECT_EQ(controller_.admin().last().node(), "a");
  EXPECT_EQ(Paceline({"admin", "log-level", "--node", "nowhere"}).exit, kCliNotFound);
}

TEST_F(AdminTest, LogLevelMustBeOneAndSomebodysWish) {
  const Ran ran = Paceline({"admin", "log-level", "loud"});
  EXPECT_EQ(ran.exit, kCliUsage);
  EXPECT_THAT(ran.err, HasSubstr("debug"));
  environment_.erase("USER");
  EXPECT_EQ(Paceline({"admin", "log-level", "debug"}).exit, kCliUsage);
}

TEST_F(AdminTest, LogLevelAsJson) {
  EXPECT_THAT(Paceline({"--output", "json", "admin", "log-level"}).out,
              HasSubstr("\"level\": \"INFO\""));
}

class BackupTest : public AdminTest {
 protected:
  BackupTest() {
    std::string folder = ::testing::TempDir() + "/backupXXXXXX";
    folder_ = mkdtemp(folder.data());
    std::ofstream(File()) << "the backup of yesterday";
  }

  std::string File() const { return folder_ + "/state.db"; }
  std::string Contents() const {
    std::ifstream file(File());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  int Files() const {
    const std::filesystem::directory_iterator files(folder_);
    return static_cast<int>(std::distance(begin(files), end(files)));
  }
  // Last message of a stream with this data.
  static v1::BackupChunk End(const std::string& data) {
    v1::BackupChunk chunk;
    chunk.mutable_end()->set_bytes(static_cast<int64_t>(data.size()));
    chunk.mutable_end()->set_checksum(ChecksumText(ChecksumOf(data)));
    return chunk;
  }
  static v1::BackupChunk Data(const std::string& data) {
    v1::BackupChunk chunk;
    chunk.set_data(data);
    return chunk;
  }
  void ExpectRefused(const std::string& why) {
    const Ran ran = Paceline({"admin", "backup", File()});
    EXPECT_EQ(ran.exit, kCliFailed);
    EXPECT_THAT(ran.err, HasSubstr(why));
    EXPECT_EQ(Contents(), "the backup of yesterday");
    EXPECT_EQ(Files(), 1);
  }

  std::string folder_;
};

TEST_F(BackupTest, StreamWithoutItsEndIsNoBackup) {
  controller_.admin().SetBackup({Data("half")});
  ExpectRefused("did not come as it was sent");
}

TEST_F(BackupTest, ChangedDataIsNoBackup) {
  controller_.admin().SetBackup({Data("abd"), End("abc")});
  ExpectRefused("did not come as it was sent");
}

TEST_F(BackupTest, WhatIsNoStateIsNoBackup) {
  const std::string data(5000, 'x');
  controller_.admin().SetBackup({Data(data), End(data)});
  ExpectRefused("not a database");
}

TEST_F(BackupTest, DirectoryThatIsMissingIsNamed) {
  const Ran ran = Paceline({"admin", "backup", folder_ + "/absent/state.db"});
  EXPECT_EQ(ran.exit, kCliNotFound);
  EXPECT_THAT(ran.err, HasSubstr(folder_ + "/absent/state.db"));
}

TEST_F(BackupTest, RestoreTellsWhatIsWrongWithItsFile) {
  const std::string state_dir = folder_ + "/controller";
  const Ran absent = Paceline({"admin", "restore", folder_ + "/absent", "--state-dir", state_dir});
  EXPECT_EQ(absent.exit, kCliNotFound);
  EXPECT_THAT(absent.err, HasSubstr("there is no such file"));
  EXPECT_EQ(Paceline({"admin", "restore", File(), "--state-dir", state_dir}).exit, kCliFailed);
  EXPECT_EQ(Paceline({"admin", "restore", File()}).exit, kCliUsage);
  EXPECT_FALSE(std::filesystem::exists(state_dir + "/state.db"));
}

}  // namespace
}  // namespace paceline
