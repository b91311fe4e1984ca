// Builds answers that describe many things: on the loop in turns (common/turns.h). Encoding and
// writing, which take as long as building, happen on another thread.
//
// Runs on the loop.
#ifndef CONTROLLER_API_SERVICES_LISTS_H_
#define CONTROLLER_API_SERVICES_LISTS_H_

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <utility>
#include <vector>

#include "common/event_loop.h"
#include "common/identity/principal.h"
#include "common/turns.h"
#include "controller/api/admission/call_limits.h"
#include "controller/api/services/sender.h"

namespace paceline {

class Lists {
 public:
  // All outlive this.
  Lists(EventLoop* loop, Sender* sender, CallLimits* limits)
      : turns_(loop), sender_(sender), limits_(limits) {}

  // Describes each key in the reply by `add`, then finishes the call. `add` returns how many parts
  // it had to describe, which the caller is charged for; the thing that a key stands for may be
  // gone by then.
  template <typename Key>
  void Make(const Principal& caller, std::vector<Key> keys, std::function<int(const Key&)> add,
            grpc::ServerUnaryReactor* call) {
    const auto charged = [limits = limits_, caller, add = std::move(add)](const Key& key) {
      const int parts = add(key);
      limits->Charge(caller, parts, EventLoop::Now());
      return parts;
    };
    turns_.Add<Key>(std::move(keys), charged, [sender = sender_, call] {
      sender->Post([call] { call->Finish(grpc::Status::OK); });
    });
  }

 private:
  Turns turns_;
  Sender* const sender_;
  CallLimits* const limits_;
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_LISTS_H_
