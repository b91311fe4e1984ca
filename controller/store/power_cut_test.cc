// Tests the state store on a disk that loses power at every call that changes it, and on a disk
// that is full.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/store/sqlite_store.h"
#include "controller/store/testing/power_cut_vfs.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using Entries = std::map<std::string, std::string>;
using Survives = PowerCutVfs::Survives;

constexpr char kPath[] = "/disk/state.db";
constexpr int kBatches = 60;
// Then the store is closed, which writes the log back, and reopened.
constexpr int kBatchesPerOpening = 7;

// Batches, and the contents of the store after each number of them.
struct History {
  std::vector<WriteBatch> batches;
  std::vector<Entries> states = {{}};
};

History MakeHistory(uint32_t seed) {
  History history;
  std::mt19937 random(seed);
  for (int b = 0; b < kBatches; ++b) {
    WriteBatch batch;
    Entries state = history.states.back();
    const int puts = 1 + static_cast<int>(random() % 4);
    for (int p = 0; p < puts; ++p) {
      const std::string key = absl::StrCat("job/", random() % 40);
      batch.puts[key] = absl::StrCat("batch ", b, ":", std::string(random() % 3000, 'v'));
      state[key] = batch.puts[key];
    }
    const std::string gone = absl::StrCat("job/", random() % 40);
    if (b % 3 == 0 && batch.puts.count(gone) == 0) {
      batch.deletes.push_back(gone);
      state.erase(gone);
    }
    history.batches.push_back(std::move(batch));
    history.states.push_back(std::move(state));
  }
  return history;
}

// Commits until the end or the first error; returns how many batches were acknowledged.
size_t Play(const History& history) {
  size_t acknowledged = 0;
  while (acknowledged < history.batches.size()) {
    const auto store = SqliteStore::Open(kPath);
    if (!store.ok()) return acknowledged;
    for (int i = 0; i < kBatchesPerOpening && acknowledged < history.batches.size(); ++i) {
      if (!(*store)->Commit(history.batches[acknowledged]).ok()) return acknowledged;
      ++acknowledged;
    }
  }
  return acknowledged;
}

// Returns what is wrong with the state found; empty: nothing.
std::string Problem(const History& history, size_t acknowledged) {
  const auto store = SqliteStore::Open(kPath);
  if (!store.ok()) return absl::StrCat("cannot be opened: ", store.status().ToString());
  const auto found = (*store)->Load("");
  if (!found.ok()) return absl::StrCat("cannot be loaded: ", found.status().ToString());
  if (*found == history.states[acknowledged]) return "";
  // The batch under way may have reached the disk, but only as a whole.
  if (acknowledged < history.batches.size() && *found == history.states[acknowledged + 1]) {
    return "";
  }
  return absl::StrCat("after ", acknowledged, " batches something else is there");
}

Survives Variant(int64_t call) { return static_cast<Survives>(call % 4); }

// Cuts the power at each call of the history in turn. Returns the number of calls; `problems` is
// set to the number of cuts that lost something.
int64_t CutEverywhere(PowerCutVfs& disk, uint32_t seed, int64_t* problems, std::string* first) {
  const History history = MakeHistory(seed);
  for (int64_t call = 1;; ++call) {
    disk.Format();
    disk.CutAt(call);
    const size_t acknowledged = Play(history);
    if (!disk.is_cut()) return call - 1;
    disk.PowerOn(Variant(call + seed), static_cast<uint32_t>(call));
    const std::string problem = Problem(history, acknowledged);
    if (problem.empty()) continue;
    if (++*problems == 1) *first = absl::StrCat("cut at call ", call, ": ", problem);
  }
}

TEST(PowerCutTest, EachAcknowledgedBatchSurvivesAndEachIsWholeOrAbsent) {
  PowerCutVfs disk;
  int64_t problems = 0;
  std::string first;
  int64_t cuts = 0;
  for (const uint32_t seed : {1u, 2u}) cuts += CutEverywhere(disk, seed, &problems, &first);
  EXPECT_GE(cuts, 1000);
  EXPECT_EQ(problems, 0) << "of " << cuts << "; " << first;
}

TEST(PowerCutTest, WithoutSyncsSomethingIsLost) {
  PowerCutVfs disk;
  disk.IgnoreSyncs(true);
  int64_t problems = 0;
  std::string first;
  const int64_t cuts = CutEverywhere(disk, 1, &problems, &first);
  EXPECT_GT(problems, cuts / 4) << "the test would not see a store that does not sync";
}

void RunSql(const std::string& sql) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(kPath, &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(db);
  sqlite3_close(db);
}

// A file of schema 1, as its version left it.
void MakeOldFile() {
  RunSql(
      "PRAGMA journal_mode = WAL; PRAGMA application_id = 1346587726; PRAGMA user_version = 1; "
      "CREATE TABLE state (key TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL) WITHOUT ROWID; "
      "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 139) "
      "INSERT INTO state SELECT 'job/' || i, CAST('value ' || i || hex(zeroblob(200)) AS BLOB) "
      "FROM n");
}

TEST(PowerCutTest, MigrationIsMadeWholeOrBegunAnew) {
  PowerCutVfs disk;
  int64_t call = 1;
  for (;; ++call) {
    disk.Format();
    MakeOldFile();
    disk.CutAt(call);
    const bool opened = SqliteStore::Open(kPath).ok();
    if (!disk.is_cut()) {
      EXPECT_TRUE(opened);
      break;
    }
    disk.PowerOn(Variant(call), static_cast<uint32_t>(call));
    const auto store = SqliteStore::Open(kPath);
    ASSERT_TRUE(store.ok()) << "cut at call " << call << ": " << store.status();
    const auto found = (*store)->Load("job/");
    ASSERT_EQ(found->size(), 40u) << "cut at call " << call;
    EXPECT_THAT(found->at("job/117"), HasSubstr("value 117"));
    // A copy of the old file exists as soon as the file has changed.
    ASSERT_NE(disk.Contents(absl::StrCat(kPath, ".v1")), nullptr) << "cut at call " << call;
  }
  EXPECT_GT(call, 10);
}

TEST(PowerCutTest, FullDiskIsNamedAndLosesNothing) {
  PowerCutVfs disk;
  const History history = MakeHistory(3);
  disk.SetCapacity(100'000);
  size_t acknowledged = 0;
  {
    const auto store = SqliteStore::Open(kPath);
    ASSERT_TRUE(store.ok()) << store.status();
    absl::Status status;
    while (status.ok() && acknowledged < history.batches.size()) {
      status = (*store)->Commit(history.batches[acknowledged]);
      if (status.ok()) ++acknowledged;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(kPath));
    EXPECT_THAT(std::string(status.message()), HasSubstr("full"));
  }
  ASSERT_GT(acknowledged, 0u);
  ASSERT_LT(acknowledged, history.batches.size());
  disk.SetCapacity(-1);
  EXPECT_EQ(Problem(history, acknowledged), "");
  const auto store = SqliteStore::Open(kPath);
  EXPECT_TRUE((*store)->Commit(history.batches[acknowledged]).ok());
}

}  // namespace
}  // namespace paceline
