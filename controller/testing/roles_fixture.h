// A controller that identifies its callers, over real sockets. Users have tokens and share one
// connection, which uses gRPC's credentials for local connections.
#ifndef CONTROLLER_TESTING_ROLES_FIXTURE_H_
#define CONTROLLER_TESTING_ROLES_FIXTURE_H_

#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "controller/testing/server_fixture.h"

namespace paceline {

std::string TokenOf(const std::string& user);

// A call of a user; without a name, of nobody.
class Call {
 public:
  explicit Call(const std::string& user);
  operator grpc::ClientContext*() { return &context_; }  // NOLINT(google-explicit-constructor)
  grpc::ClientContext* operator->() { return &context_; }

 private:
  grpc::ClientContext context_;
};

// Two jobs that train: one of alice, and one of bob; neither user may know of the other's.
class RolesTest : public ServerTest {
 protected:
  RolesTest();

  void WriteTokens(const std::vector<std::string>& users);

  // Submits without TLS, under the claimed name; the job then trains.
  std::string SubmitAs(const std::string& user, PlayedWorker* worker, int trainers);

  grpc::Status GetAs(const std::string& user, const std::string& reference);
  // Lists ids by pages of one job.
  std::vector<std::string> ListAs(const std::string& user);
  std::string NextId();

  std::string alice_;
  std::string bob_;
  int requests_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_TESTING_ROLES_FIXTURE_H_
