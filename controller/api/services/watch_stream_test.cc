#include "controller/api/services/watch_stream.h"

#include <gmock/gmock.h>
#include <grpcpp/server_context.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/event_loop.h"
#include "controller/api/admission/call_limits.h"
#include "controller/metrics/metric_families.h"
#include "controller/metrics/rpc_metrics.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kBase = int64_t{3} << 32;
constexpr size_t kChanges = 5;  // Changes that the log keeps.

using Reactor = grpc::ServerWriteReactor<grpc::ByteBuffer>;
using Stream = WatchStream<v1::JobEvent>;

// gRPC's side of a stream; the test is its reader.
class PlayedCall : public grpc::ServerCallbackWriter<grpc::ByteBuffer> {
 public:
  explicit PlayedCall(Reactor* stream) : stream_(stream) { BindReactor(stream); }

  // Takes what waits for the reader: "MODIFIED", then the job, its state and the revision, "a2@3";
  // empty: nothing waits.
  std::string Take() {
    const grpc::ByteBuffer* const written = written_.exchange(nullptr);
    if (written == nullptr) return "";
    v1::JobEvent event;
    EXPECT_TRUE(DecodeRequest(*written, &event).ok());
    stream_->OnWriteDone(true);
    return absl::StrCat(v1::EventType_Name(event.type()), " ", event.job().id(),
                        event.job().reason(), "@", event.revision() - kBase);
  }
  const grpc::Status& end() const { return end_; }

  void Finish(grpc::Status status) override { end_ = std::move(status); }
  void SendInitialMetadata() override {}
  void Write(const grpc::ByteBuffer* event, grpc::WriteOptions) override { written_ = event; }
  void WriteAndFinish(const grpc::ByteBuffer*, grpc::WriteOptions, grpc::Status) override {}

 private:
  grpc::internal::ServerReactor* reactor() override { return stream_; }
  void CallOnDone() override {}

  Reactor* const stream_;
  std::atomic<const grpc::ByteBuffer*> written_{nullptr};
  grpc::Status end_;
};

class WatchStreamTest : public ::testing::Test {
 protected:
  WatchStreamTest() : thread_([this] { loop_.Run(); }) {}
  ~WatchStreamTest() override {
    End();
    loop_.Stop();
    thread_.join();
  }

  // Runs `run` on the loop, after all that was posted there so far.
  void OnLoop(const std::function<void()>& run) {
    absl::Notification done;
    loop_.Post([&] {
      run();
      done.Notify();
    });
    done.WaitForNotification();
  }

  void Begin(int64_t revision) {
    OnLoop([&] {
      stream_ = new Stream(
          &loop_, &sender_, limits_.OpenStream(&context_, v1::WatchJobsRequest()), &log_, &set_,
          [](const WatchKey& key) { return key.submitter != "bob"; }, &metrics_,
          most_on_their_way_);
      call_ = std::make_unique<PlayedCall>(stream_);
      stream_->Begin(revision, [this](const std::string& id) { return Next(id); });
    });
  }
  // Waits until all that was sent by now is being written.
  void Settle() {
    OnLoop([] {});
    absl::Notification done;
    sender_.Post([&] { done.Notify(); });
    done.WaitForNotification();
  }
  // Plays a client that has gone.
  void End() {
    Settle();
    OnLoop([&] {
      if (stream_ != nullptr) static_cast<Reactor*>(std::exchange(stream_, nullptr))->OnDone();
    });
    OnLoop([] {});
  }
  std::optional<Stream::Present> Next(const std::string& id) const {
    const auto job = present_.upper_bound(id);
    if (job == present_.end()) return std::nullopt;
    return Stream::Present{job->first, EventOf(v1::EVENT_TYPE_UNSPECIFIED, job->first)};
  }
  v1::JobEvent EventOf(v1::EventType type, const std::string& id) const {
    v1::JobEvent event;
    event.set_type(type);
    event.mutable_job()->set_id(id);
    const auto job = present_.find(id);
    if (job != present_.end()) event.mutable_job()->set_reason(job->second);
    return event;
  }

  void Change(const std::string& id, const std::string& state,
              const std::string& submitter = "ann") {
    OnLoop([&] {
      const bool is_new = present_.count(id) == 0;
      present_[id] = state;
      Append(is_new ? v1::ADDED : v1::MODIFIED, id, submitter);
    });
  }
  void Delete(const std::string& id) {
    OnLoop([&] {
      present_.erase(id);
      Append(v1::DELETED, id, "ann");
    });
  }
  void Append(v1::EventType type, const std::string& id, const std::string& submitter) {
    log_.Append({id, submitter}, EventOf(type, id));
    if (stream_ != nullptr) stream_->Wake();
  }

  // Reads all that the stream sends.
  std::vector<std::string> Read() {
    std::vector<std::string> events;
    while (true) {
      std::string event;
      Settle();
      OnLoop([&] { event = call_->Take(); });
      if (event.empty()) return events;
      events.push_back(event);
    }
  }

  EventLoop loop_;
  Sender sender_;
  int most_on_their_way_ = 1;
  MetricRegistry registry_{ControllerFamilies()};
  LimitMetrics limit_metrics_{registry_};
  CallLimits limits_{CallLimitOptions(), &limit_metrics_};
  grpc::CallbackServerContext context_;
  prometheus::Gauge open_;
  prometheus::Counter resyncs_;
  WatchMetrics metrics_{open_, resyncs_};

