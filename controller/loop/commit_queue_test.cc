#include "controller/loop/commit_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "controller/store/testing/memory_store.h"

namespace paceline {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

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

CommitQueue::Callbacks NoCallbacks() {
  return {[](const JobId&, WriteBatch&) { FAIL() << "no job has changed"; }, [](absl::Duration) {},
          [](absl::Status) {}};
}

CommitQueue::Change Put(const char* key) { return {{{{key, "value"}}, {}}, {}}; }

// Says when its first commit is done. The queue's thread owns its entries, not the loop.
class TellingStore : public MemoryStore {
 public:
  absl::Status Commit(const WriteBatch& batch) override {
    const absl::Status status = MemoryStore::Commit(batch);
    if (!stored.HasBeenNotified()) stored.Notify();
    return status;
  }

  absl::Notification stored;
};

TEST(CommitQueueTest, RunsWhatDependsOnABatchAfterItIsStoredAndInOrder) {
  EventLoop loop;
  TellingStore store;
  std::vector<int> order;
  CommitQueue queue(&loop, &store, NoCallbacks());
  loop.Post([&] {
    queue.Add(Put("a"), [&](const absl::Status&) {
      EXPECT_TRUE(store.stored.HasBeenNotified());
      order.push_back(1);
    });
    queue.Add({}, [&](const absl::Status&) { order.push_back(2); });
    queue.Add(Put("b"), [&](const absl::Status&) {
      order.push_back(3);
      loop.Stop();
    });
    EXPECT_THAT(order, IsEmpty()) << "nothing is told before it is durable";
    EXPECT_EQ(queue.TakeMostInLine(), 3);
  });
  loop.Run();
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
  EXPECT_EQ(queue.TakeMostInLine(), 3) << "they were in line when it was asked last";
}

// Counts commits. The first one sets `begun` and waits for `go`.
class WaitingStore : public MemoryStore {
 public:
  absl::Status Commit(const WriteBatch& batch) override {
    if (commits_++ == 0) {
      begun.Notify();
      go.WaitForNotification();
    }
    for (const std::string& key : batch.deletes) {
      EXPECT_EQ(batch.puts.count(key), 0u) << key << " is put and deleted, which etcd refuses";
    }
    return MemoryStore::Commit(batch);
  }
  int commits() const { return commits_; }

  absl::Notification begun;
  absl::Notification go;

 private:
  int commits_ = 0;
};

// A disk that is full for one commit: the first one fails once `go` is set.
class FullForAMoment : public MemoryStore {
 public:
  absl::Status Commit(const WriteBatch& batch) override {
    if (commits_++ > 0) return MemoryStore::Commit(batch);
    go.WaitForNotification();
    return absl::ResourceExhaustedError("disk full");
  }

  absl::Notification go;

