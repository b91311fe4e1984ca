#include "python/csrc/switching_group.h"

#include <c10/util/Exception.h>

#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>

namespace paceline {

using c10d::ProcessGroup;
using WorkPointer = SwitchingGroup::WorkPointer;

SwitchingGroup::SwitchingGroup(int rank, int size, std::function<void()> on_entry)
    : ProcessGroup(rank, size), on_entry_(std::move(on_entry)), present_rank_(rank) {}

void SwitchingGroup::Connect(const c10::intrusive_ptr<ProcessGroup>& inner) {
  TORCH_CHECK_VALUE(inner.defined(), "there is no group to connect to");
  const int rank = inner->getRank();  // Without the lock: a group in Python takes the GIL here.
  const int size = inner->getSize();
  c10::intrusive_ptr<ProcessGroup> former = inner;  // Destroyed without the lock.
  const absl::MutexLock lock(&mu_);
  TORCH_CHECK_VALUE(rank == present_rank_ && size == getSize(), "rank ", present_rank_.load(),
                    " of ", getSize(), " cannot be connected as rank ", rank, " of ", size,
                    "; move it first");
  former.swap(inner_);
}

void SwitchingGroup::Sever() {
  c10::intrusive_ptr<ProcessGroup> former;  // As above: its end may wait for threads.
  const absl::MutexLock lock(&mu_);
  former.swap(inner_);
}

void SwitchingGroup::Move(int rank) {
  const absl::MutexLock lock(&mu_);
  TORCH_CHECK_VALUE(!inner_.defined(), "a connected group cannot be moved to rank ", rank,
                    "; sever it first");
  TORCH_CHECK_VALUE(rank >= 0 && rank < getSize(), "there is no rank ", rank, " of ", getSize());
  present_rank_ = rank;
}

std::vector<c10::Device> SwitchingGroup::Devices() const {
  const c10::intrusive_ptr<ProcessGroup> inner = Inner();
  if (!inner.defined()) return {};
  return inner->getDeviceTypes();
}

c10::intrusive_ptr<ProcessGroup> SwitchingGroup::Inner() const {
  const absl::MutexLock lock(&mu_);
  return inner_;
}

c10::intrusive_ptr<ProcessGroup> SwitchingGroup::Connected() const {
  c10::intrusive_ptr<ProcessGroup> inner = Inner();
  if (!inner.defined()) {
    C10_THROW_ERROR(DistBackendError,
                    "a collective of run.mesh is called outside of a step, while its ranks are not "
                    "connected: call it inside of `with step:`. A model is built without them: "
                    "distribute_tensor and parallelize_module take src_data_rank=None");
  }
  return inner;
}

c10::intrusive_ptr<ProcessGroup> SwitchingGroup::Enter() {
  c10::intrusive_ptr<ProcessGroup> inner = Connected();
  ++entered_;
  if (on_entry_) on_entry_();
  return inner;
}

void SwitchingGroup::startCoalescing(c10::DeviceType device) {
  Connected()->startCoalescing(device);
}

WorkPointer SwitchingGroup::endCoalescing(c10::DeviceType device) {
  return Connected()->endCoalescing(device);
}

WorkPointer SwitchingGroup::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  return Enter()->broadcast(tensors, options);
}

WorkPointer SwitchingGroup::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return Enter()->allreduce(tensors, options);
}

WorkPointer SwitchingGroup::allreduce_coalesced(Tensors& tensors,
                                                const c10d::AllreduceCoalescedOptions& options) {
  return Enter()->allreduce_coalesced(tensors, options);
}

WorkPointer SwitchingGroup::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  return Enter()->reduce(tensors, options);
}

WorkPointer SwitchingGroup::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                      const c10d::AllgatherOptions& options) {
  return Enter()->allgather(outputs, inputs, options);
}

WorkPointer SwitchingGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                            const c10d::AllgatherOptions& options) {
  return Enter()->_allgather_base(output, input, options);
}

