#include "controller/store/sqlite_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <fstream>
#include <sstream>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string Path() {
  return ::testing::TempDir() + "/" +
         ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".db";
}

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream all;
  all << file.rdbuf();
  return all.str();
}

void RunSql(const std::string& path, const char* sql) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
}

TEST(SqliteStoreTest, KeepsWhatWasCommittedOverAReopening) {
  const std::string path = Path();
  ASSERT_TRUE((*SqliteStore::Open(path))->Commit({{{"a", "1"}}, {}}).ok());
  EXPECT_THAT(*(*SqliteStore::Open(path))->Load(""), ElementsAre(Pair("a", "1")));
}

TEST(SqliteStoreTest, NewerSchemaIsRefusedAndLeftAlone) {
  const std::string path = Path();
  { auto store = SqliteStore::Open(path); }
  RunSql(path, "PRAGMA user_version = 99");
  const std::string before = Contents(path);
  const absl::Status status = SqliteStore::Open(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), HasSubstr("newer version (schema 99"));
  EXPECT_EQ(Contents(path), before);
}

TEST(SqliteStoreTest, ForeignDatabaseIsRefused) {
  RunSql(Path(), "CREATE TABLE t (x)");
  EXPECT_EQ(SqliteStore::Open(Path()).status().code(), absl::StatusCode::kDataLoss);
}

TEST(SqliteStoreTest, DatabaseWithoutTablesIsNoNewOne) {
  const std::string path = Path();
  RunSql(path, "CREATE TABLE t (x); DROP TABLE t");
  const std::string before = Contents(path);
  ASSERT_FALSE(before.empty());
  const absl::Status status = SqliteStore::Open(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("it holds no state"));
  EXPECT_EQ(Contents(path), before);
}

TEST(SqliteStoreTest, FileThatIsNoDatabaseIsRefusedAndLeftAlone) {
  const std::string text(5000, 'x');
  std::ofstream(Path()) << text;
  EXPECT_EQ(SqliteStore::Open(Path()).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Contents(Path()), text);
}

TEST(SqliteStoreTest, DamagedPageIsNoticedAtOpening) {
  const std::string path = Path();
  {
    auto store = SqliteStore::Open(path);
    WriteBatch batch;
    for (int i = 0; i < 2000; ++i) batch.puts["key" + std::to_string(i)] = std::string(100, 'v');
    ASSERT_TRUE((*store)->Commit(batch).ok());
  }
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096 * 10);
  file << std::string(4096, '\xee');
  file.close();
  EXPECT_EQ(SqliteStore::Open(path).status().code(), absl::StatusCode::kDataLoss);
}

TEST(SqliteStoreTest, ABatchThatFailsInTheMiddleLeavesNothing) {
  const std::string path = Path();
  auto store = SqliteStore::Open(path);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE((*store)->Commit({{{"a", "1"}}, {}}).ok());
  RunSql(path,
         "CREATE TRIGGER no_b BEFORE INSERT ON state WHEN new.key = 'b' "
         "BEGIN SELECT RAISE(ABORT, 'there is no room for b'); END");
  const absl::Status failed = (*store)->Commit({{{"a", "2"}, {"b", "2"}}, {}});
  EXPECT_THAT(std::string(failed.message()), HasSubstr("no room for b"));
  EXPECT_THAT(*(*store)->Load(""), ElementsAre(Pair("a", "1")));
  EXPECT_TRUE((*store)->Commit({{{"c", "3"}}, {}}).ok()) << "no transaction is open";
  EXPECT_THAT(*(*store)->Load(""), ElementsAre(Pair("a", "1"), Pair("c", "3")));
}

TEST(SqliteStoreTest, PathThatCannotBeOpenedIsNamed) {
  const absl::Status status = SqliteStore::Open("/proc/nowhere/state.db").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/proc/nowhere/state.db"));
}

}  // namespace
}  // namespace paceline
