#include "worker/trainer/comm/abortable_backend.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/stack.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace paceline {
namespace {

using c10d::Work;
using std::chrono::milliseconds;
using Tensors = std::vector<at::Tensor>;
using WorkPointer = c10::intrusive_ptr<Work>;

// What a backend shares with its works.
struct Shared {
  std::atomic<bool> has_failed{false};  // Any of the works.
  std::function<void(bool waits)> on_wait = [](bool /*waits*/) {};
};
using SharedPointer = std::shared_ptr<Shared>;

// This thread waits for a work as long as this lives.
struct Waiting {
  explicit Waiting(const Shared& with) : shared(with) { shared.on_wait(true); }
  ~Waiting() { shared.on_wait(false); }
  const Shared& shared;
};

// How long a collective without connections may take to end by itself.
constexpr milliseconds kAbortGrace(50);

std::exception_ptr Aborted() {
  return std::make_exception_ptr(std::runtime_error("the connections were ended"));
}

// Ends when the inner work ends, or when aborted.
class AbortableWork : public Work {
 public:
  AbortableWork(const WorkPointer& inner, SharedPointer shared)
      : Work(-1, inner->retrieveOpType()),
        inner_(inner),
        shared_(std::move(shared)),
        future_(c10::make_intrusive<c10::ivalue::Future>(inner->getFuture()->elementType())) {}

  static c10::intrusive_ptr<AbortableWork> Follow(const WorkPointer& inner,
                                                  const SharedPointer& shared) {
    auto work = c10::make_intrusive<AbortableWork>(inner, shared);
    inner->getFuture()->addCallback([work](c10::ivalue::Future& done) {
      if (work->is_done_.exchange(true)) return;
      if (done.hasError()) {
        work->EndWith(done.exception_ptr());
      } else {
        work->future_->markCompleted(done.value());
        work->finish();
      }
    });
    return work;
  }

