// A state of each earlier version is converted to the present one without loss.
//
// testdata has a dump for each form of records (record.proto) in each schema. Existing dumps are
// never changed; a version with a new form adds a dump of the previous one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/store/records.h"
#include "controller/store/sqlite_store.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using Entries = std::map<std::string, std::string>;

constexpr char kDumps[] = "controller/store/testdata";

std::vector<std::string> Dumps() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kDumps)) {
    names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream all;
  all << file.rdbuf();
  return all.str();
}

// Runs the statements in the file; returns the rows of the last, which have two columns.
Entries RunSql(const std::string& path, const std::string& sql) {
  Entries rows;
  sqlite3* db = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  const auto take = [](void* out, int, char** values, char**) {
    if (values[1] != nullptr) (*static_cast<Entries*>(out))[values[0]] = values[1];
    return 0;
  };
  // Selects return rows of two columns; the rows of pragmas have one.
  const bool has_rows = sql.rfind("SELECT", 0) == 0;
  EXPECT_EQ(sqlite3_exec(db, sql.c_str(), has_rows ? +take : nullptr, &rows, nullptr), SQLITE_OK)
      << sqlite3_errmsg(db);
  sqlite3_close(db);
  return rows;
}

class MigrationTest : public ::testing::TestWithParam<std::string> {
 protected:
  static std::string NewFolder() {
    std::string folder = ::testing::TempDir() + "/migrationXXXXXX";
    return mkdtemp(folder.data());
  }

  // Whether the dump's records have this form or a later one; forms are letters.
  static bool Since(char form) { return GetParam().back() >= form; }
};

TEST(MigrationDumpsTest, ThereIsOneOfEachForm) { EXPECT_THAT(Dumps(), SizeIs(8)); }

TEST_P(MigrationTest, EverythingIsThere) {
  const std::string path = NewFolder() + "/state.db";
  RunSql(path, Contents(absl::StrCat(kDumps, "/", GetParam(), ".sql")));
  const std::string all = "SELECT key, hex(value) FROM state";
  const Entries before = RunSql(path, all);
  ASSERT_FALSE(before.empty());
  {
    const auto store = SqliteStore::Open(path);
    ASSERT_TRUE(store.ok()) << store.status();
  }
  EXPECT_EQ(RunSql(path, all), before);
  // A copy of the file as it was.
  EXPECT_EQ(RunSql(path + ".v1", all), before);
  EXPECT_EQ(RunSql(path + ".v1", "SELECT 'columns', count(*) FROM pragma_table_info('state')"),
            (Entries{{"columns", "2"}}));

  const auto store = SqliteStore::Open(path);
  const auto state = LoadState(**store);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->cluster_id, "5e0c7c5e-1111-4222-8333-444444444444");
  EXPECT_EQ(state->starts, 5);
  ASSERT_EQ(state->jobs.size(), 1u);
  const Job& job = state->jobs[0];
  EXPECT_EQ(job.request.id, JobId("job-0123456789ab"));
  EXPECT_EQ(job.request.name, "digits");
  EXPECT_EQ(job.request.steps, 500);
  EXPECT_EQ(job.number, 7);
  EXPECT_EQ(job.state, JobState::kRunning);
  EXPECT_EQ(job.generation, Generation(3));
  EXPECT_EQ(job.generations_used, Generation(0));
  EXPECT_EQ(job.recovery.started, Generation(3));
  EXPECT_EQ(job.started, absl::FromUnixSeconds(1700000010));
  ASSERT_EQ(job.ranks.size(), 2u);
  EXPECT_EQ(job.ranks[1].report.pid, 41);
  EXPECT_EQ(job.ranks[1].report.store_address, "b:1");
  EXPECT_EQ(job.homes.size(), 2u);
  EXPECT_THAT(job.nodes, ElementsAre(NodeName("a"), NodeName("b")));
  EXPECT_EQ(job.plan.version, PlanVersion(Since('b') ? 2 : 1));
  EXPECT_EQ(job.ranks[1].slot.rack, Since('b') ? "r2" : "");
  EXPECT_EQ(job.checkpoints.records.size(), Since('c') ? 1u : 0u);
  EXPECT_EQ(job.checkpoints.failures, Since('c') ? 2 : 0);
  EXPECT_EQ(job.recovery.avoid.size(), Since('g') ? 1u : 0u);
  ASSERT_EQ(state->nodes.size(), 1u);
  EXPECT_EQ(state->nodes[0].facts.uid, "uid-a");
  EXPECT_EQ(state->nodes[0].facts.slots, 2);
  EXPECT_EQ(state->nodes[0].history.size(), Since('e') ? 1u : 0u);
  EXPECT_EQ(state->nodes[0].checks.peer, Since('f') ? "b" : "");
  EXPECT_EQ(state->automation.owner, Since('e') ? "ann" : "");
  EXPECT_EQ(state->requests.at("0b6b5f5e-0000-4000-8000-000000000001").fingerprint, 9u);
  EXPECT_EQ(state->decisions.size(), Since('g') ? 1u : 0u);
  EXPECT_EQ(state->events.size(), Since('h') ? 1u : 0u);
}

INSTANTIATE_TEST_SUITE_P(Dumps, MigrationTest, ::testing::ValuesIn(Dumps()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace paceline
