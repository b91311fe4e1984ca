// A controller for tests: in this process, on free ports, its loop on a thread of its own.
#ifndef CONTROLLER_TESTING_RUNNING_SERVER_H_
#define CONTROLLER_TESTING_RUNNING_SERVER_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "controller/server.h"

namespace paceline {

// A new directory of this test's own.
inline std::string NewDirectory() {
  std::string folder = ::testing::TempDir() + "/controllerXXXXXX";
  return mkdtemp(folder.data());
}

// Serves from the constructor to Stop or the destructor. Thread-compatible.
class RunningServer {
 public:
  explicit RunningServer(const std::string& state_dir, const std::string& listen = "127.0.0.1:0",
                         const Cluster::Options& cluster = {})
      : RunningServer([&] {
          ServerOptions options{listen, "127.0.0.1:0", state_dir, state_dir + "/address",
                                "",     cluster};
          options.plaintext = true;
          return options;
        }()) {}
  // With an address file.
  explicit RunningServer(const ServerOptions& options) : address_file_(options.address_file) {
    server_.emplace(options);
    failure_ = server_->Start();
    if (failure_.status.ok()) thread_ = std::thread([this] { failure_ = server_->Run(); });
  }
  ~RunningServer() { Stop(); }

  void Stop() {
    if (!thread_.joinable()) return;
    server_->Shutdown();
    thread_.join();
    server_.reset();
  }

  std::string Address(const char* kind) const {
    std::ifstream file(address_file_);
    return nlohmann::json::parse(file)[kind];
  }
  std::shared_ptr<grpc::Channel> Channel() const {
    return grpc::CreateChannel(Address("grpc"), grpc::InsecureChannelCredentials());
  }
  const ServerFailure& failure() const { return failure_; }

 private:
  const std::string address_file_;
  std::optional<Server> server_;
  ServerFailure failure_;
  std::thread thread_;
};

}  // namespace paceline

#endif  // CONTROLLER_TESTING_RUNNING_SERVER_H_