WorkPointer SwitchingGroup::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                                const c10d::AllgatherOptions& options) {
  return Enter()->allgather_coalesced(outputs, inputs, options);
}

WorkPointer SwitchingGroup::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                            const c10d::AllgatherOptions& options) {
  return Enter()->allgather_into_tensor_coalesced(outputs, inputs, options);
}

WorkPointer SwitchingGroup::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                   const c10d::GatherOptions& options) {
  return Enter()->gather(outputs, inputs, options);
}

WorkPointer SwitchingGroup::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                    const c10d::ScatterOptions& options) {
  return Enter()->scatter(outputs, inputs, options);
}

WorkPointer SwitchingGroup::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                           const c10d::ReduceScatterOptions& options) {
  return Enter()->reduce_scatter(outputs, inputs, options);
}

WorkPointer SwitchingGroup::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::ReduceScatterOptions& options) {
  return Enter()->_reduce_scatter_base(output, input, options);
}

WorkPointer SwitchingGroup::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  return Enter()->reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

WorkPointer SwitchingGroup::alltoall_base(at::Tensor& output, at::Tensor& input,
                                          std::vector<int64_t>& output_splits,
                                          std::vector<int64_t>& input_splits,
                                          const c10d::AllToAllOptions& options) {
  return Enter()->alltoall_base(output, input, output_splits, input_splits, options);
}

WorkPointer SwitchingGroup::alltoall(Tensors& outputs, Tensors& inputs,
                                     const c10d::AllToAllOptions& options) {
  return Enter()->alltoall(outputs, inputs, options);
}

WorkPointer SwitchingGroup::barrier(const c10d::BarrierOptions& options) {
  return Enter()->barrier(options);
}

void SwitchingGroup::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) {
  Enter()->monitoredBarrier(options, wait_for_all);
}

WorkPointer SwitchingGroup::send(Tensors& tensors, int to, int tag) {
  return Enter()->send(tensors, to, tag);
}

WorkPointer SwitchingGroup::recv(Tensors& tensors, int from, int tag) {
  return Enter()->recv(tensors, from, tag);
}

WorkPointer SwitchingGroup::recvAnysource(Tensors& tensors, int tag) {
  return Enter()->recvAnysource(tensors, tag);
}

void SwitchingGroup::abort() {
  const c10::intrusive_ptr<ProcessGroup> inner = Inner();
  if (inner.defined()) inner->abort();
}

void SwitchingGroup::setTimeout(std::chrono::milliseconds /*timeout*/) {
  C10_THROW_ERROR(NotImplementedError,
                  "the time limit of run.mesh is collective_timeout_s of the job's file");
}

c10::intrusive_ptr<ProcessGroup> SwitchingGroup::splitGroup(
    const std::vector<int>& /*ranks*/, const std::optional<std::chrono::milliseconds>& /*timeout*/,
    const std::optional<c10::intrusive_ptr<c10d::Backend::Options>>& /*options*/,
    const std::optional<std::string>& /*name*/, const std::optional<std::string>& /*description*/) {
  C10_THROW_ERROR(NotImplementedError,
                  "run.mesh cannot be split: `mesh` of paceline.init says its dimensions");
}

c10::intrusive_ptr<ProcessGroup> SwitchingGroup::mergeRemoteGroup(
    const c10::intrusive_ptr<c10d::Store>& /*store*/, const MergeOptions& /*options*/,
    const int& /*size*/) {
  C10_THROW_ERROR(NotImplementedError,
                  "run.mesh cannot be merged: `mesh` of paceline.init says its dimensions");
}

void SwitchingGroup::RefuseBackend() const {
  C10_THROW_ERROR(
      NotImplementedError,
      "run.mesh has no backend that stays, as its ranks may change: leave out symmetric "
      "memory and set_allocate_memory_from_process_group_for_comm");
}

}  // namespace paceline
