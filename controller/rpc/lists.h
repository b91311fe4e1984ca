// Answers that tell of many things: made on the loop in turns (common/turns.h), then encoded and
// written without it, since both take as long as making them.
//
// Runs on the loop.
#ifndef CONTROLLER_RPC_LISTS_H_
#define CONTROLLER_RPC_LISTS_H_

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <utility>
#include <vector>

#include "common/event_loop.h"
#include "common/turns.h"
#include "controller/rpc/sender.h"

namespace paceline {

class Lists {
 public:
  // Both outlive this.
  Lists(EventLoop* loop, Sender* sender) : turns_(loop), sender_(sender) {}

  // Adds what each of the keys stands for to the reply of the call, by `add`, and finishes the
  // call. `add` returns how many parts it had to describe; what a key stands for may have gone
  // meanwhile.
  template <typename Key>
  void Make(std::vector<Key> keys, std::function<int(const Key&)> add,
            grpc::ServerUnaryReactor* call) {
    turns_.Add<Key>(std::move(keys), std::move(add),
                    [this, call] { sender_->Post([call] { call->Finish(grpc::Status::OK); }); });
  }

 private:
  Turns turns_;
  Sender* const sender_;
};

}  // namespace paceline

#endif  // CONTROLLER_RPC_LISTS_H_
