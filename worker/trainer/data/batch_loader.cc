#include "worker/trainer/data/batch_loader.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "worker/trainer/data/device_batch.h"

namespace paceline {
namespace {

// How often a thread checks whether a copy is done; waiting for the event would keep a core busy.
constexpr absl::Duration kCopyPoll = absl::Microseconds(100);
// Batches whose samples a store is asked for before a thread reads them.
constexpr int64_t kBatchesExpected = 64;

}  // namespace

// Batch n uses slot n modulo the number of slots. A thread claims the slot when it is free and
// fills it; Next hands it out in turn; it is free again when the next batch is requested.
class BatchLoader::Ring {
 public:
  Ring(const Dataset& dataset, const Options& options)
      : dataset_(dataset),
        options_(options),
        sampler_(options.sampler, options.start),
        scout_(options.sampler, options.start),
        position_(options.start) {
    const bool is_cpu = options.device.is_cpu();
    if (!is_cpu) copies_ = NewCopyStream(options.device);
    const int slots = options.threads == 0 ? 1 : std::max(options.batches_ahead, 1) + 1;
    for (int i = 0; i < slots; ++i) {
      Slot& slot = slots_.emplace_back();
      slot.host = dataset.Allocate(options.sampler.batch, /*pinned=*/!is_cpu);
      if (!is_cpu) slot.device.emplace(slot.host, *copies_);
    }
    StartThreads();
  }

  ~Ring() {
    {
      const absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    const ReadInterrupt::Scope interrupts(options_.interrupt);
    for (std::thread& thread : threads_) thread.join();
  }

  absl::StatusOr<Batch> Next() {
    if (!started_.ok()) return started_;
    EndUse();
    if (threads_.empty() && !HasClaimed()) FillOne(Claim());
    Slot& slot = Wait();
    if (slot.exception) std::rethrow_exception(slot.exception);
    if (!slot.status.ok()) return slot.status;
    in_use_ = true;
    position_ = slot.end;
    together_ = slot.together;
    return slot.device ? slot.device->Use() : slot.host;
  }

  DataPosition position() const { return position_; }

  int64_t together() const { return together_; }

 private:
  struct Slot {
    Batch host;
    std::optional<DeviceBatch> device;  // Only if the device is not the host.
    DataPosition begin;
    DataPosition end;
    int64_t together = 0;  // Samples of all ranks.
    std::vector<int64_t> indices;
    absl::Status status;
    std::exception_ptr exception;
    bool is_filled = false;  // Guarded by mutex_.
  };

  void StartThreads() {
    try {
      // A thread that has begun must not be dropped.
      threads_.reserve(static_cast<size_t>(options_.threads));
      for (int i = 0; i < options_.threads; ++i) {
        threads_.push_back(options_.start_thread([this] { Run(); }));
      }
    } catch (const std::exception& error) {
      started_ = absl::InternalError(absl::StrCat(
          "only ", threads_.size(), " of the ", options_.threads, " threads that read ",
          dataset_.path(), " could be started: ", error.what(),
          "; raise the limits of threads and memory on this node (--limit-processes and "
          "--limit-memory of paceline-worker, TasksMax of its service, pids.max of its "
          "container), or lower data.prefetch_threads"));
    }
  }

  Slot& SlotOf(int64_t number) { return slots_[static_cast<size_t>(number) % slots_.size()]; }

  // Frees the slot of the last batch handed out.
  void EndUse() {
    if (!in_use_) return;
    in_use_ = false;
    Slot& slot = SlotOf(next_);
    if (slot.device) slot.device->EndUse();
    const absl::MutexLock lock(&mutex_);
    slot.is_filled = false;
    ++next_;
  }

  bool HasClaimed() {
    const absl::MutexLock lock(&mutex_);
    return claimed_ > next_;
  }

  // Waits until the next batch in turn is filled.
  Slot& Wait() {
    const absl::MutexLock lock(&mutex_);
    Slot& slot = SlotOf(next_);
    mutex_.Await(absl::Condition(&slot.is_filled));
    return slot;
  }

  bool MayGoOn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || claimed_ < next_ + static_cast<int64_t>(slots_.size());
  }

