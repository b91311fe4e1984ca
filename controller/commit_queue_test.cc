#include "controller/commit_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "controller/store/memory_store.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Fails every commit after the first `good` ones.
class FailingStore : public MemoryStore {
 public:
  explicit FailingStore(int good) : good_(good) {}
  absl::Status Commit(const WriteBatch& batch) override {
    if (good_-- <= 0) return absl::ResourceExhaustedError("disk full");
    return MemoryStore::Commit(batch);
  }

 private:
  int good_;
};

WriteBatch Put(const char* key) { return {{{key, "value"}}, {}}; }

TEST(CommitQueueTest, RunsWhatDependsOnABatchAfterItIsStoredAndInOrder) {
  EventLoop loop;
  MemoryStore store;
  std::vector<int> order;
  CommitQueue queue(&loop, &store, {[](absl::Duration) {}, [](absl::Status) {}});
  loop.Post([&] {
    queue.Add(Put("a"), [&] {
      EXPECT_EQ(store.Load("a")->size(), 1u);
      order.push_back(1);
    });
    queue.Add({}, [&] { order.push_back(2); });
    queue.Add(Put("b"), [&] {
      order.push_back(3);
      loop.Stop();
    });
    EXPECT_THAT(order, IsEmpty()) << "nothing is told before it is durable";
  });
  loop.Run();
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(CommitQueueTest, WorkWithoutABatchRunsAtOnceWhenNothingIsInLine) {
  EventLoop loop;
  MemoryStore store;
  CommitQueue queue(&loop, &store, {[](absl::Duration) {}, [](absl::Status) {}});
  bool ran = false;
  queue.Add({}, [&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(CommitQueueTest, FailureIsReportedOnceAndNothingAfterItRuns) {
  EventLoop loop;
  FailingStore store(1);
  std::vector<int> order;
  std::vector<absl::Status> failures;
  CommitQueue queue(&loop, &store,
                    {[](absl::Duration) {},
                     [&](absl::Status status) {
                       failures.push_back(status);
                       loop.Stop();
                     }});
  loop.Post([&] {
    queue.Add(Put("a"), [&] { order.push_back(1); });
    queue.Add(Put("b"), [&] { order.push_back(2); });
  });
  loop.Run();
  queue.Add(Put("c"), [&] { order.push_back(3); });
  queue.Add({}, [&] { order.push_back(4); });
  EXPECT_THAT(order, ElementsAre(1));
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace paceline
