#include "worker/trainer/comm/abortable_backend.h"

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
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
using WorkPointer = c10::intrusive_ptr<Work>;

// How long a collective without connections may take to end by itself.
constexpr milliseconds kAbortGrace(50);

std::exception_ptr Aborted() {
  return std::make_exception_ptr(std::runtime_error("the connections were ended"));
}

// Ends when the inner work ends, or when aborted.
class AbortableWork : public Work {
 public:
  explicit AbortableWork(const WorkPointer& inner)
      : Work(-1, inner->retrieveOpType()),
        inner_(inner),
        future_(c10::make_intrusive<c10::ivalue::Future>(inner->getFuture()->elementType())) {}

  static c10::intrusive_ptr<AbortableWork> Follow(const WorkPointer& inner) {
    auto work = c10::make_intrusive<AbortableWork>(inner);
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

  void abort() override {
    if (!is_done_.exchange(true)) EndWith(Aborted());
  }
  std::vector<at::Tensor> result() override { return inner_->result(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  void EndWith(const std::exception_ptr& error) {
    future_->setError(error);
    finish(error);
  }

  const WorkPointer inner_;
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::atomic<bool> is_done_{false};
};

// A message to one rank. Gloo sends or receives it in the thread that waits.
class AbortableMessage : public Work {
 public:
  AbortableMessage(WorkPointer inner, milliseconds timeout)
      : Work(-1, inner->retrieveOpType()), inner_(std::move(inner)), timeout_(timeout) {}

  bool wait(milliseconds timeout) override {
    if (!inner_->wait(timeout == kNoTimeout ? timeout_ : timeout))
      std::rethrow_exception(Aborted());
    return true;
  }
  void abort() override { inner_->abort(); }

 private:
  const WorkPointer inner_;
  const milliseconds timeout_;
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

  const std::string getBackendName() const override { return inner_->getBackendName(); }
  // Any thread. Takes effect at the next collective.
  void setTimeout(milliseconds timeout) override { timeout_ = timeout; }
  c10d::ErrorType getError() override {
    return abort_begun_ ? c10d::ErrorType::COMM_ERROR : c10d::ErrorType::SUCCESS;
  }
  void setSequenceNumberForGroup() override { inner_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return inner_->getSequenceNumberForGroup(); }

  WorkPointer broadcast(std::vector<at::Tensor>& tensors,
                        const c10d::BroadcastOptions& options) override {
    return Follow(Inner().broadcast(tensors, options));
  }
  WorkPointer allreduce(std::vector<at::Tensor>& tensors,
                        const c10d::AllreduceOptions& options) override {
    return Follow(Inner().allreduce(tensors, options));
  }
  WorkPointer allgather(std::vector<std::vector<at::Tensor>>& outputs,
                        std::vector<at::Tensor>& inputs,
                        const c10d::AllgatherOptions& options) override {
    return Follow(Inner().allgather(outputs, inputs, options));
  }
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& options) override {
    return Follow(Inner()._allgather_base(output, input, options));
  }
  WorkPointer gather(std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
                     const c10d::GatherOptions& options) override {
    return Follow(Inner().gather(outputs, inputs, options));
  }
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<int64_t>& output_splits, std::vector<int64_t>& input_splits,
                            const c10d::AllToAllOptions& options) override {
    return Follow(Inner().alltoall_base(output, input, output_splits, input_splits, options));
  }
  WorkPointer barrier(const c10d::BarrierOptions& options) override {
    return Follow(Inner().barrier(options));
  }
  WorkPointer send(std::vector<at::Tensor>& tensors, int to, int tag) override {
    return Message(Inner().send(tensors, to, tag));
  }
  WorkPointer recv(std::vector<at::Tensor>& tensors, int from, int tag) override {
    return Message(Inner().recv(tensors, from, tag));
  }

 private:
  WorkPointer Follow(const WorkPointer& inner) {
    WorkPointer work = AbortableWork::Follow(inner);
    flights_->Add(work);
    return work;
  }
  WorkPointer Message(const WorkPointer& inner) {
    WorkPointer work = c10::make_intrusive<AbortableMessage>(inner, timeout_.load());
    flights_->Add(work);
    return work;
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
  std::atomic<bool> abort_begun_{false};
  std::atomic<milliseconds> timeout_{::kBackendDefaultTimeout};
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> MakeAbortable(const c10::intrusive_ptr<c10d::Backend>& inner) {
  return c10::make_intrusive<AbortableBackend>(inner);
}

}  // namespace paceline
