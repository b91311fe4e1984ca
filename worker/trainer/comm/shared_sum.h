// Sums over processes of one node through shared memory.
//
//   each copies its values into a slot of its own ─▶ the last one to arrive lets all who are awake
//   add up the slots, block by block ─▶ [the first one adds other nodes' sums] ─▶ each copies the
//   result
//
// A process sleeps once, where a socket ring makes it wait up to twice per member. Each value is
// added up in the order of the places, whoever does it, so all get the same bits. Longer vectors
// are summed slot by slot.
//
// Waiting members check every 50 ms: if a member is gone or has released the memory, all others
// fail (as with a closed connection). Close and the timeout also fail them.
//
// Used by one thread, except Close and SetTimeout: any thread. Failures throw std::runtime_error
// and make it unusable for all members.
#ifndef WORKER_TRAINER_COMM_SHARED_SUM_H_
#define WORKER_TRAINER_COMM_SHARED_SUM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "worker/trainer/comm/shared_memory.h"

namespace paceline {

class SharedSum {
 public:
  // Size of the memory. Parts that are not needed are never touched.
  static constexpr size_t kBytes = 33 << 20;

  // `ranks`: the members' ranks by place, for messages. This member must have taken its place in
  // `memory`; the others must have before they sum.
  SharedSum(SharedMemory memory, int place, std::vector<int> ranks);
  // Makes the others fail if they sum again.
  ~SharedSum();
  SharedSum(const SharedSum&) = delete;
  SharedSum& operator=(const SharedSum&) = delete;

  // The first member's `over_nodes` gets the members' sum of each part of the values in turn, and
  // may replace it. Either all members pass one, or none does.
  template <typename T>
  using OverNodes = std::function<void(T* sums, size_t count)>;

  // Replaces `values` by their sum over the members. T: float, double.
  template <typename T>
  void Sum(T* values, size_t count, const OverNodes<T>& over_nodes);

  void SetTimeout(absl::Duration timeout) { timeout_ms_ = absl::ToInt64Milliseconds(timeout); }

  // Fails current and later sums on all members.
  void Close();

 private:
  struct Control;
  struct Member;
  using Word = std::atomic<uint32_t>;

  Control& control() const;
  Member& member(size_t place) const;
  template <typename T>
  T* Slot(size_t slot) const;
  template <typename T>
  void SumPart(T* values, size_t count, const OverNodes<T>& over_nodes);
  template <typename T>
  bool AddBlocks(size_t count);
  void Publish(uint32_t number);
  // Waits until the word has reached `value`.
  void Wait(Word& word, uint32_t value);
  // Says who has closed it; empty: nobody.
  std::string ClosedBy() const;
  std::string MissingMember(bool is_late) const;

  const SharedMemory memory_;
  const size_t place_;
  const std::vector<int> ranks_;
  std::atomic<int64_t> timeout_ms_{0};
  uint32_t sums_ = 0;  // Number of sums begun.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_SHARED_SUM_H_
