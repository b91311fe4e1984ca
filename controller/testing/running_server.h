// A controller for tests: in this process, on free ports, with its loop on a separate thread.
#ifndef CONTROLLER_TESTING_RUNNING_SERVER_H_
#define CONTROLLER_TESTING_RUNNING_SERVER_H_

#include <grpcpp/channel.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "controller/server.h"

namespace paceline {

// Makes a new directory for this test.
std::string NewDirectory();

// Serves from the constructor until Stop or the destructor. Thread-compatible.
class RunningServer {
 public:
  explicit RunningServer(const std::string& state_dir, const std::string& listen = "127.0.0.1:0",
                         const Cluster::Options& cluster = {});
  // Adds an address file to the options.
  explicit RunningServer(const ServerOptions& options);
  ~RunningServer();

  void Stop();

  // Address for "grpc" or "http", as HOST:PORT.
  std::string Address(const char* kind) const;
  std::shared_ptr<grpc::Channel> Channel() const;
  const ServerFailure& failure() const { return failure_; }

 private:
  const std::string address_file_;
  std::optional<Server> server_;
  ServerFailure failure_;
  std::thread thread_;
};

}  // namespace paceline

#endif  // CONTROLLER_TESTING_RUNNING_SERVER_H_
