#include "controller/testing/running_server.h"

#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace paceline {
namespace {

ServerOptions PlaintextOptions(const std::string& state_dir, const std::string& listen,
                               const Cluster::Options& cluster) {
  ServerOptions options{listen, "127.0.0.1:0", state_dir, state_dir + "/address", "", cluster};
  options.plaintext = true;
  return options;
}

}  // namespace

std::string NewDirectory() {
  std::string folder = ::testing::TempDir() + "/controllerXXXXXX";
  return mkdtemp(folder.data());
}

RunningServer::RunningServer(const std::string& state_dir, const std::string& listen,
                             const Cluster::Options& cluster)
    : RunningServer(PlaintextOptions(state_dir, listen, cluster)) {}

RunningServer::RunningServer(const ServerOptions& options) : address_file_(options.address_file) {
  server_.emplace(options);
  failure_ = server_->Start();
  if (failure_.status.ok()) thread_ = std::thread([this] { failure_ = server_->Run(); });
}

RunningServer::~RunningServer() { Stop(); }

void RunningServer::Stop() {
  if (!thread_.joinable()) return;
  server_->Shutdown();
  thread_.join();
  server_.reset();
}

std::string RunningServer::Address(const char* kind) const {
  std::ifstream file(address_file_);
  return nlohmann::json::parse(file)[kind];
}

std::shared_ptr<grpc::Channel> RunningServer::Channel() const {
  return grpc::CreateChannel(Address("grpc"), grpc::InsecureChannelCredentials());
}

}  // namespace paceline
