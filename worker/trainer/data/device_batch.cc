#include "worker/trainer/data/device_batch.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace paceline {

c10::Stream NewCopyStream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

DeviceBatch::DeviceBatch(const Batch& host, c10::Stream copies)
    : copies_(copies), copied_(copies.device_type()), used_(copies.device_type()) {
  const auto on_device = at::TensorOptions().device(copies.device()).pinned_memory(false);
  batch_.inputs = at::empty_like(host.inputs, on_device.dtype(host.inputs.dtype()));
  batch_.targets = at::empty_like(host.targets, on_device.dtype(host.targets.dtype()));
  whole_ = batch_;
  // If freed, the memory must not be reused before the copies are done.
  const c10::impl::VirtualGuardImpl device(copies.device_type());
  for (const at::Tensor* tensor : {&batch_.inputs, &batch_.targets}) {
    device.recordDataPtrOnStream(tensor->storage().data_ptr(), copies_);
  }
  // Earlier users of this memory must be done, too.
  EndUse();
}

void DeviceBatch::Copy(const Batch& host) {
  used_.block(copies_);
  const c10::StreamGuard guard(copies_);
  if (batch_.inputs.size(0) != host.samples) {
    batch_.inputs = whole_.inputs.narrow(0, 0, host.samples);
    batch_.targets = whole_.targets.narrow(0, 0, host.samples);
  }
  batch_.inputs.copy_(host.inputs, /*non_blocking=*/true);
  batch_.targets.copy_(host.targets, /*non_blocking=*/true);
  batch_.samples = host.samples;
  batch_.tokens = host.tokens;
  batch_.workload = host.workload;
  copied_.record(copies_);
}

const Batch& DeviceBatch::Use() {
  copied_.block(CurrentStream());
  return batch_;
}

void DeviceBatch::EndUse() { used_.record(CurrentStream()); }

c10::Stream DeviceBatch::CurrentStream() const {
  return c10::impl::VirtualGuardImpl(copies_.device_type()).getStream(copies_.device());
}

}  // namespace paceline
