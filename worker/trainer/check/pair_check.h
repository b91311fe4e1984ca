// Measures the network between two nodes: one's probe dials, the other's daemon serves.
#ifndef WORKER_TRAINER_CHECK_PAIR_CHECK_H_
#define WORKER_TRAINER_CHECK_PAIR_CHECK_H_

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/trainer/check/measurement.h"

namespace paceline {

// Serves probes one after the other, each for ten seconds at most. Thread-compatible.
class PairServer {
 public:
  // Port 0: any. `loopback`: serves only this address of the host; empty: all interfaces.
  static absl::StatusOr<std::unique_ptr<PairServer>> Start(int port,
                                                           const std::string& loopback = "");
  ~PairServer();
  PairServer(const PairServer&) = delete;
  PairServer& operator=(const PairServer&) = delete;

  int port() const { return port_; }

 private:
  PairServer(int fd, int port);
  void Serve();

  const int fd_;
  const int port_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// "pair_latency" of a round trip and "pair_bandwidth" of 64 MiB to the PairServer at `address`
// (host:port). Dials again and again for `patience`; DeadlineExceeded when there is no answer.
absl::StatusOr<std::vector<Measurement>> CheckPair(const std::string& address,
                                                   absl::Duration patience);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECK_PAIR_CHECK_H_
