// When to open a stream again after it ended.
//
//   Resumption resumption(client, deadline, on_outage);
//   do {
//     status = client.Stream(methods::kJobWatch, request, [&](event) { resumption.Arrived(); });
//   } while (resumption.Again(&status));
//
// A stream that never brought anything is given up when the client's timeout is over; one
// that did is opened again for as long as the deadline allows, since the job goes on too.
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
  // `on_outage`: told once per outage.
  Resumption(Client& client, absl::Time deadline,
             std::function<void(const grpc::Status&)> on_outage);

  // Something came: the server is there.
  void Arrived();

  // The server is there, and tells that what was asked for is not: it is waited for.
  void Answered() { arrived_ = true; }

  // True when the stream that ended with `status` should be opened again; has waited then.
  // False when it is over: `status` was OK, or an error that stays, or the deadline has
  // passed, or the user interrupted. `status` then says which.
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
