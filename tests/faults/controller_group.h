// Several controllers of one test over one etcd, run as by a service manager: one that ends by
// itself is started again at its address. A TcpProxy is between each controller and etcd member.
//
// Thread-compatible.
#ifndef TESTS_FAULTS_CONTROLLER_GROUP_H_
#define TESTS_FAULTS_CONTROLLER_GROUP_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/etcd/etcd_cluster.h"
#include "tests/etcd/tcp_proxy.h"
#include "tests/integration/process.h"

namespace paceline {

class ControllerGroup {
 public:
  // Starts `controllers` controllers, which stand by, with `flags` besides the flags for their
  // addresses and identity. `etcd` outlives them.
  ControllerGroup(const EtcdCluster& etcd, int controllers, std::vector<std::string> flags = {},
                  const std::vector<std::string>& identity = {"--plaintext"});
  // Ends them by SIGTERM; the test fails if one ends with an unexpected exit code.
  ~ControllerGroup();

  // The addresses of all of them, separated by commas.
  std::string Addresses() const;
  // Waits until one leads, restarting those that have been deposed, and returns its number.
  int WaitForLeader();
  // The same for a controller other than `before`.
  int WaitForLeaderAfter(int before);
  bool Leads(int controller) const;
  const std::string& Address(int controller) const { return members_.at(controller).grpc; }

  void Signal(int controller, int signal) const;
  void Kill(int controller);
  void Start(int controller);
  // Waits until it ends by itself and returns its exit code.
  int WaitForEnd(int controller);
  // Its proxies to etcd.
  std::vector<std::unique_ptr<TcpProxy>>& Wires(int controller) {
    return members_.at(controller).wires;
  }

  // What it has written to its log, over its starts.
  std::string Log(int controller) const { return ReadFile(File(controller, "log")); }
  // Reads their logs: the test fails if one acted as leader after a later one was elected.
  void ExpectOneLeaderAtATime() const;

 private:
  struct Member {
    std::string grpc;
    std::string http;
    std::vector<std::unique_ptr<TcpProxy>> wires;
    std::optional<Process> process;
  };

  std::string File(int controller, const std::string& name) const;

  std::string directory_;
  std::vector<std::string> flags_;
  std::vector<Member> members_;
};

}  // namespace paceline

#endif  // TESTS_FAULTS_CONTROLLER_GROUP_H_
