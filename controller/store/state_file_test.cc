#include "controller/store/state_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/state_lock/state_lock.h"
#include "controller/store/meta_keys.h"
#include "controller/store/records.h"
#include "controller/store/sqlite_store.h"
#include "worker/shim/testing/other_users.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Entries = std::map<std::string, std::string>;

// 2026-03-01 12:00:00 UTC.
const absl::Time kNow = absl::FromUnixSeconds(1772366400);
constexpr int64_t kNumber = 1772366400 - 1577836800;

std::string NewFolder() {
  std::string folder = ::testing::TempDir() + "/restoreXXXXXX";
  return mkdtemp(folder.data());
}

void Put(const std::string& path, const Entries& entries) {
  auto store = SqliteStore::Open(path);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE((*store)->Commit({entries, {}}).ok());
}

Entries Get(const std::string& path) {
  auto store = SqliteStore::Open(path);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *(*store)->Load("") : Entries();
}

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream all;
  all << file.rdbuf();
  return all.str();
}

class StateFileTest : public ::testing::Test {
 protected:
  StateFileTest() { Put(backup_, {{"job/1", "old"}, {kStartsKey, "4"}}); }

  const std::string folder_ = NewFolder();
  const std::string backup_ = folder_ + "/backup.db";
  const std::string directory_ = folder_ + "/controller";
  const std::string state_ = directory_ + "/state.db";
};

TEST_F(StateFileTest, ChecksWithoutChangingAnything) {
  const std::string before = Contents(backup_);
  EXPECT_TRUE(CheckStateFile(backup_).ok());
  EXPECT_EQ(Contents(backup_), before);
  EXPECT_EQ(CheckStateFile(folder_ + "/absent").code(), absl::StatusCode::kNotFound);
  std::ofstream(folder_ + "/empty").close();
  EXPECT_EQ(CheckStateFile(folder_ + "/empty").code(), absl::StatusCode::kDataLoss);
}

