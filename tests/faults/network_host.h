// Hosts for the daemons of one test, each with a wire that can be cut: network namespaces, joined
// by a bridge in a namespace of the test's own. Nothing outside them is touched, and the kernel
// takes them away with the processes that are in them.
//
// Needs ip (iproute2), unshare, nsenter and setpriv, and root, or a kernel that lets users make
// namespaces.
#ifndef TESTS_FAULTS_NETWORK_HOST_H_
#define TESTS_FAULTS_NETWORK_HOST_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/integration/process.h"

namespace paceline {

// Moves the calling thread, and what it starts from now on, into a network of its own, in which its
// address is kBridgeAddress. Call it once per process, before there are threads. An error says
// what is missing.
absl::Status EnterOwnNetwork();
inline constexpr char kBridgeAddress[] = "10.77.0.1";

class NetworkHost {
 public:
  // `number` from 0 on, unique in the test. Requires: EnterOwnNetwork.
  explicit NetworkHost(int number);
  NetworkHost(NetworkHost&& other) = default;
  ~NetworkHost();

  const std::string& address() const { return address_; }
  // The beginning of a command line that runs a command there.
  std::vector<std::string> Enter() const;

  void Cut() const;
  void Mend() const;

 private:
  const std::string wire_;  // The wire's end at the bridge.
  const std::string address_;
  Process holder_;  // Keeps the namespace alive.
};

}  // namespace paceline

#endif  // TESTS_FAULTS_NETWORK_HOST_H_
