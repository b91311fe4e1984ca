#include "worker/trainer/comm/gloo_network.h"

#include <net/if.h>

#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "worker/trainer/comm/abortable_backend.h"

namespace paceline {
namespace {

std::shared_ptr<gloo::transport::Device> MakeDevice(const std::string& interface) {
  if (interface.empty()) return c10d::ProcessGroupGloo::createDefaultDevice();
  if (if_nametoindex(interface.c_str()) != 0) {
    return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  }
  return c10d::ProcessGroupGloo::createDeviceForHostname(interface);
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> GlooNetwork::Connect(const TrainerConfig& config,
                                                       const Membership& membership,
                                                       const c10::intrusive_ptr<c10d::Store>& store,
                                                       absl::Duration timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(absl::ToChronoMilliseconds(timeout));
  {
    const absl::MutexLock lock(&mu_);
    if (device_ == nullptr) device_ = MakeDevice(config.interface);
    options->devices.push_back(device_);
  }
  return MakeAbortable(c10::make_intrusive<c10d::ProcessGroupGloo>(store, membership.rank,
                                                                   membership.size, options));
}

}  // namespace paceline