  // On the loop.
  WatchLog<v1::JobEvent> log_{3, kChanges, size_t{1} << 20};
  std::map<std::string, std::string> present_;  // Jobs and their states.
  Stream::Set set_;
  std::unique_ptr<PlayedCall> call_;
  Stream* stream_ = nullptr;

  std::thread thread_;
};

TEST_F(WatchStreamTest, FirstWhatIsPresentThenChanges) {
  Change("a", "1");
  Change("b", "1");
  Begin(0);
  EXPECT_THAT(Read(), ElementsAre("ADDED a1@2", "ADDED b1@2", "BOOKMARK @2"));
  Change("a", "2");
  EXPECT_THAT(Read(), ElementsAre("MODIFIED a2@3"));
}

TEST_F(WatchStreamTest, NothingIsShownAsItWasBeforeWhatWasShownLast) {
  for (const char* id : {"a", "b", "c"}) Change(id, "1");
  Begin(0);
  // Changes while the first one is being read.
  Change("a", "2");
  Change("c", "2");
  EXPECT_THAT(Read(), ElementsAre("ADDED a1@3", "MODIFIED a2@4", "ADDED b1@5", "ADDED c2@5",
                                  "BOOKMARK @5"));
  Change("c", "3");
  EXPECT_THAT(Read(), ElementsAre("MODIFIED c3@6"));
}

TEST_F(WatchStreamTest, WhatIsDeletedBeforeItsTurnIsNotToldOf) {
  for (const char* id : {"a", "b", "c"}) Change(id, "1");
  Begin(0);
  Delete("a");
  Delete("b");
  EXPECT_THAT(Read(), ElementsAre("ADDED a1@3", "DELETED a@4", "ADDED c1@5", "BOOKMARK @5"));
}

TEST_F(WatchStreamTest, WhatComesDuringTheListIsToldOfOnce) {
  Change("b", "1");
  Change("c", "1");
  Begin(0);
  Change("a", "1");
  Change("d", "1");
  EXPECT_THAT(Read(),
              ElementsAre("ADDED b1@2", "ADDED a1@3", "ADDED c1@4", "ADDED d1@4", "BOOKMARK @4"));
}

TEST_F(WatchStreamTest, ResumesAfterARevision) {
  for (const char* state : {"1", "2", "3"}) Change("a", state);
  Begin(kBase + 1);
  EXPECT_THAT(Read(), ElementsAre("MODIFIED a2@2", "MODIFIED a3@3"));
  EXPECT_THAT(Read(), IsEmpty());
}

TEST_F(WatchStreamTest, WhatIsNotOfInterestIsNotToldOf) {
  Change("a", "1");
  Change("b", "1", "bob");
  Change("c", "1");
  Begin(kBase);
  EXPECT_THAT(Read(), ElementsAre("ADDED a1@1", "ADDED c1@3"));
}

TEST_F(WatchStreamTest, AReaderThatIsTooSlowHasToListAgain) {
  Change("a", "1");
  Begin(0);
  for (size_t i = 0; i <= kChanges; ++i) Change("a", "2");
  EXPECT_THAT(Read(), ElementsAre("ADDED a1@1"));
  OnLoop([&] {
    EXPECT_EQ(call_->end().error_code(), grpc::StatusCode::OUT_OF_RANGE);
    EXPECT_EQ(resyncs_.Value(), 1);
  });
}

TEST_F(WatchStreamTest, SomeAreOnTheirWayAtATimeAndInOrder) {
  most_on_their_way_ = 4;
  std::vector<std::string> reported;
  for (const char* id : {"a", "b", "c", "d", "e", "f"}) {
    Change(id, "1");
    reported.push_back(absl::StrCat("ADDED ", id, "1@6"));
  }
  Begin(0);
  Settle();
  // Three changes wait behind the one that is being read; e is still to come.
  Change("b", "2");
  reported.insert(reported.begin() + 4, "MODIFIED b2@7");
  Change("e", "2");
  reported[5] = "ADDED e2@8";
  reported[6] = "ADDED f1@8";
  reported.push_back("BOOKMARK @8");
  EXPECT_EQ(Read(), reported);
}

TEST_F(WatchStreamTest, WhatWasSentIsOutBeforeItEnds) {
  most_on_their_way_ = 4;
  for (const char* id : {"a", "b"}) Change(id, "1");
  Begin(0);
  OnLoop([&] { stream_->Close(grpc::Status::CANCELLED); });
  OnLoop([&] { EXPECT_TRUE(call_->end().ok()) << "it has not ended"; });
  EXPECT_THAT(Read(), ElementsAre("ADDED a1@2", "ADDED b1@2", "BOOKMARK @2"));
  OnLoop([&] { EXPECT_EQ(call_->end().error_code(), grpc::StatusCode::CANCELLED); });
}

TEST_F(WatchStreamTest, IsCountedAsLongAsItIsOpen) {
  Begin(0);
  OnLoop([&] {
    EXPECT_EQ(open_.Value(), 1);
    EXPECT_EQ(set_.count(stream_), 1u);
  });
  End();
  OnLoop([&] {
    EXPECT_EQ(open_.Value(), 0);
    EXPECT_THAT(set_, IsEmpty());
  });
}

}  // namespace
}  // namespace paceline