 private:
  int commits_ = 0;
};

TEST(CommitQueueTest, BatchesThatWaitTogetherAreOneTransaction) {
  EventLoop loop;
  WaitingStore store;
  std::vector<int> order;
  {
    CommitQueue queue(&loop, &store, NoCallbacks());
    const auto note = [&](int number) {
      return [&order, number](const absl::Status& status) {
        EXPECT_TRUE(status.ok());
        order.push_back(number);
      };
    };
    loop.Post([&] {
      queue.Add(Put("a"), note(1));
      store.begun.WaitForNotification();
      queue.Add(Put("b"), note(2));
      queue.Add({{{{"b", "newer"}, {"d", "short"}}, {"a"}}, {}}, note(3));
      queue.Add({{{{"a", "again"}}, {"c", "d"}}, {}}, note(4));
      queue.Add({}, note(5));
      queue.Add(Put("c"), [&](const absl::Status&) { loop.Stop(); });
      store.go.Notify();
    });
    loop.Run();
  }
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(store.commits(), 2);
  EXPECT_THAT(*store.Load(""),
              ElementsAre(Pair("a", "again"), Pair("b", "newer"), Pair("c", "value")));
}

TEST(CommitQueueTest, AJobIsEncodedOnceForItsTransactionAndAsItIsThen) {
  EventLoop loop;
  WaitingStore store;
  int encoded = 0;
  std::string state = "first";
  {
    CommitQueue::Callbacks callbacks = NoCallbacks();
    callbacks.encode = [&](const JobId& id, WriteBatch& batch) {
      ++encoded;
      if (id == JobId("gone")) return;
      batch.puts["job/" + id.value()] = state;
    };
    CommitQueue queue(&loop, &store, std::move(callbacks));
    const auto nothing = [](const absl::Status&) {};
    const CommitQueue::Change change = {{}, {JobId("j")}};
    loop.Post([&] {
      queue.Add(change, nothing);
      EXPECT_EQ(encoded, 1) << "the disk was free";
      store.begun.WaitForNotification();
      state = "second";
      queue.Add(change, nothing);
      queue.Add({{}, {JobId("gone")}}, nothing);
      queue.Add({{{}, {"job/gone"}}, {}}, nothing);
      state = "third";
      queue.Add(change, [&](const absl::Status&) { loop.Stop(); });
      EXPECT_EQ(encoded, 1) << "there is no hurry while the disk is not free";
      store.go.Notify();
    });
    loop.Run();
  }
  EXPECT_EQ(encoded, 3);
  EXPECT_EQ(store.commits(), 2);
  EXPECT_THAT(*store.Load(""), ElementsAre(Pair("job/j", "third")));
}

TEST(CommitQueueTest, WhatWaitsWhenTheLoopHasStoppedIsWrittenAllTheSame) {
  WaitingStore store;
  {
    EventLoop loop;
    CommitQueue queue(&loop, &store, NoCallbacks());
    loop.Post([&] {
      queue.Add(Put("a"), [](const absl::Status&) {});
      store.begun.WaitForNotification();
      queue.Add(Put("b"), [](const absl::Status&) {});
      loop.Stop();
    });
    loop.Run();
    store.go.Notify();
  }
  EXPECT_THAT(*store.Load(""), ElementsAre(Pair("a", "value"), Pair("b", "value")));
}

TEST(CommitQueueTest, AfterAFailureThatNoLoopHasHeardOfNothingIsWrittenEither) {
  FullForAMoment store;
  {
    EventLoop loop;
    CommitQueue queue(&loop, &store, NoCallbacks());
    loop.Post([&] {
      queue.Add(Put("a"), [](const absl::Status&) {});
      queue.Add(Put("b"), [](const absl::Status&) {});
      loop.Stop();
    });
    loop.Run();
    store.go.Notify();
  }
  EXPECT_THAT(*store.Load(""), IsEmpty());
}

TEST(CommitQueueTest, WorkWithoutABatchRunsAtOnceWhenNothingIsInLine) {
  EventLoop loop;
  MemoryStore store;
  CommitQueue queue(&loop, &store, NoCallbacks());
  bool ran = false;
  queue.Add({}, [&](const absl::Status& status) { ran = status.ok(); });
  EXPECT_TRUE(ran);
}

TEST(CommitQueueTest, WorkWithoutABatchIsDoneWithTheLastBatch) {
  constexpr int kWork = 200;
  EventLoop loop;
  WaitingStore store;
  CommitQueue queue(&loop, &store, NoCallbacks());
  int done = 0;
  loop.Post([&] {
    queue.Add(Put("a"), [&](const absl::Status&) {
      // Reaches the loop before anything that the thread could still send there.
      loop.Post([&] {
        EXPECT_EQ(done, kWork) << "it stood in line for the thread";
        bool ran = false;
        queue.Add({}, [&](const absl::Status&) { ran = true; });
        EXPECT_TRUE(ran) << "nothing is in line";
        loop.Stop();
      });
    });
    for (int i = 0; i < kWork; ++i) queue.Add({}, [&](const absl::Status&) { ++done; });
    store.go.Notify();
  });
  loop.Run();
}

TEST(CommitQueueTest, AfterAFailureNothingMoreIsWritten) {
  FullForAMoment store;
  {
    EventLoop loop;
    std::vector<absl::StatusCode> heard;
    CommitQueue queue(&loop, &store, NoCallbacks());
    const auto hear = [&](const absl::Status& status) { heard.push_back(status.code()); };
    loop.Post([&] {
      queue.Add(Put("a"), hear);
      queue.Add(Put("a"), hear);  // Belongs to the next transaction.
      queue.Add(Put("b"), [&](const absl::Status& status) {
        hear(status);
        loop.Stop();
      });
      store.go.Notify();
    });
    loop.Run();
    EXPECT_THAT(heard, SizeIs(3));
    EXPECT_THAT(heard, Each(absl::StatusCode::kResourceExhausted));
  }
  EXPECT_THAT(*store.Load(""), IsEmpty()) << "it would stand there without what came before it";
}

TEST(CommitQueueTest, FailureIsReportedOnceAndReachesAllThatDependsOnIt) {
  EventLoop loop;
  FailingStore store(1);
  std::vector<absl::StatusCode> heard;
  int failures = 0;
  CommitQueue::Callbacks callbacks = NoCallbacks();
  callbacks.failed = [&](absl::Status) { ++failures; };
  CommitQueue queue(&loop, &store, std::move(callbacks));
  const auto hear = [&](const absl::Status& status) { heard.push_back(status.code()); };
  loop.Post([&] {
    queue.Add(Put("a"), [&](const absl::Status& status) {
      hear(status);
      queue.Add(Put("b"), hear);
      queue.Add({}, [&](const absl::Status& later) {
        hear(later);
        loop.Stop();
      });
    });
  });
  loop.Run();
  queue.Add(Put("c"), hear);
  EXPECT_THAT(heard, ElementsAre(absl::StatusCode::kOk, absl::StatusCode::kResourceExhausted,
                                 absl::StatusCode::kResourceExhausted,
                                 absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(failures, 1);
}

}  // namespace
}  // namespace paceline
