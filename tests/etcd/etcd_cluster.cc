#include "tests/etcd/etcd_cluster.h"

#include <arpa/inet.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "etcd/rpc.grpc.pb.h"
#include "tests/integration/new_folder.h"

namespace paceline {
namespace {

constexpr char kProgram[] = "/usr/bin/etcd";

// Addresses at which nobody listens: etcd needs the addresses of all members before one starts.
std::vector<std::string> FreeAddresses(int count) {
  std::vector<std::string> addresses;
  std::vector<int> sockets;
  for (int i = 0; i < count; ++i) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    sockets.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    auto* any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(sockets.back(), any, size), 0);
    EXPECT_EQ(::getsockname(sockets.back(), any, &size), 0);
    addresses.push_back(absl::StrCat("127.0.0.1:", ntohs(address.sin_port)));
  }
  for (const int socket : sockets) ::close(socket);
  return addresses;
}

}  // namespace

EtcdCluster::EtcdCluster(int members, std::string tls_dir, std::vector<std::string> flags)
    : folder_(NewFolder()), tls_dir_(std::move(tls_dir)), flags_(std::move(flags)) {
  const std::vector<std::string> addresses = FreeAddresses(2 * members);
  endpoints_.assign(addresses.begin(), addresses.begin() + members);
  peers_.assign(addresses.begin() + members, addresses.end());
  members_.resize(static_cast<size_t>(members));
  for (int m = 0; m < members; ++m) Start(m);
  WaitUntilReady();
}

EtcdCluster::~EtcdCluster() {
  members_.clear();
  std::filesystem::remove_all(folder_);
}

std::unique_ptr<EtcdClient> EtcdCluster::Client() const {
  return EtcdClient::Create({endpoints_, tls_dir_}).value();
}

void EtcdCluster::Kill(int member) {
  members_.at(static_cast<size_t>(member))->Kill();
  members_.at(static_cast<size_t>(member)).reset();
}

void EtcdCluster::Start(int member) {
  const auto at = static_cast<size_t>(member);
  const std::string scheme = tls_dir_.empty() ? "http://" : "https://";
  std::vector<std::string> cluster;
  for (size_t m = 0; m < peers_.size(); ++m) {
    cluster.push_back(absl::StrCat("m", m, "=http://", peers_[m]));
  }
  std::vector<std::string> command = {
      kProgram,
      absl::StrCat("--name=m", member),
      absl::StrCat("--data-dir=", folder_, "/m", member),
      absl::StrCat("--listen-client-urls=", scheme, endpoints_[at]),
      absl::StrCat("--advertise-client-urls=", scheme, endpoints_[at]),
      absl::StrCat("--listen-peer-urls=http://", peers_[at]),
      absl::StrCat("--initial-advertise-peer-urls=http://", peers_[at]),
      absl::StrCat("--initial-cluster=", absl::StrJoin(cluster, ",")),
      absl::StrCat("--initial-cluster-token=", folder_),
      "--initial-cluster-state=new",
  };
  if (!tls_dir_.empty()) {
    command.insert(command.end(),
                   {"--cert-file=" + tls_dir_ + "/cert.pem", "--key-file=" + tls_dir_ + "/key.pem",
                    "--trusted-ca-file=" + tls_dir_ + "/ca.pem", "--client-cert-auth"});
  }
  command.insert(command.end(), flags_.begin(), flags_.end());
  members_[at].emplace(command, absl::StrCat(folder_, "/m", member, ".log"));
}

void EtcdCluster::Freeze() const {
  for (const auto& member : members_) {
    if (member.has_value()) member->Signal(SIGSTOP);
  }
}

void EtcdCluster::Continue() const {
  for (const auto& member : members_) {
    if (member.has_value()) member->Signal(SIGCONT);
  }
}

void EtcdCluster::WaitUntilReady() const {
  etcdserverpb::RangeRequest request;
  request.set_key("ready");
  const auto client = Client();
  ASSERT_TRUE(Eventually([&] {
    return client->Range(request, {absl::Seconds(1), absl::Seconds(1)}).ok();
  })) << ReadFile(folder_ + "/m0.log");
}

int EtcdCluster::Leader() const {
  const auto channel = [](const std::string& endpoint) {
    return grpc::CreateChannel(endpoint, grpc::InsecureChannelCredentials());
  };
  int found = -1;
  EXPECT_TRUE(Eventually([&] {
    for (size_t m = 0; m < members_.size(); ++m) {
      if (!members_[m].has_value()) continue;
      grpc::ClientContext context;
      context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(1)));
      etcdserverpb::StatusResponse status;
      const grpc::Status asked = etcdserverpb::Maintenance::NewStub(channel(endpoints_[m]))
                                     ->Status(&context, etcdserverpb::StatusRequest(), &status);
      if (asked.ok() && status.leader() != 0 && status.leader() == status.header().member_id()) {
        found = static_cast<int>(m);
      }
    }
    return found >= 0;
  }));
  return found;
}

}  // namespace paceline
