#include "common/service_manager.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

// Listens like systemd, at an address that is not a file.
class ServiceManagerTest : public testing::Test {
 protected:
  ServiceManagerTest() {
    const std::string name = absl::StrCat("paceline-test-", ::getpid());
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, sizeof(address.sun_path) - 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    // A message that never comes is ended by the test's own time limit.
    ::setenv("NOTIFY_SOCKET", absl::StrCat("@", name).c_str(), 1);
  }

  ~ServiceManagerTest() override {
    ::close(socket_);
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);
  }

  std::string NextMessage() {
    char text[256];
    const ssize_t size = ::recv(socket_, text, sizeof(text), 0);
    return std::string(text, size < 0 ? 0 : size);
  }

  bool HasMessage() {
    char text[1];
    return ::recv(socket_, text, sizeof(text), MSG_DONTWAIT | MSG_PEEK) >= 0;
  }

  const int socket_ = ::socket(AF_UNIX, SOCK_DGRAM, 0);
};

TEST_F(ServiceManagerTest, TellsThatTheDaemonServesAndThatItStops) {
  EventLoop loop;
  ReportServing(loop);
  EXPECT_EQ(NextMessage(), "READY=1");
  ReportStopping();
  EXPECT_EQ(NextMessage(), "STOPPING=1");
}

TEST_F(ServiceManagerTest, ReportsAgainAndAgainWhileTheLoopTurns) {
  ::setenv("WATCHDOG_USEC", "2000", 1);
  EventLoop loop;
  ReportServing(loop);
  EXPECT_EQ(NextMessage(), "READY=1");
  EXPECT_FALSE(HasMessage()) << "a loop that does not turn reports";
  std::thread runner([&] { loop.Run(); });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(NextMessage(), "WATCHDOG=1");
  loop.Stop();
  runner.join();
}

TEST_F(ServiceManagerTest, ReportsNothingWithoutAWatchdog) {
  EventLoop loop;
  ReportServing(loop);
  EXPECT_EQ(NextMessage(), "READY=1");
  loop.Post([&] { loop.Stop(); });
  loop.Run();
  EXPECT_FALSE(HasMessage());
}

TEST_F(ServiceManagerTest, IsSilentWhereNobodyListens) {
  ::unsetenv("NOTIFY_SOCKET");
  EventLoop loop;
  ReportServing(loop);
  ReportStopping();
  EXPECT_FALSE(HasMessage());
}

}  // namespace
}  // namespace paceline