  bool wait(milliseconds timeout) override {
    const Waiting waiting(*shared_);
    return Work::wait(timeout);
  }
  void abort() override {
    if (!is_done_.exchange(true)) EndWith(Aborted());
  }
  std::vector<at::Tensor> result() override { return inner_->result(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  void EndWith(const std::exception_ptr& error) {
    shared_->has_failed = true;
    future_->setError(error);
    finish(error);
  }

  const WorkPointer inner_;
  const SharedPointer shared_;
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::atomic<bool> is_done_{false};
};

// A message to one rank. Gloo sends or receives it in the thread that waits.
class AbortableMessage : public Work {
 public:
  AbortableMessage(WorkPointer inner, milliseconds timeout, SharedPointer shared)
      : Work(-1, inner->retrieveOpType()),
        inner_(std::move(inner)),
        timeout_(timeout),
        shared_(std::move(shared)) {}

  bool wait(milliseconds timeout) override {
    const Waiting waiting(*shared_);
    try {
      if (!inner_->wait(timeout == kNoTimeout ? timeout_ : timeout)) {
        std::rethrow_exception(Aborted());
      }
    } catch (...) {
      shared_->has_failed = true;
      throw;
    }
    return true;
  }
  void abort() override { inner_->abort(); }
  int sourceRank() const override { return inner_->sourceRank(); }

 private:
  const WorkPointer inner_;
  const milliseconds timeout_;
  const SharedPointer shared_;
};

// A reduction of which each member keeps a part. Gloo makes it of sums over all members, and lets
// the thread that waits do the rest, so that its own work has no end that could be followed. This
// is the same, made of works that can be aborted.
class ScatteredSums : public Work {
 public:
  // Each of `sums` is a contiguous tensor for the work of the same index, with a part for each of
  // `size` members. This member keeps the part number `rank`.
  ScatteredSums(std::vector<WorkPointer> works, std::vector<at::Tensor> sums,
                std::vector<at::Tensor> outputs, int rank, int size)
      : Work(-1, c10d::OpType::REDUCE_SCATTER),
        works_(std::move(works)),
        sums_(std::move(sums)),
        outputs_(std::move(outputs)),
        rank_(rank),
        size_(size) {}

  bool wait(milliseconds timeout) override {
    // Functional collectives wait for each output, which may have been changed since.
    if (isCompleted()) return true;
    for (size_t i = 0; i < works_.size(); ++i) {
      works_[i]->wait(timeout);
      outputs_[i].copy_(sums_[i].view({size_, -1}).select(0, rank_).view_as(outputs_[i]));
    }
    finish();
    return true;
  }
  void abort() override {
    for (const WorkPointer& work : works_) work->abort();
  }

 private:
  const std::vector<WorkPointer> works_;
  const std::vector<at::Tensor> sums_;
  const std::vector<at::Tensor> outputs_;
  const int rank_;
  const int size_;
};

// The works that may be under way, and whether they were aborted.
class Flights {
 public:
  void Add(const WorkPointer& work) {
    bool aborted = false;
    {
      const absl::MutexLock lock(&mu_);
      aborted = aborted_;
      works_.erase(std::remove_if(works_.begin(), works_.end(),
                                  [](const auto& one) { return one.expired(); }),
                   works_.end());
      works_.emplace_back(work);
    }
    if (aborted) work->abort();
  }

  void Abort() {
    std::vector<WorkPointer> works;
    {
      const absl::MutexLock lock(&mu_);
      aborted_ = true;
      for (const auto& one : works_) {
        if (WorkPointer work = one.lock()) works.push_back(std::move(work));
      }
    }
    for (const WorkPointer& work : works) work->abort();
  }

 private:
  absl::Mutex mu_;
  bool aborted_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<c10::weak_intrusive_ptr<Work>> works_ ABSL_GUARDED_BY(mu_);
};

class AbortableBackend : public c10d::Backend {
 public:
  explicit AbortableBackend(const c10::intrusive_ptr<c10d::Backend>& inner)
      : Backend(inner->getRank(), inner->getSize()), inner_(inner) {}

  // The inner backend waits for its threads, of which one may hang until its timeout.
  ~AbortableBackend() override {
    if (abort_begun_)
      std::thread([inner = std::move(inner_)]() mutable { inner.reset(); }).detach();
  }

  void abort() override {
    if (abort_begun_.exchange(true)) return;
    std::thread([flights = flights_] {
      std::this_thread::sleep_for(kAbortGrace);
      flights->Abort();
    }).detach();
  }

  void Listen(std::function<void(bool waits)> on_wait) { shared_->on_wait = std::move(on_wait); }

  const std::string getBackendName() const override { return inner_->getBackendName(); }
  // Any thread. Takes effect at the next collective.
  void setTimeout(milliseconds timeout) override { timeout_ = timeout; }
  c10d::ErrorType getError() override {
    return abort_begun_ || shared_->has_failed ? c10d::ErrorType::COMM_ERROR
                                               : c10d::ErrorType::SUCCESS;
  }
  void setSequenceNumberForGroup() override { inner_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return inner_->getSequenceNumberForGroup(); }

  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override {
    return inner_->getBackendOptions();
  }
  void enableCollectivesTiming() override { inner_->enableCollectivesTiming(); }

  // From one member to all, from all to one.
  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return Follow(Inner().broadcast(tensors, options));
  }
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    return Follow(Inner().reduce(tensors, options));
  }
  WorkPointer gather(std::vector<Tensors>& outputs, Tensors& inputs,
                     const c10d::GatherOptions& options) override {
    return Follow(Inner().gather(outputs, inputs, options));
  }
  WorkPointer scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                      const c10d::ScatterOptions& options) override {
    return Follow(Inner().scatter(outputs, inputs, options));
  }

