#include "worker/daemon/log_streams.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

namespace paceline {
namespace {

class LogStreamsTest : public ::testing::Test {
 protected:
  LogStreamsTest() {
    dir_ = ::testing::TempDir() + "/log_streams_test.XXXXXX";
    EXPECT_NE(::mkdtemp(dir_.data()), nullptr);
  }

  void Append(const std::string& text) {
    std::ofstream(dir_ + "/00000000000000000000.log", std::ios::app) << text;
  }

  static v1::LogRequest Request(int64_t id, bool follow) {
    v1::LogRequest request;
    request.set_id(id);
    request.mutable_trainer()->set_job_id("job-1");
    request.set_follow(follow);
    return request;
  }

  // The next piece as "id:data", "end" at the end, "-" when nothing is ready.
  std::string Next() {
    const auto data = streams_.Next();
    if (!data.has_value()) return "-";
    return std::to_string(data->id()) + ":" + data->data() + (data->end() ? "end" : "") +
           (data->error().empty() ? "" : " with an error");
  }

  std::string dir_;
  bool alive_ = true;
  LogStreams streams_{
      [this](const TrainerId& id) { return id.job == JobId("job-1") ? dir_ : std::string(); },
      [this](const TrainerId&) { return alive_; }};
};

TEST_F(LogStreamsTest, PlainRequestEndsAtThePresentEnd) {
  Append("hello\n");
  streams_.Add(Request(1, false));
  EXPECT_EQ(Next(), "1:hello\n");
  EXPECT_EQ(Next(), "1:end");
  EXPECT_TRUE(streams_.empty());
  EXPECT_EQ(Next(), "-");
}

TEST_F(LogStreamsTest, FollowerGoesOnUntilTheTrainerHasEnded) {
  streams_.Add(Request(1, true));
  EXPECT_EQ(Next(), "-");
  Append("a");
  EXPECT_EQ(Next(), "1:a");
  EXPECT_EQ(Next(), "-");
  Append("b");
  alive_ = false;
  EXPECT_EQ(Next(), "1:b");
  EXPECT_EQ(Next(), "1:end");
}

TEST_F(LogStreamsTest, StreamsTakeTurns) {
  Append(std::string(100000, 'x'));
  streams_.Add(Request(1, false));
  streams_.Add(Request(2, false));
  EXPECT_EQ(streams_.Next()->id(), 1);
  EXPECT_EQ(streams_.Next()->id(), 2);
  EXPECT_EQ(streams_.Next()->id(), 1);
  EXPECT_EQ(streams_.Next()->id(), 2);
  EXPECT_EQ(Next(), "1:end");
  EXPECT_EQ(Next(), "2:end");
}

TEST_F(LogStreamsTest, TailBeginsSoManyLinesBeforeTheEnd) {
  Append("one\ntwo\nthree\n");
  v1::LogRequest request = Request(1, false);
  request.set_tail_lines(2);
  streams_.Add(request);
  const auto data = streams_.Next();
  EXPECT_EQ(data->offset(), 4);
  EXPECT_EQ(data->data(), "two\nthree\n");
}

TEST_F(LogStreamsTest, UnknownTrainerIsAnError) {
  v1::LogRequest request = Request(1, true);
  request.mutable_trainer()->set_job_id("job-2");
  streams_.Add(request);
  EXPECT_FALSE(streams_.empty());
  EXPECT_EQ(Next(), "1:end with an error");
  EXPECT_TRUE(streams_.empty());
}

TEST_F(LogStreamsTest, CancelledStreamIsSilent) {
  Append("x");
  streams_.Add(Request(1, true));
  streams_.Cancel(1);
  EXPECT_EQ(Next(), "-");
}

TEST_F(LogStreamsTest, StreamsBeyondTheBoundAreRefused) {
  for (int64_t id = 1; id <= 257; ++id) streams_.Add(Request(id, true));
  EXPECT_EQ(Next(), "257:end with an error");
}

}  // namespace
}  // namespace paceline