TEST_F(StateFileTest, AStateIsMadeOnceAndWhole) {
  const std::string path = folder_ + "/made.db";
  std::ofstream(path + ".new") << "of a start that broke off";
  EXPECT_TRUE(MakeStateIfNone(path).value());
  EXPECT_TRUE(CheckStateFile(path).ok());
  EXPECT_FALSE(fs::exists(path + ".new"));
  Put(path, {{"job/1", "kept"}});
  EXPECT_FALSE(MakeStateIfNone(path).value());
  EXPECT_EQ(Get(path).at("job/1"), "kept");
  EXPECT_EQ(MakeStateIfNone(folder_ + "/absent/made.db").status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(StateFileTest, WhatRemainsOfALostStateIsNoNewOne) {
  const std::string empty = folder_ + "/empty.db";
  std::ofstream(empty).close();
  const std::string link = folder_ + "/link.db";
  fs::create_symlink(folder_ + "/not-mounted/state.db", link);
  const std::string log = folder_ + "/log.db";
  std::ofstream(log + "-wal") << "frames";
  for (const auto& [path, how] : std::map<std::string, std::string>{
           {empty, "it is empty"}, {link, "leads nowhere"}, {log, "its log is"}}) {
    const absl::Status status = MakeStateIfNone(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    EXPECT_THAT(std::string(status.message()), HasSubstr(how));
  }
  EXPECT_EQ(fs::file_size(empty), 0u);
  EXPECT_FALSE(fs::exists(log));
}

TEST_F(StateFileTest, RestoredStateHasAllRecordsAndLaterNumbers) {
  const auto restored = RestoreState(backup_, directory_, /*force=*/false, kNow);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->kept, "");
  EXPECT_EQ(restored->number, kNumber);
  EXPECT_EQ(Get(state_), (Entries{{"job/1", "old"},
                                  {kStartsKey, absl::StrCat(kNumber)},
                                  {kRestoredKey, absl::StrCat(kNumber)}}));
  EXPECT_FALSE(fs::exists(state_ + ".restored"));
  EXPECT_EQ(Get(backup_).at(kStartsKey), "4") << "the backup itself stays as it is";
}

TEST_F(StateFileTest, StateThatIsThereIsReplacedByForceOnlyAndKept) {
  fs::create_directories(directory_);
  Put(state_, {{"job/1", "new"}, {kStartsKey, "9"}});
  const absl::Status refused = RestoreState(backup_, directory_, /*force=*/false, kNow).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--force"));
  EXPECT_EQ(Get(state_).at("job/1"), "new");

  const auto restored = RestoreState(backup_, directory_, /*force=*/true, kNow);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->kept, state_ + ".replaced-20260301T120000Z");
  EXPECT_EQ(Get(state_).at("job/1"), "old");
  EXPECT_EQ(Get(restored->kept).at("job/1"), "new");
  // And back again, with numbers that neither state has used.
  const auto back =
      RestoreState(restored->kept, directory_, /*force=*/true, kNow + absl::Seconds(2));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(Get(state_).at("job/1"), "new");
  EXPECT_EQ(Get(state_).at(kStartsKey), absl::StrCat(kNumber + 2));
}

TEST_F(StateFileTest, WhatRootRestoresIsOfTheDirectorysOwner) {
  PACELINE_NEEDS_OTHER_USERS();
  fs::create_directories(directory_);
  ASSERT_EQ(chown(directory_.c_str(), kNobody, kNobody), 0);
  ASSERT_TRUE(RestoreState(backup_, directory_, /*force=*/false, kNow).ok());
  for (const std::string& path : {state_, directory_ + "/lock"}) {
    struct stat info = {};
    ASSERT_EQ(stat(path.c_str(), &info), 0) << path;
    EXPECT_EQ(info.st_uid, kNobody) << path;
    EXPECT_EQ(info.st_gid, kNobody) << path;
  }
}

TEST_F(StateFileTest, DamagedStateIsKeptToo) {
  fs::create_directories(directory_);
  std::ofstream(state_) << std::string(5000, 'x');
  const auto restored = RestoreState(backup_, directory_, /*force=*/true, kNow);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(Contents(restored->kept), std::string(5000, 'x'));
  EXPECT_EQ(Get(state_).at("job/1"), "old");
}

TEST_F(StateFileTest, LogWithoutItsFileIsNotReadIntoTheBackup) {
  fs::create_directories(directory_);
  std::ofstream(state_ + "-wal") << "frames";
  EXPECT_EQ(RestoreState(backup_, directory_, /*force=*/false, kNow).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const auto restored = RestoreState(backup_, directory_, /*force=*/true, kNow);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_FALSE(fs::exists(state_ + "-wal"));
  EXPECT_EQ(Contents(restored->kept + "-wal"), "frames");
  EXPECT_EQ(Get(state_).at("job/1"), "old");
}

TEST_F(StateFileTest, WhatIsNoSoundBackupChangesNothing) {
  fs::create_directories(directory_);
  Put(state_, {{"job/1", "new"}});
  std::string bytes = Contents(backup_);
  const size_t at = bytes.find("old");
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 'O';
  std::ofstream(backup_, std::ios::binary) << bytes;
  const absl::Status status = RestoreState(backup_, directory_, /*force=*/true, kNow).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("job/1"));
  EXPECT_EQ(Get(state_).at("job/1"), "new");
  int files = 0;
  for (const auto& entry : fs::directory_iterator(directory_)) {
    files += entry.path().filename() == "lock" ? 0 : 1;
  }
  EXPECT_EQ(files, 1);
}

TEST_F(StateFileTest, StateInUseIsLeftAlone) {
  fs::create_directories(directory_);
  Put(state_, {{"job/1", "new"}});
  const auto lock = StateLock::Take(directory_);
  ASSERT_TRUE(lock.ok());
  const absl::Status status = RestoreState(backup_, directory_, /*force=*/true, kNow).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("in use by process"));
  EXPECT_EQ(Get(state_).at("job/1"), "new");
}

TEST_F(StateFileTest, ClockFromBeforeThatTimeIsRefused) {
  EXPECT_EQ(RestoreState(backup_, directory_, false, absl::UnixEpoch()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(fs::exists(state_));
}

TEST_F(StateFileTest, ControllerTakesRestoredJobsUpOnce) {
  JobRequest request;
  request.id = JobId("job-1");
  Job job = NewJob(request, 1, {kNow, kNow});
  PlaceJob(job, {{NodeName("a"), 0}}, {kNow, kNow});
  const std::string backup = backup_ + ".jobs";
  Put(backup, {{JobKey(JobId("job-1")), EncodeJob(job)}});
  fs::create_directories(directory_);
  ASSERT_TRUE(RestoreState(backup, directory_, /*force=*/false, kNow).ok());
  for (int start = 1; start <= 2; ++start) {
    const auto store = SqliteStore::Open(state_);
    const auto state = LoadState(**store);
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_EQ(state->starts, kNumber + start);
    EXPECT_EQ(state->restored, start == 1 ? kNumber : 0);
    ASSERT_EQ(state->jobs.size(), 1u);
    EXPECT_EQ(state->jobs[0].state, JobState::kStopping);
    EXPECT_TRUE(state->jobs[0].requeue);
    EXPECT_EQ(state->jobs[0].generations_used, Generation(kNumber));
    const auto events = state->events.find(JobId("job-1"));
    ASSERT_NE(events, state->events.end());
    ASSERT_EQ(events->second.size(), 1u) << "told once";
    EXPECT_THAT(events->second[0].what, HasSubstr("restored from a backup"));
  }
}

}  // namespace
}  // namespace paceline
