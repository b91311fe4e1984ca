// What every StateStore promises.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>

#include "controller/store/memory_store.h"
#include "controller/store/sqlite_store.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

struct Implementation {
  const char* name;
  std::function<std::unique_ptr<StateStore>(const std::string& path)> open;
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
  EXPECT_GE(store_->SizeBytes(), 1 << 20);
}

TEST_P(StateStoreTest, EmptyBatchAndEmptyValueAreFine) {
  EXPECT_TRUE(store_->Commit({}).ok());
  ASSERT_TRUE(store_->Commit({{{"a", ""}}, {}}).ok());
  EXPECT_THAT(*store_->Load(""), ElementsAre(Pair("a", "")));
}

INSTANTIATE_TEST_SUITE_P(
    Stores, StateStoreTest,
    ::testing::Values(Implementation{"Memory",
                                     [](const std::string&) {
                                       return std::make_unique<MemoryStore>();
                                     }},
                      Implementation{"Sqlite",
                                     [](const std::string& path) -> std::unique_ptr<StateStore> {
                                       return std::move(SqliteStore::Open(path)).value();
                                     }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace paceline
