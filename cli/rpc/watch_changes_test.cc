#include "cli/rpc/watch_changes.h"

#include <string>
#include <utility>
#include <vector>

#include "cli/rpc/interrupt.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;

v1::JobEvent EventOf(v1::EventType type, const std::string& id, int64_t revision) {
  v1::JobEvent event;
  event.set_type(type);
  event.set_revision(revision);
  if (id.empty()) return event;
  event.mutable_job()->set_id(id);
  event.mutable_job()->set_revision(revision);
  return event;
}

// Streams of a server played by a test: each one's events, and its status.
using Played = std::vector<std::pair<std::vector<v1::JobEvent>, grpc::Status>>;

// What a watcher gets, as "TYPE id", and from where it asked each stream to begin.
struct Shown {
  std::vector<std::string> events;
  std::vector<int64_t> begins;
};

Shown Watch(const Played& streams) {
  Interrupt interrupt;
  Client::Options options;
  options.server = "127.0.0.1:1";
  Client client(options, interrupt);
  Shown shown;
  ChangeWatch<v1::JobEvent> watch;
  watch.each = [&](const v1::JobEvent& event) {
    shown.events.push_back(v1::EventType_Name(event.type()) + " " + event.job().id());
    return true;
  };
  watch.on_outage = [](const grpc::Status&) {};
  const auto open = [&](const v1::WatchJobsRequest& request,
                        const std::function<bool(const v1::JobEvent&)>& each) {
    const auto& [events, end] = streams.at(shown.begins.size());
    shown.begins.push_back(request.after_revision());
    for (const v1::JobEvent& event : events) {
      if (!each(event)) return grpc::Status::OK;
    }
    return end;
  };
  const grpc::Status status = WatchChanges<v1::JobEvent>(
      client, v1::WatchJobsRequest(), watch, open,
      [](const v1::JobEvent& event) {
        return std::make_pair(event.job().id(), event.job().revision());
      },
      [](const std::string& id) { return EventOf(v1::DELETED, id, 0); });
  EXPECT_TRUE(status.ok());
  return shown;
}

const grpc::Status kLost(grpc::StatusCode::UNAVAILABLE, "");
const grpc::Status kCompacted(grpc::StatusCode::OUT_OF_RANGE, "");

TEST(WatchChangesTest, GoesOnWhereTheConnectionWasLost) {
  const Shown shown = Watch({
      {{EventOf(v1::ADDED, "a", 5), EventOf(v1::BOOKMARK, "", 7)}, kLost},
      {{EventOf(v1::MODIFIED, "a", 8)}, grpc::Status::OK},
  });
  EXPECT_THAT(shown.begins, ElementsAre(0, 7));
  EXPECT_THAT(shown.events, ElementsAre("ADDED a", "MODIFIED a"));
}

TEST(WatchChangesTest, AListThatBreaksOffBeginsAnew) {
  const Shown shown = Watch({
      {{EventOf(v1::ADDED, "a", 5)}, kLost},
      {{EventOf(v1::ADDED, "a", 5), EventOf(v1::ADDED, "b", 5), EventOf(v1::BOOKMARK, "", 5)},
       grpc::Status::OK},
  });
  EXPECT_THAT(shown.begins, ElementsAre(0, 0));
  EXPECT_THAT(shown.events, ElementsAre("ADDED a", "ADDED b"));
}

TEST(WatchChangesTest, AListThatBreaksOffBetweenChangesBeginsAnewToo) {
  const Shown shown = Watch({
      {{EventOf(v1::ADDED, "a", 5), EventOf(v1::MODIFIED, "a", 6)}, kLost},
      {{EventOf(v1::ADDED, "a", 6), EventOf(v1::ADDED, "b", 6), EventOf(v1::BOOKMARK, "", 6)},
       grpc::Status::OK},
  });
  EXPECT_THAT(shown.begins, ElementsAre(0, 0));
  EXPECT_THAT(shown.events, ElementsAre("ADDED a", "MODIFIED a", "ADDED b"));
}

TEST(WatchChangesTest, BehindAnotherLeaderNothingIsMissed) {
  const int64_t next = int64_t{1} << 32;  // Revisions of another start.
  const Shown shown = Watch({
      {{EventOf(v1::ADDED, "a", 5), EventOf(v1::ADDED, "b", 6), EventOf(v1::ADDED, "c", 7),
        EventOf(v1::BOOKMARK, "", 7), EventOf(v1::DELETED, "c", 8)},
       kLost},
      {{}, kCompacted},
      {{EventOf(v1::ADDED, "b", next), EventOf(v1::ADDED, "d", next),
        EventOf(v1::BOOKMARK, "", next)},
       grpc::Status::OK},
  });
  EXPECT_THAT(shown.begins, ElementsAre(0, 8, 0));
  // Of the objects shown before, b is listed again and a is gone; c was gone before.
  EXPECT_THAT(shown.events, ElementsAre("ADDED a", "ADDED b", "ADDED c", "DELETED c", "ADDED b",
                                        "ADDED d", "DELETED a"));
}

}  // namespace
}  // namespace paceline
