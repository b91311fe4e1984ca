// A real etcd of one or more members for one test, on free ports of this machine and in a folder of
// its own.
//
// Thread-compatible.
#ifndef TESTS_ETCD_ETCD_CLUSTER_H_
#define TESTS_ETCD_ETCD_CLUSTER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/store/etcd_client.h"
#include "tests/integration/process.h"

namespace paceline {

class EtcdCluster {
 public:
  // Starts the members and waits until they have a leader. With `tls_dir`, which holds ca.pem,
  // cert.pem and key.pem, clients must show a certificate. `flags`: further flags of each member.
  explicit EtcdCluster(int members = 1, std::string tls_dir = "",
                       std::vector<std::string> flags = {});
  ~EtcdCluster();

  // HOST:PORT of each member.
  const std::vector<std::string>& endpoints() const { return endpoints_; }
  int size() const { return static_cast<int>(endpoints_.size()); }
  std::unique_ptr<EtcdClient> Client() const;

  void Kill(int member);
  void Start(int member);
  // Send SIGSTOP and SIGCONT to all members that run.
  void Freeze() const;
  void Continue() const;
  // Waits until the cluster answers.
  void WaitUntilReady() const;
  // The running member that leads the others.
  int Leader() const;

 private:
  std::string folder_;
  const std::string tls_dir_;
  const std::vector<std::string> flags_;
  std::vector<std::string> endpoints_;
  std::vector<std::string> peers_;
  std::vector<std::optional<Process>> members_;
};

}  // namespace paceline

#endif  // TESTS_ETCD_ETCD_CLUSTER_H_
