#include "controller/page/page_feed.h"

#include <gtest/gtest.h>

#include <thread>

namespace paceline {
namespace {

TEST(PageFeedTest, ReaderGetsTheNewestStateAndThenWhatFollows) {
  PageFeed feed;
  feed.Publish({"1", {}});
  feed.Publish({"2", {}});
  const auto reader = feed.Listen("");
  EXPECT_EQ(reader->Next(), "event: cluster\ndata: 2\n\n");
  std::thread later([&] { feed.Publish({"3", {}}); });
  EXPECT_EQ(reader->Next(), "event: cluster\ndata: 3\n\n");
  later.join();
}

TEST(PageFeedTest, SlowReaderMissesStates) {
  PageFeed feed;
  feed.Publish({"0", {}});
  const auto reader = feed.Listen("");
  reader->Next();
  for (int i = 1; i < 100; ++i) feed.Publish({std::to_string(i), {}});
  EXPECT_EQ(reader->Next(), "event: cluster\ndata: 99\n\n");
}

TEST(PageFeedTest, ReaderGetsTheJobItLooksAt) {
  PageFeed feed;
  const auto a = feed.Listen("job-a");
  const auto both = feed.Listen("job-a");
  const auto b = feed.Listen("job-b");
  const auto none = feed.Listen("");
  EXPECT_EQ(feed.Jobs(), (std::set<std::string>{"job-a", "job-b"}));
  feed.Publish({"all", {{"job-a", "A"}}});
  EXPECT_EQ(a->Next(), "event: cluster\ndata: all\n\nevent: job\ndata: A\n\n");
  EXPECT_EQ(b->Next(), "event: cluster\ndata: all\n\n");
  EXPECT_EQ(none->Next(), "event: cluster\ndata: all\n\n");
}

TEST(PageFeedTest, CommentKeepsAStreamWithoutNewsAlive) {
  PageFeed feed(/*alive=*/absl::ZeroDuration());
  const auto reader = feed.Listen("");
  EXPECT_EQ(reader->Next(), ":\n\n");
  feed.Publish({"1", {}});
  EXPECT_EQ(reader->Next(), "event: cluster\ndata: 1\n\n");
  EXPECT_EQ(reader->Next(), ":\n\n");
}

TEST(PageFeedTest, KnowsWhetherAnybodyListens) {
  PageFeed feed;
  EXPECT_FALSE(feed.HasReaders());
  auto first = feed.Listen("job-a");
  auto second = feed.Listen("job-a");
  first.reset();
  EXPECT_TRUE(feed.HasReaders());
  EXPECT_EQ(feed.Jobs().size(), 1U);
  second.reset();
  EXPECT_FALSE(feed.HasReaders());
}

TEST(PageFeedTest, ForgottenStateIsNotHandedOut) {
  PageFeed feed;
  feed.Publish({"old", {}});
  feed.Clear();
  const auto reader = feed.Listen("");
  std::thread later([&] { feed.Publish({"new", {}}); });
  EXPECT_EQ(reader->Next(), "event: cluster\ndata: new\n\n");
  later.join();
}

TEST(PageFeedTest, CancelledReaderEnds) {
  PageFeed feed;
  const auto reader = feed.Listen("");
  std::thread later([&] { reader->Cancel(); });
  EXPECT_EQ(reader->Next(), "");
  later.join();
  feed.Publish({"more", {}});
  EXPECT_EQ(reader->Next(), "");
}

}  // namespace
}  // namespace paceline