  // Sums and the like that all get.
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return Follow(Inner().allreduce(tensors, options));
  }
  WorkPointer allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return Follow(Inner().allreduce_sparse(tensors, options));
  }
  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) override {
    return Follow(Inner().allreduce_coalesced(tensors, options));
  }

  // All get what all have.
  WorkPointer allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions& options) override {
    return Follow(Inner().allgather(outputs, inputs, options));
  }
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& options) override {
    return Follow(Inner()._allgather_base(output, input, options));
  }
  WorkPointer allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) override {
    return Follow(Inner().allgather_coalesced(outputs, inputs, options));
  }
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) override {
    return Follow(Inner().allgather_into_tensor_coalesced(outputs, inputs, options));
  }

  // Each gets a part of the sums.
  WorkPointer reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                             const c10d::ReduceScatterOptions& options) override {
    Tensors sums;
    for (const Tensors& input : inputs) sums.push_back(at::stack(input).detach());
    return SumAndScatter(outputs, std::move(sums), options);
  }
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override {
    return SumAndScatter({output}, {CopyOf(input)}, options);
  }
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options) override {
    Tensors sums;
    for (const at::Tensor& input : inputs) sums.push_back(CopyOf(input));
    return SumAndScatter(outputs, std::move(sums), options);
  }

  // Each sends a part to each.
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<int64_t>& output_splits, std::vector<int64_t>& input_splits,
                            const c10d::AllToAllOptions& options) override {
    return Follow(Inner().alltoall_base(output, input, output_splits, input_splits, options));
  }
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs,
                       const c10d::AllToAllOptions& options) override {
    return Follow(Inner().alltoall(outputs, inputs, options));
  }

  WorkPointer barrier(const c10d::BarrierOptions& options) override {
    return Follow(Inner().barrier(options));
  }
  // Waits in the caller's thread. Its messages are too short to be half-way: the shutdown of the
  // connections ends it.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) override {
    const Waiting waiting(*shared_);
    try {
      if (abort_begun_) std::rethrow_exception(Aborted());
      Inner().monitoredBarrier(options, wait_for_all);
    } catch (...) {
      shared_->has_failed = true;
      throw;
    }
  }

  WorkPointer send(Tensors& tensors, int to, int tag) override {
    return Message(Inner().send(tensors, to, tag));
  }
  WorkPointer recv(Tensors& tensors, int from, int tag) override {
    return Message(Inner().recv(tensors, from, tag));
  }
  WorkPointer recvAnysource(Tensors& tensors, int tag) override {
    return Message(Inner().recvAnysource(tensors, tag));
  }

 private:
  static at::Tensor CopyOf(const at::Tensor& tensor) {
    return tensor.detach().clone(at::MemoryFormat::Contiguous);
  }

  WorkPointer Follow(const WorkPointer& inner) {
    WorkPointer work = AbortableWork::Follow(inner, shared_);
    flights_->Add(work);
    return work;
  }
  WorkPointer Message(const WorkPointer& inner) {
    WorkPointer work = c10::make_intrusive<AbortableMessage>(inner, timeout_.load(), shared_);
    flights_->Add(work);
    return work;
  }
  // `sums` are this member's addends, which are overwritten.
  WorkPointer SumAndScatter(const Tensors& outputs, Tensors sums,
                            const c10d::ReduceScatterOptions& options) {
    TORCH_CHECK(outputs.size() == sums.size(), "reduce_scatter: ", outputs.size(), " outputs for ",
                sums.size(), " inputs");
    c10d::AllreduceOptions of_sum;
    of_sum.reduceOp = options.reduceOp;
    of_sum.timeout = options.timeout;
    std::vector<WorkPointer> works;
    for (size_t i = 0; i < sums.size(); ++i) {
      TORCH_CHECK(outputs[i].numel() * getSize() == sums[i].numel() &&
                      outputs[i].scalar_type() == sums[i].scalar_type(),
                  "reduce_scatter: an output must be as large as one of ", getSize(),
                  " parts of its input, and of the same type");
    }
    for (const at::Tensor& sum : sums) {
      Tensors one{sum};
      works.push_back(allreduce(one, of_sum));
    }
    return c10::make_intrusive<ScatteredSums>(std::move(works), std::move(sums), outputs, getRank(),
                                              getSize());
  }

  // The inner backend, with the current timeout set.
  c10d::Backend& Inner() {
    const milliseconds timeout = timeout_;
    if (timeout != inner_timeout_) inner_->setTimeout(inner_timeout_ = timeout);
    return *inner_;
  }

  c10::intrusive_ptr<c10d::Backend> inner_;
  milliseconds inner_timeout_ = ::kBackendDefaultTimeout;  // The timeout last set.
  const std::shared_ptr<Flights> flights_ = std::make_shared<Flights>();
  const SharedPointer shared_ = std::make_shared<Shared>();
  std::atomic<bool> abort_begun_{false};
  std::atomic<milliseconds> timeout_{::kBackendDefaultTimeout};
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> MakeAbortable(const c10::intrusive_ptr<c10d::Backend>& inner) {
  return c10::make_intrusive<AbortableBackend>(inner);
}

void ListenToWaits(const c10d::ProcessGroup& group, std::function<void(bool waits)> listener) {
  const c10::intrusive_ptr<c10d::Backend> backend = group.getDefaultBackend();
  auto* const abortable = dynamic_cast<AbortableBackend*>(backend.get());
  if (abortable != nullptr) abortable->Listen(std::move(listener));
}

}  // namespace paceline