  bool IsStopping() {
    const absl::MutexLock lock(&mutex_);
    return stopping_;
  }

  // Waits for the next slot to fill; null when the loader ends.
  Slot* Claim() {
    const absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Ring::MayGoOn));
    if (stopping_) return nullptr;
    Slot& slot = SlotOf(claimed_++);
    slot.begin = sampler_.position();
    slot.together = sampler_.Skip().samples;
    slot.end = sampler_.position();
    try {
      if (dataset_.is_remote()) LookAhead();
    } catch (const std::bad_alloc&) {
      // Less is fetched ahead.
    }
    return &slot;
  }

  // Lets the store fetch what later batches need, as far as it takes requests.
  void LookAhead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (; expected_ < claimed_; ++expected_) {
      if (scouted_.has_value()) {
        scouted_.reset();
      } else {
        scout_.Skip();
      }
    }
    for (; expected_ < claimed_ + kBatchesExpected; ++expected_) {
      if (!scouted_.has_value()) scout_.Next(&scouted_.emplace());
      if (!dataset_.Expect(*scouted_)) return;
      scouted_.reset();
    }
  }

  void Run() {
    // Torch otherwise returns the thread to its first device, which costs memory there.
    const c10::Device device = options_.device;
    if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
    while (Slot* slot = Claim()) FillOne(slot);
  }

  void FillOne(Slot* slot) {
    try {
      slot->status = Fill(slot);
    } catch (...) {
      slot->exception = std::current_exception();
    }
    const absl::MutexLock lock(&mutex_);
    slot->is_filled = true;
  }

  absl::Status Fill(Slot* slot) {
    Sampler(options_.sampler, slot->begin).Next(&slot->indices);
    while (slot->device && !slot->device->IsCopied()) {
      if (IsStopping()) return absl::CancelledError("the loader ends");
      absl::SleepFor(kCopyPoll);
    }
    const absl::Status status = dataset_.Read(slot->indices, &slot->host);
    if (status.ok() && slot->device) slot->device->Copy(slot->host);
    return status;
  }

  const Dataset& dataset_;
  const Options options_;
  std::optional<c10::Stream> copies_;

  absl::Mutex mutex_;
  Sampler sampler_ ABSL_GUARDED_BY(mutex_);  // Behind the claimed batches.
  int64_t claimed_ ABSL_GUARDED_BY(mutex_) = 0;
  Sampler scout_ ABSL_GUARDED_BY(mutex_);  // Behind the batches that the store was asked for.
  int64_t expected_ ABSL_GUARDED_BY(mutex_) = 0;  // Number of the next batch to ask for.
  // Its samples, if scout_ is behind it.
  std::optional<std::vector<int64_t>> scouted_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Number of the next batch in turn. Only Next writes it, under mutex_.
  int64_t next_ = 0;

  // Used by Next only.
  absl::Status started_;  // Whether all threads could be.
  bool in_use_ = false;   // Batch next_ has been handed out.
  DataPosition position_;
  int64_t together_ = 0;

  std::deque<Slot> slots_;  // Owned by the claiming thread, then by Next.
  std::vector<std::thread> threads_;
};

BatchLoader::BatchLoader(const Dataset& dataset, const Options& options)
    : ring_(std::make_unique<Ring>(dataset, options)) {}

BatchLoader::~BatchLoader() = default;

std::thread BatchLoader::StartOwnThread(std::function<void()> run) {
  return std::thread(std::move(run));
}

absl::StatusOr<Batch> BatchLoader::Next() { return ring_->Next(); }

DataPosition BatchLoader::position() const { return ring_->position(); }

int64_t BatchLoader::together() const { return ring_->together(); }

}  // namespace paceline
