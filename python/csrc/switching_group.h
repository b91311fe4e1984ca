// A process group that stays the same object while what connects its members changes.
//
// DeviceMesh, DTensor and FSDP2 keep the groups that they were built with. Each generation connects
// such a group to one of its own; when the generation is over, the group is severed, and its
// collectives throw. The rank may change while it is not connected: a spare builds its model before
// it knows its position. The size never changes.
//
// It has no backend of its own: what asks for one (symmetric memory, memory of the process group's
// allocator) is refused.
//
// Thread-safe: a collective may run on a thread of autograd while another thread severs the group.
#ifndef PYTHON_CSRC_SWITCHING_GROUP_H_
#define PYTHON_CSRC_SWITCHING_GROUP_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace paceline {

class SwitchingGroup : public c10d::ProcessGroup {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;

  // A member that is not connected. `on_entry` is called before each collective, on the thread that
  // enters it.
  SwitchingGroup(int rank, int size, std::function<void()> on_entry = {});

  // Collectives from now on are those of `inner`, which has the same rank and size (else
  // c10::ValueError).
  void Connect(const c10::intrusive_ptr<c10d::ProcessGroup>& inner);
  // Collectives from now on throw c10::DistBackendError. Those under way end when inner's do.
  void Sever();
  bool is_connected() const { return Inner().defined(); }

  // Changes the rank. Throws c10::ValueError while it is connected, or without such a rank.
  void Move(int rank);

  // Those that the connected group takes tensors of; empty: it is not connected.
  std::vector<c10::Device> Devices() const;

  int getRank() const override { return present_rank_; }
  const std::string getBackendName() const override { return "paceline"; }
  // Set by torch when it has made the group; both would ask a backend.
  const std::string& getGroupName() const override { return name_; }
  void setGroupName(const std::string& name) override { name_ = name; }
  const std::string& getGroupDesc() const override { return description_; }
  void setGroupDesc(const std::string& description) override { description_ = description; }

  // The number of collectives that this member has entered.
  uint64_t getSequenceNumberForGroup() override { return entered_; }
  void setSequenceNumberForGroup() override {}

  void startCoalescing(c10::DeviceType device) override;
  WorkPointer endCoalescing(c10::DeviceType device) override;

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) override;
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPointer allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions& options) override;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) override;
  WorkPointer gather(std::vector<Tensors>& outputs, Tensors& inputs,
                     const c10d::GatherOptions& options) override;
  WorkPointer scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                      const c10d::ScatterOptions& options) override;
  WorkPointer reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                             const c10d::ReduceScatterOptions& options) override;
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override;
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options) override;
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<int64_t>& output_splits, std::vector<int64_t>& input_splits,
                            const c10d::AllToAllOptions& options) override;
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs,
                       const c10d::AllToAllOptions& options) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) override;
  WorkPointer send(Tensors& tensors, int to, int tag) override;
  WorkPointer recv(Tensors& tensors, int from, int tag) override;
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;

  // Ends the collectives under way. Does nothing while it is not connected.
  void abort() override;
  // Does nothing: the connection belongs to who has made it.
  void shutdown() override {}

  // Throw c10::NotImplementedError.
  void setTimeout(std::chrono::milliseconds timeout) override;
  c10::intrusive_ptr<c10d::ProcessGroup> splitGroup(
      const std::vector<int>& ranks, const std::optional<std::chrono::milliseconds>& timeout,
      const std::optional<c10::intrusive_ptr<c10d::Backend::Options>>& options,
      const std::optional<std::string>& name,
      const std::optional<std::string>& description) override;
  c10::intrusive_ptr<c10d::ProcessGroup> mergeRemoteGroup(
      const c10::intrusive_ptr<c10d::Store>& store, const MergeOptions& options,
      const int& size) override;
  [[noreturn]] void RefuseBackend() const;

 private:
  // The connected group. Null: there is none.
  c10::intrusive_ptr<c10d::ProcessGroup> Inner() const;
  // The same, or c10::DistBackendError.
  c10::intrusive_ptr<c10d::ProcessGroup> Connected() const;
  // The same, for a collective, which is counted.
  c10::intrusive_ptr<c10d::ProcessGroup> Enter();

  const std::function<void()> on_entry_;  // May be empty.
  std::atomic<int> present_rank_;
  std::atomic<uint64_t> entered_{0};
  std::string name_;
  std::string description_;

  mutable absl::Mutex mu_;
  c10::intrusive_ptr<c10d::ProcessGroup> inner_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paceline

#endif  // PYTHON_CSRC_SWITCHING_GROUP_H_
