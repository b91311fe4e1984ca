// Groups that exchange host tensors through Gloo.
//
// Thread-safe.
#ifndef WORKER_TRAINER_COMM_GLOO_NETWORK_H_
#define WORKER_TRAINER_COMM_GLOO_NETWORK_H_

#include <c10/util/intrusive_ptr.h>

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/trainer/comm/platform.h"
#include "worker/trainer/config.h"

namespace gloo::transport {
class Device;
}  // namespace gloo::transport

namespace paceline {

class GlooNetwork {
 public:
  // Like Platform::Connect. All groups use the interface in the first call's configuration.
  c10::intrusive_ptr<c10d::Backend> Connect(const TrainerConfig& config,
                                            const Membership& membership,
                                            const c10::intrusive_ptr<c10d::Store>& store,
                                            absl::Duration timeout);

 private:
  absl::Mutex mu_;
  // The network interface and its thread, shared by all groups.
  std::shared_ptr<gloo::transport::Device> device_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_GLOO_NETWORK_H_
