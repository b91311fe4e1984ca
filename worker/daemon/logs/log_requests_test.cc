#include "worker/daemon/logs/log_requests.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "absl/time/clock.h"
#include "worker/daemon/logs/log_marks.h"

namespace paceline {
namespace {

class LogRequestsTest : public ::testing::Test {
 protected:
  LogRequestsTest() {
    dir_ = ::testing::TempDir() + "/log_requests_test.XXXXXX";
    EXPECT_NE(::mkdtemp(dir_.data()), nullptr);
  }

  void Append(const std::string& text) {
    std::ofstream(dir_ + "/00000000000000000000.log", std::ios::app) << text;
  }

  void Ask(int64_t id, int64_t offset, bool follow, int tail_lines = 0,
           const std::string& job = "job-1") {
    v1::LogRequest request;
    request.set_id(id);
    request.mutable_trainer()->set_job_id(job);
    request.set_offset(offset);
    request.set_follow(follow);
    request.set_tail_lines(tail_lines);
    requests_.Add(request, absl::Now());
  }

  // Formats the next answer: "id@offset:data", "end" at the end of the log, "-" if none is ready.
  std::string Next() {
    const auto data = requests_.Next();
    if (!data.has_value()) return "-";
    return std::to_string(data->id()) + "@" + std::to_string(data->offset()) + ":" + data->data() +
           (data->end() ? " end" : "") + (data->error().empty() ? "" : " error");
  }

  std::string dir_;
  bool alive_ = true;
  LogRequests requests_{[this](const TrainerId& id) -> std::optional<LogRequests::Place> {
                          if (!(id.job == JobId("job-1"))) return std::nullopt;
                          return LogRequests::Place{dir_, dir_ + "/marks"};
                        },
                        [this](const TrainerId&) { return alive_; }};
};

TEST_F(LogRequestsTest, EachRequestIsAnsweredOnce) {
  Append("hello");
  Ask(1, 0, false);
  EXPECT_EQ(Next(), "1@0:hello end");
  EXPECT_EQ(Next(), "-");
  EXPECT_TRUE(requests_.empty());
}

TEST_F(LogRequestsTest, LongLogComesInParts) {
  Append(std::string(70000, 'x'));
  Ask(1, 0, false);
  auto part = requests_.Next();
  EXPECT_EQ(part->data().size(), 65536);
  EXPECT_FALSE(part->end());
  Ask(2, 65536, false);
  part = requests_.Next();
  EXPECT_EQ(part->data().size(), 70000 - 65536);
  EXPECT_TRUE(part->end());
}

TEST_F(LogRequestsTest, FollowerWaitsForMoreAndForTheTrainersEnd) {
  Ask(1, 0, true);
  EXPECT_EQ(Next(), "-");
  Append("a");
  EXPECT_EQ(Next(), "1@0:a");
  Ask(2, 1, true);
  EXPECT_EQ(Next(), "-");
  Append("b");
  alive_ = false;
  EXPECT_EQ(Next(), "2@1:b end");
  Ask(3, 2, true);
  EXPECT_EQ(Next(), "3@2: end");
}

TEST_F(LogRequestsTest, WaitingRequestDoesNotHoldUpOthers) {
  Append("a");
  Ask(1, 1, true);
  Ask(2, 0, false);
  EXPECT_EQ(Next(), "2@0:a end");
}

TEST_F(LogRequestsTest, TailBeginsSoManyLinesBeforeTheEnd) {
  Append("one\ntwo\nthree\n");
  Ask(1, 0, false, 2);
  EXPECT_EQ(Next(), "1@4:two\nthree\n end");
}

TEST_F(LogRequestsTest, SinceBeginsWithWhatWasWrittenThen) {
  Append("one\n");
  LogMarks(dir_, dir_ + "/marks").Add(absl::Now() - absl::Hours(1));
  Append("two\n");
  v1::LogRequest request;
  request.mutable_trainer()->set_job_id("job-1");
  request.set_id(1);
  request.set_since_s(600);
  requests_.Add(request, absl::Now());
  EXPECT_EQ(Next(), "1@4:two\n end");
  request.set_since_s(7200);
  requests_.Add(request, absl::Now());
  EXPECT_EQ(Next(), "1@0:one\ntwo\n end");
}

TEST_F(LogRequestsTest, UnknownTrainerIsAnError) {
  Ask(1, 0, true, 0, "job-2");
  EXPECT_EQ(Next(), "1@0: end error");
  EXPECT_TRUE(requests_.empty());
}

TEST_F(LogRequestsTest, CancelledRequestIsNotAnswered) {
  Append("x");
  Ask(1, 0, true);
  requests_.Cancel(1);
  EXPECT_EQ(Next(), "-");
}

TEST_F(LogRequestsTest, RequestsBeyondTheBoundAreRefused) {
  for (int64_t id = 1; id <= 1025; ++id) Ask(id, 0, true);
  EXPECT_EQ(Next(), "1@0: end error");
  EXPECT_EQ(Next(), "-");
}

}  // namespace
}  // namespace paceline
