#include "worker/trainer/comm/shared_sum.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paceline {
namespace {

constexpr size_t kLine = 64;  // Bytes of a cache line.
constexpr size_t kPage = 4096;
constexpr size_t kWords = 1 << 20;        // Bytes before the slots.
constexpr size_t kSlots = 32 << 20;       // Total bytes of all slots.
constexpr size_t kLargestSlot = 4 << 20;  // Maximum bytes of one slot.
constexpr size_t kBlock = 16 << 10;       // Bytes of a slot added up at once.
// With less to add, sleeping members are not woken: waking takes longer.
constexpr size_t kWorthWaking = 512 << 10;
constexpr int64_t kLookAroundMs = 50;

size_t SlotBytes(size_t members) {
  return std::min(kLargestSlot, kSlots / (members + 1)) / kPage * kPage;
}

// Sleeps while the word is `value`. True: it changed or was woken; false: some time has passed.
bool Sleep(std::atomic<uint32_t>& word, uint32_t value) {
  const timespec time{0, kLookAroundMs * 1'000'000};
  return syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0) == 0 || errno != ETIMEDOUT;
}

void WakeAll(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Whether a wrapping counter has reached `to`.
bool HasCome(uint32_t count, uint32_t to) { return static_cast<int32_t>(count - to) >= 0; }

template <typename T>
void Add(const T* __restrict from, size_t count, T* __restrict to) {
  for (size_t i = 0; i < count; ++i) to[i] += from[i];
}

}  // namespace

static_assert(std::atomic<uint32_t>::is_always_lock_free, "shared between processes");

// New memory is all zeros, so all words start at 0.
struct SharedSum::Control {
  // In the k-th sum, k = 1, 2, ...: 2 k - 1 while it is added up, 2 k when it is ready.
  alignas(kLine) Word stage;
  alignas(kLine) Word added;  // k when the members' sum is ready.
  // For the current sum.
  alignas(kLine) Word arrived;
  alignas(kLine) Word next_block;
  alignas(kLine) Word blocks_done;
  alignas(kLine) Word closed;
};

struct SharedSum::Member {
  alignas(kLine) Word sums;  // The sum it has reached.
};

static_assert(SharedSum::kBytes >= kWords + kSlots);

SharedSum::SharedSum(SharedMemory memory, int place, std::vector<int> ranks)
    : memory_(std::move(memory)), place_(static_cast<size_t>(place)), ranks_(std::move(ranks)) {}

SharedSum::~SharedSum() = default;

SharedSum::Control& SharedSum::control() const {
  return *reinterpret_cast<Control*>(memory_.data());
}

SharedSum::Member& SharedSum::member(size_t place) const {
  return reinterpret_cast<Member*>(memory_.data() + sizeof(Control))[place];
}

// A pointer for each member's slot, and one for the sum.
template <typename T>
T* SharedSum::Slot(size_t slot) const {
  return reinterpret_cast<T*>(memory_.data() + kWords + slot * SlotBytes(ranks_.size()));
}

template <typename T>
void SharedSum::Sum(T* values, size_t count, const OverNodes<T>& over_nodes) {
  const size_t slot = SlotBytes(ranks_.size()) / sizeof(T);
  try {
    for (size_t first = 0; first < count; first += slot) {
      SumPart(values + first, std::min(slot, count - first), over_nodes);
    }
  } catch (...) {
    Close();
    throw;
  }
}

template <typename T>
void SharedSum::SumPart(T* values, size_t count, const OverNodes<T>& over_nodes) {
  Control& shared = control();
  if (const std::string closed = ClosedBy(); !closed.empty()) throw std::runtime_error(closed);
  const uint32_t number = ++sums_;
  const size_t members = ranks_.size();
  std::copy(values, values + count, Slot<T>(place_));
  member(place_).sums.store(number);
  const bool is_last = shared.arrived.fetch_add(1) + 1 == members;
  if (is_last) {
    shared.arrived.store(0);
    shared.next_block.store(0);
    shared.blocks_done.store(0);
    shared.stage.store(2 * number - 1);
    if (count * sizeof(T) * members >= kWorthWaking) WakeAll(shared.stage);
  }
  const bool leads = place_ == 0 && over_nodes != nullptr;
  if (!leads) Wait(shared.stage, 2 * number - 1);
  const bool completes = (is_last || !leads) && AddBlocks<T>(count);
  if (over_nodes == nullptr) {
    if (completes) Publish(number);
  } else {
    if (completes) {
      shared.added.store(number);
      WakeAll(shared.added);
    }
    if (leads) {
      Wait(shared.added, number);
      over_nodes(Slot<T>(members), count);
      Publish(number);
    }
  }
  Wait(shared.stage, 2 * number);
  const T* const sum = Slot<T>(members);
  std::copy(sum, sum + count, values);
}

// Returns true if this member has added up the last block.
template <typename T>
bool SharedSum::AddBlocks(size_t count) {
  Control& shared = control();
  const size_t block = kBlock / sizeof(T);
  const auto blocks = static_cast<uint32_t>((count + block - 1) / block);
  const size_t members = ranks_.size();
  bool completes = false;
  while (true) {
    const uint32_t next = shared.next_block.fetch_add(1);
    if (next >= blocks) return completes;
    const size_t first = next * block;
    const size_t length = std::min(block, count - first);
    T* const sum = Slot<T>(members) + first;
    const T* const own = Slot<T>(0) + first;
    std::copy(own, own + length, sum);
    for (size_t place = 1; place < members; ++place) Add(Slot<T>(place) + first, length, sum);
    completes = shared.blocks_done.fetch_add(1) + 1 == blocks;
  }
}

void SharedSum::Publish(uint32_t number) {
  control().stage.store(2 * number);
  WakeAll(control().stage);
}

void SharedSum::Wait(Word& word, uint32_t value) {
  const auto began = std::chrono::steady_clock::now();
  while (true) {
    const uint32_t now = word.load();
    if (HasCome(now, value)) return;
    const bool looks_around = !Sleep(word, now);
    std::string failure = ClosedBy();
    if (failure.empty() && looks_around) {
      const auto waited = std::chrono::steady_clock::now() - began;
      failure = MissingMember(waited >= std::chrono::milliseconds(timeout_ms_.load()));
    }
    // A member that has the sum may leave at once.
    if (!failure.empty() && !HasCome(word.load(), value)) throw std::runtime_error(failure);
  }
}

std::string SharedSum::ClosedBy() const {
  const uint32_t closed = control().closed.load();
  return closed == 0 ? "" : absl::StrCat("rank ", ranks_[closed - 1], " has ended it");
}

std::string SharedSum::MissingMember(bool is_late) const {
  std::vector<int> late;
  for (size_t place = 0; place < ranks_.size(); ++place) {
    if (place != place_ && !memory_.IsTaken(static_cast<int>(place))) {
      return absl::StrCat("rank ", ranks_[place], " has ended or left");
    }
    if (!HasCome(member(place).sums.load(), sums_)) late.push_back(ranks_[place]);
  }
  if (!is_late) return "";
  return absl::StrCat("timed out after ", timeout_ms_.load(), " ms",
                      late.empty() ? "" : ", waiting for rank ", absl::StrJoin(late, ", "));
}

void SharedSum::Close() {
  uint32_t open = 0;
  control().closed.compare_exchange_strong(open, static_cast<uint32_t>(place_) + 1);
  WakeAll(control().stage);
  WakeAll(control().added);
}

template void SharedSum::Sum(float*, size_t, const OverNodes<float>&);
template void SharedSum::Sum(double*, size_t, const OverNodes<double>&);

}  // namespace paceline
