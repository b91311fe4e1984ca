// A controller that wants to know who calls, over real sockets: users with tokens, on one
// connection for all of them, through gRPC's credentials for local connections.
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

// Of two jobs that train, one of alice, whom the other does not know of, and one of bob.
class RolesTest : public ServerTest {
 protected:
  RolesTest();

  void WriteTokens(const std::vector<std::string>& users);

  // Without TLS, by the name that the caller says; it trains then.
  std::string SubmitAs(const std::string& user, PlayedWorker* worker, int trainers);

  grpc::Status GetAs(const std::string& user, const std::string& reference);
  // Ids, from pages of one.
  std::vector<std::string> ListAs(const std::string& user);
  std::string NextId();

  std::string alice_;
  std::string bob_;
  int requests_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_TESTING_ROLES_FIXTURE_H_
