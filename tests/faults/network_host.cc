#include "tests/faults/network_host.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

constexpr char kIp[] = "/sbin/ip";
constexpr char kBridge[] = "bridge";
// A host whose wire does not come up would look like one that is cut off.
constexpr absl::Duration kPatience = absl::Seconds(10);

std::string Namespace(pid_t pid) { return absl::StrCat("/proc/", pid, "/ns/net"); }

absl::Status Run(const std::vector<std::string>& argv) {
  const Finished finished = RunToEnd(argv);
  if (finished.exit_code == 0) return absl::OkStatus();
  std::string command;
  for (const std::string& argument : argv) absl::StrAppend(&command, argument, " ");
  return absl::UnavailableError(absl::StrCat(command, "failed: ", finished.output));
}

// Becomes root of a user namespace, in which everyone may make networks.
bool BecomeRoot() {
  const uid_t user = ::getuid();
  const gid_t group = ::getgid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
  std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
  return ::getuid() == 0;
}

absl::Status MakeNetwork() {
  for (const char* program : {kIp, "/usr/bin/unshare", "/usr/bin/nsenter", "/usr/bin/setpriv"}) {
    if (!std::filesystem::exists(program)) {
      return absl::NotFoundError(absl::StrCat(program, " is missing"));
    }
  }
  if (::unshare(CLONE_NEWNET) != 0 && !BecomeRoot()) {
    return absl::ErrnoToStatus(errno, "this user may not make network namespaces");
  }
  const std::string address = absl::StrCat(kBridgeAddress, "/24");
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{kIp, "link", "set", "lo", "up"},
                                             {kIp, "link", "add", kBridge, "type", "bridge"},
                                             {kIp, "address", "add", address, "dev", kBridge},
                                             {kIp, "link", "set", kBridge, "up"}}) {
    const absl::Status done = Run(command);
    if (!done.ok()) return done;
  }
  return absl::OkStatus();
}

Process StartHolder() {
  return Process({"/usr/bin/setpriv", "--pdeathsig", "KILL", "/usr/bin/unshare", "--net",
                  "/usr/bin/sleep", "infinity"},
                 "/dev/null");
}

}  // namespace

absl::Status EnterOwnNetwork() {
  static const absl::Status entered = MakeNetwork();
  return entered;
}

NetworkHost::NetworkHost(int number)
    : wire_(absl::StrCat("wire", number)),
      address_(absl::StrCat("10.77.0.", number + 2)),
      holder_(StartHolder()) {
  const auto inode = [](pid_t pid) {
    std::error_code error;
    return std::filesystem::read_symlink(Namespace(pid), error).string();
  };
  EXPECT_TRUE(Eventually([&] { return inode(holder_.pid()) != inode(::getpid()); }, kPatience));
  const std::vector<std::string> enter = Enter();
  const auto there = [&](std::vector<std::string> command) {
    command.insert(command.begin(), enter.begin(), enter.end());
    return command;
  };
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {kIp, "link", "add", wire_, "type", "veth", "peer", "name", "eth0", "netns",
            absl::StrCat(holder_.pid())},
           {kIp, "link", "set", wire_, "master", kBridge, "up"},
           there({kIp, "address", "add", absl::StrCat(address_, "/24"), "dev", "eth0"}),
           there({kIp, "link", "set", "eth0", "up"}),
           there({kIp, "link", "set", "lo", "up"})}) {
    const absl::Status done = Run(command);
    EXPECT_TRUE(done.ok()) << done;
  }
}

NetworkHost::~NetworkHost() {
  if (holder_.pid() != 0) Run({kIp, "link", "delete", wire_}).IgnoreError();
}

std::vector<std::string> NetworkHost::Enter() const {
  return {"/usr/bin/nsenter", absl::StrCat("--net=", Namespace(holder_.pid())), "--"};
}

void NetworkHost::Cut() const {
  const absl::Status done = Run({kIp, "link", "set", wire_, "down"});
  EXPECT_TRUE(done.ok()) << done;
}

void NetworkHost::Mend() const {
  const absl::Status done = Run({kIp, "link", "set", wire_, "up"});
  EXPECT_TRUE(done.ok()) << done;
}

}  // namespace paceline
