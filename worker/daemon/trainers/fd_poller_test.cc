#include "worker/daemon/trainers/fd_poller.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace paceline {
namespace {

class FdPollerTest : public ::testing::Test {
 protected:
  FdPollerTest() { EXPECT_EQ(::pipe(pipe_), 0); }
  ~FdPollerTest() override {
    ::close(pipe_[0]);
    ::close(pipe_[1]);
  }
  void Write() { EXPECT_EQ(::write(pipe_[1], "x", 1), 1); }

  int pipe_[2];
  EventLoop loop_;
  FdPoller poller_{loop_};
};

TEST_F(FdPollerTest, RunsOnceWhenReadable) {
  int runs = 0;
  poller_.Arm(pipe_[0], EPOLLIN, [&] {
    ++runs;
    loop_.After(absl::Milliseconds(20), [&] { loop_.Stop(); });
  });
  Write();
  loop_.Run();
  EXPECT_EQ(runs, 1);
}

TEST_F(FdPollerTest, ArmedAgainRunsAgain) {
  poller_.Arm(pipe_[0], EPOLLIN, [&] { poller_.Arm(pipe_[0], EPOLLIN, [&] { loop_.Stop(); }); });
  Write();
  loop_.Run();
}

TEST_F(FdPollerTest, DisarmedDoesNotRunEvenWhenItIsReady) {
  bool ran = false;
  poller_.Arm(pipe_[0], EPOLLIN, [&] { ran = true; });
  loop_.Post([&] {
    Write();
    poller_.Disarm(pipe_[0]);
    loop_.After(absl::Milliseconds(20), [&] { loop_.Stop(); });
  });
  loop_.Run();
  EXPECT_FALSE(ran);
}

TEST_F(FdPollerTest, ClosedPeerCounts) {
  poller_.Arm(pipe_[0], EPOLLIN, [&] { loop_.Stop(); });
  ::close(pipe_[1]);
  loop_.Run();
  pipe_[1] = ::dup(pipe_[0]);
}

}  // namespace
}  // namespace paceline
