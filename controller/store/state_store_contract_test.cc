// What every StateStore promises.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "controller/store/etcd_store.h"
#include "controller/store/sqlite_store.h"
#include "controller/store/testing/leader_key.h"
#include "controller/store/testing/memory_store.h"
#include "tests/etcd/etcd_cluster.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

struct Implementation {
  const char* name;
  std::function<std::unique_ptr<StateStore>(const std::string& path)> open;
};

// Uses the one etcd of all tests, under its own prefix.
class OwnEtcdStore : public StateStore {
 public:
  explicit OwnEtcdStore(const std::string& prefix)
      : store_(EtcdStore::Open(Client(), prefix, TakeLeadership(*Client(), prefix)).value()) {}

  absl::Status Commit(const WriteBatch& batch) override { return store_->Commit(batch); }
  absl::StatusOr<std::map<std::string, std::string>> Load(const std::string& prefix) override {
    return store_->Load(prefix);
  }
  int64_t SizeBytes() override { return store_->SizeBytes(); }

 private:
  static EtcdClient* Client() {
    static const EtcdCluster etcd;
    static const std::unique_ptr<EtcdClient> client = etcd.Client();
    return client.get();
  }

  const std::unique_ptr<EtcdStore> store_;
};

class StateStoreTest : public ::testing::TestWithParam<Implementation> {
 protected:
  static std::string NewFolder() {
    std::string folder = ::testing::TempDir() + "/storeXXXXXX";
    return mkdtemp(folder.data());
  }

  std::unique_ptr<StateStore> store_ = GetParam().open(NewFolder() + "/state.db");
};

TEST_P(StateStoreTest, LoadsWhatWasCommittedInTheOrderOfKeys) {
  ASSERT_TRUE(store_->Commit({{{"job/2", "b"}, {"job/1", "a"}, {"node/1", "n"}}, {}}).ok());
  EXPECT_THAT(*store_->Load("job/"), ElementsAre(Pair("job/1", "a"), Pair("job/2", "b")));
  EXPECT_THAT(*store_->Load("jobs/"), IsEmpty());
  EXPECT_EQ(store_->Load("")->size(), 3u);
}

TEST_P(StateStoreTest, PutReplacesAndDeleteRemoves) {
  ASSERT_TRUE(store_->Commit({{{"a", "1"}, {"b", "1"}}, {}}).ok());
  ASSERT_TRUE(store_->Commit({{{"a", "2"}}, {"b", "absent"}}).ok());
  EXPECT_THAT(*store_->Load(""), ElementsAre(Pair("a", "2")));
}

TEST_P(StateStoreTest, ValuesAreBytes) {
  const std::string value("\0\xff%_'\n", 6);
  ASSERT_TRUE(store_->Commit({{{"a%_", value}}, {}}).ok());
  EXPECT_THAT(*store_->Load("a%_"), ElementsAre(Pair("a%_", value)));
  ASSERT_TRUE(store_->Commit({{{"big", std::string(1 << 20, 'x')}}, {}}).ok());
  EXPECT_EQ(store_->Load("big")->at("big").size(), 1u << 20);
  // etcd reports the size of its file, which it writes to with a delay.
  const absl::Time limit = absl::Now() + absl::Seconds(10);
  while (store_->SizeBytes() < 1 << 20 && absl::Now() < limit) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_GE(store_->SizeBytes(), 1 << 20);
}

TEST_P(StateStoreTest, LargeBatchIsOneToo) {
  // More than one page of an answer from etcd.
  constexpr int kMany = 1200;
  WriteBatch batch;
  for (int i = 0; i < kMany; ++i) batch.puts["key" + std::to_string(i)] = std::to_string(i);
  batch.puts["large"] = std::string(3 << 20, 'x') + "end";
  ASSERT_TRUE(store_->Commit(batch).ok());
  EXPECT_TRUE(*store_->Load("") == batch.puts);
  WriteBatch smaller;
  smaller.puts["large"] = "y";
  for (int i = 0; i < kMany; ++i) smaller.deletes.push_back("key" + std::to_string(i));
  ASSERT_TRUE(store_->Commit(smaller).ok());
  EXPECT_THAT(*store_->Load(""), ElementsAre(Pair("large", "y")));
}

TEST_P(StateStoreTest, PrefixesDoNotMixWithTheirNeighbours) {
  const std::string large(1 << 20, 'x');
  ASSERT_TRUE(store_->Commit({{{"a", large}, {"a/0", "0"}, {"a0", "1"}, {"b", "2"}}, {}}).ok());
  EXPECT_THAT(*store_->Load("a/"), ElementsAre(Pair("a/0", "0")));
  EXPECT_TRUE(store_->Load("a")->at("a") == large);
  EXPECT_EQ(store_->Load("a")->size(), 3u);
}

TEST_P(StateStoreTest, EmptyBatchAndEmptyValueAreFine) {
  EXPECT_TRUE(store_->Commit({}).ok());
  ASSERT_TRUE(store_->Commit({{{"a", ""}}, {}}).ok());
  EXPECT_THAT(*store_->Load(""), ElementsAre(Pair("a", "")));
}

INSTANTIATE_TEST_SUITE_P(
    Stores, StateStoreTest,
    ::testing::Values(
        Implementation{"Memory",
                       [](const std::string&) { return std::make_unique<MemoryStore>(); }},
        Implementation{"Sqlite",
                       [](const std::string& path) -> std::unique_ptr<StateStore> {
                         return std::move(SqliteStore::Open(path)).value();
                       }},
        Implementation{
            "Etcd", [](const std::string& path) { return std::make_unique<OwnEtcdStore>(path); }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace paceline
