// The thread that hands messages for watchers and readers to gRPC, in the order in which they were
// posted: a separate event loop, so that the controller's does not write to sockets.
#ifndef CONTROLLER_API_SERVICES_SENDER_H_
#define CONTROLLER_API_SERVICES_SENDER_H_

#include <thread>
#include <utility>

#include "common/event_loop.h"

namespace paceline {

class Sender {
 public:
  Sender() : thread_([this] { loop_.Run(); }) {}
  // Runs what was posted, then ends.
  ~Sender() {
    loop_.Stop();
    thread_.join();
  }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  // From any thread.
  void Post(EventLoop::Task task) { loop_.Post(std::move(task)); }

 private:
  EventLoop loop_;
  std::thread thread_;  // Last: uses the loop.
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_SENDER_H_
