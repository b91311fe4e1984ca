#include "worker/daemon/side_threads.h"

#include <gtest/gtest.h>

#include <memory>

namespace paceline {
namespace {

TEST(SideThreadsTest, WorkIsDoneBesideTheLoopAndItsResultTakenOnIt) {
  EventLoop loop;
  SideThreads threads(loop);
  std::thread::id worker;
  std::thread::id taker;
  loop.Post([&] {
    threads.Run([&](const std::atomic<bool>&) { worker = std::this_thread::get_id(); },
                [&] {
                  taker = std::this_thread::get_id();
                  loop.Stop();
                });
  });
  loop.Run();
  EXPECT_EQ(taker, std::this_thread::get_id());
  EXPECT_NE(worker, std::thread::id());
  EXPECT_NE(worker, taker);
}

TEST(SideThreadsTest, WorkThatNobodyWaitsForIsToldToEnd) {
  EventLoop loop;
  auto threads = std::make_unique<SideThreads>(loop);
  bool reported = false;
  bool taken = false;
  loop.Post([&] {
    threads->Run(
        [&](const std::atomic<bool>& stop) {
          while (!stop) std::this_thread::yield();
          reported = true;
        },
        [&] { taken = true; });
    loop.Stop();
  });
  loop.Run();
  threads.reset();
  EXPECT_TRUE(reported);
  EXPECT_FALSE(taken);
}

}  // namespace
}  // namespace paceline
