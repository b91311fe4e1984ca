#include "worker/trainer/data/batch_loader.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "worker/trainer/data/device_batch.h"

namespace paceline {
namespace {

// How often a thread looks whether a copy is done; waiting for the event would keep a core busy.
constexpr absl::Duration kCopyPoll = absl::Microseconds(100);

}  // namespace

// Batch n goes into slot n modulo their number. It is claimed when the slot is free, filled by
// the thread that claimed it, handed out when its turn has come, and the slot is free again
// when the next batch is asked for.
class BatchLoader::Ring {
 public:
  Ring(const Dataset& dataset, const Options& options)
      : dataset_(dataset),
        options_(options),
        sampler_(options.sampler, options.start),
        position_(options.start) {
    const bool is_cpu = options.device.is_cpu();
    if (!is_cpu) copies_ = NewCopyStream(options.device);
    const int slots = options.threads == 0 ? 1 : std::max(options.batches_ahead, 1) + 1;
    for (int i = 0; i < slots; ++i) {
      Slot& slot = slots_.emplace_back();
      slot.host = dataset.Allocate(options.sampler.batch, /*pinned=*/!is_cpu);
      if (!is_cpu) slot.device.emplace(slot.host, *copies_);
    }
    for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { Run(); });
  }

  ~Ring() {
    {
      const absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    for (std::thread& thread : threads_) thread.join();
  }

  absl::StatusOr<Batch> Next() {
    EndUse();
    if (threads_.empty() && !HasClaimed()) FillOne(Claim());
    Slot& slot = Wait();
    if (slot.exception) std::rethrow_exception(slot.exception);
    if (!slot.status.ok()) return slot.status;
    in_use_ = true;
    position_ = slot.end;
    return slot.device ? slot.device->Use() : slot.host;
  }

  DataPosition position() const { return position_; }

 private:
  struct Slot {
    Batch host;
    std::optional<DeviceBatch> device;  // Unless the host is the device.
    DataPosition begin;
    DataPosition end;
    std::vector<int64_t> indices;
    absl::Status status;
    std::exception_ptr exception;
    bool is_filled = false;  // Written and read under mutex_.
  };

  Slot& SlotOf(int64_t number) { return slots_[static_cast<size_t>(number) % slots_.size()]; }

  // Frees the slot of the batch that was handed out last.
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

  // Waits until the batch whose turn it is has been filled.
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

  // The slot to fill next, when it is free; null when the loader ends.
  Slot* Claim() {
    const absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Ring::MayGoOn));
    if (stopping_) return nullptr;
    Slot& slot = SlotOf(claimed_++);
    slot.begin = sampler_.position();
    sampler_.Skip();
    slot.end = sampler_.position();
    return &slot;
  }

  void Run() {
    // Torch gives a thread its first device back after work on another, which costs memory there.
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
  Sampler sampler_ ABSL_GUARDED_BY(mutex_);  // Behind the batches claimed.
  int64_t claimed_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Of the batch whose turn it is. Written by Next alone, under mutex_.
  int64_t next_ = 0;

  // Of Next.
  bool in_use_ = false;  // Batch next_ has been handed out.
  DataPosition position_;

  std::deque<Slot> slots_;  // One owner at a time: who claimed it, then Next.
  std::vector<std::thread> threads_;
};

BatchLoader::BatchLoader(const Dataset& dataset, const Options& options)
    : ring_(std::make_unique<Ring>(dataset, options)) {}

BatchLoader::~BatchLoader() = default;

absl::StatusOr<Batch> BatchLoader::Next() { return ring_->Next(); }

DataPosition BatchLoader::position() const { return ring_->position(); }

}  // namespace paceline
