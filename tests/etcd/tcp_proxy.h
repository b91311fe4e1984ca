// A proxy between a client and a server of a test, which can be slowed down or cut.
//
// Connections that are cut stay open and hold what was sent, as on a network that loses packets;
// once mended they continue.
//
// Thread-safe.
#ifndef TESTS_ETCD_TCP_PROXY_H_
#define TESTS_ETCD_TCP_PROXY_H_

#include <list>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace paceline {

class TcpProxy {
 public:
  // Listens on a free port of 127.0.0.1 and forwards to `target`, 127.0.0.1:PORT.
  explicit TcpProxy(const std::string& target);
  ~TcpProxy();

  // HOST:PORT.
  const std::string& address() const { return address_; }

  // Delays all that is sent from now on, in each direction.
  void Delay(absl::Duration delay) ABSL_LOCKS_EXCLUDED(mutex_);
  void Cut() ABSL_LOCKS_EXCLUDED(mutex_);
  // Holds only what the server sends.
  void CutAnswers() ABSL_LOCKS_EXCLUDED(mutex_);
  void Mend() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Connection;
  enum class Direction { kToServer, kToClient };

  void Accept();
  void Pump(int from, int to, Direction direction);
  // Waits until received data may be forwarded; false when the proxy ends.
  bool Pass(Direction direction) ABSL_LOCKS_EXCLUDED(mutex_);

  const int target_port_;
  int listener_ = -1;
  std::string address_;

  absl::Mutex mutex_;
  absl::Duration delay_ ABSL_GUARDED_BY(mutex_);
  bool cut_requests_ ABSL_GUARDED_BY(mutex_) = false;
  bool cut_answers_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  // Used by the accepting thread; after its end by the destructor.
  std::list<std::unique_ptr<Connection>> connections_;

  std::thread thread_;  // Last: uses all the others.
};

}  // namespace paceline

#endif  // TESTS_ETCD_TCP_PROXY_H_
