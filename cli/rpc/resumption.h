// Decides when to reopen a stream that has ended.
//
//   Resumption resumption(client, deadline, on_outage);
//   do {
//     status = client.Stream(methods::kJobWatch, request, [&](event) { resumption.Arrived(); });
//   } while (resumption.Again(&status));
//
// A stream that never brought anything is given up after the client's timeout. One that did is
// reopened for as long as the deadline allows, since the job also continues.
//
// Thread-compatible.
#ifndef CLI_RPC_RESUMPTION_H_
#define CLI_RPC_RESUMPTION_H_

#include <functional>

#include "absl/time/time.h"
#include "cli/rpc/client.h"
#include "common/core/backoff.h"
#include "grpcpp/support/status.h"

namespace paceline {

class Resumption {
 public:
  // `on_outage` is called once per outage.
  Resumption(Client& client, absl::Time deadline,
             std::function<void(const grpc::Status&)> on_outage);

  // Call when something arrived, so the server is there.
  void Arrived();

  // The server is there but says that what was asked for is not; keep waiting for it.
  void Answered() { arrived_ = true; }

  // Waits, and returns true, if the stream that ended with `status` should be reopened. Returns
  // false if it is over: `status` was OK or a permanent error, the deadline has passed, or the user
  // interrupted; `status` then says which.
  bool Again(grpc::Status* status);

 private:
  Client& client_;
  const absl::Time deadline_;
  const absl::Time first_deadline_;
  const std::function<void(const grpc::Status&)> on_outage_;
  Backoff backoff_;
  bool arrived_ = false;
  bool out_ = false;
};

}  // namespace paceline

#endif  // CLI_RPC_RESUMPTION_H_
